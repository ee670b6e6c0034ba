package report

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Format is a file format that documents are written in.
type Format uint8

// The formats. Markdown has no pages, and so neither the lines at their top and bottom.
const (
	PDF Format = iota
	DOCX
	Markdown
)

// FormatOf returns the format that the name of a file ends in.
func FormatOf(name string) (Format, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".pdf":
		return PDF, nil
	case ".docx":
		return DOCX, nil
	case ".md":
		return Markdown, nil
	default:
		return PDF, fmt.Errorf("%s: a report is written as .pdf, .docx or .md", name)
	}
}

// MediaType is the type of the format for HTTP.
func (f Format) MediaType() string {
	switch f {
	case DOCX:
		return "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	case Markdown:
		return "text/markdown; charset=utf-8"
	default:
		return "application/pdf"
	}
}

// Write writes d in a format. On an error, what was written is no document.
func Write(w io.Writer, f Format, d Document) error {
	if err := d.check(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	var err error
	switch f {
	case DOCX:
		err = writeDOCX(w, d)
	case Markdown:
		err = writeMarkdown(w, d)
	default:
		err = writePDF(w, d)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// check refuses what would make a page that misleads: a cell without a column would not be seen.
func (d Document) check() error {
	if d.Created.Year() < 1980 || d.Created.Year() > 2100 { // the years that a DOCX, which is a zip, can say
		return errors.New("the document does not say when it was made")
	}
	for _, b := range d.Body {
		t, ok := b.(Table)
		if !ok {
			continue
		}
		if len(t.Columns) == 0 {
			return fmt.Errorf("the table %q has no columns", t.Caption)
		}
		for _, row := range t.Rows {
			if len(row) > len(t.Columns) {
				return fmt.Errorf("the table %q has a row with %d cells for %d columns", t.Caption, len(row), len(t.Columns))
			}
		}
		if len(t.Total) > len(t.Columns) {
			return fmt.Errorf("the table %q has a total with %d cells for %d columns", t.Caption, len(t.Total), len(t.Columns))
		}
	}
	return nil
}
