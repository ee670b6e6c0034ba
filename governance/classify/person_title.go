package classify

// formal finds what is a name without a given name: 王某, 李某某, 张某甲, 王××, 赵*.
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
		if r = n.cell(k + 1); r == '某' && tier != tierNone {
			return n.some(m, k+2, tier)
		}
	}
	return match{}, false
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
