package adminapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListServiceAccounts implements GET /service-accounts.
func (s *Server) ListServiceAccounts(c *gin.Context, params ListServiceAccountsParams) {
	all, err := s.deps.Identity.ListServiceAccounts(c.Request.Context(), tenantOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(all, params.Cursor, params.Limit)
	out := ServiceAccountPage{Items: []ServiceAccount{}, Next: next}
	for _, a := range part {
		out.Items = append(out.Items, s.serviceView(a))
	}
	s.reply(c, http.StatusOK, out, err)
}

// GetServiceAccount implements GET /service-accounts/{id}.
func (s *Server) GetServiceAccount(c *gin.Context, id IdPath, _ GetServiceAccountParams) {
	a, err := s.deps.Identity.ServiceAccount(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.serviceView(a), err)
}

func (s *Server) serviceView(a identity.ServiceAccount) ServiceAccount {
	out := ServiceAccount{
		Id: a.ID, Tenant: a.Tenant, Project: a.Project, Name: a.Name, Roles: list(a.Roles), Labels: list(a.Labels), Scopes: scopesView(a.Scopes),
		Models: list(a.Models), Networks: list(a.Networks), Limits: limitsView(a.Limits), Owner: s.person(a.Owner), State: s.serviceState(a),
		HasSecret: a.HasSecret, FormerSecretExpiresAt: optionalTime(a.FormerExpiresAt), RotatedAt: optionalTime(a.RotatedAt), Keys: []ServiceKey{},
		CreatedAt: a.CreatedAt.UTC(), CreatedBy: s.person(a.CreatedBy), ExpiresAt: a.ExpiresAt.UTC(), LastUsedAt: optionalTime(a.LastUsedAt),
	}
	for _, k := range a.Keys {
		out.Keys = append(out.Keys, ServiceKey{Id: k.ID, Algorithm: ServiceKeyAlgorithm(k.Algorithm), CreatedAt: k.CreatedAt.UTC(), CreatedBy: s.person(k.CreatedBy)})
	}
	return out
}

func (s *Server) serviceState(a identity.ServiceAccount) ServiceAccountState {
	switch {
	case a.Disabled:
		return ServiceAccountState("disabled")
	case !a.ExpiresAt.After(s.now()):
		return ServiceAccountState("expired")
	case a.Suspended:
		return ServiceAccountState("suspended")
	}
	return ServiceAccountState("active")
}

// ownerNamed returns the id of the person whom a request names as an owner.
func (s *Server) ownerNamed(name *string, otherwise string) (string, error) {
	if name == nil {
		return otherwise, nil
	}
	id := s.deps.Identity.PersonNamed(*name)
	if id == "" {
		return "", fault.New(fault.CodeNotFound, fault.Say("thing.user"), *name)
	}
	return id, nil
}

// CreateServiceAccount implements POST /service-accounts.
func (s *Server) CreateServiceAccount(c *gin.Context) {
	in, err := decode[NewServiceAccount](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	owner, err := s.ownerNamed(in.Owner, caller(c).ID)
	if err != nil {
		s.Fail(c, err)
		return
	}
	a, secret, err := s.deps.Identity.CreateServiceAccount(c.Request.Context(), identity.NewServiceAccount{
		Tenant: tenantOf(c), Project: deref(in.Project), Name: in.Name, Roles: in.Roles, Labels: deref(in.Labels), Scopes: scopesOf(deref(in.Scopes)),
		Models: deref(in.Models), Networks: deref(in.Networks), Limits: limitsOf(deref(in.Limits)), Owner: owner, ExpiresAt: deref(in.ExpiresAt),
		PublicKeys: deref(in.Keys), CreatedBy: caller(c).ID,
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, a.ID, serviceChanges(identity.ServiceAccount{}, a))
	s.reply(c, http.StatusCreated, s.withServiceSecret(a, secret), nil)
}

// withServiceSecret shows a service account with its secret, this once, and where it gets tokens.
func (s *Server) withServiceSecret(a identity.ServiceAccount, secret string) CreatedServiceAccount {
	return CreatedServiceAccount{Account: s.serviceView(a), Secret: optional(secret), TokenUrl: s.deps.TokenURL(a.Plane())}
}

// ChangeServiceAccount implements PATCH /service-accounts/{id}.
func (s *Server) ChangeServiceAccount(c *gin.Context, id IdPath, _ ChangeServiceAccountParams) {
	in, err := decode[ServiceAccountChange](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	change := identity.ServiceChange{
		Name: in.Name, Project: in.Project, Roles: in.Roles, Labels: in.Labels, Models: in.Models, Networks: in.Networks, ExpiresAt: in.ExpiresAt,
	}
	if in.Owner != nil {
		owner, err := s.ownerNamed(in.Owner, "")
		if err != nil {
			s.Fail(c, err)
			return
		}
		change.Owner = &owner
	}
	if in.Scopes != nil {
		scopes := scopesOf(*in.Scopes)
		change.Scopes = &scopes
	}
	if in.Limits != nil {
		limits := limitsOf(*in.Limits)
		change.Limits = &limits
	}
	before, after, err := s.deps.Identity.ChangeServiceAccount(c.Request.Context(), tenantOf(c), id, change)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, serviceChanges(before, after))
	s.reply(c, http.StatusOK, s.serviceView(after), nil)
}

// serviceChanges says in the record what was and what is; of a new account there was nothing.
func serviceChanges(before, after identity.ServiceAccount) map[string]string {
	detail := map[string]string{}
	for _, f := range []changed{
		{"name", before.Name, after.Name},
		{"project", before.Project, after.Project},
		{"roles", strings.Join(before.Roles, ","), strings.Join(after.Roles, ",")},
		{"labels", strings.Join(before.Labels, ","), strings.Join(after.Labels, ",")},
		{"scopes", strings.Join(before.Scopes, ","), strings.Join(after.Scopes, ",")},
		{"models", strings.Join(before.Models, ","), strings.Join(after.Models, ",")},
		{"networks", strings.Join(before.Networks, ","), strings.Join(after.Networks, ",")},
		{"limits", limitsText(before.Limits), limitsText(after.Limits)},
		{"owner", before.Owner, after.Owner},
		{"expires_at", timeOrNone(before.ExpiresAt), timeOrNone(after.ExpiresAt)},
		{"keys", keyIDs(before), keyIDs(after)},
	} {
		if noteChange(detail, f.what, f.before, f.after); before.ID == "" {
			delete(detail, "former_"+f.what)
		}
	}
	return detail
}

func timeOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func keyIDs(a identity.ServiceAccount) string {
	var ids []string
	for _, k := range a.Keys {
		ids = append(ids, k.ID)
	}
	return strings.Join(ids, ",")
}

// RemoveServiceAccount implements DELETE /service-accounts/{id}.
func (s *Server) RemoveServiceAccount(c *gin.Context, id IdPath, _ RemoveServiceAccountParams) {
	s.reply(c, http.StatusNoContent, nil, s.deps.Identity.RemoveServiceAccount(c.Request.Context(), tenantOf(c), id))
}

// DisableServiceAccount implements POST /service-accounts/{id}/disable.
func (s *Server) DisableServiceAccount(c *gin.Context, id IdPath, _ DisableServiceAccountParams) {
	a, err := s.deps.Identity.DisableServiceAccount(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.serviceView(a), err)
}

// EnableServiceAccount implements POST /service-accounts/{id}/enable.
func (s *Server) EnableServiceAccount(c *gin.Context, id IdPath, _ EnableServiceAccountParams) {
	a, err := s.deps.Identity.EnableServiceAccount(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.serviceView(a), err)
}

// RotateServiceSecret implements POST /service-accounts/{id}/secret.
func (s *Server) RotateServiceSecret(c *gin.Context, id IdPath, _ RotateServiceSecretParams) {
	in, err := decode[KeyRotation](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	overlap := defaultOverlap
	if in.OverlapHours != nil {
		overlap = *in.OverlapHours
	}
	a, secret, err := s.deps.Identity.RotateServiceSecret(c.Request.Context(), tenantOf(c), id, time.Duration(overlap)*time.Hour)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"overlap_hours": strconv.Itoa(overlap)})
	s.reply(c, http.StatusOK, s.withServiceSecret(a, secret), nil)
}

// RemoveServiceSecret implements DELETE /service-accounts/{id}/secret.
func (s *Server) RemoveServiceSecret(c *gin.Context, id IdPath, _ RemoveServiceSecretParams) {
	a, err := s.deps.Identity.RemoveServiceSecret(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.serviceView(a), err)
}

// AddServiceKeys implements POST /service-accounts/{id}/keys.
func (s *Server) AddServiceKeys(c *gin.Context, id IdPath, _ AddServiceKeysParams) {
	in, err := decode[NewServiceKeys](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	a, err := s.deps.Identity.AddServiceKeys(c.Request.Context(), tenantOf(c), id, in.Keys, caller(c).ID)
	if err == nil {
		about(c, id, map[string]string{"keys": truncate(keyIDs(a), maxResource)})
	}
	s.reply(c, http.StatusOK, s.serviceView(a), err)
}

// RemoveServiceKey implements DELETE /service-accounts/{id}/keys/{key}.
func (s *Server) RemoveServiceKey(c *gin.Context, id IdPath, key KeyPath, _ RemoveServiceKeyParams) {
	a, err := s.deps.Identity.RemoveServiceKey(c.Request.Context(), tenantOf(c), id, key)
	s.reply(c, http.StatusOK, s.serviceView(a), err)
}
