// Package chunk is a leaf: it splits a text into overlapping chunks for retrieval.
//
// A chunk is a range of the text: text[Start:End], nothing added and nothing normalised, so that a citation can point at it. Chunks
// follow the structure: none crosses a heading, what is to stay whole stays whole if it fits, and they end at paragraphs, else at sentences, else
// between characters.
package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Heading marks the line of a text that opens a section.
type Heading struct{ Start, End, Level int }

// Range is a part of a text that is not divided if it is as long as a chunk or shorter, such as a table.
type Range struct{ Start, End int }

// Config says how long chunks are, in characters. The zero value means 512 with an overlap of 64.
type Config struct{ Size, Overlap int }

// Chunk is one range of the text.
type Chunk struct {
	Start, End int    // bytes of the text; begins and ends with a character that is not white space
	Section    string // the headings above it, from the highest, joined by " > "
}

// Split splits text. headings and whole must be in order and must not overlap; those out of range or inside a character are ignored.
func Split(text string, headings []Heading, whole []Range, cfg Config) []Chunk {
	if cfg.Size <= 0 {
		cfg.Size, cfg.Overlap = 512, 64
	}
	cfg.Overlap = max(0, min(cfg.Overlap, cfg.Size/2))
	var out []Chunk
	whole = together(text, whole, cfg.Size)
	for _, s := range sections(text, headings) {
		for len(whole) > 0 && whole[0].Start < s.start {
			whole = whole[1:]
		}
		n := 0
		for n < len(whole) && whole[n].End <= s.end {
			n++
		}
		for _, p := range pack(units(text, s.start, s.end, cfg.Size, whole[:n]), cfg) {
			out = append(out, Chunk{p.start, p.end, s.path})
		}
	}
	return out
}

// together returns the ranges that can stay whole.
func together(text string, whole []Range, size int) []Range {
	var out []Range
	last := 0
	for _, w := range whole {
		if w.Start < last || w.End <= w.Start || w.End > len(text) || !utf8.RuneStart(text[w.Start]) || w.End < len(text) && !utf8.RuneStart(text[w.End]) {
			continue
		}
		if last = w.End; utf8.RuneCountInString(text[w.Start:w.End]) <= size {
			out = append(out, w)
		}
	}
	return out
}

type span struct{ start, end int }

type section struct {
	span
	path string
}

// sections cuts the text at its headings. A heading without text of its own opens the section after it.
func sections(text string, headings []Heading) []section {
	var out []section
	var above []Heading
	var path string
	start, body := 0, 0 // where the section begins, and where the text after its heading does
	for _, h := range headings {
		if h.Start < body || h.End <= h.Start || h.End > len(text) || !utf8.RuneStart(text[h.Start]) ||
			h.End < len(text) && !utf8.RuneStart(text[h.End]) {
			continue
		}
		if strings.TrimSpace(text[body:h.Start]) != "" {
			out = append(out, section{span{start, h.Start}, path})
			start = h.Start
		}
		for len(above) > 0 && above[len(above)-1].Level >= h.Level {
			above = above[:len(above)-1]
		}
		above = append(above, h)
		path = join(text, above)
		body = h.End
	}
	return append(out, section{span{start, len(text)}, path})
}

func join(text string, path []Heading) string {
	titles := make([]string, len(path))
	for i, h := range path {
		titles[i] = short(strings.Join(strings.Fields(text[h.Start:h.End]), " "))
	}
	return strings.Join(titles, " > ")
}

// short cuts what is too long for a heading: every chunk of the section repeats it.
func short(s string) string {
	n := 0
	for i := range s {
		if n++; n > 120 {
			return s[:i] + "…"
		}
	}
	return s
}

// unit is a sentence, or a part of one that is too long.
type unit struct {
	span
	from, to int // the same in characters of the section
	para     int // number of its paragraph
}

// units cuts a section into sentences of at most size characters, and leaves some ranges of it whole.
func units(text string, start, end, size int, whole []Range) []unit {
	var out []unit
	para, count := 0, 0 // count: characters before from
	from, n := start, 0
	flush := func(to int) {
		if s := trim(text, from, to); s.start < s.end {
			first := count + utf8.RuneCountInString(text[from:s.start])
			out = append(out, unit{s, first, first + utf8.RuneCountInString(text[s.start:s.end]), para})
		}
		count += n
		from, n = to, 0
	}
	for i := start; i < end; {
		if len(whole) > 0 && i >= whole[0].Start {
			if i == whole[0].Start {
				flush(i)
				para++
				n = utf8.RuneCountInString(text[i:whole[0].End])
				i = whole[0].End
				flush(i)
				para++
			}
			whole = whole[1:]
			continue
		}
		r, w := utf8.DecodeRuneInString(text[i:end])
		i += w
		n++
		if r == '\n' && blankLine(text[i:end]) {
			flush(i)
			para++
			continue
		}
		if r == '\n' || ends(r, text[i:end]) || n >= size && !continues(text[i:end]) || n >= 2*size {
			flush(i)
		}
	}
	flush(end)
	return out
}

// blankLine reports whether the next line is empty.
func blankLine(rest string) bool {
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line) == ""
}

// ends reports whether r ends a sentence that rest follows.
func ends(r rune, rest string) bool {
	next, _ := utf8.DecodeRuneInString(rest)
	switch r {
	case '。', '！', '？', '；', '…':
		return !strings.ContainsRune("。！？；…”’」』）", next)
	case '.', '!', '?':
		return unicode.IsSpace(next)
	}
	return false
}

// continues reports whether the next character belongs to the last one, as an accent does.
func continues(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return unicode.Is(unicode.M, r)
}

func trim(text string, start, end int) span {
	s := text[start:end]
	lead := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	if lead == len(s) {
		return span{end, end}
	}
	return span{start + lead, start + len(strings.TrimRightFunc(s, unicode.IsSpace))}
}

// pack joins units to chunks of at most the configured size. Each chunk begins with as many units of the previous one as fit the
// overlap. A chunk that has reached half its size prefers to end with a paragraph.
func pack(us []unit, cfg Config) []span {
	var out []span
	for i := 0; i < len(us); {
		j := i + 1
		for j < len(us) && us[j].to-us[i].from <= cfg.Size {
			j++
		}
		if j < len(us) {
			j = paragraphEnd(us, i, j, cfg.Size/2)
		}
		out = append(out, span{us[i].start, us[j-1].end})
		if j == len(us) {
			break
		}
		k := j
		for k-1 > i && us[j-1].to-us[k-1].from <= cfg.Overlap {
			k--
		}
		i = k
	}
	return out
}

// paragraphEnd returns the last end of a paragraph in us[i:j] after which the chunk has least characters or more, else j.
func paragraphEnd(us []unit, i, j, least int) int {
	for k := j - 1; k >= i && us[k].to-us[i].from >= least; k-- {
		if us[k].para != us[k+1].para {
			return k + 1
		}
	}
	return j
}
