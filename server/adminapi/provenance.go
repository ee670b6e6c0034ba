package adminapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/server/provenance"
)

// JudgeProvenance implements POST /audit/provenance.
func (s *Server) JudgeProvenance(c *gin.Context, _ JudgeProvenanceParams) {
	q, err := s.question(c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	leave, err := s.enterQuestion(c, q)
	if err != nil {
		s.Fail(c, err)
		return
	}
	defer leave()
	v, err := s.deps.Provenance.Judge(c.Request.Context(), q)
	judged(c, v)
	s.reply(c, http.StatusOK, v, err)
}

// ExportProvenance implements POST /audit/provenance/evidence. The file is whole before the first byte leaves.
func (s *Server) ExportProvenance(c *gin.Context, _ ExportProvenanceParams) {
	q, err := s.question(c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	leave, err := s.enterQuestion(c, q)
	if err != nil {
		s.Fail(c, err)
		return
	}
	defer leave()
	f, err := os.CreateTemp("", "sluice-provenance-*.zip")
	if err != nil {
		s.Fail(c, fmt.Errorf("write the evidence: %w", err))
		return
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	name := "origin-" + s.now().UTC().Format("20060102T150405Z") + ".zip"
	v, err := s.deps.Provenance.Evidence(c.Request.Context(), f, q, caller(c).Name, name)
	judged(c, v)
	if err != nil {
		s.Fail(c, err)
		return
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.Fail(c, fmt.Errorf("write the evidence: %w", err))
		return
	}
	c.DataFromReader(http.StatusOK, size, "application/zip", f, map[string]string{"Content-Disposition": `attachment; filename="` + name + `"`})
}

// enterQuestion waits for a place among the files that are read; a text needs none.
func (s *Server) enterQuestion(c *gin.Context, q provenance.Question) (leave func(), err error) {
	if q.Name == "" {
		return func() {}, nil
	}
	return s.enterFiles(c)
}

// question reads what is asked about, and counts it.
func (s *Server) question(c *gin.Context) (provenance.Question, error) {
	in, err := decode[ProvenanceQuestion](c)
	if err != nil {
		return provenance.Question{}, err
	}
	if (in.Text == nil) == (in.Content == nil) || (in.Content == nil) != (in.Name == nil) {
		return provenance.Question{}, fault.New(fault.CodeInvalidValue, "text", fault.Say("adminapi.text_or_content")).WithParam("text")
	}
	if wait := s.detections.wait(caller(c).ID, s.now()); wait > 0 {
		return provenance.Question{}, fault.New(fault.CodeRateLimited, fault.Say("level.caller"), lookupsPerMinute).WithRetryAfter(wait)
	}
	q := provenance.Question{Tenant: tenantOf(c), Name: deref(in.Name), Data: []byte(deref(in.Text)), Signature: deref(in.Signature)}
	if in.Content != nil {
		q.Data = *in.Content
	}
	return q, nil
}

// judged says in the record what was asked about, by its digest, and what came of it.
func judged(c *gin.Context, v provenance.Verdict) {
	if v.Conclusion != "" {
		about(c, v.Subject.SHA256, map[string]string{"conclusion": string(v.Conclusion)})
	}
}
