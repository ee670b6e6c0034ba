package classify

import "strings"

// latin finds names in Latin letters: pinyin with the surname first or last (Zhang Wei, ZHANG Wei, Xiaoming Li, Li Xiao-ming), and other
// names behind a label, a title or a form of address.
func latin(w *window, i int) (match, verdict) {
	if left := w.at(i - 1); isAlnum(left) || left == '_' || left == '@' || left == '/' || left == '.' && !isLetter(w.at(i-2)) || i < w.named.end {
		return match{}, no
	}
	n := namer{w: w, t: w.nameTables(), start: i}
	var l latinRow
	upperFirst := w.at(i) >= 'A' && w.at(i) <= 'Z'
	if !upperFirst && !n.latinCue() {
		return match{}, no
	}
	n.read(&l, upperFirst)
	if n.open {
		return match{}, open
	}
	m, ok := n.spelled(&l, upperFirst)
	switch {
	case n.open:
		return match{}, open
	case !ok || m.score() < almost:
		return match{}, no
	}
	return m, yes
}

// latinRow are the words of a candidate in Latin letters.
type latinRow struct {
	word  [maxWords]pinyinWord
	n     int
	stuck bool // a letter, digit or the like follows the last word at once
}

const (
	maxWords  = 4
	maxLetter = 12 // of one word
)

// pinyinWord is one word.
type pinyinWord struct {
	start, end int
	kind       rank // spellsSurname, spellsGiven, isEnglish
	capital    bool
	all        bool // all in capitals
	hyphen     bool // a hyphen stands before it
}

const (
	spellsSurname rank = 1 << iota
	spellsGiven        // one to three syllables
	isEnglish          // an English word too
	isFirstName        // an English given name
)

// read reads the words from the start. Without a cue it stops at the first that cannot be part of a name.
func (n *namer) read(l *latinRow, capital bool) {
	k := n.start
	cued := n.latinCue()
	for l.n < maxWords {
		p := &l.word[l.n]
		p.start, p.all = k, true
		for k-p.start <= maxLetter && isLetter(n.cell(k)) {
			if r := n.w.at(k); r >= 'a' && r <= 'z' {
				p.all = false
			} else if k > p.start && !p.all {
				l.stuck = true // a capital inside a word
			}
			k++
		}
		p.end = k
		first := n.w.at(p.start)
		p.capital = first >= 'A' && first <= 'Z'
		if n.open || p.end == p.start || k-p.start > maxLetter || capital && !p.capital && !p.hyphen {
			break
		}
		p.kind = n.t.spelling(n.w, p.start, p.end)
		if !cued && p.kind&^isEnglish == 0 {
			break
		}
		l.n++
		switch next := n.cell(k); {
		case next == '-' || next == '^':
			if l.n < maxWords {
				l.word[l.n].hyphen = true
			}
			k++
		case next == ' ':
			k++
		case isLetter(next), next == '_', next == '@':
			l.stuck = true
			return
		default:
			return
		}
	}
}

// spelled judges the words: the longest row of them that is a name.
func (n *namer) spelled(l *latinRow, capital bool) (match, bool) {
	if l.stuck && l.n > 0 {
		l.n--
	}
	left := n.left()
	for size := min(l.n, maxWords); size >= 1; size-- {
		words := l.word[:size]
		end := words[size-1].end
		r := n.cell(end)
		if isLetter(r) || r == '_' || r == '@' || r == '.' && isLetter(n.cell(end+1)) {
			continue
		}
		m := match{kind: kPerson, start: n.start, end: end, why: left.why &^ nearby}
		if n.englishCue() {
			m.why |= titled
		}
		if left.weak {
			m.why &^= cueBefore
		}
		m.why |= bounded
		order, sure := chinese(words)
		if isDigit(r) && !order {
			continue
		}
		switch {
		case order && (capital || m.why.any(labelBefore|titled|cueBefore)):
			m.form = 0.35
			if sure {
				m.why |= typical
			}
			if !capital {
				m.form = 0.1
			}
			return m, true
		case !m.why.any(labelBefore|titled|cueBefore) || !capital:
		case size >= 2 && words[0].kind&isFirstName != 0:
			m.form = 0.3
			return m, true
		case size >= 2 && m.why.any(labelBefore|titled) && !left.weak && stopWords(n, words) == 0:
			m.form = 0.15
			return m, true
		case size == 1 && (words[0].kind&isFirstName != 0 || left.delimited && left.strong || n.englishCue()) && (!words[0].all || words[0].end-words[0].start > 3):
			if stopWords(n, words) > 0 {
				continue
			}
			m.form = 0.15
			return m, true
		}
	}
	return match{}, false
}

// chinese reports whether the words are a name in pinyin; sure: none of them is an ordinary English word as well.
func chinese(words []pinyinWord) (ok, sure bool) {
	if len(words) < 2 || len(words) > 3 {
		return false, false
	}
	given := func(of []pinyinWord) bool {
		for _, p := range of {
			if p.kind&spellsGiven == 0 {
				return false
			}
		}
		return true
	}
	first := words[0].kind&spellsSurname != 0 && given(words[1:])
	last := words[len(words)-1].kind&spellsSurname != 0 && given(words[:len(words)-1])
	english := 0
	for _, p := range words {
		if p.kind&isEnglish != 0 {
			english++
		}
	}
	return first || last, english < len(words)
}

// latinCue reports whether a cue of names stands before the start.
func (n *namer) latinCue() bool {
	return n.left().why.any(labelBefore|titled|cueBefore) || n.englishCue()
}

// englishCue reports whether Mr, Ms, Dear or the like stands before the start.
func (n *namer) englishCue() bool {
	k := n.start - 1
	if n.w.at(k) != ' ' {
		return false
	}
	if k--; n.w.at(k) == '.' {
		k--
	}
	var b [8]byte
	at := len(b)
	for ; k >= 0 && at > 0 && isLetter(n.w.cells[k].r); k-- {
		at--
		b[at] = byte(lower(n.w.cells[k].r))
	}
	switch string(b[at:]) {
	case "mr", "ms", "mrs", "miss", "dear", "dr", "prof", "hi", "hello", "attn":
		return true
	case "is": // my name is
		return n.w.at(k) == ' ' && n.w.at(k-1) == 'e' && n.w.at(k-2) == 'm' && n.w.at(k-3) == 'a'
	}
	return false
}

// stopWords counts the words that are no names although they stand where names do.
func stopWords(n *namer, words []pinyinWord) (count int) {
	for _, p := range words {
		var b [maxLetter]byte
		for k := p.start; k < p.end; k++ {
			b[k-p.start] = byte(lower(n.w.cells[k].r))
		}
		if strings.Contains(" all mr ms mrs dear miss sir madam team customer customers user users client guest everyone folks there friend friends colleague colleagues admin root test null none system id card no passport phone tel email account address name bank the and or app api vip hr it ceo cfo cto ok please update thanks support service manager director officer company ltd inc co group center centre department office ", " "+string(b[:p.end-p.start])+" ") {
			count++
		}
	}
	return count
}
