package egress

import "strings"

// transcript is the released part of an answer in the form that its digest covers and the content store records: the texts of the choices with
// a zero byte between them. After the text of a choice come its reasoning and refusal, if any, and its calls: name and arguments, each after a
// zero byte. Two zero bytes and a reserved name start reasoning or refusal.
type transcript []transcriptChoice

type transcriptChoice struct {
	text      strings.Builder
	sideTexts [sideTextCount]strings.Builder
	calls     []*transcriptCall
}

type transcriptCall struct {
	name      string
	arguments strings.Builder
}

// call adds a part of a call, which begins with its name.
func (c *transcriptChoice) call(index int, name, arguments string) {
	if index == len(c.calls) {
		c.calls = append(c.calls, &transcriptCall{name: name})
	}
	c.calls[index].arguments.WriteString(arguments)
}

func (s transcript) String() string {
	var out strings.Builder
	for i := range s {
		if i > 0 {
			out.WriteByte(0)
		}
		c := &s[i]
		out.WriteString(c.text.String())
		for k, name := range [sideTextCount]string{reasoning: "reasoning", refusal: "refusal"} {
			if c.sideTexts[k].Len() > 0 {
				out.WriteString("\x00\x00" + name + "\x00" + c.sideTexts[k].String())
			}
		}
		for _, call := range c.calls {
			out.WriteString("\x00" + call.name + "\x00" + call.arguments.String())
		}
	}
	return out.String()
}
