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
	InferenceRerank   Permission = "inference.rerank"
	ModelsRead        Permission = "models.read"
	ModelsWrite       Permission = "models.write"
	BatchesUse        Permission = "batches.use" // files, and batches of what else the caller may ask
	RAGSearch         Permission = "rag.search"
	RAGRead           Permission = "rag.read"
	RAGWrite          Permission = "rag.write"
	RAGAccess         Permission = "rag.access" // to say who may see documents that are there, and to see why somebody does not
	KeysRead          Permission = "keys.read"
	KeysWrite         Permission = "keys.write"
	KeysOwn           Permission = "keys.own" // to see, make, change and revoke one's own
	UsersRead         Permission = "users.read"
	UsersWrite        Permission = "users.write"
	TenantsRead       Permission = "tenants.read"
	TenantsWrite      Permission = "tenants.write"
	BreakGlassSeal    Permission = "breakglass.seal"   // to make and revoke sealed credentials for an emergency
	BreakGlassReview  Permission = "breakglass.review" // to see what they were used for, to end that and to review it
	TenantsOffboard   Permission = "tenants.offboard"  // to export a tenant that leaves, and to erase it
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
	KeyringRotate     Permission = "keyring.rotate"
	MaskingPreview    Permission = "masking.preview"
	MaskingReveal     Permission = "masking.reveal"  // to ask; what is shown is the policy's
	MaskingApprove    Permission = "masking.approve" // somebody else's reveal
	PlaygroundUse     Permission = "playground.use"
	ApprovalsGive     Permission = "approvals.give" // as the second person, to grave acts of management
)

// Permissions returns every permission, in the order of the documentation.
func Permissions() []Permission {
	return []Permission{
		InferenceGenerate, InferenceEmbed, InferenceRerank, BatchesUse, ModelsRead, ModelsWrite, RAGSearch, RAGRead, RAGWrite, RAGAccess, KeysRead, KeysWrite, KeysOwn, UsersRead,
		UsersWrite, TenantsRead, TenantsWrite, TenantsOffboard, PolicyRead, PolicyWrite, PriceRead, PriceWrite, BudgetRead, BudgetWrite, UsageRead,
		BillingWrite, AuditRead, AuditVerify, AuditWitness, AuditContent, AuditErase, AuditHold, RolloutRead, RolloutWrite, CapacityRead, CapacityWrite, SystemRead, KeyringRotate, MaskingPreview,
		MaskingReveal, MaskingApprove, PlaygroundUse, ApprovalsGive, BreakGlassSeal, BreakGlassReview,
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
			ModelsRead, ModelsWrite, RAGRead, RAGWrite, KeysRead, UsersRead, TenantsRead, TenantsWrite, PolicyRead, PriceRead, PriceWrite, BudgetRead,
			BudgetWrite, UsageRead, BillingWrite, RolloutRead, RolloutWrite, CapacityRead, CapacityWrite, SystemRead, ApprovalsGive,
		}},
		{identity.RoleSecurityAdmin, []Permission{
			ModelsRead, RAGRead, RAGAccess, KeysRead, KeysWrite, UsersRead, UsersWrite, TenantsRead, PolicyRead, PolicyWrite, MaskingPreview,
			MaskingReveal, MaskingApprove, ApprovalsGive, KeyringRotate, BreakGlassSeal, BreakGlassReview,
		}},
		{identity.RoleAuditor, []Permission{
			ModelsRead, RAGRead, KeysRead, UsersRead, TenantsRead, PolicyRead, PriceRead, BudgetRead, UsageRead, AuditRead, AuditVerify,
			AuditWitness, RolloutRead, CapacityRead, SystemRead, BreakGlassReview,
		}},
		{identity.RoleCompliance, []Permission{
			TenantsRead, TenantsOffboard, PolicyRead, UsageRead, AuditRead, AuditVerify, AuditContent, AuditErase, AuditHold, MaskingReveal, ApprovalsGive,
		}},
		{identity.RoleWitness, []Permission{AuditWitness}},
		{identity.RoleDeveloper, []Permission{
			InferenceGenerate, InferenceEmbed, InferenceRerank, BatchesUse, ModelsRead, RAGSearch, RAGRead, RAGWrite, KeysOwn, UsageRead, MaskingPreview, MaskingReveal, PlaygroundUse,
		}},
		{identity.RoleBreakGlass, []Permission{ // of which the management API lets it do what brings people and service back, see x-break-glass
			ModelsRead, ModelsWrite, KeysRead, KeysWrite, UsersRead, UsersWrite, TenantsRead, TenantsWrite, RolloutRead, RolloutWrite, SystemRead,
		}},
		{identity.RoleApplication, []Permission{
			InferenceGenerate, InferenceEmbed, InferenceRerank, BatchesUse, ModelsRead, RAGSearch,
		}},
	}
}

// Installation reports whether perm acts on the whole installation. Apart from the platform administrator only roles of the
// operator's tenant hold such a permission: a customer's system administrator must not change everybody's models or prices.
func Installation(perm Permission) bool {
	return slices.Contains([]Permission{
		ModelsWrite, TenantsRead, TenantsWrite, TenantsOffboard, PriceWrite, RolloutRead, RolloutWrite, CapacityRead, CapacityWrite, SystemRead,
		AuditVerify, AuditWitness, KeyringRotate, BreakGlassSeal, BreakGlassReview,
	}, perm)
}

// OperatorAlone reports whether perm acts on what is one tenant's, and only the operator's people hold it, for every tenant: what a tenant owes is
// not for its own administrators to settle.
func OperatorAlone(perm Permission) bool { return perm == BillingWrite }

// OfOperator reports whether role holds perm in every tenant if its holder is of the operator's tenant. The operator's three administrators run
// the installation for all tenants, each within his duty, and its compliance officers are second persons to them. What people wrote, the records of it, and what is
// kept or held of it, stays with the officers of its tenant; a hold on all tenants is placed on the command line.
func OfOperator(role string, perm Permission) bool {
	if perm == ApprovalsGive {
		return true
	}
	return slices.Contains([]string{identity.RoleSystemAdmin, identity.RoleSecurityAdmin, identity.RoleAuditor, identity.RoleBreakGlass}, role) && !slices.Contains([]Permission{
		RAGRead, RAGWrite, RAGAccess, AuditRead, MaskingPreview, MaskingReveal, MaskingApprove,
	}, perm)
}

// ForPeople reports whether perm is for people only, whatever the roles of a service account say: to be the second person of somebody, to make and
// change accounts, to replace wrapping keys, to see, erase or hold what people wrote, to make and revoke sealed credentials for an emergency and to judge
// what they were used for, to let a tenant go, and what somebody does for himself.
func ForPeople(perm Permission) bool {
	return slices.Contains([]Permission{
		ApprovalsGive, MaskingApprove, MaskingReveal, UsersWrite, KeyringRotate, AuditContent, AuditErase, AuditHold, KeysOwn, PlaygroundUse,
		BreakGlassSeal, BreakGlassReview, TenantsOffboard,
	}, perm)
}

// Scope returns what a scope of keys opens, of what the role of the caller grants; nothing for an unknown one.
func Scope(name string) []Permission {
	switch name {
	case identity.ScopeChat:
		return []Permission{InferenceGenerate, BatchesUse, ModelsRead}
	case identity.ScopeEmbed:
		return []Permission{InferenceEmbed, BatchesUse, ModelsRead}
	case identity.ScopeRerank:
		return []Permission{InferenceRerank, ModelsRead}
	case identity.ScopeSearch:
		return []Permission{RAGSearch}
	case identity.ScopeAdminRead: // what is of the tenant, and shows neither texts nor values of people
		return []Permission{ModelsRead, RAGRead, KeysRead, UsersRead, PolicyRead, PriceRead, BudgetRead, UsageRead, AuditRead}
	}
	return nil
}

// scope says in which tenants a rule holds.
type scope string

const (
	ownTenant    scope = "tenant"
	installation scope = "installation"
	ofOperator   scope = "operator"      // the holder's own, and every one if it runs the installation
	operatorOnly scope = "operator-only" // every one if the holder runs the installation, else none
	everywhere   scope = "everywhere"    // the platform administrator's, and nobody else's
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
			switch {
			case role.ID == identity.RolePlatformAdmin:
				s = everywhere
			case OperatorAlone(perm):
				s = operatorOnly
			case Installation(perm):
				s = installation
			case OfOperator(role.ID, perm):
				s = ofOperator
			}
			out = append(out, rule{role.ID, s, perm, "allow"})
		}
	}
	return out
}
