// Package record is the form of one audit record: what it says, and the bytes that stand for it. The bytes are what the tree is over,
// so they are canonical, versioned and frozen: a record of any version that was ever written can be read for ever.
package record

// Stage says which moment of a request a record describes.
type Stage string

// The stages. A request has one admitted record, written before the engine is asked, and one outcome record.
const (
	StageAdmitted Stage = "admitted"
	StageOutcome  Stage = "outcome"
	StageAction   Stage = "action" // administration: complete in itself
)

// Event is one audit record. It holds identifiers, counts and digests, never prompt or answer text.
type Event struct {
	Schema  int    `json:"schema"` // filled by Append
	ID      string `json:"id"`     // UUIDv7, filled by Append
	Salt    string `json:"salt"`   // hex of 16 random bytes, filled by Append: who knows a leaf hash alone cannot guess the record
	Request string `json:"request"`
	Stage   Stage  `json:"stage"`
	Time    int64  `json:"time"` // UTC unix microseconds; Append fills a zero

	Tenant   string `json:"tenant"`
	Project  string `json:"project"`
	Region   string `json:"region"` // of the replica
	Actor    Actor  `json:"actor"`
	Session  string `json:"session"`
	Source   string `json:"source"` // remote address
	Action   string `json:"action"` // "chat.completions", "key.create", "login", …
	Resource string `json:"resource"`
	Route    string `json:"route"`
	Dialect  string `json:"dialect"`

	Model        Model  `json:"model"`
	Policy       string `json:"policy"`
	PolicyDigest string `json:"policy_digest"`
	PriceBook    string `json:"price_book"`
	Rollout      string `json:"rollout"`
	Arm          string `json:"arm"`

	Findings  []Finding `json:"findings,omitempty"`
	Safety    []Rule    `json:"safety,omitempty"`    // reserved: no rules of content safety are there yet
	Decision  string    `json:"decision"`            // "allow" or "refuse"
	Documents []string  `json:"documents,omitempty"` // collection/document@version#chunk

	Usage        Usage  `json:"usage"`
	Label        string `json:"label"`
	LabelKey     string `json:"label_key"`     // id of the key of its code
	Watermark    string `json:"watermark"`     // id of the key by which the answer is marked; "" where it is not, or broke off: then Detail has watermark_key
	PromptDigest string `json:"prompt_digest"` // keyed
	AnswerDigest string `json:"answer_digest"`

	Contents []Content `json:"contents,omitempty"`

	Outcome   string            `json:"outcome"` // "ok", "refused", "failed" or "aborted"
	ErrorKind string            `json:"error_kind"`
	ErrorCode string            `json:"error_code"`
	Status    int               `json:"status"`
	Latency   Latency           `json:"latency"`
	Steps     Steps             `json:"steps"`
	Detail    map[string]string `json:"detail,omitempty"`
}

// LabelAgreement is the key of a detail: the agreement under which an answer went without a visible label.
const LabelAgreement = "label_agreement"

// VisibleLabel is the key of a detail: why an answer went without a visible label that was demanded, "impossible" or "missing".
const VisibleLabel = "visible_label"

// Actor is who acted, and for whom.
type Actor struct {
	Kind       string `json:"kind"` // "key", "user" or "system"
	ID         string `json:"id"`
	Name       string `json:"name"`
	OnBehalfOf string `json:"on_behalf_of"`
}

// Model names the model as asked, as routed and as the engine reported it, with everything that decides its answers.
type Model struct {
	Asked     string `json:"asked"`
	Routed    string `json:"routed"`
	Reported  string `json:"reported"`
	Version   string `json:"version"`
	Digest    string `json:"digest"`
	Precision string `json:"precision"`
	Template  string `json:"template"` // digest of the chat template
	Engine    string `json:"engine"`   // and its version
	Adapter   string `json:"adapter"`  // digest
	Replay    string `json:"replay"`   // with what the same answer comes again; "" when the engine cannot promise it
}

// Finding counts what the policy found of one class in one direction. The value found is never recorded.
type Finding struct {
	Direction string `json:"direction"` // "request", "passage" or "answer"
	Class     string `json:"class"`
	Detector  string `json:"detector"` // that found it, and its version
	Action    string `json:"action"`   // what was done, in the words of policies, see Done; of pseudonyms in answers "unknown" or "cut"
	Count     int    `json:"count"`
}

// Done returns what was done to the values in the words of policies: block, redact, hash, token, partial or observe. Records that were
// written before policies, replies and records had the same words for it have others, and keep them.
func (f Finding) Done() string {
	switch f.Action {
	case "masked":
		return "token"
	case "redacted":
		return "redact"
	case "hashed":
		return "hash"
	case "blocked":
		return "block"
	case "passed":
		return "observe"
	}
	return f.Action
}

// Rule is a decision of a safety rule.
type Rule struct {
	Direction string `json:"direction"`
	ID        string `json:"id"`
	Action    string `json:"action"` // "passed", "masked", "blocked" or "reviewed"
}

// Content is a prompt or an answer that is kept, encrypted, beside the record. The record commits to the ciphertext, so that it stays
// provable when the key is destroyed.
type Content struct {
	Direction string `json:"direction"` // "request" or "answer"
	Form      string `json:"form"`      // "masked" or "clear", with "-cut" behind it if the text was longer than the site keeps
	Key       string `json:"key"`       // id of the data key
	Digest    string `json:"digest"`    // hex SHA-256 of the ciphertext
	Bytes     int64  `json:"bytes"`     // of the ciphertext
}

// Usage is what the request consumed: tokens, cost in 10⁻⁹ currency units, energy in microjoules. In the admitted record of a request whose
// answer may leave before its outcome is durable, and of a part of a request, it is what is billed if there never is an outcome.
type Usage struct {
	PromptTokens     int64  `json:"prompt_tokens"`
	CachedTokens     int64  `json:"cached_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	Estimated        bool   `json:"estimated"`
	Cost             int64  `json:"cost"`
	Currency         string `json:"currency"`
	Energy           int64  `json:"energy"`
	EnergyMethod     string `json:"energy_method"`
}

// Latency holds microseconds since the request arrived, but for Queue: how long it waited in the engine for a place.
type Latency struct {
	Admit      int64 `json:"admit"`
	Queue      int64 `json:"queue"`
	FirstToken int64 `json:"first_token"`
	Total      int64 `json:"total"`
}

// Steps says how many microseconds each step of a request took; 0 where it was not taken. Prefill and Decode are the engine's own
// figures, where it has some.
type Steps struct {
	Authenticate int64 `json:"authenticate"`
	Limit        int64 `json:"limit"`
	Policy       int64 `json:"policy"` // and masking
	Route        int64 `json:"route"`
	Reserve      int64 `json:"reserve"` // of the worst-case cost
	Retrieve     int64 `json:"retrieve"`
	Record       int64 `json:"record"` // making the admitted record durable
	Prefill      int64 `json:"prefill"`
	Decode       int64 `json:"decode"`
}
