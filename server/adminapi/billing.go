package adminapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListPriceBooks implements GET /price-books.
func (s *Server) ListPriceBooks(c *gin.Context) {
	books, err := s.deps.Ledger.Books(c.Request.Context())
	out := PriceBookList{Items: []PriceBook{}}
	for _, b := range slices.Backward(books) {
		out.Items = append(out.Items, bookView(b))
	}
	s.reply(c, http.StatusOK, out, err)
}

func bookView(b billing.BookVersion) PriceBook {
	return PriceBook{
		Version: b.Version, Currency: b.Currency, CreatedAt: b.CreatedAt.UTC(), CreatedBy: b.Actor, Active: b.Effective, Yaml: b.Document,
	}
}

// PublishPriceBook implements POST /price-books.
func (s *Server) PublishPriceBook(c *gin.Context) {
	in, err := decode[NewPriceBook](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	book, err := s.deps.Ledger.Publish(c.Request.Context(), []byte(in.Yaml), caller(c).ID)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, book.Version, nil)
	s.reply(c, http.StatusCreated, bookView(book), nil)
}

// ListBudgets implements GET /budgets.
func (s *Server) ListBudgets(c *gin.Context, _ ListBudgetsParams) {
	out, err := s.budgets(c)
	s.reply(c, http.StatusOK, BudgetList{Items: out}, err)
}

func (s *Server) budgets(c *gin.Context) ([]Budget, error) {
	states, err := s.deps.Ledger.Budgets(c.Request.Context(), tenantOf(c))
	if err != nil {
		return nil, err
	}
	books, err := s.deps.Ledger.Books(c.Request.Context())
	if err != nil {
		return nil, err
	}
	currency := ""
	for _, b := range books {
		if b.Effective {
			currency = b.Currency
		}
	}
	out := []Budget{}
	for _, b := range states {
		out = append(out, Budget{
			Tenant: b.Tenant, Key: optional(b.Key), Period: BudgetPeriod(b.Period), LimitNano: int64(b.Limit),
			SpentNano: int64(b.Spent), ReservedNano: int64(b.Reserved), Currency: currency,
		})
	}
	return out, nil
}

// holder looks for the key or service account of the tenant that a budget is to be of.
func (s *Server) holder(c *gin.Context, id string) error {
	_, err := s.deps.Identity.Key(c.Request.Context(), tenantOf(c), id)
	if fault.Is(err, fault.CodeNotFound) && strings.HasPrefix(id, identity.ServicePrefix) {
		_, err = s.deps.Identity.ServiceAccount(c.Request.Context(), tenantOf(c), id)
	}
	return err
}

// SetBudget implements PUT /budgets.
func (s *Server) SetBudget(c *gin.Context) {
	in, err := decode[NewBudget](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	key := deref(in.Key)
	about(c, tenantOf(c)+"/"+key, map[string]string{"period": string(in.Period), "limit_nano": strconv.FormatInt(in.LimitNano, 10)})
	err = mayBudget(c, key)
	if err == nil && key != "" {
		err = s.holder(c, key)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	err = s.deps.Ledger.SetBudget(c.Request.Context(), billing.Budget{
		Tenant: tenantOf(c), Key: key, Period: billing.Period(in.Period), Limit: billing.Money(in.LimitNano),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	all, err := s.budgets(c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	for _, b := range all {
		if deref(b.Key) == key && b.Period == in.Period {
			s.reply(c, http.StatusOK, b, nil)
			return
		}
	}
	s.Fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.budget"), key))
}

// mayBudget refuses a tenant's own administrators the budget of their tenant, which bounds what they may spend: they divide it among keys.
func mayBudget(c *gin.Context, key string) error {
	p := caller(c)
	if key != "" || p.Operator || slices.Contains(p.Roles, identity.RolePlatformAdmin) {
		return nil
	}
	return fault.New(fault.CodeNotAllowed, string(access.BudgetWrite))
}

// RemoveBudget implements DELETE /budgets.
func (s *Server) RemoveBudget(c *gin.Context, params RemoveBudgetParams) {
	key := deref(params.Key)
	about(c, tenantOf(c)+"/"+key, map[string]string{"period": string(params.Period)})
	if err := mayBudget(c, key); err != nil {
		s.Fail(c, err)
		return
	}
	err := s.deps.Ledger.DeleteBudget(c.Request.Context(), tenantOf(c), key, billing.Period(params.Period))
	s.reply(c, http.StatusNoContent, nil, err)
}

// ReportUsage implements GET /usage.
func (s *Server) ReportUsage(c *gin.Context, params ReportUsageParams) {
	q := billing.ReportQuery{Tenant: tenantOf(c), Key: deref(params.Key), Model: deref(params.Model)}
	if params.From != nil {
		q.From = params.From.UnixMicro()
	}
	if params.To != nil {
		q.To = params.To.UnixMicro()
	}
	for _, g := range deref(params.GroupBy) {
		q.GroupBy = append(q.GroupBy, string(g))
	}
	asOf := s.now().UTC()
	report, err := s.deps.Ledger.Report(c.Request.Context(), q)
	if err != nil {
		s.Fail(c, err)
		return
	}
	out := UsageReport{From: params.From, To: params.To, Rows: []UsageRow{}, Total: s.usageRow(report.Total, report.Currency), AsOf: asOf.Truncate(time.Millisecond)}
	for _, r := range report.Rows {
		out.Rows = append(out.Rows, s.usageRow(r, report.Currency))
	}
	s.reply(c, http.StatusOK, out, nil)
}

func (s *Server) usageRow(r billing.Row, currency string) UsageRow {
	method := ""
	if r.Energy > 0 {
		method = s.deps.EnergyMethod
	}
	return UsageRow{
		Tenant: optional(r.Tenant), Key: optional(r.Key), Model: optional(r.Model), Day: optional(r.Day), Requests: r.Requests,
		PromptTokens: r.Tokens.Prompt, CachedTokens: r.Tokens.Cached, CompletionTokens: r.Tokens.Completion,
		CostNano: int64(r.Cost), CorrectionsNano: int64(r.Corrections), Currency: currency, EnergyUj: r.Energy, EnergyMethod: method,
	}
}
