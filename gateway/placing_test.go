package gateway

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestPlacesHaveOneName: what policies call places is what instances call them.
func TestPlacesHaveOneName(t *testing.T) {
	var names []string
	for _, p := range pool.Places() {
		names = append(names, string(p))
	}
	if !slices.Equal(names, governance.Places()) {
		t.Errorf("%v and %v", names, governance.Places())
	}
}

// choosingRouter chooses and chooses again as the router does.
type choosingRouter struct {
	*world

	set  *pool.Set
	fits map[engine.ModelID]func(pool.Offer) bool
}

func (r *choosingRouter) Pick(a route.Ask) (route.Choice, error) {
	c, err := r.world.Pick(route.Ask{Model: a.Model, Need: a.Need})
	if err != nil {
		return c, err
	}
	r.fits[c.Version.EngineModel] = a.Fits
	return r.Again(c, nil)
}

func (r *choosingRouter) Again(c route.Choice, tried []*pool.Instance) (route.Choice, error) {
	i, info, none := r.set.Choose("p", pool.Wanted{Model: c.Version.EngineModel, Fits: r.fits[c.Version.EngineModel], Tried: tried})
	if c.Instance = i; i != nil {
		c.Info = *info
		return c, nil
	}
	if c.Info = (engine.Model{}); none.Known != nil {
		c.Info = *none.Known
	}
	if !none.Unfit {
		return c, fault.New(fault.CodeEngineUnavailable, "chat")
	}
	return c, nil
}

// witness notes that an instance was given a text, and fails as it is told.
type witness struct {
	engine.Engine

	place pool.Place
	err   error // nil: it works
	hangs bool  // it says nothing

	mu    sync.Mutex
	given int
}

func (w *witness) Bills(engine.ModelID) bool { return false }

func (w *witness) note() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given++
}

func (w *witness) Prepare(ctx context.Context, work engine.Work) (*engine.Prompt, error) {
	w.note()
	return w.Engine.Prepare(ctx, work)
}

func (w *witness) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	w.note()
	switch {
	case w.hangs:
		return func(yield func(engine.Event, error) bool) {
			<-ctx.Done()
			yield(engine.Event{}, ctx.Err())
		}
	case w.err != nil:
		return func(yield func(engine.Event, error) bool) { yield(engine.Event{}, w.err) }
	}
	return w.Engine.Generate(ctx, p)
}

func (w *witness) Embed(ctx context.Context, p *engine.Prompt) (*engine.Embeddings, error) {
	if w.note(); w.err != nil {
		return nil, w.err
	}
	return w.Engine.Embed(ctx, p)
}

func (w *witness) Score(ctx context.Context, p *engine.Prompt) (*engine.Scores, error) {
	if w.note(); w.err != nil {
		return nil, w.err
	}
	return w.Engine.Score(ctx, p)
}

// TestNothingLeavesItsPlaces: whatever the places of instances, what they fail with, whether texts raise the grade when they are masked, and whether answers are retried,
// hedged, shared or made by a fallback: no instance is given a text of a grade that may not go to its place, a call fails only where nobody else works, its refusal
// says why, and its record has grade and place.
func TestNothingLeavesItsPlaces(t *testing.T) {
	rounds := 300
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, set := newWorld(t, nil), &pool.Set{}
		places := append(pool.Places(), "moon")
		var members []pool.Member
		var engines []*witness
		for n := range 1 + r.IntN(4) {
			e := &witness{Engine: w.engine, place: places[r.IntN(len(places))]}
			switch r.IntN(5) {
			case 0:
				e.err = errUnreached
			case 1:
				e.err = refusedWith(fault.CodeUpstreamFailed)
			case 2:
				e.err = fault.New(fault.CodeUpstreamFailed, "chat")
			case 3:
				e.hangs = r.IntN(4) == 0
			}
			engines = append(engines, e)
			members = append(members, pool.Member{Name: fmt.Sprint("i", n), Kind: pool.KindRemote, Engine: e, Attributes: pool.Attributes{Place: e.place}})
		}
		set.Replace("p", members)
		set.Refresh(t.Context())
		w.deps.Router = &choosingRouter{w, set, map[engine.ModelID]func(pool.Offer) bool{}}
		policy := route.Policy{Attempts: 4, HedgeTokens: 4096, AttemptTimeout: 5 * time.Millisecond, Fallbacks: route.Fallbacks{Fault: []string{"other"}}}
		if r.IntN(2) == 0 {
			policy.HedgeAfter = time.Millisecond
		}
		w.resilience = route.NewResilience(policy)
		w.caching = governance.Caching{On: r.IntN(2) == 0}
		first := governance.PlacingAt(2, some(r, governance.Places())...)
		raised := governance.PlacingAt(3, some(r, first.Allowed())...)
		w.place = func(masked bool) governance.Placing {
			if masked {
				return raised
			}
			return first
		}
		text, final := "hello", first
		if r.IntN(2) == 0 {
			text, final = "hello SECRET1", raised
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // of one that hangs and has nobody beside it
		kind := r.IntN(4)
		err := anyCall(ctx, w, kind, text)
		left := ctx.Err() != nil
		cancel()
		reachable := false
		for _, e := range engines {
			allowed := final.Allows(string(e.place))
			reachable = reachable || allowed
			e.mu.Lock()
			if e.given > 0 && !allowed {
				t.Fatalf("seed %d: %s was given a text that may go to %v", seed, e.place, final.Allowed())
			}
			e.mu.Unlock()
		}
		if left { // what it was refused for is the time
			continue
		}
		if !reachable != fault.Is(err, fault.CodePlaceNotAllowed) {
			t.Fatalf("seed %d: %v, reachable %v", seed, err, reachable)
		}
		last := w.log.events[len(w.log.events)-1].Detail
		if g := last["data_grade"]; g != final.Grade.String() && (reachable || g != first.Grade.String()) || // a refusal may come before the texts are looked at
			err == nil && !final.Allows(last["place"]) {
			t.Fatalf("seed %d, kind %d: %v; recorded as %v", seed, kind, err, last)
		}
	}
}

// some returns a part of a list.
func some(r *rand.Rand, all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(string) bool { return r.IntN(2) == 0 })
}

// anyCall makes a call of some kind.
func anyCall(ctx context.Context, w *world, kind int, text string) error {
	switch kind {
	case 0:
		_, err := w.Embed(ctx, &Call{Credential: "good", Action: ActionEmbed, Model: "chat", Input: []string{text}, Permission: access.InferenceEmbed})
		return err
	case 1:
		_, err := w.Score(ctx, &Call{Credential: "good", Action: ActionRerank, Model: "chat", Query: "q", Documents: []string{text}, Permission: access.InferenceEmbed})
		return err
	case 2:
		c := call(text)
		c.Action = ActionCount
		_, err := w.Count(ctx, c)
		return err
	}
	zero := 0.0
	c := call(text)
	c.Temperature = &zero
	r, err := w.Chat(ctx, c)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Collect()
	return err
}

// TestQuestionOfARaisedChat: the vectors of a question are those of a part, which goes where the question may, as it is known when it is masked.
func TestQuestionOfARaisedChat(t *testing.T) {
	w := newWorld(t, nil)
	for at, want := range map[string]bool{"cloud": true, "centre": false} { // pool.Alone is outside
		w.place = func(bool) governance.Placing { return governance.PlacingAt(3, at) }
		c := w.newRun(call("hello"), route.Generate)
		c.admission.decision = &fakeAdmission{w: w}
		child := c.newChildCall("q")
		o := pool.Alone(w.engine).Offer(&engine.Model{CanEmbed: true})
		if got := (&demand{run: child.run}).fits(o); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
	w.place = func(bool) governance.Placing { return governance.PlacingAt(4) }
	c := w.newRun(call("hello"), route.Generate)
	c.admission.decision = &fakeAdmission{w: w}
	if _, err := c.newChildCall("q").embedQuestion(t.Context(), []string{"q"}, false); !fault.Is(err, fault.CodePlaceNotAllowed) || !strings.Contains(err.Error(), "embed") {
		t.Error(err)
	}
	if (&run{}).placing().Allows("centre") {
		t.Error("without a decision a text goes somewhere")
	}
}
