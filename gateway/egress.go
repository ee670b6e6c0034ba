package gateway

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/governance/identity"
)

// egress returns the way out of the answer.
func (r *run) egress() *egress.Answer {
	structured := r.call.Format != nil && (r.call.Format.JSONObject || r.call.Format.JSONSchema != nil)
	tools := make([]string, len(r.call.Tools))
	for i, t := range r.call.Tools {
		tools[i] = t.Name
	}
	return egress.New(egress.Config{
		Choices: r.prompt.Request.Choices, Model: string(r.call.Model), Tools: tools, Stop: r.call.Stop,
		JSON:     structured && !r.call.Echo,
		Logprobs: r.call.Logprobs >= 0, Masked: r.admission.decision.Masked(),
		// A sentence behind JSON would break it.
		Label:      !structured && r.admission.decision.LabelMode(r.caller.LabelMode) == identity.LabelText,
		RecordForm: egress.RecordForm(r.admission.recordForm), Open: r.newRelease, StoreValues: r.admission.decision.StoreValues, CallID: r.callID,
		Digest: audit.NewAnswerDigest(r.p.deps.Keys, r.caller.Tenant),
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
		r.answer.usage = ev.Used
	}
	if ev.HasOutput() && r.answer.firstToken == 0 && !r.nonStreaming() { // when the first token of a whole answer came, nobody knows
		r.answer.firstToken = r.p.now().Sub(r.call.Received)
	}
	if len(r.answer.wholeEvents) > 0 || r.nonStreaming() && !r.answer.streaming && ev.Finish != engine.FinishNone {
		if r.answer.wholeEvents = append(r.answer.wholeEvents, ev); ev.Usage == nil {
			return nil, nil
		}
		pieces := r.answer.wholeEvents
		r.answer.wholeEvents = nil
		return r.answer.out.Whole(ctx, pieces)
	}
	r.answer.streaming = true
	var err error
	r.answer.leavingBuf[0], _, err = r.answer.out.Pass(ctx, ev)
	return r.answer.leavingBuf[:], err
}
