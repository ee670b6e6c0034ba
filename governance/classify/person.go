package classify

// person finds names of people: Chinese ones by surname, given name and what stands around them; forms such as 张先生, 小李 and 王某;
// transcribed names with a middle dot or behind a label.
//
// It looks at most 24 cells to the left and about eight behind the name, so a candidate is decided soon. The candidates of two to
// four characters that begin at one place are compared and the best one is scored.
func person(w *window, i int) (match, verdict) {
	t := w.nameTables()
	first := t.first(w.cells[i].r)
	before := w.at(i - 1)
	bounded := !isHan(before)
	if i < w.named.end || first&mayBegin == 0 && (!bounded || before == edge || !isApart(before)) {
		return match{}, no
	}
	if first&mayBegin == mayTranscribe && !bounded {
		switch r := w.at(i + 1); {
		case r == unknown:
			return match{}, open
		case r != '·' && t.first(r)&inTranscript == 0:
			return match{}, no
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

	looked      bool // the words at the start are known
	word, fixed int  // length of the longest word there, and of the fixed term
	label       bool // the fixed term is a label itself
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
	if first&mayNick != 0 {
		if m, ok := n.nick(); ok || n.open {
			return m, ok
		}
	}
	if first&(isSurname|mayCompound) != 0 && n.hopeful(first) {
		if m, ok := n.named(first); n.open || ok && m.score() >= threshold {
			return m, ok
		}
	}
	if bounded || first&mayTranscribe != 0 {
		return n.foreign()
	}
	return match{}, false
}

// hopeful tells most ordinary text from names at the price of two lookups.
func (n *namer) hopeful(first rank) bool {
	r := n.cell(n.start + 1)
	switch {
	case n.open:
		return true
	case !isHan(r):
		return r == ' ' || r == '\n' || isHidden(r) || n.left().cued()
	case first&mayCompound != 0 || r == '某':
		return true
	}
	a := n.t.at(r)
	if a.given == 0 && a.rank&beginsCue == 0 {
		return n.left().why.any(labelBefore | titled)
	}
	n.words()
	if n.open || n.word < 2 {
		return true
	}
	if n.word == 2 && a.given > 0 && n.t.given(n.cell(n.start+2))+int(a.given) > 4 {
		return true
	}
	before := n.w.at(n.start - 1)
	if isHan(before) && n.t.first(before)&endsCue == 0 && n.w.named.end != n.start {
		return false
	}
	left := n.left()
	return left.why.any(labelBefore|titled) || left.cued() && !left.weak
}

// named looks for a surname and what may stand behind it.
func (n *namer) named(first rank) (match, bool) {
	long := 0 // length of a compound surname
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
	var best candidate
	var l lattice
	filled := false
	for _, size := range [2]int{long, 1} {
		if size == 0 || size == 1 && first&isSurname == 0 {
			continue
		}
		if m, ok := n.formal(size); ok || n.open {
			return m, ok
		}
		if !filled {
			filled = true
			if l.fill(n); n.open {
				return match{}, false
			}
		}
		c, ok := n.best(&l, size)
		if n.open {
			return match{}, false
		}
		if ok && (best.m.end == 0 || c.odds > best.odds) {
			best = c
		}
		if ok && size == 2 && c.m.score() >= threshold {
			break
		}
	}
	if first&isSurname != 0 && (best.m.end == 0 || best.m.score() < threshold) {
		if next := n.cell(n.start + max(long, 1)); !isHan(next) && !n.open {
			if m, ok := n.alone(max(long, 1)); ok || n.open {
				return m, ok
			}
		}
	}
	return best.m, best.m.end != 0
}

// candidate is a name of a certain length.
type candidate struct {
	m    match
	odds int // in hundredths of a logit above what is enough
}

// best compares the lengths of a name whose surname has size characters.
func (n *namer) best(l *lattice, size int) (best candidate, ok bool) {
	var h hanRun
	n.gather(&h, 6)
	if n.open && h.n <= size {
		return best, false
	}
	for total := size + 1; total <= min(size+2, h.n); total++ {
		c, fits := n.judge(l, &h, size, total)
		if n.open {
			return best, false
		}
		if fits && (!ok || c.odds > best.odds) {
			best, ok = c, true
		}
	}
	if size == 1 && h.n >= 4 && n.t.surname(h.r[1]) >= tierCommon {
		c, fits := n.judge(l, &h, 2, 4) // the surname of the husband before one's own
		if fits && !n.open && c.m.why.any(labelBefore|titled) && (!ok || c.odds > best.odds) {
			return c, true
		}
	}
	return best, ok
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
		if r == unknown && h.n < 3 {
			n.open = true
		}
		return
	}
}

// joined reports whether the blanks in the first total characters can be inside one name: no part of it reads as a name or a cue of its own.
func (n *namer) joined(h *hanRun, size, total int) bool {
	parts, wide := 1, false
	for k := 1; k < total; k++ {
		if h.blanks[k] {
			parts++
			wide = wide || h.at[k]-h.at[k-1] > 2
		}
	}
	if parts == 1 {
		return true
	}
	next := n.cell(h.at[total-1] + 1)
	single := parts == total && !isHan(next)
	left := n.left()
	if wide && !single {
		return false
	}
	for k := 1; k < total; k++ {
		if !h.blanks[k] {
			continue
		}
		if n.t.given(h.r[k]) == 0 && !single {
			return false
		}
		if _, c := n.t.behind(n, h.at[k]); c != 0 && !single || n.open {
			return false
		}
		if k == total-1 && !single && (n.nameAt(h.at[k]) || isHan(next) && n.wordAt(h.at[k]) >= 2) {
			return false
		}
		if k < total-1 && n.wordAt(h.at[k]) >= 2 && !n.t.isGiven(h, size, total) && !n.typicalPair(h, size) {
			return false
		}
	}
	return single || left.bounded || left.why.any(labelBefore|titled|cueBefore)
}
