// Package finding is what the detectors of all kinds share. A detector gives a [Candidate], the evidence for it and a verdict to the [Decision] on a
// place of the text; the decision keeps those whose evidence is enough. Labels and other words around a value are evidence for every kind.
package finding

import "github.com/sluice-project/sluice/governance/classify/text"

// Candidate is a value that may be one of a kind. Start and End are cells of the window.
type Candidate struct {
	Kind       Kind
	Start, End int
	Form       float64 // what it scores by its form alone
	Evidence   Evidence
	Title      int  // cells of a title behind it: they say that this is a name, and are none of it
	More       *Run // the value goes on behind end
	Block      bool // a PEM block
}

// Score is how sure the detector is, in [0, 1].
func (m Candidate) Score() float64 { return Weigh(m.Form, m.Evidence) }

// Why says why it was found.
func (m Candidate) Why() Why { return Why{m.Form, m.Evidence} }

// Run says what belongs to the rest of an over-long value.
type Run struct {
	Kind Kind
	In   func(rune) bool // nil: until the end mark of a PEM block
}

// Decision collects the answers of the detectors at one cell.
type Decision struct {
	On       Kinds
	Triggers Triggers
	Found    []Candidate
	Open     bool
}

// Ask takes a detector's verdict on a candidate.
func (d *Decision) Ask(m Candidate, v text.Verdict) {
	if v != text.No { // most answers are no, and cost no call
		d.take(m, v)
	}
}

func (d *Decision) take(m Candidate, v text.Verdict) {
	if v == text.Open {
		d.Open = true
	}
	if v == text.Yes && m.Score() >= Threshold {
		d.Found = append(d.Found, m)
	}
}

// Asks reports whether the detector of a kind has to be asked.
func (d *Decision) Asks(k Kind, b Triggers) bool { return d.Triggers&b != 0 && d.On.Has(k) }

// Triggers is what may begin at a cell, judged by its rune and the one before: bits of the detectors that have to be asked there. It may say
// too much and never too little, so it saves time and decides nothing.
type Triggers uint32

// What may begin.
const (
	TriggerCode   Triggers = 1 << iota // numbers and codes, of digits or of letters and digits
	TriggerSecret                      // credentials by words or what they begin with
	TriggerLogin                       // credentials that a sign stands in
	TriggerName
	TriggerAddress
	TriggerIPv4
	TriggerIPv6
	TriggerEmail
	TriggerCrypto
	TriggerWeChat
	TriggerKey    // a private key
	TriggerBase64 // a run of base64
	TriggerCompany
)
