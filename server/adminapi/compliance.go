package adminapi

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
	"github.com/sluice-project/sluice/server/compliance"
)

// GetComplianceMatrix implements GET /compliance/matrix. The record has the format and how many clauses stand how.
func (s *Server) GetComplianceMatrix(c *gin.Context, params GetComplianceMatrixParams) {
	tenant, format := tenantOf(c), cmp.Or(deref(params.Format), GetComplianceMatrixParamsFormatJson)
	if err := s.tenantExists(c); err != nil {
		s.Fail(c, err)
		return
	}
	e, err := s.deps.Compliance(c.Request.Context(), tenant)
	if err != nil {
		s.Fail(c, fault.Wrap(err, fault.CodeInternal))
		return
	}
	lang := language(c.GetHeader("Accept-Language"))
	detail := map[string]string{"format": string(format)}
	for state, n := range e.Counts() {
		detail[string(state)] = strconv.Itoa(n)
	}
	about(c, "compliance", detail)
	if format == GetComplianceMatrixParamsFormatJson {
		c.JSON(http.StatusOK, matrixView(e, tenant, lang))
		return
	}
	key, err := checkpoint.NewVerifier(s.deps.Audit.VerifierKey())
	if err != nil {
		s.Fail(c, err)
		return
	}
	var file bytes.Buffer
	kind, err := report.FormatOf("." + string(format))
	if err == nil {
		err = report.Write(&file, kind, e.Document(lang, key.Origin(), tenant, s.deps.Version))
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	c.Header("Content-Disposition", `attachment; filename="compliance-`+e.Time.Format("2006-01-02")+`.`+string(format)+`"`)
	c.Data(http.StatusOK, kind.MediaType(), file.Bytes())
}

func matrixView(e compliance.Evaluation, tenant string, l message.Lang) ComplianceMatrix {
	out := ComplianceMatrix{EvaluatedAt: e.Time, Tenant: tenant, Counts: map[string]int{}}
	for state, n := range e.Counts() {
		out.Counts[string(state)] = n
	}
	for _, source := range e.Matrix.Sources {
		view := ComplianceSource{Id: source.ID, Name: source.Name.In(l), Note: optional(source.Note.In(l)), Clauses: []ComplianceClause{}}
		for _, clause := range source.Clauses {
			view.Clauses = append(view.Clauses, ComplianceClause{
				At: clause.At.In(l), Duty: clause.Duty.In(l), State: ComplianceState(e.Of(clause)), Controls: append([]string{}, clause.Controls...),
				Operator: optional(clause.Operator.In(l)),
			})
		}
		out.Sources = append(out.Sources, view)
	}
	for _, control := range e.Matrix.Controls {
		a := e.Answers[control.ID]
		view := ComplianceControl{Id: control.ID, Name: control.Name.In(l), State: ComplianceState(a.State), Facts: []ComplianceFact{}, Tests: control.Tests, Page: control.Page}
		for _, f := range a.Facts {
			view.Facts = append(view.Facts, ComplianceFact{Name: f.Name.In(l), Value: f.Value})
		}
		if a.State != compliance.Holds && a.State != compliance.Built {
			view.Remedy = optional(control.Remedy.In(l))
		}
		out.Controls = append(out.Controls, view)
	}
	return out
}
