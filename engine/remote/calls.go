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
	told  int             // bytes of args
}

// take returns what the parts add. A call is told of once its name and the calls before it are known.
func (cs *calls) take(parts []openai.ToolCall) []engine.ToolDelta {
	for i := range parts {
		p := &parts[i]
		c := cs.find(p)
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
	}
	var out []engine.ToolDelta
	for at, c := range *cs {
		if c.name == "" {
			break
		}
		d := engine.ToolDelta{Index: at, Arguments: c.args.String()[c.told:]}
		c.told = c.args.Len()
		if !c.begun {
			if d.ID, d.Name = c.id, c.name; c.id == "" {
				d.ID = fmt.Sprintf("call_%d", at)
			}
		} else if d.Arguments == "" {
			continue
		}
		c.begun = true
		out = append(out, d)
	}
	return out
}

// find returns the call that a part belongs to, a new one perhaps.
func (cs *calls) find(p *openai.ToolCall) *call {
	last := len(*cs) - 1
	for at := last; at >= 0; at-- {
		c := (*cs)[at]
		same := at == last // without an index, parts belong to the last call
		if p.Index != nil && c.index != nil {
			same = *p.Index == *c.index
		}
		if p.ID != "" && p.ID == c.id || same && !c.other(p) {
			return c
		}
	}
	c := &call{index: p.Index}
	*cs = append(*cs, c)
	return c
}

// other reports whether a part in the place of c is of another call: by its id, by its name once arguments have come, or because
// the arguments of c are complete and others come.
func (c *call) other(p *openai.ToolCall) bool {
	switch {
	case p.ID != "" && c.id != "":
		return p.ID != c.id
	case p.Function.Name == "" || c.name == "" || c.args.Len() == 0:
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
