package gateway

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/sluice-project/sluice/engine"
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
		members = append(members, pool.Member{Name: fmt.Sprint("i", n), Engine: e})
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
	r.caller.Tenant = "acme"
	for tenant, want := range map[string]bool{"acme": true, "other": false} {
		m := engine.Model{CanGenerate: true, HasLogprobs: true, HasSampling: true, Audience: engine.AudienceOf([]string{tenant})}
		if got := r.fits(pool.Offer{Model: &m}); got != want {
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
