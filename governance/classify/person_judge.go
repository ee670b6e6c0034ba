package classify

// judge scores the name of total characters at the start whose first size are the surname.
func (n *namer) judge(h *hanRun, size, total int) (candidate, bool) {
	tier := n.tierOf(h, size)
	low, double := n.givenTier(h, size, total)
	spaced := false
	for k := 1; k < total; k++ {
		spaced = spaced || h.blanks[k]
	}
	if spaced && !n.joined(h, size, total) {
		return candidate{}, false
	}
	left := n.left()
	if low == 0 && !left.why.any(labelBefore|titled) {
		return candidate{}, false
	}
	n.words()
	word := n.word
	if n.fixed >= total && (n.label || !left.why.any(labelBefore|titled)) {
		return candidate{}, false
	}
	if !left.why.any(labelBefore|titled) && n.never(h, size, total) {
		return candidate{}, false
	}
	if word > total && !left.why.any(labelBefore|titled) {
		return candidate{}, false
	}
	if n.open || word >= 2 && word != total && !left.cued() && low < 3 {
		return candidate{}, false
	}
	c := candidate{m: match{kind: kPerson, start: n.start, end: h.at[total-1] + 1, form: n.formOf(tier, size, total)}}
	c.m.why = left.why
	right := n.right(c.m.end)
	if n.open {
		return candidate{}, false
	}
	c.m.why |= right.why
	c.m.behind = right.title
	c.quality = right.quality + total - size
	switch {
	case low >= 3, low == 2 && n.distinct():
		c.m.why |= typical
		c.quality++
	case low <= 1:
		if low == 0 || !left.delimited {
			c.m.why |= unusual
		}
		c.quality -= 2 - low
	}
	against := n.against(h, size, total, word, double, right)
	if n.open {
		return candidate{}, false
	}
	if left.weak && !right.strong && !(low >= 3 && right.quality >= 2 && tier >= tierUsual && (total-size == 2 || !n.wordy())) {
		c.m.why &^= cueBefore
	}
	pair := total-size == 2 && low >= 3 && tier >= tierUsual && !spaced && (!n.wordy() || n.typicalPair(h, size))
	sure := total-size == 2 && low >= 3 && (tier == tierCommon || n.distinct()) || pair && left.bounded
	if (left.bounded || left.cued() || left.weak || sure) && right.bounded || (left.bounded || left.weak && low >= 3) && right.quality >= 2 || pair && left.bounded {
		c.m.why |= bounded
	}
	if tier == tierWord && !left.why.any(labelBefore|titled) {
		stands := left.bounded && right.quality >= 2 || left.cued() && !left.weak && (right.bounded || right.strong)
		if !stands || low < 3 || total-size == 1 || n.t.first(h.r[0])&isBorne == 0 {
			return candidate{}, false
		}
		c.m.form = 0.25
	}
	if tier == tierWord && word >= total && !left.delimited {
		return candidate{}, false
	}
	if !left.cued() && !c.m.why.any(honorific) {
		// Without a cue on the left, a name stands where a word ends and another begins.
		if !left.bounded && n.crossed() || right.quality == 0 && !right.bounded && !(sure && left.bounded) {
			return candidate{}, false
		}
		if !left.bounded && (tier < tierUsual || low < 3 && !(low == 2 && n.distinct())) {
			return candidate{}, false
		}
		if !left.bounded && !right.strong && (tier < tierCommon && !n.distinct() || total-size == 1 && n.wordy()) {
			return candidate{}, false
		}
	} else if n.crossed() && !left.why.any(labelBefore) {
		against = true
	}
	if tier < tierUsual && left.weak && !left.why.any(labelBefore|titled) {
		return candidate{}, false
	}
	if tier == tierWord && !left.delimited && (low < 3 || right.quality < 2) {
		against = true
	}
	if !left.why.any(labelBefore|titled|honorific) && !right.strong && total-size == 2 && n.t.first(h.r[total-1])&isPlaceTail != 0 {
		against = true
	}
	if left.bounded && right.bounded && low >= 3 && !against && tier >= tierUsual {
		c.m.form = max(c.m.form, 0.25) // apart from all other words, a short one with a usual surname is a name even where words begin so
	}
	if left.strong && left.delimited && right.bounded && word == total && tier > tierWord {
		against = false // 姓名：关东
	}
	if tier <= tierRare && low < 3 && !left.delimited || against && n.wordy() && !left.why.any(labelBefore|titled) {
		return candidate{}, false
	}
	if against && (left.weak || !left.cued()) && !c.m.why.any(labelBefore|titled|honorific) && !right.strong {
		return candidate{}, false
	}
	if against {
		c.m.why |= ordinary
		c.quality -= 3
	}
	if right.place {
		c.m.why |= ordinary | unusual
		c.quality -= 4
	}
	return c, true
}

// formOf is what a surname and the length of the name say: a surname that begins many words says less.
func (n *namer) formOf(tier, size, total int) float64 {
	form := 0.05
	switch {
	case size == 2 && (tier >= tierUsual || total == 4), tier == tierCommon && total-size == 2:
		form = 0.35
	case tier == tierUsual && total-size == 2:
		form = 0.3
	case tier >= tierUsual:
		form = 0.25
	case tier == tierRare:
		form = 0.1
	}
	switch {
	case size == 1 && tier >= tierUsual && n.wordy():
		form -= 0.05 * float64(3-(total-size))
	case size == 1 && n.distinct():
		form += 0.05
	}
	return form
}

// distinct reports whether the surname hardly begins an ordinary word.
func (n *namer) distinct() bool { return n.t.first(n.w.cells[n.start].r)&isDistinct != 0 }

// wordy reports whether the character at the start begins many ordinary words.
func (n *namer) wordy() bool { return n.t.first(n.w.cells[n.start].r)&isWordy != 0 }

func (n *namer) tierOf(h *hanRun, size int) int {
	if size == 2 {
		if t := n.t.compound(h.r[0], h.r[1]); t != 0 {
			return t
		}
	}
	return n.t.surname(h.r[0])
}

// givenTier returns how usual the rarest character of the given name is; double: both are the same.
func (n *namer) givenTier(h *hanRun, size, total int) (low int, double bool) {
	if total-size == 1 {
		low = n.t.given(h.r[size])
		if n.t.first(h.r[size])&isThing != 0 && !n.distinct() {
			low = min(low, 2)
		}
		return low, false
	}
	a, b := n.t.given(h.r[size]), n.t.given(h.r[size+1])
	double = h.r[size] == h.r[size+1]
	switch {
	case a+b >= 5, double && a > 0, n.t.isGiven(h, size, total):
		return 3, double
	case a+b == 4:
		return 2, double
	}
	return min(a, b), double
}

// against reports whether ordinary words speak against the name: one that is the name or begins it, one that is its given name and
// is not borne as one, or one that begins inside and goes on behind it.
func (n *namer) against(h *hanRun, size, total, word int, double bool, right rightSide) bool {
	given := n.t.isGiven(h, size, total) || double || total-size == 2 && (n.left().cued() || right.strong || n.left().bounded && right.bounded) && n.typicalPair(h, size)
	if word >= total || word > size && !(given && total-size == 2) {
		return true
	}
	if total-size == 2 && !given && !h.blanks[size] && n.wordAt(h.at[size]) == 2 && !n.typicalPair(h, size) {
		left := n.left()
		apart := right.quality >= 3 && (left.why.any(labelBefore|titled) || left.cued() && !left.weak && !left.suffix || left.bounded && n.distinct())
		return !apart || n.t.given(h.r[size]) < 2 || n.t.given(h.r[size+1]) < 2
	}
	for k := 1; k < total; k++ {
		if h.blanks[k] {
			return false
		}
		if x := n.wordAt(h.at[k]); x >= 2 && k+x > total && !right.strong {
			return true
		}
	}
	return false
}

// never reports whether a character of the given name hardly stands in one.
func (n *namer) never(h *hanRun, size, total int) bool {
	if n.t.isGiven(h, size, total) {
		return false
	}
	for k := size; k < total; k++ {
		if n.t.first(h.r[k])&isNever != 0 {
			return true
		}
	}
	return false
}

func (n *namer) typicalPair(h *hanRun, size int) bool {
	return n.t.given(h.r[size]) >= 3 && n.t.given(h.r[size+1]) >= 3
}

func (b evidence) any(of evidence) bool { return b&of != 0 }
