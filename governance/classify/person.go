package classify

import "slices"

// person finds names of people: Chinese ones by surname, given name and what stands around them; forms such as 张先生, 小李 and 王某;
// transcribed names with a middle dot or behind a label.
//
// It looks at most 24 cells to the left and about eight behind the name, so a candidate is decided soon. The candidates of two to
// four characters that begin at one place are compared and the best one is scored.
func person(w *window, i int) (match, verdict) {
	t := w.nameTables()
	first := t.cell(&w.cells[i]).rank
	before := w.at(i - 1)
	bounded := !isHan(before)
	if i < w.named.end || first&mayBegin == 0 && (!bounded || before == edge || !isApart(before)) {
		return match{}, no
	}
	if !bounded && first&mayTranscribe != 0 { // what begins a part may that, too
		switch r := w.at(i + 1); {
		case r == unknown:
			return match{}, open
		case r == '·', t.first(r)&inTranscript != 0, isBlank(r) && first&mayBegin != mayTranscribe: // a transcription goes on
		default:
			first &^= mayTranscribe | mayPart
			if first&mayBegin == 0 {
				return match{}, no
			}
		}
	}
	n := namer{w: w, t: t, start: i}
	m, found := n.find(first, bounded)
	switch {
	case n.open:
		return match{}, open
	case !found || m.score() < almost:
		return match{}, no
	}
	return m, yes
}

// almost is the score from which a candidate is worth explaining.
const almost = 0.3

// span is a stretch of cells.
type span struct{ start, end int }

// namer looks at the candidates that begin at one cell.
type namer struct {
	w     *window
	t     *tables
	start int
	open  bool // it looked at a cell that has not arrived
	side  leftSide
	known bool // side is filled

	looked bool // the fixed term is known
	fixed  int  // its length
	label  bool // it is a label itself
}

// cell returns the rune at k; not arrived, the answer is open.
func (n *namer) cell(k int) rune {
	r := n.w.at(k)
	if r == unknown {
		n.open = true
	}
	return r
}

func (n *namer) find(first rank, bounded bool) (match, bool) {
	if first&mayTranscribe != 0 || bounded && n.left().why.any(labelBefore|titled) {
		if m, ok := n.dotted(first); ok || n.open {
			return m, ok
		}
	}
	if first&mayPart != 0 {
		if m, ok := n.native(); ok && m.score() >= threshold || n.open {
			return m, ok
		}
	}
	if first&(isSurname|mayCompound|mayNick) != 0 && n.goesOn() && !n.plain() {
		if m, ok := n.named(first); n.open || ok && m.score() >= threshold {
			return m, ok
		}
	}
	if bounded || first&mayTranscribe != 0 {
		return n.foreign()
	}
	return match{}, false
}

// goesOn reports whether more than the surname may stand here, or a cue announces it alone.
func (n *namer) goesOn() bool {
	r := n.cell(n.start + 1)
	return n.open || isHan(r) || r == ' ' || r == '\n' || isHidden(r) || n.left().cued()
}

// named looks for a surname and what may stand behind it.
func (n *namer) named(first rank) (match, bool) {
	long := 1 // length of the surname
	if first&mayCompound != 0 {
		next := n.cell(n.start + 1)
		if next == ' ' || next == '\n' {
			next = n.cell(n.start + 2)
		}
		if n.t.compound(n.w.cells[n.start].r, next) != 0 {
			long = 2
		}
		if n.open {
			return match{}, false
		}
	}
	for size := long; size > 0 && (size == 2 || first&isSurname != 0); size-- {
		if m, ok := n.formal(size); ok || n.open {
			return m, ok
		}
	}
	best, found := n.best()
	if n.open || found && best.m.score() >= threshold {
		return best.m, found
	}
	if first&isSurname != 0 {
		if next := n.cell(n.start + long); !isHan(next) && !n.open {
			if m, ok := n.alone(long); ok || n.open {
				return m, ok
			}
		}
	}
	return best.m, found
}

// candidate is a name of a certain length.
type candidate struct {
	m    match
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
		r := n.w.at(k)
		if isHan(r) {
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
			if n.open || !isHan(n.cell(next)) {
				return
			}
			h.blanks[h.n] = true
			k = next
			continue
		}
		if r == unknown && (h.n < 3 || h.n == 3 && n.t.compound(h.r[0], h.r[1]) != 0 || slices.Contains(h.blanks[:h.n], true)) { // behind a blank nothing else asks for more
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
	return !wide || parts == total && !isHan(n.cell(h.at[total-1]+1))
}
