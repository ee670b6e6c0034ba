package classify

// formal finds what is a name without a given name: the 张 of 张先生, 王某, 李某某, 张某甲, 王××, 赵*.
func (n *namer) formal(size int) (match, bool) {
	k := n.start + size
	m := match{kind: kPerson, start: n.start, end: k, form: 0.2}
	tier := n.t.surname(n.w.cells[n.start].r)
	if size == 2 {
		tier = tierCommon
	}
	r := n.cell(k)
	switch {
	case r == unknown, r == edge:
		return match{}, false
	case r == '某' && tier != tierNone:
		return n.some(m, k+1, tier)
	case isHidden(r):
		return n.hidden(m, k, tier)
	case r == ' ', r == '\n':
		k++
		r = n.cell(k)
		if r == '某' && tier != tierNone {
			return n.some(m, k+1, tier)
		}
	}
	if !isHan(r) {
		return match{}, false
	}
	length, c := n.t.behind(n, k)
	if n.open || c&isAlone == 0 {
		return match{}, false
	}
	left := n.left()
	n.words()
	word := n.word
	over := n.wordAt(k)
	if n.open || word >= 2 || over > length && !n.right(k+length).strong || n.crossed() && !left.cued() || n.crossed() && !left.why.any(labelBefore|titled) {
		return match{}, false
	}
	after := n.right(k + length)
	if c&isPolite == 0 && (n.wordy() || tier < tierUsual) && !left.bounded && !left.cued() {
		return match{}, false
	}
	if n.open || tier == tierWord && !left.delimited && !(left.bounded && n.w.cells[n.start].r == '于') && !left.why.any(titled) || tier == tierRare && !left.bounded && !left.cued() {
		return match{}, false
	}
	m.why = honorific | left.why
	m.behind = length + k - m.end
	if length == 1 { // 总, 工, 哥: the word must end here
		if (n.wordy() || tier < tierUsual) && !left.bounded && !left.why.any(labelBefore|titled) && (left.weak || !left.cued()) {
			return match{}, false
		}
		if after.quality == 0 || tier < tierUsual || !left.bounded && !left.cued() && !after.strong && !after.bounded {
			return match{}, false
		}
	}
	if tier < tierUsual && !left.bounded {
		m.why |= unusual
	}
	return m, true
}

// alone finds a surname that stands for itself: 我姓谭, 经办：郭.
func (n *namer) alone(size int) (match, bool) {
	end := n.start + size
	next := n.cell(end)
	left := n.left()
	if n.open {
		return match{}, false
	}
	m := match{kind: kPerson, start: n.start, end: end, form: 0.2, why: left.why | bounded}
	if n.w.at(n.start-1) == '姓' && n.start >= 2 && !isHan(next) {
		if b := n.w.at(n.start - 2); b != '百' && b != '老' && b != '同' && b != '贵' {
			m.form = 0.6
			return m, true
		}
	}
	for k := end; next == ' ' && k < end+3; k++ {
		next = n.cell(k + 1)
	}
	plain := next == edge || next == '/' || next == ';' || next == '(' || next == ',' || next == '\n' || isHan(next) && n.cell(end) == ' '
	return m, left.delimited && left.why.any(labelBefore) && plain && n.t.surname(n.w.cells[n.start].r) >= tierUsual && !n.open
}

// some takes 某 and what belongs to it.
func (n *namer) some(m match, k, tier int) (match, bool) {
	m.form = 0.6
	r := n.cell(k)
	if r == ' ' && (n.cell(k+1) == '某' || n.t.stem(n.w.at(k+1)) || isDigit(n.w.at(k+1))) { // a scanner's blank
		k++
		r = n.cell(k)
	}
	if (tier < tierUsual || n.wordy()) && (n.crossed() || tier == tierWord && r != '某' && !n.t.stem(r) && !isDigit(r) && !n.left().why.any(labelBefore|titled)) {
		return match{}, false
	}
	if size, c := n.t.behind(n, k); c&isThingOf != 0 && size > 0 && !n.left().cued() { // 某种, 某个
		return match{}, false
	}
	switch {
	case r == '某':
		k++
	case n.t.stem(r), isDigit(r) && !isDigit(n.cell(k+1)), isLetter(r) && !isLetter(n.cell(k+1)):
		k++
	case isHan(r) && n.t.given(r) >= 2 && n.w.at(k) != unknown:
		// 王某明, unless a word begins there
		if n.wordAt(k) < 2 {
			if _, c := n.t.behind(n, k); c == 0 {
				k++
			}
		}
	}
	m.end = k
	return m, true
}

func isHidden(r rune) bool {
	switch r {
	case '*', '×', 'X', 'x', '○', '〇', '□', '■', '?', '_', '✕', '╳', '●', 'Ｘ':
		return true
	}
	return false
}

// hidden takes the marks that stand for the given name.
func (n *namer) hidden(m match, k, tier int) (match, bool) {
	mark := n.w.at(k)
	end := k + 1
	for end < k+3 && n.cell(end) == mark {
		end++
	}
	if end == k+1 && isHan(n.cell(end)) && mark != 'x' && mark != 'X' && mark != '?' && mark != '_' && n.t.given(n.w.at(end)) >= 2 {
		if _, c := n.t.behind(n, end); c == 0 && n.wordAt(end) < 2 { // 王*明
			end++
		}
	}
	next := n.cell(end)
	left := n.left()
	if n.open || isAlnum(next) || next == mark || tier < tierRare || tier == tierWord && !left.delimited {
		return match{}, false
	}
	if !left.bounded && !left.cued() || n.crossed() && !left.why.any(labelBefore) {
		return match{}, false
	}
	if (mark == '_' || mark == '?') && !left.delimited {
		return match{}, false
	}
	m.end, m.form = end, 0.5
	m.why |= left.why
	return m, true
}

// nick finds 小李, 老张, 阿芳: not words, and only where a name may stand.
func (n *namer) nick() (match, bool) {
	k := n.start + 1
	if r := n.cell(k); r == ' ' || r == '\n' { // a scanner's blank
		if !n.left().why.any(labelBefore | titled) {
			return match{}, false
		}
		k++
	}
	r := n.cell(k)
	if n.open || !isHan(r) {
		return match{}, false
	}
	tier := n.t.surname(r)
	ah := n.w.cells[n.start].r == '阿'
	if ah && tier < tierUsual && n.t.given(r) >= 2 {
		tier = tierUsual
	}
	if tier < tierUsual || n.t.compound(r, n.cell(k+1)) != 0 {
		return match{}, false
	}
	n.words()
	word := n.word
	inner := n.wordAt(k)
	left, right := n.left(), n.right(k+1)
	wordy := n.t.first(r)&isWordy != 0
	role := left.why.any(labelBefore | titled)
	// Words such as 小时 and 老板 are no names; 小董 and 老马 are both.
	if n.open || inner >= 2 && !role || n.fixed >= 2 || word > 2 {
		return match{}, false
	}
	if word == 2 && !(role && (tier == tierCommon || !wordy) || left.bounded && !wordy && tier == tierCommon) {
		return match{}, false
	}
	if n.open || n.crossed() || right.place {
		return match{}, false
	}
	if !left.cued() && (wordy && !right.strong && !(left.bounded && right.quality >= 2) || right.quality == 0 && !left.bounded) {
		return match{}, false
	}
	if left.weak && !left.why.any(labelBefore|titled) && right.quality < 2 {
		return match{}, false
	}
	m := match{kind: kPerson, start: n.start, end: k + 1, form: 0.25, why: left.why | right.why}
	if left.bounded && (right.bounded || tier == tierCommon && !wordy) {
		m.why |= bounded
	}
	if tier == tierCommon && (!wordy || n.w.cells[n.start].r == '老') {
		m.why |= typical
	}
	if ah && wordy {
		m.why &^= typical
	}
	if ah && left.bounded && right.bounded {
		m.why |= typical
	}
	if m.why.any(labelBefore | titled) {
		m.why |= typical
	}
	return m, true
}
