package billing

import (
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// Scope is what a budget bounds: an organisation with all its tenants, a tenant, a project of one, or an API key of one. One field says which,
// beside the tenant of a project and of a key.
type Scope struct {
	Organisation         string
	Tenant, Project, Key string
}

// check refuses what is no scope.
func (s Scope) check() error {
	if s == (Scope{}) {
		return fault.New(fault.CodeMissing, "tenant").WithParam("tenant")
	}
	ofTenant := s.Tenant != "" && s.Organisation == "" && (s.Project == "" || s.Key == "")
	ofOrganisation := s.Organisation != "" && s == Scope{Organisation: s.Organisation}
	if !ofTenant && !ofOrganisation || strings.Contains(s.Tenant+s.Organisation+s.Project+s.Key, ":") {
		return fault.New(fault.CodeInvalidValue, "tenant", fault.Say("billing.budget_scope")).WithParam("tenant")
	}
	return nil
}

// covers reports whether what somebody spends counts against the scope.
func (s Scope) covers(of Scope) bool {
	switch {
	case s.Organisation != "":
		return s.Organisation == of.Organisation
	case s.Project != "":
		return s.Tenant == of.Tenant && s.Project == of.Project
	case s.Key != "":
		return s.Tenant == of.Tenant && s.Key == of.Key
	}
	return s.Tenant == of.Tenant
}

// The marks of scopes in the two columns that name one. No id has a colon, so nothing else reads like them; to the release before, such a budget is
// that of a tenant or of a key which is not there.
const (
	organisationMark = "org:"
	projectMark      = "project:"
)

// columns returns the tenant and the key that a row of the scope has.
func (s Scope) columns() (tenant, key string) {
	switch {
	case s.Organisation != "":
		return organisationMark + s.Organisation, ""
	case s.Project != "":
		return s.Tenant, projectMark + s.Project
	}
	return s.Tenant, s.Key
}

// scopeOf reads the columns of a row.
func scopeOf(tenant, key string) Scope {
	if id, ok := strings.CutPrefix(tenant, organisationMark); ok {
		return Scope{Organisation: id}
	}
	if id, ok := strings.CutPrefix(key, projectMark); ok {
		return Scope{Tenant: tenant, Project: id}
	}
	return Scope{Tenant: tenant, Key: key}
}

// name says what the scope is, in a sentence.
func (s Scope) name() fault.Phrase {
	switch {
	case s.Organisation != "":
		return fault.Say("level.organisation", s.Organisation)
	case s.Project != "":
		return fault.Say("level.project", s.Project)
	case s.Key != "":
		return fault.Say("level.key", s.Key)
	}
	return fault.Say("level.tenant", s.Tenant)
}
