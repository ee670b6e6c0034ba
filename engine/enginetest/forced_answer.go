package enginetest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
)

// forcedAnswer returns the answer that a request forces where nothing is planned: the least one of its format, or a call of the tool that
// has to be called. Formats that are grammars or expressions are beyond it.
func forcedAnswer(req *engine.Request) (text string, calls []engine.ToolCall, ok bool) {
	switch f, choice := req.Format, req.ToolChoice; {
	case choice.Mode == engine.ToolRequired || choice.Mode == engine.ToolFunction:
		for _, t := range req.Tools {
			if choice.Name == "" || choice.Name == t.Name {
				return "", []engine.ToolCall{{ID: "call_scripted", Name: t.Name, Arguments: instance(t.Parameters)}}, true
			}
		}
	case f == nil:
	case f.JSONObject:
		return "{}", nil, true
	case f.JSONSchema != nil:
		return instance(f.JSONSchema), nil, true
	case len(f.Choice) > 0:
		return f.Choice[0], nil, true
	}
	return "", nil, false
}

// instance returns a value that satisfies a plain schema: types, required properties, enumerations.
func instance(schema json.RawMessage) string {
	var s struct {
		Type       string                     `json:"type"`
		Enum       []json.RawMessage          `json:"enum"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if len(schema) > 0 && json.Unmarshal(schema, &s) != nil {
		return "{}"
	}
	switch {
	case len(s.Enum) > 0:
		return string(s.Enum[0])
	case s.Type == "string":
		return `"text"`
	case s.Type == "boolean":
		return "true"
	case s.Type == "integer" || s.Type == "number":
		return "1"
	case s.Type == "array":
		return "[]"
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) {
			key, _ := json.Marshal(name) // a string
			members = append(members, string(key)+":"+instance(s.Properties[name]))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}
