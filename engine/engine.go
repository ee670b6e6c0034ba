// Package engine is a contract: what running a model means. Its children implement it: engine/native computes in this process,
// engine/remote asks an OpenAI-compatible upstream; engine/enginetest is the suite both pass.
//
// Only the gateway's pipeline calls Generate and Embed; an architecture test holds that, so there is no second way to a model.
package engine

import (
	"context"
	"iter"
	"time"
)

// Engine runs models. Implementations are safe for concurrent use; every method honours its context.
//
// Errors carry a fault code: CodeModelNotFound, CodeContextLength, CodeEngineOverloaded (with a retry time),
// CodeEngineUnavailable, CodeUpstreamFailed, CodeUpstreamTimeout, CodeUnsupported (naming the request field). A cancelled context
// ends with an error for which errors.Is(err, context.Canceled) holds.
type Engine interface {
	// Models lists what the engine can run now, ordered by ID.
	Models(ctx context.Context) ([]Model, error)

	// Count returns the number of prompt tokens of req. Exact is false when the engine can only bound it from above.
	Count(ctx context.Context, req *Request) (Count, error)

	// Generate runs req and yields its events. The sequence is consumed once. It ends after the event that carries Usage, or
	// with exactly one (zero Event, error) pair. Text pieces are whole UTF-8 sequences. Events of different choices may
	// interleave; each choice ends with one event whose Finish is set. Breaking out of the loop, or cancelling ctx, stops the
	// engine at once and frees what the request held; text already yielded stays valid. Invalid bytes a model produces become
	// U+FFFD.
	Generate(ctx context.Context, req *Request) iter.Seq2[Event, error]

	// Embed returns one vector per input, in order, each of the model's EmbedDim and of length one.
	Embed(ctx context.Context, req *EmbedRequest) (*Embeddings, error)

	// Close releases the engine's resources. Requests in flight end with CodeEngineUnavailable.
	Close() error
}

// ModelID names a model inside one engine. It is what the gateway routed to; what a caller asked for and what an engine reports
// it has run are other types (gateway.AskedModel, ReportedModel).
type ModelID string

// ReportedModel is the name under which an engine says it has run a request.
type ReportedModel string

// Model describes one model and what it can do, as data: callers look here and never probe for interfaces.
type Model struct {
	ID            ModelID
	Digest        string // "sha256:<hex>" of the weights; "" when an upstream does not tell
	Template      string // "sha256:<hex>" of the chat template; "" if none or unknown
	Precision     string // precision plan, such as "q4_1" or "f32"; "" when unknown
	ContextTokens int    // prompt plus completion; 0 when unknown
	EmbedDim      int    // 0 unless it can embed

	CanGenerate bool
	CanEmbed    bool
	HasLogprobs bool
	// Deterministic: the same request with the same seed gives the same text, whatever else the engine is doing.
	Deterministic bool
}

// Request asks for completions of one prompt: either Messages, rendered with the model's chat template, or Prompt as it is.
type Request struct {
	Model    ModelID
	Messages []Message
	Prompt   string // used when Messages is nil

	MaxTokens   int     // completion tokens per choice; 0 means as many as the context holds
	Choices     int     // number of independent completions; 0 means 1
	Temperature float64 // 0 is greedy
	TopP        float64 // 0 means 1
	Seed        *uint64 // nil draws a random seed
	Stop        []string
	Logprobs    int // -1: none; 0: the chosen token's only; n: also the n likeliest alternatives (at most 20)
}

// Message is one turn of a chat.
type Message struct {
	Role    string // "system", "user", "assistant", "tool"
	Content string
	Name    string
}

// Event is one step of a generation.
type Event struct {
	Choice   int
	Text     string         // new text; may be empty
	Logprobs []TokenLogprob // of the tokens that ended in this event, when asked for
	Finish   Finish         // set on the last event of a choice
	Usage    *Usage         // set on the last event of the request
}

// Finish says why a choice ended.
type Finish string

// The reasons.
const (
	FinishNone   Finish = ""
	FinishStop   Finish = "stop"   // end-of-text token or a stop string (which is not part of the text)
	FinishLength Finish = "length" // MaxTokens or the context is used up
)

// TokenLogprob is a token with its natural-log probability under the model's own distribution (before temperature and top-p).
type TokenLogprob struct {
	Token   string // text; U+FFFD for bytes that are no character of their own
	Bytes   []byte
	Logprob float64
	Top     []TokenLogprob // the likeliest tokens, best first; their Top is nil
}

// Usage is what a request consumed.
type Usage struct {
	Model            ReportedModel
	PromptTokens     int // includes CachedTokens
	CachedTokens     int
	CompletionTokens int  // all choices
	Estimated        bool // counted by us because the upstream did not say
	// Replay names everything beside the request that decided the answer, the seed included: the same request with the same replay
	// token gets the same answer. It is "" when the engine cannot promise that.
	Replay string

	Queue   time.Duration // waiting for a slot
	Prefill time.Duration // computing the prompt
	Decode  time.Duration // computing the completion
}

// Count is a number of prompt tokens.
type Count struct {
	Tokens int
	Exact  bool
}

// EmbedRequest asks for the vectors of some texts.
type EmbedRequest struct {
	Model ModelID
	Input []string
}

// Embeddings answers an EmbedRequest.
type Embeddings struct {
	Vectors      [][]float32
	PromptTokens int
	Model        ReportedModel
}
