package adminapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ExplainAccess implements GET /access/explain.
func (s *Server) ExplainAccess(c *gin.Context, q ExplainAccessParams) {
	out, err := s.explainAccess(c, q)
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) explainAccess(c *gin.Context, q ExplainAccessParams) (out AccessExplanation, err error) {
	op, known := s.operationOf(q.Act)
	if !known {
		return out, fault.New(fault.CodeInvalidValue, "act", fault.Say("adminapi.no_act")).WithParam("act")
	}
	plane := identity.AdminPlane
	if op.id == "" && grants(identity.RoleApplication, op.permission) {
		plane = identity.DataPlane
	}
	account, err := s.deps.Identity.Account(q.Principal, plane)
	if id := s.deps.Identity.PersonNamed(q.Principal); fault.Is(err, fault.CodeNotFound) && id != "" {
		account, err = s.deps.Identity.Account(id, plane)
	}
	if err == nil && account.Principal.Tenant != tenantOf(c) { // who reads a tenant's people learns of no others
		err = fault.New(fault.CodeNotFound, fault.Say("thing.user"), q.Principal)
	}
	if err != nil {
		return out, fault.Public(err).WithParam("principal")
	}
	if account.Principal.Kind == "service" && !slices.Contains(account.Principal.Roles, identity.RoleApplication) && plane == identity.DataPlane {
		if again, err := s.deps.Identity.Account(account.Principal.ID, identity.AdminPlane); err == nil { // its only door
			account = again
		}
	}
	p, in := account.Principal, cmp.Or(deref(q.In), account.Principal.Tenant)
	out = AccessExplanation{
		Id: p.ID, Kind: p.Kind, Name: p.Name, Tenant: p.Tenant, Roles: list(p.Roles), Scopes: list(p.Scopes), Act: q.Act, Permission: optional(string(op.permission)), In: in, Model: q.Model,
		Allowed: true, Checks: []AccessCheck{},
	}
	lang := language(c.GetHeader("Accept-Language"))
	check := func(name string, err error, roles ...string) {
		x := AccessCheck{Check: name, Verdict: AccessPasses, Roles: list(roles)}
		if err != nil {
			public := fault.Public(err)
			x.Verdict, x.Code, x.Why, out.Allowed = AccessRefuses, optional(string(public.Code())), optional(public.Message(lang)), false
		}
		out.Checks = append(out.Checks, x)
	}
	demand := func(name string, err error) {
		public := fault.Public(err)
		out.Checks = append(out.Checks, AccessCheck{Check: name, Verdict: AccessDemands, Code: optional(string(public.Code())), Why: optional(public.Message(lang)), Roles: []string{}})
	}
	if first := account.Refusal; op.id != "" && (fault.Is(first, fault.CodeChangePassword) || fault.Is(first, fault.CodeEnrolFactor)) {
		account.Refusal = op.refusesBefore(p)
	}
	check("account", account.Refusal)
	if op.id != "" {
		check("credential", op.refusesKind(p.Kind))
	}
	if perm := s.permissionFor(op, p, in); perm != "" {
		for _, x := range s.deps.Access.Explain(p, perm, in) {
			check(x.Name, x.Err, x.Roles...)
		}
	}
	m := deref(q.Model)
	if m != "" {
		check("models", allowed(m, p.MayUse(m)))
	}
	// What is another tenant's is told of those alone who may act there, and to those who may read it.
	tells := out.Allowed && s.deps.Access.Allow(caller(c), access.PolicyRead, in) == nil
	if tells && in != access.AllTenants {
		_, err := s.deps.Identity.FindTenant(c.Request.Context(), in)
		check("tenant", cmp.Or(err, s.requireOpen(op, in)))
	}
	if m != "" && tells {
		check("policy", allowed(m, slices.Contains(s.deps.Guard.Models(c.Request.Context(), in, p.Project, []string{m}), m)))
	}
	if len(account.Networks) > 0 {
		demand("network", fault.New(fault.CodeKeyNetwork))
		out.Checks[len(out.Checks)-1].Why = optional(strings.Join(account.Networks, ", "))
	}
	if op.wantsFactor(p) {
		demand("second_factor", s.deps.Guard.Approvals().RequireFreshSignIn(identity.Principal{SecondFactor: p.SecondFactor}))
	}
	duties, err := s.deps.Identity.Duties()
	if op.secondPerson && duties == identity.DutiesSeparated {
		demand("second_person", fault.New(fault.CodeActApproval))
	}
	return out, err
}

// operationOf returns the operation of the management API with this id, or one that needs the permission of this name alone.
func (s *Server) operationOf(act string) (operation, bool) {
	for _, op := range s.operations {
		if op.id == act {
			return op, !op.public
		}
	}
	perm := access.Permission(act)
	return operation{permission: perm}, slices.Contains(access.Permissions(), perm)
}

// permissionFor returns the permission that decides: that of the operation, or, where only this one is granted, that for what is the caller's own.
func (s *Server) permissionFor(op operation, p identity.Principal, tenant string) access.Permission {
	if op.own != "" && s.deps.Access.Allow(p, op.permission, tenant) != nil && s.deps.Access.Allow(p, op.own, tenant) == nil {
		return op.own
	}
	return op.permission
}

func allowed(model string, ok bool) error {
	if ok {
		return nil
	}
	return fault.New(fault.CodeModelNotAllowed, model)
}

// grants reports whether a role has a permission.
func grants(role string, perm access.Permission) bool {
	return slices.ContainsFunc(access.Roles(), func(r access.Role) bool { return r.ID == role && slices.Contains(r.Permissions, perm) })
}
