package gateway

import (
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
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
	ActionRerank     Action = "rerank"
	ActionScore      Action = "score"
	ActionSearch     Action = "rag.search"
	ActionPassage    Action = "rag.passage"
	ActionIngest     Action = "rag.ingest"
	ActionModels     Action = "models.list"
	ActionCount      Action = "tokens.count"
	ActionTokenize   Action = "tokens.encode" //nolint:gosec // the name of an action
	ActionDetokenize Action = "tokens.decode"
	ActionModerate   Action = "moderations"

	ActionStoreFile   Action = "files.create"
	ActionReadFiles   Action = "files.read"
	ActionReadContent Action = "files.content"
	ActionDeleteFile  Action = "files.delete"
	ActionBatch       Action = "batches.create"
	ActionReadBatches Action = "batches.read"
	ActionCancelBatch Action = "batches.cancel"
	ActionReadResults Action = "batches.results"
	ActionDeleteBatch Action = "batches.delete"

	ActionReadResponse   Action = "responses.read"
	ActionDeleteResponse Action = "responses.delete"
)

// runsNothing reports whether an action asks nothing of a model: it has to do with texts, or their tokens, alone.
func (a Action) runsNothing() bool {
	return a == ActionCount || a == ActionTokenize || a == ActionDetokenize || a == ActionModerate
}

// judgedAs is the action whose exceptions in the policy hold: what is counted, or told in tokens, is a prompt of a chat or of a completion, and an engine may get it.
func (c *Call) judgedAs() Action {
	switch {
	case c.Action != ActionCount && c.Action != ActionTokenize:
		return c.Action
	case len(c.Messages) > 0:
		return ActionChat
	default:
		return ActionCompletion
	}
}

// Call is one request, decoded from its dialect. The pipeline owns it from the moment it is handed over and leaves it as it came; masking works
// on a copy.
type Call struct {
	// Who asks, and where. The edge fills these.
	Credential string
	As         *identity.Acting // in whose name a line of a batch is asked, in the place of a credential; its class is always batch
	Batch      string           // of which it is a line
	Resource   string           // what an act of a caller is about
	Plane      identity.Plane
	Permission access.Permission // what the route declares; "" is refused
	Tenant     string            // in which it is asked, if that is another than the caller's own: the permission must reach there
	RequestID  string
	parent     string               // the request that it is a part of; "" for a request itself
	fallback   *fallback            // nil: a call that never asks another model; its zero value is of one that may
	ClientID   string               // the caller's own id for the request, recorded beside ours
	Session    string               // the caller's conversation, "" if it names none
	OnBehalfOf string               // whom the caller says it is for, in the caller's own words; recorded as a keyed digest
	Purpose    string               // what the caller wants it for; policies may demand one
	DataGrade  governance.DataGrade // that the caller states of the data; it only raises what the policy says
	Source     string               // remote address
	Route      string               // such as "POST /v1/chat/completions"
	Dialect    string
	Language   fault.Lang
	Received   time.Time // when the edge had read the headers; zero means now

	// What is asked.
	Action   Action
	Model    AskedModel
	Messages []engine.Message // chat
	Places   []string         // what the dialect calls each of them, for errors; nil: messages[i]
	Prompt   string           // completions
	Tokens   []int32          // whose text is wanted
	Input    []string         // embeddings, and texts that are only examined
	Role     engine.InputRole // what the inputs are
	Query    string           // search, and what documents are scored against
	RAG      *RAG             // search, chat that cites, and a passage that is opened
	Passage  *Passage         // a passage that is opened
	Document *rag.Document    // a document that is taken in

	// Documents are scored against Query, or each against its own of Queries.
	Documents []string
	Queries   []string

	// TopN is how many of the best documents are wanted, all if 0; ReturnDocuments whether with their texts.
	TopN            int
	ReturnDocuments bool

	// Known are values that the caller says are sensitive: they are masked wherever they stand. Nothing records them.
	Known []classify.Known

	// Tools are what a chat may call.
	Tools         []engine.Tool
	ToolChoice    engine.ToolChoice
	ParallelTools bool

	// OmitBegin leaves out the token that only begins a text; TokenTexts wants the text of each token. A model that tells no tokens refuses both.
	OmitBegin, TokenTexts bool

	// FieldNames is what the dialect calls fields of Sampling, for errors; those that it leaves out have their own names.
	FieldNames map[string]string

	// Format constrains the answer; FormatField is the field that asked for it, for errors.
	Format      *engine.Format
	FormatField string

	// How urgent it is.
	Class             engine.Class
	Priority          int
	FirstTokenTimeout time.Duration // a first token later than this after the arrival is worth nothing; 0: none

	// Blocking: the caller gets the answer when it is complete.
	Blocking bool
	// Signature: the form in which the caller wants the answer signed; "": not. Calls that generate no text refuse it.
	Signature signature.Form

	// How to generate; nil leaves it to the version's defaults.
	MaxTokens   *int
	Choices     int // 0 means 1
	Temperature *float64
	TopP        *float64
	Seed        *uint64
	Stop        []string
	Logprobs    int // as in engine.Request: -1 none
	Sampling

	Dimensions int // of the vectors, if the caller insists; 0 takes the model's

	authenticated *run // of Authenticate: the run that follows takes its place in memory
}

// place is what the dialect calls the i-th message.
func (c *Call) place(i int) string {
	if i < len(c.Places) {
		return c.Places[i]
	}
	return at("messages", i)
}

// withoutTexts returns the call without what it says, and without secrets.
func (c *Call) withoutTexts() Call {
	out := *c
	out.Credential, out.Session, out.OnBehalfOf = "", "", ""
	out.Messages, out.Prompt, out.Tokens, out.Stop, out.Known = nil, "", nil, nil, nil
	out.Input, out.Query, out.Queries, out.Documents = nil, "", nil, nil
	out.Tools, out.Format, out.authenticated = nil, nil, nil
	return out
}

// part returns the call as a part of itself, with records and books of its own.
func (c *Call) part(name string, class engine.Class) *Call {
	out := *c
	out.RequestID, out.parent, out.Class = c.RequestID+"."+name, c.RequestID, class
	return &out
}

// collection is what the call reads from or adds to, "" for most.
func (c *Call) collection() string {
	switch {
	case c.RAG != nil:
		return c.RAG.Collection
	case c.Document != nil:
		return c.Document.Collection
	}
	return ""
}

// Sampling are the fields that only some engines honour; see engine.Request. The zero value asks for nothing.
type Sampling struct {
	TopK              int
	MinP              float64
	RepetitionPenalty float64
	FrequencyPenalty  float64
	PresencePenalty   float64
	LogitBias         map[int32]float64
	MinTokens         int
	Echo              bool
}

// RAG asks for passages.
type RAG struct {
	Collection string
	TopK       int       // 0 means Config.TopK
	AsOf       time.Time // what was in effect then is searched; zero: now
	OmitQuotes bool      // of a chat: citations say where passages stand and not what they say
}

// Passage names a passage of the collection as a citation does.
type Passage struct {
	DocumentID, Version string
	Chunk               int
	Context             int // how many passages on either side are wanted too
}
