package adminapi

import (
	"math"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/cost"
	"github.com/sluice-project/sluice/billing/energy/carbon"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListEnergyFactors implements GET /energy-factors.
func (s *Server) ListEnergyFactors(c *gin.Context) {
	list, err := carbon.Factors(nil)
	out := EnergyFactorList{Items: []EnergyFactor{}}
	for _, f := range list {
		out.Items = append(out.Items, factorView(f))
	}
	s.reply(c, http.StatusOK, out, err)
}

func factorView(f carbon.Factor) EnergyFactor {
	return EnergyFactor{Id: f.ID, Region: f.Region, RegionZh: f.RegionZH, Scope: f.Scope, MilligramsPerKwh: f.Milligrams, Year: f.Year, Source: f.Source, Published: f.Published}
}

// factorOf returns the factor that is asked for, nil if none is.
func factorOf(id *string) (*carbon.Factor, error) {
	if deref(id) == "" {
		return nil, nil //nolint:nilnil // no factor is wanted, which is no error
	}
	list, err := carbon.Factors(nil)
	if err != nil {
		return nil, err
	}
	f, err := carbon.Find(list, *id)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeNotFound, fault.Say("thing.energy_factor"), *id)
	}
	return &f, nil
}

// permille returns a PUE, 1 where none is given.
func permille(pue *float32) int64 {
	if pue == nil {
		return 1000
	}
	return int64(math.Round(float64(*pue) * 1000))
}

// ExplainUsage implements GET /usage/{request}.
func (s *Server) ExplainUsage(c *gin.Context, request string, params ExplainUsageParams) {
	factor, err := factorOf(params.Factor)
	if err != nil {
		s.Fail(c, err)
		return
	}
	b, err := s.deps.Ledger.Explain(c.Request.Context(), tenantOf(c), request)
	if err != nil {
		s.Fail(c, err)
		return
	}
	u := b.Usage
	out := RequestBill{
		Request: request, At: b.At, Action: u.Action, Model: u.Model, PriceBook: u.Book, Currency: b.Currency, CostNano: u.Cost, Lines: []BillLine{}, Estimated: u.Estimated > 0, EnergyMethod: u.EnergyMethod,
	}
	for _, book := range b.Books {
		out.PriceBookDigest = &book.Digest
	}
	for _, l := range b.Lines {
		out.Lines = append(out.Lines, BillLine{Kind: BillLineKind(l.Kind), Quantity: l.Quantity, UnitPriceNano: l.UnitPrice, AmountNano: l.Amount})
	}
	if u.EnergyMethod != "" {
		out.EnergyUj = &u.Energy
		if factor != nil {
			view := factorView(*factor)
			ug, err := factor.Micrograms(u.Energy, permille(params.Pue))
			if err != nil {
				s.Fail(c, err)
				return
			}
			out.Factor, out.LocationUg = &view, &ug
		}
	}
	s.reply(c, http.StatusOK, out, nil)
}

// ReportEnergy implements GET /energy-report.
func (s *Server) ReportEnergy(c *gin.Context, params ReportEnergyParams) {
	factor, err := factorOf(params.Factor)
	if err != nil {
		s.Fail(c, err)
		return
	}
	st, err := s.deps.Ledger.Statement(c.Request.Context(), tenantOf(c), params.Month)
	if err != nil {
		s.Fail(c, err)
		return
	}
	rows, err := billing.EnergyRows(st.Usage, factor, nil, permille(params.Pue))
	if err != nil {
		s.Fail(c, err)
		return
	}
	out := EnergyReport{
		Tenant: st.Tenant, Month: st.Month, State: EnergyReportState(st.State), Currency: st.Currency, Pue: float64(permille(params.Pue)) / 1000, Rows: []EnergyReportRow{}, Sci: billing.SCI(rows, 0),
	}
	if factor != nil {
		view := factorView(*factor)
		out.Factor = &view
	}
	for _, r := range rows {
		view := energyView(r)
		out.Rows = append(out.Rows, view)
		out.Total.add(view)
	}
	out.Total.rate()
	s.reply(c, http.StatusOK, out, nil)
}

func energyView(r billing.EnergyRow) EnergyReportRow {
	out := EnergyReportRow{Model: r.Model, Method: r.Method, Requests: r.Requests, PromptTokens: r.Prompt, OutputTokens: r.Tokens, CostNano: r.Cost, LocationUg: r.Location}
	if r.Method == "" {
		out.UnknownRequests = r.Requests
	} else {
		out.EnergyUj = &r.Microjoules
	}
	out.rate()
	return out
}

// rate fills in how much work a joule did, where the energy of all of it is known.
func (r *EnergyReportRow) rate() {
	if r.EnergyUj == nil || r.UnknownRequests > 0 {
		return
	}
	x := carbon.Work{Requests: r.Requests, Tokens: r.OutputTokens, Microjoules: *r.EnergyUj}.Rates()
	r.JoulesPer1000Tokens, r.TokensPerJoule, r.RequestsPerKilojoule = x.JoulesPer1000, x.TokensPerJoule, x.RequestsPerKJ
}

// add sums a row into a total. Parts that are not known add nothing; the total counts them.
func (r *EnergyReportRow) add(x EnergyReportRow) {
	r.Requests, r.UnknownRequests = r.Requests+x.Requests, r.UnknownRequests+x.UnknownRequests
	r.PromptTokens, r.OutputTokens, r.CostNano = r.PromptTokens+x.PromptTokens, r.OutputTokens+x.OutputTokens, r.CostNano+x.CostNano
	r.EnergyUj, r.LocationUg = plus(r.EnergyUj, x.EnergyUj), plus(r.LocationUg, x.LocationUg)
	r.Method = cost.MergeMethods(r.Method, x.Method)
}

// plus is the sum of what is known, nil of nothing.
func plus(a, b *int64) *int64 {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	sum := *a + *b
	return &sum
}
