package parse

import "strings"

// plain cleans a text and keeps its layout: lines lose trailing blanks, and empty lines at both ends go. What stands between empty lines is a
// paragraph.
func plain(s string) Document {
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.Lines(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")) {
		b.WriteString(strings.TrimRight(clean(strings.TrimSuffix(line, "\n")), " \t"))
		b.WriteByte('\n')
	}
	d := Document{Text: strings.Trim(b.String(), "\n")}
	start, at := -1, 0
	end := func(to int) {
		if start >= 0 {
			d.Blocks = append(d.Blocks, Block{Kind: Paragraph, Start: start, End: to})
			start = -1
		}
	}
	for line := range strings.Lines(d.Text) {
		if strings.TrimSpace(line) == "" {
			end(at - 1)
		} else if start < 0 {
			start = at
		}
		at += len(line)
	}
	end(len(d.Text))
	return d
}
