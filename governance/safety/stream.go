package safety

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// BlockedError says that a text was stopped because of a risk. It holds no text.
type BlockedError struct{ Risk Risk }

// Error implements error.
func (e *BlockedError) Error() string { return "blocked: " + string(e.Risk) }

var errEnded = errors.New("safety: the stream has ended")

// maxUnseen bounds the invisible characters in a row that a stream may have where something waits: words are looked for on both sides of them.
const maxUnseen = 256

// StreamConfig says what a stream is looked at for.
type StreamConfig struct {
	Matchers []*Matcher
	Links    Links
	// Soften replaces what would block, for a whole text that the reader has not asked a model for.
	Soften bool
	// Hit is told of each match, once. It must not be nil.
	Hit func(Hit)
}

// Active reports whether anything is looked for.
func (c StreamConfig) Active() bool {
	return c.Links.Action != "" || slices.ContainsFunc(c.Matchers, func(m *Matcher) bool { return !m.Empty() })
}

// Stream lets an answer out without what rules block or replace; where none does, nothing waits. It belongs to one goroutine.
type Stream struct {
	cfg    StreamConfig
	scans  []*scan
	holds  bool // something blocks or replaces
	links  linkScan
	buf    []byte // what has not left
	base   int    // offset of buf
	read   int    // offset up to which characters were read
	unseen int    // invisible characters in a row
	edits  []edit // apart from each other, in order; only the last may go on
	pieces []piece
	failed error
}

// edit leaves a part of the text out, and puts something there.
type edit struct {
	start, end int
	open       bool // it goes on behind end
	put        string
}

// piece is a piece of the text as it came, and what it is called where values have pseudonyms.
type piece struct {
	end    int    // offset
	masked string // "" and same: as shown
	same   bool
	edited bool
}

// NewStream returns a stream at its beginning.
func NewStream(cfg StreamConfig) *Stream {
	s := &Stream{cfg: cfg, links: linkScan{links: cfg.Links}}
	s.holds = cfg.Links.Action == Block || cfg.Links.Action == Replace
	for _, m := range cfg.Matchers {
		if !m.Empty() {
			s.holds = s.holds || m.holds
			s.scans = append(s.scans, m.scan(Output))
		}
	}
	return s
}

// Write takes a piece of the text, and how it reads with pseudonyms in place of values. It returns what may be shown now, in both forms. Error:
// *BlockedError, after which nothing more is shown.
func (s *Stream) Write(shown, masked string) (outShown, outMasked string, err error) {
	if s.failed != nil {
		return "", "", s.failed
	}
	s.add(shown, masked)
	if err := s.scan(false); err != nil {
		return "", "", err
	}
	outShown, outMasked = s.emit(s.frontier())
	return outShown, outMasked, nil
}

// Close returns the rest; nothing can be written afterwards.
func (s *Stream) Close() (shown, masked string, err error) {
	if s.failed != nil {
		return "", "", s.failed
	}
	if err := s.scan(true); err != nil {
		return "", "", err
	}
	shown, masked = s.emit(s.base + len(s.buf))
	s.failed = errEnded
	return shown, masked, nil
}

// Held returns how many characters wait for what follows.
func (s *Stream) Held() int { return utf8.RuneCount(s.buf) }

// add keeps a piece. Where both forms begin and end alike, they are cut alike.
func (s *Stream) add(shown, masked string) {
	head := commonHead(shown, masked)
	tail := commonTail(shown[head:], masked[head:])
	at := s.base + len(s.buf)
	for _, p := range []struct {
		n      int
		masked string
		same   bool
	}{{head, "", true}, {len(shown) - head - tail, masked[head : len(masked)-tail], false}, {tail, "", true}} {
		if p.n == 0 && p.masked == "" {
			continue
		}
		at += p.n
		if k := len(s.pieces) - 1; k >= 0 && p.same && s.pieces[k].same {
			s.pieces[k].end = at
			continue
		}
		s.pieces = append(s.pieces, piece{end: at, masked: p.masked, same: p.same})
	}
	s.buf = append(s.buf, shown...)
}

func commonHead(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func commonTail(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// scan reads what has come. A character that is not whole waits, unless nothing follows.
func (s *Stream) scan(final bool) error {
	for {
		rest := s.buf[s.read-s.base:]
		if len(rest) == 0 || !final && !utf8.FullRune(rest) {
			break
		}
		r, size := utf8.DecodeRune(rest)
		if err := s.one(r, size); err != nil {
			return err
		}
	}
	if !final {
		return nil
	}
	if s.cfg.Links.Action != "" {
		if err := s.link(-1, s.read); err != nil {
			return err
		}
	}
	for _, c := range s.scans {
		c.finish()
	}
	return s.decide(s.read + 1)
}

func (s *Stream) one(r rune, size int) error {
	at := s.read
	s.read += size
	if classOf(r) == unseen {
		if s.unseen++; s.unseen > maxUnseen && s.holds && !s.cfg.Soften {
			return s.apply(edit{}, Hit{Rule: "unseen", Library: builtIn, Risk: RiskHidden, Action: Block})
		}
	} else {
		s.unseen = 0
	}
	if s.cfg.Links.Action != "" {
		if err := s.link(r, at); err != nil {
			return err
		}
	}
	for _, c := range s.scans {
		c.read(r, at, s.read)
	}
	return s.decide(-1)
}

func (s *Stream) link(r rune, at int) error {
	switch start := s.links.start; s.links.read(r, at) {
	case linkRefused:
		return s.apply(edit{start, at, s.links.state != noLink, Replacement}, Hit{Rule: "link", Library: builtIn, Risk: RiskLink, Action: s.cfg.Links.Action})
	case linkEnded:
		if n := len(s.edits); n > 0 && s.edits[n-1].open {
			s.edits[n-1].open, s.edits[n-1].end = false, max(s.edits[n-1].end, at)
		}
	case linkNothing:
	}
	return nil
}

// decide takes the matches that nothing can change any more; to >= 0: all that begin before it.
func (s *Stream) decide(to int) error {
	for _, c := range s.scans {
		if len(c.waits) == 0 && len(c.voids) == 0 {
			continue
		}
		frontier := to
		if to < 0 {
			frontier = c.frontier(s.read)
		}
		for _, m := range c.decided(frontier) {
			if err := s.apply(edit{m.start, m.end, false, Replacement}, c.m.rules[m.rule].hit); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply counts a hit and does what it says.
func (s *Stream) apply(e edit, h Hit) error {
	if s.cfg.Soften && h.Action == Block {
		h.Action = Replace
	}
	s.cfg.Hit(h)
	switch h.Action {
	case Replace:
		s.replace(e)
	case Block:
		s.failed = &BlockedError{Risk: h.Risk}
		s.buf, s.edits, s.pieces = nil, nil, nil
		return s.failed
	case Review, Note:
	}
	return nil
}

// replace adds an edit. What hangs together is replaced once. It begins near the last one, since only what is not decided can become one.
func (s *Stream) replace(e edit) {
	at := len(s.edits)
	for at > 0 && s.edits[at-1].start > e.start {
		at--
	}
	if before := at - 1; before >= 0 && (s.edits[before].open || s.edits[before].end > e.start) {
		at, e.start, e.put = before, s.edits[before].start, s.edits[before].put
	}
	end := at
	for ; end < len(s.edits) && (s.edits[end].start <= e.start || e.open || s.edits[end].start < e.end); end++ {
		e.end, e.open = max(e.end, s.edits[end].end), e.open || s.edits[end].open
	}
	s.edits = slices.Replace(s.edits, at, end, e)
}

// frontier returns the offset before which the text may leave.
func (s *Stream) frontier() int {
	at := s.read
	if !s.holds {
		return at
	}
	for _, c := range s.scans {
		at = min(at, c.frontier(s.read))
	}
	return min(at, s.links.frontier(s.read))
}

// emit lets the text before an offset out.
func (s *Stream) emit(to int) (shown, masked string) {
	if to <= s.base {
		return "", ""
	}
	if len(s.edits) == 0 && len(s.pieces) > 0 && s.pieces[0].same && s.pieces[0].end >= to { // most texts
		out := string(s.buf[:to-s.base])
		s.drop(to)
		return out, out
	}
	var all, other strings.Builder
	edits := s.edits
	for at := s.base; at < to; {
		p := &s.pieces[0]
		end := min(p.end, to)
		edited := s.cut(&all, edits, at, end)
		p.edited = p.edited || edited
		switch {
		case p.same:
			s.cut(&other, edits, at, end)
		case end == p.end && p.edited:
			other.WriteString(Replacement)
		case end == p.end:
			other.WriteString(p.masked)
		}
		for len(edits) > 0 && !edits[0].open && edits[0].end <= end {
			edits = edits[1:]
		}
		at = end
		for len(s.pieces) > 0 && s.pieces[0].end <= at {
			if q := s.pieces[0]; q.end == at && &s.pieces[0] != p && !q.same {
				other.WriteString(q.masked) // a value that is shown as nothing
			}
			s.pieces = s.pieces[1:]
		}
	}
	s.edits = append(s.edits[:0], edits...)
	if len(s.edits) > 0 && s.edits[0].start < to { // what is put there has left
		s.edits[0].start, s.edits[0].put = to, ""
	}
	s.drop(to)
	return all.String(), other.String()
}

// cut writes a part of the text with its edits, of which none ends before it, and reports whether it has any.
func (s *Stream) cut(to *strings.Builder, edits []edit, start, end int) bool {
	at, edited := start, false
	for _, e := range edits {
		if e.start >= end {
			break
		}
		edited = true
		if e.start >= start {
			to.Write(s.buf[at-s.base : e.start-s.base])
			to.WriteString(e.put)
		}
		if at = e.end; e.open || at > end {
			at = end
		}
	}
	to.Write(s.buf[at-s.base : end-s.base])
	return edited
}

// drop forgets the text before an offset.
func (s *Stream) drop(to int) {
	s.buf = s.buf[:copy(s.buf, s.buf[to-s.base:])]
	s.base = to
	for len(s.pieces) > 0 && s.pieces[0].end <= to {
		s.pieces = s.pieces[1:]
	}
}
