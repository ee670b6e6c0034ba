package mask

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify"
)

// Action says what happens to a value of a class.
type Action string

// The actions.
const (
	ActionMask  Action = "mask"
	ActionBlock Action = "block"
	ActionPass  Action = "pass"  // looked for and counted, and left as it is
	ActionAllow Action = "allow" // not even looked for
)

// Leaves reports whether values stay as they are.
func (a Action) Leaves() bool { return a == ActionPass || a == ActionAllow }

// BlockedError says that a stream was stopped because of a class. It holds no value.
type BlockedError struct{ Class classify.Class }

// Error implements error.
func (e *BlockedError) Error() string { return "blocked: a value of class " + string(e.Class) }

// Egress applies the rules of the answer direction to a stream and restores pseudonyms behind them. Rules see the stream as the
// model wrote it, with pseudonyms in place of the caller's values: so values the model brings are masked, and those the caller
// sent are not masked again. It belongs to one goroutine.
type Egress struct {
	set      *classify.Set
	scanner  *classify.Scanner // nil: every class passes
	restorer *Restorer
	action   func(classify.Class) Action
	seen     func(classify.Class, Action)
	masked   string // of what was shown last
	failed   error
}

// NewEgress returns an egress at the beginning of a stream. Only classes whose action does not leave values are looked for; seen is
// told of each value found and must not be nil.
func NewEgress(set *classify.Set, v *Vault, action func(classify.Class) Action, seen func(classify.Class, Action)) *Egress {
	e := &Egress{set: set, restorer: v.Restorer(), action: action, seen: seen}
	if active := set.Only(func(c classify.Class) bool { return !action(c).Leaves() }); !active.Empty() {
		e.scanner = active.Scanner()
	}
	return e
}

// Write takes a piece of the stream and returns what may be shown now. After a *BlockedError nothing more is shown.
func (e *Egress) Write(text string) (string, error) {
	if e.failed != nil {
		return "", e.failed
	}
	e.masked = ""
	if e.scanner == nil {
		return e.restore(text), nil
	}
	return e.pass(e.scanner.Write(text))
}

// Close returns the rest.
func (e *Egress) Close() (string, error) {
	if e.failed != nil {
		return "", e.failed
	}
	e.masked = ""
	var out string
	if e.scanner != nil {
		var err error
		if out, err = e.pass(e.scanner.Close()); err != nil {
			return "", err
		}
	}
	out += e.restorer.Close()
	e.masked += e.restorer.Masked()
	return out, nil
}

// Masked returns what the last Write or Close returned, with pseudonyms where it had values of the caller's.
func (e *Egress) Masked() string { return e.masked }

func (e *Egress) restore(text string) string {
	out := e.restorer.Write(text)
	e.masked += e.restorer.Masked()
	return out
}

// Unknown returns how many pseudonyms of the stream nobody knows.
func (e *Egress) Unknown() int { return e.restorer.Unknown() }

func (e *Egress) pass(segments []classify.Segment) (string, error) {
	var out strings.Builder
	for _, s := range segments {
		if s.Class == "" {
			out.WriteString(e.restore(s.Text))
			continue
		}
		action := e.action(s.Class)
		e.seen(s.Class, action)
		switch action {
		case ActionPass, ActionAllow:
			out.WriteString(e.restore(s.Text))
		case ActionBlock:
			e.failed, e.masked = &BlockedError{Class: s.Class}, ""
			return "", e.failed
		default: // what is not known is masked
			out.WriteString(e.restore(Redacted(tagOf(e.set, s.Class))))
		}
	}
	return out.String(), nil
}

// Redacted returns what stands for a value that must not be shown, with the tag of its class. It cannot be restored.
func Redacted(tag string) string { return "〔已屏蔽:" + tag + "〕" }

// Redact replaces every value that set finds in text. What stands for it cannot be restored.
func Redact(set *classify.Set, text string) string {
	var out strings.Builder
	set.Each(text, func(s classify.Segment) {
		if s.Class == "" {
			out.WriteString(s.Text)
		} else {
			out.WriteString(Redacted(tagOf(set, s.Class)))
		}
	})
	return out.String()
}
