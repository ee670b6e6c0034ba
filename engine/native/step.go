package native

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/native/sched"
)

// stepInput is what one sequence gives to a step: rows that follow one another, first its tokens, then guesses.
type stepInput struct {
	s      *sequence
	tokens []int32 // of the rows
	known  int     // of these, tokens that stand
	result int     // index of the output of its first row that wants one
	wanted int     // rows that want output, the last ones
}

// promotions bounds how often the look-ups of a step go to the disk: reading a page back takes a hundredth of computing it, but the step
// waits.
const maxPromotions = 4

// maxDrafts is the most guessed tokens of a sequence in a step.
const maxDrafts = 12

// compute makes one step of a model: its controller says how much goes in, and the rows go through the weights together.
func (l *loop) compute(m *generator) {
	begin := time.Now()
	l.mu.Lock()
	decision := m.control.Plan(l.demand(m, begin))
	l.fill(m, &decision)
	l.mu.Unlock()
	if len(m.pass.Rows) == 0 {
		return
	}
	layouts := m.pass.Layouts()
	m.pass.Run()
	l.metrics.layouts.Add(float64(m.pass.Layouts() - layouts))
	for i := range m.inputs {
		m.inputs[i].s.job.holdLast()
	}
	for i := range m.inputs {
		l.sampleOutputs(m, &m.inputs[i])
	}
	l.recordStep(m, begin)
	for i := range m.inputs {
		m.inputs[i].s.job.releaseLast()
	}
}

// limit is how long a step of a model may take because of the sequences of other models that decode: a half of the tightest target, since
// the other half is theirs. 0 if there are none.
func (l *loop) limit(m *generator) time.Duration {
	var least time.Duration
	for _, s := range l.active {
		if t := l.latency[s.job.class]; s.job.model != m && s.decodes() && (least == 0 || t < least) {
			least = t
		}
	}
	return least / 2
}

// updateShareStates finds how the tenants of a model's sequences stand to each other.
func (l *loop) updateShareStates(m *generator) {
	l.candidates, l.buffer = l.candidates[:0], l.buffer[:0]
	for _, s := range l.active {
		if s.job.model == m && !s.ended {
			l.candidates, l.buffer = append(l.candidates, s.candidate()), append(l.buffer, s)
		}
	}
	l.shareStates = l.fair.ShareStates(l.shareStates[:0], l.candidates)
	for i, s := range l.buffer {
		s.shareState = l.shareStates[i]
	}
}

// demand is what the sequences of a model wait for.
func (l *loop) demand(m *generator, now time.Time) sched.Demand {
	var d sched.Demand
	if !m.finished.IsZero() && now.Sub(m.finished) < time.Second {
		m.betweenSteps += (now.Sub(m.finished) - m.betweenSteps) / 8
	}
	l.updateShareStates(m)
	d.Beside, d.Limit = m.betweenSteps, l.limit(m)
	rates, drafts := 0.0, 0
	for _, s := range l.active {
		if s.job.model != m || s.ended {
			continue
		}
		c := &d.Classes[s.job.class]
		if !s.decodes() {
			if s.shareState == sched.BelowShare {
				c.Behind += s.expectedUncomputed()
			}
			c.Prefill += s.uncomputed()
			c.PrefillContext += sched.ChunkContext(s.computed, s.uncomputed())
			continue
		}
		s.drafts = s.drafts[:0]
		if s.drafter != nil && s.uncomputed() == 1 {
			room := min(maxDrafts, s.job.limit-s.step()-1, m.info.ContextTokens-len(s.tokens)-1)
			s.drafts = s.drafter.Propose(s.drafts, s.tokens, room)
			rates += s.drafter.Rate() * float64(len(s.drafts))
			drafts += len(s.drafts)
		}
		if s.shareState == sched.AboveShare {
			c.Ahead++
		}
		c.Decoding++
		c.Context += sched.ChunkContext(s.computed, 1)
		c.Drafts += len(s.drafts)
	}
	if drafts > 0 {
		d.Acceptance = rates / float64(drafts)
	}
	for _, s := range l.queue {
		if s.job.model == m {
			d.Classes[s.job.class].Waiting++
		}
	}
	return d
}

// fill puts the rows of a step together: decoding sequences first, those that were left out longest, then prompts in fair order. Who is to
// yield is left out.
func (l *loop) fill(m *generator, d *sched.Decision) {
	l.step++
	l.promotions = maxPromotions
	m.pass.Rows, m.inputs, m.planned = m.pass.Rows[:0], m.inputs[:0], sched.Load{}
	wanted := 0
	for class := range sched.Classes {
		part := d.Classes[class]
		decoding := l.sequencesOf(m, class, true)
		yields := d.Yield && class >= d.YieldClass
		if yields {
			decoding = slices.DeleteFunc(decoding, func(s *sequence) bool {
				s.yielded = s.yielded || s.shareState == sched.AboveShare
				return s.shareState == sched.AboveShare
			})
		}
		slices.SortStableFunc(decoding, func(a, b *sequence) int { return cmp.Compare(a.lastStep, b.lastStep) })
		drafts := part.Drafts
		for _, s := range decoding[:min(part.Decode, len(decoding))] {
			n := min(drafts, len(s.drafts))
			if l.addRows(m, s, s.uncomputed(), n, &wanted) {
				drafts -= n
			}
		}
	}
	for class := range sched.Classes {
		left := d.Classes[class].Prefill
		prompts := l.sequencesOf(m, class, false)
		if left == 0 || len(prompts) == 0 {
			continue
		}
		l.candidates = l.candidates[:0]
		for _, s := range prompts {
			l.candidates = append(l.candidates, s.candidate())
		}
		l.order = l.fair.Order(l.order[:0], l.candidates, time.Now(), len(prompts))
		for _, i := range l.order {
			if left == 0 {
				break
			}
			s := prompts[i]
			if d.Yield && class >= d.YieldClass && s.shareState != sched.BelowShare || !s.running { // one before it took its pages
				continue
			}
			l.matchPrefix(m, s)
			before := len(m.pass.Rows)
			l.addRows(m, s, min(left, s.uncomputed()), 0, &wanted)
			left -= len(m.pass.Rows) - before
		}
	}
}

// sequencesOf lists the active sequences of a model and class that decode, or that do not.
func (l *loop) sequencesOf(m *generator, class int, decoding bool) []*sequence {
	var out []*sequence
	for _, s := range l.active {
		if s.job.model == m && s.job.class == class && !s.ended && s.decodes() == decoding {
			out = append(out, s)
		}
	}
	return out
}

// matchPrefix looks up the cached prefix of a sequence when its first chunk is due: another sequence with the same prefix may have computed
// it by then.
func (l *loop) matchPrefix(m *generator, s *sequence) {
	if s.cache != nil {
		return
	}
	j := s.job
	if j.wantsPrompt() { // every row's output is wanted, so every row is computed
		s.cache = m.pass.Pages().NewCache()
		return
	}
	var more bool
	s.cache, s.computed, more = m.tree.Match(j.space, s.tokens)
	for ; more && l.promotions > 0; l.promotions-- { // what lies on disk comes back some pages at a time
		before := s.cache
		s.cache, s.computed, more = m.tree.Match(j.space, s.tokens)
		before.Release()
	}
	if !j.prefixMatched { // later it finds what it computed itself
		j.prefixMatched, j.cached = true, s.computed
	}
	s.share.Cached += s.computed
	l.fair.Charge(j.tenant, j.class, 0, s.computed, 0)
	l.metrics.prefix(len(s.tokens), s.computed)
}

// addRows adds the rows of n tokens of a sequence and of its first drafts to the step. It returns false when memory is short; then the
// sequence waits, for this step or in the queue.
func (l *loop) addRows(m *generator, s *sequence, n, drafts int, wanted *int) bool {
	if s.ended || !s.running || !l.reserve(m, s, n+drafts) {
		return false
	}
	s.lastStep = l.step
	f := stepInput{s: s, known: n, result: *wanted}
	last := s.uncomputed() - 1 // the row whose output gives the next token
	first := last
	if s.job.wantsPrompt() && s.step() == 0 {
		first = 0
	}
	f.tokens = append(append(f.tokens, s.tokens[s.computed:s.computed+n]...), s.drafts[:drafts]...)
	var lora *exec.Adapter
	if s.job.adapter != nil {
		lora = s.job.adapter.weights
	}
	for i, t := range f.tokens {
		row := exec.Row{Token: t, Cache: s.cache, Pos: s.computed + i, Wanted: i >= first, Adapter: lora}
		if row.Wanted {
			f.wanted++
		}
		m.pass.Rows = append(m.pass.Rows, row)
	}
	s.cache.Advance(len(f.tokens))
	*wanted += f.wanted
	m.planned.Sequences++
	m.planned.Context += sched.ChunkContext(s.computed, len(f.tokens))
	m.planned.Drafts += drafts
	s.share.Drafts += drafts
	if s.decodes() {
		m.planned.Decode++
		m.planned.Prefill += n - 1
		s.share.Decode++
		s.share.Prefill += n - 1
	} else {
		m.planned.Prefill += n
		s.share.Prefill += n
	}
	m.inputs = append(m.inputs, f)
	return true
}

// reserve makes room for n more positions: from what is free, from what is only kept, or from a sequence that has no row in this step
// yet. The one that asks may be the one that has to wait.
func (l *loop) reserve(m *generator, s *sequence, n int) bool {
	for !s.cache.Reserve(n) {
		if m.tree.Evict(s.cache.MissingPages(n)-m.pass.Pages().Free()) > 0 {
			continue
		}
		v := l.victim(func(a *sequence) bool { return a.job.model == m && a.cache != nil && a.lastStep != l.step })
		if v == nil || v == s && l.truncateSharedPage(s) {
			return false
		}
		l.preempt(v)
		if v == s {
			return false
		}
	}
	return true
}

// truncateSharedPage gives up the beginning of a page that a sequence shares with the prefix tree, when no other sequence holds pages: the copy that
// it would write to is one page more than it can have, however often it comes back.
func (l *loop) truncateSharedPage(s *sequence) bool {
	over := s.computed % exec.PagePositions
	others := func(a *sequence) bool { return a != s && a.cache != nil && a.job.model == s.job.model }
	if over == 0 || slices.ContainsFunc(l.active, others) {
		return false
	}
	s.computed -= over
	s.cache.Truncate(s.computed)
	return true
}

// sampleOutputs samples tokens from the outputs of a sequence's rows, as long as the next row computed the sampled token. A row depends only
// on the tokens up to it, so the text is the same with drafts and without.
func (l *loop) sampleOutputs(m *generator, f *stepInput) {
	s := f.s
	if s.ended || s.job.over() {
		return
	}
	l.echoPrompt(m, f)
	right, before := f.known, s.step()
	for !s.ended {
		if s.computed+right == len(s.tokens) {
			l.pick(m, s, m.logits(f.result+right-1-(len(f.tokens)-f.wanted)))
		} else if right < len(f.tokens) && f.tokens[right] == s.tokens[s.computed+right] {
			right++
		} else {
			break
		}
	}
	if s.step() > before {
		now := time.Now()
		if !s.last.IsZero() {
			m.gaps = append(m.gaps, gap{s.job.class, now.Sub(s.last), s.yielded})
		}
		s.last, s.yielded = now, false
	}
	if guessed := len(f.tokens) - f.known; guessed > 0 {
		s.drafter.Accept(guessed, right-f.known)
		s.share.Accepted += right - f.known
		m.accepted(guessed, right-f.known)
		l.metrics.drafted(guessed, right-f.known)
	}
	wasPrompt := s.computed < len(s.job.prompt)
	s.computed += right
	s.cache.Truncate(s.computed)
	if wasPrompt && !s.ended {
		l.mu.Lock()
		m.insertPrefix(s)
		l.mu.Unlock()
	}
}

// insertPrefix gives the full pages of a sequence to the prefix tree.
func (g *generator) insertPrefix(s *sequence) {
	if s.cache != nil && !s.job.forgotten && s.computed >= exec.PagePositions {
		g.tree.Insert(s.job.space, s.tokens[:s.computed], s.cache)
	}
}

// recordStep reports the step to the controller, the fair shares, the log and the metrics.
func (l *loop) recordStep(m *generator, begin time.Time) {
	now := time.Now()
	took := now.Sub(begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	m.finished = now
	m.control.Observe(m.planned, took)
	for _, g := range m.gaps {
		m.control.ObserveGap(g.class, g.took, g.yielded)
		l.metrics.gap(g)
	}
	m.gaps = m.gaps[:0]
	shares, accepted := m.shares[:0], 0
	for i := range m.inputs {
		s := m.inputs[i].s
		j := s.job
		s.share.Request = j.id
		shares = append(shares, s.share)
		accepted += s.share.Accepted
		l.fair.Charge(j.tenant, j.class, s.share.Prefill, 0, s.share.Decode+s.share.Accepted)
		s.share = sched.Share{}
	}
	m.shares = shares
	if lost := l.steps.Add(begin, took, m.planned, shares); lost != 0 {
		l.metrics.unattributed.Add(float64(lost))
	}
	l.metrics.step(took, m.planned, accepted)
}

// failed ends a job because of an error of its own; other jobs go on.
func (l *loop) failed(s *sequence, err error) {
	s.ended = true
	s.job.fail(err)
}
