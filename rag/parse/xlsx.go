package parse

import (
	"encoding/xml"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// xlsx reads a workbook: each visible sheet is a section, each block of rows between empty ones a table. Values are as their format shows them, and
// formulas are the value that the program stored which saved them. Hidden sheets, rows and columns are left out.
func (r *reading) xlsx(a *archive) (Document, error) {
	main, err := a.main()
	if err != nil {
		return Document{}, err
	}
	related, err := a.relations(main)
	if err != nil {
		return Document{}, err
	}
	b := &book{r: r, b: r.builder()}
	if err := b.readStyles(a, of(related, "styles")); err != nil {
		return Document{}, err
	}
	if err := b.readStrings(a, of(related, "sharedStrings")); err != nil {
		return Document{}, err
	}
	x, err := a.open(main)
	if err != nil {
		return Document{}, noPart(err)
	}
	type sheet struct{ name, part string }
	var sheets []sheet
	err = x.root(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "workbookPr":
			switch attribute(e, "date1904") {
			case "1", "true":
				b.from1904 = true
			}
		case "sheets":
			return x.each(func(e xml.StartElement) error {
				if s := attribute(e, "state"); s == "hidden" || s == "veryHidden" {
					b.hiddenSheets++
				} else if r := related[relationID(e)]; r.kind == "worksheet" && r.target != "" {
					sheets = append(sheets, sheet{attribute(e, "name"), r.target})
				} else {
					b.otherSheets++
				}
				return x.skip()
			})
		}
		return x.skip()
	})
	if err != nil {
		return Document{}, err
	}
	for _, s := range sheets {
		if err := b.sheet(a, s.name, s.part); err != nil {
			return Document{}, err
		}
	}
	title, err := a.title()
	if err != nil {
		return Document{}, err
	}
	d, err := b.b.document(title)
	if title == "" && len(sheets) > 1 {
		d.Title = "" // the name of the first sheet is none of the workbook
	}
	for _, left := range []struct {
		n  int
		id func(n int) fault.Phrase
	}{
		{b.hiddenSheets, func(n int) fault.Phrase { return fault.Say("parse.left.hidden_sheets", n) }},
		{b.hiddenRows + b.hiddenColumns, func(int) fault.Phrase {
			return fault.Say("parse.left.hidden_rows", b.hiddenRows, b.hiddenColumns)
		}},
		{b.otherSheets, func(n int) fault.Phrase { return fault.Say("parse.left.chart_sheets", n) }},
		{b.uncalculated, func(n int) fault.Phrase { return fault.Say("parse.left.formulas", n) }},
		{b.pictures, func(n int) fault.Phrase { return fault.Say("parse.left.pictures", n) }},
		{b.drawn, func(n int) fault.Phrase { return fault.Say("parse.left.diagrams", n) }},
		{b.shapes, func(n int) fault.Phrase { return fault.Say("parse.left.shapes", n) }},
		{b.embedded, func(n int) fault.Phrase { return fault.Say("parse.left.embedded", n) }},
		{b.comments, func(n int) fault.Phrase { return fault.Say("parse.left.comments", n) }},
	} {
		if left.n > 0 {
			d.Left = append(d.Left, left.id(left.n))
		}
	}
	return d, err
}

// relationID is the id of the relationship that an element names; an id of its own may stand beside it.
func relationID(e xml.StartElement) string {
	for _, a := range e.Attr {
		if a.Name.Local == "id" && a.Name.Space != "" {
			return a.Value
		}
	}
	return ""
}

type book struct {
	r        *reading
	b        *builder
	strings  []string
	formats  []*numberFormat // of the cell styles
	from1904 bool

	hiddenSheets, otherSheets, hiddenRows, hiddenColumns, uncalculated int
	pictures, drawn, shapes, embedded, comments                        int
}

// maxFormatCode is the longest format of numbers, in bytes. Excel takes 255 characters.
const maxFormatCode = 2048

func (b *book) readStyles(a *archive, part string) error {
	x, err := a.open(part)
	if errors.Is(err, errNoPart) {
		return nil
	}
	if err != nil {
		return err
	}
	codes := map[int]string{}
	read := map[int]*numberFormat{}
	return x.root(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "numFmts":
			return x.each(func(e xml.StartElement) error {
				codes[number(attribute(e, "numFmtId"), 0)] = attribute(e, "formatCode")
				if err := b.r.hold(heldEntry); err != nil {
					return err
				}
				return x.skip()
			})
		case "cellXfs":
			return x.each(func(e xml.StartElement) error {
				id := number(attribute(e, "numFmtId"), 0)
				if read[id] == nil {
					code, own := codes[id]
					if !own {
						code = builtin(id)
					}
					if len(code) > maxFormatCode {
						return errDamaged
					}
					read[id] = readFormat(code)
				}
				b.formats = append(b.formats, read[id])
				if err := b.r.hold(1); err != nil {
					return err
				}
				return x.skip()
			})
		}
		return x.skip()
	})
}

func (b *book) readStrings(a *archive, part string) error {
	x, err := a.open(part)
	if errors.Is(err, errNoPart) {
		return nil
	}
	if err != nil {
		return err
	}
	return x.root(func(e xml.StartElement) error {
		if e.Name.Local != "si" {
			return x.skip()
		}
		s, err := richText(x)
		if err != nil {
			return err
		}
		b.strings = append(b.strings, s)
		return b.r.hold(1)
	})
}

// richText reads the text of a cell, without how it is pronounced.
func richText(x *elements) (string, error) {
	var out strings.Builder
	err := x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "t":
			return appendText(x, &out)
		case "r":
			return x.each(func(e xml.StartElement) error {
				if e.Name.Local == "t" {
					return appendText(x, &out)
				}
				return x.skip()
			})
		}
		return x.skip()
	})
	return out.String(), err
}

// gridRow is a row of a sheet.
type gridRow struct {
	n     int // from 1
	cells []gridCell
}

type gridCell struct {
	column int // from 0
	text   string
	label  bool // a text, not a number or date
}

// sort puts the cells in the order of their columns. Of several in one column the last one counts.
func (r *gridRow) sort() {
	inOrder := true
	for i := 1; i < len(r.cells) && inOrder; i++ {
		inOrder = r.cells[i-1].column < r.cells[i].column
	}
	if inOrder {
		return
	}
	slices.Reverse(r.cells)
	slices.SortStableFunc(r.cells, byColumn)
	r.cells = slices.CompactFunc(r.cells, sameColumn)
}

func byColumn(p, q gridCell) int    { return p.column - q.column }
func sameColumn(p, q gridCell) bool { return p.column == q.column }

// area is a rectangle of merged cells, from and to included.
type area struct{ top, left, bottom, right int }

func (b *book) sheet(a *archive, name, part string) error {
	x, err := a.open(part)
	if err != nil {
		return noPart(err)
	}
	var rows []gridRow
	var merged []area
	var hidden [][2]int // columns, from and to
	last := 0
	err = x.root(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "cols":
			return x.each(func(e xml.StartElement) error {
				if h := attribute(e, "hidden"); h == "1" || h == "true" {
					hidden = append(hidden, [2]int{number(attribute(e, "min"), 1) - 1, number(attribute(e, "max"), 1) - 1})
				}
				return x.skip()
			})
		case "sheetData":
			return x.each(func(e xml.StartElement) error {
				row := gridRow{n: number(attribute(e, "r"), last+1)}
				last = row.n
				h := attribute(e, "hidden")
				if err := b.cells(x, &row); err != nil || len(row.cells) == 0 {
					return err
				}
				row.sort()
				if h == "1" || h == "true" { // its place stays, so that the rows around it are one table
					b.hiddenRows++
					row.cells = nil
				}
				rows = append(rows, row)
				return b.r.hold(1 + len(row.cells))
			})
		case "mergeCells":
			return x.each(func(e xml.StartElement) error {
				if m, ok := readArea(attribute(e, "ref")); ok {
					merged = append(merged, m)
				}
				if err := b.r.hold(1); err != nil {
					return err
				}
				return x.skip()
			})
		}
		return x.skip()
	})
	if err != nil {
		return err
	}
	if err := b.beside(a, part); err != nil {
		return err
	}
	slices.SortStableFunc(rows, func(p, q gridRow) int { return p.n - q.n })
	b.hideColumns(rows, hidden)
	b.b.heading(1, name)
	return b.tables(rows, merged)
}

// beside counts what lies on a sheet and is not in its cells.
func (b *book) beside(a *archive, part string) error {
	related, err := a.relations(part)
	if err != nil {
		return err
	}
	for _, r := range related {
		if r.kind == "oleObject" || r.kind == "package" {
			b.embedded++
		}
		if r.kind != "drawing" && r.kind != "comments" {
			continue
		}
		x, err := a.open(r.target)
		if errors.Is(err, errNoPart) {
			continue
		}
		if err != nil {
			return err
		}
		says := false
		var look func(e xml.StartElement) error
		look = func(e xml.StartElement) error {
			switch e.Name.Local {
			case "comment":
				b.comments++
			case "pic":
				b.pictures++
			case "graphicFrame":
				b.drawn++
			case "sp":
				says = false
				err := x.each(look)
				if says {
					b.shapes++
				}
				return err
			case "t":
				s, err := x.text()
				says = says || strings.TrimSpace(s) != ""
				return err
			case "twoCellAnchor", "oneCellAnchor", "absoluteAnchor", "grpSp", "txBody", "p", "r", "fld", "commentList", "AlternateContent", "Choice":
				return x.each(look)
			}
			return x.skip()
		}
		if err := x.root(look); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) hideColumns(rows []gridRow, hidden [][2]int) {
	if len(hidden) == 0 {
		return
	}
	if len(hidden) > maxColumns {
		hidden = hidden[:maxColumns]
	}
	var gone [maxColumns]bool
	for _, h := range hidden {
		for c := max(0, h[0]); c <= min(h[1], maxColumns-1) && !gone[c]; c++ {
			gone[c] = true
		}
	}
	used := map[int]bool{}
	for i := range rows {
		rows[i].cells = slices.DeleteFunc(rows[i].cells, func(c gridCell) bool {
			if gone[c.column] {
				used[c.column] = true
			}
			return gone[c.column]
		})
	}
	b.hiddenColumns += len(used)
}

func (b *book) cells(x *elements, row *gridRow) error {
	at := -1
	return x.each(func(e xml.StartElement) error {
		if e.Name.Local != "c" {
			return x.skip()
		}
		at++
		if ref := attribute(e, "r"); ref != "" {
			if c, _, ok := readRef(ref); ok {
				at = c
			}
		}
		if at >= maxColumns {
			return errDamaged
		}
		var value, inline string
		formula := false
		err := x.each(func(e xml.StartElement) error {
			var err error
			switch e.Name.Local {
			case "v":
				value, err = x.text()
			case "is":
				inline, err = richText(x)
			case "f":
				formula = true
				err = x.skip()
			default:
				err = x.skip()
			}
			return err
		})
		if err != nil {
			return err
		}
		if formula && value == "" && attribute(e, "t") != "str" {
			b.uncalculated++
		}
		c := b.value(attribute(e, "t"), attribute(e, "s"), value, inline)
		if c.column = at; strings.TrimSpace(c.text) != "" {
			row.cells = append(row.cells, c)
		}
		return nil
	})
}

// value is what a cell shows.
func (b *book) value(kind, style, value, inline string) gridCell {
	switch kind {
	case "s":
		if i, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && i >= 0 && i < len(b.strings) {
			return gridCell{text: b.strings[i], label: true}
		}
		return gridCell{}
	case "inlineStr":
		return gridCell{text: inline, label: true}
	case "str":
		return gridCell{text: value, label: true}
	case "b":
		return gridCell{text: map[string]string{"1": "TRUE", "0": "FALSE", "true": "TRUE", "false": "FALSE"}[value]}
	case "e", "d":
		return gridCell{text: value}
	}
	if value == "" {
		return gridCell{}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return gridCell{text: value, label: true}
	}
	if i := number(style, 0); i < len(b.formats) {
		text := b.formats[i].format(v, b.from1904)
		if !b.r.spend(len(text)) {
			text = ""
		}
		return gridCell{text: text}
	}
	return gridCell{text: general(v)}
}

// tables writes the blocks of rows that lie between empty rows. Lines above a table that have one cell are paragraphs. The header of a table is its
// first row if that has texts only, with those below that its merged cells reach into; a block of numbers goes on with the header above it.
func (b *book) tables(rows []gridRow, merged []area) error {
	if err := b.fill(rows, merged); err != nil {
		return err
	}
	reach := make(map[int]int, len(merged)) // the last rows of the areas that begin in a row
	for _, m := range merged {
		reach[m.top] = max(reach[m.top], m.bottom)
	}
	var header [][]string
	for len(rows) > 0 {
		if err := ended(b.r.ctx); err != nil {
			return err
		}
		n := 1
		for n < len(rows) && rows[n].n-rows[n-1].n <= 1 {
			n++
		}
		block := slices.DeleteFunc(slices.Clone(rows[:n]), func(r gridRow) bool { return len(r.cells) == 0 })
		rows = rows[n:]
		for len(block) > 0 && distinct(block[0]) == 1 && (len(block) == 1 || distinct(block[1]) != 1 || width(block) > 1) {
			b.b.paragraph(block[0].cells[0].text)
			block = block[1:]
		}
		if len(block) == 0 {
			continue
		}
		columns := usedColumns(block)
		heads := 0
		if labels(block[0]) && len(block) > 1 {
			heads = 1
			if bottom := reach[block[0].n]; bottom > block[0].n {
				heads = max(heads, min(bottom-block[0].n+1, 4, len(block)-1))
			}
			for i := 1; i < heads; i++ {
				if !labels(block[i]) {
					heads = i
				}
			}
		}
		out := make([][]string, 0, len(block)+1)
		for _, r := range block {
			cells := make([]string, len(columns))
			for _, c := range r.cells {
				i, _ := slices.BinarySearch(columns, c.column)
				cells[i] = c.text
			}
			if err := b.r.hold(len(cells)); err != nil {
				return err
			}
			out = append(out, cells)
		}
		if heads > 0 {
			header = out[:heads]
		} else if len(header) > 0 && len(header[0]) == len(columns) && !labels(block[0]) {
			heads = len(header)
			out = append(slices.Clone(header), out...)
		}
		b.b.table(out, heads)
		if b.b.full {
			return nil
		}
	}
	return nil
}

// fill repeats what a merged cell says in the rows that it spans, so that each of them can be understood. It writes into the first column of the
// cell only.
func (b *book) fill(rows []gridRow, merged []area) error {
	byRow := make(map[int]int, len(rows))
	for i, r := range rows {
		byRow[r.n] = i
	}
	more := map[int][]gridCell{} // by index of the row
	left := 1 << 20              // cells that are written, of all
	for n, m := range merged {
		if n%1024 == 0 {
			if err := ended(b.r.ctx); err != nil {
				return err
			}
		}
		top, is := byRow[m.top]
		if !is || m.bottom == m.top {
			continue
		}
		i, is := slices.BinarySearchFunc(rows[top].cells, m.left, func(c gridCell, column int) int { return c.column - column })
		if !is {
			continue
		}
		for at := top + 1; at < len(rows) && rows[at].n <= m.bottom && left > 0; at++ {
			left--
			if len(rows[at].cells) > 0 {
				more[at] = append(more[at], rows[top].cells[i])
			}
		}
	}
	for at, cells := range more { // its own cells come first, and stay
		rows[at].cells = append(rows[at].cells, cells...)
		slices.SortStableFunc(rows[at].cells, byColumn)
		rows[at].cells = slices.CompactFunc(rows[at].cells, sameColumn)
	}
	return nil
}

func labels(r gridRow) bool {
	return !slices.ContainsFunc(r.cells, func(c gridCell) bool { return !c.label })
}

func distinct(r gridRow) int { return len(r.cells) }

func width(rows []gridRow) int {
	n := 0
	for _, r := range rows {
		n = max(n, len(r.cells))
	}
	return n
}

func usedColumns(rows []gridRow) []int {
	seen := map[int]bool{}
	var out []int
	for _, r := range rows {
		for _, c := range r.cells {
			if !seen[c.column] {
				seen[c.column] = true
				out = append(out, c.column)
			}
		}
	}
	slices.Sort(out)
	return out
}

// readRef reads a reference such as AB12: column from 0, row from 1.
func readRef(s string) (column, row int, ok bool) {
	i := 0
	for ; i < len(s) && s[i] >= 'A' && s[i] <= 'Z' && i < 3; i++ {
		column = column*26 + int(s[i]-'A') + 1
	}
	row, err := strconv.Atoi(s[i:])
	return column - 1, row, err == nil && i > 0 && row > 0 && column <= maxColumns
}

func readArea(s string) (area, bool) {
	from, to, ok := strings.Cut(s, ":")
	if !ok {
		return area{}, false
	}
	left, top, ok1 := readRef(from)
	right, bottom, ok2 := readRef(to)
	return area{top, left, bottom, right}, ok1 && ok2 && top <= bottom && left <= right
}
