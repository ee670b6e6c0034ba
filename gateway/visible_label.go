package gateway

import (
	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/identity"
)

// visibleLabel is what becomes of the label that people see. It is decided once, when the call is admitted: an agreement that is revoked while an answer is on
// its way binds the next one.
type visibleLabel struct {
	sentence   bool   // behind the text of each alternative
	agreement  string // under which there is none; "" where there is one, or nobody demands an agreement and none is in force
	impossible bool   // there would have to be one for want of an agreement, and the form of the answer takes none
}

// visibleLabel decides whether the answer has a sentence that says what it is. Where an agreement is demanded and none is in force, or nobody can tell, it has:
// that is the safe side, and nothing is refused for it. A sentence behind JSON would break it, so there is none.
func (r *run) visibleLabel() visibleLabel {
	if r.admission.decision.LabelMode(r.caller.LabelMode) == identity.LabelText {
		return visibleLabel{sentence: !r.structured()}
	}
	key := ""
	if r.caller.Kind == "key" {
		key = r.caller.ID
	}
	if id := r.p.deps.Agreements.InForce(r.caller.Tenant, r.caller.Project, key); id != "" {
		return visibleLabel{agreement: id}
	}
	demanded := r.p.deps.Agreements.Demanded() || r.admission.decision.DemandsAgreement()
	return visibleLabel{sentence: demanded && !r.structured(), impossible: demanded && r.structured()}
}

// note tells a record why its answer has no visible label.
func (v visibleLabel) note(detail map[string]string) {
	switch {
	case v.agreement != "":
		detail[audit.LabelAgreement] = v.agreement
	case v.impossible:
		detail["visible_label"] = "impossible"
	}
}
