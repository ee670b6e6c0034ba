package signature

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
)

// Body is the body of an answer as a program has kept it.
type Body struct {
	Signature string

	answers []Answer
	joined  bool // the dialect has a refusal as a text
}

// Texts returns the text, or the refusal, of each alternative.
func (b Body) Texts() []string {
	var out []string
	for _, a := range b.answers {
		out = append(out, cmp.Or(a.Text, a.Refusal))
	}
	return out
}

// savedBody is what bodies of answers have in common, and what tells them apart.
type savedBody struct {
	Sluice struct {
		Signature string `json:"signature"`
	} `json:"sluice"`
	Choices []savedChoice `json:"choices"` // of chats and completions
	Output  []savedItem   `json:"output"`  // of a response
	Content []savedPart   `json:"content"` // of a message
}

type savedChoice struct {
	Text    string `json:"text"`
	Message *struct {
		Content   string `json:"content"`
		Reasoning string `json:"reasoning_content"`
		Refusal   string `json:"refusal"`
		ToolCalls []struct {
			Function Call `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
}

// savedItem is an item of a response.
type savedItem struct {
	Type      string      `json:"type"`
	Name      string      `json:"name"`
	Arguments string      `json:"arguments"`
	Content   []savedPart `json:"content"`
}

// savedPart is a part of an item or of a message.
type savedPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Refusal  string          `json:"refusal"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
}

// incomplete is the member under which a message has arguments of a call that are no object.
const incomplete = "_incomplete_arguments"

// errUnclear is about a body that two readers might read in two ways, or of which a part is not understood: then a signature could be shown beside
// something that it does not cover.
var errUnclear = errors.New("the body is none of an answer, or not a clear one")

// ParseBody reads the body of a chat completion, a completion, a response or a message. ok is false for anything else, also where it could be read in
// two ways.
func ParseBody(body []byte) (b Body, ok bool) {
	if !json.Valid(body) { // nor is it nested so deeply that reading it ends the program
		return Body{}, false
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := clearValue(dec); err != nil {
		return Body{}, false
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Body{}, false
	}
	var s savedBody
	if json.Unmarshal(body, &s) != nil {
		return Body{}, false
	}
	kinds := 0
	for _, has := range []bool{s.Choices != nil, s.Output != nil, s.Content != nil} {
		if has {
			kinds++
		}
	}
	if kinds != 1 || s.Sluice.Signature == "" {
		return Body{}, false
	}
	b = Body{Signature: s.Sluice.Signature, joined: s.Content != nil}
	for _, c := range s.Choices {
		a := Answer{Text: c.Text}
		if m := c.Message; m != nil {
			if c.Text != "" {
				return Body{}, false
			}
			a = Answer{Text: m.Content, Reasoning: m.Reasoning, Refusal: m.Refusal}
			for _, k := range m.ToolCalls {
				a.Calls = append(a.Calls, k.Function)
			}
		}
		b.answers = append(b.answers, a)
	}
	if s.Choices == nil {
		one, err := joinParts(s)
		if err != nil {
			return Body{}, false
		}
		b.answers = []Answer{one}
	}
	return b, true
}

// joinParts puts the parts of a response or of a message together.
func joinParts(s savedBody) (one Answer, err error) {
	parts := s.Content
	for _, item := range s.Output {
		switch item.Type {
		case "function_call":
			one.Calls = append(one.Calls, Call{item.Name, item.Arguments})
		case "message", "reasoning":
			parts = append(parts, item.Content...)
		default:
			return Answer{}, errUnclear
		}
	}
	for _, p := range parts {
		if err := one.add(p); err != nil {
			return Answer{}, err
		}
	}
	return one, nil
}

func (a *Answer) add(p savedPart) error {
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
		arguments := string(p.Input)
		var cut map[string]string
		if json.Unmarshal(p.Input, &cut) == nil && len(cut) == 1 {
			if text, ok := cut[incomplete]; ok {
				arguments = text
			}
		}
		a.Calls = append(a.Calls, Call{p.Name, arguments})
	default:
		return errUnclear
	}
	return nil
}

// clearValue reads one value, and refuses members of an object that are there twice, or whose names differ in case only from each other or from one that is
// read here: decoders differ in which of them they take. What stands in the input of a call is compared whole and may have any names.
func clearValue(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for dec.More() {
			if err := clearValue(dec); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := clearMembers(dec); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = dec.Token()
	return err
}

func clearMembers(dec *json.Decoder) error {
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // of a member always
		folded := strings.Map(fold, name)
		if seen[folded] || readOtherwise(name) {
			return errUnclear
		}
		if seen[folded] = true; name == "input" {
			var whole json.RawMessage
			err = dec.Decode(&whole)
		} else {
			err = clearValue(dec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fold returns the one character that stands for all that differ from it in case only, as encoding/json has it: for ſ as for s.
func fold(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

// readOtherwise reports whether a member is one that is read here, but for the case of its name.
func readOtherwise(name string) bool {
	for _, read := range [...]string{
		"sluice", "signature", "choices", "output", "content", "text", "message", "reasoning_content", "refusal", "tool_calls", "function",
		"type", "name", "arguments", "thinking", "input",
	} {
		if name != read && strings.EqualFold(name, read) {
			return true
		}
	}
	return false
}

// MatchesBody reports whether the statement is about the answer in a body.
func (x Statement) MatchesBody(b Body) bool {
	if x.Matches(b.answers) {
		return true
	}
	if !b.joined || len(b.answers) != 1 {
		return false
	}
	refused := b.answers[0]
	refused.Text, refused.Refusal = "", refused.Text
	return x.Matches([]Answer{refused})
}
