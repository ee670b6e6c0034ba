package classify

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// Postal addresses.
//
// An address is a row of names (divisions, towns, roads, estates, villages) that goes down to numbers of buildings, units and rooms, or
// that stands behind a label. The detector looks right from each place where one could begin: over the names, the head, up to the first
// number, and then over the numbers and the names between them, the tail. A head is short and holds no word that names do not hold, so
// plain prose is decided within a few runes; it is also remembered how far no address can begin, so that most runes cost one comparison.

const (
	maxAddress  = 64 // runes without blanks
	maxName     = 10 // runes of one name, or of several without a sign where they end
	maxDivision = 18 // runes of the same where a division begins it
	maxHead     = 44
)

// route is what an address is read from: the cells from some cell on, without blanks. It is filled as far as it is read.
type route struct {
	w    *window
	r    [maxAddress]rune
	cell [maxAddress]int
	gap  [maxAddress]bool // blanks stood before the rune
	n    int
	next int  // the cell to fill from
	full bool // the limit was reached
	open bool // something was asked that has not arrived
}

// at returns the rune at place k: edge where the text or what may belong to an address ends.
func (p *route) at(k int) rune {
	for p.n <= k {
		if !p.fill() {
			return edge
		}
	}
	return p.r[k]
}

// fill reads one more rune.
func (p *route) fill() bool {
	if p.n == maxAddress {
		p.full = true
		return false
	}
	i := p.next
	r := p.w.at(i)
	for n := 0; n < 2 && p.n > 0 && (r == ' ' || r == '\n'); n++ {
		i++
		r = p.w.at(i)
	}
	switch {
	case r == unknown:
		p.open = true
		return false
	case r == edge || r < ' ':
		return false
	}
	p.gap[p.n] = i > p.next
	p.r[p.n], p.cell[p.n] = r, i
	p.n++
	p.next = i + 1
	return true
}

// blank reports whether blanks stand before the rune at place k.
func (p *route) blank(k int) bool { return k > 0 && p.at(k) != edge && p.gap[k] }

// has reports whether a word stands at place k. Blanks inside do not matter.
func (p *route) has(k int, word string) bool {
	for _, r := range word {
		if p.at(k) != r {
			return false
		}
		k++
	}
	return true
}

// wordList is a list of words that are looked for often.
type wordList struct {
	words  []string
	first  []rune     // characters that they begin with
	begins [][]string // the words of each
	last   *runeSet   // characters that they end with
}

func listOf(words ...string) *wordList {
	list, last := &wordList{words: words}, ""
	for _, word := range words {
		r, _ := utf8.DecodeRuneInString(word)
		at := slices.Index(list.first, r)
		if at < 0 {
			at = len(list.first)
			list.first, list.begins = append(list.first, r), append(list.begins, nil)
		}
		list.begins[at] = append(list.begins[at], word)
		r, _ = utf8.DecodeLastRuneInString(word)
		last += string(r)
	}
	list.last = runesOf(last)
	return list
}

// any returns the length of the longest of some words, in runes, that stands at place k.
func (p *route) any(k int, list *wordList) int {
	at := slices.Index(list.first, p.at(k))
	if at < 0 {
		return 0
	}
	longest := 0
	for _, word := range list.begins[at] {
		if len(word) > longest && p.has(k, word) {
			longest = len(word)
		}
	}
	return (longest + 2) / 3
}

// longest returns the length of the longest of some words that stands at place k.
func (p *route) longest(k int, words [][]rune) int {
	longest := 0
	for _, word := range words {
		n := 1
		for n < len(word) && p.at(k+n) == word[n] {
			n++
		}
		if n == len(word) {
			longest = max(longest, n)
		}
	}
	return longest
}

// endsWith reports whether one of some words ends before place k; none begins before place from.
func (p *route) endsWith(from, k int, list *wordList) bool {
	if k <= from {
		return false
	}
	r := p.at(k - 1)
	if !list.last.has(r) {
		return false
	}
	var buf [utf8.UTFMax]byte
	last := buf[:utf8.EncodeRune(buf[:], r)]
	for _, word := range list.words {
		if !strings.HasSuffix(word, string(last)) {
			continue
		}
		if n := runes(word); k-n >= from && p.has(k-n, word) {
			return true
		}
	}
	return false
}

// runes is the length of a word of Han characters.
func runes(word string) int { return len(word) / 3 }

// address finds the address that begins at cell i.
func address(w *window, i int) (match, verdict) {
	if i > w.quiet.start && i < w.quiet.end {
		return match{}, no
	}
	first, left := w.cells[i].r, w.at(i-1)
	if !isHan(first) && (isAlnum(left) || left == '-' || left == '.' || left == '_' || left == '/') {
		return match{}, no
	}
	if isLetter(first) && isLetter(w.at(i+1)) && !(misread(first) != 0 && misread(w.at(i+1)) != 0) {
		return match{}, no // a word: one letter alone names a building
	}
	t := w.placeTable()
	if isHan(first) {
		if i >= w.scouted && t.before(w, i).why == 0 {
			if t.scout(w, i) {
				return match{}, no
			}
		}
		if isDigit(left) && counted(first) {
			return match{}, no
		}
	}
	p := &w.route
	p.w, p.n, p.next, p.full, p.open = w, 0, i, false, false
	h := &w.head
	*h = head{route: p, table: t}
	h.scan()
	if p.open {
		return match{}, open
	}
	if h.dead > 0 { // nothing begins before the word that ended the head
		w.quiet = span{i, h.cellAt(h.dead, i)}
	}
	m := match{kind: kAddress, start: i}
	var end int
	if h.number {
		end = h.fine(&m)
	} else {
		end = h.coarse(&m)
	}
	if p.open {
		return match{}, open
	}
	if end == 0 {
		return match{}, no
	}
	m.end = p.cell[end-1] + 1
	switch found := m.score() >= threshold; {
	case p.full: // it may go on: the next one begins within
		w.quiet = span{i, max(w.quiet.end, p.cell[maxAddress/2])}
	case found || m.why&ordinary != 0: // parts of it are no better
		w.quiet = span{i, max(w.quiet.end, m.end)}
	case end > maxAddress/2: // a row of numbers that are no address
		w.quiet = span{i, max(w.quiet.end, p.cell[maxAddress/4])}
	}
	return m, yes
}

// cellAt returns the cell of place k, or the one behind all that was read.
func (h *head) cellAt(k, i int) int {
	if k < h.route.n {
		return h.route.cell[k]
	}
	if h.route.n == 0 {
		return i
	}
	return h.route.cell[h.route.n-1] + 1
}

// counted reports whether a rune behind a number belongs to it.
func counted(r rune) bool {
	switch r {
	case '年', '月', '日', '时', '分', '秒', '点', '元', '岁', '个', '人', '次', '位', '名', '块', '度', '米', '万', '亿', '号', '天', '周', '楼', '栋', '幢', '室', '层', '户', '组':
		return true
	}
	return false
}

// divisions returns the end of the row of divisions at place k, before place end, and how many there are. Each is a name of
// the table, or, behind one of those, a name that ends as divisions do.
func (h *head) divisions(k, end int) (to, n int) {
	for k < end {
		size, _, short := lexicon.Division(h.route.r[k:end])
		if size == 0 {
			return k, n
		}
		k += size
		if short && k < end && (h.route.r[k] == '市' || h.route.r[k] == '省' || h.route.r[k] == '区' || h.route.r[k] == '县') {
			k++
		}
		n++
	}
	return k, n
}
