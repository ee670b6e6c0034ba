package compliance

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

//go:embed matrix.yaml
var matrixFile []byte

// Text is a text of the matrix in both languages.
type Text struct {
	EN string `yaml:"en"`
	ZH string `yaml:"zh"`
}

// In returns the text in a language.
func (t Text) In(l message.Lang) string {
	if l == message.Chinese {
		return t.ZH
	}
	return t.EN
}

// Matrix joins what laws and standards demand to what this program does about it: each clause to controls, and each control to the tests that hold it and to
// a question that a running installation answers. The wording of duties is ours, and short: a matrix is no legal advice.
type Matrix struct {
	Sources  []Source  `yaml:"sources"`
	Controls []Control `yaml:"controls"`
}

// Source is a law or a standard.
type Source struct {
	ID   string `yaml:"id"`
	Name Text   `yaml:"name"`
	// Note says how the numbers of its clauses are known, where they were not read in the text itself; both languages empty otherwise.
	Note    Text     `yaml:"note"`
	Clauses []Clause `yaml:"clauses"`
}

// Clause is a duty of a source.
type Clause struct {
	At   Text `yaml:"at"` // where in the source
	Duty Text `yaml:"duty"`
	// Controls are ids. What is asked of the clause is asked of all of them.
	Controls []string `yaml:"controls"`
	// Operator is what only whoever operates the installation can do; both languages empty where the controls are all.
	Operator Text `yaml:"operator"`
}

// Control is something that the program does.
type Control struct {
	ID   string `yaml:"id"`
	Name Text   `yaml:"name"`
	// Remedy says what to do where it does not hold.
	Remedy Text     `yaml:"remedy"`
	Tests  []string `yaml:"tests"`
	Page   string   `yaml:"page"` // of the console, where its evidence is
}

// ReadMatrix returns the matrix of this release.
func ReadMatrix() (Matrix, error) { return parseMatrix(matrixFile) }

func parseMatrix(file []byte) (m Matrix, err error) {
	d := yaml.NewDecoder(bytes.NewReader(file))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		return Matrix{}, fmt.Errorf("read the compliance matrix: %w", err)
	}
	if err := m.check(); err != nil {
		return Matrix{}, fmt.Errorf("the compliance matrix: %w", err)
	}
	return m, nil
}

// check refuses a matrix in which something leads nowhere, or is missing in a language.
func (m Matrix) check() error {
	known, used := map[string]bool{}, map[string]bool{}
	both := func(where string, t Text) error {
		if t.EN == "" || t.ZH == "" {
			return fmt.Errorf("%s is missing in a language", where)
		}
		return nil
	}
	for _, c := range m.Controls {
		switch {
		case c.ID == "" || known[c.ID]:
			return fmt.Errorf("the control %q is there twice, or has no id", c.ID)
		case len(c.Tests) == 0:
			return fmt.Errorf("no test holds the control %q", c.ID)
		}
		known[c.ID] = true
		if err := errors.Join(both("the name of "+c.ID, c.Name), both("the remedy of "+c.ID, c.Remedy)); err != nil {
			return err
		}
	}
	sources := map[string]bool{}
	for _, s := range m.Sources {
		if s.ID == "" || sources[s.ID] || len(s.Clauses) == 0 {
			return fmt.Errorf("the source %q is there twice, or has no clause or no id", s.ID)
		}
		sources[s.ID] = true
		if err := both("the name of "+s.ID, s.Name); err != nil {
			return err
		}
		for _, c := range s.Clauses {
			where := s.ID + " " + c.At.EN
			if err := errors.Join(both("the place of "+where, c.At), both("the duty of "+where, c.Duty)); err != nil {
				return err
			}
			if (c.Operator.EN == "") != (c.Operator.ZH == "") || len(c.Controls) == 0 && c.Operator.EN == "" {
				return fmt.Errorf("nobody does anything about %s, or it is missing in a language", where)
			}
			for _, id := range c.Controls {
				if !known[id] {
					return fmt.Errorf("%s names the control %q, which is none", where, id)
				}
				used[id] = true
			}
		}
	}
	for id := range known {
		if !used[id] {
			return fmt.Errorf("no clause has the control %q", id)
		}
	}
	return nil
}

// State is how a control, or a clause, stands.
type State string

// The states, from the worst to the best. A clause is as its worst control is.
const (
	Broken   State = "broken"   // it is on, and does not do what it should
	Unknown  State = "unknown"  // it could not be asked
	Off      State = "off"      // nobody has switched it on, or set it up
	Partly   State = "partly"   // for a part of what it is for
	Built    State = "built"    // the program is made so: its tests hold it, and there is nothing to ask
	Holds    State = "holds"    //
	Operator State = "operator" // only the operator can do it; of clauses
)

func rank(s State) int {
	return slices.Index([]State{Broken, Unknown, Off, Partly, Built, Holds, Operator}, s)
}

// Fact is a figure or a setting that an answer rests on.
type Fact struct {
	Name  message.Phrase
	Value string
}

// Answer is what an installation says of a control.
type Answer struct {
	State State
	Facts []Fact
}

// Stands is the answer of what is set up or not, and does what it should or not.
func Stands(setUp, well bool, facts ...Fact) Answer {
	a := Answer{State: Holds, Facts: facts}
	switch {
	case !setUp:
		a.State = Off
	case !well:
		a.State = Broken
	}
	return a
}

// StandsFor is the answer of what a part of all has.
func StandsFor(part, all int, facts ...Fact) Answer {
	a := Stands(part > 0, true, facts...)
	if part > 0 && part < all {
		a.State = Partly
	}
	return a
}

// none stands where there is no value.
const none = "–"

// Words is a fact in words, or names; "" is shown as none.
func Words(name message.Phrase, value string) Fact { return Fact{name, cmp.Or(value, none)} }

// Figure is a number.
func Figure(name message.Phrase, n int64) Fact { return Fact{name, report.Count(n)} }

// Part is a part of all.
func Part(name message.Phrase, part, all int) Fact {
	return Fact{name, fmt.Sprintf("%d / %d", part, all)}
}

// Moment is a time; the zero one is shown as none.
func Moment(name message.Phrase, t time.Time) Fact {
	if t.IsZero() {
		return Fact{name, none}
	}
	return Fact{name, t.UTC().Format(time.RFC3339)}
}

// Setting is whether something is so.
func Setting(name message.Phrase, yes bool) Fact {
	if yes {
		return Fact{name, "✓"}
	}
	return Fact{name, none}
}

// Probe asks the installation about a control. An error means that it could not be asked.
type Probe func(ctx context.Context) (Answer, error)

// probeTimeout bounds the questions, and atOnce how many are asked at a time. Whoever looks may do so because something hangs.
const (
	probeTimeout = 5 * time.Second
	atOnce       = 4
)

// Evaluation is a matrix with the answers of one moment.
type Evaluation struct {
	Matrix  Matrix
	Time    time.Time
	Answers map[string]Answer // of every control
}

// Evaluate asks all controls. A control without a probe, one that panics, and one that has not answered after five seconds together with all others, is
// [Unknown]; nobody waits for it any longer.
func (m Matrix) Evaluate(ctx context.Context, probes map[string]Probe, now time.Time) Evaluation {
	e := Evaluation{Matrix: m, Time: now.UTC(), Answers: map[string]Answer{}}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	type said struct {
		id string
		Answer
	}
	answers, turns := make(chan said, len(m.Controls)), make(chan struct{}, atOnce)
	asked := 0
	for _, c := range m.Controls {
		e.Answers[c.ID] = Answer{State: Unknown}
		if probe := probes[c.ID]; probe != nil {
			asked++
			go func() { answers <- said{c.ID, ask(ctx, turns, probe)} }()
		}
	}
	for range asked {
		select {
		case a := <-answers:
			e.Answers[a.id] = a.Answer
		case <-ctx.Done():
			return e
		}
	}
	return e
}

// ask asks one control when it is its turn.
func ask(ctx context.Context, turns chan struct{}, probe Probe) (a Answer) {
	defer func() {
		if recover() != nil { // it is its own probe's, and no reason to end the server
			a = Answer{State: Unknown}
		}
	}()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return Answer{State: Unknown}
	}
	a, err := probe(ctx)
	if err != nil || rank(a.State) < 0 || a.State == Operator {
		return Answer{State: Unknown}
	}
	return a
}

// Of returns how a clause stands.
func (e Evaluation) Of(c Clause) State {
	if len(c.Controls) == 0 {
		return Operator
	}
	states := make([]State, 0, len(c.Controls))
	for _, id := range c.Controls {
		states = append(states, e.Answers[id].State)
	}
	return slices.MinFunc(states, func(a, b State) int { return cmp.Compare(rank(a), rank(b)) })
}

// Counts returns how many clauses stand how.
func (e Evaluation) Counts() map[State]int {
	out := map[State]int{}
	for _, s := range e.Matrix.Sources {
		for _, c := range s.Clauses {
			out[e.Of(c)]++
		}
	}
	return out
}

// StateName is what a state is called.
func StateName(s State) message.Phrase {
	return map[State]message.Phrase{
		Broken: message.Say("compliance.state_broken"), Unknown: message.Say("compliance.state_unknown"), Off: message.Say("compliance.state_off"),
		Partly: message.Say("compliance.state_partly"), Built: message.Say("compliance.state_built"), Holds: message.Say("compliance.state_holds"), Operator: message.Say("compliance.state_operator"),
	}[s]
}

// Document is the report of an evaluation of a tenant, by an installation whose log is issuer.
func (e Evaluation) Document(l message.Lang, issuer, tenant, program string) report.Document {
	in := inLanguage(l)
	counts := e.Counts()
	all := 0
	for _, n := range counts {
		all += n
	}
	well := counts[Holds] + counts[Built]
	verdict := report.Verdict{Outcome: report.Passed, Text: in(message.Say("compliance.matrix_passed", well, all, counts[Operator]))}
	if short := all - well - counts[Operator]; short > 0 {
		verdict = report.Verdict{Outcome: report.Failed, Text: in(message.Say("compliance.matrix_failed", short, all, well, counts[Operator]))}
	}
	d := report.Document{
		Lang: l, Title: in(message.Say("compliance.matrix_title")), Subject: in(message.Say("compliance.matrix_about", tenant)), Issuer: issuer, Created: e.Time,
		Footer: in(message.Say("compliance.matrix_evaluated", e.Time.Format(time.RFC3339))),
	}
	d.Body = []report.Block{
		verdict,
		report.Fields{
			{Name: in(message.Say("compliance.log")), Value: issuer},
			{Name: in(message.Say("compliance.matrix_tenant")), Value: tenant},
			{Name: in(message.Say("compliance.matrix_time")), Value: e.Time.Format(time.RFC3339)},
			{Name: in(message.Say("compliance.program")), Value: program},
		},
		report.Paragraph(in(message.Say("compliance.matrix_meaning"))),
	}
	for _, s := range e.Matrix.Sources {
		d.Body = append(d.Body, report.Heading{Level: 1, Text: s.Name.In(l)})
		if note := s.Note.In(l); note != "" {
			d.Body = append(d.Body, report.Paragraph(note))
		}
		t := report.Table{Columns: []report.Column{
			{Title: in(message.Say("compliance.clause"))}, {Title: in(message.Say("compliance.duty"))}, {Title: in(message.Say("compliance.controls"))}, {Title: in(message.Say("compliance.state"))},
		}}
		for _, c := range s.Clauses {
			var what []string
			for _, id := range c.Controls {
				what = append(what, e.Matrix.control(id).Name.In(l))
			}
			if by := c.Operator.In(l); by != "" {
				what = append(what, in(message.Say("compliance.by_operator", by)))
			}
			t.Rows = append(t.Rows, []string{c.At.In(l), c.Duty.In(l), strings.Join(what, in(message.Say("compliance.between"))), in(StateName(e.Of(c)))})
		}
		d.Body = append(d.Body, t)
	}
	d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("compliance.controls"))})
	for _, c := range e.Matrix.Controls {
		a := e.Answers[c.ID]
		fields := report.Fields{{Name: in(message.Say("compliance.state")), Value: in(StateName(a.State))}}
		for _, f := range a.Facts {
			fields = append(fields, report.Field{Name: in(f.Name), Value: f.Value})
		}
		if a.State != Holds && a.State != Built {
			fields = append(fields, report.Field{Name: in(message.Say("compliance.remedy")), Value: c.Remedy.In(l)})
		}
		fields = append(fields, report.Field{Name: in(message.Say("compliance.tests")), Value: strings.Join(c.Tests, " ")})
		d.Body = append(d.Body, report.Heading{Level: 2, Text: c.Name.In(l)}, fields)
	}
	return d
}

// control returns one by its id, which is known.
func (m Matrix) control(id string) Control {
	return m.Controls[slices.IndexFunc(m.Controls, func(c Control) bool { return c.ID == id })]
}
