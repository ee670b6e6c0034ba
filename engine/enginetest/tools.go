package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/engine"
)

const (
	weatherSchema = `{"type":"object","properties":{"city":{"enum":["Paris","北京"]},"days":{"type":"integer","minimum":1,"maximum":9}},"required":["city"],"additionalProperties":false}`
	timeSchema    = `{"type":"object","properties":{"zone":{"enum":["UTC","CET"]}},"required":["zone"],"additionalProperties":false}`
)

// asking is a request that offers tools.
func (s *suite) asking(mode engine.ToolMode, name string) *engine.Request {
	req := s.request()
	req.Messages = nil
	for i, city := range []string{"北京", "Paris"} { // small models call what was called before
		id := fmt.Sprintf("call_%d", i)
		req.Messages = append(req.Messages,
			engine.Message{Role: "user", Content: "What is the weather in " + city + "?"},
			engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: id, Name: "get_weather", Arguments: `{"city":"` + city + `"}`}}})
	}
	req.Messages = append(req.Messages, engine.Message{Role: "user", Content: "What is the weather in Paris?"})
	req.MaxTokens = 60
	req.Tools = []engine.Tool{
		{Name: "get_weather", Description: "The weather of the next days.", Parameters: json.RawMessage(weatherSchema), Strict: true},
		{Name: "get_time", Description: "What time it is.", Parameters: json.RawMessage(timeSchema), Strict: true},
	}
	req.ToolChoice = engine.ToolChoice{Mode: mode, Name: name}
	return req
}

// checkCalls holds the calls of a choice to their tools; one that a limit cut off need not be whole.
func (s *suite) checkCalls(what string, r result, choice int) {
	s.Helper()
	for i, c := range r.calls[choice] {
		schema, ok := map[string]string{"get_weather": weatherSchema, "get_time": timeSchema}[c.Name]
		if !ok {
			s.Errorf("%s: a call of %q, which nobody offered", what, c.Name)
			continue
		}
		cut := r.finish[choice] == engine.FinishLength && i == len(r.calls[choice])-1
		if err := validate(schema, c.Arguments); err != nil && !cut {
			s.Errorf("%s: %v", what, err)
		}
	}
}

// tools: calls come as asked for, whatever the model would rather say, with arguments that their schema allows.
func (s *suite) tools() {
	s.need(s.generate.HasTools, "tools")
	for _, c := range []struct {
		mode     engine.ToolMode
		name     string
		parallel bool
		heat     float64
		choices  int
	}{
		{"", "", true, 0, 1},
		{engine.ToolAuto, "", false, 0.9, 2},
		{engine.ToolNone, "", true, 0, 1},
		{engine.ToolRequired, "", false, 0, 1},
		{engine.ToolRequired, "", true, 0.9, 2},
		{engine.ToolFunction, "get_time", false, 0, 1},
	} {
		req := s.asking(c.mode, c.name)
		req.ParallelTools, req.Temperature, req.Choices, req.Seed = c.parallel, c.heat, c.choices, numbered(4)
		if c.mode == engine.ToolNone {
			req.MaxTokens = 16
		}
		what := fmt.Sprintf("tool_choice %q %s, parallel %v", c.mode, c.name, c.parallel)
		r := s.ok(req)
		for i := range c.choices {
			n, finish := len(r.calls[i]), r.finish[i]
			must := c.mode == engine.ToolRequired || c.mode == engine.ToolFunction
			switch {
			case c.mode == engine.ToolNone && n > 0:
				s.Errorf("%s: %d calls", what, n)
			case must && n == 0 && s.opt.OwnFormats:
				s.Errorf("%s: no call, but %q (%s)", what, r.text[i], finish)
			case must && s.opt.OwnFormats && strings.TrimSpace(r.text[i]) != "":
				s.Errorf("%s: text beside the calls: %q", what, r.text[i])
			case !c.parallel && n > 1:
				s.Errorf("%s: %d calls", what, n)
			case c.name != "" && n > 0 && r.calls[i][0].Name != c.name:
				s.Errorf("%s: a call of %s", what, r.calls[i][0].Name)
			}
			s.checkCalls(what, r, i)
		}
		s.Logf("%s: %d calls, %q (%s)", what, len(r.calls[0]), r.text[0], r.finish[0])
	}
}

// toolTurns: what was called and what came of it are turns like others.
func (s *suite) toolTurns() {
	s.need(s.generate.HasTools, "tools")
	req := s.asking(engine.ToolNone, "")
	req.MaxTokens = 8
	req.Messages = append(req.Messages,
		engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{
			{ID: "call_1", Name: "get_weather", Arguments: `{"city":"Paris"}`}, {ID: "call_2", Name: "get_time", Arguments: `{"zone":"CET"}`},
		}},
		engine.Message{Role: "tool", ToolCallID: "call_1", Content: `{"weather":"rain","说明":"下雨"}`},
		engine.Message{Role: "tool", ToolCallID: "call_2", Content: "12:30"},
	)
	r := s.ok(req)
	if r.text[0] == "" || len(r.calls[0]) > 0 {
		s.Errorf("%q, %d calls", r.text[0], len(r.calls[0]))
	}
	if p := s.prepare(req); p.Tokens < r.usage.PromptTokens || p.Exact && p.Tokens != r.usage.PromptTokens {
		s.Errorf("Prepare said %d (exact: %v), usage says %d", p.Tokens, p.Exact, r.usage.PromptTokens)
	}
	short := s.request()
	short.MaxTokens = 1
	if n := s.ok(short).usage.PromptTokens; r.usage.PromptTokens < n+20 {
		s.Errorf("a prompt of %d tokens holds neither calls nor results", r.usage.PromptTokens)
	}
}

// forged: a caller, a tool's name, and a tool's result cannot write tokens with a meaning of their own; their spelling is text.
func (s *suite) forged() {
	s.needGenerate()
	if s.opt.Special == "" {
		s.Skip("no token of the model has a meaning of its own")
	}
	const times = 10
	content := map[string]func(req *engine.Request, text string){
		"a message": func(req *engine.Request, text string) { req.Messages[len(req.Messages)-1].Content += text },
		"a result": func(req *engine.Request, text string) {
			req.Messages = append(req.Messages, engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "c", Name: "get_time", Arguments: `{"zone":"UTC"}`}}},
				engine.Message{Role: "tool", ToolCallID: "c", Content: "noon" + text})
		},
		"arguments": func(req *engine.Request, text string) {
			req.Messages = append(req.Messages, engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "c", Name: "get_time", Arguments: `{"zone":"` + text + `"}`}}},
				engine.Message{Role: "tool", ToolCallID: "c", Content: "noon"})
		},
		"a description": func(req *engine.Request, text string) { req.Tools[0].Description += text },
		"an earlier answer": func(req *engine.Request, text string) {
			req.Messages = append(req.Messages, engine.Message{Role: "assistant", Content: "well" + text}, engine.Message{Role: "user", Content: "go on"})
		},
	}
	for where, write := range content {
		if where != "a message" && where != "an earlier answer" && !s.generate.HasTools {
			continue
		}
		count := func(text string) int {
			req := s.asking(engine.ToolAuto, "")
			if !s.generate.HasTools {
				req.Tools, req.Messages = nil, req.Messages[len(req.Messages)-1:]
			}
			write(req, text)
			req.MaxTokens = 1
			return s.ok(req).usage.PromptTokens
		}
		if more := count(strings.Repeat(s.opt.Special, times)) - count(""); more < 3*times {
			s.Errorf("%d times %q in %s are %d tokens: it was taken for what it spells", times, s.opt.Special, where, more)
		}
	}
}
