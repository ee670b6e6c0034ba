// Package parse is a leaf: it extracts the text of plain text, Markdown and HTML documents.
//
// The extracted text is what is stored, searched and cited; offsets of citations count its bytes. Text that a person would not see
// does not get into it: scripts, styles, comments, hidden elements, and characters without a shape that can carry instructions or
// turn the reading direction around. Links keep their text and lose their address; images leave their description.
package parse

import (
	"mime"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// Document is what a file says.
type Document struct {
	Title    string // of the document itself; empty if it has none
	Text     string // valid UTF-8; lines end with \n, blocks are separated by an empty line
	Headings []Heading
}

// Heading marks a line of the text that opens a section.
type Heading struct {
	Start, End int // bytes of Text
	Level      int // 1 is the highest
}

// Error says why a document cannot be read.
type Error struct{ Reason fault.Phrase }

// Error implements error.
func (e *Error) Error() string { return e.Reason.String() }

// The kinds of document.
const (
	Text     = "text/plain"
	Markdown = "text/markdown"
	HTML     = "text/html"
)

// Kind returns the kind of a document from its declared MIME type, or from the ending of its name if it declares none.
func Kind(mimeType, name string) (string, error) {
	if mimeType == "" {
		switch strings.ToLower(path.Ext(name)) {
		case ".txt", ".text":
			return Text, nil
		case ".md", ".markdown":
			return Markdown, nil
		case ".html", ".htm", ".xhtml":
			return HTML, nil
		}
		return "", &Error{fault.Say("parse.unknown_ending")}
	}
	kind, params, err := mime.ParseMediaType(mimeType)
	if err != nil {
		return "", &Error{fault.Say("parse.type_malformed")}
	}
	if cs := strings.ToLower(params["charset"]); cs != "" && cs != "utf-8" && cs != "utf8" && cs != "us-ascii" {
		return "", &Error{fault.Say("parse.character_set")}
	}
	switch kind {
	case Text, HTML:
		return kind, nil
	case Markdown, "text/x-markdown":
		return Markdown, nil
	case "application/xhtml+xml":
		return HTML, nil
	}
	return "", &Error{fault.Say("parse.unknown_type")}
}

// Parse extracts the text of body, a document of that kind. Every failure is an [*Error].
func Parse(kind string, body []byte) (Document, error) {
	body = []byte(strings.TrimPrefix(string(body), "\ufeff"))
	if !utf8.Valid(body) {
		return Document{}, &Error{fault.Say("parse.not_utf8")}
	}
	if isBinary(body) {
		return Document{}, &Error{fault.Say("parse.not_text")}
	}
	var d Document
	var err error
	switch kind {
	case Text:
		d.Text = plain(string(body))
	case Markdown:
		d, err = markdown(body)
	case HTML:
		d, err = hypertext(body)
	default:
		err = &Error{fault.Say("parse.unknown_type")}
	}
	if err != nil {
		return Document{}, err
	}
	if strings.TrimSpace(d.Text) == "" {
		return Document{}, &Error{fault.Say("rag.no_text")}
	}
	return d, nil
}

// isBinary reports whether the text has characters that text does not have. A file of another kind that happens to be valid UTF-8
// has them in its first bytes.
func isBinary(b []byte) bool {
	for _, c := range b[:min(len(b), 8192)] {
		if c == 0 {
			return true
		}
	}
	return false
}

// plain cleans a text and keeps its layout: lines lose trailing blanks, and empty lines at both ends go.
func plain(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.Lines(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")) {
		b.WriteString(strings.TrimRight(clean(strings.TrimSuffix(line, "\n")), " \t"))
		b.WriteByte('\n')
	}
	return strings.Trim(b.String(), "\n")
}

// clean removes what has no shape, and turns other control characters into blanks.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case invisible(r):
			return -1
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r < 0xa0:
			return ' '
		}
		return r
	}, s)
}

// invisible reports whether r takes no place on paper: zero-width characters, direction marks and overrides, soft hyphens, the
// invisible operators, and the tag characters that hide whole sentences.
func invisible(r rune) bool {
	switch {
	case r == 0x00ad, r == 0x034f, r == 0x061c, r == 0x180e, r == 0xfeff,
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, // Hangul fillers
		r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff9 && r <= 0xfffb,
		r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}
