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
		Label: !structured && r.admission.decision.LabelMode(r.caller.LabelMode) == identity.LabelText,
		Kept:  egress.Form(r.admission.keep), Open: r.window, Keep: r.admission.decision.Keep, CallID: r.callID,
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
	if ev.Says() && r.answer.firstToken == 0 && !r.sentWhole() { // when the first token of a whole answer came, nobody knows
		r.answer.firstToken = r.p.now().Sub(r.call.Received)
	}
	if len(r.answer.pieces) > 0 || r.sentWhole() && !r.answer.streams && ev.Finish != engine.FinishNone {
		if r.answer.pieces = append(r.answer.pieces, ev); ev.Usage == nil {
			return nil, nil
		}
		pieces := r.answer.pieces
		r.answer.pieces = nil
		return r.answer.out.Whole(ctx, pieces)
	}
	r.answer.streams = true
	var err error
	r.answer.leaving[0], _, err = r.answer.out.Pass(ctx, ev)
	return r.answer.leaving[:], err
}
