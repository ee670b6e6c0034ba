package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// What goes over the wire as JSON. A field that is not set is left out, and one that is set and not known is refused: a worker of an earlier release
// never answers something else than what was asked.

// work is what is prepared or run. One field is set.
type work struct {
	Prompt   string     `json:"prompt,omitempty"` // the id of a prompt that the worker holds
	Generate *textWork  `json:"generate,omitempty"`
	Embed    *embedWork `json:"embed,omitempty"`
	Score    *scoreWork `json:"score,omitempty"`

	Detokenize *detokenizeWork `json:"detokenize,omitempty"`
}

type textWork struct {
	Model             engine.ModelID   `json:"model,omitzero"`
	Messages          []message        `json:"messages,omitzero"`
	Prompt            string           `json:"prompt,omitzero"`
	OmitBegin         bool             `json:"omit_begin,omitzero"`
	Segments          []string         `json:"segments,omitzero"`
	SegmentTokens     int              `json:"segment_tokens,omitzero"`
	Tools             []tool           `json:"tools,omitzero"`
	ToolMode          engine.ToolMode  `json:"tool_mode,omitzero"`
	ToolName          string           `json:"tool_name,omitzero"`
	ParallelTools     bool             `json:"parallel_tools,omitzero"`
	ID                string           `json:"id,omitzero"`
	Tenant            string           `json:"tenant,omitzero"`
	Class             engine.Class     `json:"class,omitzero"`
	Priority          int              `json:"priority,omitzero"`
	DeadlineIn        *time.Duration   `json:"deadline_in_ns,omitzero"` // from now: the clocks of two machines differ
	SharedPrefix      bool             `json:"shared_prefix,omitzero"`
	NonStreaming      bool             `json:"non_streaming,omitzero"`
	MaxTokens         int              `json:"max_tokens,omitzero"`
	MinTokens         int              `json:"min_tokens,omitzero"`
	Choices           int              `json:"choices,omitzero"`
	Echo              bool             `json:"echo,omitzero"`
	Temperature       number           `json:"temperature,omitzero"`
	TopP              number           `json:"top_p,omitzero"`
	TopK              int              `json:"top_k,omitzero"`
	MinP              number           `json:"min_p,omitzero"`
	RepetitionPenalty number           `json:"repetition_penalty,omitzero"`
	FrequencyPenalty  number           `json:"frequency_penalty,omitzero"`
	PresencePenalty   number           `json:"presence_penalty,omitzero"`
	LogitBias         map[int32]number `json:"logit_bias,omitzero"`
	Seed              *uint64          `json:"seed,omitzero"`
	Stop              []string         `json:"stop,omitzero"`
	Logprobs          int              `json:"logprobs,omitzero"`
	Format            *format          `json:"format,omitzero"`
}

type message struct {
	Role       string     `json:"role,omitzero"`
	Content    string     `json:"content,omitzero"`
	Name       string     `json:"name,omitzero"`
	ToolCalls  []toolCall `json:"tool_calls,omitzero"`
	ToolCallID string     `json:"tool_call_id,omitzero"`
}

type toolCall struct {
	ID        string `json:"id,omitzero"`
	Name      string `json:"name,omitzero"`
	Arguments string `json:"arguments,omitzero"`
}

type tool struct {
	Name        string  `json:"name,omitzero"`
	Description string  `json:"description,omitzero"`
	Parameters  *string `json:"parameters,omitzero"` // a text, since templates print it as it was written
	Strict      bool    `json:"strict,omitzero"`
}

type format struct {
	JSONObject bool     `json:"json_object,omitzero"`
	JSONSchema *string  `json:"json_schema,omitzero"`
	GBNF       string   `json:"gbnf,omitzero"`
	Regex      string   `json:"regex,omitzero"`
	Choice     []string `json:"choice,omitzero"`
}

type embedWork struct {
	Model      engine.ModelID   `json:"model,omitzero"`
	Input      []string         `json:"input,omitzero"`
	Tenant     string           `json:"tenant,omitzero"`
	Class      engine.Class     `json:"class,omitzero"`
	Role       engine.InputRole `json:"role,omitzero"`
	Dimensions int              `json:"dimensions,omitzero"`
}

type scoreWork struct {
	Model     engine.ModelID `json:"model,omitzero"`
	Query     string         `json:"query,omitzero"`
	Documents []string       `json:"documents,omitzero"`
	Tenant    string         `json:"tenant,omitzero"`
	Class     engine.Class   `json:"class,omitzero"`
}

type detokenizeWork struct {
	Model  engine.ModelID `json:"model,omitzero"`
	Tokens []int32        `json:"tokens,omitzero"`
	Tenant string         `json:"tenant,omitzero"`
}

// tokensReply is a prompt as the model reads it.
type tokensReply struct {
	IDs   []int32  `json:"ids"`
	Texts []string `json:"texts"`
}

type textReply struct {
	Text string `json:"text"`
}

// preparedReply is what a worker says of a prompt that it holds.
type preparedReply struct {
	Prompt       string `json:"prompt"`
	Tokens       int    `json:"tokens"`
	Exact        bool   `json:"exact"`
	SegmentsKept int    `json:"segments_kept"`
	MaxTokens    int    `json:"max_tokens"`
}

// refusal is an error on its way. NotReached: nothing has worked on the request, so it may be sent elsewhere.
type refusal struct {
	fault.Portable

	NotReached  bool `json:"not_reached,omitempty"`
	CallerLimit bool `json:"caller_limit,omitempty"`
}

type modelReply struct {
	ID            engine.ModelID  `json:"id"`
	Digest        string          `json:"digest,omitzero"`
	Template      string          `json:"template,omitzero"`
	Precision     string          `json:"precision,omitzero"`
	EngineVersion string          `json:"engine_version,omitzero"`
	ContextTokens int             `json:"context_tokens,omitzero"`
	EmbedDim      int             `json:"embed_dim,omitzero"`
	Base          engine.ModelID  `json:"base,omitzero"`
	Adapter       string          `json:"adapter,omitzero"`
	Audience      engine.Audience `json:"audience,omitzero"`
	Local         bool            `json:"local,omitzero"`
	CanGenerate   bool            `json:"can_generate,omitzero"`
	PromptOnly    bool            `json:"prompt_only,omitzero"`
	CanEmbed      bool            `json:"can_embed,omitzero"`
	CanScore      bool            `json:"can_score,omitzero"`
	HasLogprobs   bool            `json:"has_logprobs,omitzero"`
	HasFormats    bool            `json:"has_formats,omitzero"`
	HasTools      bool            `json:"has_tools,omitzero"`
	HasHooks      bool            `json:"has_hooks,omitzero"`
	HasMarks      bool            `json:"-"` // watermarks do not cross
	HasClasses    bool            `json:"has_classes,omitzero"`
	HasSampling   bool            `json:"has_sampling,omitzero"`
	HasTokens     bool            `json:"has_tokens,omitzero"`
	HasDetokenize bool            `json:"has_detokenize,omitzero"`
	NonStreaming  bool            `json:"non_streaming,omitzero"`
	Deterministic bool            `json:"deterministic,omitzero"`
}

// healthReply is the health of a worker.
type healthReply struct {
	State    State        `json:"state"`
	Instance string       `json:"instance"`
	Models   []modelReply `json:"models"`
	Load     []Load       `json:"load"`
}

type forgetWork struct {
	Tenant string `json:"tenant"`
}

// number is a float of which JSON has no form for some values.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Appendf(nil, "%q", fmt.Sprint(f)), nil
	}
	return json.Marshal(f)
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"NaN"`:
		*n = number(math.NaN())
	case `"+Inf"`:
		*n = number(math.Inf(1))
	case `"-Inf"`:
		*n = number(math.Inf(-1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
}

// encode returns v as JSON. Bytes of texts that are no UTF-8 become U+FFFD, as they do in what callers send.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode for the worker: %w", err)
	}
	return b.Bytes(), nil
}

// workOf returns what is sent of a work; its deadline is told as of now.
func workOf(w engine.Work, now time.Time) (*work, error) {
	switch q := w.(type) {
	case *engine.Request:
		if q == nil {
			break
		}
		return &work{Generate: textOf(q, now)}, nil
	case *engine.EmbedRequest:
		if q == nil {
			break
		}
		e := embedWork(*q)
		return &work{Embed: &e}, nil
	case *engine.ScoreRequest:
		if q == nil {
			break
		}
		s := scoreWork(*q)
		return &work{Score: &s}, nil
	}
	return nil, engine.ErrOtherWork
}

// work returns what an engine is asked; a deadline counts from now.
func (w *work) work(now time.Time) (engine.Work, error) {
	switch {
	case w.Generate != nil && w.Embed == nil && w.Score == nil:
		return w.Generate.request(now), nil
	case w.Generate == nil && w.Embed != nil && w.Score == nil:
		e := engine.EmbedRequest(*w.Embed)
		return &e, nil
	case w.Generate == nil && w.Embed == nil && w.Score != nil:
		s := engine.ScoreRequest(*w.Score)
		return &s, nil
	}
	return nil, engine.ErrOtherWork
}

func textOf(r *engine.Request, now time.Time) *textWork {
	t := &textWork{
		Model: r.Model, Prompt: r.Prompt, OmitBegin: r.OmitBegin, Segments: r.Segments, SegmentTokens: r.SegmentTokens,
		Messages: each(r.Messages, messageOf), Tools: each(r.Tools, toolOf), ToolMode: r.ToolChoice.Mode, ToolName: r.ToolChoice.Name, ParallelTools: r.ParallelTools,
		ID: r.ID, Tenant: r.Tenant, Class: r.Class, Priority: r.Priority, SharedPrefix: r.SharedPrefix, NonStreaming: r.NonStreaming,
		MaxTokens: r.MaxTokens, MinTokens: r.MinTokens, Choices: r.Choices, Echo: r.Echo,
		Temperature: number(r.Temperature), TopP: number(r.TopP), TopK: r.TopK, MinP: number(r.MinP), RepetitionPenalty: number(r.RepetitionPenalty),
		FrequencyPenalty: number(r.FrequencyPenalty), PresencePenalty: number(r.PresencePenalty), LogitBias: bias[number](r.LogitBias),
		Seed: r.Seed, Stop: r.Stop, Logprobs: r.Logprobs,
	}
	if !r.Deadline.IsZero() {
		in := r.Deadline.Sub(now)
		t.DeadlineIn = &in
	}
	if f := r.Format; f != nil {
		t.Format = &format{JSONObject: f.JSONObject, JSONSchema: rawText(f.JSONSchema), GBNF: f.GBNF, Regex: f.Regex, Choice: f.Choice}
	}
	return t
}

func (t *textWork) request(now time.Time) *engine.Request {
	r := &engine.Request{
		Model: t.Model, Prompt: t.Prompt, OmitBegin: t.OmitBegin, Segments: t.Segments, SegmentTokens: t.SegmentTokens,
		Messages: each(t.Messages, message.message), Tools: each(t.Tools, tool.tool), ToolChoice: engine.ToolChoice{Mode: t.ToolMode, Name: t.ToolName},
		ParallelTools: t.ParallelTools, ID: t.ID, Tenant: t.Tenant, Class: t.Class, Priority: t.Priority, SharedPrefix: t.SharedPrefix,
		NonStreaming: t.NonStreaming, MaxTokens: t.MaxTokens, MinTokens: t.MinTokens, Choices: t.Choices, Echo: t.Echo,
		Temperature: float64(t.Temperature), TopP: float64(t.TopP), TopK: t.TopK, MinP: float64(t.MinP), RepetitionPenalty: float64(t.RepetitionPenalty),
		FrequencyPenalty: float64(t.FrequencyPenalty), PresencePenalty: float64(t.PresencePenalty), LogitBias: bias[float64](t.LogitBias),
		Seed: t.Seed, Stop: t.Stop, Logprobs: t.Logprobs,
	}
	if t.DeadlineIn != nil {
		r.Deadline = now.Add(*t.DeadlineIn)
	}
	if f := t.Format; f != nil {
		r.Format = &engine.Format{JSONObject: f.JSONObject, JSONSchema: textRaw(f.JSONSchema), GBNF: f.GBNF, Regex: f.Regex, Choice: f.Choice}
	}
	return r
}

// each converts a list; nil stays nil.
func each[From, To any](list []From, convert func(From) To) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = convert(v)
	}
	return out
}

func bias[To, From ~float64](m map[int32]From) map[int32]To {
	if m == nil {
		return nil
	}
	out := make(map[int32]To, len(m))
	for token, v := range m {
		out[token] = To(v)
	}
	return out
}

func messageOf(m engine.Message) message {
	calls := each(m.ToolCalls, func(c engine.ToolCall) toolCall { return toolCall(c) })
	return message{Role: m.Role, Content: m.Content, Name: m.Name, ToolCalls: calls, ToolCallID: m.ToolCallID}
}

func (m message) message() engine.Message {
	calls := each(m.ToolCalls, func(c toolCall) engine.ToolCall { return engine.ToolCall(c) })
	return engine.Message{Role: m.Role, Content: m.Content, Name: m.Name, ToolCalls: calls, ToolCallID: m.ToolCallID}
}

func toolOf(t engine.Tool) tool {
	return tool{Name: t.Name, Description: t.Description, Parameters: rawText(t.Parameters), Strict: t.Strict}
}

func (t tool) tool() engine.Tool {
	return engine.Tool{Name: t.Name, Description: t.Description, Parameters: textRaw(t.Parameters), Strict: t.Strict}
}

func rawText(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

func textRaw(s *string) json.RawMessage {
	if s == nil {
		return nil
	}
	return json.RawMessage(*s)
}
