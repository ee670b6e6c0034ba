package route_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// knowing is an engine with a model of which more is known than it lists.
type knowing struct {
	engine.Engine

	model engine.Model
	known *capability.Verdicts
	err   error
	state pool.State
	fresh bool // it has not told yet what it is
}

func (k *knowing) Models(context.Context) ([]engine.Model, error) {
	return []engine.Model{k.model}, k.err
}
func (k *knowing) Capabilities(engine.ModelID) *capability.Verdicts { return k.known }
func (k *knowing) Condition() pool.State                            { return k.state }
func (k *knowing) Learnt() bool                                     { return !k.fresh }

func (k *knowing) with(t *testing.T, longest int, features map[capability.Feature]string) *knowing {
	t.Helper()
	c := capability.Contract{Features: map[capability.Feature]capability.Cell{}, Context: capability.Context{MaxIn: capability.Know(longest)}}
	for f, when := range features {
		condition, err := capability.ParseCondition(when)
		ok(t, err)
		c.Features[f] = capability.Cell{Status: capability.Claimed, Grade: capability.E1, When: condition}
	}
	k.known = c.For("m")
	return k
}

// TestStartingInstances: who has not told yet how he is gets no request. While there is nobody else, callers are told to come again.
func TestStartingInstances(t *testing.T) {
	t.Parallel()
	lists := engine.Model{ID: "m", CanGenerate: true}
	first, second := &knowing{model: lists, state: pool.StateStarting}, &knowing{model: lists, state: pool.StateStarting}
	set := &pool.Set{}
	set.Replace("p", []pool.Member{{Name: "first", Engine: first}, {Name: "second", Engine: second}})
	r, err := route.New(route.Config{}, dbtest.SQLite(t), set, discard(), nil)
	ok(t, err)
	ok(t, r.Load(t.Context()))
	ok(t, r.Register(t.Context(), route.Version{Model: "chat", Version: "v1", Engine: "p", EngineModel: "m"}))
	if c, err := r.Pick(route.Ask{Model: "chat"}); !fault.Is(err, fault.CodeEngineUnavailable) || fault.Public(err).RetryAfter() <= 0 {
		t.Errorf("%+v, %v", c, err)
	}
	second.state = pool.StateReady
	for range 20 {
		if c, err := r.Pick(route.Ask{Model: "chat"}); err != nil || c.Instance.Name != "second" {
			t.Fatalf("%+v, %v", c, err)
		}
	}
}

// TestAbilities: a version can do what one of its instances is known to do that takes requests and has its weights, be it only at times.
func TestAbilities(t *testing.T) {
	t.Parallel()
	lists := engine.Model{ID: "m", Digest: "sha256:a", CanGenerate: true, HasTools: true}
	fresh := func() *knowing { return &knowing{model: lists, state: pool.StateReady} }
	first := fresh().with(t, 4096, map[capability.Feature]string{capability.Chat: "", capability.Stream: "batch <= 2", capability.Tools: `version.engine >= "9"`})
	second := fresh().with(t, 8192, map[capability.Feature]string{capability.Chat: "", capability.Tools: "prompt_tokens <= 10", capability.Seed: ""})
	set := &pool.Set{}
	members := func(all ...pool.Member) { set.Replace("p", all); set.Refresh(t.Context()) }
	both := []pool.Member{{Name: "first", Engine: first}, {Name: "second", Engine: second}}
	members(both...)
	r, err := route.New(route.Config{}, dbtest.SQLite(t), set, discard(), nil)
	ok(t, err)
	ok(t, r.Load(t.Context()))
	ok(t, r.Register(t.Context(), route.Version{Model: "chat", Version: "v1", Engine: "p", EngineModel: "m", Digest: "sha256:a"}))
	is := func(what, want string) {
		t.Helper()
		a, err := r.Abilities(t.Context(), "chat", "v1")
		ok(t, err)
		got := fmt.Sprint(a.Seen, a.Features, a.ContextTokens)
		if a.Learning {
			got += " learning"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	is("both", "true [chat stream seed] 8192")
	second.fresh = true
	is("the second has not told yet", "true [chat stream seed] 8192 learning")
	drained := slices.Clone(both)
	drained[1].Draining = true
	members(drained...)
	is("the second is drained", "true [chat stream] 4096")
	second.fresh = false
	members(both...)
	second.state = pool.StateWarming
	is("the second is warming", "true [chat stream] 4096")
	second.state, second.model.Digest = pool.StateReady, "sha256:b"
	members(both...)
	is("the second has other weights", "true [chat stream] 4096")
	first.err = fault.New(fault.CodeEngineUnavailable, "m")
	members(both...)
	is("the first does not answer", "false [] 0")
	members(pool.Member{Name: "plain", Engine: struct{ engine.Engine }{&knowing{model: lists}}})
	is("nothing is known but a list", "true [chat completions stream tools tools.required tools.named tools.parallel seed choices stop] 0")
	if _, err := r.Abilities(t.Context(), "chat", "v2"); !fault.Is(err, fault.CodeNotFound) {
		t.Error(err)
	}
}
