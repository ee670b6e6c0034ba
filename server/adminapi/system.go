package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
)

// GetSystem implements GET /system.
func (s *Server) GetSystem(c *gin.Context) {
	s.reply(c, http.StatusOK, s.deps.System(c.Request.Context()), nil)
}

// PlaygroundChat implements POST /playground/chat/completions: the pipeline does everything, its audit record included.
func (s *Server) PlaygroundChat(c *gin.Context, _ PlaygroundChatParams) { s.deps.Playground(c) }

// ListPlaygroundModels implements GET /playground/models: what the policy lets the signed-in user ask for.
func (s *Server) ListPlaygroundModels(c *gin.Context) {
	token, _ := bearer(c)
	found, err := s.deps.Pipeline.Models(c.Request.Context(), &gateway.Call{
		Credential: token, Plane: identity.AdminPlane, Permission: access.PlaygroundUse, RequestID: c.GetString(KeyRequestID),
		Source: c.ClientIP(), Route: "GET /playground/models", Dialect: "admin", Action: gateway.ActionModels,
	})
	out := PlaygroundModelList{Items: []string{}}
	for _, m := range found {
		if m.Err == nil && gateway.ActionChat.Can(m.Info) {
			out.Items = append(out.Items, m.Name)
		}
	}
	s.reply(c, http.StatusOK, out, err)
}
