package parse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/sluice-project/sluice/internal/fault"
)

// maxTime bounds the parser. Some hostile pages take it quadratic time, such as text between tags that it ignores, which it adds to
// the text before piece by piece; an honest page of the largest size takes less than a second.
const maxTime = 10 * time.Second

var errSlow = errors.New("the page takes too long to read")

// bounded ends a reader when its time is up.
type bounded struct {
	io.Reader
	late atomic.Bool
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.late.Load() {
		return 0, errSlow
	}
	return b.Reader.Read(p)
}

func hypertext(body []byte) (Document, error) { return hypertextWithin(body, maxTime) }

func hypertextWithin(body []byte, limit time.Duration) (Document, error) {
	in := &bounded{Reader: bytes.NewReader(body)}
	defer time.AfterFunc(limit, func() { in.late.Store(true) }).Stop()
	root, err := html.Parse(in)
	if errors.Is(err, errSlow) {
		return Document{}, &Error{fault.Say("parse.too_slow")}
	}
	if err != nil {
		return Document{}, &Error{fault.Say("parse.too_deep")}
	}
	w := &writer{}
	w.children(root)
	w.block()
	d := Document{Title: w.title, Text: w.out.String(), Headings: w.headings}
	if d.Title == "" && len(d.Headings) > 0 && d.Headings[0].Level == 1 {
		d.Title = strings.Join(strings.Fields(d.Text[d.Headings[0].Start:d.Headings[0].End]), " ")
	}
	if r := []rune(d.Title); len(r) > 200 {
		d.Title = string(r[:200]) + "…"
	}
	return d, nil
}

// writer lays the text out: inline text collapses its white space, blocks are separated by an empty line.
type writer struct {
	out      strings.Builder
	line     strings.Builder // the block being written, without blanks at its ends
	gap      bool            // white space is due before the next word
	tight    bool            // the next block follows the last one without an empty line
	pre      int             // depth of preformatted elements
	heading  int             // level of the heading being written
	headings []Heading
	title    string
}

// block ends the block being written.
func (w *writer) block() {
	text := strings.Trim(w.line.String(), "\n")
	w.line.Reset()
	w.gap = false
	if strings.TrimSpace(text) == "" {
		return
	}
	if w.out.Len() > 0 {
		w.out.WriteByte('\n')
		if !w.tight {
			w.out.WriteByte('\n')
		}
	}
	w.tight = false
	start := w.out.Len()
	w.out.WriteString(text)
	if w.heading > 0 {
		w.headings = append(w.headings, Heading{start, w.out.Len(), w.heading})
	}
}

func (w *writer) text(s string) {
	s = clean(s)
	if w.pre > 0 {
		w.line.WriteString(s)
		return
	}
	for i, f := range strings.FieldsFunc(s, unicode.IsSpace) {
		lead := i > 0 || startsWithSpace(s)
		if (w.gap || lead) && w.line.Len() > 0 && !strings.HasSuffix(w.line.String(), "\n") {
			w.line.WriteByte(' ')
		}
		w.line.WriteString(f)
		w.gap = false
	}
	if s != "" && endsWithSpace(s) {
		w.gap = true
	}
}

func startsWithSpace(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsSpace(r)
}

func endsWithSpace(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsSpace(r)
}

func (w *writer) children(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch c.Type {
		case html.TextNode:
			w.text(c.Data)
		case html.ElementNode:
			w.element(c)
		case html.DocumentNode:
			w.children(c)
		case html.ErrorNode, html.CommentNode, html.DoctypeNode, html.RawNode:
		}
	}
}

func (w *writer) element(n *html.Node) {
	if hidden(n) {
		return
	}
	switch n.DataAtom {
	case atom.Title:
		if w.title == "" && n.FirstChild != nil {
			w.title = strings.Join(strings.Fields(clean(n.FirstChild.Data)), " ")
		}
	case atom.Head:
		w.children(n)
		w.line.Reset() // only the title counts
	case atom.Br:
		w.line.WriteByte('\n')
		w.gap = false
	case atom.Img:
		w.text(" " + attr(n, "alt") + " ")
	case atom.Td, atom.Th:
		if w.line.Len() > 0 {
			w.line.WriteString(" | ")
			w.gap = false
		}
		w.children(n)
	case atom.Tr, atom.Li, atom.Dt, atom.Dd, atom.Option:
		w.block()
		w.tight = n.PrevSibling != nil && w.out.Len() > 0 && follows(n)
		w.children(n)
		w.block()
	case atom.Pre:
		w.block()
		w.pre++
		w.children(n)
		w.block()
		w.pre--
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.block()
		outer := w.heading
		w.heading = int(n.Data[1] - '0')
		w.children(n)
		w.block()
		w.heading = outer
	default:
		if isInline(n.DataAtom) {
			w.children(n)
			return
		}
		w.block()
		w.children(n)
		w.block()
	}
}

// follows reports whether an element of the same list or table comes before n: such items stand on consecutive lines.
func follows(n *html.Node) bool {
	for p := n.PrevSibling; p != nil; p = p.PrevSibling {
		if p.Type == html.ElementNode {
			return p.DataAtom == n.DataAtom || n.DataAtom == atom.Dd
		}
	}
	return false
}

func isInline(a atom.Atom) bool {
	switch a {
	case atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Code, atom.Data, atom.Del, atom.Dfn, atom.Em,
		atom.Font, atom.I, atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Q, atom.Rp, atom.Rt, atom.Ruby, atom.S, atom.Samp,
		atom.Small, atom.Span, atom.Strike, atom.Strong, atom.Sub, atom.Sup, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return true
	default:
		return false
	}
}

// hidden reports whether a reader of the page would not see the element.
func hidden(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Embed, atom.Svg, atom.Math, atom.Canvas,
		atom.Audio, atom.Video, atom.Meta, atom.Link, atom.Base, atom.Noframes, atom.Noembed:
		return true
	case atom.Dialog:
		return !has(n, "open")
	default:
		return has(n, "hidden") || hiddenStyle(attr(n, "style"))
	}
}

// hiddenStyle reports whether an inline style makes text invisible.
func hiddenStyle(style string) bool {
	if style == "" {
		return false
	}
	rules := map[string]string{}
	for rule := range strings.SplitSeq(strings.ToLower(style), ";") {
		name, value, ok := strings.Cut(rule, ":")
		if ok {
			rules[strings.TrimSpace(name)] = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "!important"))
		}
	}
	color, back := rules["color"], rules["background-color"]
	if back == "" {
		back = rules["background"]
	}
	switch {
	case rules["display"] == "none", rules["visibility"] == "hidden", rules["visibility"] == "collapse",
		rules["content-visibility"] == "hidden", isZero(rules["opacity"]), isZero(rules["font-size"]),
		color == "transparent", color != "" && color == back:
		return true
	}
	return false
}

// isZero reports whether a CSS length or number is nought, whatever its unit.
func isZero(v string) bool {
	digits := strings.TrimRight(v, "abcdefghijklmnopqrstuvwxyz% ")
	return digits != "" && strings.Trim(digits, "0.") == ""
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}
