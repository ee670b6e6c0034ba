package gateway

import (
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// AskedModel is the name a caller asked for: "model" or "model@version". What it was routed to is an engine.ModelID, what the
// engine says it ran an engine.ReportedModel.
type AskedModel string

// Action is what a call wants done; audit records carry it.
type Action string

// The actions.
const (
	ActionChat       Action = "chat.completions"
	ActionCompletion Action = "completions"
	ActionEmbed      Action = "embeddings"
	ActionSearch     Action = "rag.search"
	ActionModels     Action = "models.list"
)

// Call is one request, decoded from its dialect. The pipeline owns it from the moment it is handed over, and rewrites its text
// fields when it masks.
type Call struct {
	// Who asks, and where. The edge fills these.
	Credential string
	Plane      identity.Plane
	Permission access.Permission // what the route declares; "" is refused
	RequestID  string
	ClientID   string // the caller's own id for the request, recorded beside ours
	Session    string // the caller's conversation, "" if it names none
	Purpose    string // what the caller wants it for; policies may demand one
	Source     string // remote address
	Route      string // such as "POST /v1/chat/completions"
	Dialect    string
	Language   fault.Lang
	Received   time.Time // when the edge read the request line; zero means now

	// What is asked.
	Action   Action
	Model    AskedModel
	Messages []engine.Message // chat
	Prompt   string           // completions
	Input    []string         // embeddings
	Query    string           // search
	RAG      *RAG             // search, and chat that cites

	// How to generate; nil leaves it to the version's defaults.
	MaxTokens   *int
	Choices     int // 0 means 1
	Temperature *float64
	TopP        *float64
	Seed        *uint64
	Stop        []string
	Logprobs    int // as in engine.Request: -1 none

	Dimensions int // of the vectors, if the caller insists; 0 takes the model's
}

// RAG asks for passages.
type RAG struct {
	Collection string
	TopK       int // 0 means Config.TopK
}
