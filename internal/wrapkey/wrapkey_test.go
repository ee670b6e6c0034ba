package wrapkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func ring() *keyring.Ring { return keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")) }

// thing is a row of vault_keys, which the tests fill themselves.
type thing struct {
	ID, Tenant, Suite string
	Created, Epoch    int64
	Wrapped           []byte
}

func (thing) TableName() string { return "vault_keys" }

func (x thing) envelope() Envelope { return Envelope{x.Epoch, seal.Suite(x.Suite), x.Wrapped} }

func things(limit int) Table[thing] {
	return Table[thing]{
		Kind: "things", Keys: New(ring(), "a/v1", "a/sm4/v1"), Table: "vault_keys", Sealed: "wrapped", Columns: []string{"id", "suite", "epoch", "wrapped"},
		Label: func(x thing) []byte { return []byte(x.ID) }, Row: func(x thing) (string, Envelope) { return x.ID, x.envelope() }, Limit: limit,
	}
}

// replica is a process: it has keys of its own, and may have a faulty way to the database.
type replica struct {
	t    *testing.T
	db   *gorm.DB
	keys *Keys
	rot  *Rotator
	log  *recordLog
	now  time.Time
}

type recordLog struct {
	mu      sync.Mutex
	records []string
	fail    bool
}

func (l *recordLog) record(_ context.Context, action string, d map[string]string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail {
		return errors.New("no log")
	}
	l.records = append(l.records, fmt.Sprintf("%s epoch=%s things=%s unreadable=%s destroyed=%s kept=%s", action, d["epoch"], d["things"], d["things.unreadable"], d["destroyed"], d["kept"]))
	return nil
}

func newReplica(t *testing.T, db *gorm.DB, log *recordLog) *replica {
	t.Helper()
	kind := things(3)
	r := &replica{t: t, db: db, keys: kind.Keys, log: log, now: time.Now().Truncate(time.Microsecond)}
	r.rot = NewRotator(Config{
		DB: db, Ring: ring(), Kinds: []Kind{kind}, Log: slog.New(slog.DiscardHandler), Record: log.record,
		Lead: func(context.Context) (bool, error) { return true, nil },
	})
	r.rot.now = func() time.Time { return r.now }
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func text(id string) []byte { return []byte("the secret of " + id) }

func (r *replica) write(ids ...string) {
	r.t.Helper()
	for i, id := range ids {
		suite := seal.Intl
		if i%2 == 1 {
			suite = seal.GM
		}
		must(r.t, r.db.Transaction(func(tx *gorm.DB) error {
			e, err := r.keys.Seal(tx, suite, text(id), []byte(id))
			if err != nil {
				return err
			}
			return tx.Create(&thing{ID: id, Suite: string(suite), Epoch: e.Epoch, Wrapped: e.Sealed}).Error
		}))
	}
}

func (r *replica) rows() (out []thing) {
	r.t.Helper()
	must(r.t, r.db.Order("id").Find(&out).Error)
	return out
}

// wantAll checks that exactly these are there, that they open, and that none is of an epoch below least.
func (r *replica) wantAll(least int64, ids ...string) {
	r.t.Helper()
	var got []string
	for _, x := range r.rows() {
		got = append(got, x.ID)
		if opened, err := r.keys.Open(r.db, x.envelope(), []byte(x.ID)); err != nil || !bytes.Equal(opened, text(x.ID)) {
			r.t.Errorf("%s of epoch %d: %q, %v", x.ID, x.Epoch, opened, err)
		}
		if x.Epoch < least {
			r.t.Errorf("%s is of epoch %d, below %d", x.ID, x.Epoch, least)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		r.t.Errorf("there are %v, not %v", got, ids)
	}
}

func (r *replica) rotate() {
	r.t.Helper()
	_, err := r.rot.Begin(r.t.Context())
	must(r.t, err)
	r.finish()
}

func (r *replica) finish() {
	r.t.Helper()
	must(r.t, r.rot.work(r.t.Context()))
	r.now = r.now.Add(defaultGrace)
	must(r.t, r.rot.work(r.t.Context()))
	if s := r.status(); s.Running {
		r.t.Fatalf("the rotation has not ended: %+v", s)
	}
}

func (r *replica) status() Status {
	r.t.Helper()
	s, err := r.rot.Status(r.t.Context())
	must(r.t, err)
	return s
}

func (r *replica) states() string {
	r.t.Helper()
	var out []string
	for _, e := range r.status().Epochs {
		out = append(out, fmt.Sprintf("%d %s", e.Number, e.State))
	}
	return strings.Join(out, ", ")
}

var seven = []string{"a", "b", "c", "d", "e", "f", "g"} // the rows of most tests

// TestRotation: everything opens before, during and after, with replicas that know and that do not; then the older random key is gone.
func TestRotation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := newReplica(t, db, &recordLog{}), newReplica(t, db, &recordLog{})
		a.write(seven...)
		a.wantAll(0, seven...)
		a.rotate()
		a.wantAll(1, seven...)
		if got := a.states(); got != "0 retiring, 1 active" {
			t.Errorf("after the first rotation: %s", got)
		}
		b.wantAll(1, seven...)

		_, err := a.rot.Begin(t.Context())
		must(t, err)
		if _, err := b.rot.Begin(t.Context()); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("two rotations at once: %v", err)
		}
		if more, err := a.rot.step(t.Context()); err != nil || !more {
			t.Fatalf("one step: %v, %v", more, err)
		}
		if s := a.status(); s.Kinds[0] != (Progress{Kind: "things", Total: 7, Done: 3, Left: 4}) || !s.Running || s.Active != 2 {
			t.Errorf("in the middle: %+v", s)
		}
		old := b.rows()[6]
		a.wantAll(1, seven...)
		b.wantAll(1, seven...)
		b.write("h") // b has not heard of the rotation
		if got := b.rows()[7].Epoch; got != 2 {
			t.Errorf("b stored under epoch %d", got)
		}

		must(t, a.rot.work(t.Context()))
		a.wantAll(2, append(seven, "h")...)
		a.now = a.now.Add(defaultGrace - time.Second)
		must(t, a.rot.work(t.Context()))
		if got := a.states(); got != "0 retiring, 1 retiring, 2 active" {
			t.Errorf("before the grace: %s", got)
		}
		if opened, err := b.keys.Open(db, old.envelope(), []byte(old.ID)); err != nil || !bytes.Equal(opened, text(old.ID)) {
			t.Errorf("what b had read before: %q, %v", opened, err)
		}
		a.finish()
		if got := a.states(); got != "0 retiring, 1 destroyed, 2 active" {
			t.Errorf("after the grace: %s", got)
		}
		var left int
		must(t, db.Raw("SELECT COUNT(*) FROM wrapping_keys WHERE number = 1 AND length(wrapped) > 0").Scan(&left).Error)
		if left != 0 {
			t.Error("the bytes of epoch 1 are still there")
		}
		c := newReplica(t, db, &recordLog{})
		c.wantAll(2, append(seven, "h")...)
		if _, err := c.keys.Open(db, old.envelope(), []byte(old.ID)); !errors.Is(err, ErrDestroyed) {
			t.Errorf("of a destroyed epoch: %v", err)
		}
		want := []string{
			"keyring.rotated epoch=1 things=7 unreadable=0 destroyed= kept=",
			"keyring.destroy epoch=2 things=7 unreadable=0 destroyed=1 kept=", "keyring.rotated epoch=2 things=7 unreadable=0 destroyed=1 kept=",
		}
		if got := a.log.records; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("records:\n%s", strings.Join(got, "\n"))
		}
		var floor int64
		must(t, db.Raw("SELECT floor FROM installation_compatibility").Scan(&floor).Error)
		if floor < schema {
			t.Errorf("releases before may still use the database: %d", floor)
		}
	})
}

// TestNothingIsStoredUnderAnOlderKey: a transaction that chose its epoch holds off the rotation until it ends, so its row is among those to re-wrap.
func TestNothingIsStoredUnderAnOlderKey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := newReplica(t, db, &recordLog{}), newReplica(t, db, &recordLog{})
		a.rotate()
		begun := make(chan error, 1)
		must(t, db.Transaction(func(tx *gorm.DB) error {
			e, err := b.keys.Seal(tx, seal.Intl, text("late"), []byte("late"))
			if err != nil {
				return err
			}
			go func() { _, err := a.rot.Begin(t.Context()); begun <- err }()
			select {
			case err := <-begun:
				t.Errorf("the rotation did not wait: %v", err)
				begun <- err
			case <-time.After(100 * time.Millisecond): // whoever does not wait is done by then
			}
			return tx.Create(&thing{ID: "late", Suite: "intl", Epoch: e.Epoch, Wrapped: e.Sealed}).Error
		}))
		must(t, <-begun)
		if s := a.status(); s.Kinds[0].Total != 1 {
			t.Errorf("the rotation does not see the row: %+v", s)
		}
		a.finish()
		a.wantAll(2, "late")
	})
}

// TestBrokenOffAnywhere: whatever statement or commit fails, and whether or not it was carried out, another replica ends the rotation, and nothing
// is lost.
func TestBrokenOffAnywhere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		healthy := newReplica(t, db, &recordLog{})
		healthy.write(seven...)
		healthy.rotate()
		for _, outcome := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			failures := 0
			for at := 1; ; at++ {
				_, err := healthy.rot.Begin(t.Context())
				must(t, err)
				var faults dbtest.Faults
				n, failed := 0, false
				var mu sync.Mutex
				faults.Set(func(string) dbtest.Outcome {
					mu.Lock()
					defer mu.Unlock()
					if n++; n == at {
						failed = true
						return outcome
					}
					return dbtest.Healthy
				})
				victim := newReplica(t, faults.Over(db), &recordLog{})
				victim.now = healthy.now
				if err := victim.rot.work(t.Context()); err == nil {
					victim.now = victim.now.Add(defaultGrace)
					_ = victim.rot.work(t.Context())
				}
				faults.Set(nil)
				least := healthy.status().Active
				newReplica(t, db, &recordLog{}).wantAll(least-1, seven...)
				if healthy.now = victim.now; healthy.status().Running {
					healthy.finish()
				}
				healthy.wantAll(least, seven...)
				if got := healthy.states(); strings.Count(got, "destroyed") != int(least-1) {
					t.Fatalf("at %d: %s", at, got)
				}
				if !failed {
					break
				}
				failures++
			}
			if failures < 15 {
				t.Errorf("only %d operations failed", failures)
			}
		}
	})
}

// TestAKindThatCameLater: a rotation that a replica has begun which does not know a kind takes it in, and waits for its grace anew.
func TestAKindThatCameLater(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, &recordLog{})
		r.write(seven...)
		_, err := r.rot.Begin(t.Context())
		must(t, err)
		must(t, db.Exec("DELETE FROM wrapping_progress").Error)
		must(t, db.Exec("UPDATE wrapping_rotation SET emptied = 1").Error)
		must(t, r.rot.work(t.Context()))
		if s := r.status(); !s.Running || s.Kinds[0].Total != 7 || s.Kinds[0].Done != 7 || s.DestroyAfter.Before(r.now) {
			t.Fatalf("%+v", s)
		}
		r.finish()
		r.wantAll(1, seven...)
	})
}

// TestTwoReplicasAtOnce: where both think that they lead, each row is still re-wrapped and counted once.
func TestTwoReplicasAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := newReplica(t, db, &recordLog{}), newReplica(t, db, &recordLog{})
		b.now = a.now
		var ids []string
		for i := range 60 {
			ids = append(ids, fmt.Sprintf("%02d", i))
		}
		a.write(ids...)
		_, err := a.rot.Begin(t.Context())
		must(t, err)
		done := make(chan error, 1)
		go func() { done <- b.rot.work(t.Context()) }()
		must(t, a.rot.work(t.Context()))
		must(t, <-done)
		a.wantAll(1, ids...)
		if p := a.status().Kinds[0]; p != (Progress{Kind: "things", Total: 60, Done: 60}) {
			t.Errorf("%+v", p)
		}
		a.finish()
	})
}

// TestErasureDuringRotation: what an erasure takes between the look at a row and its change stays gone.
func TestErasureDuringRotation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, &recordLog{})
		r.write(seven...)
		erase := func(id string) func(tx *gorm.DB) {
			return func(tx *gorm.DB) { must(t, tx.Exec("DELETE FROM vault_keys WHERE id = ?", id).Error) }
		}
		r.rot.cfg.Kinds = []Kind{eraser{things(3), erase("b")}}
		_, err := r.rot.Begin(t.Context())
		must(t, err)
		erase("f")(db)
		r.finish()
		r.wantAll(1, "a", "c", "d", "e", "g")
	})
}

// eraser erases while the rows are in memory.
type eraser struct {
	Table[thing]
	erase func(tx *gorm.DB)
}

func (e eraser) Renew(tx *gorm.DB, after string, below int64) (Renewal, error) {
	t := e.Table
	row := t.Row
	t.Row = func(x thing) (string, Envelope) {
		if x.ID == "b" {
			e.erase(tx)
		}
		return row(x)
	}
	return t.Renew(tx, after, below)
}

// TestUnreadableRowsKeepTheirKey: a row that was changed is neither lost nor re-wrapped; its key is destroyed by the first rotation after it is gone
// or opens again.
func TestUnreadableRowsKeepTheirKey(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r := newReplica(t, db, &recordLog{})
		r.rotate()
		r.write(seven...)
		sound := r.rows()[2].Wrapped
		changed := bytes.Clone(sound)
		changed[20] ^= 1
		must(t, db.Exec("UPDATE vault_keys SET wrapped = ? WHERE id = 'c'", changed).Error)
		r.rotate()
		if got := r.states(); got != "0 retiring, 1 retiring, 2 active" {
			t.Errorf("with a row that does not open: %s", got)
		}
		if p := r.status().Kinds[0]; p != (Progress{Kind: "things", Total: 7, Done: 6, Unreadable: 1, Left: 1}) {
			t.Errorf("%+v", p)
		}
		if got := r.log.records[len(r.log.records)-1]; got != "keyring.rotated epoch=2 things=6 unreadable=1 destroyed= kept=1" {
			t.Errorf("the record: %s", got)
		}
		must(t, db.Exec("UPDATE vault_keys SET wrapped = ? WHERE id = 'c'", sound).Error)
		r.rotate()
		r.wantAll(3, seven...)
		if got := r.states(); got != "0 retiring, 1 destroyed, 2 destroyed, 3 active" {
			t.Errorf("after it was mended: %s", got)
		}
	})
}

// TestNoRecordNoDestruction: while the record cannot be written, the key stays.
func TestNoRecordNoDestruction(t *testing.T) {
	db := dbtest.SQLite(t)
	r := newReplica(t, db, &recordLog{})
	r.rotate()
	r.write(seven...)
	_, err := r.rot.Begin(t.Context())
	must(t, err)
	must(t, r.rot.work(t.Context()))
	r.now, r.log.fail = r.now.Add(defaultGrace), true
	if err := r.rot.work(t.Context()); err == nil || !strings.Contains(err.Error(), "no log") {
		t.Errorf("without a record: %v", err)
	}
	if got := r.states(); got != "0 retiring, 1 retiring, 2 active" {
		t.Errorf("destroyed without a record: %s", got)
	}
	r.log.fail = false
	r.finish()
	r.wantAll(2, seven...)
}

// TestABusyLogIsNoScrubbedOne: while somebody reads what was before, the bytes of a destroyed key stay in the log of SQLite; the rotation does not
// end before they are gone.
func TestABusyLogIsNoScrubbedOne(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	r := newReplica(t, db, &recordLog{})
	r.rotate()
	r.write(seven...)
	_, err := r.rot.Begin(t.Context())
	must(t, err)
	must(t, r.rot.work(t.Context()))
	r.now = r.now.Add(defaultGrace)
	reader, err := db.Raw("SELECT number FROM wrapping_keys").Rows()
	must(t, err)
	if !reader.Next() {
		t.Fatal(reader.Err())
	}
	if err := r.rot.work(t.Context()); err == nil || !strings.Contains(err.Error(), "a long read held") {
		t.Errorf("beside a reader: %v", err)
	}
	st, err := r.rot.Status(t.Context())
	must(t, err)
	if !st.Running {
		t.Error("it has ended")
	}
	must(t, reader.Close())
	r.finish()
	r.wantAll(2, seven...)
}

// TestEpochsThatDoNotOpen: each reason has its own error, and none shows what is wrapped.
func TestEpochsThatDoNotOpen(t *testing.T) {
	db := dbtest.SQLite(t)
	r := newReplica(t, db, &recordLog{})
	r.rotate()
	r.write("a")
	e := r.rows()[0].envelope()
	for name, tc := range map[string]struct {
		e    Envelope
		want error
	}{
		"unknown epoch":  {Envelope{7, e.Suite, e.Sealed}, ErrUnknown},
		"another epoch":  {Envelope{0, e.Suite, e.Sealed}, ErrDamaged},
		"negative epoch": {Envelope{-1, e.Suite, e.Sealed}, ErrUnknown},
		"no suite":       {Envelope{1, "rot13", e.Sealed}, ErrSuite},
		"other suite":    {Envelope{1, seal.GM, e.Sealed}, ErrDamaged},
		"cut":            {Envelope{1, e.Suite, e.Sealed[:5]}, ErrDamaged},
	} {
		if _, err := r.keys.Open(db, tc.e, []byte("a")); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	other := New(keyring.FromBytes(bytes.Repeat([]byte{9}, 32)), "a/v1", "a/sm4/v1")
	if _, err := other.Open(db, e, []byte("a")); err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("another master key: %v", err)
	}
	if _, err := New(ring(), "b/v1", "b/sm4/v1").Open(db, e, []byte("a")); !errors.Is(err, ErrDamaged) {
		t.Errorf("another use: %v", err)
	}
	must(t, db.Exec("DELETE FROM wrapping_rotation").Error)
	if _, err := r.keys.Seal(db, seal.Intl, []byte("x"), nil); err == nil || !strings.Contains(err.Error(), "wrapping_rotation is gone") {
		t.Errorf("without the row of the rotation: %v", err)
	}
}
