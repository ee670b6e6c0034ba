package parse

import (
	"html"
	"regexp"
	"strconv"
	"strings"
)

// markdown renders the document as simple HTML and reads that, so that HTML inside Markdown meets the same rules. It knows the
// blocks that matter to retrieval: headings, paragraphs, lists, quotes, tables and code. Every step takes linear time, which the
// complete grammar does not allow: libraries need minutes for a hostile file of a few hundred kilobytes.
func (r *reading) markdown(text string) (Document, error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	out := &renderer{}
	for line := range strings.Lines(text) {
		out.line(strings.TrimSuffix(line, "\n"))
	}
	out.end()
	return r.hypertext(out.out.String())
}

type renderer struct {
	out   strings.Builder
	lines []string // the paragraph, list item or table row being collected
	tag   string   // the element it becomes
	fence string   // what closes the code block being read, "" outside of one
	list  string   // the list or table that is open
}

var (
	heading    = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$`)
	item       = regexp.MustCompile(`^[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+(.*)$`)
	underline  = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
	rule       = regexp.MustCompile(`^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	delimiter  = regexp.MustCompile(`^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
	definition = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:[ \t]+\S+`)
	opening    = regexp.MustCompile("^ {0,3}(```+|~~~+)")

	link     = regexp.MustCompile(`!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])`)
	autolink = regexp.MustCompile(`<(?:https?|mailto|ftp):[^<>\s]*>`)
	bold     = regexp.MustCompile(`\*{1,3}([^*\s](?:[^*]*[^*\s])?)\*{1,3}`)
	under    = regexp.MustCompile(`(^|[\s\p{P}])_{1,3}([^_\s](?:[^_]*[^_\s])?)_{1,3}($|[\s\p{P}])`)
	strike   = regexp.MustCompile(`~~([^~]+)~~`)
	escaped  = regexp.MustCompile(`\\[!-/:-@\[-` + "`" + `{-~]`)
)

func (r *renderer) line(s string) {
	if r.fence != "" {
		if strings.HasPrefix(strings.TrimSpace(s), r.fence) {
			r.fence = ""
			r.out.WriteString("</pre>\n")
			return
		}
		r.out.WriteString(html.EscapeString(s) + "\n")
		return
	}
	for trimmed := strings.TrimLeft(s, " \t"); strings.HasPrefix(trimmed, ">"); trimmed = strings.TrimLeft(s, " \t") {
		s = trimmed[1:] // a quotation: its text counts
	}
	if m := opening.FindStringSubmatch(s); m != nil {
		r.end()
		r.fence = m[1][:3]
		r.out.WriteString("<pre>\n")
		return
	}
	switch m := item.FindStringSubmatch(s); {
	case strings.TrimSpace(s) == "":
		r.end()
	case definition.MatchString(s):
	case underline.MatchString(s) && r.tag == "p" && len(r.lines) > 0:
		r.tag = "h1"
		if strings.Contains(s, "-") {
			r.tag = "h2"
		}
		r.end()
	case rule.MatchString(s):
		r.end()
	case strings.Contains(s, "|") && delimiter.MatchString(s):
		r.flush()
	case strings.HasPrefix(strings.TrimSpace(s), "|"):
		r.begin("tr", "table")
		r.lines = append(r.lines, s)
	case heading.MatchString(s):
		h := heading.FindStringSubmatch(s)
		r.end()
		r.begin("h"+strconv.Itoa(len(h[1])), "")
		r.lines = append(r.lines, h[2])
		r.end()
	case m != nil:
		r.begin("li", "ul")
		r.lines = append(r.lines, m[1])
	default:
		if len(r.lines) == 0 || r.tag == "tr" {
			r.begin("p", "")
		}
		r.lines = append(r.lines, s)
	}
}

// begin ends what is collected and starts an element, inside the given list or table.
func (r *renderer) begin(tag, list string) {
	r.flush()
	if r.list != list {
		r.close()
		if list != "" {
			r.out.WriteString("<" + list + ">")
		}
		r.list = list
	}
	r.tag = tag
}

// end ends the element, and the list or table around it.
func (r *renderer) end() {
	r.flush()
	r.close()
}

func (r *renderer) close() {
	if r.list != "" {
		r.out.WriteString("</" + r.list + ">\n")
		r.list = ""
	}
}

func (r *renderer) flush() {
	if len(r.lines) == 0 {
		return
	}
	text := strings.Join(r.lines, "\n")
	r.lines = r.lines[:0]
	r.out.WriteString("<" + r.tag + ">")
	if r.tag == "tr" {
		cells := strings.Split(strings.Trim(strings.TrimSpace(text), "|"), "|")
		for _, c := range cells {
			r.out.WriteString("<td>" + inline(strings.TrimSpace(c)) + "</td>")
		}
	} else {
		r.out.WriteString(inline(text))
	}
	r.out.WriteString("</" + r.tag + ">\n")
}

// inline turns the marks inside a block into plain text. Code between backquotes stays as it is.
func inline(s string) string {
	parts := strings.Split(s, "`")
	var b strings.Builder
	for i, p := range parts {
		code := i%2 == 1 && i < len(parts)-1
		switch {
		case code:
			b.WriteString(html.EscapeString(p))
		default:
			if i%2 == 1 {
				b.WriteByte('`') // never closed
			}
			b.WriteString(unmark(p))
		}
	}
	return b.String()
}

func unmark(s string) string {
	if strings.Contains(s, `\`) {
		s = escaped.ReplaceAllStringFunc(s, func(m string) string { return "&#" + strconv.Itoa(int(m[1])) + ";" })
	}
	if strings.Contains(s, "<") {
		s = autolink.ReplaceAllString(s, "")
	}
	if strings.Contains(s, "](") || strings.Contains(s, "][") {
		s = link.ReplaceAllString(s, "$1")
		s = link.ReplaceAllString(s, "$1") // a linked image
	}
	if strings.Contains(s, "*") {
		s = bold.ReplaceAllString(s, "$1")
	}
	if strings.Contains(s, "_") {
		s = under.ReplaceAllString(s, "$1$2$3")
	}
	if strings.Contains(s, "~~") {
		s = strike.ReplaceAllString(s, "$1")
	}
	return s
}
