package gateway

import (
	"cmp"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// visibleLabel is what becomes of the label that people see. It is decided once, when the call is admitted: an agreement that is revoked while an answer is on
// its way binds the next one.
type visibleLabel struct {
	sentence  bool   // behind the text of each alternative
	demanded  bool   // there has to be one, for want of an agreement
	agreement string // under which there is none; "" where there is one, or nobody demands an agreement and none is in force
}

// visibleLabel decides whether the answer has a sentence that says what it is. Where an agreement is demanded and none is in force, or nobody can tell, it has.
// A sentence would break an answer that is held to a form, so such a call is then refused: else whoever asks for JSON had texts without a label. Error:
// CodeUnsupported.
func (r *run) visibleLabel() (visibleLabel, error) {
	if r.need != route.Generate || r.call.Action.runsNothing() {
		return visibleLabel{}, nil
	}
	form := r.received.Format
	demanded := r.p.deps.Agreements.Demanded() || r.admission.decision.DemandsAgreement()
	if r.admission.decision.LabelMode(r.caller.LabelMode) == identity.LabelText && (form == nil || !demanded && !r.received.wantsJSON()) {
		return visibleLabel{sentence: true, demanded: demanded}, nil
	}
	key := ""
	if r.caller.Kind == "key" {
		key = r.caller.ID
	}
	id := r.p.deps.Agreements.Effective(r.caller.Tenant, r.caller.Project, key)
	if id == "" && demanded && form != nil {
		field := cmp.Or(r.call.FormatField, formatField)
		return visibleLabel{}, fault.New(fault.CodeUnsupported, field, fault.Say("gateway.no_visible_label")).WithParam(field)
	}
	sentence := id == "" && demanded
	return visibleLabel{sentence: sentence, demanded: sentence, agreement: id}, nil
}

// wantsJSON reports whether the answer is to be JSON.
func (c *Call) wantsJSON() bool {
	return c.Format != nil && (c.Format.JSONObject || c.Format.JSONSchema != nil)
}

// noteAdmitted tells the record of an admission under which agreement the answer goes without a visible label.
func (v visibleLabel) noteAdmitted(detail map[string]string) {
	if v.agreement != "" {
		detail[audit.LabelAgreement] = v.agreement
	}
}

// noteOutcome tells the record of an outcome the agreement, if anything has left under it, and what has left without a label that was demanded: calls of
// tools beside which there is no text to label ("impossible"), or the beginning of an answer that broke off before its sentence ("missing").
func (v visibleLabel) noteOutcome(detail map[string]string, left egress.Tally) {
	switch {
	case v.agreement != "" && left.Left:
		detail[audit.LabelAgreement] = v.agreement
	case v.demanded && left.Unlabelled:
		detail[audit.VisibleLabel] = "missing"
	case v.demanded && left.OnlyCalls:
		detail[audit.VisibleLabel] = "impossible"
	}
}
