package adminapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// login signs in with what a request shows beside the password.
func (s *Server) login(c *gin.Context, in LoginRequest) (identity.Session, error) {
	if in.Assertion == nil {
		return s.deps.Identity.Login(c.Request.Context(), in.User, in.Password, deref(in.Code), c.ClientIP())
	}
	if in.Code != nil {
		return identity.Session{}, oneProof()
	}
	signed, err := json.Marshal(in.Assertion)
	if err != nil {
		return identity.Session{}, fmt.Errorf("read an assertion: %w", err)
	}
	return s.deps.Identity.LoginWithKey(c.Request.Context(), in.User, in.Password, signed, c.ClientIP())
}

func oneProof() error {
	return fault.New(fault.CodeInvalidValue, "assertion", fault.Say("value.code_or_assertion")).WithParam("assertion")
}

// nameFactors adds to a problem what the account of a right password can show.
func nameFactors(p *Problem, err error) {
	var wanted identity.FactorsWanted
	if !errors.As(err, &wanted) {
		return
	}
	kinds := []ProblemSecondFactors{}
	for _, k := range wanted.Kinds {
		kinds = append(kinds, ProblemSecondFactors(k))
	}
	p.SecondFactors = &kinds
	var options WebauthnOptions
	if wanted.Key != nil && json.Unmarshal(wanted.Key, &options) == nil {
		p.Webauthn = &options
	}
}

// secondFactor says how the caller stands with second factors.
func (s *Server) secondFactor(c *gin.Context, p identity.Principal) *SecondFactor {
	out := &SecondFactor{
		Available: s.deps.Identity.MayEnrol(p), Enrolled: p.SecondFactor, MustEnrol: p.MustEnrol, ShownAt: optionalTime(p.FactorAt),
	}
	origins, off := s.deps.Identity.SecurityKeys(p)
	if off != nil {
		why := off.In(language(c.GetHeader("Accept-Language")))
		out.KeysOff = &why
		return out
	}
	out.KeyOrigins = &origins
	return out
}

// options answers with what a browser is to do with a security key.
func (s *Server) options(c *gin.Context, status int, raw json.RawMessage, err error) {
	var out WebauthnOptions
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	s.reply(c, status, out, err)
}

// StartWebauthn implements POST /me/second-factor/webauthn.
func (s *Server) StartWebauthn(c *gin.Context) {
	about(c, caller(c).ID, nil)
	if err := s.deps.Guard.Approvals().RequireFreshSignIn(caller(c)); err != nil {
		s.Fail(c, err)
		return
	}
	made, err := s.deps.Identity.StartKey(c.Request.Context(), caller(c))
	s.options(c, http.StatusCreated, made, err)
}

// ConfirmWebauthn implements POST /me/second-factor/webauthn/confirm.
func (s *Server) ConfirmWebauthn(c *gin.Context) {
	in, err := decode[NewSecurityKey](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, caller(c).ID, nil)
	made, err := json.Marshal(in.Attestation)
	if err != nil {
		s.Fail(c, fmt.Errorf("read an attestation: %w", err))
		return
	}
	codes, session, err := s.deps.Identity.ConfirmKey(c.Request.Context(), caller(c), in.Name, made)
	noteFactor(c, session)
	s.reply(c, http.StatusOK, ConfirmedFactor{RecoveryCodes: list(codes), Session: sessionView(session)}, err)
}

// AskSecurityKey implements POST /me/second-factor/webauthn/challenge.
func (s *Server) AskSecurityKey(c *gin.Context) {
	asked, err := s.deps.Identity.AskKey(c.Request.Context(), caller(c))
	s.options(c, http.StatusOK, asked, err)
}

// ShowSecondFactor implements POST /me/second-factor/show.
func (s *Server) ShowSecondFactor(c *gin.Context) {
	in, err := decode[FactorProof](c)
	if err == nil && (in.Code == nil) == (in.Assertion == nil) {
		err = oneProof()
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, caller(c).ID, nil)
	session, err := s.show(c, in)
	noteFactor(c, session)
	s.reply(c, http.StatusOK, sessionView(session), err)
}

func (s *Server) show(c *gin.Context, in FactorProof) (identity.Session, error) {
	if in.Code != nil {
		return s.deps.Identity.ShowFactor(c.Request.Context(), caller(c), *in.Code, c.ClientIP())
	}
	signed, err := json.Marshal(in.Assertion)
	if err != nil {
		return identity.Session{}, fmt.Errorf("read an assertion: %w", err)
	}
	return s.deps.Identity.ShowKey(c.Request.Context(), caller(c), signed, c.ClientIP())
}

// ListSecondFactors implements GET /me/second-factors.
func (s *Server) ListSecondFactors(c *gin.Context) {
	if caller(c).Kind != "user" {
		s.Fail(c, fault.New(fault.CodeKeyScope))
		return
	}
	found, err := s.deps.Identity.Factors(c.Request.Context(), caller(c))
	out := FactorList{Items: []Factor{}}
	for _, f := range found {
		out.Items = append(out.Items, Factor{
			Id: f.ID, Kind: FactorKind(f.Kind), Name: f.Name, CreatedAt: f.Created, LastUsedAt: optionalTime(f.LastUsed), SignCount: f.SignCount, BackedUp: f.BackedUp,
			SuspectSince: optionalTime(f.Suspect),
		})
	}
	s.reply(c, http.StatusOK, out, err)
}

// RemoveOneSecondFactor implements DELETE /me/second-factors/{id}.
func (s *Server) RemoveOneSecondFactor(c *gin.Context, id IdPath) {
	about(c, caller(c).ID+"/"+truncate(id, maxResource), nil)
	err := s.deps.Guard.Approvals().RequireFreshSignIn(caller(c))
	if err == nil {
		err = s.deps.Identity.RemoveOneFactor(c.Request.Context(), caller(c), id)
	}
	s.reply(c, http.StatusNoContent, nil, err)
}
