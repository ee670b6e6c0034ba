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
	offered := eachTool(f, c, "function.name", tool)
	c.ParallelTools = parallelTools(f)
	c.ToolChoice = toolChoice(f, offered)
}

// eachTool decodes the tools of a request, each by itself, and returns their names. name is where a tool has its own.
func eachTool(f *fields, c *gateway.Call, name string, decode func(*fields) engine.Tool) map[string]bool {
	items, _ := f.list("tools")
	if len(items) > maxTools {
		f.invalid("tools", fault.Say("value.item_count", maxTools))
	}
	offered := map[string]bool{}
	for i, raw := range items {
		item := f.item("tools", i, raw)
		t := decode(item)
		if offered[t.Name] {
			item.invalid(name, fault.Say("httpapi.used_twice"))
		}
		offered[t.Name] = true
		c.Tools = append(c.Tools, t)
		if f.join(item); f.err != nil {
			break
		}
	}
	return offered
}

// parallelTools decodes whether the model may make several calls; it may unless the caller says no.
func parallelTools(f *fields) bool {
	_, said := f.raw("parallel_tool_calls")
	return !said || f.flag("parallel_tool_calls")
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
	out := flatTool(fn, "parameters", maxNameBytes)
	t.join(fn)
	return out
}

// flatTool decodes a function whose members are f's own, with its schema in a field and a name of at most limit bytes.
func flatTool(f *fields, schema string, limit int) engine.Tool {
	out := engine.Tool{Name: functionName(f, limit), Parameters: parameters(f, schema), Strict: f.flag("strict")}
	out.Description, _ = f.text("description")
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
func functionName(f *fields, limit int) string {
	name := f.needText("name")
	if len(name) > limit || strings.Trim(name, nameLetters) != "" {
		f.invalid("name", fault.Say("httpapi.function_name", limit))
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
	if raw[0] == '"' {
		return toolMode(f, offered)
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
	name := namedTool(fn, offered)
	choice.join(fn)
	f.join(choice)
	needsTools(f, offered)
	return engine.ToolChoice{Mode: engine.ToolFunction, Name: name}
}

// toolMode decodes a choice that names no tool.
func toolMode(f *fields, offered map[string]bool) engine.ToolChoice {
	mode, _ := f.text("tool_choice")
	switch engine.ToolMode(mode) {
	case engine.ToolAuto, engine.ToolNone:
	case engine.ToolRequired:
		needsTools(f, offered)
	default:
		f.invalid("tool_choice", fault.Say("httpapi.tool_choice"))
	}
	return engine.ToolChoice{Mode: engine.ToolMode(mode)}
}

// namedTool decodes the name of one of the tools.
func namedTool(f *fields, offered map[string]bool) string {
	name := f.needText("name")
	if f.err == nil && !offered[name] {
		f.invalid("name", fault.Say("httpapi.unknown_tool"))
	}
	return name
}

func needsTools(f *fields, offered map[string]bool) {
	if len(offered) == 0 {
		f.invalid("tool_choice", fault.Say("httpapi.needs_tools"))
	}
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
	call := engine.ToolCall{ID: itemID(item, "id")}
	if kind, ok := item.text("type"); ok && kind != "function" {
		item.unsupported("type", fault.Say("httpapi.functions_only"))
	}
	fn, ok := item.object("function")
	if !ok {
		item.fail(fault.CodeMissing, "function")
	}
	call.Name = functionName(fn, maxNameBytes)
	call.Arguments = arguments(fn)
	item.join(fn)
	return call
}

// arguments decodes those of a call: the text of an object.
func arguments(f *fields) string {
	text, ok := f.text("arguments")
	if !ok {
		f.fail(fault.CodeMissing, "arguments")
	}
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if f.err == nil && !isObject(text) {
		f.invalid("arguments", fault.Say("httpapi.arguments"))
	}
	return text
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	_, err := rawjson.Check(text, schemaDepth)
	return err == nil && rawjson.Trim(text)[0] == '{'
}
