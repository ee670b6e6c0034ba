package mask

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

type verdict uint8

const (
	no verdict = iota
	yes
	open // more text could change the answer
)

// What reader.at says where there is no rune.
const (
	edge    rune = -1 // the end of the text
	unknown rune = -2 // not arrived yet
)

// maxContent bounds what is read between two marks, in runes.
const maxContent = 24

// reader reads pseudonyms in the spellings models give them.
type reader struct {
	text   string
	before rune             // what stood before the text
	final  bool             // nothing will follow
	cut    func(i int) bool // whether a longer word may be cut there, since what follows is replaced; nil: nowhere
	own    *own             // those that there are; nil: any may be
}

func (r *reader) at(i int) (c rune, size int) {
	if i >= len(r.text) || !r.final && !utf8.FullRuneInString(r.text[i:]) {
		if r.final {
			return edge, 0
		}
		return unknown, 0
	}
	return utf8.DecodeRuneInString(r.text[i:])
}

// literal compares the text at i.
func (r *reader) literal(i int, want string) (end int, v verdict) {
	rest := r.text[i:]
	switch {
	case strings.HasPrefix(rest, want):
		return i + len(want), yes
	case !r.final && strings.HasPrefix(want, rest):
		return i, open
	}
	return i, no
}

// prior returns the rune before i.
func (r *reader) prior(i int) rune {
	if i == 0 {
		return r.before
	}
	c, _ := utf8.DecodeLastRuneInString(r.text[:i])
	return c
}

// tagged reads a tag, one to three separators and a code, which must end there.
func (r *reader) tagged(i int, tag string) (end int, code string, v verdict) {
	i, v = r.literal(i, tag)
	if v != yes {
		return 0, "", v
	}
	for n := 0; ; n++ {
		c, size := r.at(i)
		if c == unknown {
			return 0, "", open
		}
		if !isJoint(c) {
			if n == 0 {
				return 0, "", no
			}
			return r.code(i, tag)
		}
		if n == 3 {
			return 0, "", no
		}
		i += size
	}
}

// code reads a code, which some pseudonym with the tag must have; "" is any tag. One that is still open is returned as far as it goes.
func (r *reader) code(i int, tag string) (end int, code string, v verdict) {
	var b strings.Builder
	for range codeSize {
		c, size := r.at(i)
		if c == unknown {
			if !r.own.has(tag, b.String()) {
				return 0, "", no
			}
			return 0, b.String(), open
		}
		c = upper(c)
		if c < 0 || !strings.ContainsRune(alphabet, c) {
			return 0, "", no
		}
		b.WriteRune(c)
		i += size
	}
	if !r.own.has(tag, b.String()) {
		return 0, "", no
	}
	next, _ := r.at(i)
	if next == unknown {
		return 0, b.String(), open
	}
	if isAlnum(next) && (r.cut == nil || !r.cut(i)) {
		return 0, "", no
	}
	return i, b.String(), yes
}

// closing reads up to two spaces and up to most of the given brackets behind a code; without a bracket it ends where it began.
func (r *reader) closing(i, most int, brackets string) (end int, v verdict) {
	end, i = i, r.spaces(i)
	for range most {
		c, size := r.at(i)
		if c == unknown {
			return 0, open
		}
		if c < 0 || !strings.ContainsRune(brackets, c) {
			break
		}
		i += size
		end = i
	}
	return end, yes
}

func (r *reader) spaces(i int) int {
	for range 2 {
		if c, _ := r.at(i); c == ' ' {
			i++
		}
	}
	return i
}

// match is a pseudonym read at some place: the code to look up and, unless the marks were whole, the tag it must have.
type match struct {
	end   int
	code  string
	tag   string // "": any
	exact bool   // between the right marks
	word  bool   // open, and as yet no more than a word of a text that need not go on as a pseudonym
}

// pseudonym reads a pseudonym at i. tags are those to look for where the marks are lost or replaced.
func (r *reader) pseudonym(i int, tags []string) (m match, v verdict) {
	c, size := r.at(i)
	switch c {
	case unknown:
		return m, open
	case openMark, '〚':
		if m, v = r.marked(i + size); v != no {
			return m, v
		}
		return r.named(r.spaces(i+size), 1, "⟧〛]】", tags)
	case '[', '【':
		inner, most := i+size, 1
		next, n := r.at(inner)
		if next == unknown {
			return m, open
		}
		if next == c {
			inner, most = inner+n, 2
		}
		closers := "⟧〛]"
		if c == '【' {
			closers = "⟧〛】"
		}
		return r.named(r.spaces(inner), most, closers, tags)
	}
	if m, v = r.named(i, 1, "⟧〛", tags); v != no {
		return m, v
	}
	return r.ending(i, tags)
}

// marked reads what stands between two marks: any name, then the code.
func (r *reader) marked(i int) (m match, v verdict) {
	start := i
	for n := 0; n <= maxContent; n++ {
		c, size := r.at(i)
		switch c {
		case unknown:
			return m, open
		case closeMark, '〛':
			content := []rune(strings.TrimRight(r.text[start:i], " "))
			k := len(content) - codeSize
			if k < 0 || k > 0 && isAlnum(content[k-1]) {
				return m, no
			}
			code := strings.ToUpper(string(content[k:]))
			if strings.Trim(code, alphabet) != "" {
				return m, no
			}
			return match{end: i + size, code: code, exact: true}, yes
		case edge, '\n', openMark:
			return m, no
		}
		i += size
	}
	return m, no
}

// named reads one of the tags and its code at i, and what closes it.
func (r *reader) named(i, most int, closers string, tags []string) (m match, v verdict) {
	if c, _ := r.at(i); c == unknown {
		return m, open
	}
	for _, tag := range tags {
		end, code, verdict := r.tagged(i, tag)
		if verdict == yes {
			end, verdict = r.closing(end, most, closers)
		}
		switch verdict {
		case yes:
			return match{end: end, code: code, tag: tag}, yes
		case open:
			v = open
		case no:
		}
	}
	return m, v
}

// ending reads a pseudonym whose beginning is lost: a code as a word of its own and a closing mark. A dot before it belongs to it, and so
// does what is left of the tag before the dot.
func (r *reader) ending(i int, tags []string) (m match, v verdict) {
	word := true
	try := func(found match, verdict verdict) bool {
		switch verdict {
		case yes:
			m = found
		case open:
			v, word = open, word && found.word
		case no:
		}
		return verdict == yes
	}
	if try(r.closed(i, "")) || try(r.dotted(i, "")) {
		return m, yes
	}
	for _, tag := range tags {
		for k := range tag {
			if k == 0 {
				continue // the whole tag: named has read it
			}
			found := match{word: true}
			end, verdict := r.literal(i, tag[k:])
			if verdict == yes {
				found, verdict = r.dotted(end, tag)
				found.word = end == len(r.text)
			}
			if try(found, verdict) {
				return m, yes
			}
		}
	}
	return match{word: word}, v
}

// dotted reads a dot and what closed reads behind it.
func (r *reader) dotted(i int, tag string) (m match, v verdict) {
	c, size := r.at(i)
	if c == unknown {
		return m, open
	}
	if !isDot(c) {
		return m, no
	}
	m, v = r.closed(i+size, tag)
	m.word = false
	return m, v
}

// closed reads a code of a tag and a closing mark behind it, with up to two spaces between them.
func (r *reader) closed(i int, tag string) (m match, v verdict) {
	if isAlnum(r.prior(i)) {
		return m, no
	}
	end, code, v := r.code(i, tag)
	m = match{code: code, tag: tag, word: v == open && len(code) < telling}
	if v != yes {
		return m, v
	}
	end = r.spaces(end)
	switch c, size := r.at(end); c {
	case unknown:
		return m, open
	case closeMark, '〛':
		m.end = end + size
		return m, yes
	}
	return m, no
}

// telling is how much of a code no other word is likely to begin with.
const telling = 3

func isDot(c rune) bool { return strings.ContainsRune("·•・‧⋅", c) }

func isJoint(c rune) bool { return strings.ContainsRune(" ·•・‧⋅:：-_.", c) && c > 0 }

func isAlnum(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

func upper(c rune) rune {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

func sortFindings(f []finding) {
	slices.SortFunc(f, func(a, b finding) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
}

// Restorer puts values back into a stream. It holds back only what could still become a pseudonym, at most some thirty
// characters, and gives the same text however the stream is cut. It belongs to one goroutine. The pseudonyms must
// not get new values of the caller's while it runs; pseudonyms of what the answer brings stay as they are.
//
// A stream may end inside a pseudonym. What then stands at its end and may be the beginning of one is left out, since a part of a
// pseudonym is no text: where the stream was cut off, whatever could have become a pseudonym that was given out; where it ended by itself, only what
// begins with ⟦ or 〚. So an answer that truly ends with the word 手机 keeps it.
type Restorer struct {
	pseudonyms *Pseudonyms
	own        *own
	buf        string
	before     rune   // what was taken from the stream before buf
	masked     string // what was taken from the stream for what was shown last
	unknown    int
	torn       int
	restored   map[string]int
}

// Restorer returns a restorer at the beginning of a stream.
func (v *Pseudonyms) Restorer() *Restorer {
	return &Restorer{pseudonyms: v, own: v.ownNow(), before: edge, restored: map[string]int{}}
}

// Write takes a piece of the stream and returns what can be shown.
func (r *Restorer) Write(text string) string {
	r.buf += text
	return r.advance(false, nil)
}

// Close returns the rest. A stream that was cut off says what may have come next in it and was left out: the stop strings, or "" for
// anything, as at a limit.
func (r *Restorer) Close(unsaid ...string) string {
	return r.advance(true, func(i int) bool { return r.tornAt(i, unsaid) })
}

// flush returns what is held back: no pseudonym goes on behind it.
func (r *Restorer) flush() string {
	out := r.advance(true, nil)
	r.before = edge
	return out
}

// Masked returns what the last Write or Close returned, with pseudonyms where it had values.
func (r *Restorer) Masked() string { return r.masked }

// Unknown returns how many pseudonyms were not known. They are left as they are.
func (r *Restorer) Unknown() int { return r.unknown }

// Torn returns how often the end of the stream was left out, since it may be a part of a pseudonym: at most once.
func (r *Restorer) Torn() int { return r.torn }

// Restored returns how often the value of each code was put back.
func (r *Restorer) Restored() map[string]int { return r.restored }

// advance lets out what is decided. torn, if any, says whether what is left from a place on is a pseudonym that is broken off.
func (r *Restorer) advance(final bool, torn func(i int) bool) string {
	in := reader{text: r.buf, before: r.before, final: final, own: r.own}
	var out joined
	i, plain := 0, 0 // what is plain is out up to there
	for i < len(in.text) {
		c, size := in.at(i)
		if c == unknown {
			break
		}
		if r.own.heads.may(c) {
			m, v := in.pseudonym(i, r.own.tags)
			if v == open {
				break
			}
			if v == yes {
				e, live := r.pseudonyms.lookUp(m.code)
				if live && !e.brought && (m.tag == "" || m.tag == e.tag) {
					out.add(in.text[plain:i])
					out.add(e.text)
					r.restored[m.code]++
					i, plain = m.end, m.end
					continue
				}
				if m.exact {
					r.unknown++
				}
			}
			if torn != nil && torn(i) {
				r.torn++
				break
			}
		}
		i += size
	}
	out.add(in.text[plain:i])
	r.masked = in.text[:i]
	if i > 0 {
		r.before = in.prior(i)
	}
	if final {
		i = len(in.text)
	}
	r.buf = in.text[i:] // with the next piece it becomes a text of its own
	return out.String()
}

// sentence are signs that no name of a pseudonym has: behind a stray mark they tell a text from a pseudonym.
const sentence = "，。；！？、“”（）,;!?\"()\n"

// tornAt reports whether the stream broke off in a pseudonym that begins at i, see [Restorer].
func (r *Restorer) tornAt(i int, unsaid []string) bool {
	rest := r.buf[i:]
	if len(r.own.tags) == 0 || strings.ContainsAny(rest, sentence) {
		return false
	}
	read := func(next string) (match, verdict) {
		in := reader{text: r.buf + next, before: r.before, own: r.own}
		return in.pseudonym(i, r.own.tags)
	}
	if c, _ := utf8.DecodeRuneInString(rest); c == openMark || c == '〚' {
		if _, v := read(""); v == open {
			return true
		}
	}
	for _, next := range unsaid {
		m, v := read(next)
		if v == open && !m.word || v == yes && m.end > len(r.buf) {
			return true
		}
	}
	return false
}
