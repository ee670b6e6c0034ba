package parse

import (
	"encoding/xml"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/internal/fault"
)

// docx reads a Word document: the final text where changes are tracked, without headers and footers, hidden text, tables of contents and comments.
func (r *reading) docx(a *archive) (Document, error) {
	main, err := a.main()
	if err != nil {
		return Document{}, err
	}
	related, err := a.relations(main)
	if err != nil {
		return Document{}, err
	}
	w := &word{r: r, b: r.builder(), notes: map[string]string{}}
	if w.styles, err = readStyles(a, of(related, "styles")); err != nil {
		return Document{}, err
	}
	if w.numbers, err = readNumbering(a, of(related, "numbering")); err != nil {
		return Document{}, err
	}
	for _, kind := range []string{"footnotes", "endnotes"} {
		if err := w.readNotes(a, of(related, kind), kind); err != nil {
			return Document{}, err
		}
	}
	x, err := a.open(main)
	if err != nil {
		return Document{}, noPart(err)
	}
	err = x.root(func(e xml.StartElement) error {
		if e.Name.Local != "body" {
			return x.skip()
		}
		return w.content(x, w.write)
	})
	if err != nil {
		return Document{}, err
	}
	title := w.title
	if title == "" {
		if title, err = a.title(); err != nil {
			return Document{}, err
		}
	}
	d, err := w.b.document(title)
	if err != nil {
		return Document{}, err
	}
	edges, comments, err := w.beside(a, related)
	if err != nil {
		return Document{}, err
	}
	for _, left := range []struct {
		n   int
		say func(n int) fault.Phrase
	}{
		{w.pictures, func(n int) fault.Phrase { return fault.Say("parse.left.pictures", n) }},
		{w.drawn, func(n int) fault.Phrase { return fault.Say("parse.left.diagrams", n) }},
		{w.embedded, func(n int) fault.Phrase { return fault.Say("parse.left.embedded", n) }},
		{w.hidden, func(n int) fault.Phrase { return fault.Say("parse.left.hidden_text", n) }},
		{edges, func(n int) fault.Phrase { return fault.Say("parse.left.headers", n) }},
		{comments, func(n int) fault.Phrase { return fault.Say("parse.left.comments", n) }},
	} {
		if left.n > 0 {
			d.Left = append(d.Left, left.say(left.n))
		}
	}
	return d, nil
}

// beside counts the headers and footers that say something, and the comments.
func (w *word) beside(a *archive, related map[string]relation) (edges, comments int, err error) {
	seen := map[string]bool{}
	for _, r := range related {
		if r.kind != "header" && r.kind != "footer" && r.kind != "comments" || seen[r.target] {
			continue
		}
		seen[r.target] = true
		x, err := a.open(r.target)
		if errors.Is(err, errNoPart) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		if r.kind == "comments" {
			err = x.root(func(e xml.StartElement) error {
				if e.Name.Local == "comment" {
					comments++
				}
				return x.skip()
			})
		} else {
			says := false
			var find func(e xml.StartElement) error
			find = func(e xml.StartElement) error {
				if e.Name.Local != "t" {
					return x.each(find)
				}
				s, err := x.text()
				says = says || strings.TrimSpace(s) != ""
				return err
			}
			if err = x.root(find); says {
				edges++
			}
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return edges, comments, nil
}

type word struct {
	r        *reading
	b        *builder
	styles   map[string]style
	numbers  *numbering
	notes    map[string]string // by kind and id
	noted    int               // notes that the text refers to, so far
	title    string
	pictures int
	drawn    int // charts and diagrams
	embedded int // documents and objects inside
	hidden   int // pieces of text
}

// flow is a paragraph or a table of a document's body, a cell, a note or a text box.
type flow struct {
	text   string
	level  int // of a heading; 0: no heading
	title  bool
	item   int // level of a list; 0: no item
	number string
	rows   [][]string // of a table
	header int
	after  []string // notes and text boxes that belong to it
	begun  []string // text of the paragraphs before, whose ends were deleted
}

// join makes f go on where a paragraph without an end has stopped.
func (f *flow) join(before *flow) {
	if before != nil {
		f.begun, f.after = append(before.begun, before.text), append(before.after, f.after...)
	}
}

// whole is the flow with the text of what it goes on with.
func (f flow) whole() flow {
	if len(f.begun) > 0 {
		f.text, f.begun = strings.Join(f.begun, "")+f.text, nil
	}
	return f
}

// write gives a part of the body to the builder.
func (w *word) write(f flow) {
	switch {
	case f.rows != nil:
		w.b.table(f.rows, f.header)
	case f.title || f.level > 0:
		if f.title && w.title == "" {
			w.title = f.text
		}
		w.b.heading(f.level, strings.TrimSpace(f.number+" "+f.text))
	case f.item > 0:
		w.b.item(f.item, strings.TrimSpace(f.number+" "+f.text))
	default:
		w.b.paragraph(f.text)
	}
	for _, s := range f.after {
		w.b.paragraph(s)
	}
}

// content reads the paragraphs and tables of the element that was begun. A paragraph whose end was deleted goes on with the next one.
func (w *word) content(x *elements, out func(flow)) error {
	var open *flow
	if err := w.blocks(x, out, &open); err != nil {
		return err
	}
	if open != nil {
		out(open.whole())
	}
	return nil
}

func (w *word) blocks(x *elements, out func(flow), open **flow) error {
	return x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "p":
			f, joins, err := w.paragraph(x)
			if err != nil {
				return err
			}
			f.join(*open)
			if *open = nil; joins {
				*open = &f
				return nil
			}
			out(f.whole())
			return nil
		case "tbl":
			f, err := w.table(x)
			if err != nil {
				return err
			}
			if len(f.rows) == 1 && len(f.rows[0]) == 1 { // a frame around text
				f = flow{text: f.rows[0][0], after: f.after}
			}
			out(f)
			return nil
		case "altChunk":
			w.embedded++
			return x.skip()
		case "sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag":
			return w.blocks(x, out, open)
		case "AlternateContent":
			return w.alternative(x, func() error { return w.blocks(x, out, open) })
		default: // also del and moveFrom
			return x.skip()
		}
	})
}

// alternative reads the first choice of several forms of the same.
func (w *word) alternative(x *elements, read func() error) error {
	chosen := false
	return x.each(func(e xml.StartElement) error {
		if chosen || e.Name.Local != "Choice" && e.Name.Local != "Fallback" {
			return x.skip()
		}
		chosen = true
		return read()
	})
}

// properties are those of a paragraph that matter here.
type properties struct {
	style       string
	outline     int // level of a heading, from 0; -1: not said
	list, depth int // number of the list, -1: not said; and level in it, from 0
	markDeleted bool
}

func readProperties(x *elements) (properties, error) {
	p := properties{outline: -1, list: -1}
	err := x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "pStyle":
			p.style = attribute(e, "val")
		case "outlineLvl":
			p.outline = number(attribute(e, "val"), -1)
		case "numPr":
			return x.each(func(e xml.StartElement) error {
				switch e.Name.Local {
				case "ilvl":
					p.depth = number(attribute(e, "val"), 0)
				case "numId":
					p.list = number(attribute(e, "val"), -1)
				}
				return x.skip()
			})
		case "rPr":
			return x.each(func(e xml.StartElement) error {
				if e.Name.Local == "del" || e.Name.Local == "moveFrom" {
					p.markDeleted = true
				}
				return x.skip()
			})
		}
		return x.skip()
	})
	return p, err
}

// number reads a small number that is not negative.
func number(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		return otherwise
	}
	return n
}

// paragraph reads one. joins: its end was deleted, and so it goes on with the next one.
func (w *word) paragraph(x *elements) (f flow, joins bool, err error) {
	p := properties{outline: -1, list: -1}
	var text strings.Builder
	if err := w.runs(x, &text, &f, &p); err != nil {
		return f, false, err
	}
	f.text = text.String()
	s, known := w.styles[p.style]
	if !known {
		s = style{outline: -1, list: -1}
	}
	if s.contents {
		return flow{after: f.after}, false, nil
	}
	outline, list, depth := s.outline, s.list, s.depth
	if p.outline >= 0 {
		outline = p.outline
	}
	if p.list >= 0 {
		list, depth = p.list, p.depth
	}
	if f.title = s.title; !f.title && outline >= 0 && outline < 9 {
		f.level = outline + 1
	}
	if list > 0 && strings.TrimSpace(f.text) != "" {
		if f.number = w.numbers.next(list, depth); !w.r.spend(len(f.number)) {
			f.number = ""
		}
		if f.level == 0 && !f.title {
			f.item = depth + 1
		}
	}
	return f, p.markDeleted, nil
}

// runs reads what is inside a paragraph.
func (w *word) runs(x *elements, text *strings.Builder, f *flow, p *properties) error {
	return x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "pPr":
			var err error
			*p, err = readProperties(x)
			return err
		case "r":
			return w.run(x, text, f, p.style)
		case "del", "moveFrom":
			return x.skip()
		case "t": // of a formula
			return appendText(x, text)
		case "rPr", "sdtPr", "fldData", "commentRangeStart", "commentRangeEnd", "proofErr", "bookmarkStart", "bookmarkEnd":
			return x.skip()
		default: // ins, moveTo, hyperlink, fldSimple, sdt, smartTag, dir, and what wraps the parts of a formula
			return w.runs(x, text, f, p)
		}
	})
}

func appendText(x *elements, text *strings.Builder) error {
	s, err := x.text()
	text.WriteString(s)
	return err
}

// run reads a piece of text of a paragraph with a style. A hidden one is read and dropped, with its notes and text boxes.
func (w *word) run(x *elements, text *strings.Builder, f *flow, style string) error {
	var own strings.Builder
	after, noted := len(f.after), w.noted
	hidden, said, character := false, false, ""
	err := x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "rPr":
			return x.each(func(e xml.StartElement) error {
				switch e.Name.Local {
				case "vanish":
					hidden, said = on(e), true
				case "rStyle":
					character = attribute(e, "val")
				}
				return x.skip()
			})
		case "t":
			return appendText(x, &own)
		case "tab", "ptab":
			own.WriteByte('\t')
		case "br", "cr":
			if kind := attribute(e, "type"); kind == "" || kind == "textWrapping" {
				own.WriteByte('\n')
			} else {
				own.WriteByte(' ')
			}
		case "noBreakHyphen":
			own.WriteByte('-')
		case "sym":
			if n, err := strconv.ParseUint(attribute(e, "char"), 16, 32); err == nil && n < 0xe000 { // others are pictures of a font
				own.WriteRune(rune(n))
			}
		case "footnoteReference", "endnoteReference":
			w.noted++
			mark := "[" + strconv.Itoa(w.noted) + "]"
			own.WriteString(mark)
			kind := strings.TrimSuffix(e.Name.Local, "Reference") + "s"
			if note := w.notes[kind+attribute(e, "id")]; w.r.spend(len(mark) + 1 + len(note)) {
				f.after = append(f.after, mark+" "+note)
			}
		case "ruby":
			return x.each(func(e xml.StartElement) error {
				if e.Name.Local != "rubyBase" {
					return x.skip()
				}
				return w.runs(x, &own, f, &properties{style: style})
			})
		case "drawing", "pict":
			return w.drawing(x, f)
		case "object":
			w.embedded++
		case "AlternateContent":
			return w.alternative(x, func() error { return w.drawing(x, f) })
		}
		return x.skip()
	})
	if !said { // styles of paragraphs and characters switch it, each the other way round
		hidden = w.styles[style].hidden != (character != "" && w.styles[character].hidden)
	}
	if hidden {
		if strings.TrimSpace(own.String()) != "" || len(f.after) > after {
			w.hidden++
		}
		f.after, w.noted = f.after[:after], noted
		return err
	}
	text.WriteString(own.String())
	return err
}

// drawing reads the text boxes of a drawing, and counts its pictures.
func (w *word) drawing(x *elements, f *flow) error {
	return x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "txbxContent":
			return w.content(x, func(in flow) {
				f.after = append(append(f.after, w.plain(in)), in.after...)
			})
		case "pic", "imagedata":
			w.pictures++
			return x.skip()
		case "chart", "relIds":
			w.drawn++
			return x.skip()
		case "AlternateContent":
			return w.alternative(x, func() error { return w.drawing(x, f) })
		default:
			return w.drawing(x, f)
		}
	})
}

// plain is the flow as one text.
func (w *word) plain(f flow) string {
	if f.rows == nil {
		return strings.TrimSpace(f.number + " " + f.text)
	}
	var out []string
	for _, r := range f.rows { // cells may share their text
		if !w.r.spend(rowSize(r)) {
			return ""
		}
		out = append(out, rowText(r))
	}
	return strings.Join(out, "\n")
}

// table reads one. A cell that spans rows says the same in each, so that each row can be understood; one that spans columns says it once.
func (w *word) table(x *elements) (flow, error) {
	f := flow{rows: [][]string{}}
	var above []string // of the columns
	heads := 0
	var rows func(e xml.StartElement) error
	rows = func(e xml.StartElement) error {
		switch e.Name.Local {
		case "tr":
			after := len(f.after)
			row, head, deleted, err := w.row(x, above, &f)
			if err != nil {
				return err
			}
			if deleted {
				f.after = f.after[:after]
				return nil
			}
			if head && heads == len(f.rows) {
				heads++
			}
			f.rows, above = append(f.rows, row), row
			return nil
		case "sdt", "sdtContent", "ins", "moveTo", "customXml":
			return x.each(rows)
		}
		return x.skip()
	}
	err := x.each(rows)
	f.header = max(1, heads)
	if len(f.rows) < 2 {
		f.header = 0
	}
	return f, err
}

func (w *word) row(x *elements, above []string, f *flow) (row []string, head, deleted bool, err error) {
	var cells func(e xml.StartElement) error
	cells = func(e xml.StartElement) error {
		switch e.Name.Local {
		case "trPr":
			return x.each(func(e xml.StartElement) error {
				switch e.Name.Local {
				case "tblHeader":
					head = on(e)
				case "del":
					deleted = true
				case "gridBefore":
					n := min(number(attribute(e, "val"), 0), 256)
					row = append(row, make([]string, n)...)
					if err := w.r.hold(n); err != nil {
						return err
					}
				}
				return x.skip()
			})
		case "tc":
			if len(row) > maxColumns {
				return x.skip()
			}
			text, span, goesOn, err := w.cell(x, f)
			if err != nil {
				return err
			}
			if goesOn && len(row) < len(above) {
				text = above[len(row)]
			}
			row = append(append(row, text), make([]string, span-1)...)
			return w.r.hold(span)
		case "sdt", "sdtContent", "ins", "moveTo", "customXml":
			return x.each(cells)
		}
		return x.skip()
	}
	err = x.each(cells)
	return row, head, deleted, err
}

// maxColumns is the most that Excel has; Word has fewer.
const maxColumns = 16384

func (w *word) cell(x *elements, f *flow) (text string, span int, goesOn bool, err error) {
	span = 1
	var parts []string
	var open *flow
	add := func(in flow) {
		if s := w.plain(in); strings.TrimSpace(s) != "" {
			parts = append(parts, s)
		}
		f.after = append(f.after, in.after...)
	}
	err = x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "tcPr":
			return x.each(func(e xml.StartElement) error {
				switch e.Name.Local {
				case "gridSpan":
					span = max(1, min(number(attribute(e, "val"), 1), 256))
				case "vMerge":
					goesOn = attribute(e, "val") != "restart"
				}
				return x.skip()
			})
		case "p":
			in, joins, err := w.paragraph(x)
			if err != nil {
				return err
			}
			in.join(open)
			if open = nil; joins {
				open = &in
				return nil
			}
			add(in.whole())
			return nil
		case "tbl":
			in, err := w.table(x)
			if err == nil {
				add(in)
			}
			return err
		case "sdt", "sdtContent", "ins", "moveTo", "customXml":
			return w.blocks(x, add, &open)
		}
		return x.skip()
	})
	if open != nil {
		add(open.whole())
	}
	return strings.Join(parts, "\n"), span, goesOn, err
}

// readNotes reads the foot or end notes. Those that draw the line above them have a type and no text.
func (w *word) readNotes(a *archive, part, kind string) error {
	x, err := a.open(part)
	if errors.Is(err, errNoPart) {
		return nil
	}
	if err != nil {
		return err
	}
	return x.root(func(e xml.StartElement) error {
		if t := attribute(e, "type"); t != "" && t != "normal" {
			return x.skip()
		}
		var parts []string
		id := attribute(e, "id")
		err := w.content(x, func(f flow) { parts = append(parts, w.plain(f)) })
		w.notes[kind+id] = strings.TrimSpace(strings.Join(parts, "\n"))
		return errors.Join(err, w.r.hold(heldEntry))
	})
}

// style is what a style makes of a paragraph.
type style struct {
	outline     int // level of a heading, from 0; -1: none
	list, depth int
	title       bool
	contents    bool // of a table of contents
	hidden      bool // its text
}

var headingName = regexp.MustCompile(`^heading ([1-9])$`)

// readStyles reads those of paragraphs and characters by id, each with what it takes from the ones it is based on; by "" the one of paragraphs that
// name none.
func readStyles(a *archive, part string) (map[string]style, error) {
	x, err := a.open(part)
	if errors.Is(err, errNoPart) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	type raw struct {
		name, base   string
		p            properties
		hides, shows bool // its text
		paragraph    bool
	}
	all := map[string]raw{}
	otherwise, hidden := "", false // the style of paragraphs that name none; what holds where no style says anything
	err = x.root(func(e xml.StartElement) error {
		if e.Name.Local == "docDefaults" {
			var find func(e xml.StartElement) error
			find = func(e xml.StartElement) error {
				switch e.Name.Local {
				case "rPrDefault", "rPr":
					return x.each(find)
				case "vanish":
					hidden = on(e)
				}
				return x.skip()
			}
			return x.each(find)
		}
		kind := attribute(e, "type")
		if e.Name.Local != "style" || kind != "paragraph" && kind != "character" {
			return x.skip()
		}
		s, id := raw{p: properties{outline: -1, list: -1}, paragraph: kind == "paragraph"}, attribute(e, "styleId")
		switch attribute(e, "default") {
		case "1", "true", "on":
			if kind == "paragraph" {
				otherwise = id
			}
		}
		err := x.each(func(e xml.StartElement) error {
			switch e.Name.Local {
			case "name":
				s.name = strings.ToLower(strings.TrimSpace(attribute(e, "val")))
			case "basedOn":
				s.base = attribute(e, "val")
			case "pPr":
				var err error
				s.p, err = readProperties(x)
				return err
			case "rPr":
				return x.each(func(e xml.StartElement) error {
					if e.Name.Local == "vanish" {
						s.hides, s.shows = on(e), !on(e)
					}
					return x.skip()
				})
			}
			return x.skip()
		})
		all[id] = s
		return errors.Join(err, a.r.hold(2*heldEntry))
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]style, len(all))
	for id := range all {
		s := style{outline: -1, list: -1}
		depth, told := false, false
		for n, at := 0, id; n < 32; n++ { // a chain that is longer is a circle
			r, is := all[at]
			if !is {
				break
			}
			if m := headingName.FindStringSubmatch(r.name); m != nil && s.outline < 0 {
				s.outline = int(m[1][0] - '1')
			}
			if s.outline < 0 {
				s.outline = r.p.outline
			}
			if s.list < 0 && r.p.list >= 0 {
				s.list = r.p.list
			}
			if !depth && (r.p.depth > 0 || r.p.list >= 0) {
				s.depth, depth = r.p.depth, true
			}
			if !told && (r.hides || r.shows) {
				s.hidden, told = r.hides, true
			}
			s.title = s.title || r.name == "title"
			s.contents = s.contents || strings.HasPrefix(r.name, "toc ") && len(r.name) == 5 && unicode.IsDigit(rune(r.name[4]))
			at = r.base
		}
		if !told && all[id].paragraph {
			s.hidden = hidden
		}
		out[id] = s
	}
	if s, is := out[otherwise]; is {
		hidden = s.hidden
	}
	out[""] = style{outline: -1, list: -1, hidden: hidden}
	return out, nil
}
