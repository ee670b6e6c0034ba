package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/access"
)

// GetAuditStatus implements GET /audit/status. The figures of all tenants are for those who may verify the whole log.
func (s *Server) GetAuditStatus(c *gin.Context, _ GetAuditStatusParams) {
	tenant := tenantOf(c)
	whole := s.deps.Access.Allow(caller(c), access.AuditVerify, tenant) == nil
	status, err := s.deps.AuditStatus(c.Request.Context(), tenant, whole)
	if err != nil {
		s.Fail(c, err)
		return
	}
	status.Verification, status.Verifying = s.lastVerification()
	s.reply(c, http.StatusOK, status, nil)
}

// lastVerification says how the last finished verification went, and whether one runs.
func (s *Server) lastVerification() (last *VerificationState, running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		running = running || j.Status == VerificationStatusRunning
		if j.Status == VerificationStatusFinished {
			last = &VerificationState{FinishedAt: *j.FinishedAt, Ok: j.Report.Ok, Records: j.Report.Records, Problems: len(j.Report.Problems)}
		}
	}
	return last, running
}

// GetReconciliation implements GET /audit/reconciliation.
func (s *Server) GetReconciliation(c *gin.Context, params GetReconciliationParams) {
	offset, n, err := window(params.Cursor, params.Limit)
	if err != nil {
		s.Fail(c, err)
		return
	}
	out, err := s.deps.Reconciliation(c.Request.Context(), deref(params.All), offset, n)
	if len(out.Items) > n {
		out.Items, out.Next = out.Items[:n], cursorAt(offset+n)
	}
	s.reply(c, http.StatusOK, out, err)
}

// StartReconciliation implements POST /audit/reconciliation.
func (s *Server) StartReconciliation(c *gin.Context) {
	s.deps.Reconcile()
	s.reply(c, http.StatusAccepted, nil, nil)
}
