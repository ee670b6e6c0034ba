package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
)

// signing is an answer on its way to be signed.
type signing struct {
	signer  *signature.Signer
	form    signature.Form
	digests *signature.Digester
	finish  []engine.Finish // of the alternatives
}

// newSigning gets the key by which the answer will be signed, before an engine works on what could not be delivered; nil if nobody wants that.
func (r *run) newSigning(ctx context.Context) (*signing, error) {
	if r.need != route.Generate || r.call.Action.runsNothing() {
		return nil, r.refuseSigning()
	}
	if r.call.Signature == "" && !r.admission.decision.Signs() {
		return nil, nil //nolint:nilnil // nobody wants it
	}
	signer, err := r.p.deps.Signers.Signer(ctx, r.caller.Tenant)
	if err != nil {
		return nil, err
	}
	n := max(1, r.call.Choices)
	return &signing{signer: signer, form: cmp.Or(r.call.Signature, signature.JWS), digests: signature.NewDigester(signer.Algorithm, n), finish: make([]engine.Finish, n)}, nil
}

// refuseSigning refuses the wish for a signature of a call that generates no answer.
func (r *run) refuseSigning() error {
	if r.call.Signature != "" {
		return fault.New(fault.CodeInvalidValue, signature.Header, fault.Say("signature.no_answer")).WithParam(signature.Header)
	}
	return nil
}

func (s *signing) take(ev engine.Event) {
	s.digests.Text(ev.Choice, ev.Text)
	s.digests.Reasoning(ev.Choice, ev.Reasoning)
	s.digests.Refusal(ev.Choice, ev.Refusal)
	for _, c := range ev.Calls {
		s.digests.Call(ev.Choice, c.Index, c.Name, c.Arguments)
	}
	if ev.Finish != engine.FinishNone {
		s.finish[ev.Choice] = ev.Finish
	}
}

// sign returns the signature of a complete answer, and notes its key in the record of the outcome.
func (r *run) sign(e *audit.Event) string {
	s := r.receipt.signing
	v := r.serving().Version
	x := signature.Statement{
		Schema: signature.Schema, Issuer: r.p.deps.Issuer, Tenant: r.caller.Tenant, Request: r.call.RequestID, Receipt: r.receipt.id, Time: e.Time,
		Model:  signature.Model{Name: string(r.asked()), Version: v.Version, Digest: v.Digest, Precision: v.Precision},
		Policy: r.admission.policy.Version, Digest: s.signer.Algorithm.Digest(),
	}
	if r.ours() {
		x.Model = signature.Model{Name: string(r.asked())}
	}
	if made := r.receipt.label; made != (label.Label{}) {
		x.Label, _ = json.Marshal(made) // seven strings always marshal
	}
	for i, why := range s.finish {
		x.Answers = append(x.Answers, s.digests.Digests(i, string(why)))
	}
	text, err := s.signer.Sign(x, s.form)
	if err != nil { // a key that has been opened signs everything
		r.p.deps.Log.Error("answer not signed", slog.String("request", r.call.RequestID), slog.Any("error", err))
		return ""
	}
	e.Detail["signature_key"] = s.signer.ID
	return text
}
