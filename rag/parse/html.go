package parse

import (
	"context"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxPageTime bounds the parser. Some hostile pages take it quadratic time, such as text between tags that it ignores, which it adds to
// the text before piece by piece; an honest page of the largest size takes less than a second.
const maxPageTime = 10 * time.Second

// bounded ends a reader when its time is up.
type bounded struct {
	io.Reader
	ctx context.Context
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if err := ended(b.ctx); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

func (r *reading) hypertext(page string) (Document, error) {
	ctx, cancel := context.WithTimeoutCause(r.ctx, maxPageTime, errSlow)
	defer cancel()
	root, err := html.Parse(&bounded{strings.NewReader(page), ctx})
	if err := ended(ctx); err != nil {
		return Document{}, err
	}
	if err != nil {
		return Document{}, errDeep
	}
	w := &writer{r: r, b: r.builder()}
	if err := w.children(root); err != nil {
		return Document{}, err
	}
	w.block()
	return w.b.document(w.title)
}

// writer lays the text out: inline text collapses its white space, blocks are separated by an empty line.
type writer struct {
	r       *reading
	b       *builder
	line    strings.Builder // the block being written, without blanks at its ends
	gap     bool            // white space is due before the next word
	tight   bool            // the next block follows the last one without an empty line
	pre     int             // depth of preformatted elements
	heading int             // level of the heading being written
	lists   int             // depth of lists
	item    bool            // the next block is an item of one
	title   string
}

// block ends the block being written.
func (w *writer) block() {
	text := strings.Trim(w.line.String(), "\n")
	w.line.Reset()
	w.gap = false
	if strings.TrimSpace(text) == "" {
		return
	}
	kind, level := Paragraph, 0
	switch {
	case w.heading > 0:
		kind, level = Heading, w.heading
	case w.pre > 0:
		kind = Code
	case w.item:
		kind, level = Item, max(1, w.lists)
	}
	w.b.add(kind, level, text, w.tight)
	w.tight, w.item = false, false
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

func (w *writer) children(n *html.Node) error {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if err := ended(w.r.ctx); err != nil {
			return err
		}
		switch c.Type {
		case html.TextNode:
			w.text(c.Data)
		case html.ElementNode:
			if err := w.element(c); err != nil {
				return err
			}
		case html.DocumentNode:
			if err := w.children(c); err != nil {
				return err
			}
		case html.ErrorNode, html.CommentNode, html.DoctypeNode, html.RawNode:
		}
	}
	return nil
}

func (w *writer) element(n *html.Node) error {
	if hidden(n) {
		return nil
	}
	switch n.DataAtom {
	case atom.Title:
		if w.title == "" && n.FirstChild != nil {
			w.title = oneLine(n.FirstChild.Data)
		}
	case atom.Head:
		err := w.children(n)
		w.line.Reset() // only the title counts
		return err
	case atom.Br:
		w.line.WriteByte('\n')
		w.gap = false
	case atom.Img:
		w.text(" " + attr(n, "alt") + " ")
	case atom.Table:
		w.block()
		if isGrid(n) {
			return w.table(n)
		}
		err := w.children(n)
		w.block()
		return err
	case atom.Td, atom.Th:
		if w.line.Len() > 0 {
			w.line.WriteString(between)
			w.gap = false
		}
		return w.children(n)
	case atom.Tr, atom.Li, atom.Dt, atom.Dd, atom.Option:
		w.block()
		w.tight = n.PrevSibling != nil && w.b.out.Len() > 0 && follows(n)
		w.item = n.DataAtom == atom.Li
		err := w.children(n)
		w.block()
		w.item = false
		return err
	case atom.Ul, atom.Ol, atom.Menu:
		w.block()
		w.lists++
		err := w.children(n)
		w.block()
		w.lists--
		return err
	case atom.Pre:
		w.block()
		w.pre++
		err := w.children(n)
		w.block()
		w.pre--
		return err
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.block()
		outer := w.heading
		w.heading = int(n.Data[1] - '0')
		err := w.children(n)
		w.block()
		w.heading = outer
		return err
	default:
		if isInline(n.DataAtom) {
			return w.children(n)
		}
		w.block()
		err := w.children(n)
		w.block()
		return err
	}
	return nil
}

// seen yields the parts of a table that a reader of the page sees: its captions and rows.
func seen(n *html.Node, yield func(*html.Node) error) error {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		var err error
		switch {
		case c.Type != html.ElementNode || hidden(c):
		case c.DataAtom == atom.Caption, c.DataAtom == atom.Tr:
			err = yield(c)
		default:
			err = seen(c, yield)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isGrid reports whether a table has rows of short cells. One that holds headings, lists or tables lays out a page, and its text flows. The search
// ends at the first of these, so that no node is met for two tables around it.
func isGrid(n *html.Node) bool {
	rows, grid := false, true
	for d := range n.Descendants() {
		switch d.DataAtom {
		case atom.Tr:
			rows = true
		case atom.Table, atom.Ul, atom.Ol, atom.Dl, atom.Pre, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
			grid = false
		default:
		}
		if !grid {
			break
		}
	}
	return rows && grid
}

// table writes a table of rows. A cell that spans rows says the same in each.
func (w *writer) table(n *html.Node) error {
	var rows [][]string
	type hanging struct {
		text string
		left int
	}
	down := map[int]hanging{} // cells that reach into the next rows, by column
	header := 0
	err := seen(n, func(d *html.Node) error {
		switch d.DataAtom {
		case atom.Caption:
			text, err := w.cell(d)
			if err != nil {
				return err
			}
			w.b.paragraph(text)
		case atom.Tr:
			var row []string
			names := true
			hang := func() {
				for h := down[len(row)]; h.left > 0; h = down[len(row)] {
					h.left--
					down[len(row)] = h
					row = append(row, h.text)
				}
			}
			for c := d.FirstChild; c != nil; c = c.NextSibling {
				if c.DataAtom != atom.Td && c.DataAtom != atom.Th || hidden(c) {
					continue
				}
				hang()
				text, err := w.cell(c)
				if err != nil {
					return err
				}
				span := max(1, min(number(attr(c, "colspan"), 1), 256))
				if err := w.r.hold(span); err != nil {
					return err
				}
				if rows := min(number(attr(c, "rowspan"), 1), 1000); rows > 1 {
					down[len(row)] = hanging{text, rows - 1}
				}
				row = append(append(row, text), make([]string, span-1)...)
				names = names && c.DataAtom == atom.Th
			}
			hang()
			if err := w.r.hold(len(row)); err != nil {
				return err
			}
			if len(row) > 0 && header == len(rows) && (names || d.Parent != nil && d.Parent.DataAtom == atom.Thead) {
				header++
			}
			rows = append(rows, row)
		default:
		}
		return nil
	})
	if err != nil {
		return err
	}
	if header == 0 && len(rows) > 1 && namesColumns(rows[0]) {
		header = 1
	}
	if header == len(rows) {
		header = 0
	}
	w.b.table(rows, header)
	return nil
}

// cell is the text of a cell.
func (w *writer) cell(n *html.Node) (string, error) {
	in := &writer{r: w.r, b: w.r.builder()}
	err := in.children(n)
	in.block()
	return in.b.out.String(), err
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
