package identity

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// Plane says which door a credential was shown at.
type Plane string

// The planes.
const (
	DataPlane  Plane = "data"  // API keys, and tokens of service accounts that are applications
	AdminPlane Plane = "admin" // session tokens, tokens of other service accounts, and API keys that may read
)

// The roles. What each may do is data in package access; here are the names and which of them exclude each other.
const (
	RolePlatformAdmin = "platform_admin" // bootstrap account of a trial: every permission in every tenant
	RoleSystemAdmin   = "system_admin"   // runs the installation
	RoleSecurityAdmin = "security_admin" // people, keys, policies
	RoleAuditor       = "auditor"        // reads and verifies
	RoleCompliance    = "compliance"     // reads what is kept of prompts and answers, and erases it
	RoleWitness       = "witness"        // another team's machine: reads hashes of the audit log and cosigns
	RoleDeveloper     = "developer"      // tries models, fills collections
	RoleApplication   = "application"    // API keys, which have no other role, and service accounts that call the data plane
	RoleBreakGlass    = "break_glass"    // emergency sessions, and only they: no account can hold it
)

// The scopes of a key: what it may be used for. What each opens is data in package access.
const (
	ScopeChat      = "chat"       // chats and completions
	ScopeEmbed     = "embed"      // vectors
	ScopeRerank    = "rerank"     // scores of documents
	ScopeSearch    = "search"     // knowledge bases, also as the sources of a chat
	ScopeAdminRead = "admin-read" // reading the management API, as whoever made the key may
)

// Scopes returns every scope.
func Scopes() []string {
	return []string{ScopeChat, ScopeEmbed, ScopeRerank, ScopeSearch, ScopeAdminRead}
}

// The label modes of a key.
const (
	LabelMetadata = "metadata" // header and extension object
	LabelText     = "text"     // also a visible sentence
)

// Limits bounds what one key may ask, or all callers of a level together; zero means the default of the installation.
type Limits struct {
	RequestsPerMinute int
	TokensPerMinute   int
	Concurrent        int
}

// Principal is an authenticated caller. It is a value; its slices are shared with the snapshot and must not be changed.
type Principal struct {
	Tenant, Project string
	Kind            string // "key", "user", "service", "system" or KindEmergency
	ID              string // of the key, user or service account
	Name            string
	Owner           string // user id of the person whose own key it is; "" for keys of the tenant and for users
	Roles           []string
	Labels          []string // access labels for documents
	LabelMode       string   // LabelMetadata, LabelText, or "" for the default of the tenant's policy
	Limits          Limits
	Organisation    string  // of its tenant
	Above           []Level // that it stands on, the nearest first: the project of a key, the tenant, the organisation

	Operator bool     // the tenant runs the installation; see package access
	Scopes   []string // what the key is narrowed to; empty: all that its role may on the data plane
	Models   []string // model patterns the key is narrowed to; empty: all the policy allows
	Session  string   // sign-in the session token belongs to; "" for keys
	Provider string   // the OpenID provider that the person signs in at; "" for local accounts and for what is no person

	MustChange bool // the password, which somebody else has set: until then nothing else is allowed

	MustEnrol bool // a second factor: until then nothing else is allowed

	SecondFactor bool      // the account has one, which is asked for
	Factor       string    // what that sign-in has shown beside the password; "" for nothing
	FactorAt     time.Time // when it was shown last; zero: not

	SignedIn time.Time // when the password of that sign-in was given, however often it was renewed since; zero for keys

	proof string // see Acting
}

// ProvedAt returns when somebody proved last that it is him, as well as his account can: by its second factor, or without one by the password.
func (p Principal) ProvedAt() time.Time {
	if p.SecondFactor {
		return p.FactorAt
	}
	return p.SignedIn
}

// MayUse reports whether the principal's own allow-list permits a model. The tenant's policy is asked separately.
func (p Principal) MayUse(model string) bool { return len(p.Models) == 0 || Matches(p.Models, model) }

// Matches reports whether one of the patterns fits the model name, or the name without its @version. A star stands for any text,
// every other character for itself.
func Matches(patterns []string, model string) bool {
	base, _, _ := strings.Cut(model, "@")
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, model) || fits(p, base) })
}

func fits(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1:last] {
		_, rest, found := strings.Cut(name, part) // the leftmost place leaves most for the parts behind
		if !found {
			return false
		}
		name = rest
	}
	return strings.HasSuffix(name, parts[last])
}

// OwnsKeys reports whether somebody with these roles can have API keys of his own. The role that lets people make them is data in package
// access; a test there holds both together.
func OwnsKeys(roles []string) bool {
	return slices.Contains(roles, RoleDeveloper) || slices.Contains(roles, RolePlatformAdmin)
}

// administrators are the roles that are duties of administrators.
func administrators() []string {
	return []string{RolePlatformAdmin, RoleSystemAdmin, RoleSecurityAdmin, RoleAuditor, RoleCompliance}
}

// CheckRoles reports unknown roles, an empty list, and roles that exclude each other: CodeInvalidValue or CodeConflictingRole.
// No account may hold two of the duties of administrators, of which compliance is one; an application is never a person.
func CheckRoles(roles []string) error {
	if len(roles) == 0 {
		return fault.New(fault.CodeMissing, "roles").WithParam("roles")
	}
	admins := administrators()
	known := slices.Concat(admins, []string{RoleWitness, RoleDeveloper, RoleApplication})
	first := ""
	for i, r := range roles {
		if !slices.Contains(known, r) || slices.Contains(roles[:i], r) {
			return invalid("roles", fault.Say("identity.role"))
		}
		if !slices.Contains(admins, r) {
			continue
		}
		if first != "" {
			return fault.New(fault.CodeConflictingRole, first, r).WithParam("roles")
		}
		first = r
	}
	if slices.Contains(roles, RoleApplication) && len(roles) > 1 {
		other := roles[0]
		if other == RoleApplication {
			other = roles[1]
		}
		return fault.New(fault.CodeConflictingRole, RoleApplication, other).WithParam("roles")
	}
	return nil
}
