package native

import (
	"encoding/json"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/chattemplate"
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/grammar/jsonschema"
	"github.com/sluice-project/sluice/engine/toolcall"
)

// conversation is what the chat template sees of a request.
func conversation(req *engine.Request) chattemplate.Input {
	in := chattemplate.Input{AddGenerationPrompt: true}
	if req.Format != nil || mustCall(req) {
		in.Thinking = new(bool) // a grammar leaves no room for thoughts before the answer
	}
	for _, m := range req.Messages {
		out := chattemplate.Message{Role: m.Role, Content: m.Content, Name: m.Name, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, chattemplate.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		in.Messages = append(in.Messages, out)
	}
	if req.ToolChoice.Mode != engine.ToolNone {
		for _, t := range req.Tools {
			in.Tools = append(in.Tools, chattemplate.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
		}
	}
	return in
}

// parsing is how calls in the answers of a job are read.
func (g *generator) parsing(j *job, req *engine.Request) *toolcall.Options {
	o := &toolcall.Options{Parallel: severalCalls(req), Seed: j.rules.Seed(), Guaranteed: mustCall(req)}
	for _, t := range offered(req) {
		o.Names = append(o.Names, t.Name)
	}
	return o
}

// mustCall reports whether the answer has to be a call.
func mustCall(req *engine.Request) bool {
	return len(req.Tools) > 0 && (req.ToolChoice.Mode == engine.ToolRequired || req.ToolChoice.Mode == engine.ToolFunction)
}

// severalCalls reports whether the answer may hold more than one call: never of a function that was named.
func severalCalls(req *engine.Request) bool {
	return req.ParallelTools && req.ToolChoice.Mode != engine.ToolFunction
}

// offered lists the tools that may be called.
func offered(req *engine.Request) []engine.Tool {
	if req.ToolChoice.Mode != engine.ToolFunction {
		return req.Tools
	}
	for i, t := range req.Tools {
		if t.Name == req.ToolChoice.Name {
			return req.Tools[i : i+1]
		}
	}
	return nil
}

// compileCalls makes the grammar of the calls of an answer.
func (g *generator) compileCalls(req *engine.Request) (*grammar.Grammar, error) {
	b := grammar.NewBuilder(formatLimits())
	var tools []toolcall.Tool
	for _, t := range offered(req) {
		tools = append(tools, toolcall.Tool{Name: t.Name, Parameters: t.Parameters, Strict: t.Strict})
	}
	n, err := g.dialect.Grammar(b, tools, severalCalls(req), func(b *grammar.Builder, name string, schema json.RawMessage, _ bool) (grammar.Node, error) {
		return jsonschema.Compile(b, schema, jsonschema.Options{Name: name, Closed: true})
	})
	if err != nil {
		return nil, err
	}
	return b.Build(n)
}

// mayCall reports whether the answer is free to call, but has to hold to the schema of a tool when it does.
func mayCall(req *engine.Request) bool {
	return req.ToolChoice.Mode != engine.ToolNone && !mustCall(req) && slices.ContainsFunc(req.Tools, func(t engine.Tool) bool { return t.Strict })
}

// trigger holds a sequence to the grammar of calls from the tokens on that begin one. Where these tokens spell other text, too, it stays
// free: what is no call then is text.
func (g *generator) trigger(s *sequence) error {
	marker, atStart := g.dialect.Trigger()
	tail, from := "", len(s.tokens)
	for len(tail) < len(marker) && from > len(s.job.prompt) {
		from--
		tail = string(g.displayText(s.tokens[from], s.job)) + tail
	}
	if tail != marker || atStart && from > len(s.job.prompt) {
		return nil
	}
	m := s.job.triggered.Matcher(g.formats.vocabulary(true))
	for _, id := range s.tokens[from:] {
		if err := m.Accept(id); err != nil {
			return err
		}
	}
	s.matcher = m
	return nil
}
