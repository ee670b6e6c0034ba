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
	text  string
	final bool             // nothing will follow
	cut   func(i int) bool // whether a longer word may be cut there, since what follows is replaced; nil: nowhere
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
			return r.code(i)
		}
		if n == 3 {
			return 0, "", no
		}
		i += size
	}
}

func (r *reader) code(i int) (end int, code string, v verdict) {
	var b strings.Builder
	for range codeSize {
		c, size := r.at(i)
		if c == unknown {
			return 0, "", open
		}
		c = upper(c)
		if c < 0 || !strings.ContainsRune(alphabet, c) {
			return 0, "", no
		}
		b.WriteRune(c)
		i += size
	}
	next, _ := r.at(i)
	if next == unknown {
		return 0, "", open
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
	return r.named(i, 1, "⟧〛", tags)
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
// characters, and gives the same text however the stream is cut. It belongs to one goroutine. The vault must
// not get new values of the caller's while it runs; pseudonyms of what the answer brings stay as they are.
type Restorer struct {
	vault   *Vault
	tags    []string
	buf     string
	masked  string // what was taken from the stream for what was shown last
	unknown int
}

// Restorer returns a restorer at the beginning of a stream.
func (v *Vault) Restorer() *Restorer { return &Restorer{vault: v, tags: v.liveTags()} }

// Write takes a piece of the stream and returns what can be shown.
func (r *Restorer) Write(text string) string {
	r.buf += text
	return r.advance(false)
}

// Close returns the rest.
func (r *Restorer) Close() string { return r.flush() }

// flush returns what is held back: no pseudonym goes on behind it.
func (r *Restorer) flush() string { return r.advance(true) }

// Masked returns what the last Write or Close returned, with pseudonyms where it had values.
func (r *Restorer) Masked() string { return r.masked }

// Unknown returns how many pseudonyms the vault did not know. They are left as they are.
func (r *Restorer) Unknown() int { return r.unknown }

func (r *Restorer) advance(final bool) string {
	in := reader{text: r.buf, final: final}
	var out strings.Builder
	i := 0
	for i < len(in.text) {
		c, size := in.at(i)
		if c == unknown {
			break
		}
		m, v := in.pseudonym(i, r.tags)
		if v == open {
			break
		}
		if v == yes {
			e, live := r.vault.lookUp(m.code)
			if live && !e.brought && (m.tag == "" || m.tag == e.tag) {
				out.WriteString(e.text)
				i = m.end
				continue
			}
			if m.exact {
				r.unknown++
			}
		}
		out.WriteString(in.text[i : i+size])
		i += size
	}
	r.masked, r.buf = in.text[:i], strings.Clone(in.text[i:])
	return out.String()
}
