package remote

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// streamChunk is the union of what both endpoints send, in pieces or whole.
type streamChunk struct {
	Model   string              `json:"model"`
	Choices []chunkChoice       `json:"choices"`
	Usage   *openai.Usage       `json:"usage"`
	Error   *openai.ErrorDetail `json:"error"`
}

type chunkChoice struct {
	Index        int             `json:"index"`
	Text         string          `json:"text"`
	Delta        delta           `json:"delta"`
	Message      *delta          `json:"message"` // of a whole answer
	Logprobs     json.RawMessage `json:"logprobs"`
	FinishReason *string         `json:"finish_reason"`
	// What stopped a choice: the text of a stop string, or the number of a token. Servers differ in its name.
	StopReason  json.RawMessage `json:"stop_reason"`  // vLLM
	MatchedStop json.RawMessage `json:"matched_stop"` // SGLang
}

// delta also holds what only some servers send: reasoning under its newer name, and a call as it was before there were several.
type delta struct {
	openai.Delta

	Thought      *string              `json:"reasoning"`
	FunctionCall *openai.FunctionCall `json:"function_call"`
}

// texts are the reasoning and the refusal.
func (d *delta) texts() (reasoning, refusal string) {
	for _, s := range []*string{d.Thought, d.ReasoningContent} { // a server that sends both sends the same twice
		if s != nil && *s != "" {
			reasoning = *s
		}
	}
	if d.Refusal != nil {
		refusal = *d.Refusal
	}
	return reasoning, refusal
}

// maxDepth bounds the nesting of a chunk that is read in place.
const maxDepth = 32

// decode fills c, whose choices are used again. Chunks of text are read in place; encoding/json reads the others, and decides what is wrong.
func (c *streamChunk) decode(data []byte) error {
	*c = streamChunk{Choices: c.Choices[:0]}
	s := string(data)
	if _, err := rawjson.Check(s, maxDepth); err == nil && utf8.ValidString(s) && c.read(s) {
		return nil
	}
	*c = streamChunk{}
	return json.Unmarshal(data, c)
}

// once notes the members that were read. A name that comes twice, or in an unusual spelling, is for encoding/json, which has rules for both.
type once uint16

func (o *once) take(bit once) bool {
	first := *o&bit == 0
	*o |= bit
	return first
}

// ignorable reports whether a name that nobody knows is one for encoding/json, too: that one disregards case.
func ignorable(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' || r == '\\' })
}

// read fills c from a chunk in its common form. It is false for any other.
func (c *streamChunk) read(s string) bool {
	s = rawjson.Trim(s)
	if s == "" || s[0] != '{' {
		return false
	}
	var have once
	return eachMember(s, func(name, v string) bool {
		switch name {
		case `"model"`:
			return have.take(1) && str(v, &c.Model)
		case `"choices"`:
			return have.take(2) && c.readChoices(v)
		case `"usage"`:
			return have.take(4) && (rawjson.Null(v) || json.Unmarshal([]byte(v), &c.Usage) == nil)
		case `"error"`:
			return rawjson.Null(v)
		}
		return ignorable(name)
	})
}

func (c *streamChunk) readChoices(v string) bool {
	if rawjson.Null(v) {
		return true
	}
	if v[0] != '[' {
		return false
	}
	for item := range rawjson.EachItem(v) {
		c.Choices = append(c.Choices, chunkChoice{})
		if !c.Choices[len(c.Choices)-1].read(item) {
			return false
		}
	}
	return true
}

func (c *chunkChoice) read(s string) bool {
	if s[0] != '{' {
		return false
	}
	var have once
	return eachMember(s, func(name, v string) bool {
		switch name {
		case `"index"`:
			return have.take(1) && index(v, &c.Index)
		case `"text"`:
			return have.take(2) && str(v, &c.Text)
		case `"delta"`:
			return have.take(4) && c.Delta.read(v)
		case `"message"`:
			c.Message = new(delta)
			return have.take(8) && v[0] == '{' && c.Message.read(v)
		case `"logprobs"`:
			if !rawjson.Null(v) {
				c.Logprobs = json.RawMessage(v)
			}
			return have.take(16)
		case `"finish_reason"`:
			return have.take(32) && optional(v, &c.FinishReason)
		case `"stop_reason"`:
			c.StopReason = json.RawMessage(v)
			return have.take(64)
		case `"matched_stop"`:
			c.MatchedStop = json.RawMessage(v)
			return have.take(128)
		}
		return ignorable(name)
	})
}

func (d *delta) read(s string) bool {
	if s[0] != '{' {
		return rawjson.Null(s)
	}
	var have once
	return eachMember(s, func(name, v string) bool {
		switch name {
		case `"role"`:
			return have.take(1) && str(v, &d.Role)
		case `"content"`:
			return have.take(2) && optional(v, &d.Content)
		case `"reasoning_content"`:
			return have.take(4) && optional(v, &d.ReasoningContent)
		case `"reasoning"`:
			return have.take(8) && optional(v, &d.Thought)
		case `"refusal"`:
			return have.take(16) && optional(v, &d.Refusal)
		case `"tool_calls"`, `"function_call"`:
			return rawjson.Null(v)
		}
		return ignorable(name)
	})
}

// eachMember reports whether read takes every member of an object.
func eachMember(s string, read func(name, v string) bool) bool {
	for name, v := range rawjson.EachMember(s) {
		if !read(name, v) {
			return false
		}
	}
	return true
}

// str sets what a string says; null sets nothing.
func str(v string, to *string) bool {
	if rawjson.Null(v) {
		return true
	}
	text, ok := rawjson.Text(v)
	*to = text
	return ok
}

// optional points to what a string says, and nowhere for null.
func optional(v string, to **string) bool {
	if rawjson.Null(v) {
		return true
	}
	text, ok := rawjson.Text(v)
	*to = &text
	return ok
}

// index reads a small number.
func index(v string, to *int) bool {
	if len(v) > 3 || len(v) > 1 && v[0] == '0' {
		return false
	}
	for _, d := range []byte(v) {
		if d < '0' || d > '9' {
			return false
		}
		*to = *to*10 + int(d-'0')
	}
	return true
}
