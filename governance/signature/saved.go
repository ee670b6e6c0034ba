package signature

import (
	"encoding/json"
	"strings"
)

// saved is what bodies of answers have in common, and what tells them apart.
type saved struct {
	Sluice  struct{ Signature string }
	Choices []struct {
		Text    string
		Message *struct {
			Content   string
			Reasoning string `json:"reasoning_content"`
			Refusal   string
			ToolCalls []struct{ Function Call } `json:"tool_calls"`
		}
	}
	Output []struct { // of a response
		Type      string
		Name      string
		Arguments string
		Content   []savedPart
	}
	Content []savedPart // of a message
}

// savedPart is a part of an item or of a message.
type savedPart struct {
	Type, Text, Thinking, Refusal, Name string
	Input                               json.RawMessage
}

// FromBody reads the alternatives and the signature of an answer as a program has kept it: the whole body, of a chat completion, a completion, a
// response or a message. ok is false for anything else.
func FromBody(body []byte) (answers []Answer, signature string, ok bool) {
	var s saved
	if json.Unmarshal(body, &s) != nil || s.Sluice.Signature == "" {
		return nil, "", false
	}
	for _, c := range s.Choices {
		a := Answer{Text: c.Text}
		if m := c.Message; m != nil {
			a = Answer{Text: m.Content, Reasoning: m.Reasoning, Refusal: m.Refusal}
			for _, k := range m.ToolCalls {
				a.Calls = append(a.Calls, k.Function)
			}
		}
		answers = append(answers, a)
	}
	if s.Choices != nil {
		return answers, s.Sluice.Signature, true
	}
	var one Answer
	parts := s.Content
	for _, item := range s.Output {
		if item.Type == "function_call" {
			one.Calls = append(one.Calls, Call{item.Name, item.Arguments})
		}
		if item.Type == "message" || item.Type == "reasoning" {
			parts = append(parts, item.Content...)
		}
	}
	for _, p := range parts {
		one.add(p)
	}
	return []Answer{one}, s.Sluice.Signature, s.Content != nil || s.Output != nil
}

func (a *Answer) add(p savedPart) {
	switch p.Type {
	case "text", "output_text":
		a.Text += p.Text
	case "thinking":
		a.Reasoning += p.Thinking
	case "reasoning_text":
		a.Reasoning += p.Text
	case "refusal":
		a.Refusal += p.Refusal
	case "tool_use":
		a.Calls = append(a.Calls, Call{p.Name, strings.TrimSpace(string(p.Input))})
	}
}
