package adminapi

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListStatements implements GET /billing/statements.
func (s *Server) ListStatements(c *gin.Context, _ ListStatementsParams) {
	closed, err := s.deps.Ledger.Statements(c.Request.Context(), tenantOf(c))
	out := StatementList{Items: []StatementSummary{}}
	for _, x := range closed {
		view, verr := summaryView(x)
		err = cmp.Or(err, verr)
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

func summaryView(x statement.Statement) (StatementSummary, error) {
	digest, err := x.Digest()
	return StatementSummary{
		Number: x.Number, Tenant: x.Tenant, Month: x.Month, Zone: x.Zone, From: x.From, Until: x.Until, ClosedAt: x.AsOf, ClosedBy: x.ClosedBy,
		Currency: x.Currency, TotalNano: x.Amounts.Total, PayableNano: x.Amounts.Payable, Digest: digest,
	}, err
}

// GetStatement implements GET /billing/statements/{month}.
func (s *Server) GetStatement(c *gin.Context, month MonthPath, params GetStatementParams) {
	format := statement.Format(cmp.Or(deref(params.Format), GetStatementParamsFormatJson))
	about(c, month, map[string]string{"format": string(format)})
	x, err := s.deps.Ledger.Statement(c.Request.Context(), tenantOf(c), month)
	if err != nil {
		s.Fail(c, err)
		return
	}
	key, err := checkpoint.NewVerifier(s.deps.Audit.VerifierKey())
	if err != nil {
		s.Fail(c, err)
		return
	}
	names := statement.Names{Issuer: key.Origin()}
	if format == statement.FOCUS || format == statement.FOCUSLines {
		if names.Tenant, err = tenantName(s.deps.Identity.FindTenant(c.Request.Context(), x.Tenant)); err != nil {
			s.Fail(c, err)
			return
		}
	}
	var file bytes.Buffer
	if err := statement.Write(&file, format, x, language(c.GetHeader("Accept-Language")), names); err != nil {
		s.Fail(c, err)
		return
	}
	if format != statement.JSON {
		c.Header("Content-Disposition", `attachment; filename="statement-`+x.Number+`.`+format.Ending()+`"`)
	}
	c.Data(http.StatusOK, format.MediaType(), file.Bytes())
}

// tenantName returns the name of a tenant that was looked for, "" of one that is gone: books outlive their tenant.
func tenantName(t identity.Tenant, err error) (string, error) {
	if fault.Is(err, fault.CodeNotFound) {
		return "", nil
	}
	return t.Name, err
}

// CloseMonth implements POST /billing/statements/{month}/close.
func (s *Server) CloseMonth(c *gin.Context, month MonthPath, _ CloseMonthParams) {
	about(c, month, nil)
	if err := s.tenantExists(c); err != nil {
		s.Fail(c, err)
		return
	}
	x, err := s.deps.Ledger.CloseMonth(c.Request.Context(), tenantOf(c), month, nameOf(caller(c)))
	if err != nil {
		s.Fail(c, err)
		return
	}
	view, err := summaryView(x)
	about(c, x.Number, map[string]string{"digest": view.Digest})
	s.reply(c, http.StatusCreated, view, err)
}

// ListCorrections implements GET /billing/corrections.
func (s *Server) ListCorrections(c *gin.Context, _ ListCorrectionsParams) {
	all, err := s.deps.Ledger.Corrections(c.Request.Context(), tenantOf(c))
	out := CorrectionList{Items: []Correction{}}
	for _, x := range all {
		out.Items = append(out.Items, correctionView(x))
	}
	s.reply(c, http.StatusOK, out, err)
}

func correctionView(x statement.Correction) Correction {
	return Correction{
		Id: x.ID, At: x.At, Month: optional(x.Month), Request: optional(x.Request), Model: optional(x.Model), Key: optional(x.Key), AmountNano: x.Amount,
		Reason: x.Reason, Actor: x.Actor,
	}
}

// CorrectUsage implements POST /billing/corrections.
func (s *Server) CorrectUsage(c *gin.Context) {
	in, err := decode[NewCorrection](c)
	if err == nil {
		err = s.tenantExists(c)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	x, err := s.deps.Ledger.Correct(c.Request.Context(), billing.Correction{
		Tenant: tenantOf(c), Month: deref(in.Month), Request: deref(in.Request), Amount: billing.Money(in.AmountNano), Reason: in.Reason, Actor: nameOf(caller(c)),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, x.ID, map[string]string{"amount": billing.Money(x.Amount).Decimal(), "month": x.Month, "request": x.Request})
	s.reply(c, http.StatusCreated, correctionView(x), nil)
}

// tenantExists refuses a tenant that nobody has made: its books would be kept for ever.
func (s *Server) tenantExists(c *gin.Context) error {
	tenants, err := s.deps.Identity.ListTenants(c.Request.Context())
	if err == nil && !slices.ContainsFunc(tenants, func(t identity.Tenant) bool { return t.ID == tenantOf(c) }) {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), tenantOf(c))
	}
	return err
}

// nameOf is how statements name whoever acts.
func nameOf(p identity.Principal) string { return cmp.Or(p.Name, p.ID) }
