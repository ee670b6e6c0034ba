package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// route picks the version and its engine, which can do what is asked.
func (r *run) route(ctx context.Context) error {
	d := &demand{run: r, needs: r.asksFor()}
	ask := route.Ask{
		Model: string(r.call.Model), Unit: r.admission.conversation, Need: r.need, Fits: d.fits, Why: d.whyNot,
		Prefix: func() []uint64 { return r.masked.prefix }, Trace: &d.trace,
	}
	if r.call.parent != "" { // of the model that the index is made with, and of no other
		ask = r.p.deps.Embedding
		ask.Fits = d.placed
	}
	choice, err := r.p.deps.Router.Pick(ask)
	r.demand = d
	r.markable = d.markable
	if !choice.Info.Audience.Has(r.caller.Tenant) { // whoever may not use it does not learn that there is one
		return fault.New(fault.CodeModelNotFound, string(r.call.Model)).WithParam("model")
	}
	if fault.Is(err, fault.CodeModelNotCapable) || err == nil && !r.call.Action.Can(choice.Info) {
		return r.notCapable(ctx, choice.Info)
	}
	if r.choice = choice; d.place && choice.Instance == nil {
		return d.misplaced(choice)
	}
	if err != nil {
		return err
	}
	if err := r.received.checkDimensions(r.need, &choice.Info); err != nil {
		return err
	}
	if choice.Instance == nil {
		r.answer.decline()
		return d.refusal()
	}
	choice.Resilience.Earn()
	return nil
}

// Why an instance does not meet a request, in a word that records have, beside those of package route.
const (
	whyWatermark = "watermark" // it cannot write the one that the policy demands
	whyAble      = "ability"   // it is not known to do all that is asked
)

// demand is what a request needs of an engine, with why the instances that were looked at do not meet it.
type demand struct {
	run   *run
	needs capability.Needs
	unmet capability.Reason // of one that is busy, else of the last
	marks bool              // one could not write the watermark that the policy demands
	place bool              // one stands where the data may not go, and could do all that is asked
	busy  bool              // one stands where it may go, and has too much to do for it now

	markable bool // one can mark

	trace pool.Trace
	why   string // in a word, why the last one does not
}

// anew begins a second choice.
func (d *demand) anew() { d.busy = false }

// stays says that the choice stands that was told of before the second one.
func (d *demand) stays(told *pool.Trace) { d.trace = *told }

// whyNot says why the instance that was looked at last does not meet it.
func (d *demand) whyNot() string { return d.why }

// fits reports whether an instance can do all that is asked and is for the caller: by what it lists of the model, and by what is known of it. It is
// asked once the texts are masked, too.
func (d *demand) fits(o pool.Offer) bool {
	r := d.run
	c := r.received
	if c == nil {
		c = r.masked.call
	}
	if !o.Model.Audience.Has(r.caller.Tenant) || !r.call.Action.Can(*o.Model) || c.checkDimensions(r.need, o.Model) != nil {
		d.why = route.WhyModel
		return false
	}
	d.markable = d.markable || o.Model.HasMarks
	if r.watermarking().Required && !o.Model.HasMarks {
		d.marks, d.why = true, whyWatermark
		return false
	}
	ok, why := o.Meets(&d.needs)
	if ok {
		return d.placed(o)
	}
	if d.why = whyAble; !d.unmet.Busy {
		d.unmet = why
	}
	d.busy = d.busy || why.Busy && r.placing().Allows(string(o.Place))
	return false
}

// placed reports whether the data may go where an instance stands. It is asked of those that can do all else.
func (d *demand) placed(o pool.Offer) bool {
	if d.run.placing().Allows(string(o.Place)) {
		return true
	}
	d.place, d.why = true, route.WhyPlace
	return false
}

// misplaced refuses a call of which the data may not go where its model can run now. One that may have it and has too much to do, or takes no requests now, is
// worth waiting for.
func (d *demand) misplaced(c route.Choice) error {
	r, p := d.run, d.run.placing()
	r.answer.decline()
	model, allowed := string(r.asked()), any(strings.Join(p.Allowed(), ", "))
	switch {
	case d.busy:
		return fault.New(fault.CodeEngineOverloaded, model).WithRetryAfter(time.Second)
	case slices.ContainsFunc(c.Away, func(at pool.Place) bool { return p.Allows(string(at)) }):
		return fault.Wrap(errors.New("no instance takes requests at a place where the data may go"), fault.CodeEngineUnavailable, model).WithRetryAfter(time.Second)
	case allowed == "":
		allowed = fault.Say("thing.nowhere")
	}
	return fault.New(fault.CodePlaceNotAllowed, p.Grade.String(), model, allowed).WithParam("model")
}

// refusal says why no instance that lists the model is known to do all that is asked, and names what it is.
func (d *demand) refusal() error {
	model := string(d.run.call.Model)
	switch why := d.unmet; {
	case d.marks && why.Why == "" && d.markerWarms():
		return fault.Wrap(errors.New("no instance that can mark takes requests"), fault.CodeEngineUnavailable, model).WithRetryAfter(time.Second)
	case d.marks && why.Why == "":
		return fault.New(fault.CodeUnsupported, "model", fault.Say("gateway.no_watermark")).WithParam("model")
	case why.Why == "":
		return fault.Wrap(errors.New("no instance can do all that is asked"), fault.CodeEngineUnavailable, model)
	case why.Busy:
		return fault.New(fault.CodeEngineOverloaded, model).WithRetryAfter(time.Second)
	default:
		return d.run.received.unsupported(why)
	}
}

// markerWarms reports whether an instance that can mark has the model and takes no requests now.
func (d *demand) markerWarms() bool {
	return slices.ContainsFunc(d.run.choice.Closed, func(m *engine.Model) bool { return m.HasMarks })
}

// request is what the engine is asked; the version's defaults fill what the caller left unset.
func (r *run) request() *engine.Request {
	c, decision := r.masked.call, r.admission.decision
	out := c.request(r.choice.Version.Defaults)
	out.Model, out.Tenant, out.Class, out.SharedPrefix = r.choice.Version.EngineModel, r.caller.Tenant, r.class(), decision.SharesPrefixCache()
	out.NonStreaming = c.Blocking && c.Logprobs < 0 && decision.UpstreamNonStreaming() && !r.watched() // log-probabilities are large
	if c.FirstTokenTimeout > 0 {
		out.Deadline = r.call.Received.Add(c.FirstTokenTimeout)
	}
	return out
}

// watched reports whether somebody has to know how long an instance says nothing. The lines of batches wait.
func (r *run) watched() bool { return r.class() != engine.ClassBatch && r.choice.Resilience.Watches() }

// request is what the call says of the request to an engine.
func (c *Call) request(d route.Defaults) *engine.Request {
	return &engine.Request{
		ID: c.RequestID, Messages: c.Messages, Prompt: c.Prompt, OmitBegin: c.OmitBegin, Choices: max(1, c.Choices), Priority: c.Priority,
		Tools: c.Tools, ToolChoice: c.ToolChoice, ParallelTools: c.ParallelTools, Format: c.Format,
		Temperature: firstSet(1, c.Temperature, d.Temperature), TopP: firstSet(1, c.TopP, d.TopP), Seed: c.Seed, Stop: c.Stop, Logprobs: c.Logprobs,
		TopK: c.TopK, MinP: c.MinP, RepetitionPenalty: c.RepetitionPenalty, FrequencyPenalty: c.FrequencyPenalty,
		PresencePenalty: c.PresencePenalty, LogitBias: c.LogitBias, MinTokens: c.MinTokens, Echo: c.Echo,
	}
}

// asksFor is what the request, whose texts nobody has looked at yet, needs of an engine. It has no lengths: that of the prompt nobody knows, and engines cut
// the completion to the room that is left.
func (r *run) asksFor() capability.Needs {
	switch r.need {
	case route.Embed:
		return capability.Of(&engine.EmbedRequest{})
	case route.Score:
		return capability.Of(&engine.ScoreRequest{})
	default:
		n := capability.Of(r.received.request(route.Defaults{}))
		if r.received.OmitBegin || r.received.TokenTexts {
			n.Features = append(n.Features, capability.Tokens)
		}
		if r.call.Action == ActionDetokenize {
			n.Features = append(n.Features, capability.Detokenize)
		}
		return n
	}
}

// firstSet returns the first value that is set.
func firstSet(otherwise float64, values ...*float64) float64 {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return otherwise
}

// reserve prepares the prompt, settles the limits on its tokens where they are counted, and sets aside what it may cost with the longest
// completion. Where what was found is judged to answer nothing, or is an entry of a FAQ that answers, no engine is asked and nothing is set aside.
func (r *run) reserve(ctx context.Context) error {
	v, err := r.judge()
	if err != nil {
		return err
	}
	var p prompt
	if !v.unasked() {
		if p, err = r.prepare(ctx); err != nil {
			return err
		}
		if p.text != nil && (v.rule.Judges() || v.rule.Checks()) { // what has no room beside the question bears nothing out
			v = r.weigh(p.text.SegmentsKept)
		}
	}
	switch {
	case v.direct:
		p = prompt{text: &engine.Prompt{Request: r.request(), SegmentsKept: 1}, exact: true}
		if p.citations, err = r.quotePassages(1); err != nil {
			return err
		}
	case v.refusal != "":
		p = prompt{text: &engine.Prompt{Request: r.request()}, exact: true}
	}
	p.verdict = v
	r.prompt = p
	if r.call.Action.runsNothing() {
		return nil
	}
	if v.unasked() {
		if r.slot.ticket != nil {
			r.prompt.rate, err = r.slot.ticket.Adjust(ctx, 0)
		}
		return err
	}
	if p.exact && r.slot.ticket != nil {
		if r.prompt.rate, err = r.slot.ticket.Adjust(ctx, p.tokens+p.maxCompletion()); err != nil {
			return err
		}
	}
	ask := billing.Ask{
		Request: r.call.RequestID, Model: r.choice.Version.Model, At: r.call.Received,
		Scope: billing.Scope{Organisation: r.caller.Organisation, Tenant: r.caller.Tenant, Project: r.caller.Project, Key: r.caller.ID},
		Embed: r.need != route.Generate, Batch: r.class() == engine.ClassBatch, PromptTokens: int64(p.tokens), MaxCompletion: int64(p.maxCompletion()),
	}
	if req := p.request(); req != nil {
		ask.Choices = int64(req.Choices)
	}
	r.prompt.reservation, err = r.p.deps.Ledger.Reserve(ctx, ask)
	return err
}

// prepare has the engine prepare what it will be given.
func (r *run) prepare(ctx context.Context) (prompt, error) {
	switch {
	case r.call.parent != "":
		return r.boundInputs(), nil
	case r.need == route.Generate:
		return r.prepareText(ctx)
	case r.need == route.Embed:
		c := r.masked.call
		return r.prepareInputs(ctx, r.embedRequest(c.Input, c.Role, c.Dimensions))
	default:
		return r.prepareInputs(ctx, r.scoreRequests()...)
	}
}

// prepareWork has the instance prepare some work.
func (r *run) prepareWork(ctx context.Context, w engine.Work) (p *engine.Prompt, err error) {
	err = r.onInstance(ctx, func(i *pool.Instance) (err error) {
		p, err = i.Engine.Prepare(ctx, w)
		return err
	})
	return p, err
}

// boundInputs bounds the texts of a part, which are prepared when the index asks for their vectors: a token has at least one byte; four mark
// the ends of a text.
func (r *run) boundInputs() prompt {
	var texts []string
	if r.document != nil {
		texts = r.document.Texts
	} else {
		texts = r.masked.call.Input
	}
	n := 4 * len(texts)
	for _, t := range texts {
		n += len(t)
	}
	return prompt{tokens: n}
}

func (r *run) prepareInputs(ctx context.Context, of ...engine.Work) (prompt, error) {
	out := prompt{exact: true}
	for _, w := range of {
		p, err := r.prepareWork(ctx, w)
		if err != nil {
			return prompt{}, err
		}
		out.inputs, out.tokens, out.exact = append(out.inputs, p), out.tokens+p.Tokens, out.exact && p.Exact
	}
	return out, nil
}

// prepareText has a prompt prepared, once, with as many of the passages as fit; where none does, it is told that there are none.
func (r *run) prepareText(ctx context.Context) (prompt, error) {
	req := r.request()
	if req.MaxTokens = r.completion(r.choice.Version.Defaults); r.choice.Info.ContextTokens == 0 {
		req.MaxTokens = min(req.MaxTokens, r.p.cfg.MaxTokens)
	}
	var err error
	if req.Watermark, err = r.watermark(ctx, req.Temperature); err != nil {
		return prompt{}, err
	}
	if len(r.masked.passages) > 0 {
		tag, with := r.passageTag(), *req
		with.Messages = withSystem(req.Messages, passageInstruction(r.sources.question, tag))
		pieces, imitations := segments(r.masked.passages, tag)
		r.p.metrics.imitations.Add(float64(imitations))
		with.Segments, with.SegmentTokens = pieces, r.p.cfg.PassageTokens
		p, err := r.prepareWork(ctx, &with)
		if err != nil {
			return prompt{}, err
		}
		if p.SegmentsKept > 0 {
			cited, err := r.quotePassages(p.SegmentsKept)
			return prompt{text: p, tokens: p.Tokens, exact: p.Exact, citations: cited}, err
		}
	}
	if r.call.RAG != nil {
		req.Messages = withSystem(req.Messages, noPassageInstruction(r.sources.question))
	}
	p, err := r.prepareWork(ctx, req)
	if err != nil {
		return prompt{}, err
	}
	return prompt{text: p, tokens: p.Tokens, exact: p.Exact}, nil
}

// record makes the admission durable. What people may see again is stored before anything says that the request went on.
func (r *run) record(ctx context.Context) error {
	if r.call.Action != ActionModerate { // of which nobody has seen a pseudonym
		if err := r.admission.decision.StoreValues(ctx); err != nil {
			return err
		}
	}
	if r.need == route.Generate && !r.call.Action.runsNothing() && !r.prompt.verdict.unasked() || r.call.Action == ActionSearch { // numbers are not labelled, nor sentences of ours
		r.receipt.label = r.p.deps.Labels.Make(r.call.RequestID, r.caller.Tenant)
		r.receipt.labelText, r.receipt.labelKey = r.receipt.label.HeaderValue(), r.p.deps.Labels.KeyID(r.caller.Tenant)
	}
	var err error
	if r.receipt.signing, err = r.newSigning(ctx); err != nil {
		return err
	}
	if r.receipt.registered, err = r.newRegistered(ctx); err != nil {
		return err
	}
	r.receipt.after = r.p.now().Sub(r.call.Received)
	e := r.event(audit.StageAdmitted, r.findings())
	e.Decision = decisionAllow
	if r.respondBeforeRecord() && r.prompt.reservation != nil {
		// What is billed if a crash takes the outcome: the prompt, which the engine was given. Nobody could prove more.
		t := billing.Tokens{Prompt: int64(r.promptTokens())}
		c := r.prompt.reservation.Quote(t)
		e.Usage = audit.Usage{PromptTokens: t.Prompt, Cost: int64(c.Cost), Currency: c.Currency, Estimated: true}
		e.PriceBook = c.PriceBook
	}
	got, err := r.p.deps.Audit.AppendWith(ctx, e, r.admission.subject, r.recordedPrompt()...)
	if err != nil {
		return auditUnavailable(err)
	}
	if got.Kept() {
		r.receipt.id = got.ID
	}
	return nil
}

// respondBeforeRecord reports whether the answer may leave before its outcome is durable: policies say so of answers that come in one piece.
func (r *run) respondBeforeRecord() bool {
	return (r.call.Blocking || r.need != route.Generate) && r.call.Document == nil && r.admission.decision != nil && r.admission.decision.RespondBeforeRecord()
}

// auditUnavailable gives a failure of the log its code, if it has none.
func auditUnavailable(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.Wrap(err, fault.CodeAuditUnavailable)
}
