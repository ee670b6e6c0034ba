// Package address finds postal addresses: rows of names that go down to numbers of buildings, units and rooms, or that stand behind a label.
package address

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
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

// Detector finds postal addresses.
type Detector struct {
	finding.Window
	places   *placeTable  // set when first asked for
	route    route        // of the address being looked at
	head     head         // the same
	excluded text.Stretch // inside, no address begins; its first cell found that out
	ahead    text.Place   // up to here it is known that an address may begin
}

// placeTable returns the table of places.
func (w *Detector) placeTable() *placeTable {
	if w.places == nil {
		w.places = places()
	}
	return w.places
}

// Detect looks for the address that begins at place i.
func (w *Detector) Detect(d *finding.Decision, i int) {
	if d.On.Has(finding.Address) {
		d.Ask(address(w, i))
	}
}

// Excludes reports whether it is known that no address begins at place i.
func (w *Detector) Excludes(i int) bool {
	p := w.Place(i)
	return p > w.excluded.Start && p < w.excluded.End
}

// Triggers says what may begin with r behind left.
func Triggers(r, left rune) finding.Triggers {
	if r < 0x80 {
		if text.IsAlnum(r) && !text.IsAlnum(left) && left != '-' && left != '.' && left != '_' && left != '/' {
			return finding.TriggerAddress
		}
		return 0
	}
	if f := places().of(r); f&placeStop == 0 || f&(placeWord|placeExempt) != 0 {
		return finding.TriggerAddress
	}
	return 0
}

// Refine takes away what does not begin at place i, where a row of letters and digits begins that ends before place e with next behind it.
func (w *Detector) Refine(i, e int, next rune, may finding.Triggers) finding.Triggers {
	switch first, second := w.At(i), w.At(i+1); {
	case text.IsLetter(first) && text.IsLetter(second) && !(text.Misread(first) != 0 && text.Misread(second) != 0):
		may &^= finding.TriggerAddress // one letter alone names a building
	case text.IsDigit(first) && addressStops.Has(next) && !w.Any(i, e, text.IsLetter) && (next != '.' || text.IsDigit(w.At(e+1))):
		may &^= finding.TriggerAddress // a number counts something there
	}
	return may
}

// route is what an address is read from: the cells from some cell on, without blanks. It is filled as far as it is read.
type route struct {
	w    *Detector
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
			return text.Edge
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
	r := p.w.At(i)
	for n := 0; n < 2 && p.n > 0 && (r == ' ' || r == '\n'); n++ {
		i++
		r = p.w.At(i)
	}
	switch {
	case r == text.Unknown:
		p.open = true
		return false
	case r == text.Edge || r < ' ':
		return false
	}
	p.gap[p.n] = i > p.next
	p.r[p.n], p.cell[p.n] = r, i
	p.n++
	p.next = i + 1
	return true
}

// blank reports whether blanks stand before the rune at place k.
func (p *route) blank(k int) bool { return k > 0 && p.at(k) != text.Edge && p.gap[k] }

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

// any returns the length of the longest of some words, in runes, that stands at place k.
func (p *route) any(k int, list *text.List) int {
	at := slices.Index(list.First, p.at(k))
	if at < 0 {
		return 0
	}
	longest := 0
	for _, word := range list.Begins[at] {
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
func (p *route) endsWith(from, k int, list *text.List) bool {
	if k <= from {
		return false
	}
	r := p.at(k - 1)
	if !list.Last.Has(r) {
		return false
	}
	var buf [utf8.UTFMax]byte
	last := buf[:utf8.EncodeRune(buf[:], r)]
	for _, word := range list.Words {
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
func address(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if w.Excludes(i) {
		return finding.Candidate{}, text.No
	}
	first, left := w.At(i), w.At(i-1)
	if !text.IsHan(first) && (text.IsAlnum(left) || left == '-' || left == '.' || left == '_' || left == '/') {
		return finding.Candidate{}, text.No
	}
	if text.IsLetter(first) && text.IsLetter(w.At(i+1)) && !(text.Misread(first) != 0 && text.Misread(w.At(i+1)) != 0) {
		return finding.Candidate{}, text.No // a word: one letter alone names a building
	}
	t := w.placeTable()
	if text.IsHan(first) {
		if w.Place(i) >= w.ahead && t.before(w, i).why == 0 {
			if t.lookAhead(w, i) {
				return finding.Candidate{}, text.No
			}
		}
		if text.IsDigit(left) && counted(first) {
			return finding.Candidate{}, text.No
		}
	}
	p := &w.route
	p.w, p.n, p.next, p.full, p.open = w, 0, i, false, false
	h := &w.head
	*h = head{route: p, table: t}
	h.scan()
	if p.open {
		return finding.Candidate{}, text.Open
	}
	if h.noneBefore > 0 { // nothing begins before the word that ended the head
		w.excluded = w.Stretch(i, h.cellAt(h.noneBefore, i))
	}
	m := finding.Candidate{Kind: finding.Address, Start: i}
	var end int
	if h.number {
		end = h.fine(&m)
	} else {
		end = h.coarse(&m)
	}
	if p.open {
		return finding.Candidate{}, text.Open
	}
	if end == 0 {
		return finding.Candidate{}, text.No
	}
	m.End = p.cell[end-1] + 1
	switch found := m.Score() >= finding.Threshold; {
	case p.full: // it may go on: the next one begins within
		w.excluded = w.Stretch(i, max(w.Index(w.excluded.End), p.cell[maxAddress/2]))
	case found || m.Evidence&finding.Ordinary != 0: // parts of it are no better
		w.excluded = w.Stretch(i, max(w.Index(w.excluded.End), m.End))
	case end > maxAddress/2: // a row of numbers that are no address
		w.excluded = w.Stretch(i, max(w.Index(w.excluded.End), p.cell[maxAddress/4]))
	}
	return m, text.Yes
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

// addressStops stand behind a number that counts nothing.
var addressStops = text.RunesOf(",.:;/)]}\"'|=%&*+<>?!@_~`^$(")
