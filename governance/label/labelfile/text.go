package labelfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	nethtml "golang.org/x/net/html"
	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// The names of the members of JSON.
const (
	jsonMember = "AIGC"
	jsonNotice = "AIGCNotice"
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
		if s, _ := name.(string); strings.EqualFold(s, jsonMember) || s == jsonNotice {
			end := int(d.InputOffset())
			out = append(out, member{s, end - len(value), end})
		}
	}
	return open, out, empty, nil
}

func readJSON(data []byte) (Found, error) {
	_, all, _, err := members(data)
	if err != nil {
		return Found{}, err
	}
	out := Found{Visible: VisibleNo}
	for _, m := range all {
		value := string(data[m.from:m.to])
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
	for at := next; at < len(data) && at-next <= maxFront; {
		line, after := lineAt(data, at)
		if line == "---" || line == "..." {
			f.to, f.body, f.there = at, after, true
			break
		}
		at = after
	}
	var doc yaml.Node
	if !f.there {
		return front{body: start}, nil
	}
	if err := yaml.Unmarshal(data[f.from:f.to], &doc); err != nil {
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
		if strings.EqualFold(f.entries.Content[i].Value, "AIGC") {
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
	out := Found{Visible: visible(label.Seen(string(data[f.body:])))}
	for _, l := range labelsOf(f) {
		out.Marks = append(out.Marks, yamlMark(l[1]))
	}
	return out, nil
}

// yamlLines writes a label as front matter has it. Strings of JSON are strings of YAML.
func yamlLines(value string) (string, error) {
	x, err := label.Parse(value)
	if err != nil {
		return "", refuse(fault.Say("labelfile.value"))
	}
	out := "AIGC:\n"
	for _, f := range [...][2]string{
		{"Label", x.Label},
		{"ContentProducer", x.ContentProducer},
		{"ProduceID", x.ProduceID},
		{"ReservedCode1", x.ReservedCode1},
		{"ContentPropagator", x.ContentPropagator},
		{"PropagateID", x.PropagateID},
		{"ReservedCode2", x.ReservedCode2},
	} {
		quoted, err := json.Marshal(f[1])
		if err != nil {
			return "", refuse(fault.Say("labelfile.value"))
		}
		out += "  " + f[0] + ": " + string(quoted) + "\n"
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
			inner = withoutEntry(inner, f.entries, there[0][0])
		}
		head, from = string(data[:f.from])+lines+inner+string(data[f.to:f.body]), 0
	}
	if sentence != "" {
		head += sentence + "\n\n"
	}
	return splice(data, from, to, head), nil
}

// withoutEntry returns the lines of a mapping without an entry, which ends where the next one begins.
func withoutEntry(text string, m *yaml.Node, key *yaml.Node) string {
	lines := strings.SplitAfter(text, "\n")
	until := len(lines) + 1
	for i := 0; i < len(m.Content); i += 2 {
		if n := m.Content[i].Line; n > key.Line && n < until {
			until = n
		}
	}
	return strings.Join(lines[:key.Line-1], "") + strings.Join(lines[min(until-1, len(lines)):], "")
}

// page is what concerns labels in an HTML text.
type page struct {
	metas      []string
	spans      [][2]int // of the meta elements
	head, body int      // behind the start tags, 0 without one
	start      int      // behind the byte order mark, the document type and the html tag
	text       strings.Builder
}

// maxTag bounds the tokens of HTML: a script may be long.
const maxTag = 16 << 20

func readPage(data []byte) (*page, error) {
	if !utf8.Valid(data) {
		return nil, refuse(fault.Say("labelfile.no_utf8"))
	}
	p := &page{start: len(data) - len(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))}
	z := nethtml.NewTokenizer(bytes.NewReader(data))
	z.SetMaxBuf(maxTag)
	for at, hidden := 0, ""; ; {
		kind := z.Next()
		if kind == nethtml.ErrorToken {
			if at < len(data) { // not the end, but a token that is too long or is not closed
				return nil, refuse(fault.Say("labelfile.no_html"))
			}
			return p, nil
		}
		from := at
		at += len(z.Raw())
		hidden = p.token(z, kind, from, at, hidden)
	}
}

// token takes a token; hidden is the element whose text nobody sees.
func (p *page) token(z *nethtml.Tokenizer, kind nethtml.TokenType, from, to int, hidden string) string {
	switch kind {
	case nethtml.DoctypeToken:
		p.start = to
	case nethtml.TextToken:
		if hidden == "" {
			_, _ = p.text.WriteString(html.UnescapeString(string(z.Raw())) + "\n")
		}
	case nethtml.EndTagToken:
		if name, _ := z.TagName(); string(name) == hidden {
			return ""
		}
	case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
		name, more := z.TagName()
		switch string(name) {
		case "html":
			p.start = max(p.start, to)
		case "head":
			p.head = first(p.head, to)
		case "body":
			p.body = first(p.body, to)
		case "script", "style", "title", "noscript", "template":
			if kind == nethtml.StartTagToken {
				return string(name)
			}
		case "meta":
			p.meta(z, more, from, to)
		}
	}
	return hidden
}

// first keeps the first place.
func first(before, now int) int {
	if before != 0 {
		return before
	}
	return now
}

func (p *page) meta(z *nethtml.Tokenizer, more bool, from, to int) {
	var name, content string
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		switch string(k) {
		case "name":
			name = string(v)
		case "content":
			content = string(v)
		}
	}
	if strings.EqualFold(strings.TrimSpace(name), "AIGC") {
		p.metas, p.spans = append(p.metas, content), append(p.spans, [2]int{from, to})
	}
}

func readHTML(data []byte) (Found, error) {
	p, err := readPage(data)
	if err != nil {
		return Found{}, err
	}
	var shown []string
	for _, line := range strings.Split(p.text.String(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			shown = append(shown, line)
		}
	}
	out := Found{Visible: visible(label.Seen(strings.Join(shown, "\n")))}
	for _, m := range p.metas {
		out.Marks = append(out.Marks, mark("meta element", m))
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
	p, err := readPage(data)
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

// textLabels returns where the lines with labels stand.
func textLabels(data []byte) (out [][2]int) {
	for at := 0; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		next := at + end + 1
		if end < 0 {
			end, next = len(data)-at, len(data)
		}
		if bytes.HasPrefix(data[at:], []byte(textLine+"{")) {
			out = append(out, [2]int{at + len(textLine), at + end})
		}
		at = next
	}
	return out
}

func readText(data []byte) (Found, error) {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return Found{}, refuse(fault.Say("labelfile.no_utf8"))
	}
	out, body := Found{}, data
	for i, span := range textLabels(data) {
		if i == 0 {
			body = data[:span[0]-len(textLine)]
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
