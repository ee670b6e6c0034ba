package adminapi

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/governance/agreement"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/csvcell"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListLabelAgreements implements GET /labels/agreements.
func (s *Server) ListLabelAgreements(c *gin.Context, params ListLabelAgreementsParams) {
	offset, n, err := window(params.Cursor, params.Limit)
	if err != nil {
		s.Fail(c, err)
		return
	}
	all, err := s.deps.Agreements.List(c.Request.Context(), tenantOf(c), offset, n+1)
	if err != nil {
		s.Fail(c, err)
		return
	}
	var next *string
	if len(all) > n {
		all, next = all[:n], cursorAt(offset+n)
	}
	out := LabelAgreementPage{Items: []LabelAgreement{}, Next: next, Labelling: s.labelling(tenantOf(c)), Text: LabelAgreementText(s.deps.Agreements.Text())}
	for _, a := range all {
		out.Items = append(out.Items, s.agreementView(a))
	}
	s.reply(c, http.StatusOK, out, nil)
}

// labelling says how the visible label gets to the people of a tenant, outside its projects that have a policy of their own.
func (s *Server) labelling(tenant string) Labelling {
	mode, demanded, err := s.deps.Guard.Labelling(tenant, "")
	configuration := s.deps.Agreements.Demanded()
	switch {
	case configuration:
		return Labelling{VisibleLabel: LabellingVisibleLabelAgreement, RequiredBy: new(LabellingRequiredByConfiguration)}
	case err != nil: // requests are refused, so nothing leaves
		return Labelling{VisibleLabel: LabellingVisibleLabelUnknown}
	case demanded:
		return Labelling{VisibleLabel: LabellingVisibleLabelAgreement, RequiredBy: new(LabellingRequiredByPolicy)}
	case mode == identity.LabelText:
		return Labelling{VisibleLabel: LabellingVisibleLabelText}
	}
	return Labelling{VisibleLabel: LabellingVisibleLabelApplication}
}

// AskLabelAgreement implements POST /labels/agreements.
func (s *Server) AskLabelAgreement(c *gin.Context) {
	in, err := decode[NewLabelAgreement](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	a, err := s.deps.Agreements.Ask(c.Request.Context(), agreement.NewAgreement{
		Tenant: tenantOf(c), Project: deref(in.Project), Key: deref(in.Key), Recipient: in.Recipient, Contact: in.Contact, Reference: deref(in.Reference),
		Purpose: in.Purpose, TextDigest: in.TextDigest, From: deref(in.From), Until: in.Until,
	}, caller(c))
	if err == nil {
		about(c, a.ID, agreementDetail(a))
	}
	s.reply(c, http.StatusCreated, s.agreementView(a), err)
}

// GetLabelAgreement implements GET /labels/agreements/{id}.
func (s *Server) GetLabelAgreement(c *gin.Context, id IdPath, _ GetLabelAgreementParams) {
	a, err := s.deps.Agreements.Get(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.agreementView(a), err)
}

// ApproveLabelAgreement implements POST /labels/agreements/{id}/approve.
func (s *Server) ApproveLabelAgreement(c *gin.Context, id IdPath, _ ApproveLabelAgreementParams) {
	about(c, truncate(id, maxResource), nil)
	a, err := s.deps.Agreements.Approve(c.Request.Context(), tenantOf(c), id, caller(c))
	if err == nil {
		about(c, a.ID, agreementDetail(a))
	}
	s.reply(c, http.StatusOK, s.agreementView(a), err)
}

// RevokeLabelAgreement implements POST /labels/agreements/{id}/revoke.
func (s *Server) RevokeLabelAgreement(c *gin.Context, id IdPath, _ RevokeLabelAgreementParams) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, truncate(id, maxResource), map[string]string{"reason": truncate(in.Reason, maxResource)})
	a, err := s.deps.Agreements.Revoke(c.Request.Context(), tenantOf(c), id, in.Reason, caller(c))
	s.reply(c, http.StatusOK, s.agreementView(a), err)
}

// agreementDetail is what the records of an agreement keep of it: they outlive it by six months and longer.
func agreementDetail(a agreement.Agreement) map[string]string {
	out := map[string]string{
		"recipient": a.Recipient, "contact": a.Contact, "purpose": truncate(a.Purpose, maxResource), "text_digest": a.Digest,
		"from": a.From.Format(time.RFC3339), "until": a.Until.Format(time.RFC3339), "asked_by": a.AskedBy,
	}
	for name, value := range map[string]string{"project": a.Project, "key": a.Key, "reference": a.Reference} {
		if value != "" {
			out[name] = value
		}
	}
	return out
}

// ExportLabelAgreements implements GET /labels/agreements/export.
func (s *Server) ExportLabelAgreements(c *gin.Context, params ExportLabelAgreementsParams) {
	format := ExportLabelAgreementsParamsFormatJson
	if params.Format != nil {
		format = *params.Format
	}
	about(c, "label agreements", map[string]string{"from": params.From.UTC().Format(time.RFC3339), "to": params.To.UTC().Format(time.RFC3339), "format": string(format)})
	out, err := s.agreementRecord(c, params.From.UTC(), params.To.UTC())
	if err != nil {
		s.Fail(c, err)
		return
	}
	if format == ExportLabelAgreementsParamsFormatJson {
		s.reply(c, http.StatusOK, out, nil)
		return
	}
	text, err := out.csv()
	if err != nil {
		s.Fail(c, err)
		return
	}
	c.Header("Content-Disposition", `attachment; filename="label-agreements.csv"`)
	c.Data(http.StatusOK, "text/csv; charset=utf-8", text)
}

// answersEnd is how long after the end of an agreement an answer that was admitted under it ends at most.
const answersEnd = 24 * time.Hour

func (s *Server) agreementRecord(c *gin.Context, from, to time.Time) (LabelAgreementRecord, error) {
	out := LabelAgreementRecord{Schema: SluiceLabelAgreements1, Tenant: tenantOf(c), From: from, To: to, MadeAt: s.now().UTC(), Agreements: []LabelAgreementUse{}}
	if !to.After(from) {
		return out, fault.New(fault.CodeInvalidValue, "to", fault.Say("adminapi.period")).WithParam("to")
	}
	all, err := s.deps.Agreements.Between(c.Request.Context(), out.Tenant, from.Add(-answersEnd), to)
	if err != nil {
		return out, err
	}
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	counts, err := s.deps.Audit.Deliveries(c.Request.Context(), out.Tenant, ids, from.UnixMicro(), to.UnixMicro())
	if err != nil {
		return out, err
	}
	pruned, err := s.deps.Audit.PrunedUntil(c.Request.Context())
	if err != nil {
		return out, err
	}
	if pruned >= from.UnixMicro() {
		out.CompleteSince = new(time.UnixMicro(pruned + 1).UTC())
	}
	for _, a := range all {
		n := counts[a.ID]
		if n.Answers == 0 && !a.End().After(from) {
			continue
		}
		use := LabelAgreementUse{Agreement: s.agreementView(a), Answers: n.Answers, Records: recordsOf(a.ID, out)}
		if n.Answers > 0 {
			use.FirstAt, use.LastAt = new(time.UnixMicro(n.First).UTC()), new(time.UnixMicro(n.Last).UTC())
		}
		out.Agreements = append(out.Agreements, use)
	}
	return out, nil
}

// recordsOf is where the records of what has gone out under an agreement are.
func recordsOf(id string, of LabelAgreementRecord) string {
	return Prefix + "/audit/records?" + url.Values{
		"tenant": {of.Tenant}, "text": {search.AgreementTerm(id)}, "stage": {"outcome"}, "from": {of.From.Format(time.RFC3339Nano)}, "to": {of.To.Format(time.RFC3339Nano)},
	}.Encode()
}

// csv is the record as a table, each agreement on a line. The text that was accepted is named by its digest.
func (r LabelAgreementRecord) csv() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("\ufeff") // spreadsheets take it for GB 18030 otherwise
	w := csv.NewWriter(&b)
	rows := [][]string{{
		"agreement", "tenant", "project", "key", "recipient", "contact", "reference", "purpose", "text_sha256", "state", "from", "until", "asked_by", "asked_at", "approved_by", "approved_at",
		"revoked_by", "revoked_at", "reason", "answers", "first_at", "last_at", "records", "complete_since",
	}}
	when := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	for _, u := range r.Agreements {
		a := u.Agreement
		rows = append(rows, []string{
			a.Id, a.Tenant, deref(a.Project), deref(a.Key), a.Recipient, a.Contact, deref(a.Reference), a.Purpose, a.TextDigest, string(a.State), when(&a.From), when(&a.Until),
			a.AskedName, when(&a.AskedAt), deref(a.ApprovedName), when(a.ApprovedAt), deref(a.RevokedName), when(a.RevokedAt), deref(a.Reason),
			strconv.FormatInt(u.Answers, 10), when(u.FirstAt), when(u.LastAt), u.Records, when(r.CompleteSince),
		})
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = csvcell.Plain(cell)
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write the record of label agreements: %w", err)
	}
	return b.Bytes(), nil
}

func (s *Server) agreementView(a agreement.Agreement) LabelAgreement {
	return LabelAgreement{
		Id: a.ID, Tenant: a.Tenant, Project: optional(a.Project), Key: optional(a.Key), Recipient: a.Recipient, Contact: a.Contact, Reference: optional(a.Reference),
		Purpose: a.Purpose, Text: optional(a.Text), TextDigest: a.Digest, State: LabelAgreementState(a.State(s.now())), From: a.From, Until: a.Until,
		AskedBy: a.AskedBy, AskedName: a.AskedName, AskedAt: a.Asked, ApprovedBy: optional(a.ApprovedBy), ApprovedName: optional(a.ApprovedName), ApprovedAt: optionalTime(a.Approved),
		RevokedBy: optional(a.RevokedBy), RevokedName: optional(a.RevokedName), RevokedAt: optionalTime(a.Revoked), Reason: optional(a.Reason),
	}
}
