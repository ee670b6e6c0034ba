package fault

// Code names one cause. Codes are stable: applications and dashboards match on them.
type Code string

// The codes. Strings that OpenAI publishes are used where one exists.
const (
	CodeInternal Code = "internal_error"

	CodeInvalidJSON      Code = "invalid_json"
	CodeInvalidUTF8      Code = "invalid_utf8"
	CodeInvalidType      Code = "invalid_type"
	CodeInvalidValue     Code = "invalid_value"
	CodeMissing          Code = "missing_required_parameter"
	CodeUnsupported      Code = "unsupported_parameter"
	CodeContextLength    Code = "context_length_exceeded"
	CodeModelNotCapable  Code = "model_not_capable"
	CodeInvalidDocument  Code = "invalid_document"
	CodeInvalidPolicy    Code = "invalid_policy"
	CodeInvalidPriceBook Code = "invalid_price_book"

	CodeInvalidKey     Code = "invalid_api_key"
	CodeExpiredKey     Code = "expired_api_key"
	CodeSuspendedKey   Code = "suspended_api_key"
	CodeInvalidLogin   Code = "invalid_login"
	CodeInvalidSession Code = "invalid_session"

	CodeNotAllowed      Code = "not_allowed"
	CodeRoleAbove       Code = "role_not_grantable"
	CodeModelNotAllowed Code = "model_not_allowed"
	CodePurpose         Code = "purpose_required"
	CodeSecondPerson    Code = "second_person_required"
	CodeReauthenticate  Code = "reauthenticate"
	CodeWrongPassword   Code = "wrong_password"
	CodeChangePassword  Code = "password_change_required"
	CodeApprovalNeeded  Code = "approval_required"

	CodeBlockedContent Code = "blocked_content"
	CodeBlockedAnswer  Code = "blocked_answer"

	CodeModelNotFound      Code = "model_not_found"
	CodeCollectionNotFound Code = "collection_not_found"
	CodePassageReplaced    Code = "passage_replaced"
	CodeNotFound           Code = "not_found"
	CodeMethodNotAllowed   Code = "method_not_allowed"

	CodeConflict        Code = "conflict"
	CodeExists          Code = "already_exists"
	CodePolicyChanged   Code = "policy_changed"
	CodeConflictingRole Code = "conflicting_roles"
	CodeHeld            Code = "legal_hold"

	CodeBodyTooLarge Code = "request_too_large"
	CodeTooDeep      Code = "nesting_too_deep"

	CodeRateLimited      Code = "rate_limit_exceeded"
	CodeTokenRateLimited Code = "token_rate_limit_exceeded"
	CodeConcurrency      Code = "concurrency_limit_exceeded"
	CodeBytesInFlight    Code = "bytes_in_flight_limit_exceeded"
	CodeLoginThrottled   Code = "login_throttled"
	CodeRevealLimited    Code = "reveal_limit_exceeded"

	CodeTenantBudget Code = "organization_spend_limit_exceeded"
	CodeKeyBudget    Code = "project_spend_limit_exceeded"
	CodeOverBudget   Code = "request_exceeds_budget"
	CodeVaultFull    Code = "vault_full"

	CodeAuditUnavailable    Code = "audit_unavailable"
	CodePolicyUnavailable   Code = "policy_unavailable"
	CodeBillingUnavailable  Code = "billing_unavailable"
	CodeIdentityUnavailable Code = "identity_unavailable"
	CodeLimitUnavailable    Code = "limit_unavailable"
	CodeVaultUnavailable    Code = "vault_unavailable"
	CodeErasureIncomplete   Code = "erasure_incomplete"
	CodeEngineUnavailable   Code = "engine_unavailable"
	CodeEngineOverloaded    Code = "engine_overloaded"
	CodeUpstreamFailed      Code = "upstream_failed"
	CodeRetrievalFailed     Code = "retrieval_unavailable"
	CodeWorkflowUnavailable Code = "workflow_unavailable"
	CodeRetrievalOff        Code = "retrieval_off"
	CodeWorkflowsOff        Code = "workflows_off"
	CodeDatabaseUnavailable Code = "database_unavailable"
	CodeOverloaded          Code = "server_overloaded"

	CodeTimeout           Code = "timeout"
	CodeUpstreamTimeout   Code = "upstream_timeout"
	CodeFirstTokenTimeout Code = "first_token_timeout"
	CodeIdleTimeout       Code = "idle_timeout"
)

type row struct {
	kind   Kind
	en, zh string
}

func (r row) sentence(l Lang) string {
	if l == Chinese {
		return r.zh
	}
	return r.en
}

// table holds every code's kind and sentences. Both sentences take the same verbs in the same order; a test holds that, and
// that every code has a row. %[n] indexes keep the order free inside a sentence.
var table = map[Code]row{
	CodeInternal: {
		Internal,
		"The server failed to process the request. Give the request id to your administrator.",
		"服务器处理请求时出错。请将请求编号提供给管理员。",
	},

	CodeInvalidJSON: {
		Invalid,
		"The request body is not valid JSON (near byte %d). Check quotes, commas and brackets.",
		"请求体不是合法的 JSON（第 %d 字节附近）。请检查引号、逗号和括号。",
	},
	CodeInvalidUTF8: {
		Invalid,
		"The request body is not valid UTF-8 (near byte %d). Send the text encoded as UTF-8.",
		"请求体不是合法的 UTF-8 编码（第 %d 字节附近）。请使用 UTF-8 编码发送文本。",
	},
	CodeInvalidType: {
		Invalid,
		"Invalid type for '%s': expected %s.",
		"参数 '%s' 的类型不正确：应为%s。",
	},
	CodeInvalidValue: {
		Invalid,
		"Invalid value for '%s': %s.",
		"参数 '%s' 的值不正确：%s。",
	},
	CodeMissing: {
		Invalid,
		"Missing required parameter: '%s'.",
		"缺少必填参数：'%s'。",
	},
	CodeUnsupported: {
		Invalid,
		"The parameter '%s' is not supported here: %s.",
		"此处不支持参数 '%s'：%s。",
	},
	CodeContextLength: {
		Invalid,
		"This model's maximum context length is %d tokens; the request needs %d. Shorten the messages or lower the completion limit.",
		"该模型的上下文上限为 %d 个 token，本次请求需要 %d 个。请缩短消息或降低生成上限。",
	},
	CodeModelNotCapable: {
		Invalid,
		"The model '%s' %s; %s.",
		"模型 '%s' %s；%s。",
	},
	CodeInvalidDocument: {
		Invalid,
		"The document '%s' cannot be read: %s.",
		"无法读取文档 '%s'：%s。",
	},
	CodeInvalidPolicy: {
		Invalid,
		"The policy document is not valid at '%s': %s.",
		"策略文档在 '%s' 处不合法：%s。",
	},
	CodeInvalidPriceBook: {
		Invalid,
		"The price book is not valid at '%s': %s.",
		"价格表在 '%s' 处不合法：%s。",
	},

	CodeInvalidKey: {
		Unauthenticated,
		"The API key is missing or not valid. Send it as 'Authorization: Bearer <key>'; keys are made in the console.",
		"API 密钥缺失或无效。请以 'Authorization: Bearer <密钥>' 发送；密钥在控制台创建。",
	},
	CodeExpiredKey: {
		Unauthenticated,
		"The API key has expired or was revoked. Create a new one in the console.",
		"API 密钥已过期或已吊销。请在控制台创建新的密钥。",
	},
	CodeSuspendedKey: {
		Unauthenticated,
		"The owner of the API key is disabled, may no longer have keys, or has yet to change a one-time password, so it is refused. Sign in and change the password, or ask an administrator.",
		"API 密钥的所有者已停用、不再允许持有密钥，或尚未修改一次性密码，请求已被拒绝。请登录并修改密码，或联系管理员。",
	},
	CodeInvalidLogin: {
		Unauthenticated,
		"The user name or the password is wrong.",
		"用户名或密码错误。",
	},
	CodeInvalidSession: {
		Unauthenticated,
		"The session is missing or has ended. Sign in again.",
		"会话不存在或已结束。请重新登录。",
	},

	CodeNotAllowed: {
		Denied,
		"This action needs the permission '%s', which your role does not grant. Ask an administrator.",
		"此操作需要权限 '%s'，您的角色未被授予。请联系管理员。",
	},
	CodeRoleAbove: {
		Denied,
		"Only a platform administrator makes and manages accounts with the role '%s'. Ask one.",
		"只有平台管理员可以创建和管理持有角色 '%s' 的账号。请联系平台管理员。",
	},
	CodeModelNotAllowed: {
		Denied,
		"The policy of your tenant does not allow the model '%s'. Choose one that GET /v1/models lists.",
		"您所在租户的策略不允许使用模型 '%s'。请选择 GET /v1/models 中列出的模型。",
	},

	CodePurpose: {
		Denied,
		"The policy of your tenant asks what this is for. Send one of these as the header X-Sluice-Purpose: %s.",
		"您所在租户的策略要求说明用途。请以请求头 X-Sluice-Purpose 发送以下之一：%s。",
	},
	CodeSecondPerson: {
		Denied,
		"A second person must decide about this, not the one who asked for it, nor an account that created the asker's or was created by it.",
		"此事须由第二人决定，不能由申请人本人决定，也不能由创建申请人账户或由其创建的账户决定。",
	},

	CodeWrongPassword: {
		Denied,
		"The current password is wrong.",
		"当前密码错误。",
	},
	CodeChangePassword: {
		Denied,
		"Your password was set by somebody else. Change it first: in the console, or with POST /api/v1/me/password.",
		"您的密码由他人设置，须先修改密码：请在控制台修改，或使用 POST /api/v1/me/password。",
	},
	CodeReauthenticate: {
		Denied,
		"Values are shown only within %s of a sign-in, and yours is older. Sign in again and repeat the request.",
		"仅在登录后 %s 内可以查看原值，您的登录已超过该时限。请重新登录后再试。",
	},
	CodeApprovalNeeded: {
		Denied,
		"With those you saw in the last hour without an approval, %d values would be shown in full; %d or more need the approval of a second person. Ask for it at POST /api/v1/reveal/approvals and repeat the request with its id as 'approval' once it is given.",
		"连同您最近一小时未经批准查看的，将完整显示 %d 个原值；达到 %d 个需要第二人批准。请通过 POST /api/v1/reveal/approvals 申请，获批后以其 ID 作为 'approval' 重试。",
	},

	CodeBlockedContent: {
		Blocked,
		"The policy blocked the request: it contains data of the class '%s', which may not be sent. Remove it and try again.",
		"策略已拦截请求：其中包含不允许发送的 '%s' 类数据。请删除后重试。",
	},
	CodeBlockedAnswer: {
		Blocked,
		"The policy blocked the answer: it contains data of the class '%s'.",
		"策略已拦截回答：其中包含 '%s' 类数据。",
	},

	CodeModelNotFound: {
		NotFound,
		"The model '%s' does not exist or you do not have access to it. GET /v1/models lists the models you may use.",
		"模型 '%s' 不存在或您无权使用。GET /v1/models 列出可用的模型。",
	},
	CodeCollectionNotFound: {
		NotFound,
		"The collection '%s' does not exist or you do not have access to it.",
		"知识库 '%s' 不存在或您无权访问。",
	},
	CodePassageReplaced: {
		NotFound,
		"Version %s of the document '%s' is no longer kept, so the passage cannot be shown; version %s is in force.",
		"版本 %s 已不再保留（文档 '%s'），无法显示该段落；当前生效的版本为 %s。",
	},
	CodeNotFound: {
		NotFound,
		"The %s '%s' does not exist or you do not have access to it.",
		"%s '%s' 不存在或您无权访问。",
	},
	CodeMethodNotAllowed: {
		Method,
		"The path '%s' does not take the method %s. The Allow header lists the methods it takes.",
		"路径 '%s' 不支持 %s 方法。Allow 响应头列出其支持的方法。",
	},

	CodeConflict: {
		Conflict,
		"The change conflicts with the current state: %s.",
		"更改与当前状态冲突：%s。",
	},
	CodeExists: {
		Conflict,
		"The %s '%s' exists already. Choose another name.",
		"%s '%s' 已存在。请使用其他名称。",
	},
	CodePolicyChanged: {
		Conflict,
		"Another policy version is in force than the one you compared with: '%s'. Compare with it, then publish again.",
		"生效的策略版本已不是您所比较的版本，现为 '%s'。请与之比较后重新发布。",
	},
	CodeConflictingRole: {
		Conflict,
		"The roles '%s' and '%s' exclude each other: one account may hold only one of them.",
		"角色 '%s' 与 '%s' 互斥：同一账号只能持有其中之一。",
	},

	CodeHeld: {
		Conflict,
		"A legal hold covers what would be erased: %s. Nothing was erased. Have the hold released, or let somebody else approve this erasure.",
		"法律保全涵盖了将被擦除的内容：%s。未擦除任何内容。请先解除保全，或由他人批准本次擦除。",
	},

	CodeBodyTooLarge: {
		TooLarge,
		"The request body is larger than %d bytes. Send less, or ask an administrator to raise the limit.",
		"请求体超过 %d 字节。请减小请求，或联系管理员提高上限。",
	},
	CodeTooDeep: {
		TooLarge,
		"The request body nests deeper than %d levels. Flatten it.",
		"请求体嵌套超过 %d 层。请减少嵌套。",
	},

	CodeRateLimited: {
		RateLimited,
		"The limit of %d requests per minute is reached. Wait as long as the Retry-After header says.",
		"已达到每分钟 %d 次请求的上限。请按 Retry-After 响应头等待后重试。",
	},
	CodeTokenRateLimited: {
		RateLimited,
		"The limit of %d tokens per minute is reached. Wait as long as the Retry-After header says.",
		"已达到每分钟 %d 个 token 的上限。请按 Retry-After 响应头等待后重试。",
	},
	CodeConcurrency: {
		RateLimited,
		"The limit of %d concurrent requests is reached. Wait for one to finish.",
		"已达到 %d 个并发请求的上限。请等待其中之一完成。",
	},
	CodeBytesInFlight: {
		RateLimited,
		"The requests of this %s that are being answered may hold %d bytes together. Wait for one to finish.",
		"该%s正在处理的请求总共最多占用 %d 字节。请等待其中之一完成。",
	},
	CodeLoginThrottled: {
		RateLimited,
		"Too many failed sign-ins. Wait as long as the Retry-After header says.",
		"登录失败次数过多。请按 Retry-After 响应头等待后重试。",
	},

	CodeRevealLimited: {
		RateLimited,
		"The limit of %d values shown in full or in part per person and hour is reached. Wait as long as the Retry-After header says.",
		"已达到每人每小时完整或部分显示 %d 个原值的上限。请按 Retry-After 响应头等待后重试。",
	},

	CodeTenantBudget: {
		Quota,
		"The %s budget of tenant '%s' is spent: %s of %s. %s; an administrator of the tenant can raise it.",
		"%s预算（租户 '%s'）已用尽：已支出 %s，上限 %s。%s；租户管理员可以提高预算。",
	},
	CodeKeyBudget: {
		Quota,
		"The %s budget of API key '%s' is spent: %s of %s. %s; an administrator of the tenant can raise it.",
		"%s预算（API 密钥 '%s'）已用尽：已支出 %s，上限 %s。%s；租户管理员可以提高预算。",
	},
	CodeOverBudget: {
		Quota,
		"The request does not fit into the %s budget of %s: of %s, %s is spent and %s is set aside %s, so %s is left; the request could cost up to %s (%s). %s. %s; an administrator of the tenant can raise it.",
		"请求超出%s预算（%s）的余额：上限 %s，已支出 %s，已预留 %s（%s），剩余 %s；本次请求最多可能花费 %s（%s）。%s。%s；租户管理员可以提高预算。",
	},

	CodeVaultFull: {
		Quota,
		"The policy keeps values for those who may see them again, and the limit of %d values is reached for %s, so the request was refused: %s.",
		"策略要求保留原值以供有权人员查看，已达到 %d 个值的上限（%s），请求已被拒绝：%s。",
	},

	CodeAuditUnavailable: {
		Unavailable,
		"The audit log cannot be written, so the request was refused. Try again; if it persists, the administrator should check the disk of the audit log.",
		"审计日志无法写入，请求已被拒绝。请稍后重试；若持续出现，管理员应检查审计日志所在磁盘。",
	},
	CodePolicyUnavailable: {
		Unavailable,
		"No policy is in force, so the request was refused. An administrator must publish one.",
		"当前没有生效的策略，请求已被拒绝。管理员需要发布策略。",
	},
	CodeBillingUnavailable: {
		Unavailable,
		"The budget cannot be checked now, so the request was refused. Try again.",
		"当前无法核对预算，请求已被拒绝。请稍后重试。",
	},
	CodeIdentityUnavailable: {
		Unavailable,
		"Identities cannot be checked now, so the request was refused. Try again.",
		"当前无法核验身份，请求已被拒绝。请稍后重试。",
	},
	CodeLimitUnavailable: {
		Unavailable,
		"The rate limits cannot be checked now, so the request was refused. Try again.",
		"当前无法核对限流，请求已被拒绝。请稍后重试。",
	},
	CodeVaultUnavailable: {
		Unavailable,
		"The values behind pseudonyms cannot be stored or read now, so the request was refused. Try again; if it persists, the administrator should check the database.",
		"当前无法存取假名对应的原值，请求已被拒绝。请稍后重试；若持续出现，管理员应检查数据库。",
	},
	CodeEngineUnavailable: {
		Unavailable,
		"The engine for model '%s' is not available. Try again.",
		"模型 '%s' 的推理引擎不可用。请稍后重试。",
	},
	CodeEngineOverloaded: {
		Unavailable,
		"The engine for model '%s' is at its limit. Try again as the Retry-After header says.",
		"模型 '%s' 的推理引擎已满载。请按 Retry-After 响应头等待后重试。",
	},
	CodeUpstreamFailed: {
		Unavailable,
		"The upstream engine for model '%s' failed. Try again.",
		"模型 '%s' 的上游推理服务出错。请稍后重试。",
	},
	CodeRetrievalFailed: {
		Unavailable,
		"The documents of collection '%s' cannot be searched now. Try again.",
		"当前无法检索知识库 '%s'。请稍后重试。",
	},
	CodeWorkflowUnavailable: {
		Unavailable,
		"The workflow service is not available. Requests to models go on; try this action again later.",
		"工作流服务不可用。模型请求不受影响；请稍后重试此操作。",
	},
	CodeRetrievalOff: {
		Conflict,
		"Retrieval is switched off in this installation. Ask its operator to set rag.embedding_model to a model of the native engine.",
		"此安装未启用检索。请运维人员将 rag.embedding_model 设为本机引擎的向量模型。",
	},
	CodeWorkflowsOff: {
		Conflict,
		"Workflows are switched off here, so there are no rollouts and no capacity schedule. Restart the server without --no-temporal, or set workflows.enabled to true.",
		"此安装已关闭工作流，因此没有灰度发布和容量计划。请去掉 --no-temporal 或将 workflows.enabled 设为 true 后重启服务器。",
	},
	CodeErasureIncomplete: {
		Unavailable,
		"The erasure is not complete. Gone: %s. Not yet gone: %s. Erase again.",
		"擦除尚未完成。已擦除：%s。尚未擦除：%s。请重新擦除。",
	},
	CodeDatabaseUnavailable: {
		Unavailable,
		"The database is not available. Try again.",
		"数据库不可用。请稍后重试。",
	},

	CodeOverloaded: {
		Unavailable,
		"The server holds as many request bytes as it may. Try again as the Retry-After header says.",
		"服务器正在处理的请求数据量已达上限。请按 Retry-After 响应头等待后重试。",
	},

	CodeTimeout: {
		Timeout,
		"The request took longer than %s. Ask for fewer tokens or try again.",
		"请求耗时超过 %s。请减少生成长度或重试。",
	},
	CodeFirstTokenTimeout: {
		Timeout,
		"No text came within %s of the request. Try again, or allow more time.",
		"请求到达后 %s 内没有产生任何文本。请重试，或放宽时限。",
	},
	CodeIdleTimeout: {
		Timeout,
		"The model sent no text for %s, so the answer was broken off. Try again.",
		"模型已有 %s 没有输出，回答被中断。请重试。",
	},
	CodeUpstreamTimeout: {
		Timeout,
		"The upstream engine for model '%s' did not answer in time. Try again.",
		"模型 '%s' 的上游推理服务未及时响应。请稍后重试。",
	},
}

// Codes returns every code; for tests and for the error-code table of the documentation.
func Codes() []Code {
	out := make([]Code, 0, len(table))
	for c := range table {
		out = append(out, c)
	}
	return out
}
