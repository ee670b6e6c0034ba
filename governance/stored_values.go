package governance

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/governance/reveal"
	"github.com/sluice-project/sluice/internal/fault"
)

// What stands before the name of a scope says what it is of.
const (
	scopeSession = "session/"
	scopeRequest = "request/"
)

// scopeOf returns what pseudonyms are made from: the conversation, unless the policy wants new ones for each request.
func scopeOf(p *policy, session, request string) (scope string, ofSession bool) {
	switch {
	case session != "" && p.Pseudonyms != pseudonymsPerRequest:
		return scopeSession + session, true
	case request != "":
		return scopeRequest + request, false
	default:
		return "random/" + uuid.NewString(), false
	}
}

// RequestScopes are where the values of one request may be kept: under its conversation, or under itself.
func RequestScopes(session, request string) []string {
	scopes := []string{scopeRequest + request}
	if session != "" {
		scopes = append(scopes, scopeSession+session)
	}
	return scopes
}

// StoreValues stores the values that got a pseudonym since the last call, if the policy lets anybody see values again; otherwise no value is ever
// stored. They are kept under the conversation if the caller gave it a name, else under the request: what begins alike is not one conversation.
// Call it before pseudonyms leave, to an engine or to the caller: after an error they must not. Errors: CodeVaultFull, CodeVaultUnavailable.
func (a *Admission) StoreValues(ctx context.Context) error {
	keep := a.active.policy.keep()
	if keep == 0 {
		return nil
	}
	a.storeMu.Lock()
	defer a.storeMu.Unlock()
	fresh := a.pseudonyms.Fresh()
	if len(fresh) == 0 {
		return nil
	}
	t := pseudonym.Turn{Tenant: a.tenant, Scope: a.storeScope, Name: a.name, Keep: keep, Subject: a.subject, Began: a.epoch}
	for _, e := range fresh {
		t.Values = append(t.Values, pseudonym.Value{Code: e.Code, Class: string(e.Class), Text: e.Text})
	}
	if err := a.guard.values.Store(ctx, t); err != nil {
		return err
	}
	a.pseudonyms.Saved(len(fresh))
	return nil
}

// Reveals returns what shows people the values behind pseudonyms.
func (g *Guard) Reveals() *reveal.Service { return g.reveals }

// Approvals returns what a second person has to permit, of every kind.
func (g *Guard) Approvals() *approval.Store { return g.approvals }

// RevealPurposes returns those that the policy of a tenant names for somebody with these roles; a rule may take any, besides. Error:
// CodePolicyUnavailable.
func (g *Guard) RevealPurposes(tenant string, roles []string) ([]string, error) {
	active, err := g.policy(tenant, "")
	if err != nil {
		return nil, err
	}
	return active.policy.revealPurposes(roles), nil
}

// revealRules are the rules of a tenant's policy in force. A stored value does not say of which project it is, so it is shown as far as every policy
// in force in the tenant lets it: what one project's policy opens does not open the values of another. Error: CodePolicyUnavailable.
func (g *Guard) revealRules(tenant string, roles []string, purpose string) (reveal.Rules, error) {
	all, err := g.policiesIn(tenant)
	if err != nil {
		return reveal.Rules{}, err
	}
	second := defaultSecond
	for i, active := range all {
		if r := active.policy.Reveal; r != nil && (i == 0 || r.Second < second) {
			second = r.Second
		}
	}
	return reveal.Rules{
		Detectors: all[0].detectors, SecondPersonFrom: second,
		Visibility: func(c classify.Class) reveal.Visibility { return leastVisible(all, roles, purpose, c) },
		Grade: func(c classify.Class) int {
			most := 0
			for _, active := range all {
				most = max(most, active.policy.grade(c))
			}
			return most
		},
	}, nil
}

// policiesIn returns the policy in force for a tenant, and those of its projects. One that cannot be used is an error.
func (g *Guard) policiesIn(tenant string) ([]activePolicy, error) {
	first, err := g.policy(tenant, "")
	if err != nil {
		return nil, err
	}
	published, err := g.policies.Get()
	if err != nil {
		return nil, fault.Wrap(err, fault.CodePolicyUnavailable)
	}
	out := []activePolicy{first}
	for scope, active := range published {
		if _, of, project := ReadScope(scope); of != tenant || project == "" {
			continue
		}
		if active.broken != nil {
			return nil, fault.Wrap(active.broken, fault.CodePolicyUnavailable)
		}
		out = append(out, active)
	}
	return out, nil
}

// leastVisible returns the least that one of some policies lets somebody see of a value.
func leastVisible(all []activePolicy, roles []string, purpose string, c classify.Class) reveal.Visibility {
	least := reveal.VisibleClear
	for _, active := range all {
		switch v := active.policy.visibility(roles, purpose, c); v {
		case reveal.VisibleClear:
		case reveal.VisiblePartial:
			least = v
		case reveal.VisibleToken, reveal.VisibleUnknown:
			return reveal.VisibleToken
		}
	}
	return least
}

// Values returns where the values are kept, for whoever erases them.
func (g *Guard) Values() *pseudonym.Store { return g.values }

// Sweep removes the values whose time is over until ctx ends.
func (g *Guard) Sweep(ctx context.Context) error { return g.values.Run(ctx) }

// Close waits for what is being stored.
func (g *Guard) Close() error { return g.values.Close() }
