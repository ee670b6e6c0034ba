package native

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/fault"
)

// Prompt tokens per step: alone, where nothing else was measured to be faster, and beside sequences that wait for their next token.
const (
	chunkAlone  = 128
	chunkBeside = 32
)

// loop computes jobs, step by step, in one goroutine that runs while there is something to do.
type loop struct {
	metrics *metrics

	mu      sync.Mutex
	slots   int // sequences that may run at a time
	waiting int // jobs that may wait
	queue   []*job
	used    int // slots of admitted jobs
	running bool
	closed  bool
	idle    sync.WaitGroup
	perJob  time.Duration // recent mean time of a job in a slot, for the retry time

	// The goroutine's own.
	active  []*job
	blocked []*generator
	turn    int
	picked  int // tokens sampled so far
}

// submit queues a job or refuses it.
func (l *loop) submit(j *job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fault.New(fault.CodeEngineUnavailable, string(j.model.info.ID))
	}
	l.queue = slices.DeleteFunc(l.queue, (*job).dropped)
	need := j.choices
	for _, q := range l.queue {
		need += q.choices
	}
	if len(l.queue) >= l.waiting && l.used+need > l.slots && (l.used > 0 || len(l.queue) > 0) {
		return fault.New(fault.CodeEngineOverloaded, string(j.model.info.ID)).WithRetryAfter(l.retryAfter())
	}
	j.submitted = time.Now()
	l.queue = append(l.queue, j)
	l.metrics.queued.Set(float64(len(l.queue)))
	if !l.running {
		l.running = true
		l.idle.Go(l.run)
	}
	return nil
}

// retryAfter estimates when the queue has moved on, in whole seconds from 1 to 60.
func (l *loop) retryAfter() time.Duration {
	d := l.perJob * time.Duration(len(l.queue)+1) / time.Duration(l.slots)
	return min(max(d.Round(time.Second), time.Second), time.Minute)
}

func (l *loop) setSlots(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = max(1, n)
}

func (l *loop) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// close fails what is running and waits for the goroutine.
func (l *loop) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.idle.Wait()
}

// run steps until nothing is left. Steps of different models take turns.
func (l *loop) run() {
	for l.admit() {
		for _, m := range l.models() {
			l.step(m)
		}
	}
}

// admit drops jobs whose callers left, and moves jobs from the queue to free slots, in order. It returns false when there is
// nothing to do; the goroutine then ends.
func (l *loop) admit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = slices.DeleteFunc(l.active, func(j *job) bool {
		if j.running > 0 && !j.dropped() && !l.closed {
			return false
		}
		if j.running > 0 && l.closed {
			j.fail(fault.New(fault.CodeEngineUnavailable, string(j.model.info.ID)))
		}
		l.used -= j.choices
		j.model.reserved -= j.pages
		l.perJob += (time.Since(j.admitted) - l.perJob) / 8
		j.release()
		return true
	})
	for _, j := range l.queue {
		if l.closed {
			j.fail(fault.New(fault.CodeEngineUnavailable, string(j.model.info.ID)))
		}
	}
	l.queue = slices.DeleteFunc(l.queue, func(j *job) bool { return l.closed || j.dropped() })
	// A job with more choices than there are slots runs alone. None begins before the memory is free that it may need at most, so
	// that nothing that has begun can run out of it.
	slots, blocked := true, l.blocked[:0] // jobs of models whose memory is taken wait, those behind them of other models need not
	l.queue = slices.DeleteFunc(l.queue, func(j *job) bool {
		if slots = slots && (l.used == 0 || l.used+j.choices <= l.slots); !slots || slices.Contains(blocked, j.model) {
			return false
		}
		if !j.fits() {
			blocked = append(blocked, j.model)
			return false
		}
		l.used += j.choices
		j.model.reserved += j.pages
		j.admitted = time.Now()
		j.running = j.choices
		j.cache = j.model.pass.Pages().NewCache()
		l.active = append(l.active, j)
		return true
	})
	l.blocked = blocked
	l.metrics.queued.Set(float64(len(l.queue)))
	l.metrics.active.Set(float64(l.used))
	l.running = len(l.active) > 0
	return l.running
}

func (l *loop) models() []*generator {
	var out []*generator
	for _, j := range l.active {
		if !slices.Contains(out, j.model) {
			out = append(out, j.model)
		}
	}
	return out
}

// target is who gets the logits of a row: a sequence, or all choices of a job whose prompt is complete.
type target struct {
	job *job
	seq *sequence
}

// step computes the next token of every running sequence of a model, and a chunk of its prompts.
func (l *loop) step(m *generator) {
	begin, picked := time.Now(), l.picked
	p := m.pass
	p.Rows, m.targets = p.Rows[:0], m.targets[:0]
	for _, j := range l.active {
		if j.model != m {
			continue
		}
		for _, s := range j.sequences {
			if !s.ended {
				reserve(s.cache, 1)
				p.Rows = append(p.Rows, exec.Row{Token: s.next, Cache: s.cache, Pos: s.cache.Len(), Wanted: true})
				s.cache.Advance(1)
				m.targets = append(m.targets, target{j, s})
			}
		}
	}
	budget := m.promptRows
	if len(p.Rows) > 0 {
		budget = chunkBeside
	}
	prompt := l.addPrompts(m, budget)
	if len(p.Rows) == 0 {
		return
	}
	layouts := p.Layouts()
	p.Run()
	l.metrics.layouts.Add(float64(p.Layouts() - layouts))
	for i, t := range m.targets {
		if t.seq == nil {
			l.begin(t.job, m.logits(i))
		} else {
			l.advance(t.job, t.seq, m.logits(i))
		}
	}
	l.metrics.step(time.Since(begin), prompt, l.picked-picked)
}

// reserve takes the pages for n more positions where they are known to be free: there is no bound on the pages, or nothing begins
// before there is room for all that it may need.
func reserve(c *exec.Cache, n int) {
	if !c.Reserve(n) {
		panic("native: a page is missing that was counted as free")
	}
}

// addPrompts adds up to budget prompt tokens to the batch. Jobs take turns at being first, so a long prompt delays no other for
// long.
func (l *loop) addPrompts(m *generator, budget int) int {
	left := budget
	l.turn++
	for i := range l.active {
		j := l.active[(i+l.turn)%len(l.active)]
		if j.model != m {
			continue
		}
		n := min(left, len(j.prompt)-j.fed)
		if n == 0 {
			continue
		}
		reserve(j.cache, n)
		for range n {
			last := j.fed == len(j.prompt)-1
			m.pass.Rows = append(m.pass.Rows, exec.Row{Token: j.prompt[j.fed], Cache: j.cache, Pos: j.cache.Len(), Wanted: last})
			j.cache.Advance(1)
			j.fed++
			if last {
				m.targets = append(m.targets, target{job: j})
			}
		}
		left -= n
	}
	return budget - left
}

// begin makes the sequences of a job whose prompt is complete, and picks their first tokens. The first one takes over the cache of
// the prompt, the others share its full pages.
func (l *loop) begin(j *job, logits []float32) {
	j.prefilled = time.Now()
	for i := range j.choices {
		s := &sequence{choice: i, cache: j.cache, out: output{stops: j.stops}}
		if i > 0 {
			s.cache = j.cache.Fork()
		}
		j.sequences = append(j.sequences, s)
	}
	j.cache = nil
	for _, s := range j.sequences {
		l.advance(j, s, logits)
	}
}

// advance picks the next token of a sequence from its logits and hands out the text.
func (l *loop) advance(j *job, s *sequence, logits []float32) {
	m, d := j.model, j.draw
	d.choice, d.step = s.choice, s.step
	id := m.sampler.pick(logits, d)
	s.step++
	j.produced++
	l.picked++
	finish := engine.FinishNone
	var p piece
	if m.tokens.IsEOG(id) {
		p, finish = s.out.close(false), engine.FinishStop
	} else {
		p = s.out.push(m.tokens.Bytes(id), m.logprob(logits, id, j.logprobs))
		switch {
		case p.stopped:
			finish = engine.FinishStop
		case s.step >= j.limit:
			p, finish = join(p, s.out.close(true)), engine.FinishLength
		}
	}
	s.next = id
	if finish != engine.FinishNone {
		if p.stopped {
			finish = engine.FinishStop
		}
		s.ended = true
		j.running--
	}
	l.deliver(j, s.choice, p, finish)
}

func join(a, b piece) piece {
	return piece{text: a.text + b.text, logprobs: append(a.logprobs, b.logprobs...), stopped: a.stopped || b.stopped}
}

// deliver hands a piece to the caller; the last one of the job carries the usage.
func (l *loop) deliver(j *job, choice int, p piece, finish engine.Finish) {
	if p.text == "" && len(p.logprobs) == 0 && finish == engine.FinishNone {
		return
	}
	ev := engine.Event{Choice: choice, Text: p.text, Logprobs: p.logprobs, Finish: finish}
	if j.running == 0 {
		ev.Usage = &engine.Usage{
			Model:            engine.ReportedModel(j.model.info.ID),
			PromptTokens:     len(j.prompt),
			CompletionTokens: j.produced,
			Replay:           replayToken(j.model.info, j.draw.seed),
			Queue:            j.admitted.Sub(j.submitted),
			Prefill:          j.prefilled.Sub(j.admitted),
			Decode:           time.Since(j.prefilled),
		}
	}
	j.emit(ev)
}
