package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/answercache"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/internal/fault"
)

// This page is step 5, cache. It is taken where an engine would be asked, behind the record of the admission: the key has all that the steps between have
// made, and who gets a kept answer is authenticated, limited, judged, masked, reserved for and recorded like everybody. What is shared is what the
// engine says. Values are put back, rules applied, the label written, the answer signed, registered and billed for each caller by himself.

// cacheBypass is the state of a call whose answer is not shared though the policy says that answers are; the reason goes with it.
const cacheBypass = "bypass"

// The reasons for it.
const (
	bypassSampled   = "sampled"   // the answer is drawn at random
	bypassWatermark = "watermark" // it bears a mark, by which it would be taken for the answer of another call
	bypassHook      = "hook"      // something in this process takes part in it
	bypassRollout   = "rollout"   // arms are compared by what their engines do
)

// sharedAt is where an answer is made that calls share.
type sharedAt struct {
	route.Choice

	work *sharedWork // nil of an answer that is kept
}

// sharedWork is what became of the engine call behind it.
type sharedWork struct {
	attempts []attempt     // that failed; there before the first event
	energy   energy.Figure // there before the last event
}

// shareAnswer joins the answer of equal calls, if the policy has them share one.
func (r *run) shareAnswer() {
	rule := r.admission.decision.Caching()
	if !rule.On || r.prompt.verdict.unasked() { // which no engine has said, and is judged for each caller
		return
	}
	if why := r.unshared(rule); why != "" {
		r.answer.bypass(why)
		return
	}
	r.answer.join(r.p.answers.Join(r.caller.Tenant, r.answerKey(), r.call.RequestID, answercache.Terms{
		Keep: rule.Keep, TTL: rule.TTL, Stale: rule.Stale, TenantBytes: rule.Bytes, Generation: r.admission.generation,
		Failed: func(err error) bool { return outcomeOf(err) == outcomeFailed },
	}))
}

// unshared returns why the answer is not shared: only one that is a function of the request is, unless the policy says more.
func (r *run) unshared(rule governance.Caching) string {
	q := r.prompt.text.Request
	switch {
	case q.Hook != nil:
		return bypassHook
	case q.Watermark != nil && q.Watermark.Key != "":
		return bypassWatermark
	case r.choice.Rollout != "":
		return bypassRollout
	case q.Temperature == 0 || q.Seed != nil && r.choice.Info.Deterministic || rule.Sampled:
		return ""
	default:
		return bypassSampled
	}
}

// sharedAnswer returns the events of the answer that the call shares; nil if it shares none.
func (r *run) sharedAnswer(ctx context.Context) iter.Seq2[engine.Event, error] {
	s := r.answer.shared
	if s == nil {
		return nil
	}
	if state, _ := s.State(); state == answercache.Miss {
		r.answer.ask(r.p.now(), int(r.p.running.Load())+1)
	}
	events := s.Events(ctx, r.alone())
	return func(yield func(engine.Event, error) bool) {
		placed := false
		for ev, err := range events {
			if !placed {
				var at sharedAt
				if at, placed = s.At(); placed {
					r.answer.move(at.Choice, r.answer.tried)
				}
			}
			if err == nil && !ev.Empty() {
				r.answer.engineBegan()
			}
			if errors.Is(err, answercache.ErrLagging) {
				err = fault.Wrap(err, fault.CodeReadTooSlowly)
			}
			if !s.Leads() {
				ev.Usage, ev.Used = unworked(ev.Usage), unworked(ev.Used)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// unworked is the usage of an answer for which no engine has worked on this account: the whole prompt was spared.
func unworked(u *engine.Usage) *engine.Usage {
	if u == nil {
		return nil
	}
	out := *u
	out.CachedTokens, out.Queue, out.Prefill, out.Decode = out.PromptTokens, 0, 0, 0
	return &out
}

// alone returns what asks an engine for all who share the answer, whoever of them stays: a run that has of this one what an engine is asked with, and that
// nobody else uses. The engine is not told of the time that the caller has: the others have theirs.
//
// Its work has a name of its own, by which engines log it and meters count it: it goes on when this call has ended, and no call's energy ends with another's.
// It is ended here, whoever stays, and before anybody sees the end of the answer.
func (r *run) alone() answercache.Source[sharedAt] {
	call := r.call
	call.RequestID += "." + partShared
	given, request, text := r.prompt, *r.prompt.text.Request, *r.prompt.text
	request.ID, request.Deadline, text.Request, given.text = call.RequestID, time.Time{}, &request, &text
	asks := &run{
		p: r.p, need: r.need, call: call, caller: r.caller, admission: r.admission, choice: r.choice, masked: r.masked, prompt: given, steps: r.steps,
		sources: sources{embedding: r.sources.embedding},
	}
	serving, tried, attempts := r.answer.serving, slices.Clone(r.answer.tried), slices.Clip(slices.Clone(r.answer.attempts))
	model := string(call.Model)
	return func(ctx context.Context) (iter.Seq2[engine.Event, error], func() (place, kept sharedAt, asFor bool)) {
		work := &sharedWork{}
		asks.answer.startFrom(serving, tried, attempts)
		events := func(yield func(engine.Event, error) bool) {
			defer asks.markRunning()()
			defer r.p.deps.Energy.Abandon(call.RequestID) // what nobody waits for any more, or a panic unwinds
			for ev, err := range asks.generate(ctx) {
				ends := err != nil || ev.Usage != nil
				if ends {
					work.energy = asks.drew(ctx)
				}
				if !yield(ev, err) || ends {
					return
				}
			}
			work.energy = asks.drew(ctx)
			yield(engine.Event{}, fault.Wrap(errors.New("the engine's stream ended without usage"), fault.CodeEngineUnavailable, model))
		}
		at := func() (place, kept sharedAt, asFor bool) { // without what it was asked for, which has the texts of the call
			c := asks.serving()
			kept.Choice = route.Choice{Version: c.Version, Instance: c.Instance, Info: c.Info}
			work.attempts = slices.Clone(asks.answer.attempts[len(attempts):]) // there are no more of them, once one has begun
			return sharedAt{kept.Choice, work}, kept, c.Version == asks.choice.Version && c.Info == asks.choice.Info
		}
		return events, at
	}
}

// drew ends the engine's work for all who share an answer, and returns what meters say of it; nothing if another machine has answered, or nobody waits.
func (r *run) drew(ctx context.Context) energy.Figure {
	if !r.serving().Info.Local || ctx.Err() != nil {
		return energy.Figure{}
	}
	return r.p.deps.Energy.End(r.call.RequestID, 0, 1) // what is declared, each who leads has by his own time
}

// leaveShared ends the call's share in an answer, and notes what of the engine's work is on its account.
func (r *run) leaveShared() {
	if s := r.answer.shared; s != nil {
		left := s.Leave()
		at, _ := s.At()
		r.answer.leave(left, at.work, r.promptTokens())
	}
}

// cacheState says how the answer came, for which request it was made, and why it is not shared; "" where the policy has none shared.
func (r *run) cacheState() (state, origin, why string) {
	switch {
	case r.answer.bypassed != "":
		return cacheBypass, "", r.answer.bypassed
	case r.answer.shared != nil:
		s, origin := r.answer.shared.State()
		return string(s), origin, ""
	default:
		return "", "", ""
	}
}

// noteCache tells the record of an outcome.
func (r *run) noteCache(detail map[string]string) {
	state, origin, why := r.cacheState()
	if state == "" {
		return
	}
	detail["cache"] = state
	if why != "" {
		detail["cache_bypass"] = why
	}
	if origin != "" && origin != r.call.RequestID {
		detail["cache_origin"] = origin
	}
}

// ForgetAnswers drops what is kept of a tenant's answers in this process.
func (p *Pipeline) ForgetAnswers(tenant string) { p.answers.Drop(tenant) }

// join notes which answer the call shares.
func (a *answer) join(s *answercache.Share[sharedAt]) { a.shared = s }

// bypass notes why it shares none.
func (a *answer) bypass(why string) { a.bypassed = why }

// leave notes what the call has had of the shared answer. Whoever led it pays for what the engine has done until now, however little of it he has read.
// What meters say is known of the whole alone, and is his who leads at its end. work is nil where nobody knows of any.
func (a *answer) leave(left answercache.Left, work *sharedWork, promptTokens int) {
	if !left.Led {
		a.unworked = true
		return
	}
	if work != nil {
		a.attempts = append(a.attempts, work.attempts...)
	}
	if work != nil && left.Ended {
		a.drew = work.energy
	}
	if a.askedAt.IsZero() && !left.Since.IsZero() { // another one has had the engine asked, or has failed
		a.askedAt, a.tookOver = left.Since, true
	}
	if !a.askedAt.IsZero() {
		a.work(left.Until.Sub(a.askedAt))
	}
	switch {
	case a.usage != nil || left.Output == 0:
	case left.Usage != nil:
		a.usage = left.Usage
	default:
		a.usage = &engine.Usage{PromptTokens: promptTokens, CompletionTokens: left.Output, Estimated: true}
	}
}
