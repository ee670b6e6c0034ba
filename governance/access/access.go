// Package access is a façade: may this principal do this here. It hides casbin behind one method, [Enforcer.Allow].
//
// The model is RBAC with domains, a tenant being a domain: allowed is what some rule allows and no rule denies; everything else,
// an error of the matcher included, is refused. Roles come with the principal, from the identity snapshot, and are not copied
// into casbin, so there is no second list that could be stale. An Enforcer is immutable; a new rule set is a new Enforcer.
package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

const modelText = `
[request_definition]
r = roles, home, operator, dom, perm

[policy_definition]
p = role, scope, perm, eft

[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))

[matchers]
m = r.perm == p.perm && holds(r.roles, p.role) && reaches(p.scope, r.home, r.operator, r.dom)
`

// AllTenants is the domain of things that belong to no single tenant, such as the default policy.
const AllTenants = "*"

// Enforcer decides. It is safe for concurrent use.
type Enforcer struct {
	casbin *casbin.Enforcer

	// Decisions for principals of one role, which is nearly every request: each is asked of casbin once, when it first comes up. Since an
	// Enforcer never changes its rules, the table cannot be stale; it has no more rows than there are roles and permissions.
	mu     sync.RWMutex
	single map[question]bool
}

type question struct {
	role               string
	perm               Permission
	own, operator, all bool // the asked tenant is the principal's; its tenant is the operator; AllTenants is asked
}

// New builds the enforcer for the built-in roles.
func New() (*Enforcer, error) { return build(rules()) }

func build(rules []rule) (*Enforcer, error) {
	for _, r := range rules {
		if _, err := reaches(string(r.scope), "home", true, "home"); err != nil {
			return nil, fmt.Errorf("access rule of %s for %s: %w", r.role, r.perm, err)
		}
	}
	return compile(rules)
}

func compile(rules []rule) (*Enforcer, error) {
	m, err := model.NewModelFromString(modelText)
	if err != nil {
		return nil, fmt.Errorf("access model: %w", err)
	}
	c, err := casbin.NewEnforcer(m)
	if err != nil {
		return nil, fmt.Errorf("access: %w", err)
	}
	c.AddFunction("holds", holds)
	c.AddFunction("reaches", reaches)
	for _, r := range rules {
		if _, err := c.AddPolicy(r.role, string(r.scope), string(r.perm), r.effect); err != nil {
			return nil, fmt.Errorf("access rule: %w", err)
		}
	}
	return &Enforcer{casbin: c, single: map[question]bool{}}, nil
}

// decide reports what the rules say of one role. A question that cannot be decided is a no, and is asked again next time.
func (e *Enforcer) decide(q question) (bool, error) {
	e.mu.RLock()
	ok, known := e.single[q]
	e.mu.RUnlock()
	if known {
		return ok, nil
	}
	dom := "other"
	switch {
	case q.all:
		dom = AllTenants
	case q.own:
		dom = "home"
	}
	ok, err := e.casbin.Enforce(q.role, "home", q.operator, dom, string(q.perm))
	if err != nil {
		return false, fmt.Errorf("access: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.single[q] = ok
	return ok, nil
}

// Allow returns nil if p may use perm in tenant ([AllTenants] for what belongs to none), else a Denied fault that names the
// permission, or CodeKeyScope: the scopes of an API key or service account narrow what its role grants. Neither reaches beyond its tenant, and a
// service account never does what is for people, see [ForPeople].
func (e *Enforcer) Allow(p identity.Principal, perm Permission, tenant string) error {
	for _, c := range checks() {
		if err := c.refuse(e, p, perm, tenant); err != nil {
			return err
		}
	}
	return nil
}

// Check is one thing that a decision depends on.
type Check struct {
	Name  string
	Err   error    // what Allow returns if it is the first; nil: it passes
	Roles []string // of "roles": those of the principal that grant it, or, if none does, those of its kind that would
}

// Explain returns every check of a decision, in the order in which Allow makes them: Allow returns the first error.
func (e *Enforcer) Explain(p identity.Principal, perm Permission, tenant string) []Check {
	var out []Check
	for _, c := range checks() {
		x := Check{Name: c.name, Err: c.refuse(e, p, perm, tenant)}
		if c.name == checkRoles {
			x.Roles = e.grant(p, perm, tenant, x.Err == nil)
		}
		out = append(out, x)
	}
	return out
}

// grant returns the roles that grant a principal a permission, of its own or of all that one of its kind can have.
func (e *Enforcer) grant(p identity.Principal, perm Permission, tenant string, own bool) []string {
	var out []string
	for _, role := range Roles() {
		application := role.ID == identity.RoleApplication
		if own && !slices.Contains(p.Roles, role.ID) || !own && (role.ID == identity.RoleBreakGlass || application != (p.Kind == "key") && p.Kind != "service") {
			continue
		}
		if p.Roles = []string{role.ID}; e.allowRoles(p, perm, tenant) == nil {
			out = append(out, role.ID)
		}
	}
	return out
}

const checkRoles = "roles"

type check struct {
	name   string
	refuse func(e *Enforcer, p identity.Principal, perm Permission, tenant string) error
}

func checks() [5]check {
	return [5]check{
		{"principal", func(_ *Enforcer, p identity.Principal, perm Permission, tenant string) error {
			if p.Tenant == "" || p.Tenant == AllTenants || tenant == "" || len(p.Roles) == 0 {
				return denied(perm, errors.New("principal without tenant or role, or no tenant asked"))
			}
			return nil
		}},
		{"home", func(_ *Enforcer, p identity.Principal, perm Permission, tenant string) error {
			if (p.Kind == "key" || p.Kind == "service") && tenant != p.Tenant {
				return denied(perm, errors.New("outside the tenant of the key or service account"))
			}
			return nil
		}},
		{"people", func(_ *Enforcer, p identity.Principal, perm Permission, _ string) error {
			if p.Kind == "service" && ForPeople(perm) {
				return denied(perm, errors.New("for people only"))
			}
			return nil
		}},
		{checkRoles, (*Enforcer).allowRoles},
		{"scopes", func(_ *Enforcer, p identity.Principal, perm Permission, _ string) error {
			if len(p.Scopes) > 0 && !slices.ContainsFunc(p.Scopes, func(s string) bool { return slices.Contains(Scope(s), perm) }) {
				return fault.New(fault.CodeKeyScope)
			}
			return nil
		}},
	}
}

func (e *Enforcer) allowRoles(p identity.Principal, perm Permission, tenant string) error {
	for _, role := range p.Roles {
		if strings.Contains(role, " ") { // the list is passed joined by spaces
			return denied(perm, errors.New("malformed role"))
		}
	}
	if len(p.Roles) == 1 {
		q := question{p.Roles[0], perm, tenant == p.Tenant, p.Operator, tenant == AllTenants}
		if ok, err := e.decide(q); err != nil || !ok {
			return denied(perm, err)
		}
		return nil
	}
	ok, err := e.casbin.Enforce(strings.Join(p.Roles, " "), p.Tenant, p.Operator, tenant, string(perm))
	if err != nil || !ok {
		return denied(perm, err)
	}
	return nil
}

func denied(perm Permission, cause error) error {
	return fault.Wrap(cause, fault.CodeNotAllowed, string(perm))
}

// Conflicts reports roles that one account may not hold together, and unknown ones.
func Conflicts(roles []string) error { return identity.CheckRoles(roles) }

// holds(roles, role): roles is a space-separated list.
func holds(args ...any) (any, error) {
	if len(args) != 2 {
		return false, errors.New("holds takes two arguments")
	}
	roles, ok1 := args[0].(string)
	role, ok2 := args[1].(string)
	if !ok1 || !ok2 || role == "" {
		return false, errors.New("holds takes two strings")
	}
	return slices.Contains(strings.Split(roles, " "), role), nil
}

// reaches(scope, home, operator, dom)
func reaches(args ...any) (any, error) {
	if len(args) != 4 {
		return false, errors.New("reaches takes four arguments")
	}
	s, ok1 := args[0].(string)
	home, ok2 := args[1].(string)
	operator, ok3 := args[2].(bool)
	dom, ok4 := args[3].(string)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return false, errors.New("reaches takes three strings and a flag")
	}
	switch scope(s) {
	case ownTenant:
		return home == dom, nil
	case installation:
		return operator && (home == dom || dom == AllTenants), nil
	case ofOperator:
		return operator || home == dom, nil
	case operatorOnly:
		return operator, nil
	case everywhere:
		return true, nil
	}
	return false, errors.New("unknown scope")
}
