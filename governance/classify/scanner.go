package classify

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const (
	maxUnion = 20000 // characters of overlapping findings
	leftKept = 48    // cells kept left of the scan position
)

// Segment is a stretch of the original text: plain when Class is empty, else a finding. Value is the finding in canonical form:
// two spellings of one number have one Value. Text and Value are the sensitive text itself: they must not be logged.
type Segment struct {
	Class Class
	Also  []Class // of findings that overlapped and scored less; the range is the union of all
	Text  string
	Value string
	Start int // byte offset of Text in the whole text
	Score float64
	Why   Why
}

// Scanner finds sensitive values in text that arrives in pieces. It belongs to one goroutine.
//
// What it remembers are places in the text, which stay what they are when the front of the window is dropped.
type Scanner struct {
	set *Set
	w   finding.Buffer
	detectors
	state

	found   []match          // decided, not given back; by start
	here    finding.Decision // on the place that is being looked at
	machine machine
	out     []Segment
	bare    bool // nobody asks for canonical forms
	silent  bool // nor for text: what has become cells is forgotten
}

// state is how far a scanner is.
type state struct {
	pos text.Place // of the first cell not decided yet

	buf  string // original text not given back yet
	base int    // offset of buf in the whole text
	used int    // bytes of buf that have become cells

	run   *finding.Run // a value longer than one piece, or nil
	runAt text.Place   // where its next piece begins

	again text.Place   // where a long run of base64 is looked into again
	until []text.Place // up to which the last values of a tenant's classes go
	given int          // offset behind the last finding, where silent
}

func newScanner() *Scanner {
	s := new(Scanner)
	s.link()
	s.detectors.reset()
	return s
}

// Scanner returns a scanner at the beginning of a text.
func (s *Set) Scanner() *Scanner {
	sc, _ := s.spare.Get().(*Scanner)
	sc.set, sc.bare, sc.silent = s, false, false
	return sc
}

// Done gives the scanner back for other texts, with nothing of this one in it. It must not be used afterwards.
func (s *Scanner) Done() {
	spare := s.set.spare
	s.reset()
	const most = 256
	if cap(s.out) > most || cap(s.found) > most || cap(s.here.Found) > most { // a long text has left it with more than others need
		s.out, s.found, s.here.Found = nil, nil, nil
	}
	clear(s.out[:cap(s.out)])
	clear(s.found[:cap(s.found)])
	s.set = nil // whoever uses it all the same fails, and scans nothing
	spare.Put(s)
}

// Counter returns a scanner for those who only count: its segments are findings, with neither text nor value, and it holds nothing of the text as it was written.
func (s *Set) Counter() *Scanner {
	sc := s.Scanner()
	sc.bare, sc.silent = true, true
	return sc
}

// maxPiece bounds how much of a text is looked at in one go, and with it memory and how far anything looks back; where the cut falls makes no
// difference.
const maxPiece = 8 << 10

// Write takes the next piece of the text and returns what is decided now, until the next call. Pieces may cut anywhere, also inside a rune.
func (s *Scanner) Write(text string) []Segment {
	s.out = s.out[:0]
	for len(text) > maxPiece {
		s.out = s.advance(s.out, text[:maxPiece], false)
		text = text[maxPiece:]
	}
	s.out = s.advance(s.out, text, false)
	return s.out
}

// Close returns the rest. The scanner is at the beginning of a new text afterwards.
func (s *Scanner) Close() []Segment {
	out := s.advance(nil, "", true)
	s.reset()
	return out
}

// reset goes to the beginning of a new text. It keeps room that was made, for cells unless that is large.
func (s *Scanner) reset() {
	s.w.Reset()
	s.detectors.reset()
	s.state, s.machine = state{}, machine{}
	s.found, s.here, s.out = s.found[:0], finding.Decision{Found: s.here.Found[:0]}, s.out[:0]
}

// Held returns how many characters wait for more text.
func (s *Scanner) Held() int { return utf8.RuneCountInString(s.buf) }

// advance adds to out what is decided with more text.
func (s *Scanner) advance(out []Segment, text string, final bool) []Segment {
	s.buf += text
	if s.used += s.w.Read(s.buf[s.used:], s.base+s.used, final); s.silent {
		s.buf, s.base, s.used = s.buf[s.used:], s.base+s.used, 0
	}
	s.show(s.w.View())
	s.scan()
	out = s.release(out)
	if final && !s.silent && len(s.buf) > 0 {
		out = append(out, Segment{Text: s.buf, Start: s.base}) // characters that vanished in normalisation
		s.base, s.buf, s.used = s.base+len(s.buf), "", 0
	}
	return out
}

// scan decides cell after cell until one is open.
func (s *Scanner) scan() {
	for i := s.w.Index(s.pos); i < s.w.End(); i = s.w.Index(s.pos) {
		if s.run != nil && s.pos >= s.runAt {
			if !s.extend(i) {
				return
			}
			continue
		}
		var may finding.Triggers
		if s.run != nil {
			may = s.triggersAt(i)
		} else if may, i = s.pass(i); i == s.w.End() {
			s.pos = s.w.Place(i)
			return
		}
		s.pos = s.w.Place(i)
		found, v := s.at(i, may)
		if v == text.Open {
			return
		}
		for _, m := range found {
			s.add(m)
			if m.Kind >= finding.Count && m.Evidence&finding.Listed == 0 {
				s.until[m.Kind-finding.Count] = s.w.Place(m.End)
			}
			s.accounts.Accept(m)
			s.people.Accept(m)
			s.secrets.Accept(m)
			if m.More != nil && s.run == nil {
				s.run, s.runAt = m.More, s.w.Place(m.End)
			}
		}
		s.pos++
	}
}

// match is a candidate that is a finding.
type match struct {
	finding.Candidate
	text.Stretch
}

func (s *Scanner) add(c finding.Candidate) {
	if s.leaves(c) {
		return
	}
	m := match{c, s.w.Stretch(c.Start, c.End)}
	i, _ := slices.BinarySearchFunc(s.found, m, func(a, b match) int { return cmp.Or(cmp.Compare(a.Stretch.Start, b.Stretch.Start), -1) }) // behind equals
	s.found = slices.Insert(s.found, i, m)
}

// extend takes the next piece of an over-long value, which goes on at cell i; false means more text is needed.
func (s *Scanner) extend(i int) bool {
	r := s.run
	end, last, v := s.secrets.Piece(i, r)
	if v == text.Open {
		return false
	}
	if end > i {
		s.add(finding.Candidate{Kind: r.Kind, Start: i, End: end, Form: 0.9})
	}
	s.pos = s.w.Place(end)
	s.runAt = s.pos
	if last {
		s.run = nil
	}
	return true
}

// release gives back everything left of the first open cell, except a union of findings that an open candidate could still join.
func (s *Scanner) release(out []Segment) []Segment {
	from, found := s.base, s.found
	if s.silent {
		from = s.given
	}
	for len(s.found) > 0 {
		m, also, n, closed := s.union()
		if !closed && m.Stretch.End > s.pos {
			break
		}
		at := s.w.Span(m.Stretch)
		start, end := s.w.Cell(at.Start).Start, s.w.Cell(at.End-1).End()
		start = max(start, from) // two unions may share a rune that normalised into several cells
		if end <= start {
			s.found = s.found[n:]
			continue
		}
		if s.silent {
			out = append(out, Segment{Class: s.set.class(m.Kind), Start: start, Score: m.Score(), Why: m.Why()})
			from = end
			s.found = s.found[n:]
			continue
		}
		if start > from {
			out = append(out, Segment{Text: s.text(from, start), Start: from})
		}
		seg := Segment{Class: s.set.class(m.Kind), Text: s.text(start, end), Start: start, Score: m.Score(), Why: m.Why()}
		if !s.bare {
			seg.Also, seg.Value = s.set.classes(also, m.Kind), canonical(m.Kind, s.w.Cells(at.Start, at.End))
		}
		out = append(out, seg)
		from = end
		s.found = s.found[n:]
	}
	s.found = append(found[:0], s.found...)
	cut := s.w.Index(s.pos)
	if len(s.found) > 0 {
		cut = min(cut, s.w.Index(s.found[0].Stretch.Start))
	}
	if s.silent {
		s.given = from
		s.forget(s.base, cut)
		return out
	}
	to := s.base + s.used
	if start, ok := s.w.Staged(); ok {
		to = start
	}
	if cut < s.w.End() {
		to = s.w.Cell(cut).Start
	}
	if to > from {
		out = append(out, Segment{Text: s.text(from, to), Start: from})
		from = to
	}
	s.forget(from, cut)
	return out
}

// union merges the findings that overlap the first one; n is how many it took, and also are their kinds if there are several. closed
// means that it is at its limit and ends there, whatever follows.
func (s *Scanner) union() (m match, also []finding.Kind, n int, closed bool) {
	m = s.found[0]
	for n = 1; n < len(s.found) && s.found[n].Stretch.Start < m.Stretch.End; n++ {
		next := &s.found[n]
		if next.Stretch.End-m.Stretch.Start > maxUnion {
			next.Stretch.Start = m.Stretch.End
			if next.Stretch.End > next.Stretch.Start {
				return m, also, n, true
			}
			continue
		}
		if next.Kind != m.Kind {
			also = append(also, m.Kind, next.Kind)
		}
		if next.Rank() > m.Rank() {
			m.Kind, m.Form, m.Evidence = next.Kind, next.Form, next.Evidence
		}
		m.Stretch.End = max(m.Stretch.End, next.Stretch.End)
	}
	return m, also, n, false
}

// classes returns the classes of kinds, each once, without that of best.
func (s *Set) classes(kinds []finding.Kind, best finding.Kind) []Class {
	var out []Class
	for _, k := range kinds {
		if c := s.class(k); k != best && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

func (s *Scanner) text(from, to int) string { return s.buf[from-s.base : to-s.base] }

// forget drops text before offset from and cells no decision will look at again.
func (s *Scanner) forget(from, cut int) {
	if n := from - s.base; n > 0 {
		s.buf, s.base, s.used = s.buf[n:], from, s.used-n // with the next piece it becomes a text of its own
	}
	s.w.Forget(cut - leftKept)
}

// pass goes on from cell i to the next one where anything may begin, and returns what.
func (s *Scanner) pass(i int) (finding.Triggers, int) {
	if s.ownTriggers() != 0 {
		return s.triggersAt(i), i
	}
	end, table := s.w.End(), s.triggers()
	left := s.w.At(i - 1)
	companies, again := s.set.on.Has(finding.Company), s.w.Index(s.again)
	for ; i < end; i++ {
		c := s.w.Cell(i)
		if may := table.of(c, left); may != 0 || companies && s.companies.MayBegin(i) || i == again {
			if may = s.correct(i, may); may != 0 {
				return may, i
			}
		}
		left = c.R
	}
	return 0, i
}

// own is what classes of a tenant and known values begin with: any character.
const own finding.Triggers = 1 << 31

// triggersAt returns what may begin at cell i.
func (s *Scanner) triggersAt(i int) finding.Triggers {
	return s.correct(i, s.triggers().of(s.w.Cell(i), s.w.At(i-1))|s.ownTriggers())
}

// correct corrects what may begin at cell i by what was seen before it.
func (s *Scanner) correct(i int, may finding.Triggers) finding.Triggers {
	if s.addresses.Excludes(i) {
		may &^= finding.TriggerAddress
	}
	if s.w.Place(i) == s.again && i > 0 {
		may |= finding.TriggerBase64
	}
	if may &^= finding.TriggerCompany; s.set.on.Has(finding.Company) && s.companies.Begins(i) {
		may |= finding.TriggerCompany
	}
	return may
}

// ownTriggers is own if there are such classes or values.
func (s *Scanner) ownTriggers() finding.Triggers {
	if len(s.set.custom) > 0 || s.set.known != nil {
		return own
	}
	return 0
}

// at runs the detectors that may begin at cell i.
func (s *Scanner) at(i int, may finding.Triggers) ([]finding.Candidate, text.Verdict) {
	w := &s.w
	r := w.At(i)
	d := &s.here
	d.On, d.Triggers, d.Found, d.Open = s.set.on, may, d.Found[:0], false
	switch {
	case r < 0x80:
		if may&finding.TriggerEmail != 0 {
			d.Triggers = s.refine(i, may)
		}
		s.ask(s.ascii[:], i)
	case text.IsHan(r):
		s.ask(s.han[:], i)
	default:
		s.ask(s.signs[:], i)
	}
	if may&own != 0 {
		s.custom(d, i)
	}
	again := 0
	if may&finding.TriggerBase64 != 0 && !s.set.inner {
		start, ok := runBase64(&w.Window, i)
		if s.w.Place(i) == s.again && i > 0 && text.IsBase64(r) {
			start, ok = i, true
		}
		if ok {
			m, next, v := encoded(&w.Window, start, i, s.set)
			again = next
			d.Ask(m, v)
		}
	}
	if d.Open {
		return nil, text.Open
	}
	if again > 0 {
		s.again = s.w.Place(again)
	}
	return d.Found, text.No
}

// ask asks the detectors for which something may begin at place i.
func (s *Scanner) ask(of []step, i int) {
	d := &s.here
	for n := range of {
		if d.Triggers&of[n].triggers != 0 {
			of[n].Detect(d, i)
		}
	}
}
