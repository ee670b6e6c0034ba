package egress

import (
	"errors"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/jsontext"
)

// call is a call on its way out.
type call struct {
	name, maskedName string
	args             arguments
}

// releaseCalls releases the new parts of an event's calls, and what is left of all of them at the end of a choice.
func (a *Answer) releaseCalls(ev *engine.Event, out *outgoing) error {
	c := &a.choices[ev.Choice]
	for _, d := range ev.Calls {
		c.withhold() // entries of its tokens spell what is no text of the answer
		first := d.Index == len(c.calls)
		if first {
			begun := &call{args: arguments{open: func() Release { return a.cfg.Open(Arguments) }}}
			c.calls = append(c.calls, begun)
			var err error
			if begun.name, begun.maskedName, err = a.name(d.Name); err != nil {
				return err
			}
			if d.ID, err = a.id(ev.Choice, d); err != nil {
				return err
			}
			d.Name = begun.name
		} else {
			d.ID, d.Name = "", ""
		}
		if d.Index < 0 || d.Index >= len(c.calls) {
			return a.engineFault(errors.New("the engine sent a part of a call that has not begun"))
		}
		args := &c.calls[d.Index].args
		var err error
		if d.Arguments, err = args.write(d.Arguments); err != nil {
			return a.engineFault(err)
		}
		if first || d.Arguments != "" {
			out.join(d, args.masked)
		}
	}
	if ev.Finish == engine.FinishNone {
		return nil
	}
	for i, begun := range c.calls {
		rest, err := begun.args.close(ev.Finish != engine.FinishTools)
		if err != nil {
			return a.engineFault(err)
		}
		if rest != "" {
			out.join(engine.ToolDelta{Index: i, Arguments: rest}, begun.args.masked)
		}
	}
	return nil
}

// join adds a part of a call. Clients expect at most one part of a call in an event: those of OpenAI take the second one in the first
// event for another call.
func (l *outgoing) join(d engine.ToolDelta, masked string) {
	for i := range l.Calls {
		if l.Calls[i].Index == d.Index {
			l.Calls[i].Arguments += d.Arguments
			l.arguments[i] += masked
			return
		}
	}
	l.Calls, l.arguments = append(l.Calls, d), append(l.arguments, masked)
}

// name lets the name of a call out: one that the caller has offered as it is, another one like an answer.
func (a *Answer) name(name string) (shown, masked string, err error) {
	if name == "" {
		return "", "", a.engineFault(errors.New("the engine sent a call without a name"))
	}
	if slices.Contains(a.cfg.Tools, name) {
		return name, name, nil
	}
	return ReleaseWhole(a.cfg.Open(Word), name)
}

// id returns the id of a call if it is one, else an id of ours: no text, no long number, nothing that the rules would change.
func (a *Answer) id(choice int, d engine.ToolDelta) (string, error) {
	const joints = "-_.:"
	odd := strings.Trim(d.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"+joints)
	if d.ID != "" && len(d.ID) <= maxCallID && odd == "" && !longNumber(strings.NewReplacer("-", "", "_", "", ".", "", ":", "").Replace(d.ID)) {
		shown, _, err := ReleaseWhole(a.cfg.Open(Word), d.ID)
		if err != nil || shown == d.ID {
			return shown, err
		}
	}
	return a.cfg.CallID(choice, d.Index), nil
}

// longNumber reports whether digits follow each other that may be somebody's number.
func longNumber(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			n = 0
		} else if n++; n > jsontext.MaxPlain {
			return true
		}
	}
	return false
}

// maxCallID bounds the ids of calls.
const maxCallID = 64
