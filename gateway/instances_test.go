package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
)

// down is an instance that no connection can be made to, or that breaks off after some events.
type down struct {
	engine.Engine

	after int // events; -1: it is not reached
	asked int
}

var errUnreached = fault.Wrap(fmt.Errorf("%w: connection refused", engine.ErrNotReached), fault.CodeEngineUnavailable, "chat")

func (d *down) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	d.asked++
	return func(yield func(engine.Event, error) bool) {
		if d.after < 0 {
			yield(engine.Event{}, errUnreached)
			return
		}
		n := 0
		for ev, err := range d.Engine.Generate(ctx, p) {
			if n++; n > d.after {
				yield(engine.Event{}, fault.New(fault.CodeUpstreamFailed, "chat"))
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

func (d *down) Embed(context.Context, *engine.Prompt) (*engine.Embeddings, error) {
	d.asked++
	return nil, errUnreached
}

// poolRouter leads to the instances in their order.
type poolRouter struct {
	*world

	set *pool.Set
}

func (r poolRouter) Pick(a route.Ask) (route.Choice, error) {
	c, err := r.world.Pick(a)
	c.Instance = r.set.Instances("p")[0]
	return c, err
}

func (r poolRouter) Again(c route.Choice, tried []*pool.Instance) (route.Choice, error) {
	all := r.set.Instances("p")
	if len(tried) == len(all) {
		return route.Choice{}, fault.New(fault.CodeEngineUnavailable, "chat")
	}
	c.Instance = all[len(tried)]
	return c, nil
}

func pooledWorld(t *testing.T, engines ...engine.Engine) (*world, *pool.Set) {
	t.Helper()
	w, set := newWorld(t, nil), &pool.Set{}
	var members []pool.Member
	for n, e := range engines {
		if d, ok := e.(*down); ok {
			d.Engine = w.engine
		}
		members = append(members, pool.Member{Name: fmt.Sprint("i", n), Kind: pool.KindNative, Engine: e})
	}
	set.Replace("p", members)
	w.deps.Router = poolRouter{w, set}
	return w, set
}

// TestAnotherInstanceServes: what no instance has had goes to the next, whose name is in the record of the outcome; what one has begun does not.
func TestAnotherInstanceServes(t *testing.T) {
	first, second := &down{after: -1}, &down{after: -1}
	w, set := pooledWorld(t, first, second, enginetest.NewScripted(nil))
	r, err := w.Chat(t.Context(), call("hello"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.Collect()
	if err != nil || a.Choices[0].Text == "" || first.asked != 1 || second.asked != 1 {
		t.Fatalf("%+v, %v; asked %d and %d", a, err, first.asked, second.asked)
	}
	if got := []string{w.log.events[0].Detail["instance"], w.log.events[1].Detail["instance"]}; got[0] != "i0" || got[1] != "i2" {
		t.Errorf("recorded as %v", got)
	}
	for _, i := range set.Instances("p") {
		if st := i.Status(); st.Running != 0 {
			t.Errorf("%+v", st)
		}
	}
	got, err := w.Embed(t.Context(), &Call{Credential: "good", Action: ActionEmbed, Model: "embed", Input: []string{"a"}, Permission: access.InferenceEmbed})
	if err != nil || len(got.Vectors) != 1 || first.asked != 2 {
		t.Errorf("%+v, %v", got, err)
	}

	begun := &down{after: 1}
	w, _ = pooledWorld(t, begun, enginetest.NewScripted(nil))
	r, err = w.Chat(t.Context(), call("hello"))
	if err == nil {
		_, err = r.Collect()
	}
	if !fault.Is(err, fault.CodeUpstreamFailed) || w.log.trail() != "admitted outcome/failed" {
		t.Errorf("%v, %s", err, w.log.trail())
	}

	w, _ = pooledWorld(t, &down{after: -1}, &down{after: -1})
	r, err = w.Chat(t.Context(), call("hello"))
	if err == nil {
		_, err = r.Collect()
	}
	if !fault.Is(err, fault.CodeEngineUnavailable) || w.log.trail() != "admitted outcome/failed" || !w.slotFree(t) {
		t.Errorf("%v, %s", err, w.log.trail())
	}
}

// TestOthersModelsDoNotFit: an instance whose model is for other tenants serves nobody else, also when a call moves on.
func TestOthersModelsDoNotFit(t *testing.T) {
	w := newWorld(t, nil)
	r := w.newRun(call("hello"), route.Generate)
	r.caller.Tenant, r.admission.decision = "acme", &fakeAdmission{w: w}
	for tenant, want := range map[string]bool{"acme": true, "other": false} {
		m := engine.Model{CanGenerate: true, HasLogprobs: true, HasSampling: true, Audience: engine.AudienceOf([]string{tenant})}
		if got := (&demand{run: r}).fits(pool.Offer{Model: &m}); got != want {
			t.Errorf("for %s: %v", tenant, got)
		}
	}
}

// TestFailingInstanceIsPassedOver: by three answers in a row that fail, and not by what comes before them: that a prompt can be prepared says nothing.
func TestFailingInstanceIsPassedOver(t *testing.T) {
	failing := &down{after: 0}
	w, set := pooledWorld(t, failing)
	set.Refresh(t.Context())
	i := set.Instances("p")[0]
	for n := range 3 {
		if st := i.Status(); st.State != pool.StateReady {
			t.Fatalf("after %d failures it is %s", n, st.State)
		}
		r, err := w.Chat(t.Context(), call("hello"))
		if err == nil {
			_, err = r.Collect()
		}
		if !fault.Is(err, fault.CodeUpstreamFailed) {
			t.Fatal(err)
		}
	}
	if st := i.Status(); st.State != pool.StateSick || st.Cause == nil || st.Running != 0 {
		t.Errorf("%+v", st)
	}
}

// contracted is an instance of which a contract is known, which may change.
type contracted struct {
	engine.Engine

	known atomic.Pointer[capability.Verdicts]
	asked atomic.Int64
}

func (c *contracted) Capabilities(engine.ModelID) *capability.Verdicts { return c.known.Load() }

func (c *contracted) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	c.asked.Add(1)
	return c.Engine.Generate(ctx, p)
}

func (c *contracted) knows(cells map[capability.Feature]capability.Cell) {
	c.known.Store((&capability.Contract{Features: cells}).For("m"))
}

func claimed(features ...capability.Feature) map[capability.Feature]capability.Cell {
	out := map[capability.Feature]capability.Cell{}
	for _, f := range features {
		out[f] = capability.Cell{Status: capability.Claimed, Grade: capability.E1, Owner: capability.OwnerEngine}
	}
	return out
}

// contractWorld is a world whose router places requests in a pool of instances with contracts.
func contractWorld(t *testing.T, instances ...*contracted) (*world, *pool.Set) {
	t.Helper()
	w, set := newWorld(t, nil), &pool.Set{}
	var members []pool.Member
	for n, c := range instances {
		c.Engine = w.engine
		members = append(members, pool.Member{Name: fmt.Sprint("i", n), Kind: pool.KindRemote, Engine: c})
	}
	set.Replace("p", members)
	set.Refresh(t.Context())
	w.deps.Router = placingRouter{w, set}
	return w, set
}

// placingRouter chooses among the instances as the router does.
type placingRouter struct {
	*world

	set *pool.Set
}

func (r placingRouter) Pick(a route.Ask) (route.Choice, error) {
	c, err := r.world.Pick(a)
	if err != nil {
		return c, err
	}
	i, info, _ := r.set.Choose("p", pool.Wanted{Model: c.Info.ID, Fits: a.Fits})
	if c.Instance = i; info != nil {
		c.Info = *info
	}
	return c, nil
}

// TestNeedsAreMet: a request goes only where what it needs is known to be met; a contract that changes leads the next one elsewhere; what is on a roadmap
// is not there; and a refusal names the member of the request.
func TestNeedsAreMet(t *testing.T) {
	plain, able := &contracted{}, &contracted{}
	w, set := contractWorld(t, plain, able)
	basic := []capability.Feature{capability.Chat, capability.Completions, capability.Stream, capability.Stop}
	plain.knows(claimed(basic...))
	able.knows(claimed(append(basic, capability.Seed)...))
	ask := func(seed bool) error {
		c := call("hello")
		if seed {
			n := uint64(7)
			c.Seed = &n
		}
		r, err := w.Chat(t.Context(), c)
		if err == nil {
			_, err = r.Collect()
		}
		return err
	}
	for range 8 {
		if err := ask(true); err != nil {
			t.Fatal(err)
		}
	}
	if plain.asked.Load() != 0 || able.asked.Load() != 8 {
		t.Errorf("%d went where seeds are not known, %d where they are", plain.asked.Load(), able.asked.Load())
	}
	plain.knows(claimed(append(basic, capability.Seed)...))
	able.knows(claimed(basic...))
	if err := ask(true); err != nil || plain.asked.Load() != 1 {
		t.Errorf("after the contracts have changed: %v, %d", err, plain.asked.Load())
	}

	bounded := &capability.Contract{Features: claimed(basic...), Context: capability.Context{MaxIn: capability.Know(8)}}
	plain.known.Store(bounded.For("m"))
	able.known.Store(bounded.For("m"))
	long := call("hello")
	many := 100
	long.MaxTokens = &many
	if r, err := w.Chat(t.Context(), long); err != nil {
		t.Errorf("%v: the engine cuts a long completion to its room", err)
	} else if _, err := r.Collect(); err != nil {
		t.Error(err)
	}

	able.knows(claimed(basic...))
	announced := claimed(basic...)
	announced[capability.Seed] = capability.Cell{Status: capability.Roadmap, Grade: capability.E4, Owner: capability.OwnerEngine}
	plain.knows(announced)
	before := len(w.log.events)
	err := ask(true)
	var f *fault.Error
	if !errors.As(err, &f) || f.Code() != fault.CodeUnsupported || f.Param() != "seed" || len(w.log.events) == before {
		t.Errorf("%v: what is announced is not there, and the refusal is recorded", err)
	}
	if err := ask(false); err != nil {
		t.Error(err)
	}

	busy := claimed(basic...)
	busy[capability.Seed] = capability.Cell{Status: capability.Claimed, Grade: capability.E1, Owner: capability.OwnerEngine, When: condition(t, "batch <= 1")}
	plain.knows(busy)
	other := set.Instances("p")[0]
	other.Begin()
	if err := ask(true); !fault.Is(err, fault.CodeEngineOverloaded) {
		t.Errorf("%v: it can, with less to do", err)
	}
	other.End(nil)
	if err := ask(true); err != nil {
		t.Errorf("%v: it has nothing else to do", err)
	}
}

func condition(t *testing.T, text string) capability.Condition {
	t.Helper()
	c, err := capability.ParseCondition(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLongerInstanceServes: a prompt that is too long for one instance goes to one with more room; where none has it, the refusal is that of its length.
func TestLongerInstanceServes(t *testing.T) {
	short := &narrow{}
	w, _ := pooledWorld(t, short, enginetest.NewScripted(nil))
	short.Engine = w.engine
	r, err := w.Chat(t.Context(), call("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := r.Collect(); err != nil || a.Choices[0].Text == "" || short.prepared != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	had := []string{"i0 context_length_exceeded true false"} // the record says that it has had the request
	if got := w.attempts(t); !slices.Equal(got, had) {
		t.Errorf("the attempts are %v", got)
	}
	w, _ = pooledWorld(t, &curt{}, enginetest.NewScripted(nil)) // one that says so when it is asked for the answer
	if r, err = w.Chat(t.Context(), call("hello")); err != nil {
		t.Fatal(err)
	}
	if a, err := r.Collect(); err != nil || a.Choices[0].Text == "" {
		t.Errorf("%+v, %v", a, err)
	}
	if got := w.attempts(t); !slices.Equal(got, had) {
		t.Errorf("the attempts are %v", got)
	}
	w, _ = pooledWorld(t, short)
	if _, err := w.Chat(t.Context(), call("hello")); !fault.Is(err, fault.CodeContextLength) || errors.Is(err, engine.ErrNotReached) {
		t.Error(err)
	}
}

// narrow is an engine for which every prompt is too long.
type narrow struct {
	engine.Engine

	prepared int
}

func (n *narrow) Prepare(context.Context, engine.Work) (*engine.Prompt, error) {
	n.prepared++
	return nil, fault.New(fault.CodeContextLength, 4, 5)
}

// curt is an engine that prepares every prompt, and finds it too long when it runs.
type curt struct{ engine.Engine }

func (c *curt) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	return enginetest.NewScripted(nil).Prepare(ctx, w)
}

func (c *curt) Generate(context.Context, *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		yield(engine.Event{}, fault.New(fault.CodeContextLength, 4, 5))
	}
}

// noted is what an account of energy is told.
type noted struct {
	fakeMeter

	at  int // stretches that go on
	all []string
}

func (n *noted) Begin(_ string, stepped bool) func() {
	n.at++
	n.all = append(n.all, fmt.Sprint("begin ", stepped))
	return func() {
		n.at--
		n.all = append(n.all, "pause")
	}
}

func (n *noted) Abandon(string) { n.all = append(n.all, "abandon") }

// placedRouter is a poolRouter of which only the native instances are on this machine.
type placedRouter struct{ poolRouter }

func place(c route.Choice, err error) (route.Choice, error) {
	if err == nil {
		c.Info.Local, c.Version.Engine = c.Instance.Kind == pool.KindNative, "chat" // as pools are called
	}
	return c, err
}

func (r placedRouter) Pick(a route.Ask) (route.Choice, error) { return place(r.poolRouter.Pick(a)) }

func (r placedRouter) Again(c route.Choice, tried []*pool.Instance) (route.Choice, error) {
	return place(r.poolRouter.Again(c, tried))
}

// TestWorkIsNotedWhereItIsDone: what the machine does for a call is noted for the instance that does it, by what that is and not by the name of its
// pool, and not for one elsewhere.
func TestWorkIsNotedWhereItIsDone(t *testing.T) {
	for name, c := range map[string]struct {
		kinds []pool.Kind // of instances that are not reached, and the last that is
		want  string
	}{
		"native":      {[]pool.Kind{pool.KindNative}, "[begin true pause]"},
		"moved here":  {[]pool.Kind{pool.KindRemote, pool.KindNative}, "[begin true pause]"},
		"moved away":  {[]pool.Kind{pool.KindNative, pool.KindRemote}, "[begin true pause abandon]"},
		"always away": {[]pool.Kind{pool.KindRemote}, "[abandon]"},
	} {
		w, set := newWorld(t, nil), &pool.Set{}
		var members []pool.Member
		for i, kind := range c.kinds {
			m := pool.Member{Name: fmt.Sprint("i", i), Kind: kind, Engine: w.engine}
			if i < len(c.kinds)-1 {
				m.Engine = &down{Engine: w.engine, after: -1}
			}
			members = append(members, m)
		}
		set.Replace("p", members)
		n := &noted{}
		w.deps.Router, w.deps.Energy = placedRouter{poolRouter{w, set}}, n
		r, err := w.Chat(t.Context(), call("hello"))
		if err == nil {
			_, err = r.Collect()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if fmt.Sprint(n.all) != c.want || n.at != 0 {
			t.Errorf("%s: %v, want %s", name, n.all, c.want)
		}
	}
	w, set, n := newWorld(t, nil), &pool.Set{}, &noted{}
	set.Replace("p", []pool.Member{{Name: "only", Kind: pool.KindNative, Engine: w.engine}})
	w.deps.Router, w.deps.Energy = placedRouter{poolRouter{w, set}}, n
	if _, err := w.Embed(t.Context(), &Call{Credential: "good", Action: ActionEmbed, Model: "embed", Input: []string{"a"}, Permission: access.InferenceEmbed}); err != nil || fmt.Sprint(n.all) != "[begin false pause]" {
		t.Errorf("vectors: %v, %v", n.all, err)
	}
}

// metering is an account with a figure of its own.
type metering struct {
	fakeMeter

	figure energy.Figure
}

func (m metering) End(string, time.Duration, int) energy.Figure { return m.figure }

// TestFiguresAreRecorded: the record says the figure, its method and how it came about, and nothing at all where it is not known.
func TestFiguresAreRecorded(t *testing.T) {
	for _, f := range []energy.Figure{
		{Microjoules: 42, Method: "modelled", Meter: "rapl+nvidia", Uncertainty: 400, Idle: "measured", Window: 1500 * time.Millisecond}, {Window: time.Second},
	} {
		w := newWorld(t, nil)
		w.deps.Energy = metering{figure: f}
		r, err := w.Chat(t.Context(), call("hello"))
		if err == nil {
			_, err = r.Collect()
		}
		if err != nil {
			t.Fatal(err)
		}
		e := w.log.events[1]
		if e.Usage.Energy != f.Microjoules || e.Usage.EnergyMethod != string(f.Method) {
			t.Errorf("%+v", e.Usage)
		}
		want := map[string]string{"energy_meter": "rapl+nvidia", "energy_idle": "measured", "energy_uncertainty_permille": "400", "energy_window_ms": "1500"}
		for k, v := range want {
			if f.Method == "" {
				v = ""
			}
			if e.Detail[k] != v {
				t.Errorf("%s is %q, want %q", k, e.Detail[k], v)
			}
		}
	}
}
