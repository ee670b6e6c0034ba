package safety

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed risks.txt
var risksText string

// Risk is the id of a risk: "a1.4" is the fourth of the first class in Appendix A of GB/T 45654. Four more are not of that standard.
type Risk string

// The risks beside those of GB/T 45654.
const (
	RiskInjection Risk = "injection" // words that try to replace a model's instructions
	RiskHidden    Risk = "hidden"    // characters that nobody sees
	RiskLink      Risk = "link"      // a link to a host that is not allowed
	RiskCanary    Risk = "canary"    // a string of the system prompt that must not come out
)

// RiskType is a risk of GB/T 45654 with its names.
type RiskType struct {
	ID      Risk
	Chinese string // as TC260-003 has it, from which the standard was made
	English string // our translation
}

var risks = sync.OnceValue(func() []RiskType { //nolint:gochecknoglobals // a table
	var out []RiskType
	for line := range strings.Lines(risksText) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), "|")
		zh, en, _ := strings.Cut(rest, "|")
		out = append(out, RiskType{Risk(id), zh, en})
	}
	return out
})

// Risks returns the 31 risks of GB/T 45654, in its order.
func Risks() []RiskType { return slices.Clone(risks()) }

// Known reports whether there is such a risk.
func (r Risk) Known() bool {
	switch r {
	case RiskInjection, RiskHidden, RiskLink, RiskCanary:
		return true
	}
	return slices.ContainsFunc(risks(), func(t RiskType) bool { return t.ID == r })
}

// Group is the class of the risk: "a1" of "a1.4". What is no risk of the standard is a group of its own.
func (r Risk) Group() Risk {
	group, _, _ := strings.Cut(string(r), ".")
	return Risk(group)
}
