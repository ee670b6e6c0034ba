package energy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
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

// Totals are sums since the start: Metered = Requests + Running + Idle + Unattributed. All but Running only grow.
type Totals struct {
	Metered      int64         `json:"metered_uj"`
	Requests     int64         `json:"requests_uj"` // of requests that have ended with a figure
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
	// StepEngine is the name of that engine.
	StepEngine string
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

	mu      sync.Mutex
	meters  []watched
	jobs    map[string]*job
	ended   []*job // whose figure is not known: what falls to them is nobody's
	begun   bool
	last    meter.Moment
	step    uint64
	active  int   // stretches of work that go on
	touched bool  // somebody was at work since the last reading
	pending int64 // told by some meters while another failed
	overdue bool  // the interval cannot become known any more
	totals  Totals
	idleSum struct {
		energy int64
		took   time.Duration
	}
}

// watched is a meter and whether it fails.
type watched struct {
	meter.Meter
	failing bool
}

// job is a request that is, or was, at work on this machine.
type job struct {
	stepped bool // its work is in the log of steps
	active  int
	begun   time.Duration
	seen    time.Duration // when it last began or ended a stretch, or a reading was taken while it was at work

	waiting uint64        // nanoseconds at work since the last reading, without steps
	done    uint64        // nanoseconds of steps
	charged uint64        // of them, and ahead of them, what readings were split by
	rate    float64       // of the last step: its part
	stepAt  time.Duration // when it ended
	took    time.Duration // how long it took

	energy  int64
	unknown bool
}

const (
	// quiet is how long the machine must have been seen idle before that counts instead of what was declared.
	quiet = 10 * time.Second
	// quietMemory is how much of its idle time is remembered; older readings count half.
	quietMemory = 10 * time.Minute
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
		a.meters = append(a.meters, watched{Meter: meter.Retry(c, a.clock, cfg.Config.period())})
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
	}
	a.method, a.kinds = meter.Weakest(methods...), strings.Join(kinds, "+")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read(a.clock())
	return a, nil
}

// Method returns the method of the figures that are known.
func (a *Account) Method() string { return string(a.method) }

// Begin notes that this machine begins to work for a request. If the engine that generates is that of AccountConfig.Steps, the request is found
// there. The returned function ends that stretch of work; a request may have several. [Account.End] ends the request.
func (a *Account) Begin(request, generates string) (pause func()) {
	if !a.metered {
		return func() {}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if a.active == 0 {
		a.read(now) // so that idle time ends here
	}
	j := a.jobs[request]
	if j == nil {
		j = &job{begun: now.Mono}
		a.jobs[request] = j
	}
	j.stepped = j.stepped || a.cfg.Steps != nil && generates != "" && generates == a.cfg.StepEngine
	j.work(now.Mono)
	j.active++
	a.active++
	a.touched = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if j.active == 0 { // the request has ended before
			return
		}
		j.work(a.clock().Mono)
		j.active--
		a.active--
	}
}

// work counts the time until now.
func (j *job) work(now time.Duration) {
	if j.active > 0 && !j.stepped && now > j.seen {
		j.waiting += uint64(now - j.seen)
	}
	j.seen = now
}

// End returns what a request is charged and forgets it. busy and concurrent are for figures by declaration alone: how long it occupied a slot
// and how many did at most.
func (a *Account) End(request string, busy time.Duration, concurrent int) Figure {
	if !a.metered {
		return Figure{Microjoules: a.model.Attribute(busy, concurrent), Method: meter.Declared, Window: busy}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.jobs[request]
	if j == nil {
		return Figure{}
	}
	now := a.clock()
	ok := a.read(now)
	a.remove(request, j, ok)
	window := now.Mono - j.begun
	if !ok || j.unknown {
		a.disown(j, ok)
		return Figure{Window: window}
	}
	a.totals.Running -= j.energy
	a.totals.Requests += j.energy
	return Figure{Microjoules: j.energy, Method: a.method, Meter: a.kinds, Uncertainty: a.off, Idle: a.idleMethod(), Window: window}
}

// Abandon forgets a request that another machine answered in the end. What it was charged is nobody's.
func (a *Account) Abandon(request string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.jobs[request]; j != nil {
		ok := a.read(a.clock())
		a.remove(request, j, ok)
		a.disown(j, ok)
	}
}

// remove ends a request and its stretches, just after a reading if there was one.
func (a *Account) remove(request string, j *job, read bool) {
	j.work(a.clock().Mono)
	delete(a.jobs, request)
	a.active -= j.active
	j.active = 0
	if read {
		a.touched = a.active > 0
	}
}

// disown makes what a request was charged nobody's. If the reading is still to come, what falls to it then is, too.
func (a *Account) disown(j *job, read bool) {
	a.totals.Running -= j.energy
	a.totals.Unattributed += j.energy
	j.energy = 0
	if !read && !a.overdue {
		j.unknown = true
		a.ended = append(a.ended, j)
	}
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
	var running sync.WaitGroup
	defer running.Wait()
	for i := range a.meters {
		running.Go(func() { a.refresh(ctx, i) })
	}
	ticker := time.NewTicker(a.cfg.Config.period())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			a.Read()
		}
	}
}

// refresh samples one meter until ctx ends.
func (a *Account) refresh(ctx context.Context, i int) {
	ticker := time.NewTicker(a.cfg.Config.period())
	defer ticker.Stop()
	for {
		err := a.meters[i].Refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		a.note(i, err)
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
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

// Read takes a reading now.
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
	a.overdue = a.overdue || gap || failed && a.begun && now.Mono-a.last.Mono > longest
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
	a.split(&in, now.Mono, a.takeSteps(now.Mono))
	a.forget(now.Mono)
	a.totals.Metered += in.Metered
	a.totals.Idle += in.Idle
	a.totals.Unattributed += in.Unattributed
	a.totals.Running += in.Requests
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

// takeSteps books the steps since the last reading, and returns the nanoseconds that were for nobody who is at work here.
func (a *Account) takeSteps(now time.Duration) (nobody uint64) {
	if a.cfg.Steps == nil {
		return 0
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
				nobody += uint64(sh.Weight / sum * float64(s.Took))
				continue
			}
			j.rate, j.took, j.stepAt = sh.Weight/sum, s.Took, now-s.Ago
			j.done += uint64(j.rate * float64(s.Took))
		}
	}
	return nobody
}

// split shares the energy of an interval, in which the engine worked so many nanoseconds for nobody.
func (a *Account) split(in *Interval, now time.Duration, nobody uint64) {
	all := append(a.ended, make([]*job, 0, len(a.jobs))...)
	for _, j := range a.jobs {
		all = append(all, j)
	}
	a.ended = nil
	together := 0
	for _, j := range all {
		j.work(now)
		if j.active > 0 || j.waiting > 0 {
			together++
		}
	}
	weights, sum := make([]uint64, len(all)), nobody
	for i, j := range all {
		weights[i] = j.weigh(now, together)
		sum += weights[i]
	}
	worked := a.touched || sum > 0
	a.touched = a.active > 0
	switch {
	case in.Missing:
		a.lose()
		in.Unattributed = in.Metered
		return
	case !worked:
		in.Idle = in.Metered
		a.rememberIdle(in)
		return
	}
	in.Idle = min(in.Metered, a.idle(in.Took))
	rest := in.Metered - in.Idle
	in.Unattributed = rest
	if sum == 0 {
		return
	}
	for i, j := range all {
		e := part(rest, weights[i], sum)
		if j.unknown {
			continue
		}
		j.energy += e
		in.Requests += e
		in.Unattributed -= e
	}
}

// weigh returns for how many nanoseconds the machine worked for a request in the interval that ends now. Without steps it is the time that it
// was at work, shared with the others. With steps it is its part of theirs; of the step that runs on, what the one before makes of the time
// since then, which is taken off again when the step is known.
func (j *job) weigh(now time.Duration, together int) uint64 {
	if !j.stepped {
		w := j.waiting / uint64(max(1, together))
		j.waiting = 0
		return w
	}
	target := j.done
	if since := min(now-j.stepAt, j.took); j.active > 0 && since > 0 {
		target += uint64(j.rate * float64(since))
	}
	if target <= j.charged {
		return 0
	}
	w := target - j.charged
	j.charged = target
	return w
}

// part returns amount × weight ÷ sum, rounded down; weight is at most sum, which is not 0.
func part(amount int64, weight, sum uint64) int64 {
	hi, lo := bits.Mul64(uint64(amount), weight)
	q, _ := bits.Div64(hi, lo, sum)
	return int64(q)
}

// rememberIdle learns what the machine takes when nobody works.
func (a *Account) rememberIdle(in *Interval) {
	s := &a.idleSum
	s.energy, s.took = s.energy+in.Metered, s.took+in.Took
	if s.took > quietMemory {
		s.energy, s.took = s.energy/2, s.took/2
	}
}

// idle returns the idle energy of a time.
func (a *Account) idle(d time.Duration) int64 {
	if a.idleMethod() == meter.Declared {
		return microjoules(uint64(a.cfg.Config.IdleMilliwatts), d, 1)
	}
	return part128(a.idleSum.energy, d, a.idleSum.took)
}

// part128 returns energy × d ÷ of, rounded down.
func part128(energy int64, d, of time.Duration) int64 {
	hi, lo := bits.Mul64(uint64(energy), uint64(max(0, d)))
	if hi >= uint64(of) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return int64(min(q, 1<<63-1))
}

// idleMethod says how the idle part is known: that of the meters once they have seen the machine idle long enough.
func (a *Account) idleMethod() meter.Method {
	if a.idleSum.took < quiet {
		return meter.Declared
	}
	return a.method
}

// forget gives up requests that nobody ended.
func (a *Account) forget(now time.Duration) {
	for id, j := range a.jobs {
		if j.active == 0 && now-j.seen > forgotten {
			a.remove(id, j, true)
			a.disown(j, true)
		}
	}
}

// String names the meters for logs.
func (a *Account) String() string {
	if !a.metered {
		return "declared"
	}
	return fmt.Sprintf("%s by %s", a.method, a.kinds)
}
