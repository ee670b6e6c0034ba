package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/message"
)

// Count writes a whole number for people: 1234567 is "1,234,567".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// visible returns s with every character that would not show written as its code point. Newlines stay where lines says so. has says
// whether a character can be shown; nil means that all can.
func visible(s string, lines bool, has func(rune) bool) string {
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "[0x%02X]", s[i])
		case r == '\n' && lines:
			b.WriteByte('\n')
		case r == '\t' || r == '\n' || unicode.Is(unicode.Zs, r) && r != '\u3000' && r != '\u00a0':
			b.WriteByte(' ')
		case hidden(r) || has != nil && !has(r):
			fmt.Fprintf(&b, "[U+%04X]", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden says that r leaves no mark on paper, changes the order of others, or has no meaning outside one program.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		r&0xFFFE == 0xFFFE
}

// heads returns the titles of the columns with their units.
func (t Table) heads(l message.Lang) []string {
	before, after := " (", ")"
	if l == message.Chinese {
		before, after = "（", "）"
	}
	out := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		out[i] = c.Title
		if c.Unit != "" {
			out[i] += before + c.Unit + after
		}
	}
	return out
}

// lines returns the rows and, if there is one, the total as the last, with one cell for each column and with equal decimals.
func (t Table) lines() [][]string {
	all := t.Rows
	if t.Total != nil {
		all = append(all[:len(all):len(all)], t.Total)
	}
	out := make([][]string, len(all))
	for i, row := range all {
		out[i] = make([]string, len(t.Columns))
		copy(out[i], row)
	}
	for i, c := range t.Columns {
		if c.Number {
			equalDecimals(out, i)
		}
	}
	return out
}

func equalDecimals(rows [][]string, column int) {
	most := 0
	for _, row := range rows {
		most = max(most, decimals(row[column]))
	}
	for _, row := range rows {
		if cell := row[column]; most > 0 && isNumber(cell) {
			n := decimals(cell)
			if n == 0 {
				cell += "."
			}
			row[column] = cell + strings.Repeat("0", most-n)
		}
	}
}

func decimals(cell string) int {
	if _, fraction, ok := strings.Cut(cell, "."); ok && isNumber(cell) {
		return len(fraction)
	}
	return 0
}

// isNumber says whether a cell is a decimal number with or without groups, and nothing else.
func isNumber(cell string) bool {
	whole, fraction, point := strings.Cut(strings.TrimPrefix(cell, "-"), ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return digits(strings.ReplaceAll(whole, ",", "")) && (!point || digits(fraction))
}

// printable returns d with every text as [visible] writes it.
func (d Document) printable(has func(rune) bool) Document {
	one := func(s string) string { return visible(s, false, has) }
	all := func(list []string) []string {
		if list == nil {
			return nil
		}
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = one(s)
		}
		return out
	}
	d.Title, d.Subject, d.Issuer, d.Footer = one(d.Title), one(d.Subject), one(d.Issuer), one(d.Footer)
	body := make([]Block, len(d.Body))
	for i, b := range d.Body {
		switch b := b.(type) {
		case Heading:
			body[i] = Heading{b.Level, one(b.Text)}
		case Paragraph:
			body[i] = Paragraph(visible(string(b), true, has))
		case List:
			body[i] = List{b.Numbered, all(b.Items)}
		case Fields:
			fields := make(Fields, len(b))
			for i, f := range b {
				fields[i] = Field{one(f.Name), one(f.Value)}
			}
			body[i] = fields
		case Verdict:
			body[i] = Verdict{b.Outcome, one(b.Text)}
		case Table:
			t := Table{Caption: one(b.Caption), Total: all(b.Total)}
			for _, c := range b.Columns {
				t.Columns = append(t.Columns, Column{one(c.Title), one(c.Unit), c.Number})
			}
			for _, row := range b.Rows {
				t.Rows = append(t.Rows, all(row))
			}
			body[i] = t
		}
	}
	d.Body = body
	return d
}

// stamp writes a time for people: to the second, with its zone.
func stamp(d Document) string { return d.Created.Format("2006-01-02 15:04:05 UTC-07:00") }
