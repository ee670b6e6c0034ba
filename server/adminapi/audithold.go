package adminapi

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListHolds implements GET /audit/holds.
func (s *Server) ListHolds(c *gin.Context, _ ListHoldsParams) {
	list, err := s.deps.Audit.Holds(c.Request.Context(), heldTenant(c))
	out := HoldList{Items: []Hold{}}
	for _, h := range list {
		out.Items = append(out.Items, HoldView(h))
	}
	s.reply(c, http.StatusOK, out, err)
}

// CreateHold implements POST /audit/holds.
func (s *Server) CreateHold(c *gin.Context) {
	in, err := decode[NewHold](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	h := retention.Hold{Tenant: heldTenant(c), Request: deref(in.Request), Actor: deref(in.Actor), Reason: in.Reason, CreatedBy: caller(c).Name}
	if in.Subject != nil || in.Digest != nil {
		if h.Subject, err = s.subject(c, in.Subject, in.Digest); err != nil {
			s.Fail(c, err)
			return
		}
	}
	if in.From != nil {
		h.From = in.From.UnixMicro()
	}
	if in.To != nil {
		h.To = in.To.UnixMicro()
	}
	about(c, "", map[string]string{"reason": truncate(in.Reason, maxResource)})
	h, err = s.deps.Audit.Hold(c.Request.Context(), h)
	if err == nil {
		about(c, h.ID, map[string]string{"reason": truncate(in.Reason, maxResource)})
	}
	s.reply(c, http.StatusCreated, HoldView(h), err)
}

// ReleaseHold implements POST /audit/holds/{id}/release.
func (s *Server) ReleaseHold(c *gin.Context, id IdPath, _ ReleaseHoldParams) {
	in, err := decode[Reason](c)
	if err == nil && strings.TrimSpace(in.Reason) == "" {
		err = fault.New(fault.CodeMissing, "reason").WithParam("reason")
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"reason": in.Reason}) // whole: it is kept nowhere else
	h, err := s.deps.Audit.ReleaseHold(c.Request.Context(), heldTenant(c), id, actor(c))
	s.reply(c, http.StatusOK, HoldView(h), err)
}

// heldTenant is the tenant as holds name it: "" for all.
func heldTenant(c *gin.Context) string {
	if tenant := tenantOf(c); tenant != access.AllTenants {
		return tenant
	}
	return ""
}

// HoldView is a hold as the API and the command line show it.
func HoldView(h retention.Hold) Hold {
	return Hold{
		Id: h.ID, Tenant: h.Tenant, Request: optional(h.Request), Actor: optional(h.Actor), Subject: optional(h.Subject), From: optionalMicros(h.From), To: optionalMicros(h.To), Reason: h.Reason,
		CreatedAt: micros(h.Created), CreatedBy: h.CreatedBy, ReleasedAt: optionalMicros(h.Released), ReleasedBy: optional(h.ReleasedBy),
	}
}
