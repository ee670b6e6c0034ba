package person

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// precedingContext is what stands in front of a candidate.
type precedingContext struct {
	why       finding.Evidence
	bounded   bool // no Chinese character or letter stands directly before
	delimited bool // a label and a colon or the like
	crossed   bool // an ordinary word begins before and goes on into the candidate
	mayCross  bool // that has to be looked up
	suffix    bool // the cue is the end of a word for a role: 人, 员
	weak      bool // the cue is a particle such as 是 or 和
	strong    bool // the label is one of names and of nothing else
	size      int  // length of the cue if it ends directly before
}

func (l *precedingContext) cued() bool {
	return l.why.Any(finding.LabelBefore | finding.Titled | finding.CueBefore)
}

// preceding looks at what stands before the start.
func (n *namer) preceding() *precedingContext {
	if !n.contextRead {
		n.contextRead = true
		n.context = n.readPreceding()
	}
	return &n.context
}

func (n *namer) readPreceding() (l precedingContext) {
	w, i := n.w, n.start
	before := w.At(i - 1)
	l.bounded = !text.IsHan(before) && !text.IsAlnum(before)
	n.neighbour(&l)
	j, colon := n.skipSeparators()
	if j == i && text.IsHan(before) {
		l.mayCross = true
	} else if j == i-1 && before == ' ' && i >= 2 && text.IsHan(w.At(i-2)) {
		pair := [2]rune{w.At(i - 2), w.At(i)}
		l.crossed = lexicon.Ordinary(pair[:]) == 2
	}
	if j > 0 && text.IsHan(w.At(j-1)) {
		n.precedingCue(&l, j, j < i, colon)
	} else if j > 0 && j < i && text.IsAlnum(w.At(j-1)) && n.t.key(w, j) {
		l.why |= finding.LabelBefore
		l.delimited = true
	}
	return l
}

// neighbour looks for a name that ends just before.
func (n *namer) neighbour(l *precedingContext) {
	w := n.w
	if n.prior.End == n.prior.Start || n.start-n.prior.End > 3 || n.start < n.prior.End {
		return
	}
	for k := n.prior.End; k < n.start; k++ {
		switch w.At(k) {
		case '、', '和', '与', '及', '/', '&', '|', '\t':
			l.why |= finding.CueBefore
		case ' ', ',', ';':
			l.why |= finding.Nearby
		default:
			l.why &^= finding.CueBefore | finding.Nearby
			return
		}
	}
	if n.prior.End == n.start {
		l.why |= finding.CueBefore
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

// skipSeparators goes back over quotes, blanks, brackets and colons; colon tells that a label may end there.
func (n *namer) skipSeparators() (j int, colon bool) {
	for j = n.start; j > 0 && n.start-j < 8; j-- {
		r := n.w.At(j - 1)
		switch {
		case r == ':', r == '=', r == '|', r == '\t', r == '"', r == '>':
			colon = true
		case !isApart(r), r == '\n' && colon:
			return j, colon
		}
	}
	return j, colon
}

// precedingCue looks for the longest cue that ends at j. apart: something stands between it and the name.
func (n *namer) precedingCue(l *precedingContext, j int, apart, colon bool) {
	size, c := n.t.before(n.w, j)
	if r := n.w.At(j - 1); c&(isLabel|isRole) == 0 && (r == '是' || r == '为' || r == '叫' || r == '系' || r == '即') {
		if s, k := n.t.before(n.w, j-1); k&isLabel != 0 {
			size, c = s, k
		}
	}
	switch {
	case c&isLabel != 0 && !apart && c&isStrong == 0:
		l.why |= finding.Titled
	case c&isLabel != 0 && (colon || !apart || c&isStrong != 0 || n.w.At(j) == ' ' || n.w.At(j) == ')'):
		l.why |= finding.LabelBefore
		l.delimited = apart
		l.strong = c&isStrong != 0
	case c&isRole != 0 && (colon || !apart || n.w.At(j) == ' ' || n.w.At(j) == '(' || n.w.At(j) == '“' || n.w.At(j) == ')'):
		l.why |= finding.Titled
	case !apart && (n.w.At(j-1) == '号' || n.w.At(j-1) == '床') && text.IsDigit(n.w.At(j-2)):
		l.why |= finding.CueBefore
		l.mayCross = false
		return
	case c&isWeak != 0 && !apart:
		l.why |= finding.CueBefore
		l.weak = true
	case c&isVerb != 0 && (!apart || n.w.At(j) == '“' || n.w.At(j) == '"'):
		l.why |= finding.CueBefore
	case colon && c&isSuffix != 0 && text.IsHan(n.w.At(j-2)):
		l.why |= finding.Titled
		l.delimited = true
	case !apart && c&isSuffix != 0 && text.IsHan(n.w.At(j-2)):
		l.why |= finding.CueBefore
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
	l := n.preceding()
	if l.mayCross {
		l.crossed, l.mayCross = n.cross(), false
	}
	return l.crossed
}

func (n *namer) cross() bool {
	for s := n.start - 1; s >= max(0, n.start-3) && text.IsHan(n.w.At(s)); s-- {
		if size := n.wordAt(s); s+size > n.start && size >= 2 {
			return true
		}
	}
	return false
}

// fixedAt returns the length of the fixed term or label at the start, or 0.
func (n *namer) fixedAt() (size int, label bool) {
	if n.t.first(n.w.At(n.start))&beginsFixed == 0 {
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
	if !n.termRead {
		n.termRead = true
		n.fixed, n.label = n.fixedAt()
	}
}

// wordAt returns the length of the longest ordinary word of up to four characters that begins at k, or 0.
func (n *namer) wordAt(k int) int {
	if !n.w.Has(k) {
		return n.findWord(k)
	}
	known, behind := &n.w.words[k%len(n.w.words)], n.w.Place(k+1)
	if known.behind != behind {
		was := n.open
		n.open = false
		size := n.findWord(k)
		if n.open {
			return size
		}
		n.open = was
		*known = knownWord{behind: behind, size: size}
	}
	return known.size
}

// knownWord is what wordAt found at a cell.
type knownWord struct {
	behind text.Place // behind the cell, 0: none
	size   int
}

func (n *namer) findWord(k int) int {
	var r [4]rune
	size := 0
	for size < len(r) {
		c := n.cell(k + size)
		if !text.IsHan(c) {
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
