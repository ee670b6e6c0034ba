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

// sensitiveGrade is the least grade of classes that [Coverage] tells of.
const sensitiveGrade = 4

// Coverage is what the policies do that hold for a tenant: the one that holds where no project has its own, and those of its projects.
type Coverage struct {
	Policies int
	Unusable int // requests under them are refused
	// Exposed are the classes of grade 4 and 5 whose values an engine gets as they are, by any of the policies, in requests or passages; sorted.
	Exposed []string
	// In how many policies: content safety is enforced, answers are refused without evidence, all answers are signed, marked, visibly labelled.
	Safe, Answering, Signed, Watermarked, Visible int
	// Library is when the oldest library of content safety was made that a policy uses beside the starter; zero: there is none.
	Library time.Time
}

// Coverage returns it, without asking the database. Error: CodePolicyUnavailable, also where no policy holds.
func (g *Guard) Coverage(tenant string) (Coverage, error) {
	all, err := g.policies.Get()
	if err != nil {
		return Coverage{}, fault.Wrap(err, fault.CodePolicyUnavailable)
	}
	var out Coverage
	exposed := map[string]bool{}
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
		add(&out.Answering, len(p.policy.Answering) > 0)
		add(&out.Signed, p.policy.Signature == signAlways)
		add(&out.Watermarked, p.policy.Watermark != nil)
		add(&out.Visible, p.policy.demandsAgreement() || p.policy.Label == identity.LabelText)
		if issued := g.libraries.oldest(p.policy); !issued.IsZero() && (out.Library.IsZero() || issued.Before(out.Library)) {
			out.Library = issued
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
	return out, nil
}

// exposed returns the sensitive classes whose values an engine gets as they are, in any channel that asks one.
func (p *policy) exposed() []string {
	var out []string
	for _, name := range p.classNames() {
		c := classify.Class(name)
		if p.grade(c) < sensitiveGrade {
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

// oldest is when the oldest library was made that a policy enforces beside the starter.
func (l *libraries) oldest(p *policy) (out time.Time) {
	if p.Safety == nil || p.Safety.Mode != safetyEnforce {
		return out
	}
	for _, s := range p.Safety.Libraries {
		name, version := libraryName(s)
		lib, err := l.library(name, version)
		if err != nil || name == safety.Starter {
			continue
		}
		if at, err := time.Parse(time.DateOnly, lib.Issued); err == nil && (out.IsZero() || at.Before(out)) {
			out = at
		}
	}
	return out
}
