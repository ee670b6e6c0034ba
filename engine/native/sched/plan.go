package sched

import "time"

const (
	starvationLimit     = 8 // steps a class is left out of, at most, before a sequence or some prompt tokens of it go in whatever the target
	yieldBudgetFactor   = 2 // times the target that a step may take for which others yield
	prefillBudgetFactor = 4 // times the target that a step may take while nothing decodes: then those who have just come are looked at
)

// Plan decides what goes into the next step. It counts as that step: guarantees of the kind "once in eight steps" count calls, so the
// loop calls it once per step.
//
// A step may take as long as the most urgent class with decoding sequences allows. What goes in, in this order:
//
//  1. decoding sequences: all of the most urgent class that wants anything; of the others those that are due within their own
//     targets, while there is room, and one in every eighth or ninth step in any case;
//  2. some prompt tokens of the most urgent class with prompts, and in every eighth or ninth step of the others;
//  3. class by class, the rest of the decoding sequences and then prompt tokens, while there is room: so a newcomer's first token goes
//     before the tokens of less urgent classes that are not due, and after all that are;
//  4. drafts, when no prompt waits: in free rows, and beyond while a draft brings more tokens per second than the step does anyway.
//
// While prompts of tenants that are behind wait, every other step is planned without the sequences of tenants that are ahead and without
// the other prompts, those of more urgent classes excepted. So beside one tenant that asks for much, another one's prompt of some steps
// takes less than twice the time that it takes on an idle machine; until then the former has a token in three targets' time instead of one.
func (c *Controller) Plan(d Demand) Decision {
	p := planner{c: c, d: d, full: d, k: c.fit.coefficients()}
	c.setTarget(p.positions())
	p.yield()
	p.begin()
	if p.urgent < Classes {
		p.dueSequences()
		p.minimumPrompt()
		p.out.Reason = ReasonAll
		if p.spent > p.budget {
			p.out.Reason = ReasonFloor
		}
		p.fill()
		p.drafts()
	}
	out := p.finish()
	c.state.demand, c.state.decision = d, out
	return out
}

// planner is one call of Plan. Times are microseconds.
type planner struct {
	c       *Controller
	d       Demand // that counts in this step
	full    Demand
	k       Coefficients
	urgent  int     // most urgent class that wants anything, or Classes
	budget  float64 // what the step may take
	spent   float64
	chunk   int     // prompt tokens that still may go in
	limited bool    // the budget is what other models leave
	longest bool    // the budget is that for newcomers, not that of a decoding class
	context float64 // positions
	out     Decision
}

// yield leaves out, in every other step, who has to stand back for tenants that are behind. A few tokens are not worth a step of their own.
func (p *planner) yield() {
	class, ahead := 0, 0
	for class < Classes && p.d.Classes[class].Behind <= p.c.cfg.MinPrefill {
		class++
	}
	for i := class; i < Classes; i++ {
		ahead += p.d.Classes[i].Ahead
	}
	if ahead == 0 || p.c.state.decision.Yield {
		return
	}
	p.out.Yield, p.out.YieldClass = true, class
	for i := class; i < Classes; i++ {
		q := &p.d.Classes[i]
		q.Context = q.Context * (q.Decoding - q.Ahead) / max(q.Decoding, 1)
		q.PrefillContext = q.PrefillContext * q.Behind / max(q.Prefill, 1)
		q.Decoding, q.Prefill, q.Waiting, q.Drafts = q.Decoding-q.Ahead, q.Behind, 0, 0
	}
}

// positions returns those that a sequence attends to in the class where they are most.
func (p *planner) positions() float64 {
	var most float64
	for i := range Classes {
		most = max(most, p.decodeContext(i))
	}
	return most
}

func (p *planner) decodeContext(class int) float64 {
	q := p.d.Classes[class]
	return float64(q.Context) / float64(max(q.Decoding, 1))
}

func (p *planner) prefillContext(class int) float64 {
	q := p.d.Classes[class]
	return float64(q.PrefillContext) / float64(max(q.Prefill, 1))
}

func (p *planner) decodeCost(class int) float64 {
	return p.k.Decode + p.k.Context*p.decodeContext(class)
}

func (p *planner) prefillCost(class int) float64 {
	return p.k.Prefill + p.k.Context*p.prefillContext(class)
}

// begin finds what bounds the step.
func (p *planner) begin() {
	decodes, waits := Classes, Classes
	for i := Classes - 1; i >= 0; i-- {
		if p.d.Classes[i].Decoding > 0 {
			decodes = i
		}
		if p.d.Classes[i].Prefill > 0 || p.d.Classes[i].Waiting > 0 {
			waits = i
		}
	}
	p.urgent = Classes
	for i := Classes - 1; i >= 0; i-- {
		if p.d.Classes[i].Decoding > 0 || p.d.Classes[i].Prefill > 0 {
			p.urgent = i
		}
	}
	if p.urgent == Classes {
		p.out.Reason = ReasonIdle
		return
	}
	p.chunk, p.spent = p.c.cfg.PromptRows, p.k.Step
	longest := func(class int) float64 {
		if p.out.Yield { // others decode, though not in this step: with the next one they wait for three targets
			return p.c.within(class, p.d.Beside) * yieldBudgetFactor
		}
		return p.c.budget(class, p.d.Beside) * prefillBudgetFactor
	}
	p.budget = longest(p.urgent)
	p.out.Target, p.longest = p.urgent, true
	if waits < Classes {
		if b := longest(waits); b < p.budget {
			p.budget, p.out.Target = b, waits
		}
	}
	if decodes < Classes {
		if b := p.c.budget(decodes, p.d.Beside); b < p.budget {
			p.budget, p.out.Target, p.longest = b, decodes, false
		}
	}
	if limit := float64(p.d.Limit) / float64(time.Microsecond); limit > 0 && limit < p.budget {
		p.budget, p.longest, p.limited = limit, false, true
	}
	p.out.Budget = microseconds(p.budget)
}

// decode adds n sequences of a class.
func (p *planner) decode(class, n int) {
	p.out.Classes[class].Decode += n
	p.spent += float64(n) * p.decodeCost(class)
	p.context += float64(n) * p.decodeContext(class)
}

// prefill adds n prompt tokens of a class.
func (p *planner) prefill(class, n int) {
	p.out.Classes[class].Prefill += n
	p.chunk -= n
	p.spent += float64(n) * p.prefillCost(class)
	p.context += float64(n) * p.prefillContext(class)
}

// room returns how many of a cost fit, at most n.
func (p *planner) room(n int, cost float64) int {
	if left := p.budget - p.spent; left < float64(n)*cost {
		return max(0, int(left/cost))
	}
	return n
}

// dueSequences adds the decoding sequences that must not wait.
func (p *planner) dueSequences() {
	for i := range Classes {
		k, n, all := &p.c.classes[i], p.d.Classes[i].Decoding, float64(p.full.Classes[i].Decoding)
		k.owed = min(k.owed+all*p.c.share(i, float64(p.c.took)/float64(time.Microsecond)), all)
		switch {
		case n == 0:
		case i == p.urgent && p.limited: // the sequences of another model wait for the step
			p.decode(i, max(1, p.room(n, p.decodeCost(i))))
		case i == p.urgent:
			p.decode(i, n)
		default:
			take := p.room(min(int(k.owed), n), p.decodeCost(i))
			if take == 0 && k.skipped+1 >= starvationLimit {
				take = 1
			}
			p.decode(i, take)
		}
	}
}

// minimumPrompt adds the prompt tokens without which somebody would starve.
func (p *planner) minimumPrompt() {
	first := true
	for i := range Classes {
		n := p.d.Classes[i].Prefill
		if n == 0 {
			continue
		}
		if first || p.c.classes[i].held+1 >= starvationLimit {
			p.prefill(i, min(n, p.c.cfg.MinPrefill, p.chunk))
		}
		first = false
	}
}

// fill spends what is left of the budget.
func (p *planner) fill() {
	for i := range Classes {
		q, got := p.d.Classes[i], &p.out.Classes[i]
		p.decode(i, p.room(q.Decoding-got.Decode, p.decodeCost(i)))
		p.prefill(i, p.room(min(q.Prefill-got.Prefill, p.chunk), p.prefillCost(i)))
	}
}

// drafts adds guessed tokens.
func (p *planner) drafts() {
	rows, decoding := 0, 0
	for i, q := range p.d.Classes {
		if q.Prefill > 0 {
			return
		}
		decoding += p.out.Classes[i].Decode
		rows = decoding
	}
	spent := p.spent
	for i, q := range p.d.Classes {
		if p.out.Classes[i].Decode == 0 {
			continue
		}
		cost := p.k.Prefill + p.k.Context*p.decodeContext(i)
		n := p.room(q.Drafts, cost)
		if p.d.Acceptance*spent <= cost*float64(decoding) {
			n = min(n, max(0, p.c.cfg.FreeRows-rows))
		}
		p.out.Classes[i].Drafts = n
		p.spent += float64(n) * cost
		p.context += float64(n) * p.decodeContext(i)
		rows += n
	}
}

// finish sums up, and remembers who was left out.
func (p *planner) finish() Decision {
	out, left, skipped := &p.out, 0, 0
	for i, q := range p.full.Classes {
		k, got := &p.c.classes[i], out.Classes[i]
		before := *k
		k.owed = max(0, k.owed-float64(got.Decode))
		k.skipped = count(k.skipped, q.Decoding, got.Decode)
		k.held = count(k.held, q.Prefill, got.Prefill)
		if out.Yield && i >= out.YieldClass { // what the others got is nothing for those who yielded
			k.skipped = max(k.skipped, count(before.skipped, q.Ahead, 0))
			k.held = max(k.held, count(before.held, q.Prefill-q.Behind, 0))
		}
		left += q.Prefill - got.Prefill
		skipped += q.Decoding - got.Decode
		out.Load.Decode += got.Decode
		out.Load.Prefill += got.Prefill
		out.Load.Drafts += got.Drafts
		out.Load.Sequences += got.Decode
	}
	if out.Reason == ReasonIdle {
		return *out
	}
	out.Load.Context = int(p.context)
	out.Mean, out.P99 = p.c.Predict(out.Load)
	switch {
	case out.Reason == ReasonFloor:
	case out.Yield:
		out.Reason = ReasonYield
	case skipped > 0:
		out.Reason = ReasonSkip
	case left > 0 && (p.longest || p.chunk == 0):
		out.Reason = ReasonChunk
	case left > 0:
		out.Reason = ReasonTarget
	}
	return *out
}

// count returns for how many steps something has been wanted and not got.
func count(before, wanted, got int) int {
	if wanted == 0 || got > 0 {
		return 0
	}
	return before + 1
}
