package governance

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/safety"
	"github.com/sluice-project/sluice/internal/fault"
)

// Coverage is what the policies do that hold for a tenant: the one that holds where no project has its own, and those of its projects.
type Coverage struct {
	Policies int
	Unusable int // requests under them are refused
	// Exposed are the classes whose values an engine gets as they are, by any of the policies, in requests or passages, but for those that are looked for
	// only where a policy names them; sorted.
	Exposed []string
	// In how many policies: content safety is enforced, answers are refused without evidence, all answers are signed, marked, visibly labelled unless an
	// agreement says otherwise.
	Safe, Answering, Signed, Watermarked, Visible int
	// Of the policies that enforce content safety, the least: words and risks of the libraries beside the starter, and when the oldest of those was made.
	Words, Risks int
	Library      time.Time // zero: one of the policies has none
}

// Coverage returns it, without asking the database. Error: CodePolicyUnavailable, also where no policy holds.
func (g *Guard) Coverage(tenant string) (Coverage, error) {
	all, err := g.policies.Get()
	if err != nil {
		return Coverage{}, fault.Wrap(err, fault.CodePolicyUnavailable)
	}
	var out Coverage
	exposed := map[string]bool{}
	var least *libraryFacts
	count := func(p activePolicy) {
		out.Policies++
		if p.broken != nil {
			out.Unusable++
			return
		}
		for _, c := range p.policy.exposed() {
			exposed[c] = true
		}
		add := func(n *int, yes bool) {
			if yes {
				*n++
			}
		}
		add(&out.Safe, p.policy.Safety != nil && p.policy.Safety.Mode == safetyEnforce)
		add(&out.Answering, slices.ContainsFunc(p.policy.Answering, func(a answering) bool { return a.AskBelow > 0 || a.Unsupported == UnsupportedDrop }))
		add(&out.Signed, p.policy.Signature == signAlways)
		add(&out.Watermarked, p.policy.Watermark != nil)
		add(&out.Visible, p.policy.demandsAgreement() || p.policy.Label == identity.LabelText)
		if s := p.policy.Safety; s != nil && s.Mode == safetyEnforce {
			f := g.libraries.facts(s)
			if least != nil {
				f = libraryFacts{min(f.words, least.words), min(f.risks, least.risks), earlier(f.issued, least.issued)}
			}
			least = &f
		}
	}
	for _, scope := range g.Scopes(tenant) {
		if p, ok := all[scope]; ok {
			count(p)
			break
		}
	}
	if out.Policies == 0 {
		_, err := g.policy(tenant, "")
		return Coverage{}, err
	}
	for scope, p := range all {
		if _, t, project := ReadScope(scope); t == tenant && project != "" {
			count(p)
		}
	}
	out.Exposed = slices.Sorted(maps.Keys(exposed))
	if least != nil {
		out.Words, out.Risks, out.Library = least.words, least.risks, least.issued
	}
	return out, nil
}

// earlier returns the earlier of two times; the zero one is the earliest.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// exposed returns the classes whose values an engine gets as they are, in any channel that asks one. The grades of classes have no say, which are about
// who may see values; nor has data, which says where engines may have them, and not whether.
func (p *policy) exposed() []string {
	var out []string
	for _, name := range p.classNames() {
		c := classify.Class(name)
		if t, ok := classify.TypeOf(c); ok && t.Optional {
			continue
		}
		if slices.ContainsFunc(append(slices.Collect(maps.Keys(p.Channels)), ""), func(channel string) bool {
			return channel != channelSearch && (p.action(channel, c, DirectionRequest).Leaves() || p.action(channel, c, DirectionPassage).Leaves())
		}) {
			out = append(out, name)
		}
	}
	return out
}

// libraryFacts are what the libraries of a policy come to, beside the starter.
type libraryFacts struct {
	words, risks int
	issued       time.Time // of the oldest; zero: there is none
}

func (l *libraries) facts(s *contentSafety) (out libraryFacts) {
	words, risks := map[string]bool{}, map[safety.Risk]bool{}
	for _, named := range s.Libraries {
		name, version := libraryName(named)
		lib, err := l.library(name, version)
		if err != nil || name == safety.Starter {
			continue
		}
		for _, r := range lib.Rules {
			risks[r.Risk] = true
			for _, w := range r.Words {
				words[w] = true
			}
		}
		if at, err := time.Parse(time.DateOnly, lib.Issued); err == nil && (out.issued.IsZero() || at.Before(out.issued)) {
			out.issued = at
		}
	}
	out.words, out.risks = len(words), len(risks)
	return out
}
