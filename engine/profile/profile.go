package profile

import (
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/unified"
)

// Basis is what a profile rests on.
type Basis string

// The bases.
const (
	// Documented: documents or code of the engine's owner were read, and are named.
	Documented Basis = "documented"
	// Family: it is a build of, or a plug-in for, the engine that it extends, whose server answers.
	Family Basis = "family"
	// Assumed: nothing was found of its dialect. What it extends is a guess for configurations, and proves nothing: its grade is E0.
	Assumed Basis = "assumed"
)

// Profile is how one system speaks.
type Profile struct {
	Name    string            `yaml:"profile" json:"profile"` // as configurations write it
	Title   string            `yaml:"title" json:"title"`
	Extends string            `yaml:"extends,omitempty" json:"extends,omitempty"`
	Family  string            `yaml:"family" json:"family"` // of the dialect: vllm, sglang, mindie, openai …
	Kind    string            `yaml:"kind" json:"kind"`     // engine, plug-in, platform, stack, cloud or protocol
	Basis   Basis             `yaml:"basis" json:"basis"`
	Systems []string          `yaml:"systems,omitempty" json:"systems,omitempty"` // further names of the list of systems that it stands for
	About   Text              `yaml:"about,omitempty" json:"about,omitzero"`
	Sources map[string]Source `yaml:"sources,omitempty" json:"sources,omitempty"`
	// Ran are runs of real software that a test or a report shows.
	Ran []Run `yaml:"ran,omitempty" json:"ran,omitempty"`
	// NotRun says why the real software does not run in TestRealPeers, where that was tried or looked into.
	NotRun Text `yaml:"not_run,omitempty" json:"not_run,omitzero"`

	// RerankScores is "logit" where reranking always answers with log-odds; else scores from 0 to 1 are taken for what they are.
	RerankScores string `yaml:"rerank_scores,omitempty" json:"rerank_scores,omitempty"`
	// Cloud: it runs outside, so that data of some classes may not go there.
	Cloud bool `yaml:"cloud,omitempty" json:"cloud,omitempty"`

	Ports     Ports               `yaml:"ports,omitempty" json:"ports,omitzero"`
	Endpoints Endpoints           `yaml:"endpoints,omitempty" json:"endpoints,omitzero"`
	Health    Health              `yaml:"health,omitempty" json:"health,omitzero"`
	Version   Probe               `yaml:"version,omitempty" json:"version,omitzero"`
	Models    ModelList           `yaml:"models,omitempty" json:"models,omitzero"`
	Request   Request             `yaml:"request,omitempty" json:"request,omitzero"`
	Stream    Stream              `yaml:"stream,omitempty" json:"stream,omitzero"`
	Errors    Errors              `yaml:"errors,omitempty" json:"errors,omitzero"`
	Cancel    Cancel              `yaml:"cancel,omitempty" json:"cancel,omitzero"`
	Drain     Drain               `yaml:"drain,omitempty" json:"drain,omitzero"`
	Metrics   Metrics             `yaml:"metrics,omitempty" json:"metrics,omitzero"`
	Tokenizer Tokenizer           `yaml:"tokenizer,omitempty" json:"tokenizer,omitzero"`
	Adapters  Adapters            `yaml:"adapters,omitempty" json:"adapters,omitzero"`
	Quirks    []Quirk             `yaml:"quirks,omitempty" json:"quirks,omitempty"`
	Claimed   capability.Contract `yaml:"contract,omitempty" json:"contract"` // what its documents claim; Contract says what may be believed

	digest string
}

// Text is a text in both languages.
type Text struct {
	En string `yaml:"en" json:"en"`
	Zh string `yaml:"zh" json:"zh"`
}

// Source is where a fact stands.
type Source struct {
	URL     string `yaml:"url" json:"url"`
	Version string `yaml:"version,omitempty" json:"version,omitempty"` // release or commit
	Date    string `yaml:"date" json:"date"`                           // on which it was read, as 2026-11-26
	Says    string `yaml:"says,omitempty" json:"says,omitempty"`       // what was seen there
}

// Run is a run of real software.
type Run struct {
	Grade   capability.Grade `yaml:"grade" json:"grade"`
	Version string           `yaml:"version" json:"version"`
	Date    string           `yaml:"date" json:"date"`
	Test    string           `yaml:"test" json:"test"`
}

// Ports are the default ports. One that is 0 is not documented, or is the main one.
type Ports struct {
	Main       int    `yaml:"main,omitempty" json:"main,omitempty"`
	Management int    `yaml:"management,omitempty" json:"management,omitempty"`
	Metrics    int    `yaml:"metrics,omitempty" json:"metrics,omitempty"`
	Source     string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Endpoints are paths below the root of the server; "" is one that is not known or not there. {model} stands for the model's name.
type Endpoints struct {
	// Base is what OpenAI's paths begin with, such as "/v1". A configuration's base_url ends with it.
	Base        string `yaml:"base,omitempty" json:"base,omitempty"`
	Chat        string `yaml:"chat,omitempty" json:"chat,omitempty"`
	Completions string `yaml:"completions,omitempty" json:"completions,omitempty"`
	Embeddings  string `yaml:"embeddings,omitempty" json:"embeddings,omitempty"`
	Rerank      string `yaml:"rerank,omitempty" json:"rerank,omitempty"`
	Tokenize    string `yaml:"tokenize,omitempty" json:"tokenize,omitempty"`
	// Generate is the engine's own form, spoken besides OpenAI's, and Form its name: tgi, v2, vllm, sglang, ollama.
	Generate string `yaml:"generate,omitempty" json:"generate,omitempty"`
	Form     string `yaml:"form,omitempty" json:"form,omitempty"`
	Slots    string `yaml:"slots,omitempty" json:"slots,omitempty"`
	Source   string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Port says where a path is served.
type Port string

// The ports of a server; "" is PortMain.
const (
	PortMain       Port = "main"
	PortManagement Port = "management"
	PortMetrics    Port = "metrics"
)

// Health is how it tells that it lives and is ready.
type Health struct {
	Live  Check  `yaml:"live,omitempty" json:"live,omitzero"`
	Ready Check  `yaml:"ready,omitempty" json:"ready,omitzero"`
	Note  string `yaml:"note,omitempty" json:"note,omitempty"`
}

// Question is the one that tells whether it takes requests: whether it is ready, or, where there is no such question, whether it lives. Its path is empty
// where the profile knows neither.
func (h Health) Question() Check {
	if h.Ready.Path != "" {
		return h.Ready
	}
	return h.Live
}

// Check is a question whose answer's status says yes. A Body member, as a path of members, must have the value Is as well, and the member Some must be a
// list with at least one entry.
type Check struct {
	Method string `yaml:"method,omitempty" json:"method,omitempty"` // "" is GET
	Path   string `yaml:"path,omitempty" json:"path,omitempty"`
	Port   Port   `yaml:"port,omitempty" json:"port,omitempty"`
	OK     []int  `yaml:"ok,omitempty" json:"ok,omitempty"` // empty is 200
	// Loading are statuses of an instance that will be ready, as while it loads; Standby of one that stands behind another.
	Loading []int  `yaml:"loading,omitempty" json:"loading,omitempty"`
	Standby []int  `yaml:"standby,omitempty" json:"standby,omitempty"`
	Body    string `yaml:"body,omitempty" json:"body,omitempty"`
	Is      string `yaml:"is,omitempty" json:"is,omitempty"`
	Some    string `yaml:"some,omitempty" json:"some,omitempty"`
	Source  string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Probe asks for a text, such as the version.
type Probe struct {
	Path   string `yaml:"path,omitempty" json:"path,omitempty"`
	Port   Port   `yaml:"port,omitempty" json:"port,omitempty"`
	Member string `yaml:"member,omitempty" json:"member,omitempty"` // path of members in the JSON; "" is the whole text
	Header string `yaml:"header,omitempty" json:"header,omitempty"` // it stands in this header instead
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
}

// ModelList is how it lists its models.
type ModelList struct {
	Path    string `yaml:"path,omitempty" json:"path,omitempty"`
	List    string `yaml:"list,omitempty" json:"list,omitempty"`       // member with the list; "" is "data"
	ID      string `yaml:"id,omitempty" json:"id,omitempty"`           // member with the name; "" is "id"
	Context string `yaml:"context,omitempty" json:"context,omitempty"` // member with the longest context; "" is not told
	// ContextFrom tells the longest context where the list does not.
	ContextFrom Probe  `yaml:"context_from,omitempty" json:"context_from,omitzero"`
	Source      string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Parameter is how a field of a request is spelt. A field without one is refused: engines drop what they do not know without a word.
type Parameter struct {
	// Name is a path of members in the body, such as "structured_outputs.regex".
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Neutral is sent where the request says nothing, since the engine's own default does something else; nil: nothing is sent. Sampled: only
	// where the temperature is above 0.
	Neutral *float64 `yaml:"neutral,omitempty" json:"neutral,omitempty"`
	Sampled bool     `yaml:"sampled,omitempty" json:"sampled,omitempty"`
	// As is the form of the value where it is not plain: see the field's own comment.
	As     string `yaml:"as,omitempty" json:"as,omitempty"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Request is what fields are called.
type Request struct {
	TopP              Parameter `yaml:"top_p,omitempty" json:"top_p,omitzero"`
	TopK              Parameter `yaml:"top_k,omitempty" json:"top_k,omitzero"`
	MinP              Parameter `yaml:"min_p,omitempty" json:"min_p,omitzero"`
	MinTokens         Parameter `yaml:"min_tokens,omitempty" json:"min_tokens,omitzero"`
	RepetitionPenalty Parameter `yaml:"repetition_penalty,omitempty" json:"repetition_penalty,omitzero"`
	FrequencyPenalty  Parameter `yaml:"frequency_penalty,omitempty" json:"frequency_penalty,omitzero"`
	PresencePenalty   Parameter `yaml:"presence_penalty,omitempty" json:"presence_penalty,omitzero"`
	LogitBias         Parameter `yaml:"logit_bias,omitempty" json:"logit_bias,omitzero"`
	Seed              Parameter `yaml:"seed,omitempty" json:"seed,omitzero"`
	Echo              Parameter `yaml:"echo,omitempty" json:"echo,omitzero"`
	Logprobs          Parameter `yaml:"logprobs,omitempty" json:"logprobs,omitzero"`
	// The forms of answers. As is "response_format" for OpenAI's object, "text" for a plain text, "list" for a list of texts, "typed" for an object
	// {"type": "regex" or "json_schema", "value": …}, "regex_schema" for {"type": "regex_schema", "regex_schema": …}; a choice may be sent as a
	// "grammar" or a "regex" of its texts.
	JSONObject Parameter `yaml:"json_object,omitempty" json:"json_object,omitzero"`
	JSONSchema Parameter `yaml:"json_schema,omitempty" json:"json_schema,omitzero"`
	Regex      Parameter `yaml:"regex,omitempty" json:"regex,omitzero"`
	Grammar    Parameter `yaml:"grammar,omitempty" json:"grammar,omitzero"`
	Choice     Parameter `yaml:"choice,omitempty" json:"choice,omitzero"`
	// NamedTool is "native", or "alone" where a named tool is offered alone and required, since the engine does not heed the name.
	NamedTool string `yaml:"named_tool,omitempty" json:"named_tool,omitempty"`
	// Adapter is where the name of an adapter goes: "model" for the model's name.
	Adapter Parameter `yaml:"adapter,omitempty" json:"adapter,omitzero"`
}

// Stream is how an answer comes in pieces.
type Stream struct {
	Framing string `yaml:"framing,omitempty" json:"framing,omitempty"` // sse or ndjson
	Done    string `yaml:"done,omitempty" json:"done,omitempty"`       // the data of the last event; "" is the end of the body
	// Usage is where counts stand: "asked" in a last chunk where stream_options asks for it, "always", "last" beside the last finish, or "none".
	Usage string `yaml:"usage,omitempty" json:"usage,omitempty"`
	// Finish maps the engine's reasons to ours: stop, length, tool_calls, content_filter, or error for a reason that is none.
	Finish map[string]string `yaml:"finish,omitempty" json:"finish,omitempty"`
	// Reasoning is the member that holds thoughts; "" is not told apart.
	Reasoning string `yaml:"reasoning,omitempty" json:"reasoning,omitempty"`
	Source    string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Errors is how it says no.
type Errors struct {
	// Rules are tried in order; the first that matches counts.
	Rules []ErrorRule `yaml:"rules,omitempty" json:"rules,omitempty"`
	// RetryAfter are headers that say how long to wait, in order.
	RetryAfter []string `yaml:"retry_after,omitempty" json:"retry_after,omitempty"`
	// Shape is how bodies look: "openai" for {"error": {…}}, "flat" for {"object": "error", "message": …}, "detail" for {"detail": …},
	// "error" for {"error": "…", "error_type": "…"}, or "error_text" for {"error": "…"}.
	Shape  string `yaml:"shape,omitempty" json:"shape,omitempty"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
	// Overload is the status with which it says that it has too much to do; 0 is that it lets requests wait.
	Overload int `yaml:"overload,omitempty" json:"overload,omitempty"`
	// WrongModel and WrongValue are the statuses for a model that is not there and for a value that is wrong.
	WrongModel int `yaml:"wrong_model,omitempty" json:"wrong_model,omitempty"`
	WrongValue int `yaml:"wrong_value,omitempty" json:"wrong_value,omitempty"`
}

// ErrorRule maps refusals. All members that are set must match.
type ErrorRule struct {
	Status  []int    `yaml:"status,omitempty" json:"status,omitempty"` // 0 is an error event within a stream
	Least   int      `yaml:"least,omitempty" json:"least,omitempty"`   // status at least
	Code    string   `yaml:"code,omitempty" json:"code,omitempty"`
	Type    string   `yaml:"type,omitempty" json:"type,omitempty"`
	Says    string   `yaml:"says,omitempty" json:"says,omitempty"`       // part of its sentence, which is looked at and never kept
	Words   []string `yaml:"words,omitempty" json:"words,omitempty"`     // one of these is in its sentence, in any case
	Format  bool     `yaml:"format,omitempty" json:"format,omitempty"`   // the request asked for a form of its answer
	Waiting bool     `yaml:"waiting,omitempty" json:"waiting,omitempty"` // it says how long to wait
	// Fault is our code: context_length_exceeded, response_format, model_not_found, engine_overloaded, engine_unavailable, upstream_timeout or upstream_failed.
	Fault  string `yaml:"fault" json:"fault"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Cancel is how a request is abandoned.
type Cancel struct {
	Disconnect *bool  `yaml:"disconnect,omitempty" json:"disconnect,omitempty"` // closing the connection stops it; nil is not known
	Path       string `yaml:"path,omitempty" json:"path,omitempty"`             // asked with POST
	Member     string `yaml:"member,omitempty" json:"member,omitempty"`         // of that body, with the request's id
	Source     string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Drain is how it is told to finish.
type Drain struct {
	Path   string `yaml:"path,omitempty" json:"path,omitempty"`
	Method string `yaml:"method,omitempty" json:"method,omitempty"` // "" is GET
	Port   Port   `yaml:"port,omitempty" json:"port,omitempty"`
	Signal string `yaml:"signal,omitempty" json:"signal,omitempty"` // SIGTERM …; a signal reaches no other machine
	// Waits: requests that run, and those that wait, are finished before it ends.
	Waits  bool   `yaml:"waits,omitempty" json:"waits,omitempty"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Metrics is its page of metrics.
type Metrics struct {
	Path   string         `yaml:"path,omitempty" json:"path,omitempty"`
	Port   Port           `yaml:"port,omitempty" json:"port,omitempty"`
	Format unified.Format `yaml:"format,omitempty" json:"format,omitempty"`
	// Enable is what must be switched on for the page to be there.
	Enable string `yaml:"enable,omitempty" json:"enable,omitempty"`
	// Consumed: what is read is gone for the next reader, so that nobody reads it but whom the operator has chosen.
	Consumed bool        `yaml:"consumed,omitempty" json:"consumed,omitempty"`
	Map      unified.Map `yaml:"map,omitempty" json:"map,omitempty"`
	// Labels are labels that every series of the page has.
	Labels map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Note   string            `yaml:"note,omitempty" json:"note,omitempty"`
	Source string            `yaml:"source,omitempty" json:"source,omitempty"`
}

// Tokenizer is where prompts can be counted as the engine counts them.
type Tokenizer struct {
	// From is "endpoint", "huggingface" for the files beside the model, "gguf", or "" for not known.
	From string `yaml:"from,omitempty" json:"from,omitempty"`
	// Form is how the endpoint is asked: TokensOfVLLM or TokensOfLlama.
	Form   string `yaml:"form,omitempty" json:"form,omitempty"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
}

// The forms in which the tokens of a prompt are asked for.
const (
	TokensOfVLLM  = "vllm"      // {"prompt" or "messages"} gives {"tokens", "token_strs"}
	TokensOfLlama = "llama.cpp" // {"content"} gives {"tokens": [{"id", "piece"}]}, and /apply-template the content of a chat
)

// Adapters is how adapters are asked for and loaded.
type Adapters struct {
	List   string `yaml:"list,omitempty" json:"list,omitempty"`
	Load   string `yaml:"load,omitempty" json:"load,omitempty"`
	Unload string `yaml:"unload,omitempty" json:"unload,omitempty"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
}

// Quirk is something that a reader of the profile should know.
type Quirk struct {
	Says   Text   `yaml:"says" json:"says"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
}
