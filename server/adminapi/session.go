package adminapi

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// refreshCookie carries the refresh token. It is HttpOnly, same-site and sent to the session operations only.
const refreshCookie = "sluice_refresh"

// Login implements POST /session.
func (s *Server) Login(c *gin.Context) {
	in, err := decode[LoginRequest](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	session, err := s.login(c, in)
	noteFactor(c, session)
	s.startSession(c, session, err)
}

// noteFactor adds to a record what a sign-in has shown beside the password.
func noteFactor(c *gin.Context, session identity.Session) {
	if kind := session.Principal.Factor; kind != "" {
		c.Set(keyDetail, map[string]string{"second_factor": kind})
	}
}

// RefreshSession implements POST /session/refresh.
func (s *Server) RefreshSession(c *gin.Context) {
	token, err := c.Cookie(refreshCookie)
	if err != nil {
		s.Fail(c, fault.New(fault.CodeInvalidSession))
		return
	}
	session, err := s.deps.Identity.Refresh(c.Request.Context(), token)
	s.startSession(c, session, err)
}

func (s *Server) startSession(c *gin.Context, session identity.Session, err error) {
	if err != nil {
		s.Fail(c, err)
		return
	}
	s.setRefreshCookie(c, session.Refresh, 0)
	s.reply(c, http.StatusOK, sessionView(session), nil)
}

func sessionView(session identity.Session) Session {
	return Session{AccessToken: session.Access, TokenType: "Bearer", ExpiresAt: session.ExpiresAt.UTC()}
}

// Logout implements DELETE /session.
func (s *Server) Logout(c *gin.Context) {
	if token, err := c.Cookie(refreshCookie); err == nil {
		if err := s.deps.Identity.Logout(c.Request.Context(), token); err != nil {
			s.Fail(c, err)
			return
		}
	}
	s.setRefreshCookie(c, "", -1)
	s.reply(c, http.StatusNoContent, nil, nil)
}

// ChangePassword implements POST /me/password.
func (s *Server) ChangePassword(c *gin.Context) {
	in, err := decode[PasswordChange](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, caller(c).ID, nil)
	session, err := s.deps.Identity.ChangePassword(c.Request.Context(), caller(c), in.CurrentPassword, in.NewPassword, c.ClientIP())
	s.startSession(c, session, err)
}

// StartTotp implements POST /me/second-factor/totp.
func (s *Server) StartTotp(c *gin.Context) {
	about(c, caller(c).ID, nil)
	// Whoever finds a session open must not be able to lock its owner out.
	if err := s.deps.Guard.Approvals().RequireFreshSignIn(caller(c)); err != nil {
		s.Fail(c, err)
		return
	}
	made, err := s.deps.Identity.StartTOTP(c.Request.Context(), caller(c))
	s.reply(c, http.StatusCreated, TotpSecret{Secret: made.Secret, Uri: made.URI}, err)
}

// ConfirmTotp implements POST /me/second-factor/totp/confirm.
func (s *Server) ConfirmTotp(c *gin.Context) {
	in, err := decode[FactorCode](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, caller(c).ID, nil)
	codes, session, err := s.deps.Identity.ConfirmTOTP(c.Request.Context(), caller(c), in.Code, c.ClientIP())
	noteFactor(c, session)
	s.reply(c, http.StatusOK, ConfirmedFactor{RecoveryCodes: list(codes), Session: sessionView(session)}, err)
}

// RemoveSecondFactor implements DELETE /me/second-factor.
func (s *Server) RemoveSecondFactor(c *gin.Context) {
	about(c, caller(c).ID, nil)
	err := s.deps.Guard.Approvals().RequireFreshSignIn(caller(c))
	if err == nil {
		err = s.deps.Identity.RemoveFactor(c.Request.Context(), caller(c))
	}
	s.reply(c, http.StatusNoContent, nil, err)
}

// ListSignInProviders implements GET /session/providers.
func (s *Server) ListSignInProviders(c *gin.Context) {
	out := SignInProviderList{Items: []SignInProvider{}}
	for _, p := range s.deps.Identity.Providers() {
		out.Items = append(out.Items, SignInProvider{Name: p.Name, Label: p.Label})
	}
	s.reply(c, http.StatusOK, out, nil)
}

// BeginSession gives the browser the refresh token of a sign-in that was made elsewhere.
func (s *Server) BeginSession(c *gin.Context, refresh string) { s.setRefreshCookie(c, refresh, 0) }

func (s *Server) setRefreshCookie(c *gin.Context, value string, maxAge int) {
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // Secure follows the public address: a trial on plain http must keep its session
		Name: refreshCookie, Value: value, Path: Prefix + "/session", MaxAge: maxAge,
		HttpOnly: true, Secure: s.cfg.SecureCookies, SameSite: http.SameSiteStrictMode,
	})
}

// GetMe implements GET /me.
func (s *Server) GetMe(c *gin.Context) {
	p := caller(c)
	me := Me{Id: p.ID, Kind: p.Kind, Name: p.Name, Tenant: p.Tenant, Roles: p.Roles, Labels: list(p.Labels), Permissions: []string{}, Project: optional(p.Project), Provider: optional(p.Provider)}
	for _, perm := range access.Permissions() {
		if s.deps.Access.Allow(p, perm, p.Tenant) == nil {
			me.Permissions = append(me.Permissions, string(perm))
		}
	}
	if p.Kind == "user" {
		me.SecondFactor = s.secondFactor(c, p)
	}
	if p.MustChange {
		me.MustChangePassword = &p.MustChange
	}
	// A policy that cannot be read says so where it is asked; who somebody is can be told without it.
	if purposes, err := s.deps.Guard.Purposes(p.Tenant, p.Project); err == nil && len(purposes) > 0 {
		me.Purposes = &purposes
	}
	slices.Sort(me.Permissions)
	duties, err := s.deps.Identity.Duties()
	if duties != "" {
		how := MeDuties(duties)
		me.Duties = &how
	}
	s.reply(c, http.StatusOK, me, err)
}
