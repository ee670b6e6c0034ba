package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/server/erasure"
)

// actor is the caller as records of erasures and approvals name him.
func actor(c *gin.Context) audit.Actor {
	by := caller(c)
	return audit.Actor{Kind: "user", ID: by.ID, Name: by.Name}
}

// subject is the digest of the person whom a request names in one of two ways.
func (s *Server) subject(c *gin.Context, subject, digest *string) (string, error) {
	if (subject == nil) == (digest == nil) {
		return "", fault.New(fault.CodeInvalidValue, "subject", fault.Say("adminapi.subject_or_digest")).WithParam("subject")
	}
	if subject != nil {
		return s.deps.Audit.Subject(tenantOf(c), *subject), nil
	}
	return *digest, nil
}

// erasing is what a request would have erased: a person, or the values of a conversation. The record names it by digest.
func (s *Server) erasing(c *gin.Context, subject, digest, session, request *string) (t erasure.Target, err error) {
	t.Tenant = tenantOf(c)
	if session == nil && request == nil {
		t.Subject, err = s.subject(c, subject, digest)
		about(c, t.Subject, nil)
		return t, err
	}
	if subject != nil || digest != nil {
		return t, fault.New(fault.CodeInvalidValue, "session", fault.Say("adminapi.person_or_conversation")).WithParam("session")
	}
	values, err := s.valuesOf(c, session, request)
	about(c, s.revealTarget(values, deref(request)), nil)
	t.Conversation = &values
	return t, err
}

// EraseSubject implements POST /audit/erasures. The record of the act names the digest and never the person.
func (s *Server) EraseSubject(c *gin.Context) {
	in, err := decode[NewErasure](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	t, err := s.erasing(c, in.Subject, in.Digest, nil, nil)
	if err != nil {
		s.Fail(c, err)
		return
	}
	done, err := s.erase(c, t, in.Approval)
	about(c, t.Subject, done.Detail()) // also of one that is not complete
	s.reply(c, http.StatusCreated, ErasureDone(done), err)
}

// erase goes on when the caller has left: half done helps nobody.
func (s *Server) erase(c *gin.Context, t erasure.Target, approval *string) (erasure.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), erasure.Deadline)
	defer cancel()
	return s.deps.Eraser.Erase(ctx, t, deref(approval), actor(c))
}

// EraseValues implements POST /reveal/erasures. Its first record, which says whom it passes with whose approval, is durable before anything is
// destroyed; that is why it writes its records itself.
func (s *Server) EraseValues(c *gin.Context) {
	in, err := decode[ValueErasure](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	target, err := s.valuesOf(c, in.Session, in.Request)
	t := erasure.Target{Tenant: tenantOf(c), Conversation: &target}
	var past *erasure.Override
	if err == nil {
		past, err = s.deps.Eraser.CheckOverride(c.Request.Context(), t, deref(in.Approval), actor(c))
	}
	about(c, s.revealTarget(target, deref(in.Request)), past.Detail())
	op := s.operations[c.Request.Method+" "+c.FullPath()]
	s.act(c, op, caller(c), tenantOf(c), func() {
		var done erasure.Result
		if err == nil {
			done, err = s.erase(c, t, in.Approval)
		}
		if err == nil {
			d := map[string]string{"values": strconv.FormatInt(done.Gone.Values, 10), "stays": erasure.Codes(done.Stays)}
			maps.Copy(d, done.Override.Detail())
			about(c, resource(c), d)
		}
		s.reply(c, http.StatusOK, ErasedValues{Values: done.Gone.Values, Stays: staysView(done.Stays), Override: overrideView(done.Override)}, err)
	})
}

// PreviewErasure implements POST /audit/erasures/preview.
func (s *Server) PreviewErasure(c *gin.Context) {
	in, err := decode[ErasureTarget](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	t, err := s.erasing(c, in.Subject, in.Digest, in.Session, in.Request)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if wait := s.lookups.wait(caller(c).ID, s.now()); in.Subject != nil && wait > 0 { // it says whether somebody is known
		s.Fail(c, fault.New(fault.CodeRateLimited, fault.Say("level.caller"), lookupsPerMinute).WithRetryAfter(wait))
		return
	}
	p, err := s.deps.Eraser.Preview(c.Request.Context(), t, actor(c))
	s.reply(c, http.StatusOK, previewView(p, s.spans(c, access.AuditRead) == nil), err)
}

// RequestErasureApproval implements POST /audit/erasures/approvals.
func (s *Server) RequestErasureApproval(c *gin.Context) {
	in, err := decode[NewErasureApproval](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	t, err := s.erasing(c, in.Subject, in.Digest, in.Session, in.Request)
	if err != nil {
		s.Fail(c, err)
		return
	}
	target := resource(c)
	a, err := s.deps.Eraser.Request(c.Request.Context(), t, in.Reason, actor(c))
	if err == nil {
		about(c, a.ID, map[string]string{"reason": in.Reason, "target": target})
	}
	s.reply(c, http.StatusCreated, ErasureApprovalView(a), err)
}

// ListErasureApprovals implements GET /audit/erasures/approvals.
func (s *Server) ListErasureApprovals(c *gin.Context, _ ListErasureApprovalsParams) {
	all, err := s.deps.Guard.Approvals().List(c.Request.Context(), approval.KindErasure, tenantOf(c))
	out := ErasureApprovalList{Items: []ErasureApproval{}}
	for _, a := range all {
		out.Items = append(out.Items, ErasureApprovalView(a))
	}
	s.reply(c, http.StatusOK, out, err)
}

// ApproveErasure implements POST /audit/erasures/approvals/{id}/approve.
func (s *Server) ApproveErasure(c *gin.Context, id IdPath, _ ApproveErasureParams) {
	book, ctx := s.deps.Guard.Approvals(), c.Request.Context()
	a, err := book.Find(ctx, approval.KindErasure, tenantOf(c), id)
	if err == nil {
		err = s.mayPass(c, a)
	}
	if err == nil {
		a, err = book.Approve(ctx, approval.KindErasure, tenantOf(c), id, caller(c))
	}
	s.reply(c, http.StatusOK, ErasureApprovalView(a), err)
}

// mayPass refuses whoever could not place the holds that an erasure is to pass: one of all tenants is past the officers of one.
func (s *Server) mayPass(c *gin.Context, a approval.Approval) error {
	_, _, holds := erasure.DescribeApproval(a)
	spans, err := s.deps.Audit.SpanTenants(c.Request.Context(), holds)
	if err == nil && spans {
		err = s.spans(c, access.AuditHold)
	}
	return err
}

// spans returns nil if the caller has a permission in all tenants.
func (s *Server) spans(c *gin.Context, perm access.Permission) error {
	return s.deps.Access.Allow(caller(c), perm, access.AllTenants)
}

// DeclineErasure implements POST /audit/erasures/approvals/{id}/decline.
func (s *Server) DeclineErasure(c *gin.Context, id IdPath, _ DeclineErasureParams) {
	a, err := s.decline(c, approval.KindErasure, id)
	s.reply(c, http.StatusOK, ErasureApprovalView(a), err)
}

// decline declines an approval for the reason in the body, which the record keeps.
func (s *Server) decline(c *gin.Context, kind approval.Kind, id string) (approval.Approval, error) {
	in, err := decode[Reason](c)
	if err != nil {
		return approval.Approval{}, err
	}
	about(c, id, map[string]string{"reason": in.Reason})
	return s.deps.Guard.Approvals().Decline(c.Request.Context(), kind, tenantOf(c), id, in.Reason, caller(c))
}

// ListErasures implements GET /audit/erasures.
func (s *Server) ListErasures(c *gin.Context, _ ListErasuresParams) {
	list, err := s.deps.Audit.Erasures(c.Request.Context(), tenantOf(c))
	out := ErasureList{Items: []Erasure{}}
	for _, e := range list {
		out.Items = append(out.Items, erasureView(e))
	}
	s.reply(c, http.StatusOK, out, err)
}

// erasureView is an erasure as lists show it. How much was destroyed its record says.
func erasureView(e retention.Erasure) Erasure {
	return Erasure{Tenant: e.Tenant, Subject: e.Subject, Time: micros(e.Time), Record: e.Record, Certificate: optional(e.Certificate)}
}

// ErasureDone is what an erasure did, as the API and the command line show it.
func ErasureDone(r erasure.Result) Erasure {
	stays := staysView(r.Stays)
	return Erasure{
		Tenant: r.Tenant, Subject: r.Subject, Time: micros(r.Time), Record: r.Record, Certificate: optional(r.Certificate), Keys: &r.Gone.Keys, Contents: &r.Gone.Contents, Values: &r.Gone.Values,
		Conversations: &r.Gone.Conversations, Stays: &stays, Override: overrideView(r.Override),
	}
}

// ErasureOf is what ErasureDone shows, for whoever got it from a server.
func ErasureOf(e Erasure) erasure.Result {
	out := erasure.Result{
		Tenant: e.Tenant, Subject: e.Subject, Record: e.Record, Certificate: deref(e.Certificate), Time: e.Time.UnixMicro(),
		Gone: erasure.Figures{Keys: deref(e.Keys), Contents: deref(e.Contents), Values: deref(e.Values), Conversations: deref(e.Conversations)},
	}
	for _, s := range deref(e.Stays) {
		x := erasure.Remainder{Code: string(s.Code), Count: deref(s.Count)}
		if s.Until != nil {
			x.Until = s.Until.UnixMicro()
		}
		out.Stays = append(out.Stays, x)
	}
	if o := e.Override; o != nil {
		out.Override = &erasure.Override{Approval: o.Approval, ApprovedBy: o.ApprovedBy, Holds: o.Holds}
	}
	return out
}

// previewView is a preview as the API shows it: who holds what is of all tenants, and why, to whoever may read such holds.
func previewView(p erasure.Preview, all bool) ErasurePreview {
	return ErasurePreview{
		Tenant: p.Tenant, Subject: p.Subject, Goes: figuresView(p.Goes), Stays: staysView(p.Remainders), Holds: coveringView(p.Holds, all), Records: p.Records, Newest: optionalMicros(p.Newest),
	}
}

func figuresView(f erasure.Figures) ErasureFigures {
	return ErasureFigures{Keys: f.Keys, Contents: f.Contents, Values: f.Values, Conversations: f.Conversations}
}

func staysView(stays []erasure.Remainder) []ErasureStay {
	out := []ErasureStay{}
	for _, x := range stays {
		v := ErasureStay{Code: ErasureStayCode(x.Code), Until: optionalMicros(x.Until)}
		if x.Count > 0 {
			v.Count = &x.Count
		}
		out = append(out, v)
	}
	return out
}

func overrideView(o *erasure.Override) *ErasureOverride {
	if o == nil {
		return nil
	}
	return &ErasureOverride{Approval: o.Approval, ApprovedBy: o.ApprovedBy, Holds: list(o.Holds)}
}

// ErasureApprovalView is an approval of an erasure as the API and the command line show it.
func ErasureApprovalView(a approval.Approval) ErasureApproval {
	kind, goes, holds := erasure.DescribeApproval(a)
	return ErasureApproval{
		Id: a.ID, Tenant: a.Tenant, Kind: ErasureApprovalKind(kind), Target: a.Target, Reason: a.Purpose, Goes: figuresView(goes), Holds: list(holds), AskedBy: a.AskedName,
		CreatedAt: a.Created, ExpiresAt: a.Expires, ApprovedBy: optional(a.ApprovedName), ApprovedAt: optionalTime(a.Approved), UsedAt: optionalTime(a.Used),
		DeclinedBy: optional(a.DeclinedName), DeclinedAt: optionalTime(a.Declined), DeclineReason: optional(a.Reason),
	}
}

// WriteErasures writes erasures as JSON Lines, each as the API shows it.
func WriteErasures(w io.Writer, list []retention.Erasure) error {
	enc := json.NewEncoder(w)
	for _, e := range list {
		if err := enc.Encode(erasureView(e)); err != nil {
			return err
		}
	}
	return nil
}

// ParseErasures reads the tenants and persons of a list that [WriteErasures] wrote. An error names the line.
func ParseErasures(b []byte) (list []retention.Erasure, err error) {
	digest := regexp.MustCompile(`^[0-9a-f]{64}$`)
	n := 0
	for line := range bytes.Lines(b) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		e, err := strictjson.Decode[Erasure](line)
		if err == nil && (e.Tenant == "" || !digest.MatchString(e.Subject)) {
			err = errors.New("tenant or subject is missing; subject is the digest that --list prints")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the list of erasures: %w", n, err)
		}
		list = append(list, retention.Erasure{Tenant: e.Tenant, Subject: e.Subject})
	}
	return list, nil
}
