package gateway

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/jsontext"
)

// texts are all text-bearing fields of a call as the guard sees them. What stands inside a JSON text is a field of its own, so
// that masking leaves JSON; what must keep its spelling to mean anything (names, keys, grammars) is shown to the guard as well, and
// the call is refused if the guard would change it.
type texts struct {
	fields  []governance.Field
	fixed   []fixedText
	named   []namedText
	escaped []escapedText
	parsed  []func() // put JSON texts together again
	values  int      // of JSON texts
}

// maxValues bounds the strings and numbers in the JSON texts of one call: each is looked at by itself.
const maxValues = 20_000

type fixedText struct {
	path           string
	text, original *string
}

// escapedText is a text with escapes, which the guard sees without them.
type escapedText struct {
	shown, text *string
	plain       string
}

// namedText is a value that the guard sees behind its name.
type namedText struct {
	path, name  string
	shown, text *string
}

// texts lists the fields of the call. Error: a JSON text that is none.
func (c *Call) texts() (*texts, error) {
	t := &texts{}
	var err error
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	for i := range c.Messages {
		m, path := &c.Messages[i], c.place(i)
		t.add(path+".content", &m.Content)
		if m.Content != "" && (m.Role == "system" || m.Role == "developer") {
			t.fields[len(t.fields)-1].Operator = true
		}
		t.add(path+".name", &m.Name)
		t.add(path+".tool_call_id", &m.ToolCallID)
		for k := range m.ToolCalls {
			call, path := &m.ToolCalls[k], at(path+".tool_calls", k)
			t.add(path+".id", &call.ID)
			t.addFixed(path+".function.name", call.Name)
			keep(t.addJSON(path+".function.arguments", []byte(call.Arguments), nil, func(b []byte) { call.Arguments = string(b) }))
		}
	}
	t.add("prompt", &c.Prompt)
	t.addList("stop", c.Stop)
	t.addList("input", c.Input)
	t.add("query", &c.Query)
	t.addList("queries", c.Queries)
	t.addList("documents", c.Documents)
	for i := range c.Tools {
		tool, path := &c.Tools[i], at("tools", i)+".function"
		t.addFixed(path+".name", tool.Name)
		t.add(path+".description", &tool.Description)
		keep(t.addJSON(path+".parameters", tool.Parameters, structural(), func(b []byte) { tool.Parameters = b }))
	}
	if f := c.Format; f != nil {
		t.addFixed(c.FormatField, f.GBNF)
		t.addFixed(c.FormatField, f.Regex)
		t.addList(c.FormatField, f.Choice)
		keep(t.addJSON(c.FormatField, f.JSONSchema, structural(), func(b []byte) { f.JSONSchema = b }))
	}
	return t, err
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// structural are the keywords of a schema whose strings are no prose: masking one would change what the schema says.
func structural() map[string]bool {
	return map[string]bool{
		"type": true, "format": true, "pattern": true, "required": true, "dependentRequired": true, "contentEncoding": true,
		"contentMediaType": true, "$ref": true, "$dynamicRef": true, "$id": true, "$schema": true, "$anchor": true, "$dynamicAnchor": true,
	}
}

func (t *texts) add(path string, s *string) {
	if *s == "" {
		return
	}
	if plain := unescaped(*s); plain != *s {
		shown := plain
		t.escaped = append(t.escaped, escapedText{&shown, s, plain})
		s = &shown
	}
	t.fields = append(t.fields, governance.Field{Path: path, Text: s})
}

// unescaped replaces the escapes of JSON that stand for letters, digits and everything beyond ASCII: texts are full of JSON, such as
// results of tools, and many libraries write Chinese as \u5bc6. JSON stays JSON by it.
func unescaped(s string) string {
	if !strings.Contains(s, `\u`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		n := 0
		for i+n < len(s) && s[i+n] == '\\' {
			n++
		}
		if n == 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		r, ok := rune(0), i+n+5 <= len(s) && s[i+n] == 'u'
		if ok { // several backslashes: JSON inside JSON
			r, ok = jsontext.Hex4([]byte(s[i+n-1:i+n+5]), 0)
		}
		if ok && !utf16.IsSurrogate(r) && (r >= 0x80 || isPlain(byte(r))) {
			b.WriteRune(r)
			i += n + 5
			continue
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

func isPlain(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

func (t *texts) addList(path string, texts []string) {
	for i := range texts {
		t.add(at(path, i), &texts[i])
	}
}

// addFixed adds a text that must stay as it is.
func (t *texts) addFixed(path, s string) {
	text := s
	t.add(path, &text)
	t.fixed = append(t.fixed, fixedText{path, &text, &s})
}

// addJSON adds the strings and long numbers of a JSON text; keys stay as they are. In a schema, for which keywords is set, so do
// numbers and the strings of those keywords.
func (t *texts) addJSON(path string, source []byte, keywords map[string]bool, set func([]byte)) error {
	if len(source) == 0 {
		return nil
	}
	j, ok := jsontext.Parse(source)
	if !ok {
		return fault.New(fault.CodeInvalidValue, path, fault.Say("value.json")).WithParam(path)
	}
	if t.values += len(j.Parts); t.values > maxValues {
		return fault.New(fault.CodeInvalidValue, path, fault.Say("gateway.too_many_texts", maxValues)).WithParam(path)
	}
	for i := range j.Parts {
		p := &j.Parts[i]
		if p.IsKey || keywords != nil && (p.Number || keywords[p.Key]) {
			t.addFixed(path, p.Text)
			continue
		}
		name := jsontext.NameBefore(p.Key)
		if keywords != nil && slices.Contains([]string{"const", "default", "enum", "examples"}, p.Key) { // a value of the member it describes
			name = jsontext.NameBefore(p.Outer)
		}
		shown := name + p.Text
		t.add(path, &shown)
		t.named = append(t.named, namedText{path, name, &shown, &p.Text})
	}
	t.parsed = append(t.parsed, func() { set(j.Join()) })
	return nil
}

// apply takes over what the guard has made of the fields.
func (t *texts) apply() error {
	refuse := func(path string) error {
		return fault.New(fault.CodeInvalidValue, path, fault.Say("gateway.unmaskable_place")).WithParam(path)
	}
	for _, p := range t.escaped {
		if *p.shown != p.plain {
			*p.text = *p.shown
		}
	}
	for _, f := range t.fixed {
		if *f.text != *f.original {
			return refuse(f.path)
		}
	}
	for _, n := range t.named {
		text, whole := strings.CutPrefix(*n.shown, n.name)
		if !whole {
			return refuse(n.path)
		}
		*n.text = text
	}
	for _, join := range t.parsed {
		join()
	}
	return nil
}

// cloneTexts returns a copy of the call whose texts can be rewritten, without secrets. In the place of tokens it has what they say.
func (c *Call) cloneTexts(spelt string) *Call {
	out := *c
	out.Credential, out.Session, out.OnBehalfOf, out.Known = "", "", "", nil
	if c.Tokens != nil {
		out.Tokens, out.Prompt = nil, spelt
	}
	out.Messages = slices.Clone(c.Messages)
	for i := range out.Messages {
		out.Messages[i].ToolCalls = slices.Clone(out.Messages[i].ToolCalls)
	}
	out.Stop, out.Input, out.Documents, out.Queries = slices.Clone(c.Stop), slices.Clone(c.Input), slices.Clone(c.Documents), slices.Clone(c.Queries)
	out.Tools = slices.Clone(c.Tools)
	if c.Format != nil {
		format := *c.Format
		format.Choice = slices.Clone(format.Choice)
		out.Format = &format
	}
	return &out
}

// size is the number of bytes a model may have to read.
func (c *Call) size() int {
	n := len(c.Prompt) + bytesPerToken*len(c.Tokens) + len(c.Query)*max(1, len(c.Documents))
	if c.Document != nil {
		n += len(c.Document.Body)
	}
	for _, m := range c.Messages {
		n += len(m.Content) + len(m.Name)
		for _, call := range m.ToolCalls {
			n += len(call.Name) + len(call.Arguments)
		}
	}
	for _, list := range [][]string{c.Stop, c.Input, c.Documents, c.Queries} {
		for _, s := range list {
			n += len(s)
		}
	}
	for _, t := range c.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return n
}

// prompt is what spell says.
func (c *Call) prompt() string {
	n := 0
	c.spell(func(s string) { n += len(s) })
	var b strings.Builder
	b.Grow(n)
	c.spell(func(s string) { b.WriteString(s) })
	return b.String()
}

// spell says the text of a call as its digest covers it: the one text of a call that has only one; roles and contents, and
// inputs, each ended by a zero byte. A query comes before the documents that are scored against it. Names, calls and their results
// follow the content of their message; tools and the shape of the answer follow everything, as JSON. Tokens are numbers,
// each ended likewise, until they are spelt.
func (c *Call) spell(piece func(string)) {
	ended := func(texts ...string) {
		for _, s := range texts {
			piece(s)
			piece("\x00")
		}
	}
	switch {
	case c.Documents != nil:
		ended(c.Query)
		ended(c.Queries...)
		ended(c.Documents...)
	case c.Query != "":
		piece(c.Query)
		return
	case c.Messages == nil && c.Input == nil:
		piece(c.Prompt)
	}
	for _, id := range c.Tokens {
		ended(strconv.Itoa(int(id)))
	}
	for _, m := range c.Messages {
		ended(m.Role, m.Content)
		if m.Name != "" {
			ended(m.Name)
		}
		if m.ToolCallID != "" {
			ended(m.ToolCallID)
		}
		for _, call := range m.ToolCalls {
			ended(call.ID, call.Name, call.Arguments)
		}
	}
	ended(c.Input...)
	if len(c.Tools) > 0 || c.Format != nil {
		j, err := json.Marshal(struct {
			Tools  any
			Choice any
			Format any
		}{c.Tools, c.ToolChoice, c.Format})
		if err != nil { // the edge has read this JSON before
			panic(err)
		}
		piece("\x00")
		piece(string(j))
	}
}
