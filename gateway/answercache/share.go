package answercache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
)

// State says how an answer comes to somebody.
type State string

// The states.
const (
	Miss      State = "miss"      // an engine is asked for it
	Coalesced State = "coalesced" // an engine was asked already, by an equal request
	Hit       State = "hit"       // it was kept
	Stale     State = "stale"     // it was kept, is too old, and takes the place of one that failed
)

// ErrLagging is the error of one who read so slowly that all others who want the same answer had to wait.
var ErrLagging = errors.New("the answer was read too slowly")

// Source asks an engine for an answer. at returns where it is made, what of that is kept with it, and whether that is what the key says: else the answer is not
// kept. It is asked once, with the first event that says anything or the error.
type Source[P any] func(ctx context.Context) (events iter.Seq2[engine.Event, error], at func() (place, kept P, asFor bool))

// Share is the part that one request has in an answer. One goroutine uses it, but for Leave.
type Share[P any] struct {
	cache   *Cache[P]
	tenant  string
	key     Key
	request string
	terms   Terms

	mu     sync.Mutex
	state  State
	origin string
	flight *flight[P] // nil for one that is kept
	kept   *entry[P]
	left   bool

	// Guarded by the flight.
	next    int       // event
	leads   bool      // an engine works on its account
	since   time.Time // when it began to; zero if no engine was asked yet
	lagging bool
	had     Left // when it left, or was left out
}

// flight is an answer that comes.
type flight[P any] struct {
	cache  *Cache[P]
	tenant string
	key    Key
	origin string
	terms  Terms

	mu      sync.Mutex
	shares  []*Share[P] // that have not left, in the order in which they came
	events  []engine.Event
	first   int // which of all events is events[0]
	bytes   int
	output  int // events with output
	at      P
	keptAt  P // of it, what an answer is kept with
	placed  bool
	asFor   bool // it is made where the key says
	started bool
	closed  bool // nobody joins
	done    bool
	err     error
	cancel  context.CancelFunc
	changed chan struct{} // closed when anything has changed; nil: nobody waits

	handing sync.Mutex // guards after; taken before all others
	after   *flight[P] // that those join who have seen nothing of this one when it failed
}

// join finds or begins the answer.
func (s *Share[P]) join() {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.terms.Keep {
		if e := c.lookUp(s.tenant, s.key, false); e != nil {
			s.take(Hit, e)
			return
		}
	}
	current := s.terms.Generation == c.generation.Load() // else its answer may be of a text that is erased
	t := c.of(s.tenant)
	if f := t.flights[s.key]; f != nil && f.add(s) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state, s.origin, s.flight = Coalesced, f.origin, f
		return
	}
	f := &flight[P]{cache: c, tenant: s.tenant, key: s.key, origin: s.request, terms: s.terms}
	s.begin(true)
	f.shares = []*Share[P]{s}
	if current { // what is in no map is joined by nobody, and not kept
		t.flights[s.key] = f
	}
	c.forget(s.tenant, t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.origin, s.flight = Miss, s.request, f
}

// begin puts a share at the beginning of a flight, whose lock the caller holds.
func (s *Share[P]) begin(leads bool) {
	s.next, s.leads, s.since, s.lagging, s.had = 0, leads, time.Time{}, false, Left{}
}

func (s *Share[P]) take(as State, e *entry[P]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.origin, s.kept, s.flight = as, e.origin, e, nil
}

// State says how the answer comes, and which request it was made for. Before the first event has come it may change.
func (s *Share[P]) State() (State, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.origin
}

// Leads reports whether an engine works on the account of this share.
func (s *Share[P]) Leads() bool {
	s.mu.Lock()
	f := s.flight
	s.mu.Unlock()
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return s.leads
}

// At returns where the answer was made; ok is false before anybody knows.
func (s *Share[P]) At() (at P, ok bool) {
	s.mu.Lock()
	f, e := s.flight, s.kept
	s.mu.Unlock()
	if e != nil {
		return e.at, true
	}
	if f == nil {
		return at, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at, f.placed
}

// Events returns the answer from its beginning, once. ask is called if no engine works on it yet, on a context that ends when nobody wants the answer
// any more. It ends as the events of an engine do. Event.More says that the next event is there.
func (s *Share[P]) Events(ctx context.Context, ask Source[P]) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for again := true; ; again = false {
			seen, err := s.replay(ctx, ask, yield)
			if err == nil {
				return
			}
			own := ctx.Err() != nil || errors.Is(err, ErrLagging)
			if !seen && !own && s.failOver(err, again) {
				continue
			}
			yield(engine.Event{}, err)
			return
		}
	}
}

// failOver finds another answer for one that failed before any of it was seen: another engine call, for who has not led this one, once; else a stale one.
func (s *Share[P]) failOver(err error, again bool) bool {
	s.mu.Lock()
	f, gone := s.flight, s.left
	s.mu.Unlock()
	if f == nil || gone { // an answer that is kept does not fail
		return false
	}
	if f.origin != s.request && again {
		f.leave(s)
		f.handOver(s)
		s.mu.Lock()
		f, gone = s.flight, s.left
		s.mu.Unlock()
		if gone && f != nil { // meanwhile
			f.leave(s)
		}
		return !gone
	}
	if s.terms.Stale > 0 && s.terms.Failed != nil && s.terms.Failed(err) {
		if e := s.cache.find(s.tenant, s.key, true); e != nil {
			f.leave(s)
			s.take(Stale, e)
			return true
		}
	}
	return false
}

// handOver has a share of a flight that failed join the one that comes after it, which all of them join, so that an engine that fails is asked once more and not
// once for each.
func (f *flight[P]) handOver(s *Share[P]) {
	f.handing.Lock()
	defer f.handing.Unlock()
	if n := f.after; n != nil && n.takeOver(s) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state, s.origin, s.flight, s.kept = Coalesced, n.origin, n, nil
		return
	}
	s.join()
	s.mu.Lock()
	defer s.mu.Unlock()
	f.after = s.flight
}

// takeOver is add, also to a flight that has failed.
func (f *flight[P]) takeOver(s *Share[P]) bool {
	f.mu.Lock()
	failed := f.done && f.err != nil && f.first == 0
	if failed {
		s.begin(false)
		f.shares = append(f.shares, s)
	}
	f.mu.Unlock()
	return failed || f.add(s)
}

// replay yields the answer. It reports whether any of it was seen, and the error that it ended with; a consumer who stops is no error.
func (s *Share[P]) replay(ctx context.Context, ask Source[P], yield func(engine.Event, error) bool) (seen bool, err error) {
	s.mu.Lock()
	f, e := s.flight, s.kept
	s.mu.Unlock()
	if e != nil {
		for i := range e.events {
			if err := ctx.Err(); err != nil {
				return i > 0, err
			}
			if !yield(copied(&e.events[i], i+1 < len(e.events)), nil) {
				return true, nil
			}
		}
		return true, nil
	}
	f.start(ctx, ask)
	stop := context.AfterFunc(ctx, func() { f.leave(s) }) // also while the reader is busy: no engine works for somebody whose time is over
	defer stop()
	for {
		ev, ok, err := f.await(ctx, s)
		if err != nil || !ok {
			return seen, err
		}
		seen = true
		if !yield(ev, nil) {
			return true, nil
		}
	}
}

// Left says what somebody who leaves has had.
type Left struct {
	// Led: an engine has worked on his account, so that he pays for its work.
	Led bool
	// Ended: the answer was complete, or had failed. Who led then is the last who has, and what the source wrote before its last event is there to read.
	Ended bool
	// Since is when he began to lead; zero if he did not, or no engine was asked. Until is when he left, or was left out.
	Since, Until time.Time
	// Usage is what the engine has used by then, if it has told; else nil, and Output is how many of its events had output.
	Usage  *engine.Usage
	Output int
}

// Leave ends the share. Whoever led an answer that is not complete hands it to the next who waits, and then has not led it any more than until now; if nobody
// waits, the engine is stopped. It says what had come by then, or by when the context of Events ended, or he was left out for reading too slowly. Further calls say the
// same.
func (s *Share[P]) Leave() Left {
	s.mu.Lock()
	f := s.flight
	s.left = true
	s.mu.Unlock()
	if f == nil {
		return Left{}
	}
	f.leave(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	return s.had
}

// add takes a share in. It reports whether the answer is still there from its beginning.
func (f *flight[P]) add(s *Share[P]) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.done && f.err != nil {
		return false
	}
	s.begin(false)
	f.shares = append(f.shares, s)
	return true
}

// start asks the engine, if nobody has.
func (f *flight[P]) start(ctx context.Context, ask Source[P]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.closed {
		return
	}
	f.started = true
	for _, s := range f.shares {
		if s.leads {
			s.since = time.Now()
		}
	}
	on, cancel := context.WithCancel(context.WithoutCancel(ctx)) // each share has a clock of its own; whose is over leaves
	f.cancel = cancel
	f.cache.flights.Go(func() {
		defer cancel()
		f.run(on, ask)
	})
}

// run takes in what the engine says until it ends.
func (f *flight[P]) run(ctx context.Context, ask Source[P]) {
	err := errors.New("the engine's stream ended without usage")
	defer func() {
		if v := recover(); v != nil { // of an engine; it ends no other request
			err = fmt.Errorf("the engine panicked with a %T", v)
		}
		f.finish(err)
	}()
	events, at := ask(ctx)
	for ev, broken := range events {
		if broken != nil || !ev.Empty() { // until then another instance may yet answer
			f.place(at)
		}
		if broken != nil {
			err = broken
			return
		}
		if ev.Empty() && ev.Used == nil { // it only ends the waiting
			continue
		}
		if ev.Usage != nil {
			f.complete(&ev)
			err = nil
			return
		}
		if !f.take(ctx, &ev) {
			err = context.Cause(ctx)
			return
		}
	}
}

func (f *flight[P]) place(at func() (place, kept P, asFor bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.placed {
		f.at, f.keptAt, f.asFor = at()
		f.placed = true
	}
}

// take appends an event, and waits for those who read it if they are far behind. It reports whether anybody still wants the answer.
func (f *flight[P]) take(ctx context.Context, ev *engine.Event) bool {
	f.mu.Lock()
	f.events = append(f.events, *ev)
	f.hold(size(ev))
	if ev.HasOutput() {
		f.output++
	}
	f.wake()
	f.mu.Unlock()
	var stall *time.Timer
	for {
		full := f.trim()
		if full == nil {
			break
		}
		if stall == nil {
			stall = time.NewTimer(maxStall)
			defer stall.Stop()
		}
		select {
		case <-full:
		case <-stall.C:
			f.dropSlowest()
			stall.Reset(maxStall)
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// trim lets go of what all have read, once it is too much. It returns what to wait for while it still is.
func (f *flight[P]) trim() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	room := f.cache.room()
	if f.bytes <= room {
		return nil
	}
	f.closed = true
	least := f.first + len(f.events)
	for _, s := range f.shares {
		least = min(least, s.next)
	}
	for f.first < least {
		f.hold(-size(&f.events[0]))
		f.events[0] = engine.Event{}
		f.events, f.first = f.events[1:], f.first+1
	}
	if f.bytes <= room {
		return nil
	}
	return f.wait()
}

// dropSlowest gives up those who are furthest behind, unless nobody else waits for them.
func (f *flight[P]) dropSlowest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	least, most := f.first+len(f.events), 0
	for _, s := range f.shares {
		least, most = min(least, s.next), max(most, s.next)
	}
	if least == most {
		return
	}
	for _, s := range f.shares {
		s.lagging = s.next == least
	}
	for _, s := range f.shares {
		if s.lagging {
			s.had = f.account(s)
			f.pass(s)
		}
	}
	f.shares = slices.DeleteFunc(f.shares, func(s *Share[P]) bool { return s.lagging })
	f.wake()
}

// await returns the next event for a share; ok is false behind the last one.
func (f *flight[P]) await(ctx context.Context, s *Share[P]) (ev engine.Event, ok bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return ev, false, err
		}
		f.mu.Lock()
		switch at := s.next - f.first; {
		case s.lagging || at < 0: // or it has left
			f.mu.Unlock()
			return ev, false, ErrLagging
		case at < len(f.events):
			ev = copied(&f.events[at], at+1 < len(f.events))
			s.next++
			if f.closed {
				f.wake() // the engine may wait for it
			}
			f.mu.Unlock()
			return ev, true, nil
		case f.done:
			err = f.err
			f.mu.Unlock()
			return ev, false, err
		}
		changed := f.wait()
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ev, false, ctx.Err()
		}
	}
}

// account says what a share has had until now. The caller holds f.mu.
func (f *flight[P]) account(s *Share[P]) Left {
	out := Left{Led: s.leads, Ended: f.done, Since: s.since, Until: time.Now(), Output: f.output}
	if n := len(f.events); f.done && f.err == nil && n > 0 {
		u := *f.events[n-1].Usage
		out.Usage = &u
	}
	return out
}

// leave takes a share out.
func (f *flight[P]) leave(s *Share[P]) {
	f.mu.Lock()
	i := slices.Index(f.shares, s)
	if i < 0 {
		f.mu.Unlock()
		return
	}
	f.shares = slices.Delete(f.shares, i, i+1)
	s.had = f.account(s)
	if !f.done {
		f.pass(s)
	}
	unwanted := len(f.shares) == 0 && !f.done
	if unwanted {
		f.closed = true
		if f.started {
			f.cancel()
		} else {
			f.done, f.err = true, context.Canceled
		}
	}
	f.release()
	f.wake()
	f.mu.Unlock()
	if unwanted {
		f.cache.end(f, nil, f.terms)
	}
}

// pass hands the lead of a share on to the first other one that has not left. The caller holds f.mu.
func (f *flight[P]) pass(s *Share[P]) {
	if !s.leads {
		return
	}
	for _, next := range f.shares {
		if next != s && !next.lagging {
			if next.leads = true; f.started {
				next.since = time.Now()
			}
			return
		}
	}
}

// complete takes in the last event. The answer is kept before anybody sees that one, so that who asks after it finds the answer.
func (f *flight[P]) complete(ev *engine.Event) {
	f.mu.Lock()
	events, n := append(slices.Clip(f.events), *ev), f.bytes+size(ev) // only this goroutine appends
	var answer *entry[P]
	if !f.closed && f.asFor && keepable(events) {
		answer = &entry[P]{key: f.key, origin: f.origin, events: events, at: f.keptAt, bytes: int64(n) + perEntry}
	}
	f.mu.Unlock()
	f.cache.end(f, answer, f.terms)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events, f.done = events, true
	f.hold(size(ev))
	f.release()
	if ev.HasOutput() {
		f.output++
	}
	f.wake()
}

// finish ends the flight, with nil for a complete answer.
func (f *flight[P]) finish(err error) {
	f.mu.Lock()
	if f.cancel(); !f.done {
		f.done, f.err = true, err
	}
	f.release()
	f.wake()
	f.mu.Unlock()
	f.cache.end(f, nil, f.terms)
}

// hold counts bytes that are held, or no longer. The caller holds f.mu.
func (f *flight[P]) hold(n int) {
	f.bytes += n
	f.cache.running.Add(int64(n))
}

// release counts nothing any more of a flight that has ended and that nobody reads. The caller holds f.mu.
func (f *flight[P]) release() {
	if f.done && len(f.shares) == 0 {
		f.hold(-f.bytes)
	}
}

// keepable reports whether an answer may be given to requests that come later: one that bears a mark of its request, or that a filter broke off, is not.
func keepable(events []engine.Event) bool {
	for i := range events {
		if m := events[i].Marking; m != nil && m.Applied || events[i].Finish == engine.FinishFilter {
			return false
		}
	}
	return true
}

// wake tells all who wait. The caller holds f.mu.
func (f *flight[P]) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// wait returns what is closed at the next change. The caller holds f.mu.
func (f *flight[P]) wait() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// copied returns an event that its reader may change.
func copied(ev *engine.Event, more bool) engine.Event {
	out := *ev
	out.More = more
	out.Calls = slices.Clone(ev.Calls)
	out.Logprobs = slices.Clone(ev.Logprobs)
	for i := range out.Logprobs {
		out.Logprobs[i].Bytes, out.Logprobs[i].Top = slices.Clone(out.Logprobs[i].Bytes), slices.Clone(out.Logprobs[i].Top)
	}
	if ev.Usage != nil {
		u := *ev.Usage
		out.Usage = &u
	}
	if ev.Used != nil {
		u := *ev.Used
		out.Used = &u
	}
	if ev.Marking != nil {
		m := *ev.Marking
		out.Marking = &m
	}
	return out
}
