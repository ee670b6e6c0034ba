// Package person finds names of people: Chinese ones by surname, given name and the words around, which a fitted model weighs; forms such as 张先生
// and 王某; transcribed names; names in Latin letters.
package person

import (
	"slices"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// Detector finds the names of people.
type Detector struct {
	finding.Window
	names  *tables      // set when first asked for
	named  text.Stretch // the last name found, with its title
	recent recentNames
	words  [8]knownWord // ordinary words that names were held against
	costs  [16]knownCosts
	around lattice // of the start being looked at; its n is 0 until it is filled
}

// nameTables returns the tables of names.
func (w *Detector) nameTables() *tables {
	if w.names == nil {
		w.names = nameTables()
	}
	return w.names
}

// Accept is told of every candidate that is taken.
func (w *Detector) Accept(m finding.Candidate) {
	if m.Kind == finding.Person {
		w.named = w.Stretch(m.Start, m.End+m.Title)
		w.recent.add(w.Cells(m.Start, m.End))
	}
}

// prior returns the last name found.
func (w *Detector) prior() text.Span { return w.Span(w.named) }

// Detect looks for the name that begins at place i.
func (w *Detector) Detect(d *finding.Decision, i int) {
	switch {
	case !d.On.Has(finding.Person):
	case w.At(i) < 0x80:
		d.Ask(latin(w, i))
	default:
		d.Ask(person(w, i))
	}
}

// Triggers says what may begin with r behind left.
func Triggers(r, left rune) finding.Triggers {
	if r < 0x80 && text.IsLetter(r) && !text.IsAlnum(left) && left != '_' && left != '@' && left != '/' || text.IsHan(r) && (!text.IsHan(left) || nameTables().first(r)&mayBegin != 0) {
		return finding.TriggerName
	}
	return 0
}

// person finds names of people: Chinese ones by surname, given name and what stands around them; forms such as 张先生, 小李 and 王某;
// transcribed names with a middle dot or behind a label.
//
// It looks at most 24 cells to the left and about eight behind the name, so a candidate is decided soon. The candidates of two to
// four characters that begin at one place are compared and the best one is scored.
func person(w *Detector, i int) (finding.Candidate, text.Verdict) {
	t := w.nameTables()
	first := t.cell(w.Cell(i)).rank
	before, prior := w.At(i-1), w.prior()
	bounded := !text.IsHan(before)
	if i < prior.End || first&mayBegin == 0 && (!bounded || before == text.Edge || !isApart(before)) {
		return finding.Candidate{}, text.No
	}
	if !bounded && first&mayTranscribe != 0 { // what begins a part may that, too
		switch r := w.At(i + 1); {
		case r == text.Unknown:
			return finding.Candidate{}, text.Open
		case r == '·', t.first(r)&inTranscript != 0, text.IsBlank(r) && first&mayBegin != mayTranscribe: // a transcription goes on
		default:
			first &^= mayTranscribe | mayPart
			if first&mayBegin == 0 {
				return finding.Candidate{}, text.No
			}
		}
	}
	n := namer{w: w, t: t, start: i, prior: prior}
	m, found := n.find(first, bounded)
	switch {
	case n.open:
		return finding.Candidate{}, text.Open
	case !found || m.Score() < almost:
		return finding.Candidate{}, text.No
	}
	return m, text.Yes
}

// almost is the score from which a candidate is worth explaining.
const almost = 0.3

// namer looks at the candidates that begin at one cell.
type namer struct {
	w           *Detector
	t           *tables
	start       int
	prior       text.Span // the last name found before
	open        bool      // it looked at a cell that has not arrived
	context     precedingContext
	contextRead bool // side is filled

	termRead bool // the fixed term is known
	fixed    int  // its length
	label    bool // it is a label itself
}

// cell returns the rune at k; not arrived, the answer is open.
func (n *namer) cell(k int) rune {
	r := n.w.At(k)
	if r == text.Unknown {
		n.open = true
	}
	return r
}

func (n *namer) find(first rank, bounded bool) (finding.Candidate, bool) {
	if first&mayTranscribe != 0 || bounded && n.preceding().why.Any(finding.LabelBefore|finding.Titled) {
		if m, ok := n.dotted(first); ok || n.open {
			return m, ok
		}
	}
	if first&mayPart != 0 {
		if m, ok := n.native(); ok && m.Score() >= finding.Threshold || n.open {
			return m, ok
		}
	}
	if first&(isSurname|mayCompound|mayNick) != 0 && n.goesOn() && !n.plain() {
		if m, ok := n.named(first); n.open || ok && m.Score() >= finding.Threshold {
			return m, ok
		}
	}
	if bounded || first&mayTranscribe != 0 {
		return n.foreign()
	}
	return finding.Candidate{}, false
}

// goesOn reports whether more than the surname may stand here, or a cue announces it alone.
func (n *namer) goesOn() bool {
	r := n.cell(n.start + 1)
	return n.open || text.IsHan(r) || r == ' ' || r == '\n' || isHidden(r) || n.preceding().cued()
}

// named looks for a surname and what may stand behind it.
func (n *namer) named(first rank) (finding.Candidate, bool) {
	long := 1 // length of the surname
	if first&mayCompound != 0 {
		next := n.cell(n.start + 1)
		if next == ' ' || next == '\n' {
			next = n.cell(n.start + 2)
		}
		if n.t.compound(n.w.At(n.start), next) != 0 {
			long = 2
		}
		if n.open {
			return finding.Candidate{}, false
		}
	}
	for size := long; size > 0 && (size == 2 || first&isSurname != 0); size-- {
		if m, ok := n.formal(size); ok || n.open {
			return m, ok
		}
	}
	best, found := n.best()
	if n.open || found && best.m.Score() >= finding.Threshold {
		return best.m, found
	}
	if first&isSurname != 0 {
		if next := n.cell(n.start + long); !text.IsHan(next) && !n.open {
			if m, ok := n.surnameOnly(long); ok || n.open {
				return m, ok
			}
		}
	}
	return best.m, found
}

// candidate is a name of a certain length.
type candidate struct {
	m    finding.Candidate
	odds int // in hundredths of a logit above what is enough
}

// best returns the likeliest candidate at the start.
func (n *namer) best() (best candidate, ok bool) {
	var h hanRun
	var room [8]shape
	found := n.shapes(&h, room[:0])
	if n.open || len(found) == 0 {
		return best, false
	}
	n.w.around.n = 0
	for i := range found {
		c, fits := n.judge(&h, &found[i])
		if fits && (!ok || c.odds > best.odds) {
			best, ok = c, true
		}
	}
	return best, ok && !n.open
}

// hanRun is a row of Chinese characters, blanks between them left out.
type hanRun struct {
	r      [6]rune
	at     [6]int
	n      int
	blanks [6]bool // blanks stand before this one
}

// gather reads up to most Chinese characters from the start. Blanks end the row unless a name of single characters may stand apart, as in
// 张 三, or a scanner has put one into the name.
func (n *namer) gather(h *hanRun, most int) {
	k := n.start
	for h.n < most {
		r := n.w.At(k)
		if text.IsHan(r) {
			h.r[h.n], h.at[h.n] = r, k
			h.n++
			k++
			continue
		}
		if (r == ' ' || r == '\n') && h.n < 4 {
			next := k + 1
			for next < k+4 && n.cell(next) == ' ' {
				next++
			}
			if n.open || !text.IsHan(n.cell(next)) {
				return
			}
			h.blanks[h.n] = true
			k = next
			continue
		}
		if r == text.Unknown && (h.n < 3 || h.n == 3 && n.t.compound(h.r[0], h.r[1]) != 0 || slices.Contains(h.blanks[:h.n], true)) { // behind a blank nothing else asks for more
			n.open = true
		}
		return
	}
}

// joined reports whether the blanks in the first total characters can be inside one name: wide ones only between single characters.
func (n *namer) joined(h *hanRun, total int) bool {
	parts, wide := 1, false
	for k := 1; k < total; k++ {
		if h.blanks[k] {
			parts++
			wide = wide || h.at[k]-h.at[k-1] > 2
		}
	}
	return !wide || parts == total && !text.IsHan(n.cell(h.at[total-1]+1))
}
