package remote

import (
	"math"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/fault"
)

// wire turns a request into the upstream's dialect. Error: CodeUnsupported for a field that the upstream has no name for.
func wire(m model, req *engine.Request) (path string, body any, err error) {
	if req.Hook != nil {
		return "", nil, unsupported("hook", fault.Say("remote.no_token_choice"))
	}
	if req.OmitBegin {
		return "", nil, unsupported("add_special_tokens", fault.Say("remote.unsupported"))
	}
	more, err := extras(m, req)
	if err != nil {
		return "", nil, err
	}
	var seed *uint64
	if req.Seed != nil && m.profile.Request.Seed.Name == "seed" {
		s := *req.Seed & math.MaxInt64 // the dialect's seeds are signed
		seed = &s
	}
	n := 0
	if req.Choices > 1 {
		n = req.Choices
	}
	topP := req.TopP
	if n := m.profile.Request.TopP.Neutral; topP == 0 && n != nil {
		topP = *n // left out, it is something else there
	}
	var options *openai.StreamOptions
	if !req.NonStreaming {
		options = &openai.StreamOptions{IncludeUsage: true}
	}
	if req.Messages == nil {
		c := openai.CompletionRequest{
			Model: m.Upstream, Prompt: req.Prompt, MaxTokens: req.MaxTokens, N: n, Temperature: req.Temperature, TopP: topP,
			Seed: seed, Stop: req.Stop, Stream: !req.NonStreaming, StreamOptions: options, Echo: req.Echo,
		}
		if req.Logprobs >= 0 && m.Logprobs {
			c.Logprobs = &req.Logprobs
		}
		path, err := m.path(m.profile.Endpoints.Completions)
		return path, extended{c, more}, err
	}
	c := openai.ChatRequest{
		Model: m.Upstream, MaxTokens: req.MaxTokens, N: n, Temperature: req.Temperature, TopP: topP, Seed: seed, Stop: req.Stop,
		Stream: !req.NonStreaming, StreamOptions: options,
	}
	for i := range req.Messages {
		c.Messages = append(c.Messages, message(&req.Messages[i]))
	}
	if err := offer(m, req, &c); err != nil {
		return "", nil, err
	}
	if req.Logprobs >= 0 && m.Logprobs {
		c.Logprobs = true
		if req.Logprobs > 0 {
			c.TopLogprobs = &req.Logprobs
		}
	}
	path, err = m.path(m.profile.Endpoints.Chat)
	return path, extended{c, more}, err
}

func message(in *engine.Message) openai.ChatMessage {
	out := openai.ChatMessage{Role: in.Role, Content: &in.Content, Name: in.Name, ToolCallID: in.ToolCallID}
	if in.Content == "" && len(in.ToolCalls) > 0 {
		out.Content = nil
	}
	for _, c := range in.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, openai.ToolCall{
			ID: c.ID, Type: openai.TypeFunction, Function: openai.FunctionCall{Name: c.Name, Arguments: openai.Arguments(c.Arguments)},
		})
	}
	return out
}

// offer adds the tools.
func offer(m model, req *engine.Request, c *openai.ChatRequest) error {
	if len(req.Tools) == 0 {
		return nil
	}
	if !m.Tools {
		return unsupported("tools", fault.Say("model.no_tools"))
	}
	// Some call any tool though one is named, so they are told of no other.
	only := m.profile.Request.NamedTool == "alone" && req.ToolChoice.Mode == engine.ToolFunction
	for _, t := range req.Tools {
		if only && t.Name != req.ToolChoice.Name {
			continue
		}
		c.Tools = append(c.Tools, openai.Tool{Type: openai.TypeFunction, Function: openai.Function{
			Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict,
		}})
	}
	switch req.ToolChoice.Mode {
	case "":
	case engine.ToolFunction:
		if only {
			if len(c.Tools) == 0 {
				return fault.New(fault.CodeInvalidValue, "tool_choice", fault.Say("model.unknown_function")).WithParam("tool_choice")
			}
			c.ToolChoice = string(engine.ToolRequired)
			break
		}
		named := openai.NamedTool{Type: openai.TypeFunction}
		named.Function.Name = req.ToolChoice.Name
		c.ToolChoice = named
	default:
		c.ToolChoice = string(req.ToolChoice.Mode)
	}
	if !req.ParallelTools { // allowing several is the dialect's default, and not every server knows the field
		c.ParallelToolCalls = &req.ParallelTools
	}
	return nil
}

func unsupported(field string, why fault.Phrase) error {
	return fault.New(fault.CodeUnsupported, field, why).WithParam(field)
}

// path is where an endpoint of the profile is below the configured address, which ends with the dialect's base.
func (m model) path(endpoint string) (string, error) {
	if endpoint == "" {
		return "", unsupported("model", fault.Say("remote.unsupported"))
	}
	return strings.TrimPrefix(endpoint, m.profile.Endpoints.Base), nil
}
