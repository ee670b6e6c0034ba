package adminapi

import (
	"bytes"
	"cmp"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/billing/statement"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/server/sla"
)

// GetServiceLevel implements GET /sla.
func (s *Server) GetServiceLevel(c *gin.Context, params GetServiceLevelParams) {
	q := sla.Query{Tenant: tenantOf(c), Model: deref(params.Model), Class: string(deref(params.Class)), Month: deref(params.Month)}
	if q.Tenant == access.AllTenants { // which the chain has permitted
		q.Tenant = ""
	}
	q.To = cmp.Or(deref(params.To), s.now())
	q.From = cmp.Or(deref(params.From), q.To.Add(-24*time.Hour))
	for _, g := range deref(params.GroupBy) {
		q.GroupBy = append(q.GroupBy, string(g))
	}
	r, err := s.deps.ServiceLevel.Report(c.Request.Context(), q)
	format := statement.Format(cmp.Or(deref(params.Format), GetServiceLevelParamsFormatJson))
	if err != nil || format == statement.JSON {
		s.reply(c, http.StatusOK, r, err)
		return
	}
	key, err := checkpoint.NewVerifier(s.deps.Audit.VerifierKey())
	if err != nil {
		s.Fail(c, err)
		return
	}
	var file bytes.Buffer
	if err := r.Write(&file, string(format), language(c.GetHeader("Accept-Language")), key.Origin()); err != nil {
		s.Fail(c, err)
		return
	}
	c.Header("Content-Disposition", `attachment; filename="sla-`+r.From.Format("2006-01-02")+`.`+string(format)+`"`)
	c.Data(http.StatusOK, format.MediaType(), file.Bytes())
}
