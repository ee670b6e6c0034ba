package gateway

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
)

// egress returns the way out of the answer.
func (r *run) egress() *egress.Answer {
	c := r.masked.call
	tools := make([]string, len(c.Tools))
	for i, t := range c.Tools {
		tools[i] = t.Name
	}
	return egress.New(egress.Config{
		Choices: r.prompt.text.Request.Choices, Model: string(c.Model), Tools: tools, Stop: c.Stop,
		JSON:     c.wantsJSON() && !c.Echo,
		Logprobs: c.Logprobs >= 0, Masked: r.admission.decision.Masked() || r.prompt.verdict.rule.Checks(), // log-probabilities would tell what was dropped
		Label:      r.admission.visible.sentence && !r.prompt.verdict.unasked(), // of a sentence of ours no model was asked for
		RecordForm: egress.RecordForm(r.admission.recordForm), Open: r.newRelease, StoreValues: r.admission.decision.StoreValues, CallID: r.callID,
		Digest: audit.NewAnswerDigest(r.p.deps.Keys, r.caller.Tenant), Released: r.released(),
	})
}

// callID is an id of ours for a call: no text, no long number, nothing that the rules would change.
func (r *run) callID(choice, index int) string {
	return fmt.Sprintf("call_%.16s_%d_%d", hex.EncodeToString(r.p.deps.Keys.MAC("gateway/call/v1", r.call.RequestID)), choice, index)
}

// release lets out what may leave of the answer now. An engine that sends it in one piece has all of it looked at together; one that was to and
// streams all the same is read as a stream.
func (r *run) release(ctx context.Context, ev engine.Event) ([]engine.Event, error) {
	if ev.Used != nil {
		r.answer.use(ev.Used)
	}
	if ev.HasOutput() && r.answer.firstToken == 0 && !r.nonStreaming() && !r.prompt.verdict.unasked() { // when the first token of a whole answer came, nobody knows
		r.answer.begin(r.p.now().Sub(r.call.Received))
	}
	if r.answer.grounding != nil {
		ev = r.answer.grounding.pass(ev)
	}
	if len(r.answer.wholeEvents) > 0 || r.nonStreaming() && !r.answer.streaming && ev.Finish != engine.FinishNone {
		if r.answer.keep(ev); ev.Usage == nil {
			return nil, nil
		}
		return r.answer.out.Whole(ctx, r.answer.takeWhole())
	}
	r.answer.stream()
	out, _, err := r.answer.out.Pass(ctx, ev)
	return r.answer.one(out), err
}
