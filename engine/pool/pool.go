// Package pool knows the instances that answer for one name, how each is, and which of them a request goes to.
//
// An instance is an engine of its own: the one of this process, a worker, an upstream. The instances of a pool run the same models under the same
// names. A [Set] holds all pools of an installation; who is in them changes while requests run.
//
// An instance is judged twice. What it lists at each [Set.Refresh] says whether it is there and which models it has (active); how requests end
// says whether it works (passive). Who is not there gets no request. Who fails in a row, or in half of what it is asked, is passed over for a while
// that grows, unless nobody else is left: the failures may be the requests' own. One request tries it then. Who says that it is overloaded has
// shown how many requests at once are too many: it is passed over while it runs as many as it is taken to manage, a number that grows again while all goes well.
// Where all do, they share what comes as they did before.
//
// All of it is safe for concurrent use. Choosing runs no SQL and waits for nobody; it allocates only where a
// contract has conditions or bounds that depend on the load or the request.
package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/unified"
	"github.com/sluice-project/sluice/internal/fault"
)

// State is how an instance is.
type State string

// The states.
const (
	StateStarting State = "starting" // it has not been asked yet, or has not told how it is
	StateWarming  State = "warming"  // it answers, and does not take requests yet
	StateReady    State = "ready"
	StateDraining State = "draining" // somebody took it out: what runs goes on, nothing new comes
	StateSick     State = "sick"     // it does not answer, or its requests fail
	StateGone     State = "gone"     // it has not answered for longer than goneAfter
)

const (
	goneAfter    = time.Minute
	failuresSick = 3 // requests in a row
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Kind is where an instance runs.
type Kind string

// The kinds.
const (
	KindNative Kind = "native" // in this process
	KindWorker Kind = "worker" // a native engine in a process of its own
	KindRemote Kind = "remote" // an upstream
)

// Power says where the figures of an instance's electric power come from.
type Power string

// The sources.
const (
	PowerUnknown  Power = ""         // nobody says
	PowerDeclared Power = "declared" // by the administrator
	PowerModelled Power = "modelled" // from the load
	PowerMeasured Power = "measured" // by a meter
)

// Place is what kind of place an instance stands at, by which data of some grades goes there or not.
type Place string

// The places.
const (
	PlaceUnknown Place = ""       // nobody says: see [Instance.Place]
	PlaceDevice  Place = "device" // on the machine of whoever uses it
	PlaceEdge    Place = "edge"   // at a site of one's own
	PlaceCentre  Place = "centre" // in a data centre of one's own
	PlaceCloud   Place = "cloud"  // outside
)

// Places returns those that can be said.
func Places() []Place { return []Place{PlaceDevice, PlaceEdge, PlaceCentre, PlaceCloud} }

// Attributes are what the administrator says of an instance.
type Attributes struct {
	Weight      int      // its share of the requests, next to the other weights; 0 means 1
	Place       Place    // the kind of place where it stands
	Zone        string   // where it stands; "" is nowhere in particular
	Roles       []string // what it is for, such as "prefill"; none: everything
	CostPerHour int64    // in 10⁻⁹ units of the currency; 0: nobody says
	// CostPerMillion is what a million tokens cost there, and JoulesPerToken what energy one takes; 0: nobody says.
	CostPerMillion float64
	JoulesPerToken float64
	Power          Power
	Draining       bool
}

const (
	// maxWeight bounds weights, so that sums of them do not overflow.
	maxWeight = 1000
	maxFigure = 1e9
)

// Validate reports what is wrong with the attributes; the message begins with the name of the field.
func (a Attributes) Validate() error {
	switch {
	case a.Weight < 0 || a.Weight > maxWeight:
		return fmt.Errorf("weight: must lie between 0 and %d", maxWeight)
	case a.Place != PlaceUnknown && !slices.Contains(Places(), a.Place):
		return errors.New("place: must be device, edge, centre or cloud, or empty")
	case a.CostPerHour < 0:
		return errors.New("cost_per_hour: must not be negative")
	case !(a.CostPerMillion >= 0 && a.CostPerMillion <= maxFigure) || !(a.JoulesPerToken >= 0 && a.JoulesPerToken <= maxFigure):
		return errors.New("cost_per_million and joules_per_token: must lie between 0 and a billion")
	case !slices.Contains([]Power{PowerUnknown, PowerDeclared, PowerModelled, PowerMeasured}, a.Power):
		return fmt.Errorf("power: must be %s, %s or %s, or empty", PowerMeasured, PowerModelled, PowerDeclared)
	case slices.ContainsFunc(a.Roles, func(r string) bool { return !validRole(r) }):
		return errors.New("roles: must be words of small letters and hyphens, of at most 32 bytes")
	case len(a.Zone) > 100 || strings.ContainsAny(a.Zone, "\n\r\t"):
		return errors.New("zone: must be one line of at most 100 bytes")
	}
	return nil
}

func validRole(r string) bool {
	return r != "" && len(r) <= 32 && strings.Trim(r, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// Member is an instance as a pool is told of it.
type Member struct {
	Name    string // unique in its pool
	Kind    Kind
	Profile string // of an upstream; "" otherwise
	Engine  engine.Engine
	Attributes
}

// Conditioned is implemented by engines that know more of their state than that they answer.
type Conditioned interface {
	// Condition returns StateStarting, StateWarming, StateReady or StateDraining, without asking anybody.
	Condition() State
}

// Contracted is implemented by engines of which more is known than the models that they list.
type Contracted interface {
	// Capabilities returns what is known of a model at this moment, nil if nothing is. It asks nobody.
	Capabilities(engine.ModelID) *capability.Verdicts
}

// Learning is implemented by engines that ask the software behind them what it is.
type Learning interface {
	// Learnt reports whether it has told once. Until then what is known of its models is what everybody knows: it may do more. It asks nobody.
	Learnt() bool
}

// Measured is implemented by engines that read what the software behind them reports of itself.
type Measured interface {
	// Metrics returns what its own page said last and when it was read; nil: it reports nothing. It asks nobody, and nobody changes the values.
	Metrics() (unified.Values, time.Time)
}

// Billing is implemented by engines whose answers somebody may bill.
type Billing interface {
	// Bills reports whether an answer of a model may be on somebody's bill, whoever has it. It asks nobody.
	Bills(engine.ModelID) bool
}

// Set is all pools of an installation. The zero value is empty and usable.
type Set struct {
	Now  func() time.Time // nil is time.Now
	Rand func() float64   // uniform in [0, 1); nil is that of math/rand/v2

	mu    sync.Mutex // of changes
	pools atomic.Pointer[map[string][]*Instance]
}

// Each returns a set in which every engine is a pool of its own.
func Each(engines map[string]engine.Engine) *Set {
	s := &Set{}
	for name, e := range engines {
		s.Replace(name, []Member{{Name: name, Engine: e}})
	}
	return s
}

// Alone returns an engine as the one instance of a pool.
func Alone(e engine.Engine) *Instance { return newInstance(&Set{}, Member{Name: "only", Engine: e}) }

// Replace makes members the instances of a pool; none remove it. Who stays, under the same name with the same engine, keeps his state and what he
// runs. The engines of others are not closed: their requests may run still.
func (s *Set) Replace(name string, members []Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.all())
	if all == nil {
		all = map[string][]*Instance{}
	}
	before := all[name]
	var now []*Instance
	for _, m := range members {
		i := slices.IndexFunc(before, func(o *Instance) bool { return o.Name == m.Name && o.Engine == m.Engine })
		if i < 0 {
			now = append(now, newInstance(s, m))
			continue
		}
		before[i].attributes.Store(&m.Attributes)
		now = append(now, before[i])
	}
	if all[name] = now; len(now) == 0 {
		delete(all, name)
	}
	s.pools.Store(&all)
}

func (s *Set) all() map[string][]*Instance {
	if p := s.pools.Load(); p != nil {
		return *p
	}
	return nil
}

// Names returns the names of the pools, ordered.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.all())) }

// Has reports whether there is a pool of that name.
func (s *Set) Has(name string) bool { return len(s.all()[name]) > 0 }

// Answers reports whether an instance of a pool answered when it was asked last.
func (s *Set) Answers(name string) bool {
	return slices.ContainsFunc(s.all()[name], (*Instance).answers)
}

// Instances returns the instances of a pool, in the order in which they were given.
func (s *Set) Instances(name string) []*Instance { return slices.Clone(s.all()[name]) }

// Refresh asks every instance for its models, all at once, and returns when the slowest has answered or ctx has ended.
func (s *Set) Refresh(ctx context.Context) {
	var asked sync.WaitGroup
	for _, members := range s.all() {
		for _, i := range members {
			asked.Go(func() { i.refresh(ctx) })
		}
	}
	asked.Wait()
}

// RefreshNew is Refresh for those instances of one pool that were never asked: it waits for nobody else.
func (s *Set) RefreshNew(ctx context.Context, name string) {
	var asked sync.WaitGroup
	for _, i := range s.all()[name] {
		i.mu.Lock()
		known := i.asked
		i.mu.Unlock()
		if !known {
			asked.Go(func() { i.refresh(ctx) })
		}
	}
	asked.Wait()
}

// Offer is what is known of a model of an instance.
type Offer struct {
	Model *engine.Model        // as the instance lists it; nobody changes it
	Known *capability.Verdicts // nil: nothing but what it lists
	Batch int                  // requests of this replica that the instance would run, this one among them
	Place Place                // where it stands
}

// Meets reports whether the instance may be sent a request with these needs, and if not, why: by what it lists of the model, and by what is known of it.
// What neither speaks of it has not.
func (o Offer) Meets(n *capability.Needs) (bool, capability.Reason) {
	for _, f := range n.Features {
		switch has, told := capability.Listed(o.Model, f); {
		case has:
		case told:
			return false, capability.Reason{Why: capability.WhyListing, Feature: f}
		case o.Known == nil:
			return false, capability.Reason{Why: capability.WhyMissing, Feature: f}
		}
	}
	if o.Known == nil {
		return true, capability.Reason{}
	}
	return o.Known.Meets(n, o.Batch)
}

// ContextTokens is the longest prompt and completion together that the instance is known to take; 0 is not known.
func (o Offer) ContextTokens() int {
	n := o.Model.ContextTokens
	if o.Known != nil {
		if most, ok := o.Known.MaxTokens(); ok && (n == 0 || most < n) {
			return most
		}
	}
	return n
}

// Use says whether requests may need something of an instance, whatever it has to do.
type Use string

// The answers.
const (
	UseYes     Use = "yes"
	UseDepends Use = "depends" // on what the instance has to do
	UseNo      Use = "no"
)

// Use says what Meets says of a request that needs one feature, over all that an instance may have to do, with the reason of a refusal. Nothing else that is
// not known now is known once there is a request: nobody has counted its tokens when it is routed. The reason is that of the least load that is refused.
func (o Offer) Use(f capability.Feature) (Use, capability.Reason) {
	batches := []int{1}
	if o.Known != nil {
		batches = o.Known.Batches()
	}
	var refusal capability.Reason
	granted := 0
	for _, o.Batch = range batches {
		if ok, why := o.Meets(&capability.Needs{Features: []capability.Feature{f}}); ok {
			granted++
		} else if refusal.Why == "" {
			refusal = why
		}
	}
	switch granted {
	case len(batches):
		return UseYes, capability.Reason{}
	case 0:
		return UseNo, refusal
	}
	return UseDepends, refusal
}

// Wanted is what a request demands of the instance that runs it.
type Wanted struct {
	Model engine.ModelID
	// Fits reports whether an instance can run the request. It is called for each instance in turn.
	Fits func(Offer) bool
	// Tried are instances that the request has been to.
	Tried []*Instance

	// Prefer says how those that fit are compared; nil: by their work for their weight. Prefix are the hashes of the prompt, and Session is a number for the
	// conversation ([HashOf]); 0: none.
	Prefer  *Preference
	Prefix  []uint64
	Session uint64
	// Trace, if it is set, is told how the choice came about, and Why says in a word why Fits has refused the last one.
	Trace *Trace
	Why   func() string
}

// Nobody says why no instance was chosen.
type Nobody struct {
	// Known is what an instance says of the model: one that is open and does not fit, else any; nil if none has it.
	Known  *engine.Model
	Unfit  bool // there are instances for it, and none fits
	Silent bool // no instance answers
	// Closed is what the instances that take no requests now say of the model.
	Closed []*engine.Model
	// Away are the places of instances that may have the model and take no requests now: those, and who does not answer.
	Away []Place
}

// Choose returns the instance of a pool that a request goes to, with what it says of the model, which nobody changes: of those that are open, have the model and fit,
// one with the least work for its weight, or that which is preferred; then of those that have as much as they are taken to manage; and who fails when nobody else
// is left. Of equals one is drawn, by weight. If nobody can be chosen, the instance is nil.
func (s *Set) Choose(name string, w Wanted) (*Instance, *engine.Model, Nobody) {
	c, now := choice{}, s.now()
	var room [onStack]candidate
	able := room[:0] // of those that are free, where they are compared by a preference
	w.Trace.reset()
	members := s.all()[name]
	for _, i := range members {
		m := i.model(w.Model)
		c.answering = c.answering || i.answers()
		if m == nil {
			w.Trace.add(i, VerdictAbsent, "")
			continue
		}
		if slices.Contains(w.Tried, i) {
			w.Trace.add(i, VerdictTried, "")
			continue
		}
		switch open := i.open(); {
		case !open:
			c.know(m, false)
			c.none.Closed = append(c.none.Closed, m)
			w.Trace.add(i, VerdictClosed, "")
		case !w.Fits(i.Offer(m)):
			c.know(m, true)
			w.Trace.add(i, VerdictUnfit, w.why())
		case i.works(now) && !i.full():
			at := w.Trace.add(i, VerdictWorse, "")
			if w.Prefer.Any() {
				able = append(able, candidate{i: i, m: m, at: at})
				continue
			}
			c.free.offer(i, m, s)
		case i.works(now):
			c.full.offer(i, m, s)
			w.Trace.add(i, VerdictFull, "")
		default:
			if c.spare == nil || i.paused.Load() < c.spare.paused.Load() {
				c.spare, c.spareInfo = i, m
			}
			w.Trace.add(i, VerdictFailing, "")
		}
	}
	if len(able) > 0 {
		best := s.compare(able, &w, now)
		w.Trace.compared(able)
		w.Trace.choose(best.i, best.score)
		return best.i, best.m, Nobody{}
	}
	i, m, none := c.result()
	if i == nil {
		none.Away = away(members, &w)
	}
	w.Trace.choose(i, Score{})
	return i, m, none
}

func away(members []*Instance, w *Wanted) (out []Place) {
	for _, i := range members {
		if at := i.Place(); (!i.answers() || i.model(w.Model) != nil && !i.open()) && !slices.Contains(w.Tried, i) && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

func (w *Wanted) why() string {
	if w.Why == nil || w.Trace == nil {
		return ""
	}
	return w.Why()
}

// choice is a choice in the making.
type choice struct {
	free, full least // of those that work
	spare      *Instance
	spareInfo  *engine.Model
	none       Nobody
	answering  bool
}

// least is the instance with the least work of those that were offered.
type least struct {
	best    *Instance
	info    *engine.Model
	load    float64 // of best
	weights int     // of those with this load
}

// offer takes an instance, if it has less work than the best until now. Of those with as much the last one is kept with the probability of its
// weight among them, which makes all of them as likely as their weights are.
func (l *least) offer(i *Instance, m *engine.Model, s *Set) {
	weight := max(1, i.attributes.Load().Weight)
	load := float64(i.running.Load()) / float64(weight)
	switch {
	case l.best == nil || load < l.load:
		l.best, l.info, l.load, l.weights = i, m, load, weight
	case load == l.load:
		if l.weights += weight; s.rand()*float64(l.weights) < float64(weight) {
			l.best, l.info = i, m
		}
	}
}

func (c *choice) know(m *engine.Model, unfit bool) {
	if c.none.Known == nil || unfit && !c.none.Unfit {
		c.none.Known = m
	}
	c.none.Unfit = c.none.Unfit || unfit
}

func (c *choice) result() (*Instance, *engine.Model, Nobody) {
	switch {
	case c.free.best != nil:
		return c.free.best, c.free.info, Nobody{}
	case c.full.best != nil:
		return c.full.best, c.full.info, Nobody{}
	case c.spare != nil:
		return c.spare, c.spareInfo, Nobody{}
	}
	c.none.Silent = !c.answering
	return nil, nil, c.none
}

func (s *Set) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *Set) rand() float64 {
	if s.Rand != nil {
		return s.Rand()
	}
	return rand.Float64() //nolint:gosec // which of two equal instances gets a request is no secret
}

// Instance is one engine of a pool.
type Instance struct {
	Name    string
	Kind    Kind
	Profile string
	Engine  engine.Engine

	now        func() time.Time
	attributes atomic.Pointer[Attributes]
	running    atomic.Int64
	begun      atomic.Int64                                            // requests, since it is here
	known      atomic.Pointer[map[engine.ModelID]*capability.Verdicts] // of our own engines
	paused     atomic.Int64                                            // unix nanoseconds until which it is passed over; 0: it is not
	room       atomic.Int64                                            // requests at once that it is taken to manage; 0: nobody knows of a limit
	counted    atomic.Bool                                             // it has failed not long ago: how requests end is counted
	beginnings atomic.Int64                                            // of answers
	hash       uint64                                                  // of its name
	prefixes   atomic.Pointer[prefixes]                                // nil before the first
	firsts     atomic.Pointer[firsts]                                  // nil before the first

	mu       sync.Mutex // guards what follows
	listed   atomic.Pointer[map[engine.ModelID]*engine.Model]
	seen     State     // at the last look
	since    time.Time // of that
	silent   time.Time // since when it does not answer; zero if it does, or has never been asked
	cause    error     // of the last failure
	failures int       // of requests in a row
	pauses   int       // in a row
	well     int       // requests that went well, while they are counted
	bad      int       // and those that failed
	ejected  int       // pauses for failing too often, not long ago
	granted  int       // requests that went well since room changed
	shrunk   time.Time // when room became less
	asked    bool
}

func newInstance(s *Set, m Member) *Instance {
	i := &Instance{Name: m.Name, Kind: m.Kind, Profile: m.Profile, Engine: m.Engine, now: s.now, hash: HashOf(m.Name), seen: StateStarting, since: s.now()}
	i.attributes.Store(&m.Attributes)
	return i
}

// Status is what is to be told of an instance.
type Status struct {
	Name    string
	Kind    Kind
	Profile string
	Attributes
	State   State
	Since   time.Time // of the state, as far as this replica has seen it
	Cause   error     // of the last failure, while it is sick or gone
	Running int       // requests of this replica
	Begun   int64     // requests of this replica, since it knows the instance
	Models  []engine.Model
	Version string // of what runs the models, as it was told last; "" if it is not known

	// Metrics are what the instance's own page said last, read at MetricsAt; nil: it reports nothing.
	Metrics   unified.Values
	MetricsAt time.Time
}

// Status returns how the instance is now, for this replica.
func (i *Instance) Status() Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	state := i.look()
	st := Status{
		Name: i.Name, Kind: i.Kind, Profile: i.Profile, Attributes: *i.attributes.Load(), State: state, Since: i.since, Running: int(i.running.Load()), Begun: i.begun.Load(),
	}
	st.Place = i.Place()
	if st.State == StateSick || st.State == StateGone {
		st.Cause = i.cause
	}
	if all := i.listed.Load(); all != nil {
		for _, id := range slices.Sorted(maps.Keys(*all)) {
			st.Models = append(st.Models, *(*all)[id])
		}
	}
	for _, m := range st.Models {
		st.Version = cmp.Or(st.Version, m.EngineVersion)
	}
	if m, ok := i.Engine.(Measured); ok {
		st.Metrics, st.MetricsAt = m.Metrics()
	}
	return st
}

// look returns how the instance is, and notes since when. The caller holds mu.
func (i *Instance) look() State {
	now := i.state()
	if now != i.seen {
		i.seen, i.since = now, i.now()
	}
	return now
}

// state returns how the instance is. The caller holds mu.
func (i *Instance) state() State {
	switch now := i.now(); {
	case !i.asked:
		return StateStarting
	case !i.silent.IsZero() && now.Sub(i.silent) >= goneAfter:
		return StateGone
	case i.attributes.Load().Draining:
		return StateDraining
	case !i.silent.IsZero() || i.paused.Load() > now.UnixNano():
		return StateSick
	}
	return i.condition()
}

func (i *Instance) condition() State {
	if c, ok := i.Engine.(Conditioned); ok {
		return c.Condition()
	}
	return StateReady
}

// refresh asks the engine for its models.
func (i *Instance) refresh(ctx context.Context) {
	all, err := i.Engine.Models(ctx)
	if errors.Is(ctx.Err(), context.Canceled) { // whoever asked has left
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked = true
	if err != nil {
		i.cause = err
		if i.silent.IsZero() {
			i.silent = i.now()
		}
		i.listed.Store(nil)
	} else {
		i.silent = time.Time{}
		models := make(map[engine.ModelID]*engine.Model, len(all))
		for n := range all {
			models[all[n].ID] = &all[n]
		}
		i.learn(all)
		i.listed.Store(&models)
	}
	i.look()
}

// learn notes what our own engines are known to do, by what they list.
func (i *Instance) learn(all []engine.Model) {
	if i.Kind != KindNative && i.Kind != KindWorker {
		return
	}
	known := make(map[engine.ModelID]*capability.Verdicts, len(all))
	for _, m := range all {
		known[m.ID] = capability.Own(m).For(string(m.ID))
	}
	i.known.Store(&known)
}

// Offer returns what is known of a model as the instance lists it.
func (i *Instance) Offer(m *engine.Model) Offer {
	return Offer{m, i.Capabilities(m.ID), int(i.running.Load()) + 1, i.Place()}
}

// Place returns the kind of place where the instance stands. Where nobody says, the engine of this process is in the centre, and everything else is outside.
func (i *Instance) Place() Place { return i.attributes.Load().place(i.Kind) }

func (a *Attributes) place(k Kind) Place {
	switch {
	case a.Place != PlaceUnknown:
		return a.Place
	case k == KindNative:
		return PlaceCentre
	default:
		return PlaceCloud
	}
}

// Bills reports whether an answer of the instance may be on somebody's bill: by its engine's word, and without one of all that are not our own.
func (i *Instance) Bills(id engine.ModelID) bool {
	if b, ok := i.Engine.(Billing); ok {
		return b.Bills(id)
	}
	return i.Kind != KindNative && i.Kind != KindWorker
}

// Open returns what is known of a model of the instance; ok is false if it has no such model, or takes no new requests.
func (i *Instance) Open(id engine.ModelID) (o Offer, ok bool) {
	m := i.model(id)
	if m == nil || !i.open() {
		return Offer{}, false
	}
	return i.Offer(m), true
}

// Capabilities returns what is known of a model of the instance at this moment, nil if nothing is but what it lists.
func (i *Instance) Capabilities(id engine.ModelID) *capability.Verdicts {
	if c, ok := i.Engine.(Contracted); ok {
		return c.Capabilities(id)
	}
	if known := i.known.Load(); known != nil {
		return (*known)[id]
	}
	return nil
}

// Learnt reports whether what is known of the instance is all that it has to tell, see [Learning].
func (i *Instance) Learnt() bool {
	l, ok := i.Engine.(Learning)
	return !ok || l.Learnt()
}

// model returns what the engine said last of a model, nil if it has none.
func (i *Instance) model(id engine.ModelID) *engine.Model {
	all := i.listed.Load()
	if all == nil {
		return nil
	}
	return (*all)[id]
}

// answers reports whether the instance answered when it was asked last.
func (i *Instance) answers() bool { return i.listed.Load() != nil }

// open reports whether the instance takes new requests, if it is well.
func (i *Instance) open() bool {
	return !i.attributes.Load().Draining && i.condition() == StateReady
}

// works reports whether the instance is not passed over. When its pause is over one request tries it.
func (i *Instance) works(now time.Time) bool {
	until := i.paused.Load()
	return until == 0 || now.UnixNano() >= until && i.running.Load() == 0
}

// Begin counts a request that goes to the instance. Whoever begins it ends it.
func (i *Instance) Begin() {
	i.running.Add(1)
	i.begun.Add(1)
}

// End ends a request with the error that it ended with: nil where the engine has answered.
func (i *Instance) End(err error) {
	ran := i.running.Add(-1) + 1
	i.judge(err)
	i.size(err, ran)
}

// Began notes that the instance has begun to answer a request, some time after it was asked; 0: nobody wants to know how long.
func (i *Instance) Began(after time.Duration) {
	i.beginnings.Add(1)
	if after > 0 {
		i.noteFirst(after)
	}
}

// Given notes that the instance is given a prompt with these hashes, so that others that begin alike find it.
func (i *Instance) Given(prefix []uint64) {
	if len(prefix) == 0 {
		return
	}
	x := i.prefixes.Load()
	if x == nil {
		x = &prefixes{}
		if !i.prefixes.CompareAndSwap(nil, x) {
			x = i.prefixes.Load()
		}
	}
	x.add(prefix)
}

// Beginnings is how many requests the instance has begun to answer: whether it grows tells a slow request from an instance that does nothing.
func (i *Instance) Beginnings() int64 { return i.beginnings.Load() }

const (
	shrinkEvery = time.Second // requests that were refused together say the same
	forgetAfter = time.Minute // without a refusal there is no limit any more
)

// full reports whether the instance runs as many requests as it is taken to manage.
func (i *Instance) full() bool {
	room := i.room.Load()
	return room > 0 && i.running.Load() >= room
}

// size adapts how many requests at once the instance is taken to manage: three quarters of those at which it said that they are too many, and one more
// for each round of requests that went well. Only the refusal of an upstream counts: our own engines queue, and refuse what this caller may not have. ran is
// how many it had when the request ended, that one among them.
func (i *Instance) size(err error, ran int64) {
	overload := fault.Is(err, fault.CodeEngineOverloaded) && errors.Is(err, engine.ErrRefused)
	if !overload && (err != nil || i.room.Load() == 0) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now, room := i.now(), i.room.Load()
	switch {
	case overload && (room == 0 || now.Sub(i.shrunk) >= shrinkEvery):
		if room == 0 || ran < room {
			room = ran
		}
		i.room.Store(max(1, room*3/4))
		i.granted, i.shrunk = 0, now
	case overload || room == 0:
	case now.Sub(i.shrunk) >= forgetAfter:
		i.room.Store(0)
	default:
		if i.granted++; int64(i.granted) >= room {
			i.room.Store(room + 1)
			i.granted = 0
		}
	}
}

// judge counts how a request has ended. What ends by the request's own fault, or because its caller left, says nothing of the instance.
func (i *Instance) judge(err error) {
	if err != nil && !failure(err) {
		return
	}
	if err == nil && !i.counted.Load() {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		i.failures, i.pauses = 0, 0
		i.paused.Store(0)
		i.well++
	} else {
		i.counted.Store(true)
		i.cause = err
		i.failures++
		i.bad++
	}
	switch often := i.bad >= failuresOften && i.bad >= i.well; {
	case err != nil && (i.failures >= failuresSick || often):
		i.paused.Store(i.now().Add(min(longestPause, firstPause<<min(i.pauses+i.ejected, 10))).UnixNano())
		i.failures, i.pauses = failuresSick-1, i.pauses+1 // one more failure, of the request that tries again, pauses it anew
		if often {
			i.ejected++
			i.well, i.bad = 0, 0
		}
	case i.well+i.bad >= remembered:
		i.well, i.bad = i.well/2, i.bad/2
		if i.bad == 0 && err == nil { // it is well again, and nothing is counted until it fails
			i.ejected, i.well = 0, 0
			i.counted.Store(false)
		}
	}
	i.look()
}

const (
	failuresOften = 5  // requests that failed, of at most twice as many
	remembered    = 64 // requests, after which older ones count half
)

// failure reports whether an error is the instance's.
func failure(err error) bool {
	return fault.Is(err, fault.CodeEngineUnavailable) || fault.Is(err, fault.CodeUpstreamFailed) || fault.Is(err, fault.CodeUpstreamTimeout)
}
