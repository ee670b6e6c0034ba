package parse

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// Document is what a file says.
type Document struct {
	Kind   string // its media type, one of those of [Kinds]
	Title  string // of the document itself; empty if it has none
	Text   string // valid UTF-8; lines end with \n, blocks are separated by an empty line, items of a list and rows of a table by a line's end
	Blocks []Block
	// Left says what the file has and Text has not, such as hidden sheets, pictures and attachments of other kinds.
	Left []fault.Phrase
}

// Block is a part of the text. Blocks are in order and do not overlap; white space lies between them.
type Block struct {
	Kind       BlockKind
	Level      int // of a heading, 1 (the highest) to 6; of an item, 1 and more
	Page       int // page of a PDF or number of a slide, from 1; 0: the file has none
	Start, End int // bytes of Text
}

// BlockKind is what a block is.
type BlockKind uint8

// The kinds of block. A Table is a whole table if it is short, else some of its rows behind a copy of its header.
const (
	Paragraph BlockKind = iota
	Heading
	Item
	Table
	Code
)

// Error says why a document cannot be read.
type Error struct{ Reason fault.Phrase }

// Error implements error.
func (e *Error) Error() string { return e.Reason.String() }

func refuse(reason fault.Phrase) error { return &Error{reason} }

// maxText bounds the text of a document, in bytes: files that say the same again and again are small, and what they say is not.
const maxText = 32 << 20

// builder lays a text out. The text of hidden or missing parts is not given to it.
type builder struct {
	out    strings.Builder
	blocks []Block
	page   int
	part   int  // characters of the longest part of a table
	ended  bool // the next item begins a list
	full   bool // more was given than maxText: the document is refused
	// tooMuch is called then, so that no more is read.
	tooMuch func()
}

// fits reports whether n more bytes fit, and ends the reading if not.
func (b *builder) fits(n int) bool {
	if !b.full && b.out.Len()+n > maxText {
		b.full = true
		b.tooMuch()
	}
	return !b.full
}

// add writes a block, on the line behind the last one if tight.
func (b *builder) add(kind BlockKind, level int, text string, tight bool) {
	text = strings.Trim(text, "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	if !b.fits(len(text)) {
		return
	}
	if b.out.Len() > 0 {
		b.out.WriteByte('\n')
		if !tight {
			b.out.WriteByte('\n')
		}
	}
	b.ended = false
	start := b.out.Len()
	b.out.WriteString(text)
	b.blocks = append(b.blocks, Block{kind, level, b.page, start, b.out.Len()})
}

func (b *builder) paragraph(text string) { b.add(Paragraph, 0, lines(text), false) }

// heading writes a heading in one line. Levels below the sixth are the sixth.
func (b *builder) heading(level int, text string) {
	b.add(Heading, max(1, min(level, 6)), oneLine(text), false)
}

// item writes an item of a list; items that follow each other are on consecutive lines.
func (b *builder) item(level int, text string) {
	b.add(Item, max(1, level), lines(text), !b.ended && len(b.blocks) > 0 && b.blocks[len(b.blocks)-1].Kind == Item)
}

// between separates the cells of a row.
const between = " | "

// table writes rows, the first of which are its header. A table that is longer than a part is split between rows, and each part begins with the
// header unless that takes half of it.
func (b *builder) table(rows [][]string, header int) {
	var written []string
	size, top, heads := 0, 0, 0
	for i, r := range rows {
		line := b.row(r)
		if !b.fits(size + len(line)) {
			return
		}
		if line == "" {
			continue
		}
		if i < header {
			heads, top = heads+1, top+utf8.RuneCountInString(line)+1
		}
		size += len(line) + 1
		written = append(written, line)
	}
	if top > b.part/2 {
		heads, top = 0, 0
	}
	for i := 0; i < len(written) && !b.full; {
		var part []string
		count := 0
		if i > 0 {
			part, count = append(part, written[:heads]...), top
		}
		for first := true; i < len(written); i++ {
			n := utf8.RuneCountInString(written[i]) + 1
			if !first && count+n-1 > b.part {
				break
			}
			part, count, first = append(part, written[i]), count+n, false
		}
		b.add(Table, 0, strings.Join(part, "\n"), false)
	}
}

// row is a row in one line. One that is longer than a whole document may be is not made: cells may share their text.
func (b *builder) row(cells []string) string {
	if !b.fits(rowSize(cells)) {
		return ""
	}
	return rowText(cells)
}

// rowSize is the size of a row, of which its text is at most as long.
func rowSize(cells []string) int {
	n := 0
	for _, c := range cells {
		n += len(c) + len(between)
	}
	return n
}

// rowText is a row in one line, without its empty cells at the end; "" if all are.
func rowText(cells []string) string {
	out := make([]string, len(cells))
	n := 0
	for i, c := range cells {
		if out[i] = oneLine(c); out[i] != "" {
			n = i + 1
		}
	}
	return strings.Join(out[:n], between)
}

// document returns what was built.
func (b *builder) document(title string) (Document, error) {
	if b.full {
		return Document{}, errText
	}
	d := Document{Title: oneLine(title), Text: b.out.String(), Blocks: b.blocks}
	if d.Title == "" {
		for _, x := range d.Blocks {
			if x.Kind == Heading {
				if x.Level == 1 {
					d.Title = oneLine(d.Text[x.Start:x.End])
				}
				break
			}
		}
	}
	if r := []rune(d.Title); len(r) > 200 {
		d.Title = string(r[:200]) + "…"
	}
	return d, nil
}

// oneLine cleans a text and turns its white space into single blanks.
func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// lines cleans a text of several lines; empty ones go.
func lines(s string) string {
	if !strings.Contains(s, "\n") {
		return oneLine(s)
	}
	var out []string
	for line := range strings.Lines(s) {
		if line = oneLine(line); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// apart ends a list, so that the next item begins another one.
func (b *builder) apart() { b.ended = true }

// include writes the blocks of another document, with its headings that much lower.
func (b *builder) include(d Document, lower int) {
	last := 0
	for _, x := range d.Blocks {
		level := x.Level
		if x.Kind == Heading {
			level = min(6, level+lower)
		}
		tight := x.Kind == Item && last > 0 && !strings.Contains(d.Text[last:x.Start], "\n\n")
		b.add(x.Kind, level, d.Text[x.Start:x.End], tight)
		last = x.End
	}
}
