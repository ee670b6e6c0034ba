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
	tenants = slices.DeleteFunc(tenants, func(t identity.Tenant) bool {
		return s.deps.Access.Allow(caller(c), access.TenantsRead, t.ID) != nil
	})
	part, next, err := page(tenants, params.Cursor, params.Limit)
	out := TenantPage{Items: []Tenant{}, Next: next}
	for _, t := range part {
		out.Items = append(out.Items, tenantView(t))
	}
	s.reply(c, http.StatusOK, out, err)
}

func tenantView(t identity.Tenant) Tenant {
	return Tenant{Id: t.ID, Name: t.Name, CreatedAt: t.CreatedAt.UTC()}
}

// CreateTenant implements POST /tenants.
func (s *Server) CreateTenant(c *gin.Context) {
	in, err := decode[NewTenant](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, in.Id, nil)
	if err := s.deps.Identity.CreateTenant(c.Request.Context(), identity.Tenant{ID: in.Id, Name: in.Name}); err != nil {
		s.Fail(c, err)
		return
	}
	tenants, err := s.deps.Identity.ListTenants(c.Request.Context())
	i := slices.IndexFunc(tenants, func(t identity.Tenant) bool { return t.ID == in.Id })
	if err == nil && i < 0 {
		err = fault.New(fault.CodeNotFound, fault.Say("tenant", "租户"), in.Id)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	s.reply(c, http.StatusCreated, tenantView(tenants[i]), nil)
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
		out.Items = append(out.Items, userView(u))
	}
	s.reply(c, http.StatusOK, out, err)
}

func userView(u identity.User) User {
	return User{
		Id: u.ID, Tenant: u.Tenant, Name: u.Name, Roles: list(u.Roles), Labels: list(u.Labels), Disabled: u.Disabled, CreatedAt: u.CreatedAt.UTC(),
	}
}

// CreateUser implements POST /users.
func (s *Server) CreateUser(c *gin.Context) {
	in, err := decode[NewUser](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	// A platform administrator may do everything everywhere: only another one makes one.
	if slices.Contains(in.Roles, identity.RolePlatformAdmin) {
		if err := s.deps.Access.Allow(caller(c), access.UsersWrite, access.AllTenants); err != nil {
			s.Fail(c, err)
			return
		}
	}
	u, err := s.deps.Identity.CreateUser(c.Request.Context(), identity.NewUser{
		Tenant: tenantOf(c), Name: in.Name, Password: in.Password, Roles: in.Roles, Labels: deref(in.Labels), CreatedBy: caller(c).ID,
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, u.ID, map[string]string{"roles": strings.Join(u.Roles, ",")})
	s.reply(c, http.StatusCreated, userView(u), nil)
}

// DisableUser implements POST /users/{id}/disable.
func (s *Server) DisableUser(c *gin.Context, id IdPath, _ DisableUserParams) {
	ctx := c.Request.Context()
	if id == caller(c).ID {
		s.Fail(c, fault.New(fault.CodeConflict, fault.Say("you cannot disable the account you are signed in with", "不能停用当前登录的账号")))
		return
	}
	if err := s.deps.Identity.DisableUser(ctx, tenantOf(c), id); err != nil {
		s.Fail(c, err)
		return
	}
	users, err := s.deps.Identity.ListUsers(ctx, tenantOf(c))
	i := slices.IndexFunc(users, func(u identity.User) bool { return u.ID == id })
	if err == nil && i < 0 {
		err = fault.New(fault.CodeNotFound, fault.Say("user", "用户"), id)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, userView(users[i]), nil)
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

// ListKeys implements GET /keys.
func (s *Server) ListKeys(c *gin.Context, params ListKeysParams) {
	keys, err := s.deps.Identity.ListKeys(c.Request.Context(), tenantOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(keys, params.Cursor, params.Limit)
	out := KeyPage{Items: []Key{}, Next: next}
	for _, k := range part {
		out.Items = append(out.Items, keyView(k))
	}
	s.reply(c, http.StatusOK, out, err)
}

func keyView(k identity.Key) Key {
	out := Key{
		Id: k.ID, Tenant: k.Tenant, Project: k.Project, Name: k.Name, Prefix: "sk-sluice-" + k.ID, Labels: list(k.Labels),
		LabelMode: LabelMode(k.LabelMode), CreatedAt: k.CreatedAt.UTC(),
		ExpiresAt: given(k.ExpiresAt), RevokedAt: given(k.RevokedAt),
		Limits: Limits{RequestsPerMinute: k.Limits.RequestsPerMinute, TokensPerMinute: k.Limits.TokensPerMinute, Concurrent: k.Limits.Concurrent},
	}
	if out.LabelMode == "" {
		out.LabelMode = LabelMode(identity.LabelMetadata)
	}
	return out
}

// CreateKey implements POST /keys.
func (s *Server) CreateKey(c *gin.Context) {
	in, err := decode[NewKey](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	limits := deref(in.Limits)
	k, secret, err := s.deps.Identity.CreateKey(c.Request.Context(), identity.NewKey{
		Tenant: tenantOf(c), Project: deref(in.Project), Name: in.Name, Labels: deref(in.Labels), LabelMode: string(deref(in.LabelMode)),
		Limits:    identity.Limits{RequestsPerMinute: limits.RequestsPerMinute, TokensPerMinute: limits.TokensPerMinute, Concurrent: limits.Concurrent},
		ExpiresAt: deref(in.ExpiresAt), CreatedBy: caller(c).ID,
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, k.ID, nil)
	s.reply(c, http.StatusCreated, CreatedKey{Key: keyView(k), Secret: secret}, nil)
}

// RevokeKey implements POST /keys/{id}/revoke.
func (s *Server) RevokeKey(c *gin.Context, id IdPath, _ RevokeKeyParams) {
	ctx := c.Request.Context()
	if err := s.deps.Identity.RevokeKey(ctx, tenantOf(c), id); err != nil {
		s.Fail(c, err)
		return
	}
	keys, err := s.deps.Identity.ListKeys(ctx, tenantOf(c))
	i := slices.IndexFunc(keys, func(k identity.Key) bool { return k.ID == id })
	if err == nil && i < 0 {
		err = fault.New(fault.CodeNotFound, fault.Say("key", "密钥"), id)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, keyView(keys[i]), nil)
}
