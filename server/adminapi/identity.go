package adminapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListTenants implements GET /tenants.
func (s *Server) ListTenants(c *gin.Context, params ListTenantsParams) {
	tenants, err := s.deps.Identity.ListTenants(c.Request.Context())
	if err != nil {
		s.Fail(c, err)
		return
	}
	// Who may read tenants in one tenant only sees that one.
	all := s.spans(c, access.TenantsRead) == nil
	tenants = slices.DeleteFunc(tenants, func(t identity.Tenant) bool {
		return !all && s.deps.Access.Allow(caller(c), access.TenantsRead, t.ID) != nil
	})
	part, next, err := page(tenants, params.Cursor, params.Limit)
	out := TenantPage{Items: []Tenant{}, Next: next}
	for _, t := range part {
		out.Items = append(out.Items, s.tenantView(t))
	}
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) tenantView(t identity.Tenant) Tenant {
	return Tenant{
		Id: t.ID, Name: t.Name, Organisation: t.Organisation, Operator: t.Operator, Labels: labelsView(t.Labels), Limits: limitsView(t.Limits),
		CreatedAt: t.CreatedAt.UTC(), Suspension: s.suspensionView(t.Suspension), ClosedAt: optionalTime(t.ClosedAt),
	}
}

// CreateTenant implements POST /tenants.
func (s *Server) CreateTenant(c *gin.Context) {
	in, err := decode[NewTenant](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, in.Id, nil)
	err = s.deps.Identity.CreateTenant(c.Request.Context(), identity.Tenant{
		ID: in.Id, Name: in.Name, Organisation: deref(in.Organisation), Labels: deref(in.Labels), Limits: limitsOf(deref(in.Limits)),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	tenants, err := s.deps.Identity.ListTenants(c.Request.Context())
	i := slices.IndexFunc(tenants, func(t identity.Tenant) bool { return t.ID == in.Id })
	if err == nil && i < 0 {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), in.Id)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	s.reply(c, http.StatusCreated, s.tenantView(tenants[i]), nil)
}

// ChangeTenant implements PATCH /tenants/{id}.
func (s *Server) ChangeTenant(c *gin.Context, id IdPath) {
	in, err := decode[TenantChange](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.ChangeTenant(c.Request.Context(), id, levelChange(in.Name, in.Labels, in.Limits))
	if err == nil {
		about(c, id, levelChanges(before.Name, after.Name, before.Labels, after.Labels, before.Limits, after.Limits))
	}
	s.reply(c, http.StatusOK, s.tenantView(after), err)
}

// SuspendTenant implements POST /tenants/{id}/suspend.
func (s *Server) SuspendTenant(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.SuspendTenant(c.Request.Context(), id, caller(c).ID, in.Reason)
	suspended(c, id, in.Reason, before.Suspension, after.Suspension)
	s.reply(c, http.StatusOK, s.tenantView(after), err)
}

// ResumeTenant implements POST /tenants/{id}/resume.
func (s *Server) ResumeTenant(c *gin.Context, id IdPath) {
	in, err := decode[Resumption](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.ResumeTenant(c.Request.Context(), id, in.Since)
	if err == nil {
		resumed(c, id, before.Suspension)
	}
	s.reply(c, http.StatusOK, s.tenantView(after), err)
}

// ListUsers implements GET /users.
func (s *Server) ListUsers(c *gin.Context, params ListUsersParams) {
	users, err := s.deps.Identity.ListUsers(c.Request.Context(), tenantOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(users, params.Cursor, params.Limit)
	out := UserPage{Items: []User{}, Next: next}
	for _, u := range part {
		out.Items = append(out.Items, s.userView(u))
	}
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) userView(u identity.User) User {
	return User{
		Id: u.ID, Tenant: u.Tenant, Name: u.Name, Roles: list(u.Roles), Labels: list(u.Labels), Disabled: u.Disabled, MustChangePassword: u.MustChange,
		SecondFactor: s.deps.Identity.HasSecondFactor(u.ID), OneTimeUntil: optionalTime(u.OneTimeUntil), CreatedAt: u.CreatedAt.UTC(), LastSignInAt: optionalTime(u.LastSignInAt),
		Provider: optional(s.deps.Identity.ProviderName(u.ID)),
	}
}

// CreateUser implements POST /users.
func (s *Server) CreateUser(c *gin.Context) {
	in, err := decode[NewUser](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if err := s.changer(c).Manages(in.Roles); err != nil {
		s.Fail(c, err)
		return
	}
	u, err := s.deps.Identity.CreateUser(c.Request.Context(), identity.NewUser{
		Tenant: tenantOf(c), Name: in.Name, Password: in.Password, Roles: in.Roles, Labels: deref(in.Labels), CreatedBy: caller(c).ID,
		MustChange: deref(in.MustChangePassword),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, u.ID, map[string]string{"roles": strings.Join(u.Roles, ",")})
	s.reply(c, http.StatusCreated, s.userView(u), nil)
}

// DisableUser implements POST /users/{id}/disable.
func (s *Server) DisableUser(c *gin.Context, id IdPath, _ DisableUserParams) {
	u, err := s.deps.Identity.DisableUser(c.Request.Context(), s.changer(c), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.userView(u), err)
}

// changer says who changes an account. A platform administrator may do everything everywhere: only another one makes and manages one.
func (s *Server) changer(c *gin.Context) identity.Administrator {
	p := caller(c)
	return identity.Administrator{ID: p.ID, Platform: slices.Contains(p.Roles, identity.RolePlatformAdmin), Emergency: p.Kind == identity.KindEmergency}
}

// ChangeUser implements PATCH /users/{id}.
func (s *Server) ChangeUser(c *gin.Context, id IdPath, _ ChangeUserParams) {
	in, err := decode[UserChange](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.ChangeUser(c.Request.Context(), s.changer(c), tenantOf(c), id, identity.UserChange{Roles: in.Roles, Labels: in.Labels})
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{}
	noteChange(detail, "roles", strings.Join(before.Roles, ","), strings.Join(after.Roles, ","))
	noteChange(detail, "labels", strings.Join(before.Labels, ","), strings.Join(after.Labels, ","))
	about(c, id, detail)
	s.reply(c, http.StatusOK, s.userView(after), nil)
}

// noteChange adds what something was and is now to the detail of a record, if it is not the same.
func noteChange(detail map[string]string, what, before, after string) {
	if before != after {
		detail[what], detail["former_"+what] = truncate(after, maxResource), truncate(before, maxResource)
	}
}

// EnableUser implements POST /users/{id}/enable.
func (s *Server) EnableUser(c *gin.Context, id IdPath, _ EnableUserParams) {
	u, err := s.deps.Identity.EnableUser(c.Request.Context(), s.changer(c), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.userView(u), err)
}

// ResetPassword implements POST /users/{id}/password-reset.
func (s *Server) ResetPassword(c *gin.Context, id IdPath, _ ResetPasswordParams) {
	u, password, err := s.deps.Identity.ResetPassword(c.Request.Context(), s.changer(c), tenantOf(c), id)
	s.reply(c, http.StatusOK, PasswordReset{User: s.userView(u), Password: password}, err)
}

// ResetSecondFactor implements POST /users/{id}/second-factor-reset.
func (s *Server) ResetSecondFactor(c *gin.Context, id IdPath, _ ResetSecondFactorParams) {
	u, err := s.deps.Identity.ResetFactor(c.Request.Context(), s.changer(c), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.userView(u), err)
}

// ListRoles implements GET /roles.
func (s *Server) ListRoles(c *gin.Context) {
	out := RoleList{Items: []Role{}}
	for _, r := range access.Roles() {
		view := Role{Name: r.ID, Permissions: []string{}, Conflicts: []string{}}
		for _, p := range r.Permissions {
			view.Permissions = append(view.Permissions, string(p))
		}
		for _, other := range access.Roles() {
			if other.ID != r.ID && access.Conflicts([]string{r.ID, other.ID}) != nil {
				view.Conflicts = append(view.Conflicts, other.ID)
			}
		}
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, nil)
}
