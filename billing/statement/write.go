package statement

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/csvcell"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Format is a file format that statements are written in.
type Format string

// The formats. CSV and JSON have names for programs and no language.
const (
	PDF      Format = "pdf"
	DOCX     Format = "docx"
	Markdown Format = "md"
	CSV      Format = "csv"
	JSON     Format = "json"
	// FOCUS is CSV, and FOCUSLines a JSON object a line, with the rows and columns of the FinOps Open Cost and Usage Specification 1.2. BilledCost
	// sums to the payable amount: what rounding changes is a row of its own. Rows are not split by project, and have no energy.
	FOCUS      Format = "focus"
	FOCUSLines Format = "focus-jsonl"
)

// Formats returns all of them.
func Formats() []Format { return []Format{PDF, DOCX, Markdown, CSV, JSON, FOCUS, FOCUSLines} }

// Ending is that of the name of a file, without its first point.
func (f Format) Ending() string {
	switch f {
	case FOCUS:
		return "focus.csv"
	case FOCUSLines:
		return "focus.jsonl"
	default:
		return string(f)
	}
}

// MediaType is the type of the format for HTTP.
func (f Format) MediaType() string {
	switch f {
	case CSV, FOCUS:
		return "text/csv; charset=utf-8"
	case FOCUSLines:
		return "application/jsonl"
	case JSON:
		return "application/json"
	case DOCX:
		return report.DOCX.MediaType()
	case Markdown:
		return report.Markdown.MediaType()
	default:
		return report.PDF.MediaType()
	}
}

// Names are those that the statement itself does not have: of who answers for it, and of the tenant, "" where it has none but its id.
type Names struct{ Issuer, Tenant string }

// Write writes s in a format.
func Write(w io.Writer, f Format, s Statement, l message.Lang, of Names) error {
	var as report.Format
	switch f {
	case FOCUS, FOCUSLines:
		rows, err := s.focusRows(of)
		if err != nil {
			return err
		}
		if f == FOCUS {
			return writeFOCUSTable(w, rows)
		}
		return writeFOCUSLines(w, rows)
	case CSV:
		return writeCSV(w, s)
	case JSON:
		return writeJSON(w, s)
	case DOCX:
		as = report.DOCX
	case Markdown:
		as = report.Markdown
	case PDF:
		as = report.PDF
	}
	d, err := s.Document(l, of.Issuer)
	if err != nil {
		return err
	}
	return report.Write(w, as, d)
}

// Signed is the JSON form: the content with its digest.
type Signed struct {
	Digest    string          `json:"digest"`
	Statement json.RawMessage `json:"statement"`
}

func writeJSON(w io.Writer, s Statement) error {
	digest, err := s.Digest()
	if err != nil {
		return err
	}
	content, err := s.Canonical()
	if err != nil {
		return err
	}
	// Not by the encoder, which would write the content anew.
	_, err = w.Write(bytes.Join([][]byte{[]byte(`{"digest":"` + digest + `","statement":`), content, []byte("}\n")}, nil))
	return err
}

// writeCSV writes a row for each line, correction and sum. The amounts of the rows line, late and correction sum to the row total.
func writeCSV(w io.Writer, s Statement) error {
	digest, err := s.Digest()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\ufeff"); err != nil { // spreadsheets take it for another encoding without
		return err
	}
	out := csv.NewWriter(w)
	out.UseCRLF = true
	row := func(section, month, kind, model, book, quantity, unit, price string, amount int64, note string) {
		_ = out.Write([]string{
			s.Number, string(s.State), s.Tenant, s.Month, s.Zone, section, month, kind, csvcell.Plain(model), book, quantity, unit, price, decimal(amount), s.Currency, csvcell.Plain(note),
		}) // the writer keeps its first error
	}
	_ = out.Write([]string{
		"statement", "state", "tenant", "period", "zone", "section", "month", "kind", "model", "price_book", "quantity", "unit", "unit_price", "amount", "currency", "note",
	})
	writeLines(row, "line", s.Lines)
	writeLines(row, "late", s.Late)
	for _, c := range s.Corrections {
		row("correction", c.Month, "", c.Model, "", "", "", "", c.Amount, strings.TrimSpace(c.ID+" "+c.Request+" "+c.Reason))
	}
	row("total", "", "", "", "", "", "", "", s.Amounts.Total, "")
	row("payable", "", s.Rounding.Rule, "", "", "", "", "", s.Amounts.Payable, "sha256:"+digest)
	for _, e := range s.Energy {
		_ = out.Write([]string{
			s.Number, string(s.State), s.Tenant, s.Month, s.Zone, "energy", "", e.Method, "", "", joules(e.Microjoules), "J", "", "", "", strconv.FormatInt(e.Requests, 10) + " requests",
		})
	}
	out.Flush()
	return out.Error()
}

func writeLines(row func(section, month, kind, model, book, quantity, unit, price string, amount int64, note string), section string, lines []Line) {
	for _, l := range lines {
		price := ""
		if l.UnitPrice != nil {
			price = decimal(*l.UnitPrice)
		}
		row(section, l.Month, l.Kind, l.Model, l.Book, strconv.FormatInt(l.Quantity, 10), "tokens", price, l.Amount, "")
	}
}

// decimal writes 10⁻⁹ units exactly and without trailing zeros.
func decimal(nano int64) string { return fixed(nano, 9) }

// joules writes microjoules as joules.
func joules(micro int64) string { return fixed(micro, 6) }

func fixed(n int64, decimals int) string {
	text := new(big.Rat).SetFrac64(n, pow10(decimals)).FloatString(decimals)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// money writes a rounded amount with all its decimals.
func money(nano int64, decimals int) string {
	return new(big.Rat).SetFrac64(nano, pow10(9)).FloatString(decimals)
}

func pow10(n int) int64 {
	out := int64(1)
	for range n {
		out *= 10
	}
	return out
}

// grouped writes a decimal for people: 1234567.5 is "1,234,567.5".
func grouped(text string) string {
	whole, fraction, point := strings.Cut(text, ".")
	negative := strings.HasPrefix(whole, "-")
	n, err := strconv.ParseInt(strings.TrimPrefix(whole, "-"), 10, 64)
	if err != nil {
		return text
	}
	out := report.Count(n)
	if negative {
		out = "-" + out
	}
	if point {
		out += "." + fraction
	}
	return out
}

// in returns an instant in the zone of the statement.
func (s Statement) in(t time.Time) time.Time {
	if zone, err := time.LoadLocation(s.Zone); err == nil {
		return t.In(zone)
	}
	return t
}

func (s Statement) local(t time.Time) string { return s.in(t).Format("2006-01-02 15:04:05 UTC-07:00") }
