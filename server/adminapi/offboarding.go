package adminapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/report"
	"github.com/sluice-project/sluice/server/offboard"
)

// recordHeader names the audit record that a document is about.
const recordHeader = "X-Sluice-Record"

// ListOffboardings implements GET /offboardings.
func (s *Server) ListOffboardings(c *gin.Context) {
	all, err := s.deps.Offboard.List(c.Request.Context())
	out := OffboardingList{Items: []Offboarding{}}
	for _, o := range all {
		out.Items = append(out.Items, s.offboardingView(c, o))
	}
	s.reply(c, http.StatusOK, out, err)
}

// GetOffboarding implements GET /tenants/{id}/offboarding.
func (s *Server) GetOffboarding(c *gin.Context, id IdPath) {
	o, err := s.deps.Offboard.Get(c.Request.Context(), id, actor(c))
	s.reply(c, http.StatusOK, s.offboardingView(c, o), err)
}

// BeginOffboarding implements POST /tenants/{id}/offboarding.
func (s *Server) BeginOffboarding(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"reason": truncate(in.Reason, maxResource)})
	o, err := s.deps.Offboard.Begin(c.Request.Context(), id, in.Reason, caller(c))
	s.reply(c, http.StatusCreated, s.offboardingView(c, o), err)
}

// ExportTenant implements POST /tenants/{id}/offboarding/export. The parcel is whole before the first byte leaves, as an evidence bundle is.
func (s *Server) ExportTenant(c *gin.Context, id IdPath) {
	in, err := decode[ExportWanted](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	want := offboard.Wanted{Texts: deref(in.Texts), Values: deref(in.Values)}
	detail := map[string]string{"texts": strconv.FormatBool(want.Texts), "values": strconv.FormatBool(want.Values)}
	about(c, id, detail)
	f, err := os.CreateTemp("", "sluice-tenant-*.zip")
	if err != nil {
		s.Fail(c, fmt.Errorf("export the tenant: %w", err))
		return
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	o, err := s.deps.Offboard.Export(c.Request.Context(), f, id, want, caller(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail["manifest"], detail["files"] = o.ExportDigest, strconv.FormatInt(o.ExportFiles, 10)
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.Fail(c, fmt.Errorf("export the tenant: %w", err))
		return
	}
	c.DataFromReader(http.StatusOK, size, "application/zip", f, map[string]string{
		"Content-Disposition": `attachment; filename="tenant-` + id + "-" + s.now().UTC().Format("20060102T150405Z") + `.zip"`,
	})
}

// DeclineTenantExport implements POST /tenants/{id}/offboarding/decline-export.
func (s *Server) DeclineTenantExport(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"reason": truncate(in.Reason, maxResource)})
	o, err := s.deps.Offboard.Decline(c.Request.Context(), id, in.Reason, caller(c))
	s.reply(c, http.StatusOK, s.offboardingView(c, o), err)
}

// RequestOffboardingApproval implements POST /tenants/{id}/offboarding/approvals.
func (s *Server) RequestOffboardingApproval(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	a, err := s.deps.Offboard.RequestOverride(c.Request.Context(), id, in.Reason, actor(c))
	if err == nil {
		about(c, id, map[string]string{"reason": truncate(in.Reason, maxResource), "approval": a.ID})
	}
	s.reply(c, http.StatusCreated, ErasureApprovalView(a), err)
}

// EraseTenant implements POST /tenants/{id}/offboarding/erase.
func (s *Server) EraseTenant(c *gin.Context, id IdPath) {
	in, err := decode[TenantErasure](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"plan": in.Plan})
	o, err := s.deps.Offboard.Erase(c.Request.Context(), id, in.Plan, deref(in.Approval), actor(c))
	s.reply(c, http.StatusOK, s.offboardingView(c, o), err)
}

// GetOffboardingCertificate implements GET /tenants/{id}/offboarding/certificate.
func (s *Server) GetOffboardingCertificate(c *gin.Context, id IdPath, params GetOffboardingCertificateParams) {
	done, raw, record, err := s.deps.Offboard.Certificate(c.Request.Context(), id)
	if err != nil {
		s.Fail(c, err)
		return
	}
	c.Header(recordHeader, record)
	format := string(cmp.Or(deref(params.Format), GetOffboardingCertificateParamsFormatJson))
	if format == string(GetOffboardingCertificateParamsFormatJson) {
		c.Data(http.StatusOK, "application/json", raw)
		return
	}
	kind, err := report.FormatOf("." + format)
	key, kerr := checkpoint.NewVerifier(s.deps.Audit.VerifierKey())
	if err = errors.Join(err, kerr); err != nil {
		s.Fail(c, err)
		return
	}
	sum := sha256.Sum256(raw)
	var file bytes.Buffer
	if err := report.Write(&file, kind, done.Document(language(c.GetHeader("Accept-Language")), record, hex.EncodeToString(sum[:]), key.Origin())); err != nil {
		s.Fail(c, err)
		return
	}
	c.Header("Content-Disposition", `attachment; filename="offboarding-`+id+`.`+format+`"`)
	c.Data(http.StatusOK, kind.MediaType(), file.Bytes())
}

func (s *Server) offboardingView(c *gin.Context, o offboard.Offboarding) Offboarding {
	out := Offboarding{
		Tenant: o.Tenant, State: OffboardingState(o.State), SuspendedAt: o.Since, Reason: o.Reason, BegunAt: o.Begun, BegunBy: optional(o.BegunBy),
		ExportedAt: optionalTime(o.Exported), ExportedBy: optional(o.ExportedBy), ExportDigest: optional(o.ExportDigest), ExportDeclined: optional(o.Declined), Plan: o.Plan,
		ErasingAt: optionalTime(o.Erasing), ErasingBy: optional(o.ErasingBy), Failure: optional(string(o.Failure)), ErasedAt: optionalTime(o.Erased),
		Certificate: optional(o.Certificate), Counts: []OffboardingCount{}, Holds: coveringView(o.Holds, s.spans(c, access.AuditRead) == nil),
		Progress: OffboardingProgress{Files: o.Progress.Files, Bytes: o.Progress.Bytes, People: int64(o.Progress.People)},
	}
	if o.ExportDigest != "" {
		out.ExportFiles, out.ExportBytes = &o.ExportFiles, &o.ExportBytes
	}
	if o.Step != "" {
		step := OffboardingStep(o.Step)
		out.Step = &step
	}
	for _, n := range o.Counts {
		out.Counts = append(out.Counts, OffboardingCount{Table: n.Table, Before: n.Before, Now: n.After, Stays: !offboard.Goes(n.Table)})
	}
	return out
}

// coveringView are the holds that cover what somebody would erase: who holds what is of all tenants, and why, to whoever may read such holds.
func coveringView(held []retention.Covered, all bool) []CoveringHold {
	out := []CoveringHold{}
	for _, h := range held {
		v := CoveringHold{Id: h.Hold.ID, CreatedAt: micros(h.Hold.Created), ReleasedAt: optionalMicros(h.Hold.Released), Records: h.Records, Examples: list(h.Examples)}
		if all || h.Hold.Tenant != "" {
			v.Reason, v.CreatedBy = &h.Hold.Reason, &h.Hold.CreatedBy
		}
		out = append(out, v)
	}
	return out
}

// requireOpen refuses to make anything new in a tenant that is closed: it would stay behind the erasure.
func (s *Server) requireOpen(op operation, tenant string) error {
	makes := []access.Permission{access.PolicyWrite, access.BudgetWrite, access.RAGWrite, access.RAGAccess, access.KeysWrite, access.KeysOwn, access.UsersWrite}
	if op.method == http.MethodGet || tenant == access.AllTenants || !slices.Contains(makes, op.permission) {
		return nil
	}
	return s.deps.Identity.RequireOpen(tenant)
}
