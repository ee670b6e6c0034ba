package toolcall

import (
	"encoding/json"
	"strings"
)

// object reads the JSON object of a call byte by byte, or only its arguments.
type object struct {
	scanner
	bare   bool // it is the arguments themselves
	strict bool // keys that calls do not have break it

	raw      strings.Builder
	start    int    // of the key or value that is being read
	key      string // of the value: "name", "arguments", or "" for others
	name     string
	hasName  bool
	from, to int    // of the arguments in raw; both are zero while they are not there, and to while they are open
	text     string // the arguments, if they came as a string that holds JSON
}

// step takes one more byte and says whether what came so far may become a call. A refused byte is not part of it.
func (o *object) step(c byte) bool {
	at, before, depth := o.raw.Len(), o.state, len(o.stack)
	if at == 0 && c != '{' || !o.scanner.step(c) {
		return false
	}
	o.raw.WriteByte(c)
	if o.bare {
		if o.state == finished {
			o.to = at + 1
		}
		return true
	}
	inside, ended := len(o.stack), o.state == wantCommaOrEnd
	switch {
	case depth == 1 && inside == 1 && before != inString && o.state == inString && o.isKey:
		o.start = at
	case depth == 1 && before == inString && o.state == wantColon:
		return o.setKey(o.raw.String()[o.start:])
	case depth == 1 && before == wantValue && !isSpace(c):
		o.start = at
		return o.begin(c)
	case depth == 1 && before == inString && ended:
		return o.setText(o.raw.String()[o.start:])
	case depth == 2 && inside == 1 && o.key == "arguments":
		o.to = at + 1
	}
	return true
}

func (o *object) setKey(quoted string) bool {
	key, ok := unquote(quoted)
	o.key = ""
	switch key {
	case "name":
		o.key = "name"
		return ok && !o.hasName
	case "arguments", "parameters":
		o.key = "arguments"
		return o.from == 0 && o.text == ""
	case "type", "id":
		return true
	}
	return ok && !o.strict
}

// begin sees the first byte of a value.
func (o *object) begin(c byte) bool {
	switch o.key {
	case "name":
		return c == '"'
	case "arguments":
		if c == '{' {
			o.from = o.start
		}
		return c == '{' || c == '"'
	}
	return true
}

// setText sees a whole string.
func (o *object) setText(quoted string) bool {
	if o.key == "" {
		return true
	}
	text, ok := unquote(quoted)
	if o.key == "name" {
		o.name, o.hasName = text, true
		return ok
	}
	o.text = text
	return ok && isObject(text)
}

func unquote(quoted string) (string, bool) {
	var s string
	err := json.Unmarshal([]byte(quoted), &s)
	return s, err == nil
}

func isObject(text string) bool {
	var s scanner
	for i := range len(text) {
		if !s.step(text[i]) || len(s.stack) == 0 && s.state != finished && !isSpace(text[i]) {
			return false
		}
	}
	return s.state == finished && strings.HasSuffix(strings.TrimRight(text, " \t\r\n"), "}")
}

// arguments returns what is known of them so far.
func (o *object) arguments() string {
	switch raw := o.raw.String(); {
	case o.text != "":
		return o.text
	case o.to > 0:
		return raw[o.from:o.to]
	case o.bare || o.from > 0:
		return raw[o.from:]
	case o.state == finished:
		return "{}"
	}
	return ""
}
