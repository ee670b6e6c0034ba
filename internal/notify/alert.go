package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-project/sluice/internal/fault"
)

// Severity says how soon somebody must act.
type Severity string

// The severities, from the least to the greatest.
const (
	Info     Severity = "info"     // somebody may want to know
	Warning  Severity = "warning"  // somebody must act, today
	Critical Severity = "critical" // somebody must act, now
)

// rank orders severities; -1 is none.
func rank(s Severity) int { return slices.Index([]Severity{Info, Warning, Critical}, s) }

// Alert is one thing that people should know. Its sentences have no full stop at their end.
type Alert struct {
	Code     string // what it is, such as "audit.rewritten"; receivers match on it, so it never changes
	About    string // which one of several, such as the id of a rollout; Code and About make two alerts the same
	Severity Severity
	Resolved bool // it is over
	Title    fault.Phrase
	Text     fault.Phrase // what it means and what to do
	Details  []Detail
}

// Detail is a name, count or time that belongs to an alert.
type Detail struct {
	Name  fault.Phrase
	Value string
}

func (a Alert) key() string { return a.Code + "\x00" + a.About }

func (a Alert) status() string {
	if a.Resolved {
		return "resolved"
	}
	return "firing"
}

// message is an alert on its way out of one channel.
type message struct {
	id     string // of this alert in this channel, the same in every attempt
	at     time.Time
	source string // the installation, as people reach it
	alert  Alert
	lang   fault.Lang
}

// title begins with the product's name, so that a robot can demand that word.
func (m message) title() string {
	label := map[Severity]fault.Phrase{
		Info: fault.Say("notify.info"), Warning: fault.Say("notify.warning"), Critical: fault.Say("notify.critical"),
	}[m.alert.Severity]
	if m.alert.Resolved {
		label = fault.Say("notify.resolved")
	}
	return fmt.Sprintf(m.pick("[Sluice] [%s] %s", "【Sluice】【%s】%s"), label.In(m.lang), m.alert.Title.In(m.lang))
}

// pick returns the form of what surrounds sentences in the language of the message.
func (m message) pick(english, chinese string) string {
	if m.lang == fault.Chinese {
		return chinese
	}
	return english
}

// lines are the text and the details, each with its name.
func (m message) lines() []string {
	var out []string
	if !m.alert.Resolved {
		out = append(out, m.alert.Text.In(m.lang)+m.pick(".", "。"))
	}
	named := func(name fault.Phrase, value string) {
		out = append(out, name.In(m.lang)+m.pick(": ", "：")+value)
	}
	for _, d := range m.alert.Details {
		named(d.Name, plain(d.Value))
	}
	named(fault.Say("notify.alert"), m.alert.Code)
	named(fault.Say("notify.time"), m.at.UTC().Format(time.RFC3339))
	if m.source != "" {
		named(fault.Say("notify.installation"), m.source)
	}
	return out
}

// plain makes one short line of a value.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return cut(s, 400)
}

// cut shortens s to at most n bytes, at the end of a character.
func cut(s string, n int) string {
	const more = "…"
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len(more)], "") + more
}
