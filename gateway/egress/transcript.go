package egress

import "strings"

// transcript is what has left of an answer as its digest covers it, and as it is kept: the text of the one choice, or the texts of several with a
// zero byte between them. Behind the text of a choice come its reasoning and its refusal, if the model told them apart, and its calls, each
// name and arguments behind a zero byte. Two zero bytes and a name that no call has begin a text beside the answer.
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
