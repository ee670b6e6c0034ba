package parse

import (
	"encoding/xml"
	"errors"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// pptx reads a presentation: each slide that is shown is a section under its title, with its tables, and the notes of the speaker behind them.
func (r *reading) pptx(a *archive) (Document, error) {
	main, err := a.main()
	if err != nil {
		return Document{}, err
	}
	related, err := a.relations(main)
	if err != nil {
		return Document{}, err
	}
	x, err := a.open(main)
	if err != nil {
		return Document{}, noPart(err)
	}
	var slides []string
	err = x.root(func(e xml.StartElement) error {
		if e.Name.Local != "sldIdLst" {
			return x.skip()
		}
		return x.each(func(e xml.StartElement) error {
			if r := related[relationID(e)]; r.kind == "slide" && r.target != "" {
				slides = append(slides, r.target)
			}
			return x.skip()
		})
	})
	if err != nil {
		return Document{}, err
	}
	p := &slideshow{r: r, b: r.builder()}
	for i, part := range slides {
		p.b.page = i + 1
		if err := p.slide(a, part); err != nil {
			return Document{}, err
		}
	}
	title, err := a.title()
	if err != nil {
		return Document{}, err
	}
	if strings.EqualFold(title, "PowerPoint Presentation") {
		title = ""
	}
	d, err := p.b.document(title)
	if p.hidden > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.hidden_slides", p.hidden))
	}
	if p.pictures > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.pictures", p.pictures))
	}
	if p.drawn > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.diagrams", p.drawn))
	}
	if p.embedded > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.embedded", p.embedded))
	}
	if p.formulas > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.equations", p.formulas))
	}
	if p.shapesHidden > 0 {
		d.Left = append(d.Left, fault.Say("parse.left.hidden_shapes", p.shapesHidden))
	}
	return d, err
}

type slideshow struct {
	r                       *reading
	b                       *builder
	hidden, pictures, drawn int
	shapesHidden, embedded  int
	formulas                int
}

// shape is what a shape says.
type shape struct {
	role       string // of a placeholder, such as title
	hidden     bool
	paragraphs []slideParagraph
	rows       [][]string
}

type slideParagraph struct {
	text  string
	level int
}

func (p *slideshow) slide(a *archive, part string) error {
	x, err := a.open(part)
	if err != nil {
		return noPart(err)
	}
	var shapes []shape
	hidden := false
	// The element itself says whether the slide is shown.
	err = x.rootElement(func(root xml.StartElement) error {
		if s := attribute(root, "show"); s == "0" || s == "false" {
			hidden = true
		}
		return x.each(func(e xml.StartElement) error {
			if e.Name.Local != "cSld" || hidden {
				return x.skip()
			}
			return p.shapes(x, &shapes)
		})
	})
	if err != nil {
		return err
	}
	if hidden {
		p.hidden++
		return nil
	}
	title := ""
	for _, s := range shapes {
		if (s.role == "title" || s.role == "ctrTitle") && title == "" {
			title = slideLines(s.paragraphs)
		}
	}
	if oneLine(title) == "" {
		title = untitled
	}
	if len(shapes) > 0 {
		p.b.heading(1, title)
	}
	for _, s := range shapes {
		if s.role != "title" && s.role != "ctrTitle" {
			p.write(s)
		}
	}
	related, err := a.relations(part)
	if err != nil {
		return err
	}
	return p.notes(a, of(related, "notesSlide"))
}

// untitled is the heading of slides without a title. All have the same: a number would move to another slide when one is put in front, and a rule on
// the section with it.
const untitled = "Untitled slide"

func (p *slideshow) write(s shape) {
	if s.rows != nil {
		p.b.table(s.rows, min(1, len(s.rows)-1))
		return
	}
	for _, q := range s.paragraphs {
		if len(s.paragraphs) > 1 || q.level > 0 {
			p.b.item(q.level+1, q.text)
		} else {
			p.b.paragraph(q.text)
		}
	}
	if len(s.paragraphs) > 0 {
		p.b.apart()
	}
}

func (p *slideshow) notes(a *archive, part string) error {
	x, err := a.open(part)
	if errors.Is(err, errNoPart) {
		return nil
	}
	if err != nil {
		return err
	}
	var shapes []shape
	err = x.root(func(e xml.StartElement) error {
		if e.Name.Local != "cSld" {
			return x.skip()
		}
		return p.shapes(x, &shapes)
	})
	for _, s := range shapes {
		if s.role == "body" {
			for _, q := range s.paragraphs {
				p.b.paragraph(q.text)
			}
		}
	}
	return err
}

// shapes reads those of a slide or group, in the order in which they are read aloud. Dates, numbers and footers of slides are left out.
func (p *slideshow) shapes(x *elements, out *[]shape) error {
	group := shape{}
	before := len(*out)
	defer func() {
		if group.hidden {
			p.shapesHidden += len(*out) - before
			*out = (*out)[:before]
		}
	}()
	return x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "spTree", "grpSp":
			return p.shapes(x, out)
		case "nvGrpSpPr":
			return p.shape(x, &group)
		case "pic":
			p.pictures++
			return x.skip()
		case "AlternateContent":
			chosen := false
			return x.each(func(xml.StartElement) error {
				if chosen {
					return x.skip()
				}
				chosen = true
				return p.shapes(x, out)
			})
		case "sp", "graphicFrame", "cxnSp":
			var s shape
			if err := p.shape(x, &s); err != nil {
				return err
			}
			switch s.role {
			case "dt", "ftr", "sldNum", "hdr", "sldImg":
				return nil
			}
			if s.hidden {
				p.shapesHidden++
				return nil
			}
			if len(s.paragraphs) > 0 || s.rows != nil {
				*out = append(*out, s)
			}
			return nil
		}
		return x.skip()
	})
}

func (p *slideshow) shape(x *elements, s *shape) error {
	return x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "nvSpPr", "nvPr", "nvGraphicFramePr", "graphic", "graphicData":
			return p.shape(x, s)
		case "cNvPr":
			switch attribute(e, "hidden") {
			case "1", "true":
				s.hidden = true
			}
		case "AlternateContent", "oleObj": // an object, in one of its forms
			p.embedded++
		case "ph":
			if s.role = attribute(e, "type"); s.role == "" {
				s.role = "body"
			}
		case "txBody":
			ps, err := p.text(x)
			s.paragraphs = append(s.paragraphs, ps...)
			return err
		case "tbl":
			return p.table(x, s)
		case "relIds", "chart":
			p.drawn++
		}
		return x.skip()
	})
}

// text reads the paragraphs of a text body; empty ones go.
func (p *slideshow) text(x *elements) ([]slideParagraph, error) {
	var out []slideParagraph
	err := x.each(func(e xml.StartElement) error {
		if e.Name.Local != "p" {
			return x.skip()
		}
		var text strings.Builder
		q := slideParagraph{}
		var runs func(e xml.StartElement) error
		runs = func(e xml.StartElement) error {
			switch e.Name.Local {
			case "pPr":
				q.level = min(number(attribute(e, "lvl"), 0), 8)
			case "r", "fld":
				return x.each(runs)
			case "t":
				return appendText(x, &text)
			case "br":
				text.WriteByte('\n')
			case "m", "AlternateContent":
				p.formulas++
			}
			return x.skip()
		}
		err := x.each(runs)
		if q.text = text.String(); strings.TrimSpace(q.text) != "" {
			out = append(out, q)
		}
		return err
	})
	return out, err
}

// slideLines is the text of paragraphs, each with the end of its line.
func slideLines(ps []slideParagraph) string {
	var out strings.Builder
	for _, q := range ps {
		out.WriteString(q.text)
		out.WriteByte('\n')
	}
	return out.String()
}

func (p *slideshow) table(x *elements, s *shape) error {
	s.rows = [][]string{}
	var above []string
	return x.each(func(e xml.StartElement) error {
		if e.Name.Local != "tr" {
			return x.skip()
		}
		var row []string
		err := x.each(func(e xml.StartElement) error {
			if e.Name.Local != "tc" {
				return x.skip()
			}
			down := attribute(e, "vMerge") == "1" || attribute(e, "vMerge") == "true"
			var ps []slideParagraph
			err := x.each(func(e xml.StartElement) error {
				if e.Name.Local != "txBody" {
					return x.skip()
				}
				more, err := p.text(x)
				ps = append(ps, more...)
				return err
			})
			text := slideLines(ps)
			if down && len(row) < len(above) {
				text = above[len(row)]
			}
			row = append(row, text)
			return errors.Join(err, p.r.hold(1))
		})
		s.rows, above = append(s.rows, row), row
		return err
	})
}
