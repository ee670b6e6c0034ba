package openai

import "encoding/json"

// TypeFunction is the only type of tool there is.
const TypeFunction = "function"

// Tool is something a model may call.
type Tool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function describes a function that a model may call.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

// NamedTool is the tool_choice that names a function.
type NamedTool struct {
	Type     string `json:"type"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

// ToolCall is a call, or in a stream a part of one: Index says of which, and all but the first hold new arguments only.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function FunctionCall `json:"function"`
}

// FunctionCall says what is called with what.
type FunctionCall struct {
	Name      string    `json:"name,omitempty"`
	Arguments Arguments `json:"arguments"`
}

// Arguments are the JSON text of a call's arguments, or in a stream a part of it. What is read may also be the object itself, as
// some servers send it; null is no text.
type Arguments string

// UnmarshalJSON implements json.Unmarshaler.
func (a *Arguments) UnmarshalJSON(data []byte) error {
	*a = ""
	switch {
	case string(data) == "null":
		return nil
	case len(data) > 0 && data[0] == '"':
		return json.Unmarshal(data, (*string)(a))
	}
	*a = Arguments(data)
	return nil
}

// Extras are what chats and completions share beyond the oldest fields: sampling and the shape of the answer. Names that are not
// OpenAI's are those of vLLM, but for the ones of llama.cpp's server that are marked.
type Extras struct {
	TopK              int                `json:"top_k,omitempty"`
	MinP              float64            `json:"min_p,omitempty"`
	RepetitionPenalty float64            `json:"repetition_penalty,omitempty"`
	RepeatPenalty     float64            `json:"repeat_penalty,omitempty"` // llama.cpp
	FrequencyPenalty  float64            `json:"frequency_penalty,omitempty"`
	PresencePenalty   float64            `json:"presence_penalty,omitempty"`
	LogitBias         map[string]float64 `json:"logit_bias,omitempty"`
	MinTokens         int                `json:"min_tokens,omitempty"`

	ResponseFormat    *ResponseFormat    `json:"response_format,omitempty"`
	StructuredOutputs *StructuredOutputs `json:"structured_outputs,omitempty"`
	Grammar           string             `json:"grammar,omitempty"` // llama.cpp
}

// ResponseFormat is the shape of an answer in OpenAI's form.
type ResponseFormat struct {
	Type       string      `json:"type"`
	JSONSchema *JSONSchema `json:"json_schema,omitempty"`
}

// The types of a ResponseFormat.
const (
	FormatText   = "text"
	FormatObject = "json_object"
	FormatSchema = "json_schema"
)

// JSONSchema is a named schema.
type JSONSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

// StructuredOutputs is the shape of an answer in vLLM's form. One field is set.
type StructuredOutputs struct {
	JSON    json.RawMessage `json:"json,omitempty"`
	Regex   string          `json:"regex,omitempty"`
	Choice  []string        `json:"choice,omitempty"`
	Grammar string          `json:"grammar,omitempty"`
}
