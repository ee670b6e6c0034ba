package chattemplate

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// errTransformed refuses a chat whose texts cannot be told from the template's own text afterwards.
var errTransformed = errors.New("chattemplate: the chat template changes the text of a message in a way that hides where it came from; the chat is refused")

// RenderSegments returns the prompt in parts; joined, they are the prompt as one text.
func (t *Template) RenderSegments(in Input) ([]Segment, error) {
	in, err := t.prepare(in)
	if err != nil {
		return nil, err
	}
	used := noncharacters{}
	plain, err := t.render(in, used.note, "")
	if err != nil {
		return nil, err
	}
	used.note(in.BOS + in.EOS + t.source)
	with, err := used.free()
	if err != nil {
		return nil, err
	}
	marked, err := t.render(in, func(s string) string { return mark(s, with) }, with)
	if err != nil {
		return nil, err
	}
	segments := split(marked, with)
	if joinSegments(segments) != plain {
		return nil, errTransformed
	}
	return segments, nil
}

// noncharacters are those of Unicode that occur in a chat or its template.
type noncharacters map[rune]bool

const firstNoncharacter, lastNoncharacter = rune(0xFDD0), rune(0xFDEF)

func (n noncharacters) note(s string) string {
	if strings.Contains(s, "\xef\xb7") { // the first bytes of all of them
		for _, r := range s {
			if r >= firstNoncharacter && r <= lastNoncharacter {
				n[r] = true
			}
		}
	}
	return s
}

// free is one that does not occur.
func (n noncharacters) free() (string, error) {
	for r := firstNoncharacter; r <= lastNoncharacter; r++ {
		if !n[r] {
			return string(r), nil
		}
	}
	return "", errors.New("chattemplate: the messages use every noncharacter of Unicode; remove them")
}

// split takes the marks out of a rendered text.
func split(text, with string) []Segment {
	var out []Segment
	var open strings.Builder
	special := true
	flush := func() {
		if open.Len() > 0 {
			out = append(out, Segment{open.String(), special})
			open.Reset()
		}
	}
	for text != "" {
		rest, marked := strings.CutPrefix(text, with)
		if marked == special {
			flush()
			special = !marked
		}
		_, n := utf8.DecodeRuneInString(rest)
		open.WriteString(rest[:n])
		text = rest[n:]
	}
	flush()
	return out
}

func joinSegments(list []Segment) string {
	var out strings.Builder
	for _, s := range list {
		out.WriteString(s.Text)
	}
	return out.String()
}
