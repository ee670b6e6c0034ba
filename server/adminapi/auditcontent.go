package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"
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
