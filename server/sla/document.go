package sla

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/csvcell"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

// Write writes the report as csv, whose names are for programs, or as a document: md, pdf or docx. issuer is who answers for it.
func (r Report) Write(w io.Writer, format string, l message.Lang, issuer string) error {
	switch format {
	case "csv":
		return r.writeCSV(w)
	}
	as, err := report.FormatOf("report." + format)
	if err != nil {
		return err
	}
	return report.Write(w, as, r.document(l, issuer))
}

func name(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// spreads are the latencies of a line by what they are of.
func (l Line) spreads() []struct {
	Of string
	*Spread
} {
	return []struct {
		Of string
		*Spread
	}{{"first_token", l.FirstToken}, {"between_tokens", l.Between}, {"total", l.Total}}
}

// writeCSV writes a row for each line and one for the total. What is not known is an empty cell.
func (r Report) writeCSV(w io.Writer) error {
	if _, err := io.WriteString(w, "\ufeff"); err != nil { // spreadsheets take it for another encoding without
		return err
	}
	out := csv.NewWriter(w)
	out.UseCRLF = true
	head := []string{"from", "to", "row", "model", "tenant", "class", "requests", "answered", "failures", "refused", "left", "fallbacks", "judged", "good", "availability", "goodput_per_second"}
	for _, of := range []string{"first_token", "between_tokens", "total"} {
		head = append(head, of+"_p50_us", of+"_p95_us", of+"_p99_us", of+"_p999_us", of+"_jitter")
	}
	for _, of := range []string{"availability", "first_token", "total"} {
		head = append(head, of+"_allowed", of+"_missed", of+"_budget_left")
	}
	_ = out.Write(head) // the writer keeps its first error
	for i, l := range append(slices.Clone(r.Lines), r.Total) {
		row := []string{r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339), "line", csvcell.Plain(name(l.Model)), csvcell.Plain(name(l.Tenant)), csvcell.Plain(name(l.Class))}
		if i == len(r.Lines) {
			row[2] = "total"
		}
		for _, n := range []int64{l.Requests, l.Answered, l.Failures, l.Refused, l.Left, l.Fallbacks, l.Judged, l.Good} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		row = append(row, decimal(l.Availability, 6), decimal(l.Goodput, 6))
		for _, s := range l.spreads() {
			if s.Spread == nil {
				row = append(row, "", "", "", "", "")
				continue
			}
			for _, us := range []int64{s.P50, s.P95, s.P99, s.P999} {
				row = append(row, strconv.FormatInt(us, 10))
			}
			row = append(row, decimal(s.Jitter, 4))
		}
		for _, of := range []string{"availability", "first_token", "total"} {
			if i := slices.IndexFunc(l.Budgets, func(b Budget) bool { return b.Of == of }); i >= 0 {
				b := l.Budgets[i]
				row = append(row, strconv.FormatFloat(b.Allowed, 'f', 6, 64), strconv.FormatInt(b.Missed, 10), decimal(b.Left, 6))
			} else {
				row = append(row, "", "", "")
			}
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}

func decimal(x *float64, digits int) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'f', digits, 64)
}

// orDash shows what is not known.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func percent(x *float64, digits int) string {
	if x == nil {
		return "-"
	}
	return strconv.FormatFloat(100**x, 'f', digits, 64)
}

// document sets the report for people.
func (r Report) document(l message.Lang, issuer string) report.Document {
	in := func(p message.Phrase) string { return p.In(l) }
	zone, err := time.LoadLocation(r.Zone)
	if err != nil {
		zone = time.UTC
	}
	local := func(t time.Time) string { return t.In(zone).Format("2006-01-02 15:04 UTC-07:00") }
	label := func(x Line) string {
		var parts []string
		for _, s := range []*string{x.Model, x.Tenant, x.Class} {
			if s != nil {
				parts = append(parts, *s)
			}
		}
		return orDash(strings.Trim(strings.Join(parts, " / "), " /"))
	}
	d := report.Document{
		Lang: l, Title: in(message.Say("sla.title")), Subject: in(message.Say("sla.subject", local(r.From), local(r.To))), Issuer: issuer, Created: r.AsOf, Footer: in(message.Say("sla.unsigned")),
	}
	d.Body = []report.Block{
		r.verdict(l),
		report.Fields{
			{Name: in(message.Say("sla.period")), Value: in(message.Say("sla.from_until", local(r.From), local(r.To)))},
			{Name: in(message.Say("sla.zone")), Value: r.Zone},
			{Name: in(message.Say("sla.as_of")), Value: local(r.AsOf)},
			{Name: in(message.Say("sla.counted_from")), Value: local(r.CountedFrom)},
			{Name: in(message.Say("sla.hours")), Value: in(message.Say("sla.hours_of", r.HoursWithTraffic, r.HoursOver))},
			{Name: in(message.Say("sla.budget_window")), Value: in(message.Say("sla.from_until", local(r.BudgetFrom), local(r.BudgetTo)))},
		},
	}
	number := func(title message.Phrase, unit string) report.Column {
		return report.Column{Title: in(title), Unit: unit, Number: true}
	}
	availability := report.Table{Columns: []report.Column{
		{Title: in(message.Say("sla.line"))}, number(message.Say("sla.requests"), ""), number(message.Say("sla.answered"), ""), number(message.Say("sla.failures"), ""), number(message.Say("sla.callers"), ""), number(message.Say("sla.availability"), "%"), number(message.Say("sla.goodput"), "1/s"),
	}}
	budgets := report.Table{Columns: []report.Column{
		{Title: in(message.Say("sla.line"))}, {Title: in(message.Say("sla.objective"))}, number(message.Say("sla.requests"), ""), number(message.Say("sla.allowed"), ""), number(message.Say("sla.missed"), ""), number(message.Say("sla.budget_left"), "%"),
	}}
	latencies := report.Table{Columns: []report.Column{
		{Title: in(message.Say("sla.line"))}, {Title: in(message.Say("sla.latency"))}, number(message.Say("sla.requests"), ""), {Title: "P50", Unit: "ms", Number: true}, {Title: "P95", Unit: "ms", Number: true}, {Title: "P99", Unit: "ms", Number: true}, {Title: "P99.9", Unit: "ms", Number: true}, number(message.Say("sla.jitter"), ""),
	}}
	for i, x := range append(slices.Clone(r.Lines), r.Total) {
		of := label(x)
		if i == len(r.Lines) {
			of = in(message.Say("sla.total"))
		}
		cells := []string{of, report.Count(x.Requests), report.Count(x.Answered), report.Count(x.Failures), report.Count(x.Refused + x.Left), percent(x.Availability, 4), orDash(decimal(x.Goodput, 4))}
		if i == len(r.Lines) {
			availability.Total = cells
		} else {
			availability.Rows = append(availability.Rows, cells)
		}
		for _, b := range x.Budgets {
			budgets.Rows = append(budgets.Rows, []string{of, in(nameOf(b.Of)), report.Count(b.Requests), strconv.FormatFloat(b.Allowed, 'f', 2, 64), report.Count(b.Missed), percent(b.Left, 1)})
		}
		for _, s := range x.spreads() {
			if s.Spread != nil {
				latencies.Rows = append(latencies.Rows, []string{of, in(nameOf(s.Of)), report.Count(s.Requests), millis(s.P50), millis(s.P95), millis(s.P99), millis(s.P999), orDash(decimal(s.Jitter, 2))})
			}
		}
	}
	heading := func(p message.Phrase) report.Block { return report.Heading{Level: 1, Text: in(p)} }
	d.Body = append(d.Body, heading(message.Say("sla.availability")), availability)
	if len(budgets.Rows) > 0 {
		d.Body = append(d.Body, heading(message.Say("sla.objectives")), budgets)
	}
	if len(latencies.Rows) > 0 {
		d.Body = append(d.Body, heading(message.Say("sla.latencies")), latencies)
	}
	d.Body = append(d.Body, heading(message.Say("sla.how")), report.Paragraph(in(message.Say("sla.how_counted"))), report.Paragraph(in(message.Say("sla.how_latencies"))))
	return d
}

// verdict says whether the budgets of the lines lasted.
func (r Report) verdict(l message.Lang) report.Verdict {
	judged, over := 0, 0
	for _, x := range r.Lines {
		for _, b := range x.Budgets {
			if b.Left != nil {
				judged++
				if *b.Left < 0 {
					over++
				}
			}
		}
	}
	switch {
	case judged == 0:
		return report.Verdict{Outcome: report.Neutral, Text: message.Say("sla.no_objective").In(l)}
	case over > 0:
		return report.Verdict{Outcome: report.Failed, Text: message.Say("sla.overspent", over, judged).In(l)}
	}
	return report.Verdict{Outcome: report.Passed, Text: message.Say("sla.kept", judged).In(l)}
}

func millis(us int64) string { return fmt.Sprintf("%.1f", float64(us)/1000) }

// nameOf is what a latency or a budget is of.
func nameOf(of string) message.Phrase {
	switch of {
	case "first_token":
		return message.Say("sla.of_first_token")
	case "between_tokens":
		return message.Say("sla.of_between_tokens")
	case "total":
		return message.Say("sla.of_total")
	}
	return message.Say("sla.of_availability")
}
