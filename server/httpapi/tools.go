package httpapi

import (
	"encoding/json"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// tools decodes what a chat may call.
func tools(f *fields, c *gateway.Call) {
	useTools := fault.Say("httpapi.use_tools")
	if list, ok := f.list("functions"); ok && len(list) > 0 {
		f.unsupported("functions", useTools)
	}
	if raw, ok := f.raw("function_call"); ok && raw != `"none"` && raw != `"auto"` {
		f.unsupported("function_call", useTools)
	}
	items, _ := f.list("tools")
	if len(items) > maxTools {
		f.invalid("tools", fault.Say("value.item_count", maxTools))
	}
	seen := map[string]bool{}
	for i, raw := range items {
		item := f.item("tools", i, raw)
		t := tool(item)
		if seen[t.Name] {
			item.invalid("function.name", fault.Say("httpapi.used_twice"))
		}
		seen[t.Name] = true
		c.Tools = append(c.Tools, t)
		f.join(item)
		if f.err != nil {
			return
		}
	}
	c.ParallelTools = true
	if _, ok := f.raw("parallel_tool_calls"); ok {
		c.ParallelTools = f.flag("parallel_tool_calls")
	}
	c.ToolChoice = toolChoice(f, seen)
}

func tool(t *fields) engine.Tool {
	if kind := t.needText("type"); kind != "function" {
		t.unsupported("type", fault.Say("httpapi.functions_only"))
	}
	fn, ok := t.object("function")
	if !ok {
		t.fail(fault.CodeMissing, "function")
		return engine.Tool{}
	}
	out := engine.Tool{Name: functionName(fn, "name", maxNameBytes), Parameters: parameters(fn, "parameters"), Strict: fn.flag("strict")}
	out.Description, _ = fn.text("description")
	t.join(fn)
	return out
}

// parameters decodes the schema of a function's arguments, which are an object.
func parameters(f *fields, field string) json.RawMessage {
	out := schemaOf(f, field)
	if out == nil {
		return nil
	}
	p, _ := f.object(field)
	if kind, ok := p.raw("type"); ok && kind != `"object"` {
		p.invalid("type", fault.Say("httpapi.parameters_object"))
	}
	f.join(p)
	return out
}

// functionName reads the name of a function or a schema, of at most limit bytes.
func functionName(f *fields, field string, limit int) string {
	name := f.needText(field)
	if len(name) > limit || strings.Trim(name, nameLetters) != "" {
		f.invalid(field, fault.Say("httpapi.function_name", limit))
	}
	return name
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// toolChoice decodes whether tools are called.
func toolChoice(f *fields, offered map[string]bool) engine.ToolChoice {
	raw, ok := f.raw("tool_choice")
	if !ok {
		return engine.ToolChoice{}
	}
	needs := func() {
		if len(offered) == 0 {
			f.invalid("tool_choice", fault.Say("httpapi.needs_tools"))
		}
	}
	if raw[0] == '"' {
		switch mode, _ := f.text("tool_choice"); engine.ToolMode(mode) {
		case engine.ToolAuto, engine.ToolNone:
			return engine.ToolChoice{Mode: engine.ToolMode(mode)}
		case engine.ToolRequired:
			needs()
			return engine.ToolChoice{Mode: engine.ToolRequired}
		default:
			f.invalid("tool_choice", fault.Say("httpapi.tool_choice"))
			return engine.ToolChoice{}
		}
	}
	choice, ok := f.members("tool_choice", fault.Say("type.string_or_object"))
	if !ok {
		return engine.ToolChoice{}
	}
	if kind := choice.needText("type"); kind != "function" {
		choice.unsupported("type", fault.Say("httpapi.functions_only"))
	}
	fn, ok := choice.object("function")
	if !ok {
		choice.fail(fault.CodeMissing, "function")
	}
	name := fn.needText("name")
	if fn.err == nil && !offered[name] {
		fn.invalid("name", fault.Say("httpapi.unknown_tool"))
	}
	choice.join(fn)
	f.join(choice)
	needs()
	return engine.ToolChoice{Mode: engine.ToolFunction, Name: name}
}

// toolCalls decodes the calls of an earlier turn.
func toolCalls(m *fields, role string) []engine.ToolCall {
	items, _ := m.list("tool_calls")
	if len(items) > 0 && role != "assistant" {
		m.invalid("tool_calls", fault.Say("httpapi.assistant_only"))
	}
	if len(items) > maxTools {
		m.invalid("tool_calls", fault.Say("value.item_count", maxTools))
	}
	var out []engine.ToolCall
	for i, raw := range items {
		item := m.item("tool_calls", i, raw)
		out = append(out, toolCall(item))
		m.join(item)
		if m.err != nil {
			return nil
		}
	}
	return out
}

func toolCall(item *fields) engine.ToolCall {
	call := engine.ToolCall{ID: item.needText("id")}
	if len(call.ID) > maxIDBytes {
		item.invalid("id", fault.Say("value.bytes_at_most", maxIDBytes))
	}
	if kind, ok := item.text("type"); ok && kind != "function" {
		item.unsupported("type", fault.Say("httpapi.functions_only"))
	}
	fn, ok := item.object("function")
	if !ok {
		item.fail(fault.CodeMissing, "function")
	}
	call.Name = functionName(fn, "name", maxNameBytes)
	call.Arguments, ok = fn.text("arguments")
	if !ok {
		fn.fail(fault.CodeMissing, "arguments")
	}
	if strings.TrimSpace(call.Arguments) == "" {
		call.Arguments = "{}"
	}
	if fn.err == nil && !isObject(call.Arguments) {
		fn.invalid("arguments", fault.Say("httpapi.arguments"))
	}
	item.join(fn)
	return call
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	_, err := rawjson.Check(text, schemaDepth)
	return err == nil && rawjson.Trim(text)[0] == '{'
}
