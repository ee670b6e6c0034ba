package httpapi

import (
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// tools decodes what a chat may call.
func tools(f *fields, c *gateway.Call) {
	useTools := fault.Say("it is deprecated; use tools and tool_choice", "已弃用；请使用 tools 与 tool_choice")
	if list, ok := f.list("functions"); ok && len(list) > 0 {
		f.unsupported("functions", useTools)
	}
	if raw, ok := f.raw("function_call"); ok && raw != `"none"` && raw != `"auto"` {
		f.unsupported("function_call", useTools)
	}
	items, _ := f.list("tools")
	if len(items) > maxTools {
		f.invalid("tools", fault.Say("must have at most %d items", "最多 %d 项", maxTools))
	}
	seen := map[string]bool{}
	for i, raw := range items {
		item := f.item("tools", i, raw)
		t := tool(item)
		if seen[t.Name] {
			item.invalid("function.name", fault.Say("is used twice", "重复"))
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
		t.unsupported("type", fault.Say("only functions are", "仅支持 function"))
	}
	fn, ok := t.object("function")
	if !ok {
		t.fail(fault.CodeMissing, "function")
		return engine.Tool{}
	}
	out := engine.Tool{Name: toolName(fn, "name"), Parameters: schemaOf(fn, "parameters"), Strict: fn.flag("strict")}
	out.Description, _ = fn.text("description")
	if out.Parameters != nil {
		p, _ := fn.object("parameters")
		if kind, ok := p.raw("type"); ok && kind != `"object"` {
			p.invalid("type", fault.Say("must be 'object': arguments have names", "须为 'object'：参数以名称传递"))
		}
		fn.join(p)
	}
	t.join(fn)
	return out
}

// toolName reads the name of a function or a schema.
func toolName(f *fields, field string) string {
	name := f.needText(field)
	if len(name) > maxNameBytes || strings.Trim(name, nameLetters) != "" {
		f.invalid(field, fault.Say("must be 1 to %d letters, digits, dashes or underscores", "须为 1 至 %d 个字母、数字、短横线或下划线", maxNameBytes))
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
			f.invalid("tool_choice", fault.Say("needs tools", "需要 tools"))
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
			f.invalid("tool_choice", fault.Say("must be none, auto, required or name a function", "须为 none、auto、required 或指定函数"))
			return engine.ToolChoice{}
		}
	}
	choice, ok := f.members("tool_choice", fault.Say("a string or an object", "字符串或对象"))
	if !ok {
		return engine.ToolChoice{}
	}
	if kind := choice.needText("type"); kind != "function" {
		choice.unsupported("type", fault.Say("only functions are", "仅支持 function"))
	}
	fn, ok := choice.object("function")
	if !ok {
		choice.fail(fault.CodeMissing, "function")
	}
	name := fn.needText("name")
	if fn.err == nil && !offered[name] {
		fn.invalid("name", fault.Say("is not among the tools", "不在 tools 之中"))
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
		m.invalid("tool_calls", fault.Say("belong to the assistant's messages", "只能出现在 assistant 消息中"))
	}
	if len(items) > maxTools {
		m.invalid("tool_calls", fault.Say("must have at most %d items", "最多 %d 项", maxTools))
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
		item.invalid("id", fault.Say("must have at most %d bytes", "最多 %d 字节", maxIDBytes))
	}
	if kind, ok := item.text("type"); ok && kind != "function" {
		item.unsupported("type", fault.Say("only functions are", "仅支持 function"))
	}
	fn, ok := item.object("function")
	if !ok {
		item.fail(fault.CodeMissing, "function")
	}
	call.Name = toolName(fn, "name")
	call.Arguments, ok = fn.text("arguments")
	if !ok {
		fn.fail(fault.CodeMissing, "arguments")
	}
	if strings.TrimSpace(call.Arguments) == "" {
		call.Arguments = "{}"
	}
	if fn.err == nil && !isObject(call.Arguments) {
		fn.invalid("arguments", fault.Say("must be the text of a JSON object", "须为 JSON 对象的文本"))
	}
	item.join(fn)
	return call
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	_, err := rawjson.Check(text, schemaDepth)
	return err == nil && rawjson.Trim(text)[0] == '{'
}
