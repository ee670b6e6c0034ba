package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ChatRequest is the body of POST /v1/chat/completions as this project sends it to an upstream. The edge decodes what callers
// send field by field instead, since it owes them an error that names the field.
type ChatRequest struct {
	Model         string         `json:"model"`
	Messages      []ChatMessage  `json:"messages"`
	MaxTokens     int            `json:"max_tokens,omitempty"`
	N             int            `json:"n,omitempty"`
	Temperature   float64        `json:"temperature"`
	TopP          float64        `json:"top_p,omitempty"`
	Seed          *uint64        `json:"seed,omitempty"`
	Stop          []string       `json:"stop,omitempty"`
	Logprobs      bool           `json:"logprobs,omitempty"`
	TopLogprobs   *int           `json:"top_logprobs,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions *StreamOptions `json:"stream_options,omitempty"`

	Tools             []Tool `json:"tools,omitempty"`
	ToolChoice        any    `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool  `json:"parallel_tool_calls,omitempty"`

	Extras
}

// ChatMessage is one turn of a chat. Content is null in a turn that only calls tools.
type ChatMessage struct {
	Role       string     `json:"role,omitempty"`
	Content    *string    `json:"content"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// StreamOptions belong to a streaming request.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// CompletionRequest is the body of POST /v1/completions as this project sends it to an upstream.
type CompletionRequest struct {
	Model         string         `json:"model"`
	Prompt        string         `json:"prompt"`
	MaxTokens     int            `json:"max_tokens,omitempty"`
	N             int            `json:"n,omitempty"`
	Temperature   float64        `json:"temperature"`
	TopP          float64        `json:"top_p,omitempty"`
	Seed          *uint64        `json:"seed,omitempty"`
	Stop          []string       `json:"stop,omitempty"`
	Logprobs      *int           `json:"logprobs,omitempty"`
	Echo          bool           `json:"echo,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions *StreamOptions `json:"stream_options,omitempty"`

	Extras
}

// EmbeddingRequest is the body of POST /v1/embeddings as this project sends it to an upstream.
type EmbeddingRequest struct {
	Model          string   `json:"model"`
	Input          []string `json:"input"`
	EncodingFormat string   `json:"encoding_format,omitempty"`
}

// Object names of replies.
const (
	ObjectChat       = "chat.completion"
	ObjectChatChunk  = "chat.completion.chunk"
	ObjectCompletion = "text_completion"
	ObjectList       = "list"
	ObjectEmbedding  = "embedding"
	ObjectModel      = "model"
	ObjectScore      = "score"
)

// Chat is a whole answer.
type Chat struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []ChatChoice `json:"choices"`
	Usage             *Usage       `json:"usage"`
	ServiceTier       string       `json:"service_tier,omitempty"`
	SystemFingerprint string       `json:"system_fingerprint,omitempty"`
	Sluice            any          `json:"sluice,omitempty"`
}

// ChatChoice is one alternative of a whole answer.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      AnswerMessage `json:"message"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason"`
	StopReason   string        `json:"stop_reason,omitempty"`
}

// AnswerMessage is the message of a whole answer; refusal is always present, as clients expect, and null but for models that tell it
// apart. Content is null when there are calls or a refusal and no text. ReasoningContent is not OpenAI's but what most servers send.
type AnswerMessage struct {
	Role             string     `json:"role"`
	Content          *string    `json:"content"`
	ReasoningContent *string    `json:"reasoning_content,omitempty"`
	Refusal          *string    `json:"refusal"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
}

// ChatChunk is one event of a streamed answer. Usage is raw because three cases differ on the wire: absent, null, present.
type ChatChunk struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	Created           int64             `json:"created"`
	Model             string            `json:"model"`
	Choices           []ChatChunkChoice `json:"choices"`
	Usage             json.RawMessage   `json:"usage,omitempty"`
	ServiceTier       string            `json:"service_tier,omitempty"`
	SystemFingerprint string            `json:"system_fingerprint,omitempty"`
	Sluice            any               `json:"sluice,omitempty"`
	Error             *ErrorDetail      `json:"error,omitempty"`
}

// ChatChunkChoice is what one event adds to one choice.
type ChatChunkChoice struct {
	Index        int           `json:"index"`
	Delta        Delta         `json:"delta"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	StopReason   string        `json:"stop_reason,omitempty"` // vLLM's: the stop string that ended the choice
}

// Delta is what is new of a choice; the first of a choice carries the role, and with it the content, which may be null.
type Delta struct {
	Role             string     `json:"role,omitempty"`
	Content          *string    `json:"content,omitempty"`
	ReasoningContent *string    `json:"reasoning_content,omitempty"`
	Refusal          *string    `json:"refusal,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (d Delta) MarshalJSON() ([]byte, error) {
	type plain Delta
	if d.Role == "" || d.Content != nil {
		return json.Marshal(plain(d))
	}
	return json.Marshal(struct {
		Role             string     `json:"role"`
		Content          *string    `json:"content"`
		ReasoningContent *string    `json:"reasoning_content,omitempty"`
		Refusal          *string    `json:"refusal,omitempty"`
		ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
	}{d.Role, nil, d.ReasoningContent, d.Refusal, d.ToolCalls})
}

// ChatLogprobs are the log-probabilities of tokens of a chat answer.
type ChatLogprobs struct {
	Content []TokenLogprob `json:"content"`
	Refusal []TokenLogprob `json:"refusal"`
}

// TokenLogprob is one token with its log-probability.
type TokenLogprob struct {
	Token       string       `json:"token"`
	Logprob     float64      `json:"logprob"`
	Bytes       ByteList     `json:"bytes"`
	TopLogprobs []TopLogprob `json:"top_logprobs"`
}

// TopLogprob is one alternative to a token.
type TopLogprob struct {
	Token   string   `json:"token"`
	Logprob float64  `json:"logprob"`
	Bytes   ByteList `json:"bytes"`
}

// ByteList is bytes written as a JSON array of numbers; nil is null.
type ByteList []byte

// MarshalJSON implements json.Marshaler.
func (b ByteList) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	out := []byte{'['}
	for i, c := range b {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%d", c)
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *ByteList) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*b = nil
		return nil
	}
	var ns []uint16
	if err := json.Unmarshal(data, &ns); err != nil {
		return err
	}
	*b = make(ByteList, len(ns))
	for i, n := range ns {
		if n > 255 {
			return fmt.Errorf("byte %d is %d", i, n)
		}
		(*b)[i] = byte(n)
	}
	return nil
}

// Completion is a whole answer of POST /v1/completions, and, with Usage raw, also one event of its stream.
type Completion struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []CompletionChoice `json:"choices"`
	Usage             json.RawMessage    `json:"usage,omitempty"`
	SystemFingerprint string             `json:"system_fingerprint,omitempty"`
	Sluice            any                `json:"sluice,omitempty"`
	Error             *ErrorDetail       `json:"error,omitempty"`
}

// CompletionChoice is one alternative.
type CompletionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	Logprobs     *CompletionLogprobs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
	StopReason   string              `json:"stop_reason,omitempty"`
}

// CompletionLogprobs is the older, columnar form of log-probabilities. The first token of an echoed prompt has none: null, in both
// columns.
type CompletionLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []*float64           `json:"token_logprobs"`
	TopLogprobs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

// EmbeddingList answers POST /v1/embeddings. An Embedding's vector is a list of floats or a base64 string.
type EmbeddingList struct {
	Object string         `json:"object"`
	Data   []Embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  EmbeddingUsage `json:"usage"`
	Sluice any            `json:"sluice,omitempty"`
}

// Embedding is one vector.
type Embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// EmbeddingUsage counts the tokens of an embedding request.
type EmbeddingUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// Usage counts the tokens of a generation. Cached tokens are part of the prompt tokens.
type Usage struct {
	PromptTokens     int                `json:"prompt_tokens"`
	CompletionTokens int                `json:"completion_tokens"`
	TotalTokens      int                `json:"total_tokens"`
	PromptDetails    *PromptDetails     `json:"prompt_tokens_details,omitempty"`
	CompletionDetail *CompletionDetails `json:"completion_tokens_details,omitempty"`
}

// PromptDetails splits the prompt tokens.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// CompletionDetails splits the completion tokens.
type CompletionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// ModelList answers GET /v1/models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Model describes one model a caller may use.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Sluice  any    `json:"sluice,omitempty"`
}

// ErrorBody is the body of every refusal. All four keys of the detail are always present.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail says what failed. Code is raw in what is read, since upstreams send strings, numbers and null.
type ErrorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    any     `json:"code"`
}
