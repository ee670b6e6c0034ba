package governance

import (
	"slices"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/reveal"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	anyClass = "*"

	minKeep, maxKeep, defaultKeep = time.Minute, 30 * 24 * time.Hour, 24 * time.Hour
	defaultSecond, maxSecond      = 20, 1000
)

// revealPolicy says who may see values again.
type revealPolicy struct {
	KeepSeconds int64        `json:"keep_seconds"` // how long values stay after their last use
	Second      int          `json:"second"`       // so many values in clear within an hour need a second person
	Rules       []revealRule `json:"rules"`
}

type revealRule struct {
	Roles    []string          `json:"roles"`
	Purposes []string          `json:"purposes"` // empty: any that is stated
	Classes  []string          `json:"classes"`  // or "*"
	Grade    int               `json:"grade"`    // the highest
	Show     reveal.Visibility `json:"show"`
}

// visibility returns the most that any rule lets somebody with these roles see of a value, for a purpose. Without a purpose it is nothing.
func (p *policy) visibility(roles []string, purpose string, c classify.Class) reveal.Visibility {
	if p.Reveal == nil || purpose == "" {
		return reveal.VisibleToken
	}
	out := reveal.VisibleToken
	for _, r := range p.Reveal.Rules {
		fits := r.appliesTo(roles) && (len(r.Purposes) == 0 || slices.Contains(r.Purposes, purpose)) &&
			(slices.Contains(r.Classes, anyClass) || slices.Contains(r.Classes, string(c))) && p.grade(c) <= r.Grade
		if fits && r.Show == reveal.VisibleClear {
			return reveal.VisibleClear
		}
		if fits {
			out = r.Show
		}
	}
	return out
}

// revealPurposes returns those that rules for somebody with these roles name, sorted.
func (p *policy) revealPurposes(roles []string) []string {
	if p.Reveal == nil {
		return nil
	}
	var out []string
	for _, r := range p.Reveal.Rules {
		if r.appliesTo(roles) {
			out = append(out, r.Purposes...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// appliesTo reports whether a rule is for any of these roles.
func (r revealRule) appliesTo(roles []string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(r.Roles, role) })
}

// keep returns how long values stay after their last use; 0: they are not stored, since nobody may see them.
func (p *policy) keep() time.Duration {
	if p.Reveal == nil {
		return 0
	}
	return time.Duration(p.Reveal.KeepSeconds) * time.Second
}

func (p *policy) readReveal(n *yaml.Node, path string) error {
	keep := defaultKeep
	r := &revealPolicy{Second: defaultSecond, Rules: []revealRule{}}
	err := object(n, path, []field{
		{"keep", false, span(&keep, minKeep, maxKeep)},
		{"second", false, number(&r.Second, 1, maxSecond)},
		{"rules", true, func(n *yaml.Node, path string) error { return p.readRevealRules(n, path, &r.Rules) }},
	})
	r.KeepSeconds = int64(keep / time.Second)
	p.Reveal = r
	return err
}

func (p *policy) readRevealRules(n *yaml.Node, path string, to *[]revealRule) error {
	if err := rejectAliases(n, path); err != nil {
		return err
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > 100 {
		return errorAt(n, path, fault.Say("governance.reveal_rules"))
	}
	var roles []string
	for _, r := range access.Roles() {
		roles = append(roles, r.ID)
	}
	for i, item := range n.Content {
		r := revealRule{Purposes: []string{}, Grade: maxGrade}
		err := object(item, path+"["+strconv.Itoa(i)+"]", []field{
			{"roles", true, choices(&r.Roles, roles...)},
			{"purposes", false, list(&r.Purposes)},
			{"classes", true, choices(&r.Classes, append(p.classNames(), anyClass)...)},
			{"grade", false, number(&r.Grade, 1, maxGrade)},
			{"show", true, choice((*string)(&r.Show), string(reveal.VisiblePartial), string(reveal.VisibleClear))},
		})
		if err != nil {
			return err
		}
		*to = append(*to, r)
	}
	return nil
}
