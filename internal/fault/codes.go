package fault

// Code names one cause. Codes are stable: applications and dashboards match on them.
type Code string

// The codes. Strings that OpenAI publishes are used where one exists.
const (
	CodeInternal Code = "internal_error"

	CodeInvalidJSON       Code = "invalid_json"
	CodeInvalidUTF8       Code = "invalid_utf8"
	CodeInvalidType       Code = "invalid_type"
	CodeInvalidValue      Code = "invalid_value"
	CodeMissing           Code = "missing_required_parameter"
	CodeUnsupported       Code = "unsupported_parameter"
	CodeContextLength     Code = "context_length_exceeded"
	CodeModelNotCapable   Code = "model_not_capable"
	CodeInvalidDocument   Code = "invalid_document"
	CodeInvalidPolicy     Code = "invalid_policy"
	CodeInvalidPriceBook  Code = "invalid_price_book"
	CodeIdempotencyReused Code = "idempotency_key_reused"

	CodeInvalidKey     Code = "invalid_api_key"
	CodeExpiredKey     Code = "expired_api_key"
	CodeSuspendedKey   Code = "suspended_api_key"
	CodeInvalidLogin   Code = "invalid_login"
	CodeOneTimeExpired Code = "one_time_password_expired"
	CodeInvalidSession Code = "invalid_session"
	CodeSecondFactor   Code = "second_factor_required"
	CodeInvalidClient  Code = "invalid_client"
	CodeInvalidToken   Code = "invalid_token"
	CodeSignInRefused  Code = "sign_in_refused"

	CodeNotAllowed            Code = "not_allowed"
	CodeKeyScope              Code = "key_scope"
	CodeKeyNetwork            Code = "key_network"
	CodeTenantSuspended       Code = "tenant_suspended"
	CodeOrganisationSuspended Code = "organisation_suspended"
	CodeProjectSuspended      Code = "project_suspended"
	CodeRoleAbove             Code = "role_not_grantable"
	CodeModelNotAllowed       Code = "model_not_allowed"
	CodePurpose               Code = "purpose_required"
	CodePlaceNotAllowed       Code = "place_not_allowed"
	CodeSecondPerson          Code = "second_person_required"
	CodeNotReviewer           Code = "not_reviewer"
	CodeReauthenticate        Code = "reauthenticate"
	CodeStepUp                Code = "step_up_required"
	CodeWrongPassword         Code = "wrong_password"
	CodeWrongCode             Code = "wrong_code"
	CodeWrongAssertion        Code = "wrong_assertion"
	CodeClonedKey             Code = "cloned_security_key"
	CodeChangePassword        Code = "password_change_required"
	CodeEnrolFactor           Code = "second_factor_enrolment_required"
	CodeNoRole                Code = "no_role"
	CodeAccountDisabled       Code = "account_disabled"
	CodeProviderFactor        Code = "provider_second_factor_required"
	CodeApprovalNeeded        Code = "approval_required"
	CodeActApproval           Code = "act_approval_required"
	CodeNeedsPerson           Code = "person_required"

	CodeBlockedContent Code = "blocked_content"
	CodeBlockedAnswer  Code = "blocked_answer"
	CodeUnsafeContent  Code = "unsafe_content"
	CodeUnsafeAnswer   Code = "unsafe_answer"
	// CodeFilteredByEngine is that the filter of the engine itself left nothing of an answer.
	CodeFilteredByEngine Code = "filtered_by_engine"

	CodeModelNotFound      Code = "model_not_found"
	CodeCollectionNotFound Code = "collection_not_found"
	CodePassageReplaced    Code = "passage_replaced"
	CodeNotFound           Code = "not_found"
	CodeInvitation         Code = "invalid_invitation"
	CodeMethodNotAllowed   Code = "method_not_allowed"
	CodeNotOffered         Code = "not_offered"

	CodeConflict          Code = "conflict"
	CodeExists            Code = "already_exists"
	CodePolicyChanged     Code = "policy_changed"
	CodeConflictingRole   Code = "conflicting_roles"
	CodeHeld              Code = "legal_hold"
	CodeRequestInProgress Code = "request_in_progress"
	CodeCandidateLacks    Code = "candidate_lacks"

	CodeBodyTooLarge Code = "request_too_large"
	CodeTooDeep      Code = "nesting_too_deep"
	CodeFileTooLarge Code = "file_too_large"

	CodeAnswerTooLarge Code = "answer_too_large"
	CodeReadTooSlowly  Code = "answer_read_too_slowly"

	CodeRateLimited      Code = "rate_limit_exceeded"
	CodeTokenRateLimited Code = "token_rate_limit_exceeded"
	CodeConcurrency      Code = "concurrency_limit_exceeded"
	CodeBytesInFlight    Code = "bytes_in_flight_limit_exceeded"
	CodeLoginThrottled   Code = "login_throttled"
	CodeRevealLimited    Code = "reveal_limit_exceeded"
	CodeBatchesFull      Code = "batch_limit_exceeded"

	CodeTenantBudget       Code = "organization_spend_limit_exceeded"
	CodeKeyBudget          Code = "project_spend_limit_exceeded"
	CodeOrganisationBudget Code = "organisation_budget_exceeded"
	CodeOverBudget         Code = "request_exceeds_budget"
	CodeVaultFull          Code = "vault_full"
	CodeFilesFull          Code = "files_full"

	CodeAuditUnavailable    Code = "audit_unavailable"
	CodePolicyUnavailable   Code = "policy_unavailable"
	CodeBillingUnavailable  Code = "billing_unavailable"
	CodeIdentityUnavailable Code = "identity_unavailable"
	CodeProviderUnavailable Code = "identity_provider_unavailable"
	CodeLimitUnavailable    Code = "limit_unavailable"
	CodeVaultUnavailable    Code = "vault_unavailable"
	CodeErasureIncomplete   Code = "erasure_incomplete"
	CodeSigningUnavailable  Code = "signing_unavailable"
	CodeEngineUnavailable   Code = "engine_unavailable"
	CodeEngineOverloaded    Code = "engine_overloaded"
	CodeUpstreamFailed      Code = "upstream_failed"
	CodeRetrievalFailed     Code = "retrieval_unavailable"
	CodeWorkflowUnavailable Code = "workflow_unavailable"
	CodeRetrievalOff        Code = "retrieval_off"
	CodeWorkflowsOff        Code = "workflows_off"
	CodeDatabaseUnavailable Code = "database_unavailable"
	CodeDocumentsBusy       Code = "documents_busy"
	CodeOverloaded          Code = "server_overloaded"

	CodeTimeout           Code = "timeout"
	CodeUpstreamTimeout   Code = "upstream_timeout"
	CodeFirstTokenTimeout Code = "first_token_timeout"
	CodeIdleTimeout       Code = "idle_timeout"
)

// kinds holds every code's kind; its sentences are the texts of the same name in the catalogues of internal/message.
//
//nolint:gochecknoglobals // a constant table
var kinds = map[Code]Kind{
	CodeInternal: Internal,

	CodeInvalidJSON:       Invalid,
	CodeInvalidUTF8:       Invalid,
	CodeInvalidType:       Invalid,
	CodeInvalidValue:      Invalid,
	CodeMissing:           Invalid,
	CodeUnsupported:       Invalid,
	CodeContextLength:     Invalid,
	CodeModelNotCapable:   Invalid,
	CodeInvalidDocument:   Invalid,
	CodeInvalidPolicy:     Invalid,
	CodeInvalidPriceBook:  Invalid,
	CodeIdempotencyReused: Invalid,

	CodeInvalidKey:     Unauthenticated,
	CodeExpiredKey:     Unauthenticated,
	CodeSuspendedKey:   Unauthenticated,
	CodeInvalidLogin:   Unauthenticated,
	CodeOneTimeExpired: Unauthenticated,
	CodeInvalidSession: Unauthenticated,
	CodeSecondFactor:   Unauthenticated,
	CodeInvalidClient:  Unauthenticated,
	CodeInvalidToken:   Unauthenticated,
	CodeSignInRefused:  Unauthenticated,

	CodeNotAllowed:            Denied,
	CodeKeyScope:              Denied,
	CodeKeyNetwork:            Denied,
	CodeTenantSuspended:       Denied,
	CodeOrganisationSuspended: Denied,
	CodeProjectSuspended:      Denied,
	CodeRoleAbove:             Denied,
	CodeModelNotAllowed:       Denied,
	CodePurpose:               Denied,
	CodePlaceNotAllowed:       Denied,
	CodeSecondPerson:          Denied,
	CodeNotReviewer:           Denied,
	CodeReauthenticate:        Denied,
	CodeStepUp:                Denied,
	CodeWrongPassword:         Denied,
	CodeWrongCode:             Denied,
	CodeWrongAssertion:        Denied,
	CodeClonedKey:             Denied,
	CodeChangePassword:        Denied,
	CodeEnrolFactor:           Denied,
	CodeNoRole:                Denied,
	CodeAccountDisabled:       Denied,
	CodeProviderFactor:        Denied,
	CodeApprovalNeeded:        Denied,
	CodeActApproval:           Denied,
	CodeNeedsPerson:           Denied,

	CodeBlockedContent:   Blocked,
	CodeBlockedAnswer:    Blocked,
	CodeUnsafeContent:    Blocked,
	CodeUnsafeAnswer:     Blocked,
	CodeFilteredByEngine: Blocked,

	CodeModelNotFound:      NotFound,
	CodeCollectionNotFound: NotFound,
	CodePassageReplaced:    NotFound,
	CodeNotFound:           NotFound,
	CodeInvitation:         NotFound,
	CodeMethodNotAllowed:   Method,
	CodeNotOffered:         NotFound,

	CodeConflict:          Conflict,
	CodeExists:            Conflict,
	CodePolicyChanged:     Conflict,
	CodeConflictingRole:   Conflict,
	CodeHeld:              Conflict,
	CodeRequestInProgress: Conflict,
	CodeCandidateLacks:    Conflict,

	CodeBodyTooLarge: TooLarge,
	CodeTooDeep:      TooLarge,
	CodeFileTooLarge: TooLarge,

	CodeAnswerTooLarge: TooLarge,
	CodeReadTooSlowly:  Conflict,

	CodeRateLimited:      RateLimited,
	CodeTokenRateLimited: RateLimited,
	CodeConcurrency:      RateLimited,
	CodeBytesInFlight:    RateLimited,
	CodeLoginThrottled:   RateLimited,
	CodeRevealLimited:    RateLimited,
	CodeBatchesFull:      RateLimited,

	CodeTenantBudget:       Quota,
	CodeKeyBudget:          Quota,
	CodeOrganisationBudget: Quota,
	CodeOverBudget:         Quota,
	CodeVaultFull:          Quota,
	CodeFilesFull:          Quota,

	CodeAuditUnavailable:    Unavailable,
	CodePolicyUnavailable:   Unavailable,
	CodeBillingUnavailable:  Unavailable,
	CodeIdentityUnavailable: Unavailable,
	CodeProviderUnavailable: Unavailable,
	CodeLimitUnavailable:    Unavailable,
	CodeVaultUnavailable:    Unavailable,
	CodeErasureIncomplete:   Unavailable,
	CodeSigningUnavailable:  Unavailable,
	CodeEngineUnavailable:   Unavailable,
	CodeEngineOverloaded:    Unavailable,
	CodeUpstreamFailed:      Unavailable,
	CodeRetrievalFailed:     Unavailable,
	CodeWorkflowUnavailable: Unavailable,
	CodeRetrievalOff:        Conflict,
	CodeWorkflowsOff:        Conflict,
	CodeDatabaseUnavailable: Unavailable,
	CodeDocumentsBusy:       Unavailable,
	CodeOverloaded:          Unavailable,

	CodeTimeout:           Timeout,
	CodeUpstreamTimeout:   Timeout,
	CodeFirstTokenTimeout: Timeout,
	CodeIdleTimeout:       Timeout,
}

// Codes returns every code; for tests and for the error-code table of the documentation.
func Codes() []Code {
	out := make([]Code, 0, len(kinds))
	for c := range kinds {
		out = append(out, c)
	}
	return out
}
