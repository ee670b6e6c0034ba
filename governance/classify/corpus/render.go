package corpus

import (
	"fmt"
	"strconv"
	"strings"
)

// piece is a stretch of a text that is being made.
type piece struct {
	text    string
	class   string // of what is sensitive
	filler  string // class of what is filled in and not sensitive
	damaged bool
}

// document fills a frame in and damages the text.
func (f frame) document(set, seed, noise string, repetition int) Document {
	r := newRandom(seed, set, f.family, f.line, noise, strconv.Itoa(repetition))
	pieces := f.fill(r, noise)
	switch noise {
	case "chat":
		pieces = chat(r, pieces)
	case "ocr":
		pieces = ocr(r, pieces)
	case "fullwidth":
		pieces = fullWidth(r, pieces)
	case "numerals":
		pieces = numerals(r, pieces)
	case "mixed":
		pieces = mixed(r, pieces)
	}
	d := Document{ID: fmt.Sprintf("%s/%s/%05d/%s", set, f.family, f.number, noise)}
	if repetition > 0 {
		d.ID += "/" + strconv.Itoa(repetition)
	}
	d.Text, d.Spans = assemble(pieces)
	return d
}

// fill puts values into the placeholders.
func (f frame) fill(r *random, noise string) []piece {
	again := map[string]value{}
	var out []piece
	for i, p := range f.parts {
		if p.class == "" {
			out = append(out, piece{text: p.text})
			continue
		}
		s := scene{random: r, family: f.family, noise: noise, before: around(f.parts[:i], 24, true), after: around(f.parts[i+1:], 12, false)}
		v, known := again[p.class+p.again]
		if !known || p.again == "" {
			v = s.value(p.class)
			again[p.class+p.again] = v
		}
		if p.filler {
			out = append(out, piece{text: v.text, filler: p.class})
			continue
		}
		out = append(out, piece{text: v.pre}, piece{text: v.text, class: p.class}, piece{text: v.post})
	}
	return out
}

// around returns the last or first n characters of the parts' text; a placeholder is a blank.
func around(parts []part, n int, last bool) string {
	text := strings.Builder{}
	for _, p := range parts {
		if p.class != "" {
			text.WriteByte(' ')
		}
		text.WriteString(p.text)
	}
	runes := []rune(text.String())
	if len(runes) <= n {
		return string(runes)
	}
	if last {
		return string(runes[len(runes)-n:])
	}
	return string(runes[:n])
}

// assemble joins the pieces and says where the sensitive ones are.
func assemble(pieces []piece) (string, []Span) {
	var text []rune
	var spans []Span
	for _, p := range pieces {
		start := len(text)
		text = append(text, []rune(p.text)...)
		if p.class != "" {
			spans = append(spans, Span{Start: start, End: len(text), Type: p.class, WellFormed: !p.damaged})
		}
	}
	return string(text), spans
}
