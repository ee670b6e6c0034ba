package chattemplate

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// errTransformed refuses a chat whose message texts cannot be told from the template's own text afterwards.
var errTransformed = errors.New("chattemplate: the chat template changes the text of a message in a way that hides where it came from; the chat is refused")

// RenderSegments returns the prompt in parts; joined, they equal the result of [Template.Render].
func (t *Template) RenderSegments(in Input) ([]Segment, error) {
	plain, err := t.Render(in)
	if err != nil {
		return nil, err
	}
	m, err := newMarker(in, t.source)
	if err != nil {
		return nil, err
	}
	marked := in
	marked.Messages = make([]Message, len(in.Messages))
	for i, msg := range in.Messages {
		marked.Messages[i] = Message{Role: msg.Role, Content: m.mark(msg.Content, t.literals), Name: m.mark(msg.Name, t.literals)}
	}
	text, err := t.render(marked)
	if err != nil {
		return nil, err
	}
	segments := m.segments(text, t.literals)
	if joinSegments(segments) != plain {
		return nil, errTransformed
	}
	return segments, nil
}

// marker holds two noncharacters of Unicode that occur neither in the chat nor in the template: char stands before every character
// of a message; literal stands next to a literal that the template looks for, whose characters must stay together to be found.
type marker struct{ char, literal string }

func newMarker(in Input, source string) (marker, error) {
	var free []string
	for r := rune(0xFDD0); r <= 0xFDEF; r++ {
		if s := string(r); !in.contains(s) && !strings.Contains(source, s) {
			free = append(free, s)
		}
	}
	if len(free) < 2 {
		return marker{}, errors.New("chattemplate: the messages use every noncharacter of Unicode; remove them")
	}
	return marker{free[0], free[1]}, nil
}

func (in Input) contains(s string) bool {
	for _, m := range in.Messages {
		if strings.Contains(m.Content, s) || strings.Contains(m.Name, s) {
			return true
		}
	}
	return strings.Contains(in.BOS, s) || strings.Contains(in.EOS, s)
}

// mark marks a text of a message. Where a template cuts a text at a literal, the mark of that literal may be left over, and if the
// template writes the same literal right before it, that counts as text of the message: the safe side. White space stays bare, so that trimming finds it; it cannot be part of a control token's name.
func (m marker) mark(s string, literals []probe) string {
	var out strings.Builder
	for s != "" {
		if p, ok := match(s, literals); ok {
			s = s[len(p.text):]
			if p.atEnd {
				out.WriteString(m.literal + p.text)
				continue
			}
			// After the white space that follows, for a template that splits there and trims; but inside what ends the text.
			space := s[:len(s)-len(strings.TrimLeftFunc(s, isSpace))]
			if space == s {
				space = ""
			}
			out.WriteString(p.text + space + m.literal)
			s = s[len(space):]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		if !isSpace(r) {
			out.WriteString(m.char)
		}
		out.WriteString(s[:n])
		s = s[n:]
	}
	return out.String()
}

// match returns the longest literal that s begins with.
func match(s string, literals []probe) (probe, bool) {
	var best probe
	for _, p := range literals {
		if len(p.text) > len(best.text) && strings.HasPrefix(s, p.text) {
			best = p
		}
	}
	return best, best.text != ""
}

// segments takes the marks out of a rendered text.
func (m marker) segments(text string, literals []probe) []Segment {
	var out builder
	for text != "" {
		if rest, ok := strings.CutPrefix(text, m.char); ok {
			_, n := utf8.DecodeRuneInString(rest)
			out.add(rest[:n], false)
			text = rest[n:]
			continue
		}
		if rest, ok := strings.CutPrefix(text, m.literal); ok { // before a literal of endswith, or left over from a cut
			p, found := match(rest, literals)
			if found && p.atEnd {
				out.add(p.text, false)
				rest = rest[len(p.text):]
			}
			text = rest
			continue
		}
		if p, ok := match(text, literals); ok {
			after := strings.TrimLeftFunc(text[len(p.text):], isSpace)
			if rest, ok := strings.CutPrefix(after, m.literal); ok {
				out.add(text[:len(text)-len(after)], false)
				text = rest
				continue
			}
		}
		_, n := utf8.DecodeRuneInString(text)
		out.add(text[:n], true)
		text = text[n:]
	}
	return out.list()
}

// builder joins neighbours of the same kind, and white space inside a message with its neighbours.
type builder struct {
	done  []Segment
	open  strings.Builder
	kind  bool
	space strings.Builder // white space after text of a message, not yet given to a side
}

func (b *builder) add(s string, special bool) {
	if r, _ := utf8.DecodeRuneInString(s); special && !b.kind && isSpace(r) && b.open.Len() > 0 {
		b.space.WriteString(s)
		return
	}
	if b.kind == special {
		b.open.WriteString(b.space.String())
		b.space.Reset()
	} else {
		b.flush(special)
	}
	b.open.WriteString(s)
}

// flush ends the open segment and begins one of the given kind with the white space between.
func (b *builder) flush(kind bool) {
	if b.open.Len() > 0 {
		b.done = append(b.done, Segment{b.open.String(), b.kind})
	}
	b.open.Reset()
	b.open.WriteString(b.space.String())
	b.space.Reset()
	b.kind = kind
}

func (b *builder) list() []Segment {
	b.flush(true)
	b.flush(true)
	return b.done
}

func joinSegments(list []Segment) string {
	var out strings.Builder
	for _, s := range list {
		out.WriteString(s.Text)
	}
	return out.String()
}
