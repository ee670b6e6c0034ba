package egress

import "strings"

// spelling is what has left of an answer as its digest covers it, and as it is kept: the text of the one choice, or the texts of several with a
// zero byte between them. Behind the text of a choice come its reasoning and its refusal, if the model told them apart, and its calls, each
// name and arguments behind a zero byte. Two zero bytes and a name that no call has begin a text beside the answer.
type spelling []spelledChoice

type spelledChoice struct {
	text   strings.Builder
	asides [asides]strings.Builder
	calls  []*spelledCall
}

type spelledCall struct {
	name      string
	arguments strings.Builder
}

// call adds a part of a call, which begins with its name.
func (c *spelledChoice) call(index int, name, arguments string) {
	if index == len(c.calls) {
		c.calls = append(c.calls, &spelledCall{name: name})
	}
	c.calls[index].arguments.WriteString(arguments)
}

func (s spelling) String() string {
	var out strings.Builder
	for i := range s {
		if i > 0 {
			out.WriteByte(0)
		}
		c := &s[i]
		out.WriteString(c.text.String())
		for k, name := range [asides]string{reasoning: "reasoning", refusal: "refusal"} {
			if c.asides[k].Len() > 0 {
				out.WriteString("\x00\x00" + name + "\x00" + c.asides[k].String())
			}
		}
		for _, call := range c.calls {
			out.WriteString("\x00" + call.name + "\x00" + call.arguments.String())
		}
	}
	return out.String()
}
