package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/fault"
)

// GetAuditContent implements GET /audit/records/{id}/content.
func (s *Server) GetAuditContent(c *gin.Context, id IdPath, _ GetAuditContentParams) {
	if _, err := s.entry(c, id); err != nil {
		s.Fail(c, err)
		return
	}
	kept, err := s.deps.Audit.Contents(c.Request.Context(), id)
	out := AuditContents{Items: []AuditContent{}}
	for _, k := range kept {
		out.Items = append(out.Items, AuditContent{Direction: k.Direction, Form: k.Form, Text: k.Text, Bytes: k.Bytes, Erased: k.Erased})
	}
	s.reply(c, http.StatusOK, out, err)
}

// EraseSubject implements POST /audit/erasures. The record of the act names the digest and never the person.
func (s *Server) EraseSubject(c *gin.Context) {
	in, err := decode[NewErasure](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	subject := deref(in.Digest)
	if (in.Subject == nil) == (in.Digest == nil) {
		s.Fail(c, fault.New(fault.CodeInvalidValue, "subject", fault.Say("give either subject or digest", "请提供 subject 或 digest 之一")).WithParam("subject"))
		return
	}
	if in.Subject != nil {
		subject = s.deps.Audit.Subject(tenantOf(c), *in.Subject)
	}
	about(c, subject, nil)
	by := caller(c)
	done, err := s.deps.Audit.Erase(c.Request.Context(), tenantOf(c), subject, audit.Actor{Kind: "user", ID: by.ID, Name: by.Name})
	view := ErasureView(done)
	view.Keys, view.Contents = &done.Keys, &done.Contents
	s.reply(c, http.StatusCreated, view, err)
}

// ListErasures implements GET /audit/erasures.
func (s *Server) ListErasures(c *gin.Context, _ ListErasuresParams) {
	list, err := s.deps.Audit.Erasures(c.Request.Context(), tenantOf(c))
	out := ErasureList{Items: []Erasure{}}
	for _, e := range list {
		out.Items = append(out.Items, ErasureView(e))
	}
	s.reply(c, http.StatusOK, out, err)
}

// ErasureView is an erasure as the API and the command line show it. How much was destroyed only the answer to the erasure itself says.
func ErasureView(e audit.Erasure) Erasure {
	return Erasure{Tenant: e.Tenant, Subject: e.Subject, Time: micros(e.Time), Record: e.Record}
}
