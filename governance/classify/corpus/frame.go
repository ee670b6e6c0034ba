package corpus

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// part is a stretch of a frame: text as it is, or a placeholder.
type part struct {
	text   string
	class  string // of a placeholder
	again  string // values with the same class and mark are the same in one frame
	filler bool   // not sensitive
}

var placeholder = regexp.MustCompile(`^\{([a-z][a-z0-9_]*)(?:#([0-9]+))?(?:/([^{}/]+))?\}`)

// parseFrame reads a frame. A brace that is not followed by a small letter is text, so that frames can
// hold JSON, and so is an unknown name behind a slash, as in /users/{id}.
func parseFrame(line string) ([]part, error) {
	var out []part
	text := strings.Builder{}
	flush := func() {
		if text.Len() > 0 {
			out = append(out, part{text: text.String()})
			text.Reset()
		}
	}
	for rest := line; rest != ""; {
		if rest[0] != '{' || len(rest) == 1 || rest[1] < 'a' || rest[1] > 'z' {
			text.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		m := placeholder.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("the placeholder that begins with %.30q is not of the form {class}, {class#1} or {class/label}", rest)
		}
		p := part{class: m[1], again: m[2], filler: slices.Contains(fillers(), m[1])}
		if !p.filler && !slices.Contains(allClasses(), p.class) {
			if strings.HasSuffix(text.String(), "/") {
				text.WriteString(m[0])
				rest = rest[len(m[0]):]
				continue
			}
			return nil, fmt.Errorf("{%s} is neither a class nor a filler", p.class)
		}
		flush()
		out = append(out, p)
		rest = rest[len(m[0]):]
	}
	flush()
	return out, nil
}

// parseMarked reads a line whose values are marked ⟪class:text⟫.
func parseMarked(line string) (text string, spans []Span, err error) {
	var out []rune
	for rest := line; ; {
		i := strings.IndexAny(rest, "⟪⟫")
		if i < 0 {
			return string(append(out, []rune(rest)...)), spans, nil
		}
		out = append(out, []rune(rest[:i])...)
		rest = rest[i:]
		inside, ok := strings.CutPrefix(rest, "⟪")
		if !ok {
			return "", nil, fmt.Errorf("a ⟫ closes nothing before %.30q", rest)
		}
		end := strings.IndexAny(inside, "⟪⟫")
		if end < 0 || !strings.HasPrefix(inside[end:], "⟫") {
			return "", nil, fmt.Errorf("the mark that begins with %.30q is not closed by ⟫", rest)
		}
		class, value, ok := strings.Cut(inside[:end], ":")
		if !ok || !slices.Contains(allClasses(), class) {
			return "", nil, fmt.Errorf("the mark that begins with %.30q does not begin with a class and a colon", rest)
		}
		if value == "" {
			return "", nil, fmt.Errorf("a mark of %s holds no text", class)
		}
		start := len(out)
		out = append(out, []rune(value)...)
		spans = append(spans, Span{Start: start, End: len(out), Type: class, WellFormed: true})
		rest = inside[end+len("⟫"):]
	}
}
