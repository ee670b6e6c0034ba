package classify

import "github.com/sluice-project/sluice/governance/classify/lexicon"

// observe looks at a candidate. It returns what stands on its right.
func (n *namer) observe(l *lattice, h *hanRun, c *shape, o *observed) (right rightSide) {
	size, total := c.size, c.total
	end := c.end(h)
	set := func(f feature, v int) { o.ids[f] = observation(clamp(v, widths[f]-1)) }
	left := n.left()
	right = n.right(end)
	lr, rr := n.w.at(n.start-1), n.cell(end)
	name := c.cost(h)
	spaced := c.spaced(h)
	var ratio int
	e := l.origin + total
	held := left.size >= 2 && left.why.any(labelBefore|titled|cueBefore) // a cue ends before: no word goes on into the name
	switch {
	case !spaced && held:
		ratio = l.from[l.origin] - l.from[e] - name
	case !spaced:
		ratio = l.to[l.n] - l.to[l.origin] - l.from[e] - name
	default:
		ratio = h.against(total) - name
	}
	bound := 0
	if !isHan(lr) {
		bound |= 1
	}
	if !isHan(rr) {
		bound |= 2
	}
	set(fRatio, (clamp(ratio/4+14, 23)*4+int(c.form))*4+bound)
	kind := int(c.form)
	if size == 2 && c.form <= twoGiven {
		kind = 4
	}
	set(fName, clamp((name-14)/3, 15)*5+kind)
	tier := n.tierOf(h, size)
	if c.form == nickname {
		tier = n.t.surname(h.r[1])
	}
	v := tier
	switch {
	case size == 2:
		v = 5
	case n.distinct():
		v += 6
	case n.wordy():
		v += 12
	}
	set(fSurname, v)
	exact := h.word(0, total)
	set(fExact, exact)
	if exact > 0 && total > 1 {
		v := 1 + partIndex(h.part(total))
		if lexicon.FullNameWord(h.r[:total]) == total {
			v += 24
		}
		if left.why.any(labelBefore | titled) {
			v += 48
		}
		set(fPart, v)
	}
	if c.form == twoGiven {
		set(fGiven, h.word(size, 2))
		set(fHead, h.word(0, 2))
	}
	cross := 0
	if lr == ' ' || lr == '\n' {
		if n.pair(n.w.at(n.start-2), h.r[0]) {
			cross |= 4
		}
	}
	if rr == ' ' || rr == '\n' {
		if n.pair(h.r[total-1], n.cell(end+1)) {
			cross |= 8
		}
	}
	if !spaced {
		if l.origin > 0 && !held && l.words[l.origin-1][1].Part != 0 {
			cross |= 1
		}
		if e < l.n && !right.strong && l.words[e-1][1].Part != 0 {
			cross |= 2
		}
	}
	set(fCross, cross)
	var a, b, ra, rb int
	switch {
	case n.w.named.end == n.start && n.w.named.end > n.w.named.start:
		a, ra = 62, 9
	case isHan(lr):
		w := int(l.last[l.origin])
		a = 40 + partIndex(l.words[l.origin-w][w-1].Part)
		ra = roughPart(l.words[l.origin-w][w-1].Part)
	default:
		a = markOf(lr)
		ra = rough(a)
	}
	if isHan(rr) {
		rb = 9
		if !spaced && e < l.n {
			b = 40 + partIndex(l.words[e][l.next[e]-1].Part)
			rb = roughPart(l.words[e][l.next[e]-1].Part)
		} else {
			b = 61
		}
	} else {
		b = markOf(rr)
		rb = rough(b)
	}
	set(fLeft, a)
	set(fRight, b)
	set(fBoth, ra*14+rb)
	if isHan(lr) {
		set(fPrev, int(lr)-hanFirst+1)
	} else if j, _ := n.skipLeft(); j > 0 && j < n.start && isHan(n.w.at(j-1)) {
		set(fPrev, int(n.w.at(j-1))-hanFirst+1)
	}
	if isHan(rr) {
		set(fNext, int(rr)-hanFirst+1)
	}
	set(fCueLeft, left.cue())
	set(fCueRight, right.cue())
	near := 0
	if right.why.any(nearby) {
		near = 1
	}
	if spaced {
		near += 2
	}
	switch rr {
	case '、', ',', '/', ' ', '\n', '和', '与', '|', ';':
		if isHan(n.cell(end+1)) && n.nameAt(end+1) {
			near += 4
		}
	}
	if n.w.met(h.r[:total]) {
		near += 8
	}
	set(fNear, near)
	set(fAround, n.around())
	if spaced {
		set(fSpaced, n.gaps(h, c, rr))
	}
	set(fFirst, int(h.r[0])-hanFirst+1)
	set(fLast, int(h.r[total-1])-hanFirst+1)
	set(fFixed, n.fixedness(total))
	if c.form <= twoGiven {
		low, double := n.givenTier(h, size, total)
		if double {
			low = 4
		}
		set(fTier, low*2+int(c.form))
	} else {
		set(fTier, 12+int(c.form))
	}
	if c.form == addressed {
		v := 1 + n.behindTitle(end+c.title)
		if c.kind&isPolite != 0 {
			v += 16
		}
		if c.title > 1 {
			v += 32
		}
		set(fTitle, v)
	}
	if !spaced {
		sizes := 0
		if isHan(lr) {
			sizes = int(min(l.last[l.origin], 3))
		}
		if isHan(rr) && e < l.n {
			sizes += 4 * int(min(l.next[e], 3))
		}
		set(fSizes, sizes)
	}
	return right
}

// pair reports whether two characters are a word.
func (n *namer) pair(a, b rune) bool {
	if !isHan(a) || !isHan(b) {
		return false
	}
	var w [4]lexicon.WordCost
	r := [2]rune{a, b}
	lexicon.WordCosts(r[:], &w)
	return w[1].Part != 0
}

// word tells how usual a word of so many characters of the run is, 0 if it is none.
func (h *hanRun) word(at, length int) int {
	if at+length > h.n {
		return 0
	}
	var w [4]lexicon.WordCost
	lexicon.WordCosts(h.r[at:at+length], &w)
	if w[length-1].Part == 0 {
		return 0
	}
	return 1 + clamp((int(w[length-1].Cost)-14)/3, 6)
}

// around tells how far before somebody was named, and how long the longest number is in the 24 cells before.
func (n *namer) around() int {
	v := 0
	if n.w.named.end > n.w.named.start {
		switch far := n.start - n.w.named.end; {
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
		if !isDigit(n.w.cells[k].r) {
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
	if isHan(behind) {
		v |= 128
	}
	return v
}

// part returns the part of speech of the word of the first characters.
func (h *hanRun) part(length int) uint8 {
	var w [4]lexicon.WordCost
	lexicon.WordCosts(h.r[:length], &w)
	return w[length-1].Part
}

// against is what the best words cost that cover the run, less what those behind its first total characters cost: blanks do not count.
func (h *hanRun) against(total int) int {
	var words [6][4]lexicon.WordCost
	var from [7]int
	for i := h.n - 1; i >= 0; i-- {
		lexicon.WordCosts(h.r[i:h.n], &words[i])
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
func (l *leftSide) cue() (cue int) {
	switch {
	case l.why.any(labelBefore) && l.strong:
		cue = 1
	case l.why.any(labelBefore):
		cue = 2
	case l.why.any(titled) && l.suffix:
		cue = 3
	case l.why.any(titled):
		cue = 4
	case l.why.any(cueBefore) && l.suffix:
		cue = 5
	case l.why.any(cueBefore) && l.weak:
		cue = 6
	case l.why.any(cueBefore):
		cue = 7
	case l.why.any(nearby):
		cue = 8
	}
	if l.delimited {
		cue += 10
	}
	return cue
}

// cue tells what the cue behind is.
func (s *rightSide) cue() int {
	switch {
	case s.place:
		return 1
	case s.why.any(honorific):
		return 2
	case s.why.any(cueBehind) && s.strong:
		return 3
	case s.why.any(cueBehind):
		return 4
	case s.why.any(bounded):
		return 5
	}
	return 0
}

// fixedness tells how a word or a fixed term at the start compares with the first total characters.
func (n *namer) fixedness(total int) int {
	n.words()
	switch {
	case n.fixed >= total && n.label:
		return 1
	case n.fixed > total:
		return 2
	case n.fixed == total:
		return 3
	case n.fixed >= 2:
		return 4
	case n.word > total:
		return 5
	case n.word == total:
		return 6
	case n.word >= 2:
		return 7
	}
	return 0
}

// behindTitle tells roughly what stands behind a title.
func (n *namer) behindTitle(k int) int {
	r := n.cell(k)
	if !isHan(r) {
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
