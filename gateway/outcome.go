package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/engine"
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

// statusClientGone is what proxies log for a caller who left; nobody receives it.
const statusClientGone = 499

// ending says how a run ended.
type ending struct {
	outcome string
	err     error
}

func endingOf(err error) ending { return ending{outcome: outcomeOf(err), err: err} }

// outcomeOf tells the caller's end, a rule's no and a breakdown apart. What is unavailable before an engine is involved, such as
// the budget, is a refusal: it says nothing about the model.
func outcomeOf(err error) string {
	if errors.Is(err, context.Canceled) {
		return outcomeAborted
	}
	p := fault.Public(err)
	engines := []fault.Code{fault.CodeEngineUnavailable, fault.CodeEngineOverloaded, fault.CodeUpstreamFailed}
	if slices.Contains(engines, p.Code()) || p.Kind() == fault.Internal || p.Kind() == fault.Timeout {
		return outcomeFailed
	}
	return outcomeRefused
}

// failed turns what stopped an engine into the error of the call: the caller's departure and our deadline are told apart from a
// failure.
func (r *run) failed(caller, bounded context.Context, err error) error {
	switch {
	case caller.Err() != nil:
		return fmt.Errorf("the caller left: %w", context.Canceled)
	case bounded.Err() != nil:
		return fault.Wrap(err, fault.CodeTimeout, r.p.cfg.Timeout.String())
	default:
		return r.asAsked(err)
	}
}

// formatField is what engines call the format of an answer.
const formatField = "response_format"

// asAsked names the field that the caller sent where an engine blames the format: only the dialect knows its several names.
func (r *run) asAsked(err error) error {
	var coded *fault.Error
	if r.call.Format == nil || !errors.As(err, &coded) || coded.Param() != formatField || r.call.FormatField == "" {
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
	if !r.known {
		r.p.metrics.requests.WithLabelValues(string(r.call.Action), outcomeUnauthenticated).Inc()
		return &Refusal{err: err}
	}
	r.finish(caller, endingOf(err))
	if r.lost != nil {
		err = fmt.Errorf("%w (while refusing: %s)", unrecorded(r.lost), fault.Public(err).Code())
	}
	return &Refusal{Receipt: r.closing, Rate: r.rate, err: err}
}

// refusal is the error of a call that failed at the engine.
func (r *run) refusal(err error) error {
	return &Refusal{Receipt: r.receipt, Rate: r.rate, err: err}
}

// finish is step 12: it settles, gives back what the run holds and writes the outcome record, once, on a context that the
// caller's departure does not end. A record that cannot be written undoes nothing, since the answer may be out already: it is
// logged and counted, the verifier lists the admitted record without an outcome, and the usage stays unbooked. Only a refusal turns
// it into its own error.
func (r *run) finish(caller context.Context, end ending) {
	r.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), r.p.cfg.SettleTimeout)
		defer cancel()
		if r.answer != nil {
			r.tally = r.answer.Tally()
		}
		u := r.settle(end)
		if r.ticket != nil {
			r.ticket.Release(ctx, int(u.PromptTokens+u.CompletionTokens))
		}
		e := r.event(audit.StageOutcome)
		e.Outcome, e.Usage = end.outcome, u
		e.Decision = decisionAllow
		if end.outcome == outcomeRefused {
			e.Decision = decisionRefuse
		}
		switch {
		case end.outcome == outcomeAborted:
			e.Status = statusClientGone
		case end.err != nil:
			p := fault.Public(end.err)
			e.ErrorKind, e.ErrorCode, e.Status = p.Kind().String(), string(p.Code()), p.Kind().Status()
		default:
			e.Status = 200
		}
		got, err := r.p.deps.Audit.AppendWith(ctx, e, r.subject(), r.keptAnswer()...)
		r.closing, r.lost = got.ID, err
		if err != nil {
			r.p.metrics.unrecorded.Inc()
			r.p.deps.Log.Error("outcome not recorded", slog.String("request", r.call.RequestID), slog.String("receipt", r.receipt),
				slog.String("outcome", end.outcome), slog.Any("error", err))
		}
		if end.outcome == outcomeFailed {
			r.p.deps.Log.Error("request failed", slog.String("request", r.call.RequestID), slog.String("tenant", r.principal.Tenant),
				slog.Any("error", end.err))
		}
		r.observe(end, u)
		r.mu.Lock()
		r.final = Summary{Usage: u, Findings: r.findings(), LogprobsWithheld: r.tally.Withheld, Outcome: end.outcome, Replay: e.Model.Replay}
		r.mu.Unlock()
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
func (r *run) settle(end ending) audit.Usage {
	var u audit.Usage
	switch {
	case r.usage != nil:
		u.PromptTokens, u.CachedTokens = int64(r.usage.PromptTokens), int64(r.usage.CachedTokens)
		u.CompletionTokens, u.Estimated = int64(r.usage.CompletionTokens), r.usage.Estimated
	case r.tally.Events > 0:
		u.PromptTokens, u.CompletionTokens, u.Estimated = int64(r.prompted()), int64(r.tally.Events), true
	case end.outcome == outcomeAborted && !r.asked.IsZero() && !r.unasked && r.sentWhole():
		written := min(tokensPerSecond*r.p.now().Sub(r.asked).Seconds(), float64(r.request.MaxTokens*r.request.Choices))
		u.PromptTokens, u.CompletionTokens, u.Estimated = int64(r.prompted()), int64(written), true
	}
	if r.reservation != nil {
		if used := u.PromptTokens+u.CompletionTokens > 0; used && end.outcome != outcomeFailed {
			c := r.reservation.Settle(billing.Tokens{Prompt: u.PromptTokens, Cached: u.CachedTokens, Completion: u.CompletionTokens})
			u.Cost, u.Currency = int64(c.Cost), c.Currency
			r.priceBook = c.PriceBook
		} else {
			r.reservation.Release()
		}
	}
	if !r.asked.IsZero() {
		u.Energy, u.EnergyMethod = r.p.deps.Energy.Attribute(r.busy(), max(r.peak, int(r.p.running.Load()))), r.p.deps.Energy.Method()
	}
	return u
}

// prompted is the number of tokens of the prompt, as far as it is known.
func (r *run) prompted() int {
	if r.count.Exact {
		return r.count.Tokens
	}
	given := *r.call
	given.Messages = r.request.Messages // with the passages
	return min(r.count.Tokens, given.size()/bytesPerToken+4*len(given.Messages)+1)
}

// sentWhole reports whether the engine sends the answer in one piece.
func (r *run) sentWhole() bool {
	return r.request != nil && r.request.Whole && r.choice.Info.SendsWhole
}

// busy is how long an engine worked on the run: what it says, else the time since it was asked.
func (r *run) busy() time.Duration {
	if r.usage != nil && r.usage.Prefill+r.usage.Decode > 0 {
		return r.usage.Prefill + r.usage.Decode
	}
	return r.p.now().Sub(r.asked)
}

func (r *run) observe(end ending, u audit.Usage) {
	m, action := r.p.metrics, string(r.call.Action)
	m.requests.WithLabelValues(action, end.outcome).Inc()
	m.duration.WithLabelValues(action).Observe(r.p.now().Sub(r.call.Received).Seconds())
	if r.firstToken > 0 {
		m.firstToken.Observe(r.firstToken.Seconds())
	}
	m.tokens.WithLabelValues("prompt").Add(float64(u.PromptTokens - u.CachedTokens))
	m.tokens.WithLabelValues("cached").Add(float64(u.CachedTokens))
	m.tokens.WithLabelValues("completion").Add(float64(u.CompletionTokens))
}

// event is everything known about the run at this moment, as an audit record. Its session, and whom it is for, are digests: what callers
// name their conversations and people by may be somebody's number. Safety and Watermark stay empty until something here makes them.
func (r *run) event(stage audit.Stage) audit.Event {
	c, v := r.call, r.choice.Version
	e := audit.Event{
		Request: c.RequestID, Stage: stage, Tenant: r.principal.Tenant, Project: r.principal.Project,
		Actor:   audit.Actor{Kind: r.principal.Kind, ID: r.principal.ID, Name: r.principal.Name, OnBehalfOf: r.onBehalfOf},
		Session: r.unit, Source: c.Source, Action: string(c.Action), Route: c.Route, Dialect: c.Dialect,
		Model: audit.Model{
			Asked: recordedModel(string(c.Model), v.Model != ""), Routed: string(v.EngineModel), Version: v.Version, Digest: v.Digest, Precision: v.Precision,
			Template: r.choice.Info.Template, Engine: v.Engine, Adapter: r.choice.Info.Adapter,
		},
		Steps:  r.steps,
		Policy: r.policy.Version, PolicyDigest: r.policy.Digest, PriceBook: r.priceBook, Rollout: r.choice.Rollout, Arm: r.choice.Arm,
		Documents: r.documents, PromptDigest: r.promptDigest,
		Latency: audit.Latency{Admit: r.admitTime.Microseconds()},
	}
	if r.label != (label.Label{}) {
		e.Label, e.LabelKey = r.label.HeaderValue(), r.p.deps.Labels.KeyID(r.principal.Tenant)
	}
	if version := r.choice.Info.EngineVersion; version != "" {
		e.Model.Engine += "/" + version
	}
	e.Detail = map[string]string{}
	if c.Class != "" {
		e.Detail["class"] = string(c.Class)
	}
	if c.ClientID != "" {
		e.Detail["client_request"] = c.ClientID
	}
	if r.policy.Purpose != "" {
		e.Detail["purpose"] = r.policy.Purpose
	}
	if c.RAG != nil {
		e.Resource = c.RAG.Collection
	}
	for _, f := range r.findings() {
		e.Findings = append(e.Findings, f.Finding)
	}
	if stage != audit.StageOutcome {
		return e
	}
	if r.usage != nil {
		e.Model.Reported, e.Model.Replay = recordedModel(string(r.usage.Model), false), r.usage.Replay
		e.Latency.Queue = r.usage.Queue.Microseconds()
		e.Steps.Prefill, e.Steps.Decode = r.usage.Prefill.Microseconds(), r.usage.Decode.Microseconds()
	}
	e.Latency.FirstToken = r.firstToken.Microseconds()
	// Time less Total is the admission time to the microsecond: the usage row of this record is filed under it, in the budget
	// period that the reservation was taken from.
	e.Time = r.p.now().UnixMicro()
	e.Latency.Total = e.Time - c.Received.UnixMicro()
	e.AnswerDigest = r.answerDigest()
	if r.tally.Withheld {
		e.Detail["logprobs"] = "withheld"
	}
	return e
}

// findings are what the policy found so far.
func (r *run) findings() []Finding {
	if r.admission == nil {
		return nil
	}
	var out []Finding
	for _, f := range r.admission.Findings() {
		out = append(out, Finding{audit.Finding{Direction: f.Direction, Class: f.Class, Detector: f.Detector, Action: f.Action, Count: f.Count}, f.Restored})
	}
	return out
}

func (r *run) head() Head {
	var class engine.Class
	if r.choice.Info.HasClasses {
		class = r.call.Class
	}
	return Head{
		Request: r.call.RequestID, Created: r.call.Received, Model: r.call.Model, Receipt: r.receipt, Policy: r.policy.Version,
		Class: class, Version: r.choice.Version, Rollout: r.choice.Rollout, Arm: r.choice.Arm, Label: r.label, Rate: r.rate,
		Citations: r.citations, Steps: r.steps,
	}
}

func (r *run) summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.final
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
