package mask

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
)

// BlockedError says that a stream was stopped because of a class. It holds no value.
type BlockedError struct{ Class classify.Class }

// Error implements error.
func (e *BlockedError) Error() string { return "blocked: a value of class " + string(e.Class) }

var errEnded = errors.New("mask: the stream has ended")

// Egress applies the rules of the answer direction to a stream and restores pseudonyms behind them. Rules see the stream as the
// model wrote it, with pseudonyms in place of the caller's values: so values the model brings are treated, and those the caller
// sent are not treated again. What is only counted holds nothing back. It belongs to one goroutine.
type Egress struct {
	pseudonyms *Pseudonyms
	rules      *Rules
	hiding     *classify.Scanner // nil: every class stays
	observer   *classify.Scanner // nil: none is only counted
	restorer   *Restorer
	observed   func(classify.Class, Action)
	masked     joined // of what was shown last
	failed     error
}

// NewEgress returns an egress at the beginning of a stream. observed is told of each value found and must not be nil.
func NewEgress(v *Pseudonyms, rules *Rules, observed func(classify.Class, Action)) *Egress {
	e := &Egress{pseudonyms: v, rules: rules, restorer: v.Restorer(), observed: observed}
	if !rules.hiding.Empty() {
		e.hiding = rules.hiding.Scanner()
	}
	if !rules.observing.Empty() {
		e.observer = rules.observing.Counter()
	}
	return e
}

// Write takes a piece of the stream and returns what may be shown now. After a *BlockedError nothing more is shown.
func (e *Egress) Write(text string) (string, error) {
	if e.failed != nil {
		return "", e.failed
	}
	e.masked = joined{}
	if e.observer != nil {
		e.observe(e.observer.Write(text))
	}
	if e.hiding == nil {
		return e.restore(text), nil
	}
	return e.pass(e.hiding.Write(text))
}

// Close returns the rest; nothing can be written afterwards. unsaid is what may have come next in a stream that was cut off, see
// [Restorer.Close].
func (e *Egress) Close(unsaid ...string) (string, error) {
	if e.failed != nil {
		return "", e.failed
	}
	defer e.end()
	e.masked = joined{}
	if e.observer != nil {
		e.observe(e.observer.Close())
	}
	var out string
	if e.hiding != nil {
		var err error
		if out, err = e.pass(e.hiding.Close()); err != nil {
			return "", err
		}
	}
	out += e.restorer.Close(unsaid...)
	e.masked.add(e.restorer.Masked())
	return out, nil
}

// end gives the scanners back.
func (e *Egress) end() {
	if e.observer != nil {
		e.observer.Done()
	}
	if e.hiding != nil {
		e.hiding.Done()
	}
	e.observer, e.hiding = nil, nil
	if e.failed == nil {
		e.failed = errEnded // without a scanner all would be let out
	}
}

// Masked returns what the last Write or Close returned, with pseudonyms where it had values of the caller's.
func (e *Egress) Masked() string { return e.masked.String() }

// Held returns how many characters of the stream wait for what follows.
func (e *Egress) Held() int {
	n := utf8.RuneCountInString(e.restorer.buf)
	if e.hiding != nil {
		n += e.hiding.Held()
	}
	return n
}

// Unknown returns how many pseudonyms of the stream nobody knows.
func (e *Egress) Unknown() int { return e.restorer.Unknown() }

// Torn returns how often a part of a pseudonym was left out at the end of the stream.
func (e *Egress) Torn() int { return e.restorer.Torn() }

// Restored returns how often the value of each code was put back.
func (e *Egress) Restored() map[string]int { return e.restorer.Restored() }

func (e *Egress) observe(segments []classify.Segment) {
	for _, s := range segments {
		e.observed(s.Class, ActionObserve)
	}
}

func (e *Egress) restore(text string) string {
	out := e.restorer.Write(text)
	e.masked.add(e.restorer.Masked())
	return out
}

// insert lets out what stands for a value. It is not looked at: the pseudonym of a value that the model brought stays one.
func (e *Egress) insert(text string) string {
	before := e.restorer.flush()
	e.masked.add(e.restorer.Masked())
	e.masked.add(text)
	return before + text
}

func (e *Egress) pass(segments []classify.Segment) (string, error) {
	var out joined
	for _, s := range segments {
		if s.Class == "" {
			out.add(e.restore(s.Text))
			continue
		}
		class, action := e.rules.of(s)
		e.observed(class, action)
		if action == ActionBlock {
			e.failed = &BlockedError{Class: class}
			e.masked = joined{}
			return "", e.failed
		}
		out.add(e.insert(e.pseudonyms.replacement(finding{class: class, action: action, value: s.Value}, tagOf(e.rules.hiding, class), s.Text, true)))
	}
	return out.String(), nil
}

// joined is a text made of pieces. Most have one, which is taken as it is.
type joined struct {
	first string
	rest  strings.Builder // all of them, once there are several
}

func (j *joined) add(piece string) {
	switch {
	case piece == "":
	case j.first == "":
		j.first = piece
	default:
		if j.rest.Len() == 0 {
			j.rest.WriteString(j.first)
		}
		j.rest.WriteString(piece)
	}
}

func (j *joined) String() string {
	if j.rest.Len() == 0 {
		return j.first
	}
	return j.rest.String()
}

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
