package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// The outcomes of a call.
const (
	outcomeOK      = "ok"
	outcomeRefused = "refused" // a rule said no
	outcomeFailed  = "failed"  // an engine or a part of ours broke; rollouts count these
	outcomeAborted = "aborted" // the caller left

	outcomeUnauthenticated = "unauthenticated" // in metrics only
)

const (
	decisionAllow  = "allow"
	decisionRefuse = "refuse"
)

// ErrStopping is the cause of a caller's context that ends because this process does: its requests are cut, and nobody has left. Records of them say so, in
// detail cut, beside the outcome aborted: what was generated until then is billed as ever, and says nothing of the model.
var ErrStopping = errors.New("the server stops")

// statusClientGone is what proxies log for a caller who left; nobody receives it.
const statusClientGone = 499

// ending says how a run ended; zero, that a panic unwinds it.
type ending struct {
	outcome string
	err     error
}

// orPanic fills the ending of a run that a panic unwinds.
func (e ending) orPanic() ending {
	if e.outcome == "" {
		return endingOf(fault.Wrap(errors.New("panic"), fault.CodeInternal))
	}
	return e
}

func endingOf(err error) ending { return ending{outcome: outcomeOf(err), err: err} }

// outcomeOf tells the caller's end, a rule's no and a breakdown apart. What is unavailable before an engine is involved, such as
// the budget, is a refusal: it says nothing about the model.
func outcomeOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return outcomeAborted
	}
	var clock *timeoutError
	if errors.As(err, &clock) && clock.byCaller || errors.Is(err, engine.ErrCallerLimit) { // it says nothing about the model
		return outcomeRefused
	}
	p := fault.Public(err)
	engines := []fault.Code{fault.CodeEngineUnavailable, fault.CodeEngineOverloaded, fault.CodeUpstreamFailed}
	if slices.Contains(engines, p.Code()) || p.Kind() == fault.Internal || p.Kind() == fault.Timeout {
		return outcomeFailed
	}
	return outcomeRefused
}

// failed turns what stopped a step or an engine into the error of the call: the caller's departure and our clocks are told apart from a
// failure.
func (r *run) failed(caller, bounded context.Context, err error) error {
	var clock *timeoutError
	switch {
	case caller.Err() != nil:
		return fmt.Errorf("the caller left: %w", context.Canceled)
	case errors.As(context.Cause(bounded), &clock):
		return fault.Wrap(clock, clock.code, clock.after.String()) // not err, which says that somebody has cancelled
	default:
		return r.nameCallerField(err)
	}
}

// formatField is what engines call the format of an answer.
const formatField = "response_format"

// nameCallerField names the field that the caller sent where an engine blames the format: only the dialect knows its several names.
func (r *run) nameCallerField(err error) error {
	var coded *fault.Error
	if !errors.As(err, &coded) || coded.Param() != formatField || r.call.FormatField == "" {
		return err
	}
	return coded.About(r.call.FormatField)
}

// refuse ends a run that did not reach the engine, and returns the error for the edge. If the refusal itself cannot be recorded,
// that is the error.
func (r *run) refuse(caller context.Context, err error) error {
	if caller.Err() != nil {
		err = fmt.Errorf("the caller left: %w", context.Canceled)
	}
	if !errors.Is(err, context.Canceled) {
		r.p.metrics.refusals.WithLabelValues(string(fault.Public(err).Code())).Inc()
	}
	if !r.caller.known {
		r.p.metrics.requests.WithLabelValues(string(r.call.Action), outcomeUnauthenticated).Inc()
		return &Refusal{err: err}
	}
	r.finish(caller, endingOf(err))
	if r.outcome.recordErr != nil {
		err = fmt.Errorf("%w (while refusing: %s)", auditUnavailable(r.outcome.recordErr), fault.Public(err).Code())
	}
	return &Refusal{Receipt: r.outcome.record, Rate: r.rate(), err: err}
}

// refusal is the error of a call that failed at the engine.
func (r *run) refusal(err error) error {
	return &Refusal{Receipt: r.receipt.id, Rate: r.rate(), err: err}
}

// finish ends the call: it settles, gives back what the run holds and writes the outcome record, once, on a context that the
// caller's departure does not end. A record that cannot be written undoes nothing, since the answer may be out already: it is
// logged and counted, the verifier lists the admitted record without an outcome, and the usage stays unbooked. Only a refusal turns
// it into its own error. Where the policy has answers first, the record of an answer becomes durable while the answer leaves.
func (r *run) finish(caller context.Context, end ending) {
	r.once.Do(func() {
		end = end.orPanic()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), r.p.cfg.SettleTimeout)
		defer cancel()
		r.leaveShared()
		if r.answer.out != nil {
			r.outcome.tally = r.answer.out.Tally()
			if r.outcome.tally.Events += r.answer.grounding.kept(); r.prompt.verdict.unasked() { // which no engine has said
				r.outcome.tally.Events = 0
			}
		}
		u, priceBook := r.settle(end)
		if r.slot.ticket != nil {
			r.slot.ticket.Release(ctx, int(u.PromptTokens+u.CompletionTokens))
		}
		found := r.findings()
		e, subject, texts := r.outcomeEvent(end, u, priceBook, found), r.admission.subject, append(r.recordedAnswer(), r.registeredMark()...)
		if end.outcome == outcomeAborted && errors.Is(context.Cause(caller), ErrStopping) {
			e.Detail["cut"] = "stopping"
		}
		signed := ""
		if end.outcome == outcomeOK && r.receipt.signing != nil {
			signed = r.sign(&e)
		}
		if end.outcome == outcomeOK && r.respondBeforeRecord() {
			r.p.writeBehind(caller, e, r.receipt.id, subject, texts...)
		} else {
			var got audit.Receipt
			if got, r.outcome.recordErr = r.p.write(ctx, e, r.receipt.id, subject, texts...); got.Kept() {
				r.outcome.record = got.ID
			}
		}
		r.observe(end, u)
		r.outcome.mu.Lock()
		r.outcome.summary = Summary{Usage: u, Energy: r.outcome.energy, Findings: found, LogprobsWithheld: r.outcome.tally.Withheld, Outcome: end.outcome, Replay: e.Model.Replay, Signature: signed, Watermark: r.answer.marking, Evidence: r.shownEvidence(end)}
		r.outcome.summary.Cache, _, _ = r.cacheState()
		r.outcome.mu.Unlock()
	})
}

// outcomeEvent is the outcome record of the run.
func (r *run) outcomeEvent(end ending, u audit.Usage, priceBook string, found []Finding) audit.Event {
	e := r.event(audit.StageOutcome, found)
	e.Outcome, e.Usage, e.PriceBook = end.outcome, u, priceBook
	e.Decision = decisionAllow
	if end.outcome == outcomeRefused || end.outcome == outcomeOK && r.emptied() {
		e.Decision = decisionRefuse
	}
	e.Rollout, e.Arm = r.arm(end.outcome)
	switch {
	case end.outcome == outcomeAborted:
		e.Status = statusClientGone
	case end.err != nil:
		p := fault.Public(end.err)
		e.ErrorKind, e.ErrorCode, e.Status = p.Kind().String(), string(p.Code()), p.Kind().Status()
		if errors.Is(end.err, engine.ErrCallerLimit) { // whose status says that there is no room
			e.Detail["limit"] = "caller"
		}
	default:
		e.Status = 200
	}
	return e
}

// arm is the arm of a rollout for which a record of the call counts; outcome is "" before the end. One says something of an arm if an engine was asked, if
// the model or its engine cannot do what is asked, or if something broke. What a rule of ours says before the model, and who leaves there, says nothing of it:
// both arms would seem to fail less. Nor does a fallback, whose times are those of another model, too.
func (r *run) arm(outcome string) (rollout, arm string) {
	asked := !r.answer.askedAt.IsZero() || r.answer.declined
	if r.call.fallback.answersFor() || r.prompt.verdict.unasked() || !asked && (outcome == outcomeRefused || outcome == outcomeAborted) {
		return "", ""
	}
	return r.choice.Rollout, r.choice.Arm
}

// write appends a record of a call that has ended, and tells the operator of one that is lost.
func (p *Pipeline) write(ctx context.Context, e audit.Event, receipt, subject string, texts ...audit.Text) (audit.Receipt, error) {
	got, err := p.deps.Audit.AppendWith(ctx, e, subject, texts...)
	if err != nil {
		p.reportUnrecorded(e, receipt, err)
	}
	return got, err
}

func (p *Pipeline) reportUnrecorded(e audit.Event, receipt string, err error) {
	p.metrics.unrecorded.Inc()
	p.deps.Log.Error("outcome not recorded", slog.String("request", e.Request), slog.String("receipt", receipt),
		slog.String("outcome", e.Outcome), slog.Any("error", err))
}

// writeBehind writes the record of an answer while the answer leaves. It holds nothing of the run, which has the texts of the call.
func (p *Pipeline) writeBehind(caller context.Context, e audit.Event, receipt, subject string, texts ...audit.Text) {
	p.writeDetached(caller, e, func(ctx context.Context) {
		_, _ = p.write(ctx, e, receipt, subject, texts...) // it has said what there is to say
	})
}

// writeDetached writes records of a call that nobody waits for but Drain. A panic there ends no other call.
func (p *Pipeline) writeDetached(caller context.Context, e audit.Event, write func(context.Context)) {
	p.detached.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				p.reportUnrecorded(e, "", fmt.Errorf("the log panicked with a %T", v))
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), p.cfg.SettleTimeout)
		defer cancel()
		write(ctx)
	})
}

const (
	// tokensPerSecond is how fast a server is taken to write an answer that was to come in one piece and that nobody waited for.
	tokensPerSecond = 50
	// bytesPerToken makes tokens of texts where nobody has counted them.
	bytesPerToken = 4
)

// settle counts and prices. What the engine did not report is counted here: one token per event with text, the prompt as the
// engine counted it. A failure of ours costs the caller nothing; a caller who leaves, or an answer that a rule stops, costs what
// was generated until then. How far an answer was that was to come in one piece, nobody knows: who leaves before it has come pays for the
// prompt and for as many tokens as tokensPerSecond makes of the time, at most what he allowed.
func (r *run) settle(end ending) (u audit.Usage, priceBook string) {
	switch {
	case r.answer.usage != nil:
		u.PromptTokens, u.CachedTokens = int64(r.answer.usage.PromptTokens), int64(r.answer.usage.CachedTokens)
		u.CompletionTokens, u.Estimated = int64(r.answer.usage.CompletionTokens), r.answer.usage.Estimated
	case r.outcome.tally.Events > 0:
		u.PromptTokens, u.CompletionTokens, u.Estimated = int64(r.promptTokens()), int64(r.outcome.tally.Events), true
	case end.outcome == outcomeAborted && !r.answer.askedAt.IsZero() && !r.answer.notReached && r.nonStreaming():
		written := min(tokensPerSecond*r.p.now().Sub(r.answer.askedAt).Seconds(), float64(r.prompt.maxCompletion()))
		u.PromptTokens, u.CompletionTokens, u.Estimated = int64(r.promptTokens()), int64(written), true
	}
	if r.answer.unworked { // an answer that is given again costs its prompt, as one that a prefix cache has served
		u.CachedTokens, u.CompletionTokens = u.PromptTokens, 0
	}
	if r.prompt.reservation != nil {
		if used := u.PromptTokens+u.CompletionTokens > 0; used && end.outcome != outcomeFailed {
			c := r.prompt.reservation.Settle(billing.Tokens{Prompt: u.PromptTokens, Cached: u.CachedTokens, Completion: u.CompletionTokens})
			u.Cost, u.Currency = int64(c.Cost), c.Currency
			priceBook = c.PriceBook
		} else {
			r.prompt.reservation.Release()
		}
	}
	switch {
	case r.answer.askedAt.IsZero():
	case r.answer.drew.Meter != "":
		r.outcome.energy = r.answer.drew
	case r.serving().Info.Local: // of a shared answer that a meter has measured, nothing is known of a part
		r.outcome.energy = r.p.deps.Energy.End(r.call.RequestID, r.engineTime(), max(r.answer.peak, int(r.p.running.Load())))
	default: // nobody knows what another machine takes
		r.p.deps.Energy.Abandon(r.call.RequestID)
	}
	u.Energy, u.EnergyMethod = r.outcome.energy.Microjoules, string(r.outcome.energy.Method)
	return u, priceBook
}

// promptTokens is the number of tokens of the prompt, as far as it is known.
func (r *run) promptTokens() int {
	if r.prompt.exact {
		return r.prompt.tokens
	}
	given := *r.masked.call
	if req := r.prompt.request(); req != nil {
		given.Messages = req.Messages // with the passages
	}
	return min(r.prompt.tokens, given.size()/bytesPerToken+4*len(given.Messages)+1)
}

// nonStreaming reports whether the engine sends the answer in one piece.
func (r *run) nonStreaming() bool {
	req := r.prompt.request()
	return req != nil && req.NonStreaming && r.serving().Info.NonStreaming
}

// engineTime is how long an engine worked on the run: what it says, else the time that it was asked for, else that since it was asked.
func (r *run) engineTime() time.Duration {
	if r.answer.usage != nil && !r.answer.tookOver && r.answer.usage.Prefill+r.answer.usage.Decode > 0 {
		return r.answer.usage.Prefill + r.answer.usage.Decode
	}
	if r.answer.engineTime > 0 {
		return r.answer.engineTime
	}
	return r.p.now().Sub(r.answer.askedAt)
}

// observe counts the run, and logs what broke.
func (r *run) observe(end ending, u audit.Usage) {
	if end.outcome == outcomeFailed {
		r.p.deps.Log.Error("request failed", slog.String("request", r.call.RequestID), slog.String("tenant", r.caller.Tenant),
			slog.Any("error", end.err))
	}
	m, action := r.p.metrics, string(r.call.Action)
	m.requests.WithLabelValues(action, end.outcome).Inc()
	if !r.answer.unworked { // shared answers would hide a slow engine
		m.duration.WithLabelValues(action).Observe(r.p.now().Sub(r.call.Received).Seconds())
		if r.answer.firstToken > 0 {
			m.firstToken.Observe(r.answer.firstToken.Seconds())
		}
	}
	m.promptTokens.Add(float64(u.PromptTokens - u.CachedTokens))
	m.cachedTokens.Add(float64(u.CachedTokens))
	m.completionTokens.Add(float64(u.CompletionTokens))
	if state, _, why := r.cacheState(); state != "" {
		m.cache.WithLabelValues(state, why).Inc()
	}
	if mark := r.answer.marking; mark != nil {
		m.watermarks.WithLabelValues(cmp.Or(string(mark.Reason), "applied")).Inc()
	}
	if end.outcome == outcomeOK {
		m.countVerdict(r.evidence())
	}
}

// event is everything known about the run at this moment, with what the policy found, as an audit record. Its session, and whom it is for, are digests: what callers
// name their conversations and people by may be somebody's number. Safety stays empty until something here makes it.
func (r *run) event(stage audit.Stage, found []Finding) audit.Event {
	v := r.serving().Version
	e := audit.Event{
		Request: r.call.RequestID, Stage: stage, Tenant: r.caller.Tenant, Project: r.caller.Project,
		Actor:   audit.Actor{Kind: r.caller.Kind, ID: r.caller.ID, Name: r.caller.Name, OnBehalfOf: r.caller.onBehalfOf},
		Session: r.admission.conversation, Source: r.call.Source, Action: string(r.call.Action), Route: r.call.Route, Dialect: r.call.Dialect,
		Model: audit.Model{
			Asked: recordedModel(string(r.asked()), v.Model != ""), Routed: string(v.EngineModel), Version: v.Version, Digest: v.Digest, Precision: v.Precision,
			Template: r.serving().Info.Template, Engine: v.Engine, Adapter: r.serving().Info.Adapter,
		},
		Steps:  r.steps,
		Policy: r.admission.policy.Version, PolicyDigest: r.admission.policy.Digest,
		PromptDigest: cmp.Or(r.decoded.digest, r.admission.promptDigest),
		Latency:      audit.Latency{Admit: r.receipt.after.Microseconds()},
	}
	if r.receipt.label != (label.Label{}) {
		e.Label, e.LabelKey = r.receipt.labelText, r.receipt.labelKey
	}
	if version := r.serving().Info.EngineVersion; version != "" {
		e.Model.Engine += "/" + version
	}
	e.Rollout, e.Arm = r.arm("")
	e.Detail = map[string]string{}
	if i := r.serving().Instance; i != nil && i.Name != v.Engine {
		e.Detail["instance"] = i.Name
	}
	if class := r.class(); class != "" {
		e.Detail["class"] = string(class)
	}
	r.notePlace(stage, e.Detail)
	if r.call.ClientID != "" {
		e.Detail["client_request"] = r.call.ClientID
	}
	if r.admission.policy.Purpose != "" {
		e.Detail["purpose"] = r.admission.policy.Purpose
	}
	if r.call.RAG != nil && !r.call.RAG.AsOf.IsZero() {
		e.Detail["as_of"] = r.call.RAG.AsOf.UTC().Format(time.RFC3339Nano)
	}
	if r.call.parent != "" {
		e.Detail["parent"] = r.call.parent
	}
	if f := r.call.fallback; f.answersFor() {
		e.Detail["fallback_of"], e.Detail["fallback_from"], e.Detail["fallback_cause"] = f.of, recordedModel(string(f.from), true), string(f.cause)
	}
	if r.call.Batch != "" {
		e.Detail["batch"] = r.call.Batch // package reconcile goes by it
	}
	r.noteVerdict(&e)
	e.Resource = cmp.Or(r.call.Resource, r.call.collection())
	passages, _ := r.citedPassages()
	for _, p := range passages {
		e.Documents = append(e.Documents, fmt.Sprintf("%s/%s@%s#%d", p.Collection, p.DocumentID, p.Version, p.Chunk))
	}
	if len(found) > 0 {
		e.Findings = make([]audit.Finding, len(found))
	}
	for i, f := range found {
		e.Findings[i] = f.Finding
	}
	if stage != audit.StageOutcome {
		if !r.prompt.verdict.unasked() {
			r.admission.visible.noteAdmitted(e.Detail)
		}
		return e
	}
	if !r.ours() { // of which nothing is generated, and nothing needs a label
		r.admission.visible.noteOutcome(e.Detail, r.outcome.tally)
	}
	if text := r.answer.attemptsText(); text != "" {
		e.Detail["attempts"] = text
	}
	if r.answer.usage != nil {
		e.Model.Reported, e.Model.Replay = recordedModel(string(r.answer.usage.Model), false), r.answer.usage.Replay
		e.Latency.Queue = r.answer.usage.Queue.Microseconds()
		e.Steps.Prefill, e.Steps.Decode = r.answer.usage.Prefill.Microseconds(), r.answer.usage.Decode.Microseconds()
	}
	r.recordMark(&e)
	noteEnergy(e.Detail, r.outcome.energy)
	r.noteCache(e.Detail)
	e.Latency.FirstToken = r.answer.firstToken.Microseconds()
	// Time less Total is the admission time to the microsecond: the usage row of this record is filed under it, in the budget
	// period that the reservation was taken from.
	e.Time = r.p.now().UnixMicro()
	e.Latency.Total = e.Time - r.call.Received.UnixMicro()
	e.AnswerDigest = r.answerDigest()
	if r.outcome.tally.Withheld {
		e.Detail["logprobs"] = "withheld"
	}
	return e
}

// noteEnergy says how the figure of a metered request came about.
func noteEnergy(detail map[string]string, f energy.Figure) {
	if f.Meter == "" {
		return
	}
	detail["energy_meter"], detail["energy_idle"] = f.Meter, string(f.Idle)
	detail["energy_uncertainty_permille"], detail["energy_window_ms"] = strconv.Itoa(f.Uncertainty), strconv.FormatInt(f.Window.Milliseconds(), 10)
}

// recordMark says by which key the answer is marked. Of one that broke off nobody said so: the key that its engine was given is noted, since what has left
// of it may be marked.
func (r *run) recordMark(e *audit.Event) {
	req := r.prompt.request()
	switch m := r.answer.marking; {
	case m != nil && m.Applied:
		e.Watermark = m.Key
	case m == nil && req != nil && req.Watermark != nil && req.Watermark.Key != "" && r.serving().Info.HasMarks && !r.answer.askedAt.IsZero():
		e.Detail["watermark_key"] = req.Watermark.Key
	}
}

// findings are what the policy found so far.
func (r *run) findings() []Finding {
	if r.admission.decision == nil {
		return nil
	}
	return findingsOf(r.admission.decision.Findings())
}

// findingsOf are findings as records and replies have them; nil if there are none.
func findingsOf(all []governance.Finding) []Finding {
	if len(all) == 0 {
		return nil
	}
	out := make([]Finding, 0, len(all))
	for _, f := range all {
		out = append(out, Finding{audit.Finding{Direction: f.Direction, Class: f.Class, Detector: f.Detector, Action: f.Action, Count: f.Count}, f.Restored})
	}
	return out
}

func (r *run) head() Head {
	var class engine.Class
	if r.serving().Info.HasClasses {
		class = r.class()
	}
	_, citations := r.citedPassages()
	counted := 0
	if r.prompt.exact {
		counted = r.prompt.tokens
	}
	var from AskedModel
	var cause route.Cause
	if f := r.call.fallback; f.answersFor() {
		from, cause = f.from, f.cause
	}
	return Head{
		FallbackFrom: from, FallbackCause: cause,
		Request: r.call.RequestID, Created: r.call.Received, Model: r.asked(), Receipt: r.receipt.id, Policy: r.admission.policy.Version,
		Class: class, Version: r.serving().Version, Rollout: r.choice.Rollout, Arm: r.choice.Arm, Label: r.receipt.label, LabelText: r.receipt.labelText, Rate: r.rate(),
		Citations: citations, Steps: r.steps, Embedding: r.sources.embedding, PromptTokens: counted, Subject: r.admission.subject,
	}
}

func (r *run) summary() Summary {
	r.outcome.mu.Lock()
	defer r.outcome.mu.Unlock()
	return r.outcome.summary
}

// recordedModel returns what the record says of the model asked for, or reported. A name that exists is recorded as it is; one that
// does not may be anything a caller or an engine put there, a piece of a prompt too, so only what looks like a name is.
func recordedModel(asked string, exists bool) string {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@+-", r))
	}
	if !exists && strings.ContainsFunc(asked, odd) {
		return "(not a model name)"
	}
	return asked
}
