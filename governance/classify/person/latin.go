package person

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// latin finds names in Latin letters: pinyin with the surname first or last (Zhang Wei, ZHANG Wei, Xiaoming Li, Li Xiao-ming), and other
// names behind a label, a title or a form of address.
func latin(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if left := w.At(i - 1); text.IsAlnum(left) || left == '_' || left == '@' || left == '/' || left == '.' && !text.IsLetter(w.At(i-2)) || i < w.prior().End {
		return finding.Candidate{}, text.No
	}
	n := namer{w: w, t: w.nameTables(), start: i, prior: w.prior()}
	var l latinRow
	upperFirst := w.At(i) >= 'A' && w.At(i) <= 'Z'
	if !upperFirst && !n.latinCue() {
		return finding.Candidate{}, text.No
	}
	n.read(&l, upperFirst)
	if n.open {
		return finding.Candidate{}, text.Open
	}
	m, ok := n.spelled(&l, upperFirst)
	switch {
	case n.open:
		return finding.Candidate{}, text.Open
	case !ok || m.Score() < almost:
		return finding.Candidate{}, text.No
	}
	return m, text.Yes
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
		for k-p.start <= maxLetter && text.IsLetter(n.cell(k)) {
			if r := n.w.At(k); r >= 'a' && r <= 'z' {
				p.all = false
			} else if k > p.start && !p.all {
				l.stuck = true // a capital inside a word
			}
			k++
		}
		p.end = k
		first := n.w.At(p.start)
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
		case text.IsLetter(next), next == '_', next == '@':
			l.stuck = true
			return
		default:
			return
		}
	}
}

// spelled judges the words: the longest row of them that is a name.
func (n *namer) spelled(l *latinRow, capital bool) (finding.Candidate, bool) {
	if l.stuck && l.n > 0 {
		l.n--
	}
	left := n.preceding()
	for size := min(l.n, maxWords); size >= 1; size-- {
		words := l.word[:size]
		end := words[size-1].end
		r := n.cell(end)
		if text.IsLetter(r) || r == '_' || r == '@' || r == '.' && text.IsLetter(n.cell(end+1)) {
			continue
		}
		m := finding.Candidate{Kind: finding.Person, Start: n.start, End: end, Evidence: left.why &^ finding.Nearby}
		if n.englishCue() {
			m.Evidence |= finding.Titled
		}
		if left.weak {
			m.Evidence &^= finding.CueBefore
		}
		m.Evidence |= finding.Bounded
		order, sure := chinese(words)
		if text.IsDigit(r) && !order {
			continue
		}
		switch {
		case order && (capital || m.Evidence.Any(finding.LabelBefore|finding.Titled|finding.CueBefore)):
			m.Form = 0.35
			if sure {
				m.Evidence |= finding.Typical
			}
			if !capital {
				m.Form = 0.1
			}
			return m, true
		case !m.Evidence.Any(finding.LabelBefore|finding.Titled|finding.CueBefore) || !capital:
		case size >= 2 && words[0].kind&isFirstName != 0:
			m.Form = 0.3
			return m, true
		case size >= 2 && m.Evidence.Any(finding.LabelBefore|finding.Titled) && !left.weak && stopWords(n, words) == 0:
			m.Form = 0.15
			return m, true
		case size == 1 && (words[0].kind&isFirstName != 0 || left.delimited && left.strong || n.englishCue()) && (!words[0].all || words[0].end-words[0].start > 3):
			if stopWords(n, words) > 0 {
				continue
			}
			m.Form = 0.15
			return m, true
		}
	}
	return finding.Candidate{}, false
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
	return n.preceding().why.Any(finding.LabelBefore|finding.Titled|finding.CueBefore) || n.englishCue()
}

// englishCue reports whether Mr, Ms, Dear or the like stands before the start.
func (n *namer) englishCue() bool {
	k := n.start - 1
	if n.w.At(k) != ' ' {
		return false
	}
	if k--; n.w.At(k) == '.' {
		k--
	}
	var b [8]byte
	at := len(b)
	for ; k >= 0 && at > 0 && text.IsLetter(n.w.At(k)); k-- {
		at--
		b[at] = byte(text.Lower(n.w.At(k)))
	}
	switch string(b[at:]) {
	case "mr", "ms", "mrs", "miss", "dear", "dr", "prof", "hi", "hello", "attn":
		return true
	case "is": // my name is
		return n.w.At(k) == ' ' && n.w.At(k-1) == 'e' && n.w.At(k-2) == 'm' && n.w.At(k-3) == 'a'
	}
	return false
}

// stopWords counts the words that are no names although they stand where names do.
func stopWords(n *namer, words []pinyinWord) (count int) {
	for _, p := range words {
		var b [maxLetter]byte
		for k := p.start; k < p.end; k++ {
			b[k-p.start] = byte(text.Lower(n.w.At(k)))
		}
		if strings.Contains(" all mr ms mrs dear miss sir madam team customer customers user users client guest everyone folks there friend friends colleague colleagues admin root test null none system id card no passport phone tel email account address name bank the and or app api vip hr it ceo cfo cto ok please update thanks support service manager director officer company ltd inc co group center centre department office ", " "+string(b[:p.end-p.start])+" ") {
			count++
		}
	}
	return count
}
