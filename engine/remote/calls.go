package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
)

// calls are the tool calls of one choice so far, put in order. Servers differ: some leave out the index or repeat 0 for every call,
// some leave out ids, some repeat the name in every part.
type calls []*call

type call struct {
	index *int   // the upstream's
	id    string // the upstream's
	name  string
	args  strings.Builder // so far
	begun bool            // told to the consumer
}

// take returns what the parts add.
func (cs *calls) take(parts []openai.ToolCall) []engine.ToolDelta {
	var out []engine.ToolDelta
	for i := range parts {
		p := &parts[i]
		at := cs.find(p)
		c := (*cs)[at]
		if c.id == "" {
			c.id = p.ID
		}
		if c.name == "" {
			c.name = p.Function.Name
		}
		args := string(p.Function.Arguments)
		if c.args.Len() == 0 && strings.TrimSpace(args) == "null" { // no arguments, spelled oddly
			args = ""
		}
		c.args.WriteString(args)
		switch {
		case c.name == "":
		case !c.begun:
			out = append(out, c.begin(at))
		case args != "":
			out = append(out, engine.ToolDelta{Index: at, Arguments: args})
		}
	}
	return out
}

// begin tells of a call, with the arguments that have come.
func (c *call) begin(at int) engine.ToolDelta {
	c.begun = true
	id := c.id
	if id == "" {
		id = fmt.Sprintf("call_%d", at)
	}
	return engine.ToolDelta{Index: at, ID: id, Name: c.name, Arguments: c.args.String()}
}

// find returns the place of the call that a part belongs to, a new one perhaps.
func (cs *calls) find(p *openai.ToolCall) int {
	last := len(*cs) - 1
	for at := last; at >= 0; at-- {
		c := (*cs)[at]
		same := at == last // without an index, parts belong to the last call
		if p.Index != nil && c.index != nil {
			same = *p.Index == *c.index
		}
		if p.ID != "" && p.ID == c.id || same && !c.other(p) {
			return at
		}
	}
	*cs = append(*cs, &call{index: p.Index})
	return last + 1
}

// other reports whether a part in the place of c is of another call: by its id, by its name once arguments have come, or because
// the arguments of c are complete and others come.
func (c *call) other(p *openai.ToolCall) bool {
	switch {
	case p.ID != "" && c.id != "":
		return p.ID != c.id
	case p.Function.Name == "" || c.args.Len() == 0:
		return false
	case p.Function.Name != c.name:
		return true
	}
	return p.Index == nil && strings.TrimSpace(string(p.Function.Arguments)) != "" && json.Valid([]byte(c.args.String()))
}

// end checks that every call was told.
func (cs *calls) end() error {
	for _, c := range *cs {
		if !c.begun {
			return errors.New("the upstream sent a call without a name")
		}
	}
	return nil
}
