package gateway

import (
	"slices"

	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// maxExpansions is how many expansions a caller is told. More are searched with.
const maxExpansions = 8

// releaseExpansions lets out what the glossary has added to a question: names of a glossary are text of a knowledge base like any other. An expansion with a name
// that the rules for answers block is left out. Each name is held against the rules once.
func (r *run) releaseExpansions() ([]rag.Expansion, error) {
	d := r.admission.decision
	var out []rag.Expansion
	type released struct {
		text string
		err  error
	}
	known := map[string]released{}
	for _, e := range r.sources.expanded[:min(maxExpansions, len(r.sources.expanded))] {
		e.Added = slices.Clone(e.Added)
		names := []*string{&e.Term, &e.Found}
		for i := range e.Added {
			names = append(names, &e.Added[i])
		}
		blocked := false
		for _, name := range names {
			is, again := known[*name]
			if !again {
				if is.text, is.err = d.MaskDisplayed(*name); is.err == nil {
					is.text, _, is.err = egress.ReleaseWhole(d.ReleaseCitation(), is.text)
				}
				known[*name] = is
			}
			if blocked = fault.Is(is.err, fault.CodeBlockedAnswer) || fault.Is(is.err, fault.CodeBlockedContent); blocked {
				break
			}
			if is.err != nil {
				return nil, is.err
			}
			*name = is.text
		}
		if !blocked {
			out = append(out, e)
		}
	}
	return out, nil
}
