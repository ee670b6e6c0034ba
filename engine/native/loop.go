package native

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/internal/fault"
)

// loop computes sequences, step by step, in one goroutine that runs while there is something to do. What waits is in queue; what was
// admitted is in active. Package sched decides who and how much, the loop does it.
type loop struct {
	place      cpuSet
	metrics    *metrics
	steps      *sched.StepLog
	generators []*generator
	encoders   []*encoder
	latency    [sched.Classes]time.Duration

	mu             sync.Mutex // guards what follows, and the controllers and prefix trees of the generators
	slots          int        // sequences that may run at a time, whatever the controllers say
	occupancy      sched.QueueOccupancy
	fair           *sched.Fair
	queue          []*sequence
	running        bool
	closed         bool
	forgetRequests []forgetRequest // before the next step
	idle           sync.WaitGroup
	arrived        atomic.Bool // something was queued since the last admission

	// The goroutine's own.
	active      []*sequence
	step        uint64
	turn        int  // of encoders
	promotions  int  // left in this step
	preempted   bool // in the last step: nobody is admitted then
	candidates  []sched.Candidate
	order       []int
	shareStates []sched.ShareState
	buffer      []*sequence // that may be preempted
	victims     []sched.Candidate
}

func newLoop(o *opener) *loop {
	cfg := &o.cfg
	most := func(n int) int { return max(1, n-n/4) }
	return &loop{
		place: o.place, metrics: o.metrics, slots: cfg.Concurrency, latency: cfg.Latency.targets(), steps: sched.NewStepLog(stepLogSize, shareLogSize),
		fair: sched.NewFair(sched.FairConfig{Weights: cfg.Tenants}),
		occupancy: sched.QueueOccupancy{Bounds: sched.Limits{
			Requests: cfg.QueueLimit, Tokens: cfg.QueueTokens, Bytes: cfg.QueueBytes,
			TenantRequests: most(cfg.QueueLimit), TenantTokens: most(cfg.QueueTokens), TenantBytes: most(cfg.QueueBytes),
		}},
	}
}

// What the log of steps remembers.
const (
	stepLogSize  = 4096
	shareLogSize = 256
)

var errQueueFull = errors.New("the queue is full")

// submit queues a job or refuses it: when the queue is full, and when its first token would come too late.
func (l *loop) submit(j *job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fault.New(fault.CodeEngineUnavailable, string(j.model.info.ID))
	}
	l.dropQueued()
	now := time.Now()
	wait := j.model.control.Estimate(l.backlog(j))
	if !j.deadline.IsZero() && (j.model.control.HasClass() || now.After(j.deadline)) {
		alone := j.model.control.Estimate(l.onlyModel(j))
		if v := sched.Decide(wait, alone, j.deadline.Sub(now)); !v.Admit {
			l.metrics.refused.WithLabelValues("deadline").Inc()
			return fault.Wrap(engine.ErrCallerLimit, fault.CodeEngineOverloaded, string(j.model.info.ID)).WithRetryAfter(v.RetryAfter)
		}
	}
	if full := l.occupancy.Admit(j.tenant, len(j.prompt), j.bytes); full != sched.LimitNone {
		l.metrics.refused.WithLabelValues(string(full)).Inc()
		var cause error
		switch full {
		case sched.LimitTenantRequests, sched.LimitTenantTokens, sched.LimitTenantBytes:
			cause = engine.ErrCallerLimit
		default:
			cause = errQueueFull
		}
		return fault.Wrap(cause, fault.CodeEngineOverloaded, string(j.model.info.ID)).WithRetryAfter(min(max(wait.Round(time.Second), time.Second), time.Minute))
	}
	j.submitted, j.queued = now, true
	j.open = j.choices
	l.fair.Arrive(j.tenant)
	l.queue = append(l.queue, newSequence(j, 0))
	l.arrived.Store(true)
	l.wake()
	return nil
}

// wake starts the goroutine if it does not run. The caller holds the lock.
func (l *loop) wake() {
	if !l.running {
		l.running = true
		l.idle.Go(l.run)
	}
}

// wakeEncoder starts the goroutine for an encoder that has something to do.
func (l *loop) wakeEncoder() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.wake()
	}
}

// backlog is what stands between a new job and its first token.
func (l *loop) backlog(j *job) sched.Backlog {
	b := l.onlyModel(j)
	j.knownPrefix = b.Known
	g := j.model
	b.Running, b.PrefillAhead = g.load.running, g.load.prefill
	for _, s := range l.queue {
		if s.job.model == g && s.job.class <= j.class {
			b.SequencesAhead++
			b.PrefillAhead += s.expectedUncomputed()
		}
	}
	return b
}

// onlyModel is the backlog of a job on an idle engine.
func (l *loop) onlyModel(j *job) sched.Backlog {
	g := j.model
	known := 0
	if !j.wantsPrompt() {
		known = g.tree.MatchLength(j.space, j.prompt)
	}
	return sched.Backlog{
		Class: j.class, Context: max(g.load.context, len(j.prompt)), Known: known, Prompt: len(j.prompt) - known, Sequences: j.choices,
		CompletionMean: g.load.completion, AdmittedAtMost: l.slots,
	}
}

func (l *loop) setSlots(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = max(1, n)
}

// close fails what is running and waits for the goroutine. What encoders have not computed by then is theirs to fail.
func (l *loop) close() {
	l.mu.Lock()
	l.closed = true
	l.arrived.Store(true) // ends the encoders' turn
	l.mu.Unlock()
	l.idle.Wait()
}

// run steps until nothing is left. Models take turns, and encoders after them.
func (l *loop) run() {
	l.place.enter()
	for l.admit() {
		for _, m := range l.models() {
			l.compute(m)
		}
		l.encode()
	}
}

func (l *loop) models() []*generator {
	var out []*generator
	for _, s := range l.active {
		if !slices.Contains(out, s.job.model) {
			out = append(out, s.job.model)
		}
	}
	return out
}

// admit drops sequences whose callers left or whose job failed, and lets those in whose turn it is. It returns false when there is
// nothing to do; the goroutine then ends.
func (l *loop) admit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived.Store(false)
	l.drop()
	l.active = slices.DeleteFunc(l.active, func(s *sequence) bool {
		switch j := s.job; {
		case s.ended:
		case l.closed:
			j.fail(fault.New(fault.CodeEngineUnavailable, string(j.model.info.ID)))
		case j.dropped() || j.over():
		default:
			return false
		}
		l.release(s)
		return true
	})
	l.dropQueued()
	l.expire()
	if !l.preempted || len(l.active) == 0 {
		l.admitWaiting()
	}
	l.preempted = false
	l.countOutcome()
	l.running = len(l.active) > 0 || len(l.queue) > 0 || !l.closed && l.encoding()
	return l.running
}

// dropQueued forgets what waits for nobody.
func (l *loop) dropQueued() {
	l.queue = slices.DeleteFunc(l.queue, func(s *sequence) bool {
		j := s.job
		if l.closed {
			j.fail(fault.New(fault.CodeEngineUnavailable, string(j.model.info.ID)))
		}
		if !j.dropped() && !j.over() {
			return false
		}
		s.ended = true
		l.fair.Leave(j.tenant, true)
		l.leaveQueue(j)
		return true
	})
}

// leaveQueue gives back what a job took of the queue's bounds, once.
func (l *loop) leaveQueue(j *job) {
	if j.queued {
		j.queued = false
		l.occupancy.Release(j.tenant, len(j.prompt), j.bytes)
	}
}

// expire refuses jobs whose first token can only come too late now.
func (l *loop) expire() {
	now := time.Now()
	for _, s := range l.queue {
		if j := s.job; !j.deadline.IsZero() && j.first.IsZero() && now.After(j.deadline) {
			l.metrics.refused.WithLabelValues("expired").Inc()
			j.fail(fault.Wrap(engine.ErrCallerLimit, fault.CodeEngineOverloaded, string(j.model.info.ID)).WithRetryAfter(time.Second))
		}
	}
	l.dropQueued()
}

// admitWaiting admits sequences in fair order, while the controller of their model allows more, a slot is free and memory suffices. Where
// memory is short, it preempts less urgent sequences.
func (l *loop) admitWaiting() {
	if len(l.queue) == 0 {
		return
	}
	l.candidates = l.candidates[:0]
	for _, s := range l.queue {
		l.candidates = append(l.candidates, s.candidate())
	}
	l.order = l.fair.Order(l.order[:0], l.candidates, time.Now(), min(len(l.queue), maxAdmitScan))
	for _, m := range l.generators {
		m.spareSlots = -1
	}
	waiting := slices.Clone(l.queue) // who makes room on the way waits behind these
	for _, i := range l.order {
		if s := waiting[i]; l.mayRun(s) {
			l.queue = slices.DeleteFunc(l.queue, func(q *sequence) bool { return q == s })
			l.start(s)
		}
	}
}

// maxAdmitScan is how many waiting sequences admission considers between two steps, in fair order.
const maxAdmitScan = 256

// start makes a waiting sequence an active one.
func (l *loop) start(s *sequence) {
	j := s.job
	s.running = true
	l.fair.Start(s.candidate())
	l.leaveQueue(j)
	if j.admitted.IsZero() {
		j.admitted = time.Now()
	}
	l.active = append(l.active, s)
}

// mayRun reports whether a waiting sequence can be admitted now. One that is alone always can.
func (l *loop) mayRun(s *sequence) bool {
	m := s.job.model
	if len(l.active) == 0 {
		return true
	}
	var running [sched.Classes]int
	context, mine := len(s.tokens), 0
	for _, a := range l.active {
		if a.job.model == m {
			running[a.job.class]++
			context += len(a.tokens)
			mine++
		}
	}
	bound := m.control.MaxSequences(s.job.class, running, context/(mine+1))
	if !l.fair.MayStart(s.candidate(), running[s.job.class], bound, math.MaxInt) {
		return false
	}
	ofModel := func(a *sequence) bool { return a.job.model == m }
	if lacks := -l.room(m, len(s.tokens)); mine > 0 && lacks > 0 && lacks > l.reclaimable(s) { // nobody leaves in vain
		return false
	}
	for len(l.active) >= l.slots {
		if !l.makeRoom(s, func(*sequence) bool { return true }) {
			return false
		}
	}
	for slices.ContainsFunc(l.active, ofModel) && l.room(m, len(s.tokens)) < 0 {
		if !l.makeRoom(s, ofModel) {
			return false
		}
	}
	return true
}

// room is how many pages of a model are left beside a newcomer with so many tokens: those that are free or only kept for later, less what
// it and the admitted sequences still need for what they have to compute. A page more for each that runs, so that none has to leave
// again as soon as the others grow.
func (l *loop) room(m *generator, newcomer int) int {
	if m.spareSlots < 0 {
		m.spareSlots = m.pass.Pages().Free() + m.tree.Evictable()
	}
	free := m.spareSlots - exec.PagesFor(newcomer+1)
	for _, s := range l.active {
		if s.job.model != m {
			continue
		}
		free -= exec.PagesFor(len(s.tokens)+1) + 1
		if s.cache != nil {
			free += exec.PagesFor(s.cache.Len())
		}
	}
	return free
}

// reclaimable is how many pages of its model a waiting sequence may get at most from those that it is worth preempting.
func (l *loop) reclaimable(s *sequence) int {
	pages, me := 0, s.candidate()
	for _, a := range l.active {
		if a.job.model != s.job.model || a.ended {
			continue
		}
		if l.victims = append(l.victims[:0], a.candidate()); l.fair.VictimFor(me, l.victims) == 0 {
			pages += exec.PagesFor(len(a.tokens)+1) + 1
		}
	}
	return pages
}

// makeRoom preempts the running sequence, of those that may, that loses least by it, if there is one that s is worth it.
func (l *loop) makeRoom(s *sequence, may func(*sequence) bool) bool {
	some, candidates := l.preemptable(may)
	i := l.fair.VictimFor(s.candidate(), candidates)
	if i < 0 {
		return false
	}
	l.preempt(some[i])
	return true
}

// victim is the active sequence to preempt when memory runs out, nil if there is none.
func (l *loop) victim(may func(*sequence) bool) *sequence {
	some, candidates := l.preemptable(may)
	if i := l.fair.Victim(candidates); i >= 0 {
		return some[i]
	}
	return nil
}

// preemptable lists the active sequences that may leave. The lists are valid until the next call.
func (l *loop) preemptable(may func(*sequence) bool) (some []*sequence, candidates []sched.Candidate) {
	some, candidates = l.buffer[:0], l.victims[:0]
	for _, s := range l.active {
		if !s.ended && may(s) {
			some, candidates = append(some, s), append(candidates, s.candidate())
		}
	}
	l.buffer, l.victims = some, candidates
	return some, candidates
}

// preempt sends an active sequence back to the queue. Its full pages stay in the prefix tree for as long as there is memory; what is
// gone when its turn comes again is computed again, to the same bits.
func (l *loop) preempt(s *sequence) {
	l.preempted = true
	l.metrics.preemptions.WithLabelValues(sched.ClassName(s.job.class)).Inc()
	l.requeue(s)
	s.running = false
	l.active = slices.DeleteFunc(l.active, func(a *sequence) bool { return a == s })
	l.fair.Leave(s.job.tenant, false)
	l.fair.Arrive(s.job.tenant)
	l.queue = append(l.queue, s)
}

// requeue gives the pages of a sequence to the prefix tree, and what the tree does not keep back.
func (l *loop) requeue(s *sequence) {
	if s.cache == nil {
		return
	}
	s.cache.Truncate(s.computed)
	s.job.model.insertPrefix(s)
	s.cache.Release()
	s.cache, s.computed, s.job.model.spareSlots = nil, 0, -1
}

// release ends a sequence that was active.
func (l *loop) release(s *sequence) {
	s.ended = true
	l.requeue(s)
	l.fair.Leave(s.job.tenant, false)
	l.leaveQueue(s.job)
}

// countOutcome updates the gauges, and what an estimate needs to know of each model.
func (l *loop) countOutcome() {
	for _, m := range l.generators {
		m.load = load{completion: m.completion}
	}
	for _, s := range l.active {
		m := s.job.model
		m.load.running[s.job.class]++
		m.load.context += len(s.tokens)
		if !s.decodes() {
			m.load.prefill += s.uncomputed()
		}
	}
	for _, m := range l.generators {
		if n := m.load.sequences(); n > 0 {
			m.load.context /= n
		} else {
			m.finished = time.Time{} // the time until the next step is nobody's work
		}
		m.observed = SchedulerState{PagesInUse: m.pass.Pages().InUse(), Prefix: m.tree.Stats(), Acceptance: m.acceptance}
	}
	l.metrics.occupancy(l.queue, l.active)
}

// load is what a model has to do, as of the last step.
type load struct {
	running    [sched.Classes]int
	prefill    int     // prompt tokens of admitted sequences that are still to be computed
	context    int     // tokens of a sequence, on average
	completion float64 // tokens of a completion, on average
}

func (l *load) sequences() int { return l.running[0] + l.running[1] + l.running[2] }

// completed adds a choice to the mean length of completions.
func (g *generator) completed(s *sequence) {
	g.completion += (float64(s.step()) - g.completion) / 16
}
