package governance

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/governance/reveal"
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

// RevealPurposes returns those that the policy in force names for somebody with these roles; a rule may take any, besides. Error:
// CodePolicyUnavailable.
func (g *Guard) RevealPurposes(tenant string, roles []string) ([]string, error) {
	active, err := g.policy(tenant)
	if err != nil {
		return nil, err
	}
	return active.policy.revealPurposes(roles), nil
}

// revealRules are the rules of a tenant's policy in force. Error: CodePolicyUnavailable.
func (g *Guard) revealRules(tenant string, roles []string, purpose string) (reveal.Rules, error) {
	active, err := g.policy(tenant)
	if err != nil {
		return reveal.Rules{}, err
	}
	p, second := active.policy, defaultSecond
	if p.Reveal != nil {
		second = p.Reveal.Second
	}
	return reveal.Rules{
		Detectors: active.detectors, SecondPersonFrom: second,
		Visibility: func(c classify.Class) reveal.Visibility { return p.visibility(roles, purpose, c) },
		Grade:      func(c classify.Class) int { return p.grade(c) },
	}, nil
}

// Values returns where the values are kept, for whoever erases them.
func (g *Guard) Values() *pseudonym.Store { return g.values }

// Sweep removes the values whose time is over until ctx ends.
func (g *Guard) Sweep(ctx context.Context) error { return g.values.Run(ctx) }

// Close waits for what is being stored.
func (g *Guard) Close() error { return g.values.Close() }
