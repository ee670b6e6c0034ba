package governance

import "strings"

// A policy is published for a scope: a project of a tenant, a tenant, an organisation, or all of them. The most specific one in force holds for a
// request. Scopes are named by texts, which records repeat: TENANT/PROJECT, TENANT, org:ORGANISATION and *. Ids have neither a slash nor a colon nor a
// star, so no two scopes have one name.

// EveryTenant is the scope of all tenants for which no other policy is published.
const EveryTenant = "*"

const (
	organisationMark = "org:"
	projectMark      = "/"

	maxScope = 64 + len(projectMark) + 64
)

// OrganisationScope names the scope of an organisation.
func OrganisationScope(organisation string) string { return organisationMark + organisation }

// ProjectScope names the scope of a project of a tenant.
func ProjectScope(tenant, project string) string { return tenant + projectMark + project }

// ReadScope returns what a scope is of: an organisation, or a tenant, which may be [EveryTenant], and a project or "".
func ReadScope(scope string) (organisation, tenant, project string) {
	if id, ok := strings.CutPrefix(scope, organisationMark); ok {
		return id, "", ""
	}
	tenant, project, _ = strings.Cut(scope, projectMark)
	return "", tenant, project
}

// Scopes returns those whose policy can hold for a scope, the most specific first: the scope itself and all above it.
func (g *Guard) Scopes(scope string) []string {
	organisation, tenant, project := ReadScope(scope)
	var out []string
	if project != "" {
		out = append(out, scope)
	}
	if tenant != "" && tenant != EveryTenant {
		out = append(out, tenant)
		organisation = g.organisation(tenant)
	}
	if organisation != "" {
		out = append(out, OrganisationScope(organisation))
	}
	return append(out, EveryTenant)
}

// organisation returns that of a tenant, "" where none is known.
func (g *Guard) organisation(tenant string) string {
	if g.cfg.Organisation == nil {
		return ""
	}
	return g.cfg.Organisation(tenant)
}
