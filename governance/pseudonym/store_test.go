package pseudonym

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const master = "0123456789abcdef0123456789abcdef"

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func keys() *keyring.Ring { return keyring.FromBytes([]byte(master)) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replica opens a store as another process would.
func replica(t *testing.T, db *gorm.DB, cfg Config, c *clock) *Store {
	t.Helper()
	v, err := New(cfg, NewTables(db), keys(), discard(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		v.now = c.Now
	}
	v.settleTime = 0
	t.Cleanup(func() { _ = v.Close() })
	return v
}

func newClock() *clock { return &clock{now: time.Now().Truncate(time.Microsecond)} }

func turn(scope string, values ...string) Turn {
	t := Turn{Tenant: "acme", Scope: "session/" + scope, Name: scope, Keep: 4 * time.Hour}
	for _, text := range values {
		t.Values = append(t.Values, Value{Code: codeOf(text), Class: "cn_mobile", Text: keyring.Secret(text)})
	}
	return t
}

func codeOf(text string) string { return "C" + text[max(0, len(text)-4):] }

func keep(t *testing.T, v *Store, turns ...Turn) {
	t.Helper()
	for _, x := range turns {
		if err := v.Store(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
}

func find(t *testing.T, v *Store, target Target, codes ...string) map[string]string {
	t.Helper()
	found, err := v.Find(t.Context(), target, codes)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for code, x := range found {
		if x.Code != code || x.Class == "" {
			t.Errorf("%s: %+v", code, x)
		}
		out[code] = x.Text.Reveal()
	}
	return out
}

// erase makes a removal in a transaction of its own.
func erase(ctx context.Context, r *Erasure) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := r.store.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := r.Lock(tx); err != nil {
			return err
		}
		return r.Delete(tx)
	})
	if err == nil {
		r.AwaitReplicas(ctx)
	}
	return r.Found.Values, err
}

func heldOf(t *testing.T, db *gorm.DB) (tenant, scopes, rows int64) {
	t.Helper()
	for sql, to := range map[string]*int64{
		"SELECT COALESCE(SUM(held), 0) FROM vault_tenants": &tenant, "SELECT COALESCE(SUM(held), 0) FROM vault_scopes": &scopes, "SELECT COUNT(*) FROM vault_values": &rows,
	} {
		if err := db.Raw(sql).Row().Scan(to); err != nil {
			t.Fatal(err)
		}
	}
	return tenant, scopes, rows
}

func consistent(t *testing.T, db *gorm.DB, want int64) {
	t.Helper()
	if tenant, scopes, rows := heldOf(t, db); tenant != want || scopes != want || rows != want {
		t.Errorf("tenants hold %d, scopes %d, there are %d; want %d", tenant, scopes, rows, want)
	}
}

// What one replica stored another shows, by the caller's name of the conversation and by the scope; nobody else finds it.
func TestStoredByOneShownByAnother(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := replica(t, db, Config{}, nil), replica(t, db, Config{Suite: seal.GM}, nil)
		keep(t, a, turn("s1", "13800138000", "13900139001"))
		keep(t, b, turn("s1", "13800138000", "13700137002"), turn("s2", "13800138003")) // the second suite, in the same scope
		consistent(t, db, 4)
		for _, v := range []*Store{a, b, replica(t, db, Config{}, nil)} {
			for _, target := range []Target{{Tenant: "acme", Name: "s1"}, {Tenant: "acme", Scopes: []string{"session/s1", "request/none"}}} {
				got := find(t, v, target, "C8000", "C9001", "C7002", "C8003", "XXXXX", "C8000")
				if len(got) != 3 || got["C8000"] != "13800138000" || got["C9001"] != "13900139001" || got["C7002"] != "13700137002" {
					t.Errorf("%v: %v", target.Name, got)
				}
			}
			for _, target := range []Target{{Tenant: "other", Name: "s1"}, {Tenant: "acme", Name: "S1"}, {Tenant: "other", Scopes: []string{"session/s1"}}, {Tenant: "acme"}} {
				if got := find(t, v, target, "C8000"); len(got) != 0 {
					t.Errorf("%+v: %v", target, got)
				}
			}
		}
		var suites []string
		if err := db.Raw("SELECT DISTINCT suite FROM vault_keys ORDER BY suite").Scan(&suites).Error; err != nil || !slices.Equal(suites, []string{"gm", "intl"}) {
			t.Errorf("%v, %v", suites, err)
		}
	})
}

// The tables tell no value, no code, no name of a conversation.
func TestTablesTellNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		v := replica(t, db, Config{}, nil)
		keep(t, v, turn("conversation-of-zhang", "13800138000"))
		for _, table := range []string{"vault_tenants", "vault_keys", "vault_scopes", "vault_values"} {
			var rows []map[string]any
			if err := db.Table(table).Find(&rows).Error; err != nil || len(rows) == 0 {
				t.Fatalf("%s: %v", table, err)
			}
			for _, secret := range []string{"13800138000", "C8000", "zhang", "3133383030313338303030"} {
				for _, row := range rows {
					for column, x := range row {
						b, _ := x.([]byte)
						if strings.Contains(fmt.Sprint(x), secret) || bytes.Contains(b, []byte(secret)) {
							t.Errorf("%s.%s holds %s", table, column, secret)
						}
					}
				}
			}
		}
		if s := fmt.Sprintf("%v %+v", turn("s", "13800138000"), &Value{Text: "13800138000"}); strings.Contains(s, "13800138000") {
			t.Error(s)
		}
	})
}

// A row that was moved to another scope, code or class, or changed, is an error and shows nothing.
func TestMovedRowsDoNotOpen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"class":      "UPDATE vault_values SET class = 'person'",
		"code":       "UPDATE vault_values SET sealed = (SELECT sealed FROM vault_values AS o WHERE o.code <> vault_values.code AND o.scope = vault_values.scope)",
		"ciphertext": "UPDATE vault_values SET sealed = substr(sealed, 1, length(sealed) - 1)",
		"key":        "UPDATE vault_keys SET wrapped = substr(wrapped, 2)",
		"owner":      "UPDATE vault_keys SET created = created + 1",
		"no key":     "DELETE FROM vault_keys",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.SQLite(t)
			v := replica(t, db, Config{}, nil)
			keep(t, v, turn("s", "13800138000", "13900139001"))
			if err := db.Exec(change).Error; err != nil {
				t.Fatal(err)
			}
			got, err := replica(t, db, Config{}, nil).Find(t.Context(), Target{Tenant: "acme", Name: "s"}, []string{"C8000", "C9001"})
			if !fault.Is(err, fault.CodeVaultUnavailable) || got != nil || strings.Contains(err.Error(), "13800138000") {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// Values die a while after the last turn that brought one, and are not shown from then on, swept or not.
func TestTimeOver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		a, b := replica(t, db, Config{}, c), replica(t, db, Config{}, c)
		target := Target{Tenant: "acme", Name: "s"}
		keep(t, a, turn("s", "13800138000"))
		c.pass(3 * time.Hour)
		keep(t, b, turn("s", "13900139001")) // prolongs both
		c.pass(3 * time.Hour)
		if got := find(t, a, target, "C8000", "C9001"); len(got) != 2 {
			t.Errorf("%v", got)
		}
		c.pass(time.Hour - time.Microsecond)
		if got := find(t, a, target, "C8000"); len(got) != 1 {
			t.Error("gone too early")
		}
		c.pass(time.Microsecond)
		if got := find(t, a, target, "C8000", "C9001"); len(got) != 0 {
			t.Errorf("shown after its time: %v", got)
		}
		if err := a.Sweep(t.Context()); err != nil { // another clock may be behind
			t.Fatal(err)
		}
		consistent(t, db, 2)
		c.pass(clockSkew)
		if err := a.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		consistent(t, db, 0)
		for _, v := range []*Store{b, a} { // b still believes them to be there
			keep(t, v, turn("s", "13800138000"))
			if got := find(t, a, target, "C8000", "C9001"); len(got) != 1 {
				t.Errorf("%v", got)
			}
		}
		consistent(t, db, 1)
	})
}

// TestSweepTakesSoMany: a transaction of a sweep removes no more values than its time is enough for, and always some.
func TestSweepTakesSoMany(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		v := replica(t, db, Config{}, c)
		for i := range 5 {
			keep(t, v, turn(fmt.Sprintf("s%d", i), "13800138000", "13900139001", "13700137002"))
			c.pass(time.Second)
		}
		c.pass(5 * time.Hour)
		for values, want := range map[int64]int{1: 1, 5: 1, 6: 2, 14: 4, 100: 5} {
			got, err := v.store.expired(t.Context(), c.Now().UnixMicro(), values)
			if err != nil || len(got) != want || got[0] != v.digest("scope", "acme", "session/s0") {
				t.Errorf("%d values: %d scopes, %v", values, len(got), err)
			}
		}
		if err := v.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		consistent(t, db, 0)
	})
}

// TestNextTurnWritesNothing: what is known to be stored is not stored again, but prolonged once a quarter of its time is over, or if the policy
// wants it kept for another time.
func TestNextTurnWritesNothing(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	faults := &dbtest.Faults{}
	c := newClock()
	v := replica(t, faults.Over(db), Config{}, c)
	keep(t, v, turn("s", "13800138000", "13900139001"))
	statements := 0
	faults.Set(func(string) dbtest.Outcome { statements++; return dbtest.Healthy })
	for _, next := range []struct {
		after  time.Duration
		turn   Turn
		writes bool
	}{
		{0, turn("s", "13800138000", "13900139001"), false},
		{time.Hour - time.Second, turn("s", "13800138000"), false},
		{2 * time.Second, turn("s", "13800138000"), true},
		{0, turn("s", "13900139001"), false},
		{0, func() Turn { x := turn("s", "13900139001"); x.Keep = time.Hour; return x }(), true},
		{0, turn("other", "13900139001"), true},
		{0, turn("s", "13900139001", "13700137002"), true},
	} {
		c.pass(next.after)
		statements = 0
		keep(t, v, next.turn)
		if (statements > 0) != next.writes {
			t.Errorf("%s after %s, kept %s: %d operations", next.turn.Scope, next.after, next.turn.Keep, statements)
		}
	}
}

// A conversation and a tenant hold so many values and no more; what others hold, and what is there already, is not touched by the refusal.
func TestFull(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		v := replica(t, db, Config{PerSession: 3, PerTenant: 4}, nil)
		refuse := func(x Turn, whose string) {
			t.Helper()
			err := v.Store(t.Context(), x)
			if !fault.Is(err, fault.CodeVaultFull) || !strings.Contains(err.Error(), whose) {
				t.Errorf("%v", err)
			}
		}
		keep(t, v, turn("s1", "13800130001", "13800130002"))
		refuse(turn("s1", "13800130001", "13800130003", "13800130004"), "this conversation")
		consistent(t, db, 2)
		keep(t, v, turn("s1", "13800130001", "13800130002", "13800130003"), turn("s1", "13800130001"))
		refuse(turn("s2", "13800130001", "13800130002"), "the tenant")
		consistent(t, db, 3)
		keep(t, v, turn("s2", "13800130001"))
		elsewhere := turn("s2", "13800130001", "13800130002")
		elsewhere.Tenant = "other"
		keep(t, v, elsewhere)
		consistent(t, db, 6)
		if n, err := erase(t.Context(), v.EraseConversation(Target{Tenant: "acme", Name: "s1"})); err != nil || n != 3 {
			t.Errorf("%d, %v", n, err)
		}
		keep(t, v, turn("s3", "13800130001", "13800130002", "13800130003"))
		consistent(t, db, 6)
	})
}

// Many callers at once share transactions; one that finds no room takes nobody with it.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		var commits atomic.Int64
		faults := &dbtest.Faults{}
		faults.Set(func(op string) dbtest.Outcome {
			if op == "commit" {
				commits.Add(1)
			}
			return dbtest.Healthy
		})
		cfg := Config{PerSession: 5}
		replicas := []*Store{replica(t, faults.Over(db), cfg, nil), replica(t, faults.Over(db), cfg, nil)}
		const callers = 60
		var all sync.WaitGroup
		errs := make([]error, callers)
		for i := range callers {
			all.Go(func() {
				x := turn(fmt.Sprintf("s%d", i%6), fmt.Sprintf("1380013%04d", i%18)) // three values of each scope, from many sides
				if i%10 == 9 {
					x = turn("much", "13800130001", "13800130002", "13800130003", "13800130004", "13800130005", "13800130006")
				}
				errs[i] = replicas[i%2].Store(t.Context(), x)
			})
		}
		all.Wait()
		for i, err := range errs {
			if (i%10 == 9) != fault.Is(err, fault.CodeVaultFull) || (i%10 != 9) != (err == nil) {
				t.Errorf("caller %d: %v", i, err)
			}
		}
		consistent(t, db, 18)
		if n := commits.Load(); n >= callers {
			t.Errorf("%d callers needed %d transactions", callers, n)
		}
	})
}

// TestEveryFailure fails each operation of storing in turn, in both flavours. The call fails or the values are there; and when it is tried again
// they are there once.
func TestEveryFailure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		faults := &dbtest.Faults{}
		v := replica(t, faults.Over(db), Config{}, nil)
		total, ops := int64(0), 0
		for _, o := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for n := 1; ; n++ {
				x := turn(fmt.Sprintf("s%d-%d", o, n), "13800130001", "13800130002")
				x.Tenant = fmt.Sprintf("t%d-%d", o, n) // a new one, which needs a key
				failed, at := "", n
				faults.Set(func(op string) dbtest.Outcome {
					if at--; at == 0 {
						failed = op
						return o
					}
					return dbtest.Healthy
				})
				err := v.Store(t.Context(), x)
				faults.Set(nil)
				target := Target{Tenant: x.Tenant, Name: x.Name}
				if err == nil && len(find(t, v, target, "C0001", "C0002")) != 2 {
					t.Fatalf("%s (%d) outcome %d: stored, and not there", failed, n, o)
				}
				if err != nil && (!fault.Is(err, fault.CodeVaultUnavailable) || !errors.Is(err, dbtest.ErrInjected)) {
					t.Errorf("%s (%d) outcome %d: %v", failed, n, o, err)
				}
				if failed != "" && err == nil {
					t.Errorf("%s (%d) outcome %d: nobody noticed", failed, n, o)
				}
				keep(t, v, x)
				total += 2
				if len(find(t, v, target, "C0001", "C0002")) != 2 {
					t.Fatalf("%s (%d) outcome %d: not there after another try", failed, n, o)
				}
				consistent(t, db, total)
				if failed == "" {
					ops = n - 1
					break
				}
			}
		}
		if ops < 8 {
			t.Errorf("only %d operations failed", ops)
		}
	})
}

// TestEveryFailureOfRemoval does the same for erasing and sweeping.
func TestEveryFailureOfRemoval(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		faults := &dbtest.Faults{}
		c := newClock()
		v := replica(t, faults.Over(db), Config{}, c)
		for name, remove := range map[string]func(x Turn) error{
			"erase": func(x Turn) error {
				_, err := erase(t.Context(), v.EraseConversation(Target{Tenant: x.Tenant, Name: x.Name}))
				return err
			},
			"sweep": func(Turn) error { return v.Sweep(t.Context()) },
		} {
			for _, o := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
				for n := 1; ; n++ {
					x := turn(fmt.Sprintf("%s%d-%d", name, o, n), "13800130001", "13800130002")
					keep(t, v, x)
					if name == "sweep" {
						c.pass(x.Keep + 2*clockSkew)
					}
					failed, at := "", n
					faults.Set(func(op string) dbtest.Outcome {
						if at--; at == 0 {
							failed = op
							return o
						}
						return dbtest.Healthy
					})
					err := remove(x)
					faults.Set(nil)
					if (err != nil) != (failed != "") {
						t.Errorf("%s: %s (%d) outcome %d: %v", name, failed, n, o, err)
					}
					if err := remove(x); err != nil {
						t.Fatal(err)
					}
					consistent(t, db, 0)
					if failed == "" {
						break
					}
				}
			}
		}
	})
}

// A tenant gets a new key when its newest is old; the old one goes when no value needs it.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		v := replica(t, db, Config{RotateKeys: time.Hour}, c)
		long := turn("s", "13800138000")
		long.Keep = 100 * time.Hour
		keys := func() (n int64) {
			t.Helper()
			if err := db.Raw("SELECT COUNT(*) FROM vault_keys").Row().Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		keep(t, v, long)
		c.pass(2 * time.Hour)
		other := turn("s2", "13900139001")
		other.Keep = 100 * time.Hour
		keep(t, v, other)
		if n := keys(); n != 2 {
			t.Errorf("%d keys", n)
		}
		c.pass(50 * time.Hour)
		if err := v.Sweep(t.Context()); err != nil || keys() != 2 {
			t.Errorf("%v, %d keys: one is needed and went", err, keys())
		}
		if got := find(t, replica(t, db, Config{}, c), Target{Tenant: "acme", Name: "s"}, "C8000"); got["C8000"] != "13800138000" {
			t.Errorf("%v", got)
		}
		c.pass(49 * time.Hour)
		if err := v.Sweep(t.Context()); err != nil || keys() != 1 {
			t.Errorf("%v, %d keys", err, keys())
		}
	})
}

// A replica that rotates sooner deletes a key that another one remembers and goes on using: what that one stores can be read.
func TestKeyDeletedElsewhere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		slow, fast := replica(t, db, Config{}, c), replica(t, db, Config{RotateKeys: time.Hour}, c)
		keep(t, slow, turn("s", "13800138000"))
		c.pass(48 * time.Hour)
		must(t, fast.Sweep(t.Context()))
		keep(t, slow, turn("s2", "13900139001"))
		if got := find(t, replica(t, db, Config{}, c), Target{Tenant: "acme", Name: "s2"}, "C9001"); got["C9001"] != "13900139001" {
			t.Errorf("%v", got)
		}
	})
}

// Keys are deleted while values are being stored under them: no value is left without its key.
func TestKeysAreDeletedBesideWriters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		slow, fast := replica(t, db, Config{}, c), replica(t, db, Config{RotateKeys: time.Hour}, c)
		var writers sync.WaitGroup
		for i := range 30 {
			keep(t, slow, turn("first", "13800138000"))
			c.pass(48 * time.Hour)
			must(t, slow.Sweep(t.Context())) // the values are gone, and the key is old to the other replica
			writers.Go(func() { keep(t, slow, turn(fmt.Sprint("s", i), fmt.Sprint(13900139000+i))) })
			writers.Go(func() { must(t, fast.keys.deleteUnused(t.Context(), c.Now())) })
			writers.Wait()
			var lost int64
			must(t, db.Raw("SELECT COUNT(*) FROM vault_values AS v WHERE NOT EXISTS (SELECT 1 FROM vault_keys AS k WHERE k.id = v.key_id)").Row().Scan(&lost))
			if lost > 0 {
				t.Fatalf("round %d: %d values have lost their key", i, lost)
			}
		}
	})
}

// Two callers with one name for their conversations: each code that both gave, to different values, is nobody's.
func TestSameNameTwice(t *testing.T) {
	t.Parallel()
	v := replica(t, dbtest.SQLite(t), Config{}, nil)
	a, b := turn("s", "13800138000", "13900139001"), turn("s", "13800138000")
	b.Scope = "session/of another key"
	b.Values = append(b.Values, Value{Code: "C9001", Class: "person", Text: "张三"}, Value{Code: "ZZZZZ", Class: "person", Text: "李四"})
	keep(t, v, a, b)
	got := find(t, v, Target{Tenant: "acme", Name: "s"}, "C8000", "C9001", "ZZZZZ")
	if len(got) != 2 || got["C8000"] != "13800138000" || got["ZZZZZ"] != "李四" {
		t.Errorf("%v", got)
	}
}

// A caller who leaves is told so; the write goes on for the others.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	faults := &dbtest.Faults{}
	v := replica(t, faults.Over(db), Config{}, nil)
	ctx, leave := context.WithCancel(t.Context())
	held := make(chan struct{})
	faults.Set(func(op string) dbtest.Outcome {
		if op == "commit" {
			leave()
			<-held
		}
		return dbtest.Healthy
	})
	if err := v.Store(ctx, turn("s", "13800138000")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(held)
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	faults.Set(nil)
	if got := find(t, v, Target{Tenant: "acme", Name: "s"}, "C8000"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestOneOrderOfLocks: storing and removing take the rows of scopes, and then those of tenants, in one order, so that neither waits for the other.
func TestOneOrderOfLocks(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	v := replica(t, db, Config{}, nil)
	var taken []string
	note := func(tx *gorm.DB) {
		if table := tx.Statement.Table; table == "vault_scopes" || table == "vault_tenants" {
			var key string
			for _, x := range tx.Statement.Vars {
				switch x := x.(type) {
				case []byte: // the last one is the scope
					key = fmt.Sprintf("%x", x)
				case string:
					key = x
				}
			}
			if !slices.Contains(taken, key) {
				taken = append(taken, key)
			}
		}
	}
	if err := errors.Join(db.Callback().Update().After("gorm:update").Register("note", note), db.Callback().Delete().After("gorm:delete").Register("note", note)); err != nil {
		t.Fatal(err)
	}
	var batch []*pending
	var scopes []digest
	for i := range 12 {
		x := turn(fmt.Sprintf("s%d", i), "13800138000")
		x.Tenant = fmt.Sprintf("tenant-%d", i%3)
		p := v.prepare(x)
		batch, scopes = append(batch, p), append(scopes, p.scope)
	}
	if _, _, err := v.commit(batch); err != nil {
		t.Fatal(err)
	}
	stored := taken
	taken = nil
	if n, err := v.store.remove(t.Context(), scopes, noExpiry); err != nil || n != 12 {
		t.Fatalf("%d, %v", n, err)
	}
	if len(stored) != 12+3 || !slices.Equal(taken, stored) {
		t.Errorf("stored in the order\n%q, removed in the order\n%q", stored, taken)
	}
}

// A replica that stops in the middle of a transaction holds up no other, and its own callers are refused.
func TestPausedReplica(t *testing.T) {
	t.Parallel()
	db := dbtest.Postgres(t)
	faults := &dbtest.Faults{}
	cfg := Config{Timeout: 4 * time.Second}
	a, b := replica(t, faults.Over(db), cfg, nil), replica(t, db, cfg, nil)
	keep(t, b, turn("s", "13800138000"))
	inside, resume := make(chan struct{}), make(chan struct{})
	faults.Set(func(op string) dbtest.Outcome {
		if op == "commit" {
			close(inside)
			<-resume
		}
		return dbtest.Healthy
	})
	paused := make(chan error, 1)
	go func() { paused <- a.Store(t.Context(), turn("s", "13900139001")) }()
	<-inside
	keep(t, b, turn("s", "13700137002"))
	close(resume)
	if err := <-paused; !fault.Is(err, fault.CodeVaultUnavailable) {
		t.Errorf("the paused replica's caller went on: %v", err)
	}
	faults.Set(nil)
	keep(t, a, turn("s", "13900139001"))
	consistent(t, db, 3)
}

// Whoever looks for values or removes them waits for the database for a bounded time, whether the caller is in a hurry or not.
func TestNobodyWaitsForever(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	keep(t, replica(t, db, Config{}, nil), turn("s", "13800138000"))
	v := replica(t, db, Config{}, nil) // which knows no key yet
	statements := 0
	look := func(tx *gorm.DB) {
		statements++
		if _, ok := tx.Statement.Context.Deadline(); !ok {
			t.Errorf("no deadline: %s", tx.Statement.SQL.String())
		}
	}
	err := errors.Join(db.Callback().Query().After("gorm:query").Register("look", look), db.Callback().Delete().After("gorm:delete").Register("look", look),
		db.Callback().Update().After("gorm:update").Register("look", look))
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Tenant: "acme", Name: "s"}
	if got := find(t, v, target, "C8000"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if n, err := erase(t.Context(), v.EraseConversation(target)); err != nil || n != 1 || statements < 8 {
		t.Errorf("%d, %v, %d statements", n, err, statements)
	}
	statements = 0
	keep(t, v, turn("s", "13800138000"))
	v.now = func() time.Time { return time.Now().Add(8 * time.Hour) }
	if err := v.Sweep(t.Context()); err != nil || statements < 8 {
		t.Errorf("%v, %d statements", err, statements)
	}
	late := replica(t, db, Config{Timeout: time.Nanosecond}, nil)
	if _, err := late.Find(t.Context(), target, []string{"C8000"}); !fault.Is(err, fault.CodeVaultUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// A key that takes long to come holds up nobody who has his.
func TestSlowKeyHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	other := turn("s", "13800138000")
	other.Tenant = "other"
	for name, slow := range map[string]func(context.Context, *Store) error{
		"of a value": func(ctx context.Context, v *Store) error {
			_, err := v.Find(ctx, Target{Tenant: "other", Name: "s"}, []string{"C8000"})
			return err
		},
		"for new values": func(ctx context.Context, v *Store) error { return v.Store(ctx, other) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.SQLite(t)
			keep(t, replica(t, db, Config{}, nil), turn("s", "13800138000"), other)
			v := replica(t, db, Config{}, nil)
			target := Target{Tenant: "acme", Name: "s"}
			find(t, v, target, "C8000")
			inside, resume := make(chan struct{}), make(chan struct{})
			enter := sync.OnceFunc(func() { close(inside) }) // storing asks twice: for the key, and whether it is still there
			err := db.Callback().Query().Before("gorm:query").Register("hold", func(tx *gorm.DB) {
				if tx.Statement.Table == "vault_keys" {
					enter()
					<-resume
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			held, done := make(chan error, 1), make(chan error, 1)
			go func() { held <- slow(t.Context(), v) }()
			<-inside
			go func() {
				_, err := v.Find(t.Context(), target, []string{"C8000"})
				done <- err
			}()
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Error("somebody who needs no key waits")
			}
			close(resume)
			if err := <-held; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"suite": {Suite: "rot13"}, "per_session": {PerSession: -1}, "per_tenant": {PerTenant: 5}, "timeout": {Timeout: -1}, "rotate_keys": {RotateKeys: time.Minute},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

// Two requests of a conversation may give two values one code, each without knowing of the other: neither is shown for the other.
func TestOneCodeOfTwoValues(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		v := replica(t, db, Config{}, nil)
		first, second := turn("s", "13800138000"), turn("s", "13900138000")
		keep(t, v, first, first)
		if got := find(t, v, Target{Tenant: "acme", Name: "s"}, "C8000"); got["C8000"] != "13800138000" {
			t.Errorf("%v", got)
		}
		keep(t, v, second)
		for _, r := range []*Store{v, replica(t, db, Config{}, nil)} {
			if got := find(t, r, Target{Tenant: "acme", Name: "s"}, "C8000"); len(got) != 0 {
				t.Errorf("%v", got)
			}
		}
		consistent(t, db, 2)
	})
}

// A tenant whose key was damaged is refused, and others that write at the same time are not.
func TestOneTenantsKeyIsDamaged(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	keep(t, replica(t, db, Config{}, nil), turn("s", "13800138000"))
	if err := db.Exec("UPDATE vault_keys SET wrapped = ?", []byte("damaged")).Error; err != nil {
		t.Fatal(err)
	}
	v := replica(t, db, Config{}, nil)
	other := turn("s", "13900138001")
	other.Tenant = "other"
	bad := v.prepare(turn("s", "13900138002"))
	good := v.prepare(other)
	if _, _, err := v.commit([]*pending{bad, good}); err != nil {
		t.Fatal(err)
	}
	if !fault.Is(bad.err, fault.CodeVaultUnavailable) || good.err != nil {
		t.Errorf("%v, %v", bad.err, good.err)
	}
	if got := find(t, v, Target{Tenant: "other", Name: "s"}, "C8001"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
