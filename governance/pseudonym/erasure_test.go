package pseudonym

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func of(subject string, t Turn) Turn {
	t.Subject = subject
	return t
}

// watch is a time since the start of a process that a test moves.
type watch struct {
	mu sync.Mutex
	at time.Time
}

func (w *watch) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *watch) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

// Whoever took part in a conversation takes it along; conversations of others stay, and those of the same person in another tenant.
func TestErasingAPerson(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		v := replica(t, db, Config{}, nil)
		elsewhere := of("alice", turn("s4", "13800138004"))
		elsewhere.Tenant = "other"
		keep(t, v, of("alice", turn("s1", "13800138000")), of("bob", turn("s1", "13800138000", "13900139001")), of("alice", turn("s2", "13800138002")),
			of("bob", turn("s3", "13800138003")), elsewhere, turn("s5", "13800138005"))
		before := v.ErasePerson("acme", "alice")
		if err := before.Preview(t.Context()); err != nil || before.Found.Values != 3 || before.Found.Scopes != 2 || before.Found.Unknown ||
			len(before.Found.Others) != 1 || before.Found.Others[0].Subject != "bob" || before.Found.Others[0].First == 0 {
			t.Errorf("%+v, %v", before.Found, err)
		}
		consistent(t, db, 6)
		r := v.ErasePerson("acme", "alice")
		if n, err := erase(t.Context(), r); err != nil || n != 3 || r.Found.Scopes != 2 || len(r.Found.Others) != 1 {
			t.Errorf("%+v, %v", r.Found, err)
		}
		consistent(t, db, 3)
		for scope, want := range map[string]int{"s1": 0, "s2": 0, "s3": 1, "s5": 1} {
			if got := find(t, v, Target{Tenant: "acme", Name: scope}, "C8000", "C9001", "C8002", "C8003", "C8005"); len(got) != want {
				t.Errorf("%s: %v", scope, got)
			}
		}
		if got := find(t, v, Target{Tenant: "other", Name: "s4"}, "C8004"); len(got) != 1 {
			t.Error("another tenant's went, too")
		}
		var rows int64
		if err := db.Model(&subjectRow{}).Where("tenant = 'acme'").Count(&rows).Error; err != nil || rows != 2 {
			t.Errorf("%d, %v: who took part in what is gone is still known", rows, err)
		}
		if u, err := v.Unattributed(t.Context(), nil, "acme"); err != nil || u.Values != 1 || u.Scopes != 1 || u.Until < time.Now().UnixMicro() {
			t.Errorf("%+v, %v", u, err)
		}
		c := v.EraseConversation(Target{Tenant: "acme", Name: "s5"})
		if n, err := erase(t.Context(), c); err != nil || n != 1 || !c.Found.Unknown {
			t.Errorf("%+v, %v", c.Found, err)
		}
	})
}

// Another replica remembers what was erased. It stores it anew for the first turn behind the erasure, whether it has noticed or not; so does one
// whose write was erased before it came to remember it.
func TestErasedElsewhereIsStoredAnew(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]func(*testing.T, *Store, *watch){
		"noticed":     func(t *testing.T, v *Store, _ *watch) { must(t, v.checkErasures(t.Context())) },
		"not noticed": func(_ *testing.T, v *Store, w *watch) { w.pass(cacheTTL) }, // as long as an erasure waits
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
				w := &watch{at: time.Now()}
				a, b := replica(t, db, Config{}, nil), replica(t, db, Config{}, nil)
				a.monotonic, b.monotonic = w.Now, w.Now
				x := of("alice", turn("s", "13800138000"))
				keep(t, b, x)
				if !b.alreadyStored(b.prepare(x)) {
					t.Fatal("it is not remembered, so the test shows nothing")
				}
				if n, err := erase(t.Context(), a.ErasePerson("acme", "alice")); err != nil || n != 1 {
					t.Fatalf("%d, %v", n, err)
				}
				notice(t, b, w)
				keep(t, b, x)
				consistent(t, db, 1)

				late := b.prepare(of("alice", turn("s", "13900139001"))) // written, erased, and only then remembered
				at := b.monotonic()
				generation, _, err := b.commit([]*pending{late})
				must(t, err)
				if _, err := erase(t.Context(), a.ErasePerson("acme", "alice")); err != nil {
					t.Fatal(err)
				}
				notice(t, b, w)
				b.cacheStored([]*pending{late}, generation, at)
				keep(t, b, of("alice", turn("s", "13900139001")))
				consistent(t, db, 1)
			})
		})
	}
	v, err := New(Config{}, Tables{}, keys(), discard(), nil)
	if err != nil || v.settleTime != cacheTTL {
		t.Errorf("an erasure waits %s, and others trust what they remember for %s", v.settleTime, cacheTTL)
	}
}

// Another person in the same conversation is noted, though all values are known.
func TestNextPersonIsNoted(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	v := replica(t, db, Config{}, nil)
	keep(t, v, of("alice", turn("s", "13800138000")), of("bob", turn("s", "13800138000")))
	if n, err := erase(t.Context(), v.ErasePerson("acme", "bob")); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}

// What a turn brings that began before an erasure of its person or its conversation is not stored behind it. If nobody knows whether it did,
// it is refused; a turn that begins behind it is stored.
func TestTurnsThatBeganBefore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := &watch{at: time.Now()}
		v := replica(t, db, Config{}, nil)
		v.monotonic = w.Now
		for name, removal := range map[string]func() *Erasure{
			"person":       func() *Erasure { return v.ErasePerson("acme", "alice") },
			"conversation": func() *Erasure { return v.EraseConversation(Target{Tenant: "acme", Name: "s"}) },
		} {
			x := of("alice", turn("s", "13800138000"))
			must(t, v.checkErasures(t.Context()))
			x.Began = v.Epoch()
			keep(t, v, x)
			w.pass(cacheTTL)
			unsure := x
			unsure.Began = v.Epoch()
			if n, err := erase(t.Context(), removal()); err != nil || n != 1 {
				t.Fatalf("%s: %d, %v", name, n, err)
			}
			more := x
			more.Values = append(more.Values, turn("s", "13900139001").Values...)
			keep(t, v, x, more)
			consistent(t, db, 0)
			if err := v.Store(t.Context(), unsure); !fault.Is(err, fault.CodeVaultUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			consistent(t, db, 0)
			other := of("bob", turn("s9", "13900139009")) // began before, and nothing of it was erased
			other.Began = x.Began
			next := x
			next.Began = v.Epoch()
			keep(t, v, other, next)
			consistent(t, db, 2)
			for _, s := range []string{"s", "s9"} {
				if _, err := erase(t.Context(), v.EraseConversation(Target{Tenant: "acme", Name: s})); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestErasureIsBeforeOrBehindEveryWrite erases one person again and again while two replicas store for the same. What is stored and not erased is
// consistent all the time, and what was stored before the last erasure is gone.
func TestErasureIsBeforeOrBehindEveryWrite(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := replica(t, db, Config{}, nil), replica(t, db, Config{}, nil)
		var all sync.WaitGroup
		for _, v := range []*Store{a, b} {
			all.Go(func() {
				for i := range 30 {
					if err := v.Store(t.Context(), of("alice", turn("s", "1380013800"+string(rune('0'+i%10))))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 10 {
			if _, err := erase(t.Context(), a.ErasePerson("acme", "alice")); err != nil {
				t.Fatal(err)
			}
		}
		all.Wait()
		_, _, rows := heldOf(t, db)
		consistent(t, db, rows)
		if _, err := erase(t.Context(), a.ErasePerson("acme", "alice")); err != nil {
			t.Fatal(err)
		}
		consistent(t, db, 0)
	})
}

// TestNoSealedCopyStays reads the files of the database before and after: no ciphertext of an erased value is in any page.
func TestNoSealedCopyStays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		v := replica(t, db, Config{}, nil)
		for i := range 60 { // enough that rows move between pages
			s := string(rune('A' + i))
			keep(t, v, of("bob", turn("b"+s, "1380013800"+s, "1390013900"+s)), of("alice", turn("a"+s, "1370013700"+s, "1360013600"+s)))
		}
		var sealed [][]byte
		must(t, db.Raw("SELECT v.sealed FROM vault_values AS v JOIN vault_subjects AS p ON p.scope = v.scope WHERE p.subject = 'alice'").Scan(&sealed).Error)
		if len(sealed) != 120 || copies(t, db, sealed) == 0 {
			t.Fatalf("%d values: the test cannot see what it looks for", len(sealed))
		}
		if n, err := erase(t.Context(), v.ErasePerson("acme", "alice")); err != nil || n != 120 {
			t.Fatalf("%d, %v", n, err)
		}
		if database.IsSQLite(db) {
			must(t, db.Exec("PRAGMA wal_checkpoint(TRUNCATE)").Error) // as the audit log does behind every erasure
		}
		if n := copies(t, db, sealed); n != 0 {
			t.Errorf("%d sealed values are still in the pages", n)
		}
		consistent(t, db, 120)
	})
}

// copies counts those of texts that are in the files of the database.
func copies(t *testing.T, db *gorm.DB, texts [][]byte) (n int) {
	t.Helper()
	var files [][]byte
	if database.IsSQLite(db) {
		var path string
		must(t, db.Raw("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path).Error)
		must(t, filepath.WalkDir(filepath.Dir(path), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			files = append(files, b)
			return err
		}))
	} else {
		must(t, db.Exec("CHECKPOINT").Error)
		must(t, db.Raw("SELECT pg_read_binary_file(pg_relation_filepath(oid)) FROM pg_class WHERE relkind IN ('r', 't') AND relname LIKE 'vault%'").Scan(&files).Error)
	}
	for _, x := range texts {
		for _, f := range files {
			if bytes.Contains(f, x) {
				n++
				break
			}
		}
	}
	return n
}

// TestSweepForgetsErasures: what is remembered of erasures goes after a day, and so does who took part in what an earlier release removed.
func TestSweepForgetsErasures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		v := replica(t, db, Config{}, c)
		keep(t, v, of("alice", turn("s", "13800138000")), of("bob", turn("s2", "13800138000")))
		if _, err := erase(t.Context(), v.ErasePerson("acme", "alice")); err != nil {
			t.Fatal(err)
		}
		must(t, errors.Join(db.Exec("DELETE FROM vault_values").Error, db.Exec("DELETE FROM vault_scopes").Error, db.Exec("DELETE FROM vault_tenants").Error))
		for _, want := range []int64{2, 0} {
			must(t, v.Sweep(t.Context()))
			var erasures, subjects int64
			must(t, errors.Join(db.Model(&erasureRow{}).Count(&erasures).Error, db.Model(&subjectRow{}).Count(&subjects).Error))
			if erasures != want || subjects != 0 {
				t.Errorf("%d erasures, %d persons", erasures, subjects)
			}
			c.pass(erasureMemory + time.Second)
		}
	})
}

// A running store checks for erasures at once and by itself.
func TestRunLooks(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	looked := make(chan struct{}, 100)
	faults := &dbtest.Faults{}
	faults.Set(func(op string) dbtest.Outcome {
		if strings.Contains(op, "vault_state") {
			looked <- struct{}{}
		}
		return dbtest.Healthy
	})
	v := replica(t, faults.Over(db), Config{}, nil)
	if v.Epoch().known {
		t.Fatal("nobody has looked")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	<-looked
	<-looked // the second one begins when the first is over
	known := v.Epoch().known
	stop()
	if err := <-done; err != nil || !known {
		t.Errorf("%v, known %t", err, known)
	}
}

// Turns that bring nothing new leave no trace, so whoever took part may have done so until the time of the conversation is over.
func TestTakingPartLastsAsLongAsTheConversation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		v := replica(t, db, Config{}, c)
		began := c.Now()
		keep(t, v, of("alice", turn("s", "13800138000")), of("bob", turn("s", "13800138000")))
		c.pass(30 * time.Minute)
		keep(t, v, of("alice", turn("s", "13800138000"))) // known: the database is not asked
		r := v.ErasePerson("acme", "bob")
		must(t, r.Preview(t.Context()))
		want := Participant{"alice", began.UnixMicro(), began.Add(4 * time.Hour).UnixMicro()}
		if len(r.Found.Others) != 1 || r.Found.Others[0] != want {
			t.Errorf("%+v, want %+v", r.Found.Others, want)
		}
	})
}

// A conversation of which nobody knows who took part stays somebody unknown's when a person goes on in it.
func TestSomebodyUnknownStays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		v := replica(t, db, Config{}, nil)
		keep(t, v, of("bob", turn("s", "13800138000")), of("bob", turn("s2", "13800138000")))
		must(t, db.Exec("DELETE FROM vault_subjects").Error) // as an earlier release leaves it
		keep(t, v, of("alice", turn("s", "13900139001")), of("carol", turn("s", "13900139001")), of("alice", turn("new", "13900139001")), turn("s2", "13900139001"))
		r := v.ErasePerson("acme", "alice")
		if err := r.Preview(t.Context()); err != nil || !r.Found.Unknown || r.Found.Scopes != 2 {
			t.Errorf("%+v, %v", r.Found, err)
		}
		if u, err := v.Unattributed(t.Context(), nil, "acme"); err != nil || u.Values != 4 || u.Scopes != 2 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

// An erasure and a sweep of the same conversation do not wait for each other.
func TestSweepBesideAnErasure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		if database.IsSQLite(db) {
			return // one writer at a time
		}
		waits, once := make(chan struct{}), sync.Once{}
		faults := &dbtest.Faults{}
		sweeper, v := replica(t, faults.Over(db), Config{}, nil), replica(t, db, Config{}, nil)
		x := of("alice", turn("s", "13800138000"))
		keep(t, v, x)
		faults.Set(func(op string) dbtest.Outcome {
			if strings.Contains(op, "vault_state") || strings.Contains(op, "vault_values") { // the erasure has both
				once.Do(func() { close(waits) })
			}
			return dbtest.Healthy
		})
		swept := make(chan error, 1)
		r := v.ErasePerson("acme", "alice")
		err := db.WithContext(t.Context()).Transaction(func(tx *gorm.DB) error {
			if err := r.Lock(tx); err != nil {
				return err
			}
			go func() {
				_, err := sweeper.store.remove(t.Context(), []digest{v.prepare(x).scope}, noExpiry)
				swept <- err
			}()
			<-waits
			return r.Delete(tx)
		})
		if err := errors.Join(err, <-swept); err != nil || r.Found.Values != 1 {
			t.Errorf("%d, %v", r.Found.Values, err)
		}
		consistent(t, db, 0)
	})
}
