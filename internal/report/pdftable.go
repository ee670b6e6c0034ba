package report

import (
	"strings"

	"github.com/rivo/uniseg"

	"github.com/sluice-project/sluice/internal/message"
)

// grid is a table being set: where its columns are and how wide.
type grid struct {
	columns []Column
	heads   []string
	widths  []float64
	body    style
}

const (
	cellPad  = 4.0 // at the left and the right of a cell
	rowPad   = 2.5 // above and below a row
	crowded  = 7   // columns, from which on the letters are smaller
	wordMost = 110 // points that a column keeps for a word that cannot be broken
	headMost = 20  // lines of a head, so that rows find room on the page
)

func (s *setter) table(t Table) {
	g := grid{columns: t.Columns, heads: t.heads(s.lang), body: style{9, false, black}}
	if len(t.Columns) >= crowded {
		g.body.size = 7.5
	}
	rows := t.lines()
	g.widths = s.face.shares(g, rows)
	if t.Caption != "" {
		s.need(70)
		s.paragraph(style{9.5, true, black}, t.Caption)
		s.y -= 3
	}
	s.head(g, 30)
	for i, row := range rows {
		st := g.body
		if t.Total != nil && i == len(rows)-1 {
			st.bold = true
		}
		s.row(g, st, row)
	}
	if len(rows) == 0 {
		s.draw(marginSide+cellPad, style{g.body.size, false, grey}, message.Say("report.no_entries").In(s.lang))
	}
	s.rule(s.page(), s.y, 0.8, grey)
	s.y -= 12
}

// head draws the titles of the columns. more is the height of what must follow on the page.
func (s *setter) head(g grid, more float64) {
	st := style{g.body.size, true, black}
	cells, lines := s.cells(g, st, g.heads)
	lines = min(lines, headMost)
	height := float64(lines)*st.size*leading + 2*rowPad
	s.need(height + more)
	s.box(s.page(), s.y-height, textWidth, height, shade)
	s.rule(s.page(), s.y, 0.8, grey)
	s.part(g, st, cells, 0, lines)
}

// row draws a row on one page if a page can hold it, and otherwise on as many as it takes. Each begins with the head.
func (s *setter) row(g grid, st style, row []string) {
	cells, lines := s.cells(g, st, row)
	height := st.size * leading
	if s.left() < float64(lines)*height+2*rowPad {
		s.rule(s.page(), s.y, 0.4, line)
		s.newPage()
		s.head(g, height)
	}
	for from := 0; from < lines; {
		until := min(lines, from+int((s.left()-2*rowPad)/height))
		if until == from { // less than a line is left
			s.newPage()
			s.head(g, height)
			continue
		}
		s.part(g, st, cells, from, until)
		from = until
	}
	s.rule(s.page(), s.y, 0.4, line)
}

// part draws some lines of a row.
func (s *setter) part(g grid, st style, cells [][]string, from, until int) {
	s.y -= rowPad
	for i := from; i < until; i++ {
		x := marginSide
		for c, cell := range cells {
			if i < len(cell) {
				at := x + cellPad
				if g.columns[c].Number {
					at = x + g.widths[c] - cellPad - s.face.width(cell[i], st.size)
				}
				s.text(s.page(), at, s.y-baseline(st.size), st, cell[i])
			}
			x += g.widths[c]
		}
		s.y -= st.size * leading
	}
	s.y -= rowPad
}

// cells breaks the texts of a row into lines, and says how many lines the row has.
func (s *setter) cells(g grid, st style, row []string) (cells [][]string, lines int) {
	for c, text := range row {
		cell := s.face.wrap(text, st.size, g.widths[c]-2*cellPad+0.1)
		cells, lines = append(cells, cell), max(lines, len(cell))
	}
	return cells, lines
}

// shares divides the width among the columns: each gets what its longest word needs, and of the rest in the measure of what its longest
// cell would still need.
func (f *face) shares(g grid, rows [][]string) []float64 {
	least, more := make([]float64, len(g.columns)), make([]float64, len(g.columns))
	for c, column := range g.columns {
		whole := 0.0
		for i, row := range append([][]string{g.heads}, rows...) {
			size := g.body.size
			if i == 0 {
				size *= 1.02 // bold
			}
			width := f.width(row[c], size)
			whole = max(whole, width)
			least[c] = max(least[c], min(f.longestWord(row[c], size), wordMost))
			if column.Number && i > 0 && isNumber(row[c]) {
				least[c] = max(least[c], width)
			}
		}
		least[c] += 2 * cellPad
		more[c] = max(0, min(whole, textWidth)+2*cellPad-least[c])
	}
	rest := textWidth - sum(least)
	if rest < 0 { // even words do not fit
		for c := range least {
			least[c] *= textWidth / (textWidth - rest)
		}
		return least
	}
	if wanted := sum(more); wanted > rest {
		for c := range least {
			least[c] += rest * more[c] / wanted
		}
		return least
	}
	spare := (rest - sum(more)) / float64(len(least))
	for c := range least {
		least[c] += more[c] + spare
	}
	return least
}

func (f *face) longestWord(s string, size float64) float64 {
	longest, state := 0.0, -1
	for s != "" {
		var word string
		word, s, _, state = uniseg.FirstLineSegmentInString(s, state)
		longest = max(longest, f.width(strings.TrimRight(word, " "), size))
	}
	return longest
}

func sum(list []float64) (total float64) {
	for _, v := range list {
		total += v
	}
	return total
}
