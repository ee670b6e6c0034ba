package person

import (
	"cmp"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// observer looks at one candidate at the start, and notes what it sees.
type observer struct {
	*namer
	l             *lattice
	h             *hanRun
	c             *shape
	o             observed
	contextBefore *precedingContext
	contextAfter  followingContext
	end           int  // cell behind it
	before        rune // and behind
	behind        rune
	spaced        bool // blanks stand in it
	past          int  // its end in the lattice
	held          bool // a cue ends before it: no word goes on into it
}

// observe returns what looks at a candidate, and has seen its characters and those next to it.
func (n *namer) observe(h *hanRun, c *shape) observer {
	v := observer{namer: n, l: &n.w.around, h: h, c: c, end: c.end(h), spaced: c.spaced(h)}
	v.before, v.behind = n.w.At(n.start-1), n.cell(v.end)
	kind := int(c.form)
	if c.size == 2 && c.form <= twoGiven {
		kind = 4
	}
	v.set(fName, clamp((c.cost-14)/3, 15)*5+kind)
	v.set(fFirst, int(h.r[0])-text.HanFirst+1)
	v.set(fLast, int(h.r[c.total-1])-text.HanFirst+1)
	if text.IsHan(v.before) {
		v.set(fPrev, int(v.before)-text.HanFirst+1)
	} else if j, _ := v.skipSeparators(); j > 0 && j < v.start && text.IsHan(v.w.At(j-1)) {
		v.set(fPrev, int(v.w.At(j-1))-text.HanFirst+1)
	}
	if text.IsHan(v.behind) {
		v.set(fNext, int(v.behind)-text.HanFirst+1)
	}
	return v
}

// observeNeighbours looks at the name as a word, and at what stands next to it. v.left is given: to set it here would cost an allocation.
func (v *observer) observeNeighbours() {
	v.held = v.contextBefore.size >= 2 && v.contextBefore.cued()
	v.name()
	v.edges()
}

// observeContext looks closer, at the words around, which the lattice holds.
func (v *observer) observeContext() {
	v.past = v.l.origin + v.c.total
	v.contextAfter = v.namer.following(v.end)
	v.wording()
	v.sides()
	v.surroundings()
}

func (v *observer) set(f feature, value int) {
	v.o.ids[f] = observation(clamp(value, widths[f]-1))
}

// word is the word of so many characters from the at-th of the name on.
func (v *observer) word(at, length int) lexicon.WordCost {
	if at+length > v.h.n {
		return lexicon.WordCost{}
	}
	var w [4]lexicon.WordCost
	if v.spaced {
		v.t.costs.Words(v.h.r[at:at+length], &w)
	} else {
		v.w.wordCosts(v.start+at, length, &w)
	}
	return w[length-1]
}

// howUsual tells how usual a word of so many characters of the name is, 0 if it is none.
func (v *observer) howUsual(at, length int) int {
	w := v.word(at, length)
	if w.Part == 0 {
		return 0
	}
	return 1 + clamp((int(w.Cost)-14)/3, 6)
}

// name looks at the name alone.
func (v *observer) name() {
	h, c := v.h, v.c
	surname := v.tierOf(h, c.size)
	if c.form == nickname {
		surname = v.t.surname(h.r[1])
	}
	switch {
	case c.size == 2:
		surname = 5
	case v.distinct():
		surname += 6
	case v.wordy():
		surname += 12
	}
	v.set(fSurname, surname)
	v.set(fFixed, v.fixedness(c.total))
	tier := 12
	if c.form <= twoGiven {
		low, double := v.givenTier(h, c.size, c.total)
		if double {
			low = 4
		}
		tier = low * 2
	}
	v.set(fTier, tier+int(c.form))
	if c.form == addressed {
		title := 1 + v.behindTitle(v.end+c.title)
		if c.kind&isPolite != 0 {
			title += 16
		}
		if c.title > 1 {
			title += 32
		}
		v.set(fTitle, title)
	}
	if v.spaced {
		v.set(fSpaced, v.gaps(h, c, v.behind))
	}
}

// edges looks at the words that the name and its ends are, and at the characters next to it.
func (v *observer) edges() {
	h, c := v.h, v.c
	exact := v.howUsual(0, c.total)
	v.set(fExact, exact)
	if exact > 0 && c.total > 1 {
		part := 1 + partIndex(v.word(0, c.total).Part)
		if lexicon.FullNameWord(h.r[:c.total]) == c.total {
			part += 24
		}
		if v.contextBefore.why.Any(finding.LabelBefore | finding.Titled) {
			part += 48
		}
		v.set(fPart, part)
	}
	if c.form == twoGiven {
		v.set(fGiven, v.howUsual(c.size, 2))
		v.set(fHead, v.howUsual(0, 2))
	}
	cross := 0
	switch {
	case v.before == ' ' || v.before == '\n':
		if v.isPair(v.start-2, h.r[0]) {
			cross = 2
		}
	case !v.spaced && !v.held && v.start > v.prior.End && v.isPair(v.start-1, h.r[0]):
		cross = 1
	}
	v.set(fCross, cross)
	v.set(fCueLeft, v.contextBefore.cue())
}

// wording looks at how ordinary words explain the characters of the name together with their neighbours.
func (v *observer) wording() {
	l, h, c := v.l, v.h, v.c
	ratio := -c.cost
	switch {
	case v.spaced:
		ratio += h.against(v.t.costs, c.total)
	case v.held:
		ratio += l.from[l.origin] - l.from[v.past]
	default:
		ratio += l.to[l.n] - l.to[l.origin] - l.from[v.past]
	}
	bound := 0
	if !text.IsHan(v.before) {
		bound |= 1
	}
	if !text.IsHan(v.behind) {
		bound |= 2
	}
	v.set(fRatio, (clamp(ratio/4+14, 23)*4+int(c.form))*4+bound)
	over := 0
	switch {
	case v.behind == ' ' || v.behind == '\n':
		if v.isPair(h.at[c.total-1], v.cell(v.end+1)) {
			over = 2
		}
	case !v.spaced && !v.contextAfter.strong && v.isPair(h.at[c.total-1], v.behind):
		over = 1
	}
	v.set(fOver, over)
	if size := v.wordAt(v.start); size >= 2 && v.fixed < 2 {
		v.set(fWord, 2+cmp.Compare(size, c.total))
	}
	if !v.spaced {
		sizes := 0
		if text.IsHan(v.before) {
			sizes = int(min(l.last[l.origin], 3))
		}
		if text.IsHan(v.behind) && v.past < l.n {
			sizes += 4 * int(min(l.next[v.past], 3))
		}
		v.set(fSizes, sizes)
	}
}

// sides looks at the marks, words and cues next to the name.
func (v *observer) sides() {
	l := v.l
	var a, b, ra, rb int
	switch {
	case v.prior.End == v.start && v.prior.End > v.prior.Start:
		a, ra = 62, 9
	case text.IsHan(v.before):
		w := int(l.last[l.origin])
		part := l.words[l.origin-w][w-1].Part
		a, ra = 40+partIndex(part), roughPart(part)
	default:
		a = markOf(v.before)
		ra = rough(a)
	}
	switch {
	case !text.IsHan(v.behind):
		b = markOf(v.behind)
		rb = rough(b)
	case !v.spaced && v.past < l.n:
		part := l.words[v.past][l.next[v.past]-1].Part
		b, rb = 40+partIndex(part), roughPart(part)
	default:
		b, rb = 61, 9
	}
	v.set(fLeft, a)
	v.set(fRight, b)
	v.set(fBoth, ra*14+rb)
	v.set(fCueRight, v.contextAfter.cue())
}

// surroundings looks at what stands near: numbers, other names, and the same one before.
func (v *observer) surroundings() {
	near := 0
	if v.contextAfter.why.Any(finding.Nearby) {
		near = 1
	}
	if v.spaced {
		near += 2
	}
	switch v.behind {
	case '、', ',', '/', ' ', '\n', '和', '与', '|', ';':
		if text.IsHan(v.cell(v.end+1)) && v.nameAt(v.end+1) {
			near += 4
		}
	}
	if v.w.recent.has(v.h.r[:v.c.total]) {
		near += 8
	}
	v.set(fNear, near)
	v.set(fAround, v.around())
}

// isPair reports whether the character of cell k and another one are a word.
func (n *namer) isPair(k int, second rune) bool {
	return n.w.Has(k) && n.t.pair(n.w.Cell(k), second).Part != 0
}

// around tells how far before somebody was named, and how long the longest number is in the 24 cells before.
func (n *namer) around() int {
	v := 0
	if n.prior.End > n.prior.Start {
		switch far := n.start - n.prior.End; {
		case far <= 12:
			v = 1
		case far <= 40:
			v = 2
		default:
			v = 3
		}
	}
	run, most := 0, 0
	for k := max(n.start-24, 0); k < n.start; k++ {
		if !text.IsDigit(n.w.At(k)) {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	switch {
	case most >= 11:
		v += 16
	case most >= 7:
		v += 12
	case most >= 4:
		v += 8
	case most >= 1:
		v += 4
	}
	return v
}

// gaps tells how the blanks in a name lie.
func (n *namer) gaps(h *hanRun, c *shape, behind rune) int {
	v, parts := 0, 1
	for k := 1; k < c.total; k++ {
		if h.blanks[k] {
			parts++
			v = min(k, 3)
			if size := n.wordAt(h.at[k]); size >= 2 {
				v |= 8
				if size > c.total-k {
					v |= 16
				}
			}
			if _, cue := n.t.behind(n, h.at[k]); cue != 0 {
				v |= 32
			}
			if n.nameAt(h.at[k]) {
				v |= 64
			}
		}
	}
	if parts == c.total {
		v |= 4
	}
	if text.IsHan(behind) {
		v |= 128
	}
	return v
}

// against is what the best words cost that cover the run, less what those behind its first total characters cost: blanks do not count.
func (h *hanRun) against(costs *lexicon.CostTable, total int) int {
	var words [6][4]lexicon.WordCost
	var from [7]int
	for i := h.n - 1; i >= 0; i-- {
		costs.Words(h.r[i:h.n], &words[i])
		from[i] = 1 << 20
		for size := 1; size <= min(4, h.n-i); size++ {
			if w := words[i][size-1]; w.Part != 0 {
				from[i] = min(from[i], int(w.Cost)+from[i+size])
			}
		}
	}
	return from[0] - from[total]
}

// cue tells what the cue before is.
func (l *precedingContext) cue() (cue int) {
	switch {
	case l.why.Any(finding.LabelBefore) && l.strong:
		cue = 1
	case l.why.Any(finding.LabelBefore):
		cue = 2
	case l.why.Any(finding.Titled) && l.suffix:
		cue = 3
	case l.why.Any(finding.Titled):
		cue = 4
	case l.why.Any(finding.CueBefore) && l.suffix:
		cue = 5
	case l.why.Any(finding.CueBefore) && l.weak:
		cue = 6
	case l.why.Any(finding.CueBefore):
		cue = 7
	case l.why.Any(finding.Nearby):
		cue = 8
	}
	if l.delimited {
		cue += 10
	}
	return cue
}

// cue tells what the cue behind is.
func (s *followingContext) cue() int {
	switch {
	case s.place:
		return 1
	case s.why.Any(finding.Honorific):
		return 2
	case s.why.Any(finding.CueBehind) && s.strong:
		return 3
	case s.why.Any(finding.CueBehind):
		return 4
	case s.why.Any(finding.Bounded):
		return 5
	}
	return 0
}

// fixedness tells how a fixed term at the start compares with the first total characters.
func (n *namer) fixedness(total int) int {
	n.terms()
	switch {
	case n.fixed >= total && n.label:
		return 1
	case n.fixed > total:
		return 2
	case n.fixed == total:
		return 3
	case n.fixed >= 2:
		return 4
	}
	return 0
}

// behindTitle tells roughly what stands behind a title.
func (n *namer) behindTitle(k int) int {
	r := n.cell(k)
	if !text.IsHan(r) {
		return rough(markOf(r))
	}
	over := n.wordAt(k - 1) // 李经理论
	if over >= 2 {
		return 13
	}
	if _, c := n.t.behind(n, k); c&isPlace != 0 {
		return 12
	} else if c != 0 {
		return 11
	}
	if n.wordAt(k) >= 2 {
		return 10
	}
	return 9
}
