package access

import (
	"slices"

	"github.com/sluice-project/sluice/governance/identity"
)

// Permission is what a route demands.
type Permission string

// The permissions.
const (
	InferenceGenerate Permission = "inference.generate"
	InferenceEmbed    Permission = "inference.embed"
	ModelsRead        Permission = "models.read"
	ModelsWrite       Permission = "models.write"
	RAGSearch         Permission = "rag.search"
	RAGRead           Permission = "rag.read"
	RAGWrite          Permission = "rag.write"
	KeysRead          Permission = "keys.read"
	KeysWrite         Permission = "keys.write"
	KeysOwn           Permission = "keys.own" // to see, make, change and revoke one's own
	UsersRead         Permission = "users.read"
	UsersWrite        Permission = "users.write"
	TenantsRead       Permission = "tenants.read"
	TenantsWrite      Permission = "tenants.write"
	PolicyRead        Permission = "policy.read"
	PolicyWrite       Permission = "policy.write"
	PriceRead         Permission = "price.read"
	PriceWrite        Permission = "price.write"
	BudgetRead        Permission = "budget.read"
	BudgetWrite       Permission = "budget.write"
	UsageRead         Permission = "usage.read"
	BillingWrite      Permission = "billing.write" // to close months, and to correct
	AuditRead         Permission = "audit.read"
	AuditVerify       Permission = "audit.verify"
	AuditWitness      Permission = "audit.witness"
	AuditContent      Permission = "audit.content"
	AuditErase        Permission = "audit.erase"
	AuditHold         Permission = "audit.hold"
	RolloutRead       Permission = "rollout.read"
	RolloutWrite      Permission = "rollout.write"
	CapacityRead      Permission = "capacity.read"
	CapacityWrite     Permission = "capacity.write"
	SystemRead        Permission = "system.read"
	MaskingPreview    Permission = "masking.preview"
	MaskingReveal     Permission = "masking.reveal"  // to ask; what is shown is the policy's
	MaskingApprove    Permission = "masking.approve" // somebody else's reveal
	PlaygroundUse     Permission = "playground.use"
)

// Permissions returns every permission, in the order of the documentation.
func Permissions() []Permission {
	return []Permission{
		InferenceGenerate, InferenceEmbed, ModelsRead, ModelsWrite, RAGSearch, RAGRead, RAGWrite, KeysRead, KeysWrite, KeysOwn, UsersRead,
		UsersWrite, TenantsRead, TenantsWrite, PolicyRead, PolicyWrite, PriceRead, PriceWrite, BudgetRead, BudgetWrite, UsageRead,
		BillingWrite, AuditRead, AuditVerify, AuditWitness, AuditContent, AuditErase, AuditHold, RolloutRead, RolloutWrite, CapacityRead, CapacityWrite, SystemRead, MaskingPreview,
		MaskingReveal, MaskingApprove, PlaygroundUse,
	}
}

// Role is a named set of permissions.
type Role struct {
	ID          string
	Permissions []Permission // in the tenant of the holder, or, where marked by Installation, of the installation
}

// Roles returns every role.
func Roles() []Role {
	return []Role{
		{identity.RolePlatformAdmin, Permissions()},
		{identity.RoleSystemAdmin, []Permission{
			ModelsRead, ModelsWrite, RAGRead, RAGWrite, KeysRead, UsersRead, TenantsRead, PolicyRead, PriceRead, PriceWrite, BudgetRead,
			BudgetWrite, UsageRead, BillingWrite, RolloutRead, RolloutWrite, CapacityRead, CapacityWrite, SystemRead,
		}},
		{identity.RoleSecurityAdmin, []Permission{
			ModelsRead, RAGRead, KeysRead, KeysWrite, UsersRead, UsersWrite, TenantsRead, PolicyRead, PolicyWrite, MaskingPreview,
			MaskingReveal, MaskingApprove,
		}},
		{identity.RoleAuditor, []Permission{
			ModelsRead, RAGRead, KeysRead, UsersRead, TenantsRead, PolicyRead, PriceRead, BudgetRead, UsageRead, AuditRead, AuditVerify,
			AuditWitness, RolloutRead, CapacityRead, SystemRead,
		}},
		{identity.RoleCompliance, []Permission{
			TenantsRead, PolicyRead, UsageRead, AuditRead, AuditVerify, AuditContent, AuditErase, AuditHold, MaskingReveal,
		}},
		{identity.RoleWitness, []Permission{AuditWitness}},
		{identity.RoleDeveloper, []Permission{
			InferenceGenerate, InferenceEmbed, ModelsRead, RAGSearch, RAGRead, RAGWrite, KeysOwn, UsageRead, MaskingPreview, MaskingReveal, PlaygroundUse,
		}},
		{identity.RoleApplication, []Permission{
			InferenceGenerate, InferenceEmbed, ModelsRead, RAGSearch,
		}},
	}
}

// Installation reports whether perm acts on the whole installation. Apart from the platform administrator only roles of the
// operator tenant hold such a permission: a customer's system administrator must not change everybody's models or prices.
func Installation(perm Permission) bool {
	return slices.Contains([]Permission{
		ModelsWrite, TenantsRead, TenantsWrite, PriceWrite, RolloutRead, RolloutWrite, CapacityRead, CapacityWrite, SystemRead,
		AuditVerify, AuditWitness, BillingWrite,
	}, perm)
}

// scope says in which tenants a rule holds.
type scope string

const (
	ownTenant    scope = "tenant"
	installation scope = "installation"
	everywhere   scope = "everywhere" // the platform administrator's, and nobody else's
)

type rule struct {
	role   string
	scope  scope
	perm   Permission
	effect string // "allow" or "deny"
}

func rules() []rule {
	var out []rule
	for _, role := range Roles() {
		for _, perm := range role.Permissions {
			s := ownTenant
			if Installation(perm) {
				s = installation
			}
			if role.ID == identity.RolePlatformAdmin {
				s = everywhere
			}
			out = append(out, rule{role.ID, s, perm, "allow"})
		}
	}
	return out
}
