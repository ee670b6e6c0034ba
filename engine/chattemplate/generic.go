package chattemplate

import (
	"fmt"
	"regexp"
	"strings"
)

// toolsVariable is how a template that renders tools mentions them; engine/toolcall looks for the same.
var toolsVariable = regexp.MustCompile(`\btools\b`)

const (
	toolsIntro = "# Tools\n\nYou can call functions. Each line within <tools></tools> describes one in JSON:\n<tools>\n"
	toolsOutro = "</tools>\n\nTo call a function, write a JSON object with its name and its arguments within <tool_call></tool_call> tags:\n" +
		"<tool_call>\n{\"name\": <function name>, \"arguments\": <arguments object>}\n</tool_call>"
)

// generic writes tools, calls and results into the texts of a chat: what a template that does not mention tools would leave out.
func (t *Template) generic(in Input) (Input, error) {
	if toolsVariable.MatchString(t.source) || len(in.Tools) == 0 && !in.hasCalls() {
		return in, nil
	}
	messages, err := plainMessages(in.Messages)
	if err != nil {
		return in, err
	}
	instructions, err := in.instructions()
	if err != nil {
		return in, err
	}
	in.Messages, in.Tools = messages, nil
	if instructions == "" {
		return in, nil
	}
	role := "system"
	if !t.takesSystem() {
		role = "user"
	}
	if len(messages) > 0 && messages[0].Role == role {
		text := messages[0].Content + "\n\n" + instructions
		if role == "user" {
			text = instructions + "\n\n" + messages[0].Content
		}
		messages[0].Content = text
		return in, nil
	}
	in.Messages = append([]Message{{Role: role, Content: instructions}}, messages...)
	return in, nil
}

func (in Input) hasCalls() bool {
	for _, m := range in.Messages {
		if len(m.ToolCalls) > 0 {
			return true
		}
	}
	return false
}

// instructions describe the tools; they are empty if there are none.
func (in Input) instructions() (string, error) {
	if len(in.Tools) == 0 {
		return "", nil
	}
	tools, err := values{mark: same}.tools(in.Tools)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(toolsIntro)
	for _, tool := range children(value(tools)) {
		text, err := in.json(tool.Interface())
		if err != nil {
			return "", err
		}
		out.WriteString(text + "\n")
	}
	return out.String() + toolsOutro, nil
}

// json is what tojson makes of x.
func (in Input) json(x any) (string, error) {
	w := &jsonWriter{comma: ", ", colon: ": ", b: newBudget(in)}
	if err := w.value(value(x), 0); err != nil {
		return "", fmt.Errorf("chattemplate: %w", err)
	}
	return w.out.String(), nil
}

func same(s string) string { return s }

// plainMessages puts calls into the text of their turns, and results into turns of the user, who gets one turn for all of them and for
// what they say next: many templates want turns to alternate.
func plainMessages(list []Message) ([]Message, error) {
	var out []Message
	results := false // the last turn holds results
	for i, m := range list {
		m.Name = ""
		switch {
		case m.Role == "tool":
			text := "<tool_response>\n" + m.Content + "\n</tool_response>"
			if results {
				out[len(out)-1].Content += "\n" + text
				continue
			}
			m, results = Message{Role: "user", Content: text}, true
		case m.Role == "user" && results:
			out[len(out)-1].Content += "\n\n" + m.Content
			results = false
			continue
		default:
			results = false
		}
		for n, c := range m.ToolCalls {
			text, err := callText(c)
			if err != nil {
				return nil, fmt.Errorf("chattemplate: message %d: the arguments of call %d %w", i, n, err)
			}
			m.Content = strings.TrimPrefix(m.Content+"\n"+text, "\n")
		}
		m.ToolCalls, m.ToolCallID = nil, ""
		out = append(out, m)
	}
	return out, nil
}

func callText(c ToolCall) (string, error) {
	if c.Arguments == "" {
		c.Arguments = "{}"
	}
	arguments, err := values{mark: same}.object([]byte(c.Arguments))
	if err != nil {
		return "", err
	}
	in := Input{Messages: []Message{{ToolCalls: []ToolCall{c}}}} // for its size
	text, err := in.json(dict(pair("name", c.Name), pair("arguments", arguments)))
	return "<tool_call>\n" + text + "\n</tool_call>", err
}

// takesSystem says whether the template renders a system message.
func (t *Template) takesSystem() bool {
	text, err := t.renderStyle(Input{Messages: []Message{{Role: "system", Content: "probed_text"}, {Role: "user", Content: "x"}}}, callStyle{}, same, "")
	return err == nil && strings.Contains(text, "probed_text")
}
