package instances

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// closing is an engine that remembers whether it was closed.
type closing struct {
	engine.Engine

	mu     sync.Mutex
	closed bool
}

func (c *closing) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *closing) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

type kit struct {
	*Registry

	pools  *pool.Set
	opened []*closing
}

func open(t *testing.T, db *gorm.DB) *kit {
	t.Helper()
	k := &kit{pools: &pool.Set{}}
	var err error
	k.Registry, err = New(Config{Networks: []string{"10.0.0.0/8"}, Keys: []Key{{Name: "gpu", Secret: keyring.Inline("secret")}}}, snapshot.Config{}, Deps{
		DB: db, Pools: k.pools, Log: slog.New(slog.DiscardHandler),
		Configured: map[string][]pool.Member{
			"native": {{Name: "native", Kind: pool.KindNative, Engine: enginetest.NewScripted(nil)}},
			"chat":   {{Name: "gpu-1", Kind: pool.KindRemote, Engine: enginetest.NewScripted(nil), Attributes: pool.Attributes{Weight: 3, Zone: "a"}}},
		},
		Open: func(s Spec, networks []string, key keyring.Credential) (engine.Engine, error) {
			if len(networks) != 1 || s.Key != "" && key.Reveal() != "secret" {
				return nil, errors.New("opened with other bounds")
			}
			e := &closing{Engine: enginetest.NewScripted(nil)}
			k.opened = append(k.opened, e)
			return e, nil
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

func spec(name string) Spec {
	return Spec{
		Pool: "chat", Name: name, BaseURL: "http://10.0.0.5:8000/v1", Dialect: "vllm", Key: "gpu", Models: []Model{{ID: "scripted"}},
		Attributes: pool.Attributes{Weight: 2, Zone: "b", Roles: []string{"prefill", "decode"}, CostPerHour: 5, Power: pool.PowerMeasured},
	}
}

func (k *kit) status(t *testing.T, poolName, name string) Described {
	t.Helper()
	for _, d := range k.List() {
		if d.Pool == poolName && d.Name == name {
			return d
		}
	}
	t.Fatalf("there is no %s/%s", poolName, name)
	return Described{}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRegistered: what one replica registers, drains, weighs and removes the other has after a look, and a restart too; an engine is closed only
// after its last request.
func TestRegistered(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := open(t, db), open(t, db)
		ok(t, a.Add(t.Context(), spec("gpu-2"), "admin"))
		here := a.status(t, "chat", "gpu-2")
		if here.State != pool.StateReady || here.BaseURL != "http://10.0.0.5:8000/v1" || here.CreatedBy != "admin" || here.Profile != "vllm" || here.Configured ||
			here.Weight != 2 || here.Zone != "b" || fmt.Sprint(here.Roles) != "[prefill decode]" || here.CostPerHour != 5 || here.Power != pool.PowerMeasured {
			t.Errorf("%+v", here)
		}
		ok(t, b.rows.Refresh(t.Context()))
		if there := b.status(t, "chat", "gpu-2"); there.State != pool.StateReady {
			t.Errorf("the other replica: %+v", there)
		}
		weight, yes := 9, true
		before, after, err := b.Change(t.Context(), "chat", "gpu-2", Change{Weight: &weight, Draining: &yes})
		if err != nil || before.Weight != 2 || before.Draining || after.Weight != 9 || !after.Draining {
			t.Errorf("%+v, %+v, %v", before, after, err)
		}
		before, after, err = b.Change(t.Context(), "chat", "gpu-1", Change{Draining: &yes}) // of the configuration
		if err != nil || before.Weight != 3 || after.Weight != 3 || !after.Draining {
			t.Errorf("%+v, %+v, %v", before, after, err)
		}
		ok(t, a.rows.Refresh(t.Context()))
		for name, d := range map[string]Described{"replica": a.status(t, "chat", "gpu-1"), "restarted": open(t, db).status(t, "chat", "gpu-1")} {
			if !d.Configured || !d.Draining || d.Weight != 3 || d.State != pool.StateDraining && d.State != pool.StateStarting {
				t.Errorf("%s: %+v", name, d)
			}
		}
		var running *pool.Instance
		for _, i := range a.pools.Instances("chat") {
			if i.Name == "gpu-2" {
				running = i
			}
		}
		running.Begin()
		ok(t, b.Remove(t.Context(), "chat", "gpu-2"))
		ok(t, a.rows.Refresh(t.Context()))
		if got := len(a.pools.Instances("chat")); got != 1 {
			t.Errorf("%d instances", got)
		}
		e := running.Engine.(*closing)
		if a.closeIdle(); e.isClosed() {
			t.Error("closed while it runs a request")
		}
		running.End(nil)
		if a.closeIdle(); e.isClosed() {
			t.Error("closed before those could begin that were routed to it")
		}
		a.now = func() time.Time { return time.Now().Add(closeAfter) }
		if a.closeIdle(); !e.isClosed() {
			t.Error("not closed after its last request")
		}
		a.now = time.Now
		ok(t, b.Add(t.Context(), spec("gpu-2"), "admin"))
		ok(t, b.Close())
		if last := b.opened[len(b.opened)-1]; !last.isClosed() {
			t.Error("not closed with the registry")
		}
	})
}

// TestConfigurationTakesThePlace: a registration whose place a later configuration has is not used there, and can be removed.
func TestConfigurationTakesThePlace(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	k := open(t, db)
	for _, at := range [][2]string{{"later", "gpu"}, {"own", "x"}} {
		s := spec(at[1])
		s.Pool = at[0]
		ok(t, k.Add(t.Context(), s, "admin"))
	}
	deps := k.deps
	deps.Pools = &pool.Set{}
	deps.Configured = map[string][]pool.Member{
		"later": {{Name: "gpu", Kind: pool.KindRemote, Engine: enginetest.NewScripted(nil)}},
		"own":   {{Name: "own", Kind: pool.KindNative, Engine: enginetest.NewScripted(nil)}},
	}
	after, err := New(k.cfg, snapshot.Config{}, deps, nil)
	ok(t, err)
	ok(t, after.Load(t.Context()))
	for _, name := range []string{"later", "own"} {
		if got := deps.Pools.Instances(name); len(got) != 1 || got[0].Engine != deps.Configured[name][0].Engine {
			t.Errorf("%s has %d instances", name, len(got))
		}
	}
	ok(t, after.Remove(t.Context(), "later", "gpu"))
	ok(t, after.Remove(t.Context(), "own", "x"))
	if err := after.Remove(t.Context(), "later", "gpu"); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("the one of the configuration: %v", err)
	}
}

// TestNewPool: a pool begins with its first instance and ends with its last one.
func TestNewPool(t *testing.T) {
	t.Parallel()
	k := open(t, dbtest.SQLite(t))
	s := spec("only")
	s.Pool = "fresh"
	ok(t, k.Add(t.Context(), s, "admin"))
	if !k.pools.Has("fresh") {
		t.Error("the pool does not begin")
	}
	ok(t, k.Remove(t.Context(), "fresh", "only"))
	if k.pools.Has("fresh") {
		t.Error("the pool does not end")
	}
}

// TestRefused: what may not be registered, changed or removed.
func TestRefused(t *testing.T) {
	t.Parallel()
	k := open(t, dbtest.SQLite(t))
	ok(t, k.Add(t.Context(), spec("gpu-2"), "admin"))
	with := func(change func(*Spec)) Spec {
		s := spec("gpu-3")
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		s    Spec
		want fault.Code
	}{
		"twice":           {spec("gpu-2"), fault.CodeExists},
		"configured":      {spec("gpu-1"), fault.CodeExists},
		"no name":         {with(func(s *Spec) { s.Name = "" }), fault.CodeMissing},
		"a slash":         {with(func(s *Spec) { s.Name = "a/b" }), fault.CodeInvalidValue},
		"no address":      {with(func(s *Spec) { s.BaseURL = "" }), fault.CodeMissing},
		"no models":       {with(func(s *Spec) { s.Models = nil }), fault.CodeInvalidValue},
		"a model twice":   {with(func(s *Spec) { s.Models = []Model{{ID: "a"}, {ID: "a"}} }), fault.CodeInvalidValue},
		"unknown key":     {with(func(s *Spec) { s.Key = "file:/etc/shadow" }), fault.CodeInvalidValue},
		"this process":    {with(func(s *Spec) { s.Pool = "native" }), fault.CodeInvalidValue},
		"too much weight": {with(func(s *Spec) { s.Attributes.Weight = 1001 }), fault.CodeInvalidValue},
		"a role":          {with(func(s *Spec) { s.Attributes.Roles = []string{"a,b"} }), fault.CodeInvalidValue},
	} {
		if err := k.Add(t.Context(), c.s, "admin"); !fault.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if err := k.Remove(t.Context(), "chat", "gpu-1"); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("one of the configuration is removed: %v", err)
	}
	if err := k.Remove(t.Context(), "chat", "gpu-9"); !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("%v", err)
	}
	if _, _, err := k.Change(t.Context(), "chat", "gpu-9", Change{}); !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("%v", err)
	}
	none, err := New(Config{}, snapshot.Config{}, k.deps, nil)
	ok(t, err)
	if err := none.Add(t.Context(), spec("gpu-3"), "admin"); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("registered without networks: %v", err)
	}
}

// TestEveryFailure breaks every write at each of its statements and at its commit, whose answer may be lost: what is in the pools afterwards is what is
// stored, and the same call again brings what was wanted.
func TestEveryFailure(t *testing.T) {
	t.Parallel()
	yes := true
	for name, act := range map[string]func(context.Context, *kit) error{
		"add": func(ctx context.Context, k *kit) error { return k.Add(ctx, spec("gpu-3"), "admin") },
		"change": func(ctx context.Context, k *kit) error {
			_, _, err := k.Change(ctx, "chat", "gpu-2", Change{Draining: &yes})
			return err
		},
		"remove": func(ctx context.Context, k *kit) error { return k.Remove(ctx, "chat", "gpu-2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, how := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
				at := 0
				for breakAt(t, at, how, act) {
					at++
				}
			}
		})
	}
}

// breakAt breaks the at-th operation of an act. It reports whether there was one.
func breakAt(t *testing.T, at int, how dbtest.Outcome, act func(context.Context, *kit) error) bool {
	t.Helper()
	db := dbtest.SQLite(t)
	sound := open(t, db)
	ok(t, sound.Add(t.Context(), spec("gpu-2"), "admin"))
	var faults dbtest.Faults
	k := open(t, faults.Over(db))
	n, hit := 0, false
	faults.Set(func(string) dbtest.Outcome {
		if n++; n-1 == at {
			hit = true
			return how
		}
		return dbtest.Healthy
	})
	err := act(t.Context(), k)
	faults.Set(nil)
	if !hit {
		ok(t, err)
		return false
	}
	ok(t, errors.Join(k.Load(t.Context()), sound.Load(t.Context())))
	if a, b := fmt.Sprint(names(k)), fmt.Sprint(names(sound)); a != b {
		t.Errorf("operation %d: %s here, %s elsewhere", at, a, b)
	}
	if err := act(t.Context(), k); err != nil && !fault.Is(err, fault.CodeExists) && !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("operation %d, again: %v", at, err)
	}
	return true
}

func names(k *kit) (out []string) {
	for _, d := range k.List() {
		out = append(out, fmt.Sprint(d.Pool, "/", d.Name, " ", d.Draining))
	}
	return out
}

// TestScaledMembers come and go beside what is configured and registered, and a change of a registration leaves them where they are.
func TestScaledMembers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := open(t, db)
		names := func() string {
			out := ""
			for _, i := range k.pools.Instances("chat") {
				out += i.Name + " "
			}
			return out
		}
		member := func(name string) pool.Member {
			return pool.Member{Name: name, Kind: pool.KindWorker, Engine: enginetest.NewScripted(nil)}
		}
		if err := k.Add(t.Context(), Spec{Pool: "chat", Name: "gpu-2", BaseURL: "http://10.0.0.2/v1", Models: []Model{{ID: "m"}}}, "admin"); err != nil {
			t.Fatal(err)
		}
		one, two := member("scaled-1"), member("scaled-2")
		k.Scale(t.Context(), "chat", []pool.Member{one, two})
		if got := names(); got != "gpu-1 scaled-1 scaled-2 gpu-2 " {
			t.Errorf("%q", got)
		}
		kept := k.pools.Instances("chat")[1]
		if st := kept.Status(); st.State != pool.StateReady {
			t.Errorf("it came back before requests may go there: %s", st.State)
		}
		two.Draining = true
		k.Scale(t.Context(), "chat", []pool.Member{one, two})
		if err := k.Remove(t.Context(), "chat", "gpu-2"); err != nil {
			t.Fatal(err)
		}
		if got := names(); got != "gpu-1 scaled-1 scaled-2 " || k.pools.Instances("chat")[1] != kept || k.pools.Instances("chat")[2].Status().State != pool.StateDraining {
			t.Errorf("%q", got)
		}
		k.Scale(t.Context(), "chat", nil)
		if got := names(); got != "gpu-1 " {
			t.Errorf("%q", got)
		}
	})
}
