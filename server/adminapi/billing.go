package adminapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/governance"
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
func (s *Server) ListBudgets(c *gin.Context, params ListBudgetsParams) {
	of, err := s.levelOf(c, params.Organisation, params.Tenant, nil)
	if err != nil {
		s.Fail(c, err)
		return
	}
	out, err := s.budgets(c, of)
	s.reply(c, http.StatusOK, BudgetList{Items: out}, err)
}

// budgets returns those of an organisation, or those of a tenant, its projects and its keys.
func (s *Server) budgets(c *gin.Context, of level) ([]Budget, error) {
	read, id := s.deps.Ledger.Budgets, of.tenant
	if of.organisation != "" {
		read, id = s.deps.Ledger.OrganisationBudgets, of.organisation
	}
	states, err := read(c.Request.Context(), id)
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
			Organisation: optional(b.Organisation), Tenant: optional(b.Tenant), Project: optional(b.Project), Key: optional(b.Key), Period: BudgetPeriod(b.Period),
			LimitNano: int64(b.Limit), SpentNano: int64(b.Spent), ReservedNano: int64(b.Reserved), Currency: currency,
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
	of, scope, err := s.budgetScope(c, in.Organisation, in.Tenant, in.Project, in.Key)
	about(c, budgetName(scope), map[string]string{"period": string(in.Period), "limit_nano": strconv.FormatInt(in.LimitNano, 10)})
	if err == nil && scope.Key != "" {
		err = s.holder(c, scope.Key)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	err = s.deps.Ledger.SetBudget(c.Request.Context(), billing.Budget{Scope: scope, Period: billing.Period(in.Period), Limit: billing.Money(in.LimitNano)})
	if err != nil {
		s.Fail(c, err)
		return
	}
	all, err := s.budgets(c, of)
	if err != nil {
		s.Fail(c, err)
		return
	}
	for _, b := range all {
		if deref(b.Key) == scope.Key && deref(b.Project) == scope.Project && b.Period == in.Period {
			s.reply(c, http.StatusOK, b, nil)
			return
		}
	}
	s.Fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.budget"), budgetName(scope)))
}

// budgetScope returns what a budget is to bound, if the caller may set that one: nobody but the operator sets the budget of an organisation or of a
// tenant.
func (s *Server) budgetScope(c *gin.Context, organisation, tenant, project, key *string) (level, billing.Scope, error) {
	of, err := s.levelOf(c, organisation, tenant, project)
	scope := billing.Scope{Organisation: of.organisation, Tenant: of.tenant, Project: of.project, Key: deref(key)}
	if err == nil && scope.Key != "" && (scope.Project != "" || scope.Organisation != "") {
		err = fault.New(fault.CodeInvalidValue, "key", fault.Say("billing.budget_scope")).WithParam("key")
	}
	if err == nil {
		err = mayBudget(c, scope)
	}
	return of, scope, err
}

// budgetName names a budget in records.
func budgetName(of billing.Scope) string {
	switch {
	case of.Organisation != "":
		return governance.OrganisationScope(of.Organisation)
	case of.Project != "":
		return of.Tenant + "/project/" + of.Project
	}
	return of.Tenant + "/" + of.Key
}

// mayBudget refuses a tenant's own administrators the budget of their tenant, which bounds what they may spend: they divide it among projects and keys.
func mayBudget(c *gin.Context, of billing.Scope) error {
	p := caller(c)
	if of.Key != "" || of.Project != "" || p.Operator || slices.Contains(p.Roles, identity.RolePlatformAdmin) {
		return nil
	}
	return fault.New(fault.CodeNotAllowed, string(access.BudgetWrite))
}

// RemoveBudget implements DELETE /budgets.
func (s *Server) RemoveBudget(c *gin.Context, params RemoveBudgetParams) {
	_, scope, err := s.budgetScope(c, params.Organisation, params.Tenant, params.Project, params.Key)
	about(c, budgetName(scope), map[string]string{"period": string(params.Period)})
	if err == nil {
		err = s.deps.Ledger.DeleteBudget(c.Request.Context(), scope, billing.Period(params.Period))
	}
	s.reply(c, http.StatusNoContent, nil, err)
}

// ReportUsage implements GET /usage.
func (s *Server) ReportUsage(c *gin.Context, params ReportUsageParams) {
	q := billing.ReportQuery{Tenant: tenantOf(c), Project: deref(params.Project), Key: deref(params.Key), Model: deref(params.Model)}
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
	out := UsageReport{From: params.From, To: params.To, Rows: []UsageRow{}, Total: usageRow(report.Total, report.Currency), AsOf: asOf.Truncate(time.Millisecond)}
	labels, err := s.projectLabels(c, q)
	if err != nil {
		s.Fail(c, err)
		return
	}
	for _, r := range report.Rows {
		row := usageRow(r, report.Currency)
		if labels != nil {
			row.Project = &r.Project // of no project is a row, too
			if l, there := labels[r.Project]; there {
				row.Labels = &l
			}
		}
		out.Rows = append(out.Rows, row)
	}
	s.reply(c, http.StatusOK, out, nil)
}

// projectLabels returns the labels of the tenant's projects, nil for a report that names no projects.
func (s *Server) projectLabels(c *gin.Context, q billing.ReportQuery) (map[string]LevelLabels, error) {
	if !slices.Contains(q.GroupBy, "project") {
		return nil, nil
	}
	projects, err := s.deps.Identity.ListProjects(c.Request.Context(), q.Tenant)
	out := make(map[string]LevelLabels, len(projects))
	for _, p := range projects {
		out[p.ID] = labelsView(p.Labels)
	}
	return out, err
}

func usageRow(r billing.Row, currency string) UsageRow {
	return UsageRow{
		Tenant: optional(r.Tenant), Key: optional(r.Key), Model: optional(r.Model), Day: optional(r.Day), PriceBook: optional(r.PriceBook), Requests: r.Requests,
		PromptTokens: r.Tokens.Prompt, CachedTokens: r.Tokens.Cached, CompletionTokens: r.Tokens.Completion,
		CostNano: int64(r.Cost), CorrectionsNano: int64(r.Corrections), Currency: currency, EnergyUj: r.Energy, EnergyMethod: r.EnergyMethod,
	}
}
