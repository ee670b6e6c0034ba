package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/sluice-project/sluice/internal/message"
)

// A4 and its type area, in points. The origin of a page is its lower left corner.
const (
	pageWidth    = 595.28
	pageHeight   = 841.89
	marginSide   = 56.0
	marginTop    = 68.0
	marginBottom = 62.0
	textWidth    = pageWidth - 2*marginSide

	bodySize = 10.0
	leading  = 1.55 // of the size
)

// colour is a colour as operators of a content stream take it: red, green and blue.
type colour string

const (
	black colour = "0.1 0.1 0.12"
	grey  colour = "0.42 0.44 0.47"
	line  colour = "0.8 0.81 0.83"
	shade colour = "0.945 0.95 0.96"
	blue  colour = "0.1 0.25 0.45"
	green colour = "0.08 0.42 0.24"
	red   colour = "0.7 0.1 0.1"
)

// setter places a document on pages, from the top down.
type setter struct {
	face  *face
	lang  message.Lang
	pages []*bytes.Buffer
	y     float64 // the top of what comes next
}

func writePDF(w io.Writer, d Document) error {
	f, err := newFace()
	if err != nil {
		return err
	}
	d = d.printable(f.has)
	s := &setter{face: f, lang: d.Lang}
	s.newPage()
	s.title(d)
	for _, b := range d.Body {
		s.block(b)
	}
	s.edges(d)
	pages := make([][]byte, len(s.pages))
	for i, p := range s.pages {
		pages[i] = p.Bytes()
	}
	return writePages(w, d, f, pages)
}

func (s *setter) newPage() {
	s.pages = append(s.pages, &bytes.Buffer{})
	s.y = pageHeight - marginTop
}

func (s *setter) page() *bytes.Buffer { return s.pages[len(s.pages)-1] }

// left is the height that the page still has.
func (s *setter) left() float64 { return s.y - marginBottom }

// need begins a page unless this one has so much height left.
func (s *setter) need(height float64) {
	if s.left() < height {
		s.newPage()
	}
}

// style is how a text looks. Bold letters are those of the one font, drawn with an outline.
type style struct {
	size   float64
	bold   bool
	colour colour
}

// num writes a length with a hundredth of a point, so that files do not differ by rounding.
func num(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// text draws one line whose baseline is at y.
func (s *setter) text(page *bytes.Buffer, x, y float64, st style, text string) {
	mode := "0 Tr"
	if st.bold {
		mode = fmt.Sprintf("2 Tr %s w %s RG", num(st.size/32), st.colour)
	}
	fmt.Fprintf(page, "BT /F %s Tf %s rg %s %s %s Td <%s> Tj ET\n", num(st.size), st.colour, mode, num(x), num(y), s.face.encode(text))
}

// rule draws a line across the type area.
func (s *setter) rule(page *bytes.Buffer, y, thick float64, c colour) {
	s.box(page, y, textWidth, thick, c)
}

// box fills a rectangle at the left of the type area, from y upwards.
func (s *setter) box(page *bytes.Buffer, y, width, height float64, c colour) {
	fmt.Fprintf(page, "%s rg %s %s %s %s re f\n", c, num(marginSide), num(y), num(width), num(height))
}

// draw draws one line in a strip of its leading below s.y, and goes on below it.
func (s *setter) draw(x float64, st style, text string) {
	s.need(st.size * leading)
	s.text(s.page(), x, s.y-baseline(st.size), st, text)
	s.y -= st.size * leading
}

// baseline is how far below the top of its strip a line stands.
func baseline(size float64) float64 { return size * (leading/2 + (ascent-descent)/2000.0 - 0.05) }

// paragraph sets a text in lines across the type area.
func (s *setter) paragraph(st style, text string) {
	for _, l := range s.face.wrap(text, st.size, textWidth) {
		s.draw(marginSide, st, l)
	}
}

func (s *setter) title(d Document) {
	s.paragraph(style{20, true, blue}, d.Title)
	if d.Subject != "" {
		s.y -= 2
		s.paragraph(style{11.5, false, grey}, d.Subject)
	}
	s.y -= 4
	s.paragraph(style{9, false, grey}, message.Say("report.issued", d.Issuer, stamp(d)).In(d.Lang))
	s.y -= 6
	s.rule(s.page(), s.y, 1, blue)
	s.y -= 12
}

func (s *setter) block(b Block) {
	switch b := b.(type) {
	case Heading:
		s.heading(b)
	case Paragraph:
		s.paragraph(style{bodySize, false, black}, string(b))
		s.y -= 6
	case List:
		s.list(b)
	case Fields:
		s.fields(b)
	case Verdict:
		s.verdict(b)
	case Table:
		s.table(b)
	}
}

// heading keeps room for what follows on the same page.
func (s *setter) heading(h Heading) {
	st, before := style{13.5, true, blue}, 12.0
	if h.Level > 1 {
		st, before = style{11, true, black}, 8
	}
	s.need(before + st.size*leading + 60)
	if s.left() < pageHeight-marginTop-marginBottom {
		s.y -= before
	}
	s.paragraph(st, h.Text)
	s.y -= 4
}

func (s *setter) list(l List) {
	st := style{bodySize, false, black}
	const indent = 18
	for i, item := range l.Items {
		mark := "•"
		if l.Numbered {
			mark = strconv.Itoa(i+1) + "."
		}
		for j, text := range s.face.wrap(item, st.size, textWidth-indent) {
			s.need(st.size * leading)
			if j == 0 {
				s.text(s.page(), marginSide+4, s.y-baseline(st.size), st, mark)
			}
			s.draw(marginSide+indent, st, text)
		}
		s.y -= 2
	}
	s.y -= 5
}

// fields sets names at the left and values beside them.
func (s *setter) fields(fields Fields) {
	name, value := style{9.5, false, grey}, style{9.5, false, black}
	width := 0.0
	for _, f := range fields {
		width = max(width, s.face.width(f.Name, name.size))
	}
	width = min(width, textWidth*0.35)
	at := marginSide + width + 16
	for _, f := range fields {
		names, values := s.face.wrap(f.Name, name.size, width+0.1), s.face.wrap(f.Value, value.size, marginSide+textWidth-at)
		for i := range max(len(names), len(values)) {
			s.need(value.size * leading)
			if i < len(names) {
				s.text(s.page(), marginSide, s.y-baseline(name.size), name, names[i])
			}
			text := ""
			if i < len(values) {
				text = values[i]
			}
			s.draw(at, value, text)
		}
		s.y -= 2
		s.rule(s.page(), s.y, 0.4, line)
		s.y -= 2
	}
	s.y -= 8
}

// verdict is a box with a bar at its left.
func (s *setter) verdict(v Verdict) {
	c := map[Outcome]colour{Passed: green, Failed: red}[v.Outcome]
	if c == "" {
		c = blue
	}
	st := style{12, true, c}
	const pad = 9
	for lines := s.face.wrap(v.Text, st.size, textWidth-2*pad-8); len(lines) > 0; {
		s.need(st.size*leading + 2*pad)
		n := min(len(lines), int((s.left()-2*pad)/(st.size*leading)))
		height := float64(n)*st.size*leading + 2*pad
		s.box(s.page(), s.y-height, textWidth, height, shade)
		s.box(s.page(), s.y-height, 4, height, c)
		s.y -= pad
		for _, l := range lines[:n] {
			s.draw(marginSide+pad+8, st, l)
		}
		s.y -= pad
		lines = lines[n:]
	}
	s.y -= 10
}

// edges draws what stands at the top and the bottom of every page, now that their number is known.
func (s *setter) edges(d Document) {
	st := style{8, false, grey}
	for i, page := range s.pages {
		if i > 0 {
			title := s.face.fit(d.Title, st.size, textWidth*0.6)
			s.text(page, marginSide, pageHeight-40, st, title)
			issuer := s.face.fit(d.Issuer, st.size, textWidth*0.35)
			s.text(page, pageWidth-marginSide-s.face.width(issuer, st.size), pageHeight-40, st, issuer)
			s.rule(page, pageHeight-47, 0.5, line)
		}
		count := message.Say("report.page", i+1, len(s.pages)).In(d.Lang)
		at := pageWidth - marginSide - s.face.width(count, st.size)
		s.text(page, at, 34, st, count)
		s.text(page, marginSide, 34, st, s.face.fit(d.Footer, st.size, at-marginSide-16))
		s.rule(page, 47, 0.5, line)
	}
}

// fit shortens a text to a width, and shows that it did.
func (f *face) fit(s string, size, width float64) string {
	if f.width(s, size) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && f.width(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// wrap breaks a text into lines of width, where Unicode's rules of line breaking (UAX 14) allow it. A word that is longer than a line is
// broken anywhere. There is at least one line.
func (f *face) wrap(s string, size, width float64) []string {
	var lines []string
	current, used := "", 0.0
	end := func() {
		lines = append(lines, strings.TrimRight(current, " "))
		current, used = "", 0
	}
	state := -1
	for s != "" {
		var word string
		var must bool
		word, s, must, state = uniseg.FirstLineSegmentInString(s, state)
		word = strings.TrimSuffix(word, "\n")
		if current != "" && used+f.width(strings.TrimRight(word, " "), size) > width {
			end()
		}
		for _, r := range word {
			if r == ' ' && used > width {
				continue // it would stand behind the end of the line
			}
			advance := f.width(string(r), size)
			if r != ' ' && current != "" && used+advance > width {
				end()
			}
			current += string(r)
			used += advance
		}
		if must && s != "" {
			end()
		}
	}
	end()
	return lines
}
