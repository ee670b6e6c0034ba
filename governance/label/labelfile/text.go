package labelfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// The names of the members of JSON.
const (
	jsonMember   = "AIGC"
	jsonNotice   = "AIGCNotice"
	jsonEnvelope = "sluice"
)

// member is a member of the outermost object of a JSON text: where its value stands.
type member struct {
	name     string
	from, to int
}

// members returns where the outermost object begins, behind its brace, and those of its members that concern labels.
func members(data []byte) (open int, out []member, empty bool, err error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return 0, nil, false, refuse(fault.Say("labelfile.no_json"))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0, nil, false, refuse(fault.Say("labelfile.no_object"))
	}
	open, empty = int(d.InputOffset()), true
	for d.More() {
		empty = false
		name, err := d.Token()
		if err != nil {
			return 0, nil, false, refuse(fault.Say("labelfile.no_json"))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, nil, false, refuse(fault.Say("labelfile.no_json"))
		}
		if s, _ := name.(string); (namesLabel(s) || s == jsonEnvelope) && len(out) < maxMarks {
			end := int(d.InputOffset())
			out = append(out, member{s, end - len(value), end})
		}
	}
	return open, out, empty, nil
}

// ofReply returns the label of a reply of our own API that somebody saved.
func ofReply(envelope []byte) (Mark, bool) {
	var reply struct {
		Label struct{ AIGC json.RawMessage }
	}
	if json.Unmarshal(envelope, &reply) != nil || reply.Label.AIGC == nil {
		return Mark{}, false
	}
	return mark("member sluice.label.AIGC", string(reply.Label.AIGC)), true
}

func readJSON(data []byte) (Found, error) {
	_, all, _, err := members(data)
	if err != nil {
		return Found{}, err
	}
	out := Found{Visible: VisibleNo}
	for _, m := range all {
		value := string(data[m.from:m.to])
		if m.name == jsonEnvelope {
			if reply, ok := ofReply([]byte(value)); ok {
				out.Marks = append(out.Marks, reply)
			}
			continue
		}
		if m.name != jsonNotice {
			out.Marks = append(out.Marks, mark("member AIGC", value))
			continue
		}
		var s string
		if json.Unmarshal([]byte(value), &s) == nil && label.Marks(s) {
			out.Visible = VisibleYes
		}
	}
	return out, nil
}

func writeJSON(data []byte, value, sentence string) ([]byte, error) {
	open, all, empty, err := members(data)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.name == jsonEnvelope {
			continue
		}
		if m.name != jsonNotice {
			return splice(data, m.from, m.to, value), nil
		}
		if sentence != "" {
			return nil, refuse(fault.Say("labelfile.notice"))
		}
	}
	add := `"` + jsonMember + `":` + value
	if sentence != "" {
		quoted, err := json.Marshal(sentence)
		if err != nil {
			return nil, refuse(fault.Say("labelfile.sentence"))
		}
		add += `,"` + jsonNotice + `":` + string(quoted)
	}
	if !empty {
		add += ","
	}
	return splice(data, open, open, add), nil
}

// maxFront bounds the front matter that is parsed.
const maxFront = 64 << 10

// front is the YAML front matter of a Markdown text: the bytes between its fences, and where the text begins behind them.
type front struct {
	from, to, body int
	there          bool
	entries        *yaml.Node // a mapping
}

// frontMatter finds it. A text that begins with a line of three hyphens and no mapping behind it has a rule there and no front matter.
func frontMatter(data []byte) (front, error) {
	if !utf8.Valid(data) {
		return front{}, refuse(fault.Say("labelfile.no_utf8"))
	}
	start := len(data) - len(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	line, next := lineAt(data, start)
	if line != "---" {
		return front{body: start}, nil
	}
	f := front{from: next}
	for at := next; at < len(data) && !f.there; {
		line, after := lineAt(data, at)
		if line == "---" || line == "..." {
			f.to, f.body, f.there = at, after, true
		}
		at = after
	}
	if !f.there {
		return front{body: start}, nil
	}
	inner := data[f.from:f.to]
	if len(inner) > maxFront || oddBreaks(inner) {
		return front{}, refuse(fault.Say("labelfile.front_matter"))
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(inner, &doc); err != nil {
		return front{}, refuse(fault.Say("labelfile.front_matter"))
	}
	if len(doc.Content) == 0 { // nothing, or comments
		f.entries = &yaml.Node{Kind: yaml.MappingNode}
		return f, nil
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return front{body: start}, nil
	}
	f.entries = doc.Content[0]
	return f, nil
}

// oddBreaks reports whether a text has line breaks that YAML counts and other programs do not.
func oddBreaks(b []byte) bool {
	return bytes.ContainsAny(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), "\r\u0085\u2028\u2029")
}

// lineAt returns a line without its end, and where the next one begins.
func lineAt(data []byte, at int) (string, int) {
	end := bytes.IndexByte(data[at:], '\n')
	if end < 0 {
		return strings.TrimRight(string(data[at:]), " \t\r"), len(data)
	}
	return strings.TrimRight(string(data[at:at+end]), " \t\r"), at + end + 1
}

// labelsOf returns the keys and values of labels in a front matter.
func labelsOf(f front) (out [][2]*yaml.Node) {
	if f.entries == nil {
		return nil
	}
	for i := 0; i+1 < len(f.entries.Content); i += 2 {
		if namesLabel(f.entries.Content[i].Value) && len(out) < maxMarks {
			out = append(out, [2]*yaml.Node{f.entries.Content[i], f.entries.Content[i+1]})
		}
	}
	return out
}

// yamlMark reads a label as a mapping of strings, or as a string of JSON.
func yamlMark(n *yaml.Node) Mark {
	const place = "front matter"
	if n.Kind == yaml.ScalarNode {
		return mark(place, n.Value)
	}
	if n.Kind != yaml.MappingNode {
		return Mark{Place: place}
	}
	fields := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if _, twice := fields[k.Value]; twice || v.Kind != yaml.ScalarNode {
			return Mark{Place: place}
		}
		fields[k.Value] = v.Value
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return Mark{Place: place}
	}
	return mark(place, string(b))
}

func readMarkdown(data []byte) (Found, error) {
	f, err := frontMatter(data)
	if err != nil {
		return Found{}, err
	}
	out := Found{Visible: visible(showsMarkdown(string(data[f.body:])))}
	for _, l := range labelsOf(f) {
		out.Marks = append(out.Marks, yamlMark(l[1]))
	}
	return out, nil
}

// showsMarkdown reports whether the first line with text is a visible label, or the last one where no HTML before it can hide it. Comments and
// definitions of links show nothing.
func showsMarkdown(body string) bool {
	html := strings.Contains(body, "<")
	lines := strings.FieldsFunc(body, func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(s string) bool { return strings.TrimSpace(s) == "" })
	shows := func(line string) bool { return label.Marks(line) && !strings.Contains(line, "]:") }
	return len(lines) > 0 && (shows(lines[0]) || !html && shows(lines[len(lines)-1]))
}

// yamlLines writes a label as front matter has it. Strings of JSON are strings of YAML.
func yamlLines(value string) (string, error) {
	x, err := label.Parse(value)
	if err != nil {
		return "", refuse(fault.Say("labelfile.value"))
	}
	out := "AIGC:\n"
	for _, f := range x.Fields() {
		quoted, err := json.Marshal(f.Value)
		if err != nil {
			return "", refuse(fault.Say("labelfile.value"))
		}
		out += "  " + f.Name + ": " + string(quoted) + "\n"
	}
	return out, nil
}

func writeMarkdown(data []byte, value, sentence string) ([]byte, error) {
	f, err := frontMatter(data)
	if err != nil {
		return nil, err
	}
	lines, err := yamlLines(value)
	if err != nil {
		return nil, err
	}
	head := "---\n" + lines + "---\n\n"
	from, to := f.body, f.body
	if f.entries != nil {
		inner := string(data[f.from:f.to])
		if f.entries.Style&yaml.FlowStyle != 0 {
			return nil, refuse(fault.Say("labelfile.front_matter"))
		}
		if there := labelsOf(f); len(there) > 0 {
			inner = withoutEntry(inner, there[0][0])
		}
		head, from = string(data[:f.from])+lines+inner+string(data[f.to:f.body]), 0
	}
	if sentence != "" {
		head += sentence + "\n\n"
	}
	return splice(data, from, to, head), nil
}

// withoutEntry returns the lines of a mapping without an entry: the line of its key, and those behind it that belong to its value, being indented.
// What stands between it and the next entry stays.
func withoutEntry(text string, key *yaml.Node) string {
	lines := strings.SplitAfter(text, "\n")
	until := key.Line
	for i := until; i < len(lines); i++ {
		full := strings.TrimSpace(lines[i]) != ""
		if full && len(lines[i])-len(strings.TrimLeft(lines[i], " \t")) < key.Column {
			break
		}
		if full {
			until = i + 1
		}
	}
	return strings.Join(lines[:key.Line-1], "") + strings.Join(lines[until:], "")
}

// page is what concerns labels in an HTML text.
type page struct {
	metas      []text
	spans      [][2]int // of the meta elements
	head, body int      // behind the start tags, 0 without one
	start      int      // behind the byte order mark, the document type and the html tag
	hidden     string   // the element whose text nobody sees, "" for none
	depth      int      // how many elements of that name are open
	line       func(text string)
}

// maxTag bounds the tokens of HTML: a script may be long, and so may an image in an attribute.
const maxTag = 4 << 20

// readPage reads a page and visits the pieces of text that are seen, without blanks around them. The rules of style sheets are not known here.
func readPage(data []byte, line func(text string)) (*page, error) {
	if !utf8.Valid(data) {
		return nil, refuse(fault.Say("labelfile.no_utf8"))
	}
	p := &page{start: len(data) - len(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), line: line}
	z := nethtml.NewTokenizer(bytes.NewReader(data))
	z.SetMaxBuf(maxTag)
	for at := 0; ; {
		kind := z.Next()
		if kind == nethtml.ErrorToken {
			if at < len(data) { // not the end, but a token that is too long or is not closed
				return nil, refuse(fault.Say("labelfile.no_html"))
			}
			return p, nil
		}
		from := at
		at += len(z.Raw())
		p.token(z, kind, from, at)
	}
}

func (p *page) token(z *nethtml.Tokenizer, kind nethtml.TokenType, from, to int) {
	switch kind {
	case nethtml.DoctypeToken:
		p.start = to
	case nethtml.TextToken:
		if s := strings.TrimSpace(html.UnescapeString(string(z.Raw()))); p.hidden == "" && s != "" {
			p.line(s)
		}
	case nethtml.EndTagToken:
		if name, _ := z.TagName(); string(name) == p.hidden {
			if p.depth--; p.depth == 0 {
				p.hidden = ""
			}
		}
	case nethtml.StartTagToken, nethtml.SelfClosingTagToken: // the slash of a tag such as <script/> says nothing
		p.tag(z, from, to)
	case nethtml.CommentToken, nethtml.ErrorToken:
	}
}

// tag takes a start tag.
func (p *page) tag(z *nethtml.Tokenizer, from, to int) {
	b, more := z.TagName()
	name, attributes := string(b), map[string]string{}
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		if _, twice := attributes[string(k)]; !twice && len(k) <= 10 { // programs take the first; none that matters has a longer name
			attributes[string(k)] = string(v)
		}
	}
	switch {
	case p.hidden != "" && name == p.hidden:
		p.depth++
	case p.hidden == "" && hides(name, attributes):
		p.hidden, p.depth = name, 1
	case name == "html" && p.hidden == "":
		p.start = max(p.start, to)
	case name == "head" && p.hidden == "":
		p.head = first(p.head, to)
	case name == "body" && p.hidden == "":
		p.body = first(p.body, to)
	case name == "meta" && len(p.metas) < maxMarks && slices.ContainsFunc([]string{"name", "property", "itemprop", "http-equiv"}, func(k string) bool { return namesLabel(attributes[k]) }):
		var t text
		t.add(attributes["content"])
		p.metas, p.spans = append(p.metas, t), append(p.spans, [2]int{from, to})
	}
}

// hides reports whether nobody sees the text of an element, or whether that cannot be told.
func hides(name string, attributes map[string]string) bool {
	switch name {
	case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr": // they have no text
		return false
	case "script", "style", "title", "noscript", "template", "iframe", "noembed", "noframes", "textarea", "datalist", "object", "video", "audio", "canvas", "svg",
		"math", "select", "dialog", "details":
		return true
	}
	_, hidden := attributes["hidden"]
	style := strings.ToLower(attributes["style"])
	return hidden || slices.ContainsFunc([]string{"display", "visib", "opacity", "size", "clip", "position", "indent", "color", "height", "width", "overflow", "transform", "\\"},
		func(s string) bool { return strings.Contains(style, s) })
}

// first keeps the first place.
func first(before, now int) int {
	if before != 0 {
		return before
	}
	return now
}

func readHTML(data []byte) (Found, error) {
	var first, last string
	p, err := readPage(data, func(text string) {
		if last = text; first == "" {
			first = text
		}
	})
	if err != nil {
		return Found{}, err
	}
	out := Found{Visible: visible(label.Marks(first) || label.Marks(last))}
	for _, m := range p.metas {
		out.Marks = append(out.Marks, m.mark("meta element"))
	}
	return out, nil
}

// ascii writes a text so that it is the same in every character set that a page may declare.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range html.EscapeString(s) {
		if r < 0x80 {
			_, _ = b.WriteRune(r)
		} else {
			_, _ = fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String()
}

func writeHTML(data []byte, value, sentence string) ([]byte, error) {
	p, err := readPage(data, func(string) {})
	if err != nil {
		return nil, err
	}
	meta := `<meta name="AIGC" content="` + html.EscapeString(value) + `" />`
	if len(p.spans) > 0 {
		return splice(data, p.spans[0][0], p.spans[0][1], meta), nil
	}
	if sentence != "" {
		// A paragraph before a title that has no head would put the title into the body, so without a body it goes to the end.
		at := p.body
		if at == 0 {
			at = len(data)
		}
		data = splice(data, at, at, `<p class="ai-label">`+ascii(sentence)+`</p>`)
	}
	at := p.head
	if at == 0 {
		at = p.start
	}
	return splice(data, at, at, meta), nil
}

const textLine = "AIGC: "

// textLabels returns where the values of lines with labels stand. What looks like one to somebody is one: blanks, capitals and kinds of colons do not matter.
func textLabels(data []byte) (out [][2]int) {
	for at := 0; at < len(data); {
		end := bytes.IndexAny(data[at:], "\r\n")
		if end < 0 {
			end = len(data) - at
		}
		if from := labelLine(data[at : at+end]); from > 0 {
			out = append(out, [2]int{at + from, at + end})
		}
		at += end + 1
	}
	return out
}

// labelLine returns where the value of a line with a label stands, 0 if it has none.
func labelLine(line []byte) int {
	rest := bytes.TrimLeft(line, "\ufeff \t\v\f\u00a0\u3000")
	if len(rest) < 4 || !strings.EqualFold(string(rest[:4]), "AIGC") {
		return 0
	}
	rest = bytes.TrimLeft(rest[4:], " \t")
	value, ok := bytes.CutPrefix(rest, []byte(":"))
	if !ok {
		value, ok = bytes.CutPrefix(rest, []byte("："))
	}
	value = bytes.TrimLeft(value, " \t")
	if !ok || !bytes.HasPrefix(value, []byte("{")) {
		return 0
	}
	return len(line) - len(value)
}

func readText(data []byte) (Found, error) {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return Found{}, refuse(fault.Say("labelfile.no_utf8"))
	}
	out, body := Found{}, data
	for i, span := range textLabels(data) {
		if i == maxMarks {
			break
		}
		if i == 0 {
			body = data[:1+bytes.LastIndexAny(data[:span[0]], "\r\n")]
		}
		out.Marks = append(out.Marks, mark("line AIGC", strings.TrimRight(string(data[span[0]:span[1]]), " \t\r")))
	}
	out.Visible = visible(label.Seen(strings.TrimPrefix(string(body), "\ufeff")))
	return out, nil
}

func writeText(data []byte, value, sentence string) ([]byte, error) {
	if there := textLabels(data); len(there) > 0 {
		return splice(data, there[0][0], there[0][1], value), nil
	}
	out := data
	if sentence != "" {
		at := len(data) - len(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
		out = splice(out, at, at, sentence+"\n\n")
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = splice(out, len(out), len(out), "\n")
	}
	return splice(out, len(out), len(out), "\n"+textLine+value+"\n"), nil
}
