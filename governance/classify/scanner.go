package classify

import (
	"cmp"
	"slices"
	"strings"
)

// Limits of what is held back. A candidate still undecided at its limit is masked, never released.
const (
	maxDigits  = 40    // digits of one number with its separators
	maxEmail   = 254   // characters of an address
	maxSecret  = 256   // characters of one piece of a secret; a longer one becomes several findings
	maxPEM     = 16384 // characters of one piece of a private key
	maxUnion   = 20000 // characters of overlapping findings
	leftMemory = 32    // cells kept left of the scan position, for neighbours and cue words
)

// Segment is a stretch of the original text: plain when Class is empty, else a finding. Value is the finding in canonical form:
// two spellings of one number have one Value. Text and Value are the sensitive text itself: they must not be logged.
type Segment struct {
	Class Class
	Text  string
	Value string
	Start int // byte offset of Text in the whole text
	Score float64
}

// Scanner finds sensitive values in text that arrives in pieces. It belongs to one goroutine.
type Scanner struct {
	set  *Set
	w    window
	norm normaliser
	pos  int // first cell not decided yet; an index into w.cells

	buf  string // original text not given back yet
	base int    // offset of buf in the whole text
	used int    // bytes of buf that have become cells

	found []match // decided, not given back; by start
	run   *run    // a value longer than one piece, or nil
	runAt int     // cell where its next piece begins
	block int     // cell behind the last PEM block; none begins inside another

	again int   // cell where a long run of base64 is looked into again
	until []int // cells up to which the last values of a tenant's classes go

	machine machine
}

// match is a decided finding in cells.
type match struct {
	kind       kind
	start, end int
	form       float64 // what it scores by its form alone
	why        evidence
	more       *run // the value goes on behind end
	block      bool // a PEM block
}

func (m match) score() float64 { return score(m.form, m.why) }

// run says what belongs to the rest of an over-long value.
type run struct {
	kind kind
	in   func(rune) bool // nil: until the end mark of a PEM block
}

// Scanner returns a scanner at the beginning of a text.
func (s *Set) Scanner() *Scanner { return &Scanner{set: s} }

// Write takes the next piece of the text and returns what is decided now. Pieces may cut anywhere, also inside a rune.
func (s *Scanner) Write(text string) []Segment { return s.advance(text, false) }

// Close returns the rest. The scanner is at the beginning of a new text afterwards.
func (s *Scanner) Close() []Segment {
	out := s.advance("", true)
	*s = Scanner{set: s.set}
	return out
}

// Held returns how many bytes wait for more text.
func (s *Scanner) Held() int { return len(s.buf) }

func (s *Scanner) advance(text string, final bool) []Segment {
	s.buf += text
	var n int
	s.w.cells, n = s.norm.add(s.w.cells, s.buf[s.used:], s.base+s.used, final)
	s.used += n
	s.w.final = final
	s.scan()
	out := s.release()
	if final && len(s.buf) > 0 {
		out = append(out, Segment{Text: s.buf, Start: s.base}) // characters that vanished in normalisation
		s.base, s.buf, s.used = s.base+len(s.buf), "", 0
	}
	return out
}

// scan decides cell after cell until one is open.
func (s *Scanner) scan() {
	for s.pos < len(s.w.cells) {
		if s.run != nil && s.pos >= s.runAt {
			if !s.eat() {
				return
			}
			continue
		}
		found, v := s.at(s.pos)
		if v == open {
			return
		}
		for _, m := range found {
			s.add(m)
			if m.kind >= kinds && m.why&listed == 0 {
				s.until[m.kind-kinds] = m.end
			}
			if m.kind == kPerson {
				s.w.named = span{m.start, m.end}
			}
			if m.block {
				s.block = m.end
			}
			if m.more != nil && s.run == nil {
				s.run, s.runAt = m.more, m.end
			}
		}
		s.pos++
	}
}

func (s *Scanner) add(m match) {
	if s.leaves(m) {
		return
	}
	i, _ := slices.BinarySearchFunc(s.found, m, func(a, b match) int { return cmp.Or(cmp.Compare(a.start, b.start), -1) }) // behind equals
	s.found = slices.Insert(s.found, i, m)
}

// eat takes the next piece of an over-long value; false means more text is needed.
func (s *Scanner) eat() bool {
	r := s.run
	end, last, v := s.w.piece(s.pos, r)
	if v == open {
		return false
	}
	if end > s.pos {
		s.add(match{kind: r.kind, start: s.pos, end: end, form: 0.9})
	}
	s.pos, s.runAt = end, end
	if last {
		s.run = nil
	}
	return true
}

// release gives back everything left of the first open cell, except a union of findings that an open candidate could still join.
func (s *Scanner) release() []Segment {
	var out []Segment
	from := s.base
	for len(s.found) > 0 {
		m, n, closed := s.union()
		if !closed && m.end > s.pos {
			break
		}
		start, end := s.w.cells[m.start].start, s.w.cells[m.end-1].end
		start = max(start, from) // two unions may share a rune that normalised into several cells
		if end <= start {
			s.found = s.found[n:]
			continue
		}
		if start > from {
			out = append(out, Segment{Text: s.text(from, start), Start: from})
		}
		out = append(out, Segment{
			Class: s.set.class(m.kind), Text: s.text(start, end), Value: canonical(m.kind, s.w.cells[m.start:m.end]), Start: start, Score: m.score(),
		})
		from = end
		s.found = s.found[n:]
	}
	cut := s.pos
	if len(s.found) > 0 {
		cut = min(cut, s.found[0].start)
	}
	to := s.base + s.used
	if start, ok := s.norm.keeps(); ok {
		to = start
	}
	if cut < len(s.w.cells) {
		to = s.w.cells[cut].start
	}
	if to > from {
		out = append(out, Segment{Text: s.text(from, to), Start: from})
		from = to
	}
	s.forget(from, cut)
	return out
}

// union merges the findings that overlap the first one; n is how many it took. closed means that it is at its limit and ends
// there, whatever follows.
func (s *Scanner) union() (m match, n int, closed bool) {
	m = s.found[0]
	for n = 1; n < len(s.found) && s.found[n].start < m.end; n++ {
		next := &s.found[n]
		if next.end-m.start > maxUnion {
			next.start = m.end
			if next.end > next.start {
				return m, n, true
			}
			continue
		}
		if next.rank() > m.rank() {
			m.kind, m.form, m.why = next.kind, next.form, next.why
		}
		m.end = max(m.end, next.end)
	}
	return m, n, false
}

func (s *Scanner) text(from, to int) string { return s.buf[from-s.base : to-s.base] }

// forget drops text before offset from and cells no decision will look at again.
func (s *Scanner) forget(from, cut int) {
	if n := from - s.base; n > 0 {
		s.buf, s.base, s.used = strings.Clone(s.buf[n:]), from, s.used-n
	}
	drop := cut - leftMemory
	if drop < len(s.w.cells)/2 || drop <= 0 {
		return
	}
	s.w.cells = append(s.w.cells[:0], s.w.cells[drop:]...)
	s.pos -= drop
	s.runAt -= drop
	s.block -= drop
	s.w.named = span{s.w.named.start - drop, s.w.named.end - drop}
	s.again -= drop
	for n := range s.until {
		s.until[n] -= drop
	}
	s.w.quiet = span{s.w.quiet.start - drop, s.w.quiet.end - drop}
	s.w.scouted -= drop
	for i := range s.found {
		s.found[i].start -= drop
		s.found[i].end -= drop
	}
}

// at runs the detectors that may begin at cell i.
func (s *Scanner) at(i int) ([]match, verdict) {
	w := &s.w
	r := w.cells[i].r
	d := decision{on: s.set.on}
	switch {
	case r < 0x80:
		d.ascii(w, i, s.block)
	case isHan(r):
		d.han(w, i)
	case d.on.has(kCourtCase) && strings.ContainsRune(openings, r):
		d.ask(courtCase(w, i))
	}
	s.custom(&d, i)
	again := 0
	start, ok := w.runBase64(i)
	if i == s.again && i > 0 && isBase64(r) {
		start, ok = i, true
	}
	if ok && !s.set.inner {
		m, next, v := encoded(w, start, i, s.set)
		again = next
		d.ask(m, v)
	}
	if d.open {
		return nil, open
	}
	if again > 0 {
		s.again = again
	}
	return d.found, no
}

// decision collects the answers of the detectors at one cell.
type decision struct {
	on    bits
	found []match
	open  bool
}

func (d *decision) ask(m match, v verdict) {
	if v == open {
		d.open = true
	}
	if v == yes && m.score() >= threshold {
		d.found = append(d.found, m)
	}
}

// ascii runs the detectors of what begins with a character of ASCII. block is the cell behind the last PEM block.
func (d *decision) ascii(w *window, i, block int) {
	r, left := w.cells[i].r, w.at(i-1)
	d.codesAt(w, i, r, left)
	if d.on.has(kIPv4) && (isDigit(r) || misread(r) != 0 && !isAlnum(left)) {
		d.ask(ipv4(w, i))
	}
	if d.on.has(kIPv6) && (isHex(r) || r == ':') {
		d.ask(ipv6(w, i))
	}
	if isAlnum(r) {
		if d.on.has(kAddress) && !isAlnum(left) {
			d.ask(address(w, i))
		}
		if d.on.has(kEmail) {
			d.ask(email(w, i))
		}
		if d.on.has(kCrypto) {
			d.ask(cryptoAddress(w, i))
		}
		if d.on.has(kWeChat) && (isLetter(r) || r == '1' || r == '0') {
			d.ask(wechat(w, i))
		}
	}
	if d.on.has(kPerson) && isLetter(r) {
		d.ask(latin(w, i))
	}
	if d.on.has(kSecret) {
		if r == '-' && i >= block {
			d.ask(pem(w, i))
		}
		d.secrets(w, i)
	}
}

// han runs the detectors of what begins with a Chinese character.
func (d *decision) han(w *window, i int) {
	if d.on.has(kPerson) {
		d.ask(person(w, i))
	}
	d.hanCodes(w, i)
	if d.on.has(kAddress) {
		d.ask(address(w, i))
	}
	if d.on.has(kSecret) {
		d.secrets(w, i)
	}
}
