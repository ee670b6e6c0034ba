package labelfile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// Content returns the text that people read in a file, without the parts of its label, to compare it with an answer: all of plain text, the source of
// Markdown behind its front matter, what a page shows, the paragraphs of a document in lines, the cells of the sheets that are shown with tabs between them. Of JSON
// it is the texts of a conversation or of a reply of the API if it is one, else all its strings. What a file hides is left out, as [Read] sees it. ok is false
// for kinds whose text is not read here, which are PDF and the images. The bounds are those of Read. Errors: CodeInvalidValue.
func Content(k Kind, data []byte) (text string, ok bool, err error) {
	if len(data) > MaxBytes {
		return "", false, refuse(fault.Say("labelfile.too_large", MaxBytes>>20))
	}
	read := map[Kind]func([]byte) (string, error){
		JSON: jsonContent, Markdown: markdownContent, HTML: pageContent, Text: plainContent, DOCX: documentContent, XLSX: bookContent,
	}[k]
	if read == nil {
		_, err := carrierOf(k)
		return "", false, err
	}
	text, err = read(data)
	return text, err == nil, err
}

// bare returns a text without the lines of a visible label at its beginning and at its end.
func bare(text string) string {
	text = strings.TrimSpace(text)
	if first, rest, _ := strings.Cut(text, "\n"); label.Marks(first) {
		text = strings.TrimSpace(rest)
	}
	if at := strings.LastIndexByte(text, '\n') + 1; label.Marks(text[at:]) {
		text = strings.TrimSpace(text[:at])
	}
	return text
}

func plainContent(data []byte) (string, error) {
	if _, err := readText(data); err != nil {
		return "", err
	}
	var out []byte
	at := 0
	for _, span := range textLabels(data) {
		out = append(out, data[at:1+bytes.LastIndexAny(data[:span[0]], "\r\n")]...)
		at = span[1]
	}
	return bare(string(append(bytes.TrimPrefix(out, []byte("\xef\xbb\xbf")), data[at:]...))), nil
}

func markdownContent(data []byte) (string, error) {
	f, err := frontMatter(data)
	if err != nil {
		return "", err
	}
	return bare(string(data[f.body:])), nil
}

func pageContent(data []byte) (string, error) {
	var out []string
	if _, err := readPage(data, func(text string) { out = append(out, text) }); err != nil {
		return "", err
	}
	return bare(strings.Join(out, "\n")), nil
}

func jsonContent(data []byte) (string, error) {
	if _, _, _, err := members(data); err != nil {
		return "", err
	}
	var body struct {
		Title string `json:"title"`
		Turns []struct {
			Text string `json:"text"`
		} `json:"turns"`
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	var out []string
	if json.Unmarshal(data, &body) == nil {
		for _, t := range body.Turns {
			out = append(out, t.Text)
		}
		for _, c := range body.Choices {
			out = append(out, c.Message.Content)
		}
	}
	if len(out) == 0 {
		return allStrings(data)
	}
	if body.Title != "" {
		out = slices.Insert(out, 0, body.Title)
	}
	return bare(strings.Join(out, "\n")), nil
}

// allStrings returns the values of an object that are strings, wherever they stand, without the members of labels.
func allStrings(data []byte) (string, error) {
	var out []string
	r := newRoom()
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // members knows it for an object
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", refuse(fault.Say("labelfile.no_json"))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return "", refuse(fault.Say("labelfile.no_json"))
		}
		if s, _ := name.(string); !namesLabel(s) && s != jsonEnvelope {
			if out, err = stringsIn(value, out, r); err != nil {
				return "", err
			}
		}
	}
	return bare(strings.Join(out, "\n")), nil
}

// stringsIn appends the strings of a value that was checked, without the names of members.
func stringsIn(value json.RawMessage, out []string, r *room) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(value))
	var objects []bool // whether what is open is an object
	names := 0         // how many names and values were read of the innermost one
	var counts []int
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, refuse(fault.Say("labelfile.no_json"))
		}
		if err := r.token(); err != nil {
			return nil, err
		}
		switch x := t.(type) {
		case json.Delim:
			if x == '{' || x == '[' {
				objects, counts, names = append(objects, x == '{'), append(counts, names), 0
				continue
			}
			objects, names, counts = objects[:len(objects)-1], counts[len(counts)-1], counts[:len(counts)-1]
		case string:
			if name := len(objects) > 0 && objects[len(objects)-1] && names%2 == 0; !name {
				out = append(out, x)
			}
		}
		names++
	}
}

func documentContent(data []byte) (string, error) {
	o, err := openOffice(data)
	if err != nil {
		return "", err
	}
	var out []string
	if err := o.paragraphs(func(text string) { out = append(out, text) }); err != nil {
		return "", err
	}
	return bare(strings.Join(out, "\n")), nil
}

func bookContent(data []byte) (string, error) {
	o, err := openOffice(data)
	if err != nil {
		return "", err
	}
	parts, err := o.sheets()
	if err != nil {
		return "", err
	}
	shared, err := o.sharedStrings()
	if err != nil {
		return "", err
	}
	var out []string
	left := maxUnpacked // a string that many cells share is written many times
	for _, part := range parts {
		text, err := o.cells(part, shared, left)
		if err != nil {
			return "", err
		}
		left -= len(text)
		if !label.Marks(text) { // the sheet of the label
			out = append(out, text)
		}
	}
	return bare(strings.Join(out, "\n")), nil
}

// sharedStrings returns the strings of a workbook that its cells refer to.
func (o *office) sharedStrings() (out []string, err error) {
	part := ""
	if o.parts[o.relationsOf(o.main)] == nil {
		return nil, nil
	}
	if err := o.relations(o.relationsOf(o.main), func(r relation) {
		if r.kind == "sharedStrings" {
			part = r.target
		}
	}); err != nil || part == "" {
		return nil, err
	}
	var now strings.Builder
	err = o.walk(part, func(t xml.Token, around []string, _, _ int) error {
		switch e := t.(type) {
		case xml.CharData:
			if shownText(around) {
				_, _ = now.Write(e)
			}
		case xml.EndElement:
			if e.Name.Local == "si" {
				out = append(out, now.String())
				now.Reset()
			}
		}
		return nil
	})
	return out, err
}

// shownText reports whether characters are the text of a cell: not those that say how it is spoken.
func shownText(around []string) bool {
	return len(around) > 0 && around[len(around)-1] == "t" && !slices.Contains(around, "rPh")
}

// cells returns the texts of the cells of a sheet, at most so many bytes.
func (o *office) cells(part string, shared []string, most int) (string, error) {
	if o.parts[part] == nil {
		return "", nil
	}
	var out, now strings.Builder
	kind, row := "", 0
	err := o.walk(part, func(t xml.Token, around []string, _, _ int) error {
		switch e := t.(type) {
		case xml.StartElement:
			switch e.Name.Local {
			case "row":
				row = 0
			case "c":
				kind = attribute(e, "t")
				now.Reset()
			}
		case xml.CharData:
			if len(around) > 0 && around[len(around)-1] == "v" || shownText(around) {
				_, _ = now.Write(e)
			}
		case xml.EndElement:
			switch e.Name.Local {
			case "c":
				if row++; row > 1 {
					_ = out.WriteByte('\t')
				}
				_, _ = out.WriteString(cellText(kind, now.String(), shared))
			case "row":
				_ = out.WriteByte('\n')
			}
		}
		if out.Len() > most {
			return refuse(fault.Say("labelfile.unpacked"))
		}
		return nil
	})
	return strings.TrimSpace(out.String()), err
}

// cellText returns what a cell shows: its value, or the shared string of that number.
func cellText(kind, value string, shared []string) string {
	if kind != "s" {
		return value
	}
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 0 || n >= len(shared) {
		return ""
	}
	return shared[n]
}
