package adminapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListInvitations implements GET /invitations.
func (s *Server) ListInvitations(c *gin.Context, params ListInvitationsParams) {
	all, err := s.deps.Identity.ListInvitations(c.Request.Context(), tenantOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(all, params.Cursor, params.Limit)
	out := InvitationPage{Items: []Invitation{}, Next: next}
	for _, i := range part {
		out.Items = append(out.Items, s.invitationView(i))
	}
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) invitationView(i identity.Invitation) Invitation {
	return Invitation{
		Id: i.ID, Tenant: i.Tenant, Name: i.Name, Roles: list(i.Roles), Labels: list(i.Labels), State: s.invitationState(i), CreatedAt: i.CreatedAt.UTC(),
		CreatedBy: s.person(i.CreatedBy), ExpiresAt: i.ExpiresAt.UTC(), AcceptedAt: optionalTime(i.AcceptedAt), User: optional(i.User),
	}
}

func (s *Server) invitationState(i identity.Invitation) InvitationState {
	switch {
	case !i.AcceptedAt.IsZero():
		return InvitationState("accepted")
	case !i.WithdrawnAt.IsZero():
		return InvitationState("withdrawn")
	case !i.ExpiresAt.After(s.now()):
		return InvitationState("expired")
	}
	return InvitationState("open")
}

// InviteUser implements POST /invitations.
func (s *Server) InviteUser(c *gin.Context) {
	in, err := decode[NewInvitation](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	made, token, err := s.deps.Identity.Invite(c.Request.Context(), s.changer(c), identity.NewInvitation{
		Tenant: tenantOf(c), Name: in.Name, Roles: in.Roles, Labels: deref(in.Labels),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, made.ID, map[string]string{"account": made.Name, "roles": strings.Join(made.Roles, ",")})
	// Browsers send nobody what stands behind the #, so that no log of a proxy has it.
	s.reply(c, http.StatusCreated, CreatedInvitation{Invitation: s.invitationView(made), Token: token, Url: s.deps.ConsoleURL(c.Request) + "invitation#" + token}, nil)
}

// WithdrawInvitation implements POST /invitations/{id}/withdraw.
func (s *Server) WithdrawInvitation(c *gin.Context, id IdPath, _ WithdrawInvitationParams) {
	i, err := s.deps.Identity.WithdrawInvitation(c.Request.Context(), s.changer(c), tenantOf(c), id)
	s.reply(c, http.StatusOK, s.invitationView(i), err)
}

// ShowInvitation implements POST /invitations/show.
func (s *Server) ShowInvitation(c *gin.Context) {
	in, err := decode[InvitationToken](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	i, err := s.deps.Identity.Invited(c.Request.Context(), in.Token, c.ClientIP())
	s.reply(c, http.StatusOK, OpenInvitation{
		Name: i.Name, Tenant: i.Tenant, Roles: list(i.Roles), InvitedBy: s.deps.Identity.NameOf(i.CreatedBy), ExpiresAt: i.ExpiresAt.UTC(),
	}, err)
}

// acceptRecorded accepts an invitation between two records, in the tenant of the account that comes about. Tokens that cannot be accepted leave none.
func (s *Server) acceptRecorded(c *gin.Context, op operation, body []byte) {
	var in InvitationAcceptance
	if err := json.Unmarshal(body, &in); err != nil {
		s.Fail(c, fault.Wrap(err, fault.CodeInvalidJSON, 0))
		return
	}
	i, err := s.deps.Identity.Invited(c.Request.Context(), in.Token, c.ClientIP())
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, i.ID, map[string]string{"roles": strings.Join(i.Roles, ","), "invited_by": i.CreatedBy})
	s.act(c, op, identity.Principal{Kind: "user", Tenant: i.Tenant, Name: i.Name}, i.Tenant, c.Next)
}

// AcceptInvitation implements POST /invitations/accept.
func (s *Server) AcceptInvitation(c *gin.Context) {
	in, err := decode[InvitationAcceptance](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	may := func(inviter identity.Principal, tenant string) error {
		return s.deps.Access.Allow(inviter, access.UsersWrite, tenant)
	}
	u, err := s.deps.Identity.Accept(c.Request.Context(), in.Token, in.Password, c.ClientIP(), may)
	if err == nil {
		about(c, u.ID, nil)
	}
	s.reply(c, http.StatusCreated, AcceptedInvitation{Name: u.Name, Tenant: u.Tenant, Roles: list(u.Roles)}, err)
}
