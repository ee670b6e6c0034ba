package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-project/sluice/internal/message"
)

func writeMarkdown(w io.Writer, d Document) error {
	d = d.printable(nil)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", plain(d.Title))
	if d.Subject != "" {
		fmt.Fprintf(&b, "%s\n\n", plain(d.Subject))
	}
	fmt.Fprintf(&b, "%s\n\n", plain(message.Say("report.issued", d.Issuer, stamp(d)).In(d.Lang)))
	for _, block := range d.Body {
		switch block := block.(type) {
		case Heading:
			fmt.Fprintf(&b, "%s %s\n", strings.Repeat("#", min(max(block.Level, 1), 2)+1), plain(block.Text))
		case Paragraph:
			fmt.Fprintln(&b, strings.ReplaceAll(plain(string(block)), "\n", "  \n"))
		case List:
			for i, item := range block.Items {
				mark := "-"
				if block.Numbered {
					mark = fmt.Sprintf("%d.", i+1)
				}
				fmt.Fprintf(&b, "%s %s\n", mark, plain(item))
			}
		case Fields:
			for _, f := range block {
				fmt.Fprintf(&b, "- %s: %s\n", plain(f.Name), plain(f.Value))
			}
		case Verdict:
			fmt.Fprintf(&b, "> **%s**\n", plain(block.Text))
		case Table:
			markdownTable(&b, d.Lang, block)
		}
		b.WriteByte('\n')
	}
	if d.Footer != "" {
		fmt.Fprintf(&b, "---\n\n%s\n", plain(d.Footer))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownTable(b *strings.Builder, l message.Lang, t Table) {
	if t.Caption != "" {
		fmt.Fprintf(b, "%s\n\n", plain(t.Caption))
	}
	row := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(b, "| %s ", plain(c))
		}
		b.WriteString("|\n")
	}
	row(t.heads(l))
	for _, c := range t.Columns {
		b.WriteString(map[bool]string{true: "| ---: ", false: "| --- "}[c.Number])
	}
	b.WriteString("|\n")
	rows := t.lines()
	for _, r := range rows {
		row(r)
	}
	if len(rows) == 0 {
		fmt.Fprintf(b, "\n%s\n", plain(message.Say("report.no_entries").In(l)))
	}
}

// plain keeps a text from being read as signs of Markdown.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_[]<>#|~", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
