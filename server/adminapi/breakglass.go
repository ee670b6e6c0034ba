package adminapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/identity"
)

// OpenBreakGlass implements POST /session/break-glass.
func (s *Server) OpenBreakGlass(c *gin.Context) {
	in, err := decode[BreakGlassOpening](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{"reason": truncate(in.Reason, maxResource)}
	about(c, "break-glass", detail)
	session, use, err := s.deps.Identity.OpenEmergency(c.Request.Context(), in.Halves, in.Reason, c.ClientIP())
	if use.ID != "" { // it is spent, even if the session cannot be signed
		about(c, use.ID, map[string]string{"reason": detail["reason"], "seal": use.Seal, "expires": use.Expires.Format(time.RFC3339)})
		s.deps.BreakGlass(c.Request.Context(), use)
	}
	s.reply(c, http.StatusOK, sessionView(session), err)
}

// ListBreakGlass implements GET /break-glass.
func (s *Server) ListBreakGlass(c *gin.Context) {
	seals, err := s.deps.Identity.Seals(c.Request.Context())
	if err != nil {
		s.Fail(c, err)
		return
	}
	uses, err := s.deps.Identity.EmergencyUses(c.Request.Context())
	out := BreakGlassList{Enabled: s.deps.Identity.BreakGlassEnabled(), Seals: []Seal{}, Uses: []BreakGlassUse{}}
	for _, x := range seals {
		out.Seals = append(out.Seals, sealView(x))
	}
	for _, x := range uses {
		out.Uses = append(out.Uses, s.useView(x))
	}
	s.reply(c, http.StatusOK, out, err)
}

// SealBreakGlass implements POST /break-glass/seals.
func (s *Server) SealBreakGlass(c *gin.Context) {
	in, err := decode[NewSeals](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	n := 1
	if in.Copies != nil {
		n = *in.Copies
	}
	seals, secrets, err := s.deps.Identity.MakeSeals(c.Request.Context(), caller(c), n, deref(in.Whole))
	out, ids := SealedCredentials{Items: []SealedCredential{}}, ""
	for i, x := range seals {
		out.Items = append(out.Items, SealedCredential{Seal: sealView(x), Secrets: secrets[i]})
		ids += " " + x.ID
	}
	if err == nil {
		about(c, truncate(ids[1:], maxResource), map[string]string{"copies": strconv.Itoa(n), "whole": strconv.FormatBool(deref(in.Whole))})
	}
	s.reply(c, http.StatusCreated, out, err)
}

// RevokeBreakGlass implements POST /break-glass/seals/{id}/revoke.
func (s *Server) RevokeBreakGlass(c *gin.Context, id IdPath) {
	s.reply(c, http.StatusNoContent, nil, s.deps.Identity.RevokeSeal(c.Request.Context(), id))
}

// EndBreakGlass implements POST /break-glass/uses/{id}/end.
func (s *Server) EndBreakGlass(c *gin.Context, id IdPath) {
	use, err := s.deps.Identity.EndEmergency(c.Request.Context(), id)
	s.reply(c, http.StatusOK, s.useView(use), err)
}

// ReviewBreakGlass implements POST /break-glass/uses/{id}/review.
func (s *Server) ReviewBreakGlass(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"reason": truncate(in.Reason, maxResource)})
	use, err := s.deps.Identity.ReviewEmergency(c.Request.Context(), id, in.Reason, caller(c))
	s.reply(c, http.StatusOK, s.useView(use), err)
}

func sealView(x identity.Seal) Seal {
	return Seal{Id: x.ID, Halves: x.Halves, CreatedAt: x.Created, CreatedBy: optional(x.CreatedBy), SpentAt: optionalTime(x.Spent), RevokedAt: optionalTime(x.RevokedAt)}
}

func (s *Server) useView(x identity.EmergencyUse) BreakGlassUse {
	return BreakGlassUse{
		Id: x.ID, Seal: x.Seal, Reason: x.Reason, Source: x.Source, StartedAt: x.Started, ExpiresAt: x.Expires, EndedAt: optionalTime(x.Ended), Open: x.Open(s.now()),
		ReviewDueAt: x.ReviewDue, ReviewedAt: optionalTime(x.Reviewed), ReviewedBy: optional(x.ReviewedBy), Review: optional(x.Review),
	}
}
