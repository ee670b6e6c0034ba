package classify

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Limits of what is held back. A candidate still undecided at its limit is masked, never released.
const (
	maxDigits  = 40    // digits of one number with its separators
	maxEmail   = 254   // characters of an address
	maxSecret  = 256   // characters of one piece of a secret; a longer one becomes several findings
	maxPEM     = 16384 // characters of one piece of a private key
	maxUnion   = 20000 // characters of overlapping findings
	leftMemory = 32    // cells left of the scan position that most detectors look at, for neighbours and cue words
	leftKept   = 48    // cells kept left of it
)

// Segment is a stretch of the original text: plain when Class is empty, else a finding. Value is the finding in canonical form:
// two spellings of one number have one Value. Text and Value are the sensitive text itself: they must not be logged.
type Segment struct {
	Class Class
	Also  []Class // of findings that overlapped and scored less; the range is the union of all
	Text  string
	Value string
	Start int // byte offset of Text in the whole text
	Score float64
	Why   Why
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
	here    decision // on the cell that is being looked at
	bare    bool     // nobody asks for canonical forms
	silent  bool     // nor for text: what has become cells is forgotten
	given   int      // offset behind the last finding, where silent
	out     []Segment
}

// match is a decided finding in cells.
type match struct {
	kind       kind
	start, end int
	form       float64 // what it scores by its form alone
	why        evidence
	behind     int  // cells behind end that a title takes up: they say that this is a name, and are none of it
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
func (s *Set) Scanner() *Scanner {
	sc, _ := s.spare.Get().(*Scanner)
	sc.set, sc.bare, sc.silent = s, false, false
	return sc
}

// Done gives the scanner back for other texts, with nothing of this one in it. It must not be used afterwards.
func (s *Scanner) Done() {
	spare := s.set.spare
	s.reset()
	const most = 256
	if cap(s.out) > most || cap(s.found) > most || cap(s.here.found) > most { // a long text has left it with more than others need
		s.out, s.found, s.here.found = nil, nil, nil
	}
	clear(s.out[:cap(s.out)])
	clear(s.found[:cap(s.found)])
	s.set = nil // whoever uses it all the same fails, and scans nothing
	spare.Put(s)
}

// Counter returns a scanner for those who only count: its segments are findings, with neither text nor value, and it holds nothing of the text as it was written.
func (s *Set) Counter() *Scanner {
	sc := s.Scanner()
	sc.bare, sc.silent = true, true
	return sc
}

// maxPiece bounds how much of a text is looked at in one go, and with it memory and how far anything looks back; where the cut falls makes no
// difference.
const maxPiece = 8 << 10

// Write takes the next piece of the text and returns what is decided now, until the next call. Pieces may cut anywhere, also inside a rune.
func (s *Scanner) Write(text string) []Segment {
	s.out = s.out[:0]
	for len(text) > maxPiece {
		s.out = s.advance(s.out, text[:maxPiece], false)
		text = text[maxPiece:]
	}
	s.out = s.advance(s.out, text, false)
	return s.out
}

// Close returns the rest. The scanner is at the beginning of a new text afterwards.
func (s *Scanner) Close() []Segment {
	out := s.advance(nil, "", true)
	s.reset()
	return out
}

// reset goes to the beginning of a new text. It keeps room that was made, for cells unless that is large.
func (s *Scanner) reset() {
	const most = 16 << 10
	w := window{begin: s.w.begin, names: s.w.names, places: s.w.places}
	if cap(s.w.cells) <= most {
		clear(s.w.cells)
		w.cells = s.w.cells[:0]
	}
	*s = Scanner{set: s.set, w: w, found: s.found[:0], here: decision{found: s.here.found[:0]}, bare: s.bare, silent: s.silent, out: s.out[:0]}
}

// Held returns how many characters wait for more text.
func (s *Scanner) Held() int { return utf8.RuneCountInString(s.buf) }

// advance adds to out what is decided with more text.
func (s *Scanner) advance(out []Segment, text string, final bool) []Segment {
	s.buf += text
	var n int
	s.w.cells, n = s.norm.add(s.w.cells, s.buf[s.used:], s.base+s.used, final)
	if s.used += n; s.silent {
		s.buf, s.base, s.used = s.buf[s.used:], s.base+s.used, 0
	}
	s.w.final = final
	s.scan()
	out = s.release(out)
	if final && !s.silent && len(s.buf) > 0 {
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
		var may begins
		if s.run != nil {
			may = s.may(s.pos)
		} else if may = s.pass(); s.pos == len(s.w.cells) {
			return
		}
		found, v := s.at(s.pos, may)
		if v == open {
			return
		}
		for _, m := range found {
			s.add(m)
			if m.kind >= kinds && m.why&listed == 0 {
				s.until[m.kind-kinds] = m.end
			}
			if m.kind == kWeChat || m.kind == kQQ {
				s.w.account, s.w.accountOf = span{m.start, m.end}, m.kind
			}
			if m.kind == kPerson {
				s.w.named = span{m.start, m.end + m.behind}
				s.w.meet(s.w.cells[m.start:m.end])
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
func (s *Scanner) release(out []Segment) []Segment {
	from, found := s.base, s.found
	if s.silent {
		from = s.given
	}
	for len(s.found) > 0 {
		m, also, n, closed := s.union()
		if !closed && m.end > s.pos {
			break
		}
		start, end := s.w.cells[m.start].start, s.w.cells[m.end-1].end()
		start = max(start, from) // two unions may share a rune that normalised into several cells
		if end <= start {
			s.found = s.found[n:]
			continue
		}
		if s.silent {
			out = append(out, Segment{Class: s.set.class(m.kind), Start: start, Score: m.score(), Why: Why{m.form, m.why}})
			from = end
			s.found = s.found[n:]
			continue
		}
		if start > from {
			out = append(out, Segment{Text: s.text(from, start), Start: from})
		}
		seg := Segment{Class: s.set.class(m.kind), Text: s.text(start, end), Start: start, Score: m.score(), Why: Why{m.form, m.why}}
		if !s.bare {
			seg.Also, seg.Value = s.set.classes(also, m.kind), canonical(m.kind, s.w.cells[m.start:m.end])
		}
		out = append(out, seg)
		from = end
		s.found = s.found[n:]
	}
	s.found = append(found[:0], s.found...)
	cut := s.pos
	if len(s.found) > 0 {
		cut = min(cut, s.found[0].start)
	}
	if s.silent {
		s.given = from
		s.forget(s.base, cut)
		return out
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

// union merges the findings that overlap the first one; n is how many it took, and also are their kinds if there are several. closed
// means that it is at its limit and ends there, whatever follows.
func (s *Scanner) union() (m match, also []kind, n int, closed bool) {
	m = s.found[0]
	for n = 1; n < len(s.found) && s.found[n].start < m.end; n++ {
		next := &s.found[n]
		if next.end-m.start > maxUnion {
			next.start = m.end
			if next.end > next.start {
				return m, also, n, true
			}
			continue
		}
		if next.kind != m.kind {
			also = append(also, m.kind, next.kind)
		}
		if next.rank() > m.rank() {
			m.kind, m.form, m.why = next.kind, next.form, next.why
		}
		m.end = max(m.end, next.end)
	}
	return m, also, n, false
}

// classes returns the classes of kinds, each once, without that of best.
func (s *Set) classes(kinds []kind, best kind) []Class {
	var out []Class
	for _, k := range kinds {
		if c := s.class(k); k != best && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

func (s *Scanner) text(from, to int) string { return s.buf[from-s.base : to-s.base] }

// forget drops text before offset from and cells no decision will look at again.
func (s *Scanner) forget(from, cut int) {
	if n := from - s.base; n > 0 {
		s.buf, s.base, s.used = s.buf[n:], from, s.used-n // with the next piece it becomes a text of its own
	}
	drop := cut - leftKept
	if drop < len(s.w.cells)/2 || drop <= 0 {
		return
	}
	kept := append(s.w.cells[:0], s.w.cells[drop:]...)
	clear(s.w.cells[len(kept):])
	s.w.cells = kept
	s.pos -= drop
	s.runAt -= drop
	s.block -= drop
	s.w.named = span{s.w.named.start - drop, s.w.named.end - drop}
	s.w.account = span{s.w.account.start - drop, s.w.account.end - drop}
	s.again -= drop
	for n := range s.until {
		s.until[n] -= drop
	}
	s.w.quiet = span{s.w.quiet.start - drop, s.w.quiet.end - drop}
	s.w.scouted -= drop
	s.w.companyless -= drop
	s.w.companyEnd -= drop
	s.w.words = [len(s.w.words)]knownWord{}
	s.w.costs = [len(s.w.costs)]knownCosts{}
	for i := range s.found {
		s.found[i].start -= drop
		s.found[i].end -= drop
	}
}

// pass goes on to the next cell where anything may begin, and returns what.
func (s *Scanner) pass() begins {
	if s.ownBegins() != 0 {
		return s.may(s.pos)
	}
	cells, table := s.w.cells, s.w.beginTable()
	left := s.w.at(s.pos - 1)
	companies := s.set.on.has(kCompany)
	for ; s.pos < len(cells); s.pos++ {
		c := &cells[s.pos]
		if may := table.of(c, left); may != 0 || companies && s.pos >= s.w.companyless || s.pos == s.again {
			if may = s.correct(s.pos, may); may != 0 {
				return may
			}
		}
		left = c.r
	}
	return 0
}

// own is what classes of a tenant and known values begin with: any character.
const own begins = 1 << 31

// may returns what may begin at cell i.
func (s *Scanner) may(i int) begins {
	return s.correct(i, s.w.beginTable().of(&s.w.cells[i], s.w.at(i-1))|s.ownBegins())
}

// correct corrects what may begin at cell i by what was seen before it.
func (s *Scanner) correct(i int, may begins) begins {
	if i > s.w.quiet.start && i < s.w.quiet.end {
		may &^= beginAddress
	}
	if i == s.again && i > 0 {
		may |= beginBase64
	}
	if may &^= beginCompany; s.set.on.has(kCompany) && s.w.beginsCompany(i) {
		may |= beginCompany
	}
	return may
}

// ownBegins is own if there are such classes or values.
func (s *Scanner) ownBegins() begins {
	if len(s.set.custom) > 0 || s.set.known != nil {
		return own
	}
	return 0
}

// at runs the detectors that may begin at cell i.
func (s *Scanner) at(i int, may begins) ([]match, verdict) {
	w := &s.w
	r := w.cells[i].r
	d := &s.here
	d.on, d.may, d.found, d.open = s.set.on, may, d.found[:0], false
	switch {
	case r < 0x80:
		d.ascii(w, i, s.block)
	case isHan(r):
		d.han(w, i)
	case d.on.has(kCourtCase) && may&beginCodes != 0:
		d.ask(courtCase(w, i))
	}
	if may&own != 0 {
		s.custom(d, i)
	}
	again := 0
	if may&beginBase64 != 0 && !s.set.inner {
		start, ok := w.runBase64(i)
		if i == s.again && i > 0 && isBase64(r) {
			start, ok = i, true
		}
		if ok {
			m, next, v := encoded(w, start, i, s.set)
			again = next
			d.ask(m, v)
		}
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
	may   begins
	found []match
	open  bool
}

func (d *decision) ask(m match, v verdict) {
	if v != no { // most answers are no, and cost no call
		d.take(m, v)
	}
}

func (d *decision) take(m match, v verdict) {
	if v == open {
		d.open = true
	}
	if v == yes && m.score() >= threshold {
		d.found = append(d.found, m)
	}
}

// asks reports whether the detector of a kind has to be asked.
func (d *decision) asks(k kind, b begins) bool { return d.may&b != 0 && d.on.has(k) }

// ascii runs the detectors of what begins with a character of ASCII. block is the cell behind the last PEM block.
func (d *decision) ascii(w *window, i, block int) {
	r := w.cells[i].r
	if d.may&beginEmail != 0 {
		d.may = w.refine(i, d.may)
	}
	if d.may&beginCodes != 0 {
		d.codesAt(w, i, r, w.at(i-1))
	}
	if d.asks(kIPv4, beginIPv4) {
		d.ask(ipv4(w, i))
	}
	if d.asks(kIPv6, beginIPv6) {
		d.ask(ipv6(w, i))
	}
	if d.asks(kAddress, beginAddress) {
		d.ask(address(w, i))
	}
	if d.asks(kEmail, beginEmail) {
		d.ask(email(w, i))
	}
	if d.asks(kCrypto, beginCrypto) {
		d.ask(cryptoAddress(w, i))
	}
	if d.asks(kWeChat, beginWeChat) {
		d.ask(wechat(w, i))
	}
	if d.asks(kPerson, beginName) {
		d.ask(latin(w, i))
	}
	if d.asks(kSecret, beginKey) && i >= block {
		d.ask(pem(w, i))
	}
	if d.asks(kSecret, beginSecret) {
		d.secrets(w, i)
	}
	if d.asks(kSecret, beginLogin) {
		d.logins(w, i)
	}
}

// han runs the detectors of what begins with a Chinese character.
func (d *decision) han(w *window, i int) {
	if d.asks(kPerson, beginName) {
		d.ask(person(w, i))
	}
	if d.asks(kCompany, beginCompany) {
		d.ask(company(w, i))
	}
	if d.may&beginCodes != 0 {
		d.hanCodes(w, i)
	}
	if d.asks(kAddress, beginAddress) {
		d.ask(address(w, i))
	}
	if d.asks(kSecret, beginSecret) {
		d.secrets(w, i)
	}
}
