package offboard

// part is the rows of a tenant in a table: where says which they are, with the id of the tenant in place of its question mark.
type part struct{ table, where string }

const (
	ofTenant     = "tenant = ?"
	ofUsers      = "user_id IN (SELECT id FROM identity_users WHERE tenant = ?)"
	ofPeople     = "person IN (SELECT id FROM identity_users WHERE tenant = ?)"
	ofServices   = "account IN (SELECT id FROM identity_service_accounts WHERE tenant = ?)"
	ofBudgets    = "budget IN (SELECT id FROM billing_budgets WHERE tenant = ?)"
	ofReviews    = "review IN (SELECT id FROM access_reviews WHERE tenant = ?)"
	ofKeys       = "key_id IN (SELECT id FROM audit_subject_keys WHERE tenant = ?)"
	ofScopes     = "scope IN (SELECT scope FROM vault_scopes WHERE tenant = ?)"
	ofBatches    = "batch IN (SELECT id FROM batch_batches WHERE tenant = ?)"
	ofBlobs      = "blob IN (SELECT id FROM file_blobs WHERE tenant = ?)"
	ofCollection = "collection IN (SELECT id FROM rag_collections WHERE tenant = ?)"
	// ofRollouts are the sums of rollouts in which the tenant has records. They name it, and its conversations, until the rollout ends.
	ofRollouts = "EXISTS (SELECT 1 FROM audit_events AS e WHERE e.tenant = ? AND e.rollout = audit_arm_windows.rollout)"
	// ofPolicies are those of the tenant and those of its projects, see [governance.ProjectScope].
	ofPolicies  = "EXISTS (SELECT 1 FROM identity_tenants AS t WHERE t.id = ? AND (policy_documents.tenant = t.id OR substr(policy_documents.tenant, 1, length(t.id) + 1) = t.id || '/'))"
	ofDocuments = "document IN (SELECT d.id FROM rag_documents AS d JOIN rag_collections AS c ON c.id = d.collection WHERE c.tenant = ?)"
)

// kept are the tables whose rows the concerns erase that know how: the texts with the audit log, the values with their store.
func kept() []part {
	return []part{
		{"audit_contents", ofKeys},
		{"audit_subject_keys", ofTenant},
		{"vault_values", ofScopes},
		{"vault_subjects", ofTenant},
		{"vault_scopes", ofTenant},
		{"vault_keys", ofTenant},
		{"vault_tenants", ofTenant},
	}
}

// rows are the other tables whose rows go, each before those that its condition looks at.
func rows() []part {
	return []part{
		{"batch_lines", ofBatches},
		{"batch_batches", ofTenant},
		{"file_files", ofTenant},
		{"file_chunks", ofBlobs},
		{"file_blobs", ofTenant},
		{"file_tenants", ofTenant},
		{"reply_replies", ofTenant},
		{"signature_seeds", ofTenant},
		{"watermark_keys", ofTenant},
		{"registry_tenants", ofTenant},
		{"registry_segments", ofTenant}, // before their blocks: whoever adds to them looks for their segment
		{"registry_blocks", ofTenant},
		{"registry_entries", ofTenant},
		{"rag_chunks", ofDocuments},
		{"rag_versions", ofCollection},
		{"rag_journal", ofCollection},
		{"rag_glossary", ofCollection},
		{"rag_documents", ofCollection},
		{"rag_collections", ofTenant},
		{"reveal_uses", ofPeople},
		{"reveal_people", ofPeople},
		{"reveal_approvals", ofTenant},
		{"erasure_approvals", ofTenant},
		{"act_approvals", ofTenant},
		{"access_review_items", ofReviews},
		{"access_reviews", ofTenant},
		{"billing_leases", ofBudgets},
		{"billing_spend", ofBudgets},
		{"billing_budgets", ofTenant},
		{"policy_documents", ofPolicies},
		{"identity_sessions", ofUsers},
		{"identity_challenges", ofUsers},
		{"identity_factors", ofUsers},
		{"identity_recovery_codes", ofUsers},
		{"identity_passwords", ofUsers},
		{"identity_bindings", ofUsers},
		{"identity_grants", ofUsers},
		{"identity_service_keys", ofServices},
		{"identity_service_accounts", ofTenant},
		{"identity_invitations", ofTenant},
		{"identity_keys", ofTenant},
		{"identity_projects", ofTenant},
		{"identity_users", ofTenant},
	}
}

// counters are the change counters that replicas look at, of the concerns that rows is about.
func counters() []string { return []string{"rag", "billing", "policy", "identity", "watermark"} }

// stays are the tables whose rows of the tenant stay, by the code that says why.
func stays() map[string][]part {
	return map[string][]part{
		StaysRecords: {
			{"audit_events", ofTenant},
			{"audit_facets", ofTenant},
			{"audit_terms", ofTenant},
			{"audit_vault", ofTenant},
			{"audit_findings", ofTenant},
			{"audit_arm_windows", ofRollouts},
			{"audit_arm_units", "win IN (SELECT id FROM audit_arm_windows WHERE " + ofRollouts + ")"},
		},
		StaysProofs: {
			{"audit_erasures", ofTenant}, {"audit_erased_keys", ofTenant}, {"audit_erasure_results", ofTenant}, {"audit_holds", ofTenant}, {"vault_erasures", ofTenant}, {"signature_keys", ofTenant},
		},
		StaysBooks:      {{"billing_usage", ofTenant}, {"billing_usage_daily", ofTenant}, {"billing_statements", ofTenant}, {"billing_corrections", ofTenant}, {"sla_hours", ofTenant}},
		StaysAgreements: {{"label_agreements", ofTenant}},
		StaysTenant:     {{"identity_tenants", "id = ?"}, {"offboarding_tenants", ofTenant}},
	}
}

// nobodys are the tables without rows of single tenants.
func nobodys() []string {
	return []string{
		"goose_db_version", "installation_settings", "installation_compatibility", "identity_changes", "identity_duties", "identity_factor_demand", "identity_organisations", "identity_assertions", "identity_break_glass", "identity_break_glass_uses", "policy_changes", "billing_changes", "billing_books", "billing_cost_books",
		"route_versions", "route_assignments", "route_changes", "route_instances", "rollout_rollouts", "rollout_transitions", "rollout_evidence", "rollout_capacity", "rag_changes", "watermark_changes", "label_changes",
		"audit_leaves", "audit_hashes", "audit_checkpoints", "audit_cosignatures", "audit_unbooked", "audit_writers", "audit_lease", "audit_postings", "audit_prunings",
		"audit_pruned", "audit_reconciliation", "audit_sources", "audit_siem", "audit_arm_news", "vault_state", "wrapping_keys", "wrapping_rotation", "wrapping_progress",
	}
}
