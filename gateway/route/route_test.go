package route_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t testing.TB, db *gorm.DB, engines map[string]engine.Engine) *route.Router {
	t.Helper()
	r, err := route.New(route.Config{}, db, pool.Each(engines), discard(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func engines() map[string]engine.Engine {
	return map[string]engine.Engine{"native": enginetest.NewScripted(nil)}
}

func version(v string) route.Version {
	return route.Version{Model: "chat", Version: v, Engine: "native", EngineModel: "scripted"}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRegisterAndAssign(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		r, replica := open(t, db, engines()), open(t, db, engines())
		temperature := 0.3
		v1 := version("v1")
		v1.Defaults.Temperature = &temperature
		v1.CreatedAt = 10
		ok(t, r.Register(t.Context(), v1))
		ok(t, r.Register(t.Context(), v1))
		ok(t, r.Register(t.Context(), version("v2")))
		other := v1
		other.Precision = "q8_0"
		if err := r.Register(t.Context(), other); !fault.Is(err, fault.CodeExists) {
			t.Errorf("changed version: %v", err)
		}
		a, err := r.Assignment(t.Context(), "chat")
		if err != nil || a != (route.Assignment{Model: "chat", Stable: "v1"}) {
			t.Errorf("the first version must be stable: %+v, %v", a, err)
		}
		c, err := r.Pick(route.Ask{Model: "chat"})
		if err != nil || c.Version.Version != "v1" || *c.Version.Defaults.Temperature != 0.3 || c.Arm != "" || c.Info.ContextTokens == 0 || c.Version.Precision != "none" {
			t.Errorf("%+v, %v", c, err)
		}
		a = route.Assignment{Model: "chat", Stable: "v1", Candidate: "v2", Basis: 10_000, Rollout: "r1", Salt: "s"}
		ok(t, r.SetAssignment(t.Context(), a))
		if c, err = r.Pick(route.Ask{Model: "chat", Unit: "u"}); err != nil || c.Version.Version != "v2" || c.Arm != route.ArmCandidate || c.Rollout != "r1" {
			t.Errorf("%+v, %v", c, err)
		}
		if c, err = r.Pick(route.Ask{Model: "chat@v1", Unit: "u"}); err != nil || c.Version.Version != "v1" || c.Arm != "" || c.Rollout != "" {
			t.Errorf("a pinned version must not be part of the rollout: %+v, %v", c, err)
		}
		if got, err := replica.Assignment(t.Context(), "chat"); err != nil || got != a {
			t.Errorf("another replica: %+v, %v", got, err)
		}
		vs, err := r.Versions(t.Context(), "chat")
		if err != nil || len(vs) != 2 || vs[0].Version != "v1" {
			t.Errorf("%+v, %v", vs, err)
		}
		if ms := r.Models(); len(ms) != 1 || ms[0].Name != "chat" || ms[0].CreatedAt != 10 {
			t.Errorf("%+v", ms)
		}
		for name, bad := range map[string]route.Assignment{
			"no such candidate": {Model: "chat", Stable: "v1", Candidate: "v9", Rollout: "r", Salt: "s"},
			"no such stable":    {Model: "chat", Stable: "v9"},
			"empty stable":      {Model: "chat"},
			"no such model":     {Model: "nope", Stable: "v1"},
			"basis too high":    {Model: "chat", Stable: "v1", Candidate: "v2", Basis: 10_001, Rollout: "r", Salt: "s"},
			"negative basis":    {Model: "chat", Stable: "v1", Basis: -1},
			"share of nothing":  {Model: "chat", Stable: "v1", Basis: 5},
			"no salt":           {Model: "chat", Stable: "v1", Candidate: "v2", Rollout: "r"},
		} {
			if err := r.SetAssignment(t.Context(), bad); err == nil {
				t.Errorf("%s was accepted", name)
			}
		}
		if got, err := r.Assignment(t.Context(), "chat"); err != nil || got != a {
			t.Errorf("a refused change must change nothing: %+v, %v", got, err)
		}
	})
}

// signal is an engine that tells when a router has asked it for its models, which every look at the routes ends with.
type signal struct {
	engine.Engine
	asked chan struct{}
}

func (s signal) Models(ctx context.Context) ([]engine.Model, error) {
	select {
	case s.asked <- struct{}{}:
	case <-ctx.Done():
	}
	return s.Engine.Models(ctx)
}

func TestOtherReplicaFollows(t *testing.T) {
	db := dbtest.SQLite(t)
	asked := make(chan struct{}, 1)
	r := open(t, db, engines())
	replica, err := route.New(route.Config{Poll: time.Millisecond}, db, pool.Each(map[string]engine.Engine{"native": signal{enginetest.NewScripted(nil), asked}}), discard(), nil)
	ok(t, err)
	ok(t, replica.Load(t.Context()))
	<-asked
	ok(t, r.Register(t.Context(), version("v1")))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- replica.Run(ctx) }()
	for _, err = replica.Pick(route.Ask{Model: "chat"}); err != nil && t.Context().Err() == nil; _, err = replica.Pick(route.Ask{Model: "chat"}) {
		<-asked // once a millisecond: routes are looked at as often
	}
	cancel()
	ok(t, <-done)
}

func TestPickRefuses(t *testing.T) {
	db := dbtest.SQLite(t)
	down := enginetest.NewScripted(nil)
	all := map[string]engine.Engine{"native": enginetest.NewScripted(nil), "down": failing{down}}
	empty, err := route.New(route.Config{}, db, pool.Each(all), discard(), nil)
	ok(t, err)
	if _, err := empty.Pick(route.Ask{Model: "chat"}); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("before Load: %v", err)
	}
	r := open(t, db, all)
	ok(t, r.Register(t.Context(), version("v1")))
	ok(t, r.Register(t.Context(), route.Version{Model: "embed", Version: "v1", Engine: "native", EngineModel: "scripted-embed"}))
	ok(t, r.Register(t.Context(), route.Version{Model: "away", Version: "v1", Engine: "down", EngineModel: "scripted"}))
	ok(t, r.Register(t.Context(), route.Version{Model: "gone", Version: "v1", Engine: "native", EngineModel: "removed"}))
	for _, c := range []struct {
		ask  route.Ask
		code fault.Code
	}{
		{route.Ask{Model: "nope"}, fault.CodeModelNotFound},
		{route.Ask{Model: ""}, fault.CodeModelNotFound},
		{route.Ask{Model: "chat@v9"}, fault.CodeModelNotFound},
		{route.Ask{Model: "chat@"}, fault.CodeModelNotFound},
		{route.Ask{Model: "chat", Need: route.Embed}, fault.CodeModelNotCapable},
		{route.Ask{Model: "embed"}, fault.CodeModelNotCapable},
		{route.Ask{Model: "away"}, fault.CodeEngineUnavailable},
		{route.Ask{Model: "gone"}, fault.CodeEngineUnavailable},
	} {
		if _, err := r.Pick(c.ask); !fault.Is(err, c.code) {
			t.Errorf("%+v: %v, want %s", c.ask, err, c.code)
		}
	}
	states := map[string]string{}
	for _, m := range r.Models() {
		states[m.Name] = fmt.Sprint(m.Engine, " ", m.Info.CanGenerate, " ", m.Info.EmbedDim, " ", fault.Is(m.Err, fault.CodeEngineUnavailable))
	}
	if want := map[string]string{
		"chat": "native true 0 false", "embed": "native false 32 false", "away": "down false 0 true", "gone": "native false 0 true",
	}; !maps.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
	bad := version("v 2")
	for _, v := range []route.Version{{}, bad, {Model: "a@b", Version: "v", Engine: "native", EngineModel: "m"}, {Model: "a", Version: "v", Engine: "nope", EngineModel: "m"}} {
		if r.Register(t.Context(), v) == nil {
			t.Errorf("%+v was registered", v)
		}
	}
}

// TestWeightsThatChanged: a file swapped under a version's name must not answer for it.
func TestWeightsThatChanged(t *testing.T) {
	db := dbtest.SQLite(t)
	weights := func(digest string) map[string]engine.Engine {
		return map[string]engine.Engine{"native": enginetest.NewScripted(nil, engine.Model{ID: "scripted", Digest: digest, Precision: "q4_1", CanGenerate: true})}
	}
	r := open(t, db, weights("sha256:aa"))
	foreign := version("v0")
	foreign.Digest = "sha256:bb"
	if err := r.Register(t.Context(), foreign); !fault.Is(err, fault.CodeInvalidValue) {
		t.Errorf("registered with a foreign digest: %v", err)
	}
	ok(t, r.Register(t.Context(), version("v1")))
	if c, err := r.Pick(route.Ask{Model: "chat"}); err != nil || c.Version.Digest != "sha256:aa" || c.Version.Precision != "q4_1" {
		t.Errorf("%+v, %v", c.Version, err)
	}
	swapped := open(t, db, weights("sha256:bb"))
	if c, err := swapped.Pick(route.Ask{Model: "chat"}); !fault.Is(err, fault.CodeEngineUnavailable) || c.Version.Version != "v1" {
		t.Errorf("swapped weights: %+v, %v", c.Version, err)
	}
}

// TestAdapterThatChanged: the same model with another adapter is not what the version was registered with.
func TestAdapterThatChanged(t *testing.T) {
	db := dbtest.SQLite(t)
	adapted := func(adapter string) map[string]engine.Engine {
		return map[string]engine.Engine{"native": enginetest.NewScripted(nil, engine.Model{ID: "scripted", Digest: "sha256:aa", Base: "base", Adapter: adapter, CanGenerate: true})}
	}
	r := open(t, db, adapted("sha256:cc"))
	ok(t, r.Register(t.Context(), version("v1")))
	if c, err := r.Pick(route.Ask{Model: "chat"}); err != nil || c.Version.Digest != "sha256:aa+sha256:cc" {
		t.Errorf("%+v, %v", c.Version, err)
	}
	if d, err := r.Digest("native", "scripted"); err != nil || d != "sha256:aa+sha256:cc" {
		t.Errorf("%q, %v", d, err)
	}
	if _, err := r.Digest("native", "none"); !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("the digest of no model: %v", err)
	}
	if _, err := open(t, db, adapted("sha256:dd")).Pick(route.Ask{Model: "chat"}); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("swapped adapter: %v", err)
	}
	if _, err := open(t, db, adapted("")).Pick(route.Ask{Model: "chat"}); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("without its adapter: %v", err)
	}
}

type failing struct{ engine.Engine }

func (failing) Models(context.Context) ([]engine.Model, error) { return nil, errors.New("down") }

// TestSharesNestAndAreFair: who is in 20 % is in 40 % and in 80 %, and each share is its size within five standard deviations.
func TestSharesNestAndAreFair(t *testing.T) {
	r := open(t, dbtest.SQLite(t), engines())
	ok(t, r.Register(t.Context(), version("v1")))
	ok(t, r.Register(t.Context(), version("v2")))
	const n = 20_000
	before := map[int]bool{}
	for _, basis := range []int{0, 2000, 4000, 8000, 10_000} {
		ok(t, r.SetAssignment(t.Context(), route.Assignment{Model: "chat", Stable: "v1", Candidate: "v2", Basis: basis, Rollout: "r", Salt: "pepper"}))
		hits := 0
		for i := range n {
			c, err := r.Pick(route.Ask{Model: "chat", Unit: fmt.Sprintf("conversation-%d", i)})
			ok(t, err)
			in := c.Arm == route.ArmCandidate
			if before[i] && !in {
				t.Fatalf("unit %d left the candidate when the share grew to %d", i, basis)
			}
			before[i] = in
			if in {
				hits++
			}
		}
		p := float64(basis) / route.Scale
		if diff := math.Abs(float64(hits) - n*p); diff > 5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("share %d: %d of %d", basis, hits, n)
		}
	}
	// Another salt draws another share: two rollouts do not always try the same users.
	ok(t, r.SetAssignment(t.Context(), route.Assignment{Model: "chat", Stable: "v1", Candidate: "v2", Basis: 5000, Rollout: "r", Salt: "a"}))
	same := 0
	first := map[int]string{}
	for i := range 2000 {
		c, err := r.Pick(route.Ask{Model: "chat", Unit: fmt.Sprint(i)})
		ok(t, err)
		first[i] = c.Arm
	}
	ok(t, r.SetAssignment(t.Context(), route.Assignment{Model: "chat", Stable: "v1", Candidate: "v2", Basis: 5000, Rollout: "r2", Salt: "b"}))
	for i := range 2000 {
		c, err := r.Pick(route.Ask{Model: "chat", Unit: fmt.Sprint(i)})
		ok(t, err)
		if c.Arm == first[i] {
			same++
		}
	}
	if same < 850 || same > 1150 {
		t.Errorf("%d of 2000 fell on the same side under another salt", same)
	}
}

func TestConfig(t *testing.T) {
	if (route.Config{Poll: 2 * time.Second}).Validate() == nil || (route.Config{Poll: -1}).Validate() == nil {
		t.Error("a poll outside 0..1s must be refused")
	}
	synctest.Test(t, func(t *testing.T) {
		r, err := route.New(route.Config{}, nil, &pool.Set{}, discard(), nil)
		ok(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ok(t, r.Run(ctx))
	})
}

// TestWithinAnEngine: who asks for a model of an engine gets that one, wherever callers are led, under the version that has its weights.
func TestWithinAnEngine(t *testing.T) {
	r := open(t, dbtest.SQLite(t), map[string]engine.Engine{"native": enginetest.NewScripted(nil), "other": enginetest.NewScripted(nil)})
	ask := route.Ask{Engine: "native", Model: "scripted-embed", Need: route.Embed}
	c, err := r.Pick(ask)
	if err != nil || c.Version.Model != "scripted-embed" || c.Version.Version != "" || c.Version.EngineModel != "scripted-embed" || !c.Info.CanEmbed || c.Instance == nil {
		t.Fatalf("without a version: %+v, %v", c, err)
	}
	for _, v := range []route.Version{
		{Model: "abroad", Version: "v1", Engine: "other", EngineModel: "scripted-embed"},
		{Model: "embed", Version: "v1", Engine: "native", EngineModel: "scripted-embed"},
		{Model: "embed", Version: "v2", Engine: "native", EngineModel: "scripted-embed"},
	} {
		ok(t, r.Register(t.Context(), v))
	}
	ok(t, r.SetAssignment(t.Context(), route.Assignment{Model: "embed", Stable: "v2", Candidate: "v1", Basis: route.Scale, Rollout: "r", Salt: "s"}))
	if c, err = r.Pick(ask); err != nil || c.Version.Model != "scripted-embed" || c.Version.Version != "v2" || c.Rollout != "" || c.Arm != "" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []route.Ask{
		{Engine: "nowhere", Model: "scripted-embed", Need: route.Embed}, {Engine: "native", Model: "nothing", Need: route.Embed}, {Engine: "native", Model: "scripted", Need: route.Embed},
	} {
		if _, err := r.Pick(bad); !fault.Is(err, fault.CodeEngineUnavailable) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestInstancesOfAPool: a request goes to an instance that can run it and has the version's weights; a condition that changes leads the next one
// elsewhere; where none is left, the error says what is missing.
func TestInstancesOfAPool(t *testing.T) {
	model := func(digest string, tools bool) *changing {
		return &changing{Engine: enginetest.NewScripted(nil), model: engine.Model{ID: "scripted", Digest: digest, CanGenerate: true, HasTools: tools}}
	}
	plain, able, other := model("sha256:aa", false), model("sha256:aa", true), model("sha256:bb", true)
	set := &pool.Set{}
	set.Replace("chat", []pool.Member{{Name: "plain", Engine: plain}, {Name: "able", Engine: able}, {Name: "other", Engine: other}})
	r, err := route.New(route.Config{}, dbtest.SQLite(t), set, discard(), nil)
	ok(t, err)
	ok(t, r.Load(t.Context()))
	v := version("v1")
	v.Engine, v.Digest = "chat", "sha256:aa"
	ok(t, r.Register(t.Context(), v))
	with := func(fits func(pool.Offer) bool) (names map[string]bool, last route.Choice, err error) {
		names = map[string]bool{}
		for range 40 {
			if last, err = r.Pick(route.Ask{Model: "chat", Need: route.Generate, Fits: fits}); err != nil || last.Instance == nil {
				return names, last, err
			}
			names[last.Instance.Name] = true
		}
		return names, last, nil
	}
	tools := func(o pool.Offer) bool { return o.Model.HasTools }
	if names, _, err := with(nil); err != nil || len(names) != 2 || names["other"] {
		t.Errorf("%v, %v: other weights must not run, both others must", names, err)
	}
	names, c, err := with(tools)
	if err != nil || len(names) != 1 || !names["able"] {
		t.Errorf("%v, %v: only one has tools", names, err)
	}
	if again, err := r.Again(c, []*pool.Instance{c.Instance}); err != nil || again.Instance != nil || again.Info.ID != "scripted" {
		t.Errorf("%+v, %v: nobody else has tools", again.Instance, err)
	}
	able.change(engine.Model{ID: "scripted", Digest: "sha256:aa", CanGenerate: true})
	plain.change(engine.Model{ID: "scripted", Digest: "sha256:aa", CanGenerate: true, HasTools: true})
	ok(t, r.Load(t.Context()))
	if names, _, err := with(tools); err != nil || len(names) != 1 || !names["plain"] {
		t.Errorf("%v, %v: the ability has moved", names, err)
	}
	plain.change(engine.Model{ID: "scripted", Digest: "sha256:cc", CanGenerate: true})
	able.change(engine.Model{ID: "scripted", Digest: "sha256:cc", CanGenerate: true})
	ok(t, r.Load(t.Context()))
	if _, _, err := with(nil); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("%v: nobody has the weights", err)
	}
	if all := r.Models(); len(all) != 1 || all[0].Err == nil || all[0].Info.ID != "scripted" {
		t.Errorf("%+v", all)
	}
}

// changing is an engine whose one model changes.
type changing struct {
	engine.Engine

	mu    sync.Mutex
	model engine.Model
}

func (c *changing) Models(context.Context) ([]engine.Model, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []engine.Model{c.model}, nil
}

func (c *changing) change(m engine.Model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.model = m
}
