package adminapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/governance/reveal"
	"github.com/sluice-project/sluice/internal/fault"
)

// actionSweep is the record of an alarm: somebody looks at the values of unusually many conversations.
const actionSweep = "governance.reveal_sweep"

// Reveal implements POST /reveal. Its first record, which says what is about to be shown, is durable before anything is; that is why it
// writes its records itself.
func (s *Server) Reveal(c *gin.Context) {
	in, err := decode[RevealRequest](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{"purpose": in.Purpose}
	ask, err := s.revealAsk(c, in)
	about(c, s.revealTarget(ask.Target, deref(in.Request)), detail)
	var got reveal.Result
	if err == nil {
		got, err = s.deps.Guard.Reveals().Reveal(c.Request.Context(), ask)
	}
	if err == nil {
		describe(detail, got)
		err = s.alarm(c, got)
	}
	op := s.operations[c.Request.Method+" "+c.FullPath()]
	s.act(c, op, caller(c), tenantOf(c), func() {
		s.reply(c, http.StatusOK, revealAnswer(got, in.Text != nil), err)
	})
}

// describe adds what is shown, by class, of which pseudonyms, and the approval that it spent. Codes say nothing outside their conversation.
func describe(detail map[string]string, got reveal.Result) {
	counts := got.Counts()
	shown := make([]string, 0, len(counts))
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		shown = append(shown, fmt.Sprintf("%s %d", what, counts[what]))
	}
	detail["shown"] = strings.Join(shown, ", ")
	codes := map[reveal.Visibility][]string{}
	for _, v := range got.Values {
		if v.Visibility == reveal.VisibleClear || v.Visibility == reveal.VisiblePartial {
			codes[v.Visibility] = append(codes[v.Visibility], v.Code)
		}
	}
	for show, list := range codes {
		detail["codes_"+string(show)] = strings.Join(list, " ")
	}
	if got.Approval != "" {
		detail["approval"] = got.Approval
	}
}

// alarm records that a reveal was one too many.
func (s *Server) alarm(c *gin.Context, got reveal.Result) error {
	if !got.Alarm {
		return nil
	}
	p := caller(c)
	s.deps.RevealSweep(c.Request.Context(), tenantOf(c), got.Sessions)
	_, err := s.deps.Audit.Append(c.Request.Context(), audit.Event{
		Request: c.GetString(KeyRequestID), Stage: audit.StageAction, Tenant: tenantOf(c), Actor: audit.Actor{Kind: p.Kind, ID: p.ID, Name: p.Name},
		Source: c.ClientIP(), Action: actionSweep, Dialect: "admin", Resource: resource(c), Decision: "allow", Outcome: "ok",
		Detail: map[string]string{"sessions": strconv.Itoa(got.Sessions)},
	})
	return err
}

// revealAsk reads what a request wants to see.
func (s *Server) revealAsk(c *gin.Context, in RevealRequest) (reveal.Request, error) {
	ask := reveal.Request{
		Principal: caller(c), Target: pseudonym.Target{Tenant: tenantOf(c)}, Purpose: in.Purpose, Text: deref(in.Text), Tokens: deref(in.Tokens), Approval: deref(in.Approval),
	}
	if (in.Text == nil) == (in.Tokens == nil) {
		return ask, fault.New(fault.CodeInvalidValue, "text", fault.Say("adminapi.text_or_tokens")).WithParam("text")
	}
	var err error
	ask.Target, err = s.valuesOf(c, in.Session, in.Request)
	return ask, err
}

// valuesOf finds where the values of a conversation or of a request are kept. The record of a request names its conversation.
func (s *Server) valuesOf(c *gin.Context, session, request *string) (pseudonym.Target, error) {
	t := pseudonym.Target{Tenant: tenantOf(c), Name: deref(session)}
	if (session == nil) == (request == nil) {
		return t, fault.New(fault.CodeInvalidValue, "session", fault.Say("adminapi.session_or_request")).WithParam("session")
	}
	if session != nil {
		return t, nil
	}
	found, err := s.deps.Audit.Search(c.Request.Context(), search.Query{Tenant: t.Tenant, Request: *request, Limit: 1})
	if err == nil && len(found.Events) == 0 {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.request"), truncate(*request, maxResource))
	}
	if err != nil {
		return t, err
	}
	t.Scopes = governance.RequestScopes(found.Events[0].Session, *request)
	return t, nil
}

// revealTarget is how records name what somebody wants to see values of: the id of the request, or a digest of the conversation's name.
func (s *Server) revealTarget(t pseudonym.Target, request string) string {
	if request != "" {
		return "request/" + truncate(request, maxResource)
	}
	if t.Name == "" {
		return ""
	}
	return "session/" + s.deps.Guard.Reveals().Target(t)
}

func revealAnswer(got reveal.Result, text bool) RevealAnswer {
	out := RevealAnswer{Values: []RevealedValue{}}
	if text {
		t := got.Text.Reveal()
		out.Text = &t
	}
	for _, v := range got.Values {
		x := RevealedValue{Token: v.Token, Class: optional(v.Class), Shown: RevealedValueShown(v.Visibility), Value: optional(v.Text.Reveal())}
		if v.Class != "" {
			grade := v.Grade
			x.Grade = &grade
		}
		out.Values = append(out.Values, x)
	}
	return out
}

// ListRevealPurposes implements GET /reveal/purposes.
func (s *Server) ListRevealPurposes(c *gin.Context, _ ListRevealPurposesParams) {
	all, err := s.deps.Guard.RevealPurposes(tenantOf(c), caller(c).Roles)
	s.reply(c, http.StatusOK, RevealPurposes{Items: list(all)}, err)
}

// RequestRevealApproval implements POST /reveal/approvals.
func (s *Server) RequestRevealApproval(c *gin.Context) {
	in, err := decode[RevealRequest](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	ask, err := s.revealAsk(c, in)
	about(c, s.revealTarget(ask.Target, deref(in.Request)), map[string]string{"purpose": in.Purpose})
	if err != nil {
		s.Fail(c, err)
		return
	}
	a, err := s.deps.Guard.Reveals().RequestApproval(c.Request.Context(), ask)
	if err == nil {
		about(c, a.ID, map[string]string{"purpose": in.Purpose, "target": s.revealTarget(ask.Target, deref(in.Request))})
	}
	s.reply(c, http.StatusCreated, approvalView(a), err)
}

// ListRevealApprovals implements GET /reveal/approvals.
func (s *Server) ListRevealApprovals(c *gin.Context, _ ListRevealApprovalsParams) {
	all, err := s.deps.Guard.Approvals().List(c.Request.Context(), approval.KindReveal, tenantOf(c))
	who := caller(c)
	whole := s.deps.Access.Allow(who, access.MaskingApprove, tenantOf(c)) == nil
	out := RevealApprovalList{Items: []RevealApproval{}}
	for _, a := range all {
		if whole || a.AskedBy == who.ID {
			out.Items = append(out.Items, approvalView(a))
		}
	}
	s.reply(c, http.StatusOK, out, err)
}

// ApproveReveal implements POST /reveal/approvals/{id}/approve.
func (s *Server) ApproveReveal(c *gin.Context, id IdPath, _ ApproveRevealParams) {
	a, err := s.deps.Guard.Approvals().Approve(c.Request.Context(), approval.KindReveal, tenantOf(c), id, caller(c))
	s.reply(c, http.StatusOK, approvalView(a), err)
}

// DeclineReveal implements POST /reveal/approvals/{id}/decline.
func (s *Server) DeclineReveal(c *gin.Context, id IdPath, _ DeclineRevealParams) {
	a, err := s.decline(c, approval.KindReveal, id)
	s.reply(c, http.StatusOK, approvalView(a), err)
}

func approvalView(a approval.Approval) RevealApproval {
	out := RevealApproval{
		Id: a.ID, Tenant: a.Tenant, Target: a.Target, Purpose: a.Purpose, Shown: []RevealCount{}, AskedBy: a.AskedName, CreatedAt: a.Created, ExpiresAt: a.Expires,
		ApprovedBy: optional(a.ApprovedName), ApprovedAt: optionalTime(a.Approved), UsedAt: optionalTime(a.Used),
		DeclinedBy: optional(a.DeclinedName), DeclinedAt: optionalTime(a.Declined), DeclineReason: optional(a.Reason),
	}
	for _, what := range slices.Sorted(maps.Keys(a.Counts)) {
		class, shown, _ := strings.Cut(what, "/")
		n := RevealCount{Shown: RevealCountShown(shown), Count: a.Counts[what]}
		if shown != string(reveal.VisibleUnknown) {
			n.Class = &class
		}
		out.Shown = append(out.Shown, n)
	}
	return out
}
