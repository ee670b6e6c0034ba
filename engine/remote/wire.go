package remote

import (
	"math"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/fault"
)

// wire turns a request into the upstream's dialect. Error: CodeUnsupported for a field that the upstream has no name for.
func wire(m ModelConfig, req *engine.Request) (path string, body any, err error) {
	if req.Hook != nil {
		return "", nil, unsupported("hook", fault.Say("remote.no_token_choice"))
	}
	more, err := extras(m, req)
	if err != nil {
		return "", nil, err
	}
	var seed *uint64
	if req.Seed != nil {
		s := *req.Seed & math.MaxInt64 // the dialect's seeds are signed
		seed = &s
	}
	n := 0
	if req.Choices > 1 {
		n = req.Choices
	}
	topP := req.TopP
	if topP == 0 && m.Dialect == dialectLlama {
		topP = 1 // left out, it is 0.95 there
	}
	var options *openai.StreamOptions
	if !req.NonStreaming {
		options = &openai.StreamOptions{IncludeUsage: true}
	}
	if req.Messages == nil {
		c := openai.CompletionRequest{
			Model: m.Upstream, Prompt: req.Prompt, MaxTokens: req.MaxTokens, N: n, Temperature: req.Temperature, TopP: topP,
			Seed: seed, Stop: req.Stop, Stream: !req.NonStreaming, StreamOptions: options, Echo: req.Echo, Extras: more,
		}
		if req.Logprobs >= 0 && m.Logprobs {
			c.Logprobs = &req.Logprobs
		}
		return "/completions", c, nil
	}
	c := openai.ChatRequest{
		Model: m.Upstream, MaxTokens: req.MaxTokens, N: n, Temperature: req.Temperature, TopP: topP, Seed: seed, Stop: req.Stop,
		Stream: !req.NonStreaming, StreamOptions: options, Extras: more,
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
	return "/chat/completions", c, nil
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
func offer(m ModelConfig, req *engine.Request, c *openai.ChatRequest) error {
	if len(req.Tools) == 0 {
		return nil
	}
	if !m.Tools {
		return unsupported("tools", fault.Say("model.no_tools"))
	}
	// llama.cpp calls any tool though one is named, so it is told of no other.
	only := m.Dialect == dialectLlama && req.ToolChoice.Mode == engine.ToolFunction
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

// extras spells sampling and format as the upstream's dialect does.
func extras(m ModelConfig, req *engine.Request) (openai.Extras, error) {
	x := openai.Extras{FrequencyPenalty: req.FrequencyPenalty, PresencePenalty: req.PresencePenalty}
	for token, v := range req.LogitBias {
		if x.LogitBias == nil {
			x.LogitBias = map[string]float64{}
		}
		x.LogitBias[strconv.Itoa(int(token))] = v
	}
	penalty := req.RepetitionPenalty
	if penalty == 1 {
		penalty = 0
	}
	unknown := ""
	switch m.Dialect {
	case dialectVLLM:
		x.TopK, x.MinP, x.RepetitionPenalty, x.MinTokens = req.TopK, req.MinP, penalty, req.MinTokens
	case dialectLlama:
		x.TopK, x.MinP, x.RepeatPenalty = req.TopK, req.MinP, penalty
		unknown = firstSet(named{"min_tokens", req.MinTokens > 0}, named{"echo", req.Echo})
	default:
		unknown = firstSet(named{"top_k", req.TopK > 0}, named{"min_p", req.MinP > 0}, named{"repetition_penalty", penalty != 0}, named{"min_tokens", req.MinTokens > 0})
	}
	asked := unknown != "" || req.Echo || penalty != 0 || x.TopK > 0 || x.MinP > 0 || x.MinTokens > 0 || len(x.LogitBias) > 0 ||
		x.FrequencyPenalty != 0 || x.PresencePenalty != 0
	if asked && !m.Sampling || unknown != "" {
		return x, unsupported(firstSet(named{unknown, unknown != ""}, named{"sampling", true}), fault.Say("remote.unsupported"))
	}
	if m.Dialect == dialectLlama && req.Temperature > 0 {
		// Left out, they are 40 and 0.05 there; these bound nothing, and a share of 0 would be left out again.
		if x.TopK == 0 {
			x.TopK = -1
		}
		if x.MinP == 0 {
			x.MinP = 1e-9
		}
	}
	return x, shape(m, req.Format, &x)
}

type named struct {
	name string
	set  bool
}

func firstSet(all ...named) string {
	for _, n := range all {
		if n.set {
			return n.name
		}
	}
	return ""
}

// shape spells what the answer is held to.
func shape(m ModelConfig, f *engine.Format, x *openai.Extras) error {
	switch {
	case f == nil:
		return nil
	case !m.Formats:
		return unsupported("response_format", fault.Say("model.no_formats"))
	case f.JSONObject:
		x.ResponseFormat = &openai.ResponseFormat{Type: openai.FormatObject}
	case f.JSONSchema != nil:
		x.ResponseFormat = &openai.ResponseFormat{
			Type: openai.FormatSchema, JSONSchema: &openai.JSONSchema{Name: "answer", Schema: f.JSONSchema, Strict: true},
		}
	case m.Dialect == dialectVLLM:
		x.StructuredOutputs = &openai.StructuredOutputs{Regex: f.Regex, Choice: f.Choice, Grammar: f.GBNF}
	case m.Dialect == dialectLlama && f.GBNF != "":
		x.Grammar = f.GBNF
	case m.Dialect == dialectLlama && f.Choice != nil:
		x.Grammar = choiceGrammar(f.Choice)
	default:
		return unsupported("response_format", fault.Say("remote.json_formats_only"))
	}
	return nil
}

// choiceGrammar is the grammar of a list of texts.
func choiceGrammar(texts []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = `"` + escape.Replace(s) + `"`
	}
	return "root ::= " + strings.Join(quoted, " | ")
}
