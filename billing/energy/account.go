package energy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/billing/energy/meter"
)

// Step is what an engine did at once for several requests.
type Step struct {
	Ago    time.Duration // since it ended
	Took   time.Duration
	Shares []Share
}

// Share is the part of a request in a step, relative to the others.
type Share struct {
	Request string // "" or unknown: nobody's
	Weight  float64
}

// Figure is the energy of one request.
type Figure struct {
	Microjoules int64
	Method      meter.Method // "": not known, and Microjoules is 0
	Meter       string       // the kinds of the meters; "" of a declared figure
	Uncertainty int          // thousandths that the meters may be off
	Idle        meter.Method // how the idle part that was taken off is known; "" of a declared figure
	Window      time.Duration
}

// Interval is the time between two readings, and where its energy went: Metered = Requests + Idle + Unattributed, none negative.
type Interval struct {
	Took                                  time.Duration
	Metered, Requests, Idle, Unattributed int64 // microjoules
	Missing                               bool  // a meter does not know; what others told is unattributed
}

// Totals are sums since the start: Metered = Requests + Running + Idle + Unattributed. All but Running only grow. With a sampled meter the figures of
// requests sum to Requests only about.
type Totals struct {
	Metered      int64         `json:"metered_uj"`
	Requests     int64         `json:"requests_uj"` // that fell to requests that have ended with a figure
	Running      int64         `json:"running_uj"`  // of those at work
	Idle         int64         `json:"idle_uj"`
	Unattributed int64         `json:"unattributed_uj"`
	Covered      time.Duration `json:"covered_ns"`
	Missing      time.Duration `json:"missing_ns"` // of Covered, in which a meter did not know
}

// AccountConfig is what an account is made of.
type AccountConfig struct {
	Config Config
	// Steps returns the steps after the given one, oldest first, and the number of the last; nil: the engine has none. It must not block.
	Steps func(after uint64) (steps []Step, last uint64)
	// Observe is told each interval as it closes, in order, under the account's lock; nil: nobody is.
	Observe func(Interval)
	Log     *slog.Logger
	Clock   func() meter.Moment // nil: meter.Clock()
	// Meters stand for those of the configuration, in tests.
	Meters []meter.Meter
}

// Account attributes energy to requests. It is safe for concurrent use. No call waits for a program, an engine or a network.
type Account struct {
	cfg     AccountConfig
	model   Model
	clock   func() meter.Moment
	method  meter.Method
	kinds   string
	off     int // uncertainty in thousandths
	metered bool
	sampled bool // a meter tells nothing between two readings by Run: intervals end there alone

	mu      sync.Mutex
	meters  []watched
	jobs    map[string]*job
	ended   []*job // whose figure is not known: what falls to them is nobody's
	begun   bool
	last    meter.Moment
	step    uint64
	active  int           // requests at work
	share   uint64        // nanoseconds that each of them was at work since the start, had they taken turns
	shareAt time.Duration // until when it is counted
	nobody  uint64        // nanoseconds of steps since the last reading for nobody who is at work here
	touched bool          // somebody was at work since the last reading
	rested  bool          // nobody was in the interval before
	pending int64         // told by some meters while another failed
	overdue bool          // the interval cannot become known any more
	totals  Totals
	quiet   idlePower
	rate    rate
}

// watched is a meter and whether it fails.
type watched struct {
	meter.Meter
	failing bool
}

// job is a request that is, or was, at work on this machine.
type job struct {
	stepped bool // it has work in the log of steps
	active  int  // stretches of work that go on
	plain   int  // of them, those that are in no log of steps
	begun   time.Duration
	seen    time.Duration // when it was last at work

	waiting   uint64        // nanoseconds of its turns since the last reading, without steps
	shareFrom uint64        // until where they are counted
	done      uint64        // nanoseconds of steps
	charged   uint64        // of them, and ahead of them, what readings were split by
	rate      float64       // of the last step: its part
	stepAt    time.Duration // when it ended
	took      time.Duration // how long it took

	owed    uint64 // weight of one that has ended, for the next reading
	weight  uint64 // of all readings
	samples int    // readings while it was at work
	energy  int64
	unknown bool
	told    bool // its figure is out
}

// rate is what a nanosecond of weight took beyond idle, lately.
type rate struct {
	energy int64
	weight uint64
}

// idlePower is what the machine draws while nobody works, over the last such time: the power below which a quarter of it lies, since also then it
// may do something, such as load a model.
type idlePower struct {
	took   time.Duration // in all, up to quiet
	now    part          // that is being gathered
	parts  []part        // the last ones, each about a second
	next   int
	energy part // the quarter
}

type part struct {
	energy int64
	took   time.Duration
}

const (
	// quiet is how long the machine must have been seen idle before that counts instead of what was declared, and how long at work before
	// it is known what work takes.
	quiet = 10 * time.Second
	// quietParts is of how many seconds of its idle time the power is remembered.
	quietParts = 600
	// rateMemory is of how much work it is remembered what it took; older work counts half.
	rateMemory = 10 * time.Minute
	// enough is how many samples make a measured figure: the first and the last are off by a half each.
	enough = 20
	// guessed is by how many thousandths more the figure of a request is off that has fewer.
	guessed = 300
	// longest is how long a meter may fail before the time is given up. Until then what a later reading says is shared among all who were at work.
	longest = 30 * time.Second
	// forgotten is after how long a request that is not at work and never ended is given up.
	forgotten = time.Hour
)

// NewAccount opens the meters. One that cannot be opened is tried again by Run; until then no figure is known, and nothing is refused.
func NewAccount(cfg AccountConfig) (*Account, error) {
	model, err := New(cfg.Config)
	if err != nil {
		return nil, err
	}
	a := &Account{cfg: cfg, model: model, clock: cfg.Clock, jobs: map[string]*job{}}
	if a.clock == nil {
		a.clock = meter.Clock()
	}
	if a.cfg.Log == nil {
		a.cfg.Log = slog.New(slog.DiscardHandler)
	}
	for _, m := range cfg.Meters {
		a.meters = append(a.meters, watched{Meter: m})
	}
	for _, c := range cfg.Config.Meters {
		a.meters = append(a.meters, watched{Meter: meter.Retry(c, cfg.Config.period())})
	}
	a.metered = len(a.meters) > 0
	if !a.metered {
		a.method = meter.Declared
		return a, nil
	}
	methods := make([]meter.Method, len(a.meters))
	kinds := make([]string, len(a.meters))
	for i, m := range a.meters {
		s := m.Source()
		methods[i], kinds[i], a.off = s.Method, s.Kind, max(a.off, s.UncertaintyPermille)
		a.sampled = a.sampled || s.Sampled
	}
	a.method, a.kinds = meter.Weakest(methods...), strings.Join(kinds, "+")
	return a, nil
}

// Method returns the method of the figures that are known.
func (a *Account) Method() string { return string(a.method) }

// Begin notes that this machine begins to work for a request. If its work is in the log of AccountConfig.Steps, stepped says so. The returned
// function ends that stretch of work; a request may have several. [Account.End] ends the request.
func (a *Account) Begin(request string, stepped bool) (pause func()) {
	if !a.metered {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if a.active == 0 && !a.sampled {
		a.read(now) // so that idle time ends here
	}
	j := a.jobs[request]
	if j == nil {
		j = &job{begun: now.Mono}
		a.jobs[request] = j
	}
	stepped = stepped && a.cfg.Steps != nil
	a.work(j, now.Mono)
	if j.active == 0 {
		a.active++
	}
	j.active++
	if j.stepped = j.stepped || stepped; !stepped {
		j.plain++
	}
	j.seen, a.touched = now.Mono, true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if j.active == 0 { // the request has ended before
			return
		}
		a.work(j, a.clock().Mono)
		if !stepped {
			j.plain--
		}
		if j.active--; j.active == 0 {
			a.active--
		}
	}
}

// work counts the time until now.
func (a *Account) work(j *job, now time.Duration) {
	if d := now - a.shareAt; d > 0 {
		a.share += uint64(d) / uint64(max(1, a.active))
		a.shareAt = now
	}
	if j.plain > 0 {
		j.waiting += a.share - j.shareFrom
	}
	if j.shareFrom = a.share; j.active > 0 {
		j.seen = now
	}
}

// End returns what a request is charged and forgets it. busy and concurrent are for figures by declaration alone: how long it occupied a slot
// and how many did at most.
//
// Where a meter is sampled, no sample covers the last of its work yet, and few or none may cover the rest. Then that work is charged what such work took
// lately, and the figure is modelled unless it has samples enough. The samples to come correct the totals, not the figure.
func (a *Account) End(request string, busy time.Duration, concurrent int) Figure {
	if !a.metered {
		return Figure{Microjoules: a.model.Attribute(busy, concurrent), Method: meter.Declared, Window: busy}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	j, now, ok := a.finish(request)
	if j == nil {
		return Figure{}
	}
	f := Figure{Microjoules: j.energy, Method: a.method, Uncertainty: a.off}
	if a.sampled {
		f = a.estimate(j)
	}
	if !ok || j.unknown || f.Microjoules <= 0 || j.stepped && j.done == 0 { // what was too short for a meter is not known either
		a.disown(j)
		return Figure{Window: now - j.begun}
	}
	f.Meter, f.Idle, f.Window = a.kinds, a.idleMethod(), now-j.begun
	f.Method = meter.Weakest(f.Method, f.Idle)
	a.totals.Running -= j.energy
	a.totals.Requests += j.energy
	j.told = true
	return f
}

// Abandon forgets a request that another machine answered in the end. What it was charged is nobody's.
func (a *Account) Abandon(request string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j, _, _ := a.finish(request); j != nil {
		a.disown(j)
	}
}

// finish takes a request out, and reports whether its energy can be known. If the interval that it ends in is still open, it gets its part there
// when that closes.
func (a *Account) finish(request string) (j *job, now time.Duration, ok bool) {
	if j = a.jobs[request]; j == nil {
		return nil, 0, false
	}
	at := a.clock()
	closed := false
	if a.sampled {
		a.takeSteps(at.Mono)
		ok = a.begun && !a.overdue && !slices.ContainsFunc(a.meters, func(m watched) bool { return m.failing })
	} else {
		closed = a.read(at)
		ok = closed
	}
	a.remove(request, j, at.Mono)
	if closed {
		a.touched = a.active > 0
	} else if j.owed = j.weigh(at.Mono); !a.overdue {
		a.ended = append(a.ended, j)
	}
	return j, at.Mono, ok
}

// remove ends a request and its stretches.
func (a *Account) remove(request string, j *job, now time.Duration) {
	a.work(j, now)
	delete(a.jobs, request)
	if j.active > 0 {
		a.active--
	}
	j.active, j.plain = 0, 0
}

// disown makes what a request was charged nobody's, and what falls to it when its interval closes.
func (a *Account) disown(j *job) {
	a.totals.Running -= j.energy
	a.totals.Unattributed += j.energy
	j.energy, j.unknown = 0, true
}

// estimate returns the figure of a request that has ended since the last sample.
func (a *Account) estimate(j *job) Figure {
	if a.rate.weight < uint64(quiet) {
		return Figure{}
	}
	if j.samples < enough {
		return Figure{Microjoules: a.rate.of(j.weight + j.owed), Method: meter.Weakest(a.method, meter.Modelled), Uncertainty: min(1000, a.off+guessed)}
	}
	return Figure{Microjoules: j.energy + a.rate.of(j.owed), Method: a.method, Uncertainty: min(1000, a.off+1000/j.samples)}
}

// learn adds an interval.
func (r *rate) learn(energy int64, weight uint64) {
	r.energy, r.weight = r.energy+energy, r.weight+weight
	if r.weight > uint64(rateMemory) {
		r.energy, r.weight = r.energy/2, r.weight/2
	}
}

// of returns what so much weight takes.
func (r *rate) of(weight uint64) int64 {
	return scale(r.energy, weight, r.weight)
}

// Totals returns the sums since the start.
func (a *Account) Totals() Totals {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.totals
}

// MeterState is a meter and whether it could be read last.
type MeterState struct {
	meter.Source
	Reads bool
}

// Meters returns the meters; none where energy is declared.
func (a *Account) Meters() []MeterState {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]MeterState, 0, len(a.meters))
	for _, m := range a.meters {
		out = append(out, MeterState{m.Source(), !m.failing})
	}
	return out
}

// IdleMethod returns how the idle part is known.
func (a *Account) IdleMethod() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return string(a.idleMethod())
}

// Run reads the meters until ctx ends.
func (a *Account) Run(ctx context.Context) error {
	if !a.metered {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(a.cfg.Config.period())
	defer ticker.Stop()
	for {
		a.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		a.Read()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// refresh samples the meters at once.
func (a *Account) refresh(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for i := range a.meters {
		running.Go(func() {
			err := a.meters[i].Refresh(ctx)
			if ctx.Err() != nil {
				return
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.note(i, err)
		})
	}
}

// note logs that a meter began or ceased to fail.
func (a *Account) note(i int, err error) {
	m := &a.meters[i]
	if err != nil == m.failing {
		return
	}
	m.failing = err != nil
	if source := slog.String("meter", m.Source().Kind); err != nil {
		a.cfg.Log.Warn("a meter cannot be read; the energy of requests is not known", source, slog.Any("error", err))
	} else {
		a.cfg.Log.Info("the meter can be read again", source)
	}
}

// Read takes a reading now; of a meter that is sampled, of the last sample.
func (a *Account) Read() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read(a.clock())
}

// read closes the interval, and reports whether it could.
func (a *Account) read(now meter.Moment) bool {
	failed, gap := false, false
	for i := range a.meters {
		e, err := a.meters[i].Advance(now)
		switch {
		case errors.Is(err, meter.ErrGap):
			gap = true
		case err != nil:
			failed = true
			a.note(i, err)
		default:
			a.pending += e
		}
	}
	a.overdue = a.overdue || gap || failed && (!a.begun || now.Mono-a.last.Mono > longest)
	if failed {
		if a.overdue {
			a.lose()
			a.ended = nil
		}
		return false
	}
	gap, a.overdue = a.overdue, false
	if !a.begun {
		a.begun, a.last, a.pending = true, now, 0
		return !gap
	}
	in := Interval{Took: now.Mono - a.last.Mono, Metered: a.pending, Missing: gap}
	a.pending, a.last = 0, now
	a.takeSteps(now.Mono)
	settled := a.split(&in, now.Mono)
	a.forget(now.Mono)
	a.totals.Metered += in.Metered
	a.totals.Idle += in.Idle
	a.totals.Unattributed += in.Unattributed
	a.totals.Running += in.Requests - settled
	a.totals.Requests += settled
	a.totals.Covered += in.Took
	if in.Missing {
		a.totals.Missing += in.Took
	}
	if a.cfg.Observe != nil {
		a.cfg.Observe(in)
	}
	return true
}

// lose makes the figures of all requests at work unknown.
func (a *Account) lose() {
	for _, j := range a.jobs {
		j.unknown = true
	}
}

// takeSteps books the steps since it was called last.
func (a *Account) takeSteps(now time.Duration) {
	if a.cfg.Steps == nil {
		return
	}
	var steps []Step
	steps, a.step = a.cfg.Steps(a.step)
	for _, s := range steps {
		sum := 0.0
		for _, sh := range s.Shares {
			sum += max(0, sh.Weight)
		}
		if sum <= 0 || s.Took <= 0 {
			continue
		}
		for _, sh := range s.Shares {
			j := a.jobs[sh.Request]
			if sh.Weight <= 0 {
				continue
			}
			if j == nil || !j.stepped {
				a.nobody += uint64(sh.Weight / sum * float64(s.Took))
				continue
			}
			j.rate, j.took, j.stepAt = sh.Weight/sum, s.Took, now-s.Ago
			j.done += uint64(j.rate * float64(s.Took))
		}
	}
}

// split shares the energy of an interval, and returns how much of it falls to requests whose figure is out.
func (a *Account) split(in *Interval, now time.Duration) (settled int64) {
	all := append(a.ended, make([]*job, 0, len(a.jobs))...)
	for _, j := range a.jobs {
		all = append(all, j)
	}
	a.ended = nil
	weights, sum := make([]uint64, len(all)), a.nobody
	a.nobody = 0
	for i, j := range all {
		a.work(j, now)
		weights[i] = j.weigh(now)
		sum += weights[i]
		j.weight += weights[i]
		j.samples++
	}
	worked, rested := a.touched || sum > 0, a.rested
	a.touched, a.rested = a.active > 0, !worked
	switch {
	case in.Missing:
		a.lose()
		in.Unattributed = in.Metered
		return 0
	case !worked:
		in.Idle = in.Metered
		if rested || !a.sampled { // a sample may still show the work before
			a.quiet.learn(part{in.Metered, in.Took})
		}
		return 0
	}
	in.Idle = min(in.Metered, a.idle(in.Took))
	rest := in.Metered - in.Idle
	in.Unattributed = rest
	if sum == 0 {
		return 0
	}
	a.rate.learn(rest, sum)
	for i, j := range all {
		if j.unknown {
			continue
		}
		e := scale(rest, weights[i], sum)
		j.energy += e
		in.Requests += e
		in.Unattributed -= e
		if j.told {
			settled += e
		}
	}
	return settled
}

// weigh returns for how many nanoseconds the machine worked for a request since the call before. Without steps these are its turns with the
// others at work. With steps it is its part of theirs; of the step that runs on, what the one before makes of the time since then, which is taken
// off again when the step is known.
func (j *job) weigh(now time.Duration) uint64 {
	w := j.waiting + j.owed
	j.waiting, j.owed = 0, 0
	target := j.done
	if since := min(now-j.stepAt, j.took); j.active > j.plain && since > 0 {
		target += uint64(j.rate * float64(since))
	}
	if target > j.charged {
		w += target - j.charged
		j.charged = target
	}
	return w
}

// scale returns amount × weight ÷ sum, rounded down.
func scale(amount int64, weight, sum uint64) int64 {
	hi, lo := bits.Mul64(uint64(amount), weight)
	if hi >= sum {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, sum)
	return int64(min(q, math.MaxInt64))
}

// learn adds a time in which nobody was at work.
func (p *idlePower) learn(in part) {
	p.took = min(quiet, p.took+in.took)
	p.now.energy, p.now.took = p.now.energy+in.energy, p.now.took+in.took
	if p.now.took < time.Second {
		return
	}
	if len(p.parts) < quietParts {
		p.parts = append(p.parts, p.now)
	} else {
		p.parts[p.next] = p.now
		p.next = (p.next + 1) % quietParts
	}
	p.now = part{}
	byPower := slices.SortedFunc(slices.Values(p.parts), func(a, b part) int { return cmp.Compare(a.watts(), b.watts()) })
	p.energy = byPower[len(byPower)/4]
}

func (p part) watts() float64 { return float64(p.energy) / float64(p.took) }

// idle returns the idle energy of a time.
func (a *Account) idle(d time.Duration) int64 {
	if a.idleMethod() == meter.Declared {
		return meter.Microjoules(uint64(a.cfg.Config.IdleMilliwatts), d, 1)
	}
	return scale(a.quiet.energy.energy, uint64(max(0, d)), uint64(a.quiet.energy.took))
}

// idleMethod says how the idle part is known: that of the meters once they have seen the machine idle long enough.
func (a *Account) idleMethod() meter.Method {
	if a.quiet.took < quiet {
		return meter.Declared
	}
	return a.method
}

// forget gives up requests that nobody ended.
func (a *Account) forget(now time.Duration) {
	for id, j := range a.jobs {
		if j.active == 0 && now-j.seen > forgotten {
			a.remove(id, j, now)
			a.disown(j)
		}
	}
}
