// Package engine is a contract: what running a model means. Its children implement it: engine/native computes in this process,
// engine/remote asks an OpenAI-compatible upstream, engine/worker an engine in another process of ours; engine/enginetest is the suite all pass.
//
// A request runs in two steps. Prepare makes a Prompt of it: the text that the model reads is rendered and tokenised there, once, and nowhere
// else. Whoever asks how long the prompt is reads Prompt.Tokens. Generate, Embed or Score then runs the prompt.
//
// Only the gateway asks an engine; an architecture test names the exceptions, so there is no second way to a model.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
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

	// Prepare renders and tokenises what is asked, once, and checks that it fits the model's context. The prompt holds none of the engine's
	// resources, so nobody has to give it back. w is not changed, and what it points to has to stay as it is while the prompt is used. A prompt
	// may be run several times, also at once. One that another engine prepared, or another instance of the model, is prepared again when it is
	// run; one of another kind of work is refused with ErrOtherWork.
	//
	// Of the optional segments it keeps the longest prefix that takes at most SegmentTokens and at most half of the context, and leaves
	// room for one completion token. Each segment is tokenised once, by itself. What does not fit without any is refused with
	// CodeContextLength. An engine that can only bound lengths from above does not know how much room there is: it refuses nothing for
	// want of room, leaves no segment out for it, and lets its upstream decide.
	Prepare(ctx context.Context, w Work) (*Prompt, error)

	// Generate runs the prompt of a Request and yields its events; Usage counts what ran.
	//
	// The sequence is consumed once. It ends after the event that carries Usage, or with exactly one (zero Event, error) pair. Text
	// pieces are whole UTF-8 sequences. Events of different choices may interleave; each choice ends with one event whose Finish is
	// set. Breaking out of the loop, or cancelling ctx, stops the engine at once and frees what the request held; text already yielded
	// stays valid. Invalid bytes a model produces become U+FFFD.
	Generate(ctx context.Context, p *Prompt) iter.Seq2[Event, error]

	// Embed runs the prompt of an EmbedRequest. It returns one vector per input, in order, each of the asked dimensions and of length one.
	Embed(ctx context.Context, p *Prompt) (*Embeddings, error)

	// Score runs the prompt of a ScoreRequest. It says how well each document answers the query, in order.
	Score(ctx context.Context, p *Prompt) (*Scores, error)

	// Tokens tells the tokens of the prompt of a Request, as the model reads them. Nothing is computed for it. Of a model without HasTokens it is
	// refused with CodeUnsupported.
	Tokens(ctx context.Context, p *Prompt) (*TokenList, error)

	// Detokenize returns the text of tokens: the opposite of Tokens. Control tokens are spelt by their names, and bytes that are no character become
	// U+FFFD. A number that is no token of the model is refused with CodeInvalidValue, more tokens than its context holds with CodeContextLength,
	// and a model without HasDetokenize with CodeUnsupported.
	Detokenize(ctx context.Context, q *DetokenizeRequest) (string, error)

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
	EngineVersion string // of what runs the model; "" when an upstream does not tell
	ContextTokens int    // prompt plus completion; 0 when unknown
	EmbedDim      int    // 0 unless it can embed

	// Base is the model that an adapter changes, and Adapter the adapter's digest; "" for a model of its own.
	Base    ModelID
	Adapter string

	Audience Audience
	// Local: it runs on this machine, whose declared power its requests are accounted by.
	Local bool

	CanGenerate bool
	PromptOnly  bool // generates from Prompt and not from Messages: it has no chat template
	CanEmbed    bool
	CanScore    bool
	HasLogprobs bool
	HasFormats  bool // honours Request.Format
	HasTools    bool // honours Request.Tools
	HasHooks    bool // honours Request.Hook
	HasMarks    bool // honours Request.Watermark
	HasClasses  bool // honours Request.Class
	HasSampling bool // honours TopK, MinP, MinTokens, the penalties, LogitBias and Echo
	HasTokens   bool // tells the tokens of prompts, and honours Request.OmitBegin
	// HasDetokenize: it makes texts of tokens. What the tokens say nobody has masked, so only engines have it that read them in a process of ours.
	HasDetokenize bool
	// NonStreaming: a request with Request.NonStreaming is answered in one event for each choice, and until then nothing tells how far it is.
	NonStreaming bool
	// Deterministic: the same request with the same seed gives the same text, whatever else the engine is doing.
	Deterministic bool
}

// Audience says which tenants may use a model; the zero value is all. It is a text, so that models can be compared.
type Audience string

// AudienceOf returns the audience of these tenants, all without one.
func AudienceOf(tenants []string) Audience {
	if len(tenants) == 0 {
		return ""
	}
	return Audience("\n" + strings.Join(tenants, "\n") + "\n")
}

// Has reports whether a tenant may use the model.
func (a Audience) Has(tenant string) bool {
	return a == "" || tenant != "" && strings.Contains(string(a), "\n"+tenant+"\n")
}

// Work is what an engine prepares and runs: a *Request, an *EmbedRequest or a *ScoreRequest.
type Work interface{ work() }

func (*Request) work()      {}
func (*EmbedRequest) work() {}
func (*ScoreRequest) work() {}

// ErrOtherWork is the error of a prompt that was given to another method than that of its kind of work.
var ErrOtherWork = errors.New("the prompt is of another kind of work")

// Request asks for completions of one prompt: either Messages, rendered with the model's chat template, or Prompt as it is.
type Request struct {
	Model    ModelID
	Messages []Message
	Prompt   string // used when Messages is nil
	// OmitBegin leaves out the token that only begins a text, unless the template itself writes it.
	OmitBegin bool

	// Segments are optional pieces of text that stand, in order, one after the other in front of the content of the last message of a user
	// (of the last message, if none is a user's). Prepare keeps as many as fit, from the first. SegmentTokens is the most that all of
	// them may take; 0: no bound but the context. They need Messages.
	Segments      []string
	SegmentTokens int

	// Tools are functions that the model may call; ToolChoice says whether it may or must. ParallelTools allows several calls in
	// one answer. They need Messages.
	Tools         []Tool
	ToolChoice    ToolChoice
	ParallelTools bool

	// Who asks, and how urgently. The server fills these; no field of a client reaches ID and Tenant.
	ID       string    // names the request in the log of steps; "" is given a name
	Tenant   string    // whose fair share, cached prefixes and adapters it is; "" is a tenant like any other
	Class    Class     // "" is ClassStandard
	Priority int       // among the tenant's requests of the class: higher goes first
	Deadline time.Time // a first token after it is worth nothing: the engine refuses what cannot make it; zero: none
	// SharedPrefix lets keys and values of the prompt be shared with other tenants whose requests say so too: who shares learns by
	// timing what others asked, so a policy has to allow it.
	SharedPrefix bool

	// NonStreaming says that nobody reads the answer before it is complete. An engine may then send each choice in one event, at less cost.
	NonStreaming bool

	MaxTokens int  // completion tokens per choice; 0 means as many as the context holds
	MinTokens int  // before these, neither an end-of-text token nor a stop string ends a choice
	Choices   int  // number of independent completions; 0 means 1
	Echo      bool // the text begins with the prompt; needs Prompt

	// Sampling, in this order: LogitBias and the penalties change logits; Format's grammar and MinTokens forbid tokens; then
	// Temperature, TopK, TopP and MinP; then Hook; then one token is drawn, by Watermark where that marks.
	Temperature       float64 // 0 is greedy
	TopP              float64 // 0 means 1
	TopK              int     // 0 means all
	MinP              float64 // least probability as a share of the likeliest token's; 0 means none
	RepetitionPenalty float64 // divides positive and multiplies negative logits of tokens of the prompt and the completion; 0 means 1
	FrequencyPenalty  float64 // taken off the logit for each occurrence in the completion
	PresencePenalty   float64 // taken off once
	LogitBias         map[int32]float64
	Seed              *uint64 // nil draws a random seed
	Stop              []string
	Logprobs          int // -1: none; 0: the chosen token's only; n: also the n likeliest alternatives (at most 20)

	Format *Format // nil: free text
	Hook   Hook    // nil: none

	// Watermark marks the answer; nil: none. An engine that cannot mark, or a request that is not to be marked, is answered without a mark:
	// Event.Marking says so.
	Watermark *Watermark
}

// Class is a queue class: how long a token may take.
type Class string

// The classes, most urgent first.
const (
	ClassInteractive Class = "interactive" // somebody watches the text appear
	ClassStandard    Class = "standard"
	ClassBatch       Class = "batch" // takes what the others leave
)

// Format constrains a completion. One field is set. An invalid or too costly one is refused with CodeInvalidValue.
type Format struct {
	JSONObject bool            // any JSON object
	JSONSchema json.RawMessage // JSON that satisfies this schema
	GBNF       string          // text of this grammar
	Regex      string          // text that this expression (RE2 syntax) matches as a whole
	Choice     []string        // one of these texts
}

// Watermark marks an answer in the choice of its tokens. It is made of functions, since engines know neither schemes nor keys. The same
// request with the same seed and a watermark of the same key and epoch has the same answer. What a format or a tool's schema shapes, and the calls of
// tools, are never marked.
type Watermark struct {
	// What is told again in Marking: the scheme, a name of the key that gives nothing of it away, and the key's epoch.
	Scheme string
	Key    string
	Epoch  uint32

	Greedy bool // marks at temperature 0, too: the marker changes weights, those at temperature 1, and the heaviest token is taken

	// Begin returns what marks one choice, never nil. The seed is the request's, or the random one drawn for it. It is called on the goroutine of
	// whoever asks, and may be called several times, also at once. Without it, the request ends with CodeInternal; without it and Key, as where no engine
	// that can mark was expected, it is answered without a mark, and the reason is MarkReasonEngine.
	Begin func(seed uint64, choice int) Marker
}

// Marker takes part in the draws of one choice, one after the other, each once: whatever is guessed ahead, computed again or asked at the
// same time. completion are the tokens of the choice so far. weights are those of the tokens that may be drawn, their probabilities but
// for a common factor; weights[i] is that of tokens[i], or of token i where tokens is nil. All three are valid during the call.
//
// A marker that marks returns true, and the index of the token that is drawn, or any index below 0 after changing weights in place: one is drawn
// from them then. One that does not mark here changes nothing and returns false; its index is not read, and the token is drawn as without a
// watermark. An index behind the end or of no weight, and weights that are no numbers from 0 on, end the request with an error. A marker is called
// by the engine's own goroutine, so it must be quick.
type Marker func(completion, tokens []int32, weights []float32) (index int, marked bool)

// Marking says what came of a Request.Watermark.
type Marking struct {
	Applied bool       // at least one token was marked
	Reason  MarkReason // why none was; "" if Applied
	Scheme  string
	Key     string
	Epoch   uint32
	Tokens  int // completion tokens, of all choices, that a marker drew where there were two at least to draw from; only so many may show in the text
}

// MarkReason is why an answer has no mark.
type MarkReason string

// The reasons.
const (
	MarkReasonEngine      MarkReason = "engine"      // it cannot mark
	MarkReasonTemperature MarkReason = "temperature" // it is 0: there is nothing to choose
	MarkReasonStructured  MarkReason = "structured"  // a format or a call shapes the answer
	MarkReasonCertain     MarkReason = "certain"     // wherever a token could have been marked, one alone was left to draw
	MarkReasonShort       MarkReason = "short"       // it ended before a token could be marked
)

// Unmarked is the Marking of an answer without a mark; nil if none was asked for.
func (r *Request) Unmarked(why MarkReason) *Marking {
	w := r.Watermark
	if w == nil {
		return nil
	}
	return &Marking{Reason: why, Scheme: w.Scheme, Key: w.Key, Epoch: w.Epoch}
}

// Hook sees the tokens of which one is about to be drawn and may change their weights: a watermark, for instance. An error ends the
// choice's request with it. It is called by the engine's own goroutine, so it must be quick; requests may share one.
type Hook func(*Draw) error

// Draw is one token about to be drawn. It is valid during the call.
type Draw struct {
	Choice     int
	Prompt     []int32     // tokens of the prompt, not to be changed
	Completion []int32     // tokens of the choice so far, not to be changed
	Candidates []Candidate // with a weight above zero, in the order of their IDs; a hook changes weights in place
}

// Candidate is a token with its weight: its probability but for a common factor. At temperature 0 the heaviest is taken.
type Candidate struct {
	Token  int32
	Weight float32
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of the arguments object; nil: none
	Strict      bool            // arguments are held to the schema
}

// ToolChoice says whether tools are called.
type ToolChoice struct {
	Mode ToolMode // "" is ToolAuto
	Name string   // of ToolFunction
}

// ToolMode is what a ToolChoice asks for.
type ToolMode string

// The modes.
const (
	ToolAuto     ToolMode = "auto"     // the model decides
	ToolNone     ToolMode = "none"     // no calls
	ToolRequired ToolMode = "required" // at least one call
	ToolFunction ToolMode = "function" // a call of the named tool
)

// ToolCall is a call that the model made in an earlier turn.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // a JSON object
}

// Message is one turn of a chat.
type Message struct {
	Role       string // "system", "user", "assistant", "tool"
	Content    string
	Name       string
	ToolCalls  []ToolCall // of an assistant's turn
	ToolCallID string     // of a tool's turn: the call it answers
}

// ErrNotReached is wrapped by the error of a request that was given up before anything that works on it had it.
var ErrNotReached = errors.New("the request was not sent")

// ErrRefused is wrapped by the error of a request that an upstream itself answered with a refusal, in the place of an answer.
var ErrRefused = errors.New("the request was refused")

// Event is one step of a generation.
type Event struct {
	Choice    int
	Text      string         // new text; may be empty
	Reasoning string         // new text of what the model thinks before it answers, where that is told apart
	Refusal   string         // new text of why it does not answer, where that is told apart
	Calls     []ToolDelta    // new parts of tool calls
	Logprobs  []TokenLogprob // of the tokens that ended in this event, when asked for
	Finish    Finish         // set on the last event of a choice
	// StoppedBy tells with Finish which of Request.Stop ended the choice: 1 and its place there; 0 where none did or the engine does not tell.
	StoppedBy int
	Usage     *Usage // set on the last event of the request
	// Marking is set with Usage where Request.Watermark was.
	Marking *Marking
	// More says that another event is there already, or an error. Whoever sends events on may send this one together with it. It stays with the
	// engine: an event that brings nothing, not even More, only ends the waiting.
	More bool
	// Used is what the whole request has used, where an engine knows that before the last event: with the first one of an answer in one piece.
	Used *Usage
}

// HasOutput reports whether the event brings text of any kind, or a part of a call.
func (e *Event) HasOutput() bool {
	return e.Text != "" || e.Reasoning != "" || e.Refusal != "" || len(e.Calls) > 0
}

// Empty reports whether the event tells nothing: it need not be passed on.
func (e *Event) Empty() bool {
	return !e.HasOutput() && e.Finish == FinishNone && e.Usage == nil && len(e.Logprobs) == 0
}

// ToolDelta is a new part of a tool call. The parts of one call have its Index; ID and Name come with the first, and the Arguments
// of all of them together are a JSON object.
type ToolDelta struct {
	Index     int
	ID, Name  string
	Arguments string
}

// Finish says why a choice ended.
type Finish string

// The reasons.
const (
	FinishNone   Finish = ""
	FinishStop   Finish = "stop"   // end-of-text token or a stop string (which is not part of the text)
	FinishLength Finish = "length" // MaxTokens or the context is used up
	FinishTools  Finish = "tool_calls"
	FinishFilter Finish = "content_filter" // an upstream's filter broke the answer off
)

// TokenLogprob is a token with its natural-log probability under the model's own distribution (before temperature and top-p).
type TokenLogprob struct {
	Token   string // text; U+FFFD for bytes that are no character of their own
	Bytes   []byte
	Logprob float64        // NaN: the model says nothing of it, as of the first token of an echoed prompt
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

// EmbedRequest asks for the vectors of some texts.
type EmbedRequest struct {
	Model  ModelID
	Input  []string
	Tenant string
	Class  Class
	// Role says what the texts are to models that tell queries from passages by a prefix; "" adds none.
	Role       InputRole
	Dimensions int // of the vectors: the first of the model's, scaled to length one; 0 means all
}

// InputRole is what an embedded text is.
type InputRole string

// The roles.
const (
	RoleQuery   InputRole = "query"
	RolePassage InputRole = "passage"
)

// Embeddings answers an EmbedRequest.
type Embeddings struct {
	Vectors      [][]float32
	PromptTokens int // of all inputs
	Model        ReportedModel
}

// ScoreRequest asks how well documents answer a query.
type ScoreRequest struct {
	Model     ModelID
	Query     string
	Documents []string
	Tenant    string
	Class     Class
}

// Scores answers a ScoreRequest.
type Scores struct {
	Scores       []float64 // of each document, in order: higher is better, from 0 to 1
	PromptTokens int
	Model        ReportedModel
}

// TokenList is a prompt as the model reads it.
type TokenList struct {
	IDs []int32
	// Texts says of each what people read: the name of a control token, U+FFFD for bytes that are no character of their own.
	Texts []string
}

// DetokenizeRequest asks for the text of tokens.
type DetokenizeRequest struct {
	Model  ModelID
	Tokens []int32
	Tenant string // whose adapters there are
}
