package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/report"
	"github.com/sluice-project/sluice/server/compliance"
)

// SearchAudit implements GET /audit/records.
func (s *Server) SearchAudit(c *gin.Context, params SearchAuditParams) {
	q := search.Query{
		Tenant: tenantOf(c), Request: deref(params.Request), Actor: deref(params.Actor), Action: deref(params.Action),
		Stage: audit.Stage(deref(params.Stage)), Outcome: string(deref(params.Outcome)), Model: deref(params.Model), Rollout: deref(params.Rollout),
		Class: deref(params.Class), Text: deref(params.Text), OnBehalfOf: deref(params.OnBehalfOf), Project: deref(params.Project),
		Source: deref(params.Source), Session: deref(params.Session), Version: deref(params.Version), Policy: deref(params.Policy),
		Cursor: deref(params.Cursor), Limit: 50,
	}
	if q.OnBehalfOf != "" {
		about(c, "", map[string]string{"on_behalf_of": q.OnBehalfOf})
	}
	if q.Actor != "" {
		keys, err := s.deps.Identity.ListKeys(c.Request.Context(), tenantOf(c), q.Actor)
		if err != nil {
			s.Fail(c, err)
			return
		}
		for _, k := range keys {
			q.Keys = append(q.Keys, k.ID)
		}
	}
	if params.Limit != nil {
		q.Limit = *params.Limit
	}
	if params.From != nil {
		q.From = params.From.UnixMicro()
	}
	if params.To != nil {
		q.To = params.To.UnixMicro()
	}
	found, err := s.deps.Audit.Search(c.Request.Context(), q)
	if err != nil {
		s.Fail(c, err)
		return
	}
	out := AuditPage{Items: []AuditEntry{}, Next: optional(found.Next), AsOf: s.now().UTC().Truncate(time.Millisecond)}
	for _, e := range found.Events {
		view, err := entryView(e)
		if err != nil {
			s.Fail(c, err)
			return
		}
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, nil)
}

func entryView(e search.Entry) (AuditEntry, error) {
	raw, err := json.Marshal(e.Event)
	return AuditEntry{Event: raw, Index: e.Index, LeafHash: optional(e.LeafHash)}, err
}

// entry returns a record of the tenant the permission was checked in; another tenant's is not found.
func (s *Server) entry(c *gin.Context, id string) (search.Entry, error) {
	e, err := s.deps.Audit.Get(c.Request.Context(), id)
	if err == nil && e.Event.Tenant != tenantOf(c) {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.record"), id)
	}
	return e, err
}

// GetAuditEvent implements GET /audit/records/{id}.
func (s *Server) GetAuditEvent(c *gin.Context, id IdPath, _ GetAuditEventParams) {
	e, err := s.entry(c, id)
	if err != nil {
		s.Fail(c, err)
		return
	}
	view, err := entryView(e)
	s.reply(c, http.StatusOK, view, err)
}

// ProveAuditEvent implements GET /audit/records/{id}/proof.
func (s *Server) ProveAuditEvent(c *gin.Context, id IdPath, _ ProveAuditEventParams) {
	if _, err := s.entry(c, id); err != nil {
		s.Fail(c, err)
		return
	}
	p, err := s.deps.Audit.ProofFile(c.Request.Context(), id)
	s.reply(c, http.StatusOK, AuditProof{
		Id: p.ID, Index: p.Index, LeafHash: p.LeafHash, Record: p.Record, Hashes: list(p.Hashes), Checkpoint: p.Checkpoint, TreeSize: p.TreeSize, VerifierKey: p.VerifierKey,
	}, err)
}

// GetCheckpoint implements GET /audit/checkpoint.
func (s *Server) GetCheckpoint(c *gin.Context) {
	note, err := s.deps.Audit.Checkpoint(c.Request.Context())
	s.reply(c, http.StatusOK, Checkpoint{Note: note, VerifierKey: s.deps.Audit.VerifierKey()}, err)
}

// verification is a job with what it found, for its report.
type verification struct {
	Verification
	result verify.Report
}

// keptVerifications bounds how many finished jobs stay readable.
const keptVerifications = 20

// StartVerification implements POST /audit/verifications. One check runs at a time: a second caller gets the running one.
func (s *Server) StartVerification(c *gin.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.Status == VerificationStatusRunning {
			s.reply(c, http.StatusAccepted, j.Verification, nil)
			return
		}
	}
	job := &verification{Verification: Verification{Id: uuid.Must(uuid.NewV7()).String(), Status: VerificationStatusRunning, StartedAt: s.now().UTC()}}
	s.jobs = append(s.jobs, job)
	if len(s.jobs) > keptVerifications {
		s.jobs = s.jobs[len(s.jobs)-keptVerifications:]
	}
	about(c, job.Id, nil)
	go s.verify(context.WithoutCancel(c.Request.Context()), job, language(c.GetHeader("Accept-Language")), c.GetString(KeyRequestID))
	c.Header("Location", Prefix+"/audit/verifications/"+job.Id)
	s.reply(c, http.StatusAccepted, job.Verification, nil)
}

// verify runs a job; every field of job is written under the lock.
func (s *Server) verify(ctx context.Context, job *verification, lang fault.Lang, request string) {
	update := func(change func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		change()
	}
	report, err := s.deps.Verify(ctx, func(done, total int64) {
		update(func() { job.Done, job.Total = done, total })
	})
	update(func() {
		at := s.now().UTC()
		job.FinishedAt = &at
		if err != nil {
			public := fault.Public(err)
			job.Status = VerificationStatusFailed
			job.Problem = &Problem{
				Type: "urn:sluice:problem:" + string(public.Code()), Title: "Verification could not be done", Status: public.Kind().Status(),
				Detail: public.Message(lang), Code: string(public.Code()), RequestId: request,
			}
			return
		}
		job.Status, job.Report, job.result = VerificationStatusFinished, reportView(report), report
	})
	if err != nil {
		s.log.ErrorContext(ctx, "verification could not be done", attr("job", job.Id), attr("error", err.Error()))
	}
}

func reportView(r verify.Report) *VerificationReport {
	findings := problemViews(r.Findings)
	return &VerificationReport{
		Ok: r.OK, Records: r.Records, Sealed: r.Sealed, Unsealed: r.Unsealed, WalRecords: r.WALRecords, CheckpointSize: r.CheckpointSize,
		LeastIndex: r.Least, Root: r.Root, Witnessed: witnessedViews(r.Witnessed), Problems: problemViews(r.Problems), Findings: &findings, More: &r.More,
	}
}

func witnessedViews(witnessed []seal.Witnessed) []Witnessed {
	out := []Witnessed{}
	for _, w := range witnessed {
		out = append(out, Witnessed{Witness: w.Witness, Size: w.Size, Time: w.Time})
	}
	return out
}

func problemViews(problems []verify.Problem) []VerificationProblem {
	out := []VerificationProblem{}
	for _, p := range problems {
		view := VerificationProblem{Kind: p.Kind, Record: optional(p.Record), Cause: p.Cause}
		if p.Index >= 0 {
			view.Index = &p.Index
		}
		out = append(out, view)
	}
	return out
}

// GetVerification implements GET /audit/verifications/{id}.
func (s *Server) GetVerification(c *gin.Context, id IdPath) {
	job, err := s.verification(id)
	s.reply(c, http.StatusOK, job.Verification, err)
}

// verification returns a job as it is now.
func (s *Server) verification(id string) (verification, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.Id == id {
			return *j, nil
		}
	}
	return verification{}, fault.New(fault.CodeNotFound, fault.Say("thing.verification"), id)
}

// GetVerificationReport implements GET /audit/verifications/{id}/report.
func (s *Server) GetVerificationReport(c *gin.Context, id IdPath, params GetVerificationReportParams) {
	job, err := s.verification(id)
	if err == nil && job.Status != VerificationStatusFinished {
		err = fault.New(fault.CodeConflict, fault.Say("adminapi.verification_not_finished"))
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	document, err := compliance.Verification{
		VerifierKey: s.deps.Audit.VerifierKey(), Finished: *job.FinishedAt, Program: s.deps.Version, Result: job.result,
	}.Document(language(c.GetHeader("Accept-Language")))
	if err != nil {
		s.Fail(c, err)
		return
	}
	var file bytes.Buffer
	format, err := report.FormatOf("." + string(params.Format))
	if err == nil {
		err = report.Write(&file, format, document)
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	c.Header("Content-Disposition", `attachment; filename="verification-`+job.FinishedAt.Format("20060102T150405Z")+`.`+string(params.Format)+`"`)
	c.Data(http.StatusOK, format.MediaType(), file.Bytes())
}
