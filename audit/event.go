package audit

import (
	"encoding/hex"

	"github.com/sluice-project/sluice/internal/keyring"
)

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
	Request string `json:"request"`
	Stage   Stage  `json:"stage"`
	Time    int64  `json:"time"` // UTC unix microseconds; Append fills a zero

	Tenant   string `json:"tenant"`
	Project  string `json:"project"`
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
	Decision  string    `json:"decision"`            // "allow" or "refuse"
	Documents []string  `json:"documents,omitempty"` // collection/document@version#chunk

	Usage        Usage  `json:"usage"`
	Label        string `json:"label"`
	PromptDigest string `json:"prompt_digest"` // see Digest
	AnswerDigest string `json:"answer_digest"`

	Outcome   string            `json:"outcome"` // "ok", "refused", "failed" or "aborted"
	ErrorKind string            `json:"error_kind"`
	ErrorCode string            `json:"error_code"`
	Status    int               `json:"status"`
	Latency   Latency           `json:"latency"`
	Detail    map[string]string `json:"detail,omitempty"`
}

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
	Template  string `json:"template"`
	Engine    string `json:"engine"`
}

// Finding counts what the policy found of one class in one direction. The value found is never recorded.
type Finding struct {
	Direction string `json:"direction"` // "request", "passage" or "answer"
	Class     string `json:"class"`
	Action    string `json:"action"` // "masked", "blocked" or "passed"
	Count     int    `json:"count"`
}

// Usage is what the request consumed: tokens, cost in 10⁻⁹ currency units, energy in microjoules.
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

// Latency holds microseconds since the request arrived.
type Latency struct {
	Admit      int64 `json:"admit"`
	Queue      int64 `json:"queue"`
	FirstToken int64 `json:"first_token"`
	Total      int64 `json:"total"`
}

// Receipt says where a record was written. ID is the handle for [Log.Get] and [Log.Prove].
type Receipt struct {
	ID     string
	Writer string
	Seq    uint64
}

// Digest returns the keyed digest of a prompt or an answer: equal texts of one tenant have equal digests, and nobody without the
// master key can test a guess.
func Digest(keys *keyring.Ring, tenant, text string) string {
	return hex.EncodeToString(keys.MAC("audit/content/v1", tenant, text))
}
