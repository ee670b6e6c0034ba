package adminapi

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/cost"
)

// ListCostBooks implements GET /cost-books.
func (s *Server) ListCostBooks(c *gin.Context) {
	books, err := s.deps.Ledger.CostBooks(c.Request.Context())
	out := PriceBookList{Items: []PriceBook{}}
	for _, b := range slices.Backward(books) {
		out.Items = append(out.Items, bookView(b))
	}
	s.reply(c, http.StatusOK, out, err)
}

// PublishCostBook implements POST /cost-books.
func (s *Server) PublishCostBook(c *gin.Context) {
	in, err := decode[NewPriceBook](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	book, err := s.deps.Ledger.PublishCosts(c.Request.Context(), []byte(in.Yaml), caller(c).ID)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, book.Version, map[string]string{"digest": book.Digest})
	s.reply(c, http.StatusCreated, bookView(book), nil)
}

// ReportCosts implements GET /cost-report.
func (s *Server) ReportCosts(c *gin.Context, params ReportCostsParams) {
	wanted := []billing.CostMonth{{Month: params.Month, Book: deref(params.Book)}}
	if deref(params.Before) != "" || deref(params.BeforeBook) != "" {
		wanted = append(wanted, billing.CostMonth{Month: cmp.Or(deref(params.Before), params.Month), Book: deref(params.BeforeBook)})
	}
	reports, err := s.deps.Ledger.Costs(c.Request.Context(), wanted...)
	if err != nil {
		s.Fail(c, err)
		return
	}
	after := reports[0]
	out := CostComparison{After: costReport(after), Changes: []CostChange{}}
	for _, before := range reports[1:] {
		view := costReport(before)
		out.Before, out.Changes = &view, costChanges(before, after)
	}
	s.reply(c, http.StatusOK, out, nil)
}

// costChanges compares the engines that are in both reports. Amounts in two currencies have no difference.
func costChanges(before, after billing.CostReport) []CostChange {
	out := []CostChange{}
	if before.Book.Currency != after.Book.Currency {
		return out
	}
	for _, a := range after.Engines {
		i := slices.IndexFunc(before.Engines, func(b cost.Costs) bool { return b.Engine.Name == a.Engine.Name })
		if i < 0 {
			continue
		}
		lines, total := cost.Compare(before.Engines[i], a)
		for _, x := range append(lines, total) {
			out = append(out, CostChange{Engine: a.Engine.Name, Kind: x.Kind, BeforeNano: x.Before, AfterNano: x.After, ChangeNano: x.Nano, Share: x.Share})
		}
	}
	return out
}

func costReport(r billing.CostReport) CostReport {
	out := CostReport{
		Month: r.Month, From: r.From, Until: r.Until, Whole: r.Whole, Book: r.Book.Version, BookDigest: r.Book.Digest, Currency: r.Book.Currency,
		Engines: []CostEngine{}, Unassigned: []CostUnassigned{},
	}
	for _, e := range r.Engines {
		out.Engines = append(out.Engines, costEngine(e))
	}
	for _, m := range r.Unassigned {
		out.Unassigned = append(out.Unassigned, CostUnassigned(m))
	}
	return out
}

func costEngine(c cost.Costs) CostEngine {
	u := c.Usage
	out := CostEngine{
		Name: c.Engine.Name, Models: c.Engine.Models, Requests: u.Requests, Answered: u.Answered, Repeated: u.Repeated, RepeatedTokens: u.RepeatedTokens, Good: u.Good, Untimed: u.Untimed, PromptTokens: u.Prompt, CachedTokens: u.Cached,
		CompletionTokens: u.Completion, BilledNano: u.Billed, EnergyUj: c.Microjoules, EnergyMethod: c.EnergyMethod, MachineHours: c.MachineHours, Lines: []CostLine{}, TotalNano: c.Total,
		AtLeastNano: c.AtLeast, PerMillionNano: c.PerMillion, PerMillionPromptNano: c.PerMillionPrompt, PerMillionOutputNano: c.PerMillionOutput, PerAnswerNano: c.PerAnswer,
		PerGoodMillionNano: c.PerGoodMillion, PerGoodAnswerNano: c.PerGoodAnswer, TokensPerUnit: c.TokensPerUnit, Utilisation: c.Utilisation, Margin: c.Margin, Assumptions: []CostAssumption{},
	}
	for _, l := range c.Lines {
		out.Lines = append(out.Lines, CostLine{Kind: CostLineKind(l.Kind), Nano: l.Nano, AtLeastNano: l.AtLeast, Basis: optional(l.Basis), Missing: optional(l.Missing)})
	}
	for _, a := range c.Engine.Assumptions() {
		out.Assumptions = append(out.Assumptions, CostAssumption{Name: a.Name, Value: a.Value, Source: a.Source, Date: a.Date})
	}
	return out
}
