package chattemplate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"

	"github.com/nikolalohinski/gonja/v2/exec"
)

const (
	maxJSONDepth  = 30   // of a tool's parameters and a call's arguments: below maxDepth, as messages and tools wrap them
	maxJSONDigits = 4300 // of an integer, as in Python
)

// values turns a chat into the values that a template sees. mark gets every text that a caller wrote, and returns what stands for it.
type values struct {
	mark  func(string) string
	style callStyle
	ids   func(string) string
}

// callStyle is how a template expects an assistant's turn with calls.
type callStyle struct {
	textArguments bool // arguments as JSON text, not as a dictionary
	nullContent   bool // no content is none, not an empty text
}

func (v values) messages(list []Message) ([]any, error) {
	names := map[string]string{} // of the functions, by the ID of a call
	out := make([]any, len(list))
	for i, m := range list {
		message := map[string]any{"role": m.Role, "content": v.mark(m.Content)}
		if m.Name == "" {
			m.Name = names[m.ToolCallID] // OpenAI's results do not say it, and some templates write it
		}
		if m.Name != "" {
			message["name"] = v.mark(m.Name)
		}
		if m.ToolCallID != "" {
			message["tool_call_id"] = v.mark(v.ids(m.ToolCallID))
		}
		if len(m.ToolCalls) > 0 {
			if m.Content == "" && v.style.nullContent {
				message["content"] = nil
			}
			calls, err := v.calls(m.ToolCalls)
			if err != nil {
				return nil, fmt.Errorf("chattemplate: message %d: %w", i, err)
			}
			message["tool_calls"] = calls
		}
		for _, c := range m.ToolCalls {
			if c.ID != "" {
				names[c.ID] = c.Name
			}
		}
		out[i] = message
	}
	return out, nil
}

func (v values) calls(list []ToolCall) ([]any, error) {
	out := make([]any, len(list))
	for i, c := range list {
		source := c.Arguments
		if source == "" {
			source = "{}"
		}
		arguments, err := v.object([]byte(source))
		if err != nil {
			return nil, fmt.Errorf("the arguments of call %d %w", i, err)
		}
		var given any = arguments
		if v.style.textArguments {
			given = v.mark(source)
		}
		function := dict(pair("name", v.mark(c.Name)), pair("arguments", given))
		if c.ID == "" {
			out[i] = dict(pair("type", "function"), pair("function", function))
			continue
		}
		out[i] = dict(pair("id", v.mark(v.ids(c.ID))), pair("type", "function"), pair("function", function))
	}
	return out, nil
}

// tools returns nil, Python's None, if there are none.
func (v values) tools(list []Tool) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]any, len(list))
	for i, t := range list {
		function := dict(pair("name", v.mark(t.Name)))
		if t.Description != "" {
			function.Pairs = append(function.Pairs, pair("description", v.mark(t.Description)))
		}
		if t.Parameters != nil {
			parameters, err := v.object(t.Parameters)
			if err != nil {
				return nil, fmt.Errorf("chattemplate: the parameters of tool %d %w", i, err)
			}
			function.Pairs = append(function.Pairs, pair("parameters", parameters))
		}
		out[i] = dict(pair("type", "function"), pair("function", function))
	}
	return out, nil
}

func dict(pairs ...*exec.Pair) *exec.Dict { return &exec.Dict{Pairs: pairs} }

func pair(key string, v any) *exec.Pair {
	return &exec.Pair{Key: exec.AsValue(key), Value: value(v)}
}

// object reads a JSON object as Python does: keys keep their order, and of equal ones the last value counts.
func (v values) object(source []byte) (*exec.Dict, error) {
	if !json.Valid(source) {
		return nil, errors.New("are not valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	r := jsonReader{d, v.mark}
	x, err := r.next(0)
	if err != nil {
		return nil, err
	}
	object, ok := x.(*exec.Dict)
	if !ok {
		return nil, errors.New("are not a JSON object")
	}
	return object, nil
}

type jsonReader struct {
	*json.Decoder
	mark func(string) string
}

func (r jsonReader) next(depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nest deeper than %d levels", maxJSONDepth)
	}
	token, err := r.Token()
	if err != nil {
		return nil, errors.New("are not valid JSON")
	}
	switch x := token.(type) {
	case json.Delim:
		if x == '{' {
			return r.object(depth)
		}
		return r.array(depth)
	case json.Number:
		return number(string(x))
	case string:
		return r.mark(x), nil
	}
	return token, nil
}

func (r jsonReader) object(depth int) (*exec.Dict, error) {
	out, at := dict(), map[string]int{}
	for r.More() {
		token, err := r.Token()
		if err != nil {
			return nil, errors.New("are not valid JSON")
		}
		x, err := r.next(depth + 1)
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if i, ok := at[key]; ok {
			out.Pairs[i].Value = value(x)
			continue
		}
		at[key] = len(out.Pairs)
		out.Pairs = append(out.Pairs, pair(r.mark(key), x))
	}
	_, _ = r.Token() // the closing brace: the text was valid
	return out, nil
}

func (r jsonReader) array(depth int) ([]any, error) {
	out := []any{}
	for r.More() {
		x, err := r.next(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	_, _ = r.Token()
	return out, nil
}

// number is an int, a *big.Int or a float64, as Python's parser decides.
func number(s string) (any, error) {
	for i := range len(s) {
		if c := s[i]; c == '.' || c == 'e' || c == 'E' {
			f, _ := strconv.ParseFloat(s, 64) // out of range is infinite, as in Python
			return f, nil
		}
	}
	if n, err := strconv.Atoi(s); err == nil {
		return n, nil
	}
	if len(s) > maxJSONDigits {
		return nil, fmt.Errorf("hold a number of more than %d digits", maxJSONDigits)
	}
	n, _ := new(big.Int).SetString(s, 10)
	return n, nil
}
