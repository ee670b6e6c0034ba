package classify

import "github.com/sluice-project/sluice/governance/classify/lexicon"

// leftSide is what stands in front of a candidate.
type leftSide struct {
	why       evidence
	bounded   bool // no Chinese character or letter stands directly before
	delimited bool // a label and a colon or the like
	crossed   bool // an ordinary word begins before and goes on into the candidate
	mayCross  bool // that has to be looked up
	suffix    bool // the cue is the end of a word for a role: 人, 员
	weak      bool // the cue is a particle such as 是 or 和
	strong    bool // the label is one of names and of nothing else
	size      int  // length of the cue if it ends directly before
}

func (l *leftSide) cued() bool { return l.why.any(labelBefore | titled | cueBefore) }

// left looks at what stands before the start.
func (n *namer) left() *leftSide {
	if !n.known {
		n.known = true
		n.side = n.lookLeft()
	}
	return &n.side
}

func (n *namer) lookLeft() (l leftSide) {
	w, i := n.w, n.start
	before := w.at(i - 1)
	l.bounded = !isHan(before) && !isAlnum(before)
	n.neighbour(&l)
	j, colon := n.skipLeft()
	if j == i && isHan(before) {
		l.mayCross = true
	} else if j == i-1 && before == ' ' && i >= 2 && isHan(w.at(i-2)) {
		pair := [2]rune{w.at(i - 2), w.at(i)}
		l.crossed = lexicon.Ordinary(pair[:]) == 2
	}
	if j > 0 && isHan(w.at(j-1)) {
		n.cueLeft(&l, j, j < i, colon)
	} else if j > 0 && j < i && isAlnum(w.at(j-1)) && n.t.key(w, j) {
		l.why |= labelBefore
		l.delimited = true
	}
	return l
}

// neighbour looks for a name that ends just before.
func (n *namer) neighbour(l *leftSide) {
	w := n.w
	if w.named.end == w.named.start || n.start-w.named.end > 3 || n.start < w.named.end {
		return
	}
	for k := w.named.end; k < n.start; k++ {
		switch w.cells[k].r {
		case '、', '和', '与', '及', '/', '&', '|', '\t':
			l.why |= cueBefore
		case ' ', ',', ';':
			l.why |= nearby
		default:
			l.why &^= cueBefore | nearby
			return
		}
	}
	if w.named.end == n.start {
		l.why |= cueBefore
		l.weak = true
	}
}

// isApart knows what may stand between a cue and a name.
func isApart(r rune) bool {
	switch r {
	case ':', '=', '|', '\t', '"', '>', ' ', '\'', '(', ')', '[', ']', '“', '‘', '「', '『', '【', '】', '”', '_', '-', '*', '<', '\\', '→', '\n':
		return true
	}
	return false
}

// skipLeft goes back over quotes, blanks, brackets and colons; colon tells that a label may end there.
func (n *namer) skipLeft() (j int, colon bool) {
	for j = n.start; j > 0 && n.start-j < 8; j-- {
		r := n.w.cells[j-1].r
		switch {
		case r == ':', r == '=', r == '|', r == '\t', r == '"', r == '>':
			colon = true
		case !isApart(r), r == '\n' && colon:
			return j, colon
		}
	}
	return j, colon
}

// cueLeft looks for the longest cue that ends at j. apart: something stands between it and the name.
func (n *namer) cueLeft(l *leftSide, j int, apart, colon bool) {
	size, c := n.t.before(n.w, j)
	if r := n.w.at(j - 1); c&(isLabel|isRole) == 0 && (r == '是' || r == '为' || r == '叫' || r == '系' || r == '即') {
		if s, k := n.t.before(n.w, j-1); k&isLabel != 0 {
			size, c = s, k
		}
	}
	switch {
	case c&isLabel != 0 && !apart && c&isStrong == 0:
		l.why |= titled
	case c&isLabel != 0 && (colon || !apart || c&isStrong != 0 || n.w.at(j) == ' ' || n.w.at(j) == ')'):
		l.why |= labelBefore
		l.delimited = apart
		l.strong = c&isStrong != 0
	case c&isRole != 0 && (colon || !apart || n.w.at(j) == ' ' || n.w.at(j) == '(' || n.w.at(j) == '“' || n.w.at(j) == ')'):
		l.why |= titled
	case !apart && (n.w.at(j-1) == '号' || n.w.at(j-1) == '床') && isDigit(n.w.at(j-2)):
		l.why |= cueBefore
		l.mayCross = false
		return
	case c&isWeak != 0 && !apart:
		l.why |= cueBefore
		l.weak = true
	case c&isVerb != 0 && (!apart || n.w.at(j) == '“' || n.w.at(j) == '"'):
		l.why |= cueBefore
	case colon && c&isSuffix != 0 && isHan(n.w.at(j-2)):
		l.why |= titled
		l.delimited = true
	case !apart && c&isSuffix != 0 && isHan(n.w.at(j-2)):
		l.why |= cueBefore
		l.suffix = true
	default:
		return
	}
	if size >= 2 {
		l.crossed, l.mayCross = false, false
	}
	if !apart {
		l.size = size
	}
}

// crossed reports whether an ordinary word begins up to three characters before and does not end before the start.
func (n *namer) crossed() bool {
	l := n.left()
	if l.mayCross {
		l.crossed, l.mayCross = n.cross(), false
	}
	return l.crossed
}

func (n *namer) cross() bool {
	for s := n.start - 1; s >= max(0, n.start-3) && isHan(n.w.cells[s].r); s-- {
		if size := n.wordAt(s); s+size > n.start && size >= 2 {
			return true
		}
	}
	return false
}

// fixedAt returns the length of the fixed term or label at the start, or 0.
func (n *namer) fixedAt() (size int, label bool) {
	if n.t.first(n.w.cells[n.start].r)&beginsFixed == 0 {
		return 0, false
	}
	size, c := n.t.longest(n.t.fixed, n, n.start)
	if c == 0 || size < 2 {
		return 0, false
	}
	return size, c&isLabel != 0
}

// terms finds the fixed term at the start, once.
func (n *namer) terms() {
	if !n.looked {
		n.looked = true
		n.fixed, n.label = n.fixedAt()
	}
}

// wordAt returns the length of the longest ordinary word of up to four characters that begins at k, or 0.
func (n *namer) wordAt(k int) int {
	if uint(k) >= uint(len(n.w.cells)) {
		return n.findWord(k)
	}
	known, start := &n.w.words[k%len(n.w.words)], n.w.cells[k].start
	if known.cell != k+1 || known.start != start {
		was := n.open
		n.open = false
		size := n.findWord(k)
		if n.open {
			return size
		}
		n.open = was
		*known = knownWord{cell: k + 1, start: start, size: size}
	}
	return known.size
}

// knownWord is what wordAt found at a cell.
type knownWord struct{ cell, start, size int }

func (n *namer) findWord(k int) int {
	var r [4]rune
	size := 0
	for size < len(r) {
		c := n.cell(k + size)
		if !isHan(c) {
			break
		}
		r[size] = c
		size++
	}
	if size < 2 {
		return 0
	}
	return lexicon.Ordinary(r[:size])
}
