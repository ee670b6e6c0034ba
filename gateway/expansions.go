package gateway

import (
	"slices"

	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// releaseExpansions lets out what the glossary has added to a question: names of a glossary are text of a knowledge base like any other. An expansion with a name
// that the rules for answers block is left out.
func (r *run) releaseExpansions() ([]rag.Expansion, error) {
	d := r.admission.decision
	var out []rag.Expansion
	for _, e := range r.sources.expanded {
		e.Added = slices.Clone(e.Added)
		names := []*string{&e.Term, &e.Found}
		for i := range e.Added {
			names = append(names, &e.Added[i])
		}
		blocked := false
		for _, name := range names {
			hidden, err := d.MaskDisplayed(*name)
			if err == nil {
				*name, _, err = egress.ReleaseWhole(d.ReleaseCitation(), hidden)
			}
			if blocked = fault.Is(err, fault.CodeBlockedAnswer) || fault.Is(err, fault.CodeBlockedContent); blocked {
				break
			}
			if err != nil {
				return nil, err
			}
		}
		if !blocked {
			out = append(out, e)
		}
	}
	return out, nil
}
