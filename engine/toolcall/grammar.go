package toolcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/grammar"
)

// Tool is a function whose calls a grammar allows.
type Tool struct {
	Name       string
	Parameters json.RawMessage // JSON schema of the arguments; nil: any object
	Strict     bool            // arguments are held to the schema, or the grammar is refused
}

// Schema makes the node of a JSON schema's texts. The rules it adds to b have names that begin with name.
type Schema func(b *grammar.Builder, name string, schema json.RawMessage, strict bool) (grammar.Node, error)

// Grammar is the calls of one answer, in the form in which models of the dialect were taught to write them: exactly one, or at least one
// if they may be parallel. Its texts begin with the text of [Dialect.Trigger], and a Parser takes all of them for calls. The schema of a
// tool that is not strict gives way to any object if it cannot be compiled; what is wrong with a strict one is the error. A mistake that
// b keeps until Build, such as an exceeded limit, is not seen here.
func (d Dialect) Grammar(b *grammar.Builder, tools []Tool, parallel bool, schema Schema) (grammar.Node, error) {
	if d == None || len(tools) == 0 {
		return grammar.Node{}, errors.New("toolcall: no calls without a dialect and tools")
	}
	alternatives := make([]grammar.Node, len(tools))
	for i, t := range tools {
		arguments, err := argumentsOf(b, "tool"+strconv.Itoa(i), t, schema)
		if err != nil {
			return grammar.Node{}, fmt.Errorf("toolcall: tool %d: %w", i, err)
		}
		alternatives[i] = d.call(b, t.Name, arguments)
	}
	call := b.Rule("call")
	b.Define(call, b.Or(alternatives...))
	form := d.form()
	if !parallel || form.between == "" {
		return b.Seq(b.Literal(form.before), call, b.Literal(form.after)), nil
	}
	more := b.Repeat(b.Seq(b.Literal(form.between), call), 0, -1)
	return b.Seq(b.Literal(form.before), call, more, b.Literal(form.after)), nil
}

// form is what stands around and between calls.
type form struct{ before, between, after string }

func (d Dialect) form() form {
	switch d {
	case Hermes:
		return form{hermesOpen + "\n", "\n" + hermesClose + "\n" + hermesOpen + "\n", "\n" + hermesClose}
	case Mistral:
		return form{mistralCalls + "[", ", ", "]"}
	case MistralArgs:
		return form{mistralCalls, mistralCalls, ""}
	case Llama, None: // Llama's templates refuse several calls in one turn
	}
	return form{}
}

// call is one call, without what stands around it.
func (d Dialect) call(b *grammar.Builder, name string, arguments grammar.Node) grammar.Node {
	if d == MistralArgs {
		id, _ := b.Regex(`[a-zA-Z0-9]{9}`) // a valid expression
		optional := b.Repeat(b.Seq(b.Literal(mistralID), id), 0, 1)
		return b.Seq(b.Literal(name), optional, b.Literal(mistralArgs), arguments)
	}
	key := "arguments"
	if d == Llama {
		key = "parameters"
	}
	return b.Seq(b.Literal(`{"name": `+quote(name)+`, "`+key+`": `), arguments, b.Literal("}"))
}

func quote(s string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return strings.TrimSuffix(out.String(), "\n")
}

func argumentsOf(b *grammar.Builder, name string, t Tool, schema Schema) (grammar.Node, error) {
	source, err := objectSchema(t.Parameters)
	if err == nil {
		var n grammar.Node
		if n, err = schema(b, name, source, t.Strict); err == nil {
			return n, nil
		}
	}
	if t.Strict {
		return grammar.Node{}, err
	}
	return schema(b, name+"any", json.RawMessage(anyObject), false)
}

const anyObject = `{"type": "object"}`

// objectSchema adds to a schema that its values are objects, unless it says so.
func objectSchema(schema json.RawMessage) (json.RawMessage, error) {
	if schema == nil {
		return json.RawMessage(anyObject), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil || members == nil {
		return nil, errors.New("the parameters are no JSON schema object")
	}
	var kind string
	switch given, ok := members["type"]; {
	case !ok && len(members) == 0:
		return json.RawMessage(anyObject), nil
	case !ok:
		rest := bytes.TrimLeft(schema, " \t\r\n")[1:]
		return append([]byte(`{"type": "object", `), rest...), nil
	case json.Unmarshal(given, &kind) != nil || kind != "object":
		return nil, errors.New(`the parameters have another type than "object"; arguments are always an object`)
	}
	return schema, nil
}
