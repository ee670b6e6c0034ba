package statement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Document sets the statement for people. It follows from the content alone.
func (s Statement) Document(l message.Lang, issuer string) (report.Document, error) {
	digest, err := s.Digest()
	if err != nil {
		return report.Document{}, err
	}
	in := func(p message.Phrase) string { return p.In(l) }
	d := report.Document{
		Lang: l, Title: in(message.Say("statement.title")), Subject: in(message.Say("statement.subject", s.Tenant, s.Month)), Issuer: issuer, Created: s.in(s.AsOf),
		Footer: in(message.Say("statement.footer", s.Number, digest)),
	}
	verdict := report.Verdict{Outcome: report.Neutral, Text: in(message.Say("statement.provisional"))}
	if s.State == Closed {
		verdict = report.Verdict{Outcome: report.Passed, Text: in(message.Say("statement.closed", s.local(s.AsOf), s.ClosedBy))}
	}
	d.Body = []report.Block{
		verdict, s.header(in, digest),
		report.Heading{Level: 1, Text: in(message.Say("statement.amounts"))},
		s.sums(in),
		report.Fields{{Name: in(message.Say("statement.payable")), Value: grouped(money(s.Amounts.Payable, s.Rounding.Decimals)) + " " + s.Currency}},
		report.Paragraph(in(message.Say("statement.rounded", s.Rounding.Decimals))),
		report.Heading{Level: 1, Text: in(message.Say("statement.lines"))},
		s.table(in, s.Lines, s.Amounts.Usage, false),
	}
	if slices.ContainsFunc(append(slices.Clone(s.Lines), s.Late...), func(l Line) bool { return l.Kind == Unpriced }) {
		d.Body = append(d.Body, report.Paragraph(in(message.Say("statement.unpriced_note"))))
	}
	if s.Estimated > 0 {
		d.Body = append(d.Body, report.Paragraph(in(message.Say("statement.estimated_note", report.Count(s.Estimated), report.Count(s.Requests)))))
	}
	if len(s.Late) > 0 {
		d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("statement.late"))}, report.Paragraph(in(message.Say("statement.late_note"))), s.table(in, s.Late, s.Amounts.Late, true))
	}
	if len(s.Corrections) > 0 {
		d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("statement.corrections"))}, report.Paragraph(in(message.Say("statement.corrections_note"))), s.corrections(in))
	}
	d.Body = append(d.Body, report.Heading{Level: 1, Text: in(message.Say("statement.energy"))}, report.Paragraph(in(message.Say("statement.energy_note"))), s.energy(in),
		report.Heading{Level: 1, Text: in(message.Say("statement.check"))}, report.Paragraph(in(message.Say("statement.check_note"))))
	return d, nil
}

func (s Statement) header(in func(message.Phrase) string, digest string) report.Fields {
	var books []string
	for _, b := range s.Books {
		books = append(books, in(message.Say("statement.book", b.Version, s.local(b.EffectiveFrom), b.Digest)))
	}
	return report.Fields{
		{Name: in(message.Say("statement.number")), Value: s.Number},
		{Name: in(message.Say("statement.tenant")), Value: s.Tenant},
		{Name: in(message.Say("statement.period")), Value: in(message.Say("statement.from_until", s.local(s.From), s.local(s.Until)))},
		{Name: in(message.Say("statement.zone")), Value: s.Zone},
		{Name: in(message.Say("statement.as_of")), Value: s.local(s.AsOf)},
		{Name: in(message.Say("statement.currency")), Value: s.Currency},
		{Name: in(message.Say("statement.books")), Value: cmp.Or(strings.Join(books, "; "), "-")},
		{Name: in(message.Say("statement.requests")), Value: report.Count(s.Requests)},
		{Name: in(message.Say("statement.digest")), Value: digest},
	}
}

func (s Statement) sums(in func(message.Phrase) string) report.Table {
	t := report.Table{Columns: []report.Column{{Title: in(message.Say("statement.item"))}, {Title: in(message.Say("statement.amount")), Unit: s.Currency, Number: true}}}
	t.Rows = [][]string{{in(message.Say("statement.lines")), grouped(decimal(s.Amounts.Usage))}}
	if len(s.Late) > 0 {
		t.Rows = append(t.Rows, []string{in(message.Say("statement.late")), grouped(decimal(s.Amounts.Late))})
	}
	if len(s.Corrections) > 0 {
		t.Rows = append(t.Rows, []string{in(message.Say("statement.corrections")), grouped(decimal(s.Amounts.Corrections))})
	}
	t.Total = []string{in(message.Say("statement.total")), grouped(decimal(s.Amounts.Total))}
	return t
}

func (s Statement) table(in func(message.Phrase) string, lines []Line, total int64, late bool) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("statement.kind"))},
		{Title: in(message.Say("statement.model"))},
		{Title: in(message.Say("statement.price_book"))},
		{Title: in(message.Say("statement.quantity")), Unit: in(message.Say("statement.tokens")), Number: true},
		{Title: in(message.Say("statement.unit_price")), Unit: in(message.Say("statement.per_million", s.Currency)), Number: true},
		{Title: in(message.Say("statement.amount")), Unit: s.Currency, Number: true},
	}}
	if late {
		t.Columns = append([]report.Column{{Title: in(message.Say("statement.month"))}}, t.Columns...)
	}
	for _, l := range lines {
		price := "-"
		if l.UnitPrice != nil {
			price = grouped(fixed(*l.UnitPrice, 3)) // of a million tokens, in currency units
		}
		cells := []string{in(kindName(l.Kind)), l.Model, l.Book, report.Count(l.Quantity), price, grouped(decimal(l.Amount))}
		if late {
			cells = append([]string{l.Month}, cells...)
		}
		t.Rows = append(t.Rows, cells)
	}
	if len(lines) > 0 {
		t.Total = make([]string, len(t.Columns))
		t.Total[0], t.Total[len(t.Total)-1] = in(message.Say("statement.sum")), grouped(decimal(total))
	}
	return t
}

func kindName(kind string) message.Phrase {
	switch kind {
	case Input:
		return message.Say("statement.kind_input")
	case CachedInput:
		return message.Say("statement.kind_cached_input")
	case Output:
		return message.Say("statement.kind_output")
	case Embedding:
		return message.Say("statement.kind_embedding")
	case Rerank:
		return message.Say("statement.kind_rerank")
	case Ingestion:
		return message.Say("statement.kind_ingestion")
	default:
		return message.Say("statement.kind_unpriced")
	}
}

func (s Statement) corrections(in func(message.Phrase) string) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("statement.made_at"))},
		{Title: in(message.Say("statement.about"))},
		{Title: in(message.Say("statement.reason"))},
		{Title: in(message.Say("statement.actor"))},
		{Title: in(message.Say("statement.amount")), Unit: s.Currency, Number: true},
	}}
	for _, c := range s.Corrections {
		about := strings.Join(slices.DeleteFunc([]string{c.Month, c.Request, c.Model, c.Key}, func(s string) bool { return s == "" }), ", ")
		t.Rows = append(t.Rows, []string{s.local(c.At), cmp.Or(about, "-"), c.Reason, c.Actor, grouped(decimal(c.Amount))})
	}
	t.Total = []string{in(message.Say("statement.sum")), "", "", "", grouped(decimal(s.Amounts.Corrections))}
	return t
}

func (s Statement) energy(in func(message.Phrase) string) report.Table {
	t := report.Table{Columns: []report.Column{
		{Title: in(message.Say("statement.energy_method"))},
		{Title: in(message.Say("statement.requests")), Number: true},
		{Title: in(message.Say("statement.energy")), Unit: "J", Number: true},
	}}
	for _, e := range s.Energy {
		amount := grouped(joules(e.Microjoules))
		if e.Method == "" {
			amount = "-"
		}
		t.Rows = append(t.Rows, []string{in(methodName(e.Method)), report.Count(e.Requests), amount})
	}
	return t
}

// methodName says how a figure of energy came about. A method that is not known keeps its name.
func methodName(method string) message.Phrase {
	switch method {
	case "measured":
		return message.Say("statement.energy_measured")
	case "modelled":
		return message.Say("statement.energy_modelled")
	case "declared":
		return message.Say("statement.energy_declared")
	case "":
		return message.Say("statement.energy_unknown")
	default:
		return message.Quote(method, method)
	}
}
