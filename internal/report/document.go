package report

import (
	"time"

	"github.com/sluice-project/sluice/internal/message"
)

// Document is what a report contains, free of any file format.
type Document struct {
	Lang    message.Lang // of the words that this package adds; the caller's texts are in it already
	Title   string
	Subject string    // one line below the title
	Issuer  string    // who answers for it; at the top of every page
	Created time.Time // must be set; every file says it
	Footer  string    // at the bottom of every page, such as the digest of what the document is about
	Body    []Block
}

// Block is a part of the body: [Heading], [Paragraph], [List], [Fields], [Verdict] or [Table].
type Block interface{ block() }

// Heading opens a section. Level is 1 or 2.
type Heading struct {
	Level int
	Text  string
}

// Paragraph is running text. A newline breaks the line.
type Paragraph string

// List is a list of short texts.
type List struct {
	Numbered bool
	Items    []string
}

// Fields are names with their values, one below the other.
type Fields []Field

// Field is a name with its value.
type Field struct{ Name, Value string }

// Verdict is the result of a document, in a box that is seen first.
type Verdict struct {
	Outcome Outcome
	Text    string
}

// Outcome selects how a verdict looks.
type Outcome uint8

// The outcomes. The text says the same as the colour: a printer may have none.
const (
	Neutral Outcome = iota
	Passed
	Failed
)

// Table has one cell for each column in every row. Total, if it is there, is a last row that adds up the others.
type Table struct {
	Caption string
	Columns []Column
	Rows    [][]string
	Total   []string
}

// Column says what the cells of a column are. Numbers stand at the right with one number of decimals: shorter ones get zeros. Unit, such
// as a currency, is shown once in the head.
type Column struct {
	Title  string
	Unit   string
	Number bool
}

func (Heading) block()   {}
func (Paragraph) block() {}
func (List) block()      {}
func (Fields) block()    {}
func (Verdict) block()   {}
func (Table) block()     {}
