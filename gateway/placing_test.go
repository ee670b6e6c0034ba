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
	"github.com/sluice-project/sluice/engine/enginetest"
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
	asks map[engine.ModelID]route.Ask
}

func (r *choosingRouter) Pick(a route.Ask) (route.Choice, error) {
	c, err := r.world.Pick(route.Ask{Model: a.Model, Need: a.Need})
	if err != nil {
		return c, err
	}
	r.asks[c.Version.EngineModel] = a
	return r.Again(c, nil)
}

func (r *choosingRouter) Again(c route.Choice, tried []*pool.Instance) (route.Choice, error) {
	a := r.asks[c.Version.EngineModel]
	w := pool.Wanted{Model: c.Version.EngineModel, Fits: a.Fits, Why: a.Why, Tried: tried}
	if len(tried) == 0 {
		w.Trace = a.Trace
	}
	i, info, none := r.set.Choose("p", w)
	if c.Instance = i; i != nil {
		c.Info = *info
		return c, nil
	}
	c.Away = none.Away
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

	place  pool.Place
	err    error // nil: it works
	hangs  bool  // it says nothing
	drains bool

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
// hedged, shared or made by a fallback: no instance is given a text of a grade that may not go to its place, a call fails only where nobody else works, it is
// refused for its place only if nobody stands at one that is allowed, and its record has grade and place.
func TestNothingLeavesItsPlaces(t *testing.T) {
	rounds, held := 300, 0
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
			e.drains = r.IntN(5) == 0
			engines = append(engines, e)
			members = append(members, pool.Member{Name: fmt.Sprint("i", n), Kind: pool.KindRemote, Engine: e, Attributes: pool.Attributes{Place: e.place, Draining: e.drains}})
		}
		set.Replace("p", members)
		set.Refresh(t.Context())
		w.deps.Router = &choosingRouter{w, set, map[engine.ModelID]route.Ask{}}
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
		judged := final // that which refuses it: what is known at first, where that lets it go nowhere now
		if !slices.ContainsFunc(engines, func(e *witness) bool { return !e.drains && first.Allows(string(e.place)) }) {
			judged = first
		}
		reachable, open, closed := false, false, true
		for _, e := range engines {
			allowed := final.Allows(string(e.place))
			reachable, open = reachable || judged.Allows(string(e.place)), open || judged.Allows(string(e.place)) && !e.drains
			closed = closed && e.drains
			e.mu.Lock()
			if e.given > 0 && (!allowed || e.drains) {
				t.Fatalf("seed %d: %s was given a text that may go to %v", seed, e.place, final.Allowed())
			}
			e.mu.Unlock()
		}
		if left { // what it was refused for is the time
			continue
		}
		held++
		if (!reachable && !closed) != fault.Is(err, fault.CodePlaceNotAllowed) || (reachable || closed) && !open && !fault.Is(err, fault.CodeEngineUnavailable) {
			t.Fatalf("seed %d: %v, reachable %v, open %v", seed, err, reachable, open)
		}
		last := w.log.events[len(w.log.events)-1].Detail
		if g := last["data_grade"]; g != final.Grade.String() && (open || g != first.Grade.String()) || // a refusal may come before the texts are looked at
			err == nil && !final.Allows(last["place"]) {
			t.Fatalf("seed %d, kind %d: %v; recorded as %v", seed, kind, err, last)
		}
	}
	if held < rounds/2 {
		t.Errorf("%d of %d calls ended in time: the others say nothing of refusals", held, rounds)
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

// twoPlaces returns a world with a pool of two instances, and that pool.
func twoPlaces(t *testing.T, a, b pool.Member) (*world, *pool.Set) {
	t.Helper()
	w, set := newWorld(t, nil), &pool.Set{}
	for _, m := range []*pool.Member{&a, &b} {
		m.Kind = pool.KindRemote
		if m.Engine == nil {
			m.Engine = w.engine
		}
	}
	set.Replace("p", []pool.Member{a, b})
	set.Refresh(t.Context())
	w.deps.Router = &choosingRouter{w, set, map[engine.ModelID]route.Ask{}}
	return w, set
}

// unlisted is an engine that does not answer, or answers without models.
type unlisted struct {
	engine.Engine

	err error
}

func (u unlisted) Models(context.Context) ([]engine.Model, error) { return nil, u.err }

// TestOutageIsNoRefusal: where an instance at a place that is allowed takes no requests for a while, the call is to come again, also beside a cloud that it may not go to;
// lines of batches are asked again by that. Where none stands there it is refused for good.
func TestOutageIsNoRefusal(t *testing.T) {
	at := func(p pool.Place, drains bool) pool.Attributes { return pool.Attributes{Place: p, Draining: drains} }
	for name, c := range map[string]struct {
		inside pool.Member
		status int
	}{
		"draining":            {pool.Member{Attributes: at("centre", true)}, 503},
		"it does not answer":  {pool.Member{Engine: unlisted{err: errUnreached}, Attributes: at("centre", false)}, 503},
		"without the model":   {pool.Member{Engine: unlisted{}, Attributes: at("centre", false)}, 403},
		"draining, elsewhere": {pool.Member{Attributes: at("edge", true)}, 403},
	} {
		for _, text := range []string{"hello", "hello SECRET1"} { // by what was known when it came, and by what was found
			c.inside.Name = "inside"
			w, _ := twoPlaces(t, c.inside, pool.Member{Name: "outside", Attributes: at("cloud", false)})
			w.place = func(masked bool) governance.Placing {
				if text != "hello" && !masked {
					return governance.Anywhere()
				}
				return governance.PlacingAt(3, "centre")
			}
			q := call(text)
			q.Class = engine.ClassBatch
			_, err := w.Chat(t.Context(), q)
			got := fault.Public(err)
			if got.Kind().Status() != c.status || c.status == 503 && (got.RetryAfter() == 0 || causeOf(err) != route.CauseFault) {
				t.Errorf("%s, %q: %v", name, text, err)
			}
			if said := w.log.events[len(w.log.events)-1].Detail["route"]; !strings.Contains(said, `"place"`) || strings.Contains(said, "running") {
				t.Errorf("%s: recorded %q", name, said)
			}
		}
	}
}

// roomy is an engine that says how long its context is, and notes who asks for how much of it.
type roomy struct {
	engine.Engine

	context int
	asked   *int
}

func (e roomy) Models(ctx context.Context) ([]engine.Model, error) {
	all, err := e.Engine.Models(ctx)
	for i := range all {
		all[i].ContextTokens = e.context
	}
	return all, err
}

func (e roomy) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	if q, ok := w.(*engine.Request); ok {
		*e.asked = q.MaxTokens
	}
	return e.Engine.Prepare(ctx, w)
}

// TestSettledPlaceIsTheChoice: all that comes after masking goes by the instance that serves the call then, and not by the one that was chosen before.
func TestSettledPlaceIsTheChoice(t *testing.T) {
	asked, engines := 0, newWorld(t, nil).engine
	w, _ := twoPlaces(t,
		pool.Member{Name: "inside", Engine: roomy{engines, 8192, &asked}, Attributes: pool.Attributes{Place: "centre"}},
		pool.Member{Name: "outside", Engine: roomy{engines, 0, &asked}, Attributes: pool.Attributes{Place: "cloud", Weight: 1000}})
	w.place = func(masked bool) governance.Placing {
		if masked {
			return governance.PlacingAt(3, "centre")
		}
		return governance.PlacingAt(2, "cloud")
	}
	c, most := call("hello SECRET1"), w.cfg.MaxTokens+100
	c.MaxTokens = &most
	if _, err := w.ask(t, c); err != nil || asked != most {
		t.Errorf("%v; %d tokens asked, want %d", err, asked, most)
	}
}

// TestTraceOfTheChoiceThatStands: where nobody takes requests any more once the texts are masked, the call goes on where it was to go, and its record says how that was
// chosen.
func TestTraceOfTheChoiceThatStands(t *testing.T) {
	a := pool.Member{Name: "a", Attributes: pool.Attributes{Place: "centre"}}
	w, set := twoPlaces(t, a, pool.Member{Name: "b", Attributes: a.Attributes})
	w.resilience = route.NewResilience(route.Policy{Choose: pool.Preference{Prefix: 1}})
	w.place = func(masked bool) governance.Placing {
		if members := set.Instances("p"); masked && len(members) > 0 {
			set.Replace("p", nil)
		}
		return governance.PlacingAt(2, "centre")
	}
	if _, err := w.ask(t, call("hello SECRET1 "+strings.Repeat("x", 8<<10))); err != nil {
		t.Fatal(err)
	}
	if said := w.log.events[len(w.log.events)-1].Detail["route"]; !strings.Contains(said, `"chosen"`) {
		t.Errorf("recorded %q", said)
	}
}

// listed is an engine that lists a model.
type listed struct{ engine.Engine }

func (listed) Models(context.Context) ([]engine.Model, error) { return []engine.Model{{ID: "m"}}, nil }

func (listed) Bills(engine.ModelID) bool { return false }

// TestTimesOfFirstTokens: an instance that is given up, for another one or for its silence, counts as one that takes at least as long. What lines of batches wait says nothing.
func TestTimesOfFirstTokens(t *testing.T) {
	prefer := pool.Preference{Load: 1, FirstToken: time.Nanosecond} // which nobody meets: who is expected first is chosen
	for name, policy := range map[string]route.Policy{
		"hedged": {HedgeAfter: time.Millisecond, HedgeTokens: 1 << 20, Choose: prefer},
		"silent": {AttemptTimeout: time.Millisecond, Choose: prefer},
	} {
		w, set := pooledWorld(t, listed{&broken{}}, enginetest.NewScripted(nil))
		w.resilience = route.NewResilience(policy)
		if _, err := w.ask(t, call("hello")); err != nil {
			t.Fatal(err)
		}
		// Two that nobody knows are as good as each other, and one that is known to be slow is passed over for one that nobody knows.
		within := pool.Preference{Load: 1, FirstToken: time.Millisecond / 2}
		unknown := pool.Member{Name: "new", Engine: listed{w.engine}}
		set.Replace("p", []pool.Member{{Name: "i0", Kind: pool.KindNative, Engine: set.Instances("p")[0].Engine}, unknown})
		set.Refresh(t.Context())
		for range 20 {
			if i, _, _ := set.Choose("p", pool.Wanted{Model: "m", Prefer: &within, Fits: func(pool.Offer) bool { return true }}); i == nil || i.Name != "new" {
				t.Fatalf("%s: %v is chosen", name, i)
			}
		}
	}
	w := newWorld(t, nil)
	w.resilience = route.NewResilience(route.Policy{Choose: prefer})
	for class, counts := range map[engine.Class]bool{engine.ClassBatch: false, engine.ClassStandard: true} {
		c := call("hello")
		c.Class = class
		r := w.newRun(c, route.Generate)
		r.choice.Resilience = w.resilience
		if got := r.firstAfter(time.Time{}); got > 0 != counts {
			t.Errorf("%s: %s", class, got)
		}
	}
}
