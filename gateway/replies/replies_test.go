package replies

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func ring() *keyring.Ring { return keyring.FromBytes(bytes.Repeat([]byte{7}, 32)) }

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time       { return time.UnixMicro(c.at.Load()) }
func (c *clock) pass(d time.Duration) { c.at.Add(d.Microseconds()) }

func store(t *testing.T, db *gorm.DB, suite seal.Suite) (*Store, *clock) {
	t.Helper()
	s, err := New(Config{DB: db, Keys: ring(), Suite: suite, Log: slog.New(slog.DiscardHandler), Life: time.Hour, ClaimLife: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{}
	c.at.Store(time.Now().UnixMicro())
	s.now = c.now
	return s, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *gorm.DB) (n int64) {
	t.Helper()
	must(t, db.Model(&replyRow{}).Count(&n).Error)
	return n
}

// TestReplies: an answer comes back as it was, to its owner and nobody else, until its time is over or it is deleted.
func TestReplies(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, c := store(t, db, seal.GM)
		mine := OwnerOf(identity.Principal{Tenant: "acme", Project: "p"})
		must(t, s.Save(t.Context(), mine, Reply{ID: "resp_1", Subject: "d1", Body: []byte("电话13800138000")}))
		must(t, s.Save(t.Context(), mine, Reply{ID: "resp_1", Body: []byte("other")})) // stays as it is
		got, err := s.Load(t.Context(), mine, "resp_1")
		if err != nil || string(got.Body) != "电话13800138000" || got.Subject != "d1" {
			t.Errorf("%+v, %v", got, err)
		}
		for _, o := range []Owner{
			{"acme", "project/q"}, {"other", "project/p"}, OwnerOf(identity.Principal{Tenant: "acme", Project: "p", Owner: "zhang"}), {"acme", ""},
		} {
			if _, err := s.Load(t.Context(), o, "resp_1"); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("%+v: %v", o, err)
			}
			if err := s.Delete(t.Context(), o, "resp_1"); !fault.Is(err, fault.CodeNotFound) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		var rows []map[string]any
		must(t, db.Table("reply_replies").Find(&rows).Error)
		for _, secret := range []string{"138001", "电话"} {
			for column, v := range rows[0] {
				if b, _ := v.([]byte); strings.Contains(fmt.Sprint(v), secret) || bytes.Contains(b, []byte(secret)) {
					t.Errorf("%s shows %s", column, secret)
				}
			}
		}
		c.pass(time.Hour - time.Microsecond)
		if _, err := s.Load(t.Context(), mine, "resp_1"); err != nil {
			t.Error(err)
		}
		must(t, s.sweep(t.Context()))
		if n := count(t, db); n != 1 {
			t.Errorf("%d rows", n)
		}
		c.pass(time.Microsecond)
		if _, err := s.Load(t.Context(), mine, "resp_1"); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("after its time: %v", err)
		}
		must(t, s.sweep(t.Context()))
		if n := count(t, db); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		must(t, s.Save(t.Context(), mine, Reply{ID: "resp_2", Subject: "d1", Body: []byte("x")}))
		must(t, s.Delete(t.Context(), mine, "resp_2"))
		if _, err := s.Load(t.Context(), mine, "resp_2"); !fault.Is(err, fault.CodeNotFound) {
			t.Error(err)
		}
	})
}

// TestErasedPeople: what was made for a person goes with the person, answers to keys included, and nothing else.
func TestErasedPeople(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, _ := store(t, db, seal.Intl)
		for _, tenant := range []string{"acme", "other"} {
			for _, subject := range []string{"d1", "d2"} {
				must(t, s.Save(t.Context(), Owner{tenant, "project/"}, Reply{ID: "resp_" + tenant + subject, Subject: subject, Body: []byte("x")}))
				claim, _, err := s.Claim(t.Context(), Attempt{ID: "r", Tenant: tenant, Caller: "k", Key: subject, Asked: []byte("q")})
				must(t, err)
				must(t, claim.Keep(t.Context(), subject, []byte("a")))
			}
		}
		must(t, db.Transaction(func(tx *gorm.DB) error {
			n, err := EraseSubject(tx, "acme", "d1")
			if n != 2 {
				t.Errorf("%d were erased", n)
			}
			return err
		}))
		if n := count(t, db); n != 6 {
			t.Errorf("%d are left", n)
		}
		if _, err := s.Load(t.Context(), Owner{"acme", "project/"}, "resp_acmed1"); !fault.Is(err, fault.CodeNotFound) {
			t.Error(err)
		}
	})
}

// TestChangedRowsDoNotOpen: an answer that was moved or changed is an error and shows nothing.
func TestChangedRowsDoNotOpen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"answer": "UPDATE reply_replies SET sealed = substr(sealed, 1, length(sealed) - 1)", "key": "UPDATE reply_replies SET wrapped = substr(wrapped, 2)",
		"moved": "UPDATE reply_replies SET tenant = 'other', owner = 'project/'",
	} {
		db := dbtest.SQLite(t)
		s, _ := store(t, db, seal.Intl)
		must(t, s.Save(t.Context(), Owner{"acme", "project/p"}, Reply{ID: "resp_1", Body: []byte("secret text")}))
		must(t, db.Exec(change).Error)
		o := Owner{"acme", "project/p"}
		if name == "moved" {
			o = Owner{"other", "project/"}
		}
		if got, err := s.Load(t.Context(), o, "resp_1"); err == nil || got.Body != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %q, %v", name, got.Body, err)
		}
	}
}

// TestRotation: answers take part in rotations of the wrapping keys; claims, which hold nothing, do not get in the way.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, _ := store(t, db, seal.Intl)
		must(t, s.Save(t.Context(), Owner{"acme", "p"}, Reply{ID: "resp_1", Body: []byte("x")}))
		claim, _, err := s.Claim(t.Context(), Attempt{ID: "r", Tenant: "acme", Caller: "k", Key: "1", Asked: []byte("q")})
		must(t, err)
		wrapkeytest.Rotate(t, db, ring(), Wrapped(ring()))
		if got, err := s.Load(t.Context(), Owner{"acme", "p"}, "resp_1"); err != nil || string(got.Body) != "x" {
			t.Errorf("%q, %v", got.Body, err)
		}
		must(t, claim.Keep(t.Context(), "", []byte("a")))
	})
}

// TestClaims: one request with a key runs, those that follow get its answer, and the key stands for nothing else.
func TestClaims(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, c := store(t, db, seal.Intl)
		ask := Attempt{ID: "r1", Tenant: "acme", Caller: "k1", Key: "abc", Asked: []byte("POST q")}
		claim, answer, err := s.Claim(t.Context(), ask)
		if err != nil || claim == nil || answer != nil {
			t.Fatalf("%v, %q, %v", claim, answer, err)
		}
		again := ask
		again.ID = "r2"
		if _, _, err := s.Claim(t.Context(), again); !fault.Is(err, fault.CodeRequestInProgress) || fault.Public(err).RetryAfter() == 0 {
			t.Errorf("while it runs: %v", err)
		}
		must(t, claim.Keep(t.Context(), "d1", []byte("the answer")))
		c.pass(time.Hour - time.Second)
		if got, answer, err := s.Claim(t.Context(), again); err != nil || got != nil || string(answer) != "the answer" {
			t.Errorf("%v, %q, %v", got, answer, err)
		}
		other := again
		other.Asked = []byte("POST another")
		if _, _, err := s.Claim(t.Context(), other); !fault.Is(err, fault.CodeIdempotencyReused) {
			t.Errorf("another request: %v", err)
		}
		for _, foreign := range []Attempt{{ID: "r3", Tenant: "acme", Caller: "k2", Key: "abc", Asked: ask.Asked}, {ID: "r4", Tenant: "other", Caller: "k1", Key: "abc", Asked: ask.Asked}} {
			claim, answer, err := s.Claim(t.Context(), foreign)
			if err != nil || claim == nil || answer != nil {
				t.Errorf("another caller: %v, %q, %v", claim, answer, err)
			}
		}
		if _, err := s.Load(t.Context(), Owner{"acme", "k1"}, claim.row.ID); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("an answer to a key is no response: %v", err)
		}
		c.pass(time.Second)
		fresh, answer, err := s.Claim(t.Context(), other) // its time is over
		if err != nil || fresh == nil || answer != nil {
			t.Fatalf("%v, %q, %v", fresh, answer, err)
		}
		must(t, fresh.Release(t.Context()))
		if claim, _, err := s.Claim(t.Context(), again); err != nil || claim == nil {
			t.Errorf("after it was given up: %v, %v", claim, err)
		}
	})
}

// TestDeadClaims: a request whose process is gone holds its key for the time that a request has, and can keep nothing afterwards.
func TestDeadClaims(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s, c := store(t, db, seal.Intl)
		ask := Attempt{ID: "r1", Tenant: "acme", Caller: "k1", Key: "abc", Asked: []byte("q")}
		dead, _, err := s.Claim(t.Context(), ask)
		must(t, err)
		c.pass(10*time.Minute - time.Second)
		ask.ID = "r2"
		if _, _, err := s.Claim(t.Context(), ask); !fault.Is(err, fault.CodeRequestInProgress) {
			t.Errorf("%v", err)
		}
		c.pass(time.Second)
		claim, _, err := s.Claim(t.Context(), ask)
		if err != nil || claim == nil {
			t.Fatalf("%v, %v", claim, err)
		}
		if err := dead.Keep(t.Context(), "", []byte("late")); err == nil {
			t.Error("the dead claim kept an answer")
		}
		must(t, dead.Release(t.Context())) // and gives nothing up
		must(t, claim.Keep(t.Context(), "", []byte("right")))
		if _, answer, err := s.Claim(t.Context(), ask); err != nil || string(answer) != "right" {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

// TestConcurrentClaims: of many requests at once, on two replicas, one runs.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, _ := store(t, db, seal.Intl)
		b, _ := store(t, db, seal.Intl)
		var won, busy atomic.Int64
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				claim, _, err := []*Store{a, b}[i%2].Claim(t.Context(), Attempt{ID: fmt.Sprint(i), Tenant: "acme", Caller: "k", Key: "abc", Asked: []byte("q")})
				switch {
				case claim != nil:
					won.Add(1)
				case fault.Is(err, fault.CodeRequestInProgress):
					busy.Add(1)
				default:
					t.Errorf("%v", err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 || busy.Load() != 23 {
			t.Errorf("%d ran, %d were told to wait", won.Load(), busy.Load())
		}
	})
}

// TestWhenTheDatabaseFails: whichever operation fails, before or after it was carried out, what is repeated ends as if nothing had been.
func TestWhenTheDatabaseFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var f dbtest.Faults
		s, c := store(t, f.Over(db), seal.Intl)
		o := Owner{"acme", "p"}
		for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			f.Each(t, how, func() error { return s.Save(t.Context(), o, Reply{ID: "resp_1", Body: []byte("x")}) })
			if got, err := s.Load(t.Context(), o, "resp_1"); err != nil || string(got.Body) != "x" {
				t.Errorf("%q, %v", got.Body, err)
			}
			attempts := 0
			var claim *Claim
			f.Each(t, how, func() (err error) { // each time a request of its own, as a client sends it
				if claim != nil {
					must(t, claim.Release(t.Context()))
				}
				attempts++
				claim, _, err = s.Claim(t.Context(), Attempt{ID: fmt.Sprint(how, attempts), Tenant: "acme", Caller: "k", Key: "abc", Asked: []byte("q")})
				return err
			})
			kept := false
			f.Each(t, how, func() error {
				err := claim.Keep(t.Context(), "d1", []byte("answer"))
				if err != nil && kept { // an earlier attempt has done it
					return nil
				}
				_, answer, _ := s.Claim(t.Context(), Attempt{ID: "later", Tenant: "acme", Caller: "k", Key: "abc", Asked: []byte("q")})
				kept = kept || err == nil || string(answer) == "answer"
				return err
			})
			if !kept {
				t.Error("no answer was kept")
			}
			c.pass(2 * time.Hour)
			f.Each(t, how, func() error { return s.sweep(t.Context()) })
			if n := count(t, db); n != 0 {
				t.Errorf("%d rows are left", n)
			}
		}
	})
}
