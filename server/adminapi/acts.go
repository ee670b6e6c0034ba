package adminapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// Operations that the document marks x-second-person are grave. While the duties of administrators are separated, each needs the approval of a
// second person:
//
//  1. The asker sends the request with the header X-Sluice-Approval: request and the reason, URL-encoded, in X-Sluice-Reason. It is checked as if
//     it were done, and answered with 202 and the approval that now waits.
//  2. Somebody with the permission approvals.give approves it within a day, or declines it.
//  3. The asker sends the same request with the id of the approval in X-Sluice-Approval. Only the passwords in it may differ.
//
// An approval is spent before the act and given back if the act is refused, so that it never permits two.
const (
	approvalHeader  = "X-Sluice-Approval"
	reasonHeader    = "X-Sluice-Reason"
	requestApproval = "request"

	maxActReason = 1024     // bytes
	maxActBody   = 64 << 10 // of what an approver has to read
)

// act is a management call as its approver reads it.
type act struct {
	Operation string              `json:"operation"`
	Method    string              `json:"method"`
	Path      string              `json:"path"`
	Query     map[string][]string `json:"query,omitempty"`
	Body      json.RawMessage     `json:"body,omitempty"` // without passwords
}

// secondPerson lets an act go on, for which it returns what takes the approval back; or answers the request itself, and returns nil.
func (s *Server) secondPerson(c *gin.Context, op operation, who identity.Principal, tenant string, body []byte) (refused func()) {
	duties, err := s.deps.Identity.Duties()
	if err != nil {
		s.Fail(c, err)
		return nil
	}
	if who.Kind == identity.KindEmergency { // two custodians have opened it
		c.Set(keyApproval, map[string]string{"break_glass": who.ID})
		return func() {}
	}
	if duties == identity.DutiesMerged {
		c.Set(keyApproval, map[string]string{"duties": string(duties)})
		return func() {}
	}
	given := c.GetHeader(approvalHeader)
	if given == "" {
		s.failRecorded(c, op, who, who.Tenant, fault.New(fault.CodeActApproval))
		return nil
	}
	a, err := describeAct(c.Request, op, body)
	if err != nil {
		s.failRecorded(c, op, who, who.Tenant, err)
		return nil
	}
	if given == requestApproval {
		s.ask(c, op, who, tenant, a)
		return nil
	}
	return s.spend(c, op, who, a, given)
}

// spend uses the approval that a request names.
func (s *Server) spend(c *gin.Context, op operation, who identity.Principal, a act, id string) (refused func()) {
	book := s.deps.Guard.Approvals()
	got, err := book.SpendNow(c.Request.Context(), approval.KindAct, truncate(id, maxResource), a.digest(who))
	if err != nil {
		s.failRecorded(c, op, who, who.Tenant, err)
		return nil
	}
	c.Set(keyApproval, map[string]string{"approval": got.ID, "approved_by": truncate(got.ApprovedName, maxResource), "reason": truncate(got.Purpose, maxResource)})
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), auditDeadline)
		defer cancel()
		if err := book.Restore(ctx, approval.KindAct, got.ID); err != nil {
			s.log.WarnContext(ctx, "an approval stays spent whose act was refused", attr("approval", got.ID), attr("error", err.Error()))
		}
	}
}

// ask stores the request for an approval of an act, between two records of its own.
func (s *Server) ask(c *gin.Context, op operation, who identity.Principal, tenant string, a act) {
	reason, err := url.QueryUnescape(c.GetHeader(reasonHeader))
	switch reason = strings.TrimSpace(reason); {
	case err != nil || len(reason) > maxActReason:
		err = fault.New(fault.CodeInvalidValue, reasonHeader, fault.Say("adminapi.act_reason", maxActReason)).WithParam(reasonHeader)
	case reason == "":
		err = fault.New(fault.CodeMissing, reasonHeader).WithParam(reasonHeader)
	}
	if err != nil {
		s.failRecorded(c, op, who, who.Tenant, err)
		return
	}
	asking := op
	asking.id = "requestApproval"
	s.act(c, asking, who, tenant, func() {
		out, err := s.askNow(c.Request.Context(), approval.Approval{
			Tenant: tenant, Kind: approval.KindAct, Target: op.id, Purpose: reason, AskedBy: who.ID, AskedName: who.Name,
		}, a, who)
		about(c, out.ID, map[string]string{"operation": op.id, "reason": truncate(reason, maxResource)})
		view, verr := actView(out)
		if err == nil {
			err = verr
		}
		s.reply(c, http.StatusAccepted, view, err)
	})
	c.Abort()
}

func (s *Server) askNow(ctx context.Context, want approval.Approval, a act, who identity.Principal) (approval.Approval, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return approval.Approval{}, fmt.Errorf("describe the act: %w", err)
	}
	want.Act = string(raw)
	book := s.deps.Guard.Approvals()
	if want, err = book.New(want); err == nil {
		err = book.AskNow(ctx, want, a.digest(who))
	}
	return want, err
}

// digest binds an approval to an act and its asker.
func (a act) digest(who identity.Principal) string {
	raw, _ := json.Marshal([]any{a, who.ID}) // of strings and of JSON
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// describeAct says what a request does, in a form that is the same for the same act: members sorted, numbers as written, no passwords.
func describeAct(r *http.Request, op operation, body []byte) (act, error) {
	if len(body) > maxActBody {
		return act{}, fault.New(fault.CodeBodyTooLarge, maxActBody)
	}
	a := act{Operation: op.id, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query()}
	if len(body) == 0 {
		return a, nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return act{}, fault.Wrap(err, fault.CodeInvalidJSON, d.InputOffset())
	}
	if media := op.op.RequestBody.Value.Content.Get("application/json"); media != nil {
		v = withoutPasswords(v, media.Schema.Value)
	}
	raw, err := json.Marshal(v)
	a.Body = raw
	return a, err
}

// withoutPasswords leaves out what a schema calls a password: an approver decides about an account and not about its password.
func withoutPasswords(v any, schema *openapi3.Schema) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := maps.Clone(fields)
	for name, property := range schema.Properties {
		if property.Value == nil {
			continue
		}
		if property.Value.Format == "password" {
			delete(out, name)
		} else if inner, there := out[name]; there {
			out[name] = withoutPasswords(inner, property.Value)
		}
	}
	return out
}

// ListActApprovals implements GET /approvals.
func (s *Server) ListActApprovals(c *gin.Context, params ListActApprovalsParams) {
	who, tenant := caller(c), tenantOf(c)
	gives := s.deps.Access.Allow(who, access.ApprovalsGive, tenant) == nil
	if params.Tenant == nil && s.spans(c, access.ApprovalsGive) == nil {
		tenant = approval.EveryTenant
	}
	all, err := s.deps.Guard.Approvals().List(c.Request.Context(), approval.KindAct, tenant)
	out := ActApprovalList{Items: []ActApproval{}}
	for _, a := range all {
		if !gives && a.AskedBy != who.ID {
			continue
		}
		view, verr := actView(a)
		if err == nil {
			err = verr
		}
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

// ApproveAct implements POST /approvals/{id}/approve.
func (s *Server) ApproveAct(c *gin.Context, id IdPath, _ ApproveActParams) {
	a, err := s.deps.Guard.Approvals().Approve(c.Request.Context(), approval.KindAct, tenantOf(c), id, caller(c))
	s.replyAct(c, a, err)
}

// DeclineAct implements POST /approvals/{id}/decline.
func (s *Server) DeclineAct(c *gin.Context, id IdPath, _ DeclineActParams) {
	a, err := s.decline(c, approval.KindAct, id)
	s.replyAct(c, a, err)
}

func (s *Server) replyAct(c *gin.Context, a approval.Approval, err error) {
	if err != nil {
		s.Fail(c, err)
		return
	}
	view, err := actView(a)
	s.reply(c, http.StatusOK, view, err)
}

func actView(a approval.Approval) (ActApproval, error) {
	out := ActApproval{
		Id: a.ID, Tenant: a.Tenant, Reason: a.Purpose, AskedBy: a.AskedName, CreatedAt: a.Created, ExpiresAt: a.Expires,
		ApprovedBy: optional(a.ApprovedName), ApprovedAt: optionalTime(a.Approved), UsedAt: optionalTime(a.Used),
		DeclinedBy: optional(a.DeclinedName), DeclinedAt: optionalTime(a.Declined), DeclineReason: optional(a.Reason),
	}
	if a.Act == "" {
		return out, nil // it was refused before there was one
	}
	var what act
	if err := json.Unmarshal([]byte(a.Act), &what); err != nil {
		return out, fmt.Errorf("read the act of approval %s: %w", a.ID, err)
	}
	out.Operation, out.Method, out.Path = what.Operation, what.Method, strings.TrimPrefix(what.Path, Prefix)
	for _, name := range slices.Sorted(maps.Keys(what.Query)) {
		out.Query = append(out.Query, name+"="+strings.Join(what.Query[name], ","))
	}
	out.Query = list(out.Query)
	if len(what.Body) > 0 {
		out.Body = &what.Body
	}
	return out, nil
}

// noteApproval adds to a record how its act was permitted.
func noteApproval(c *gin.Context, e *audit.Event) {
	v, ok := c.Get(keyApproval)
	if !ok {
		return
	}
	how, _ := v.(map[string]string)
	detail := maps.Clone(e.Detail)
	if detail == nil {
		detail = map[string]string{}
	}
	maps.Copy(detail, how)
	e.Detail = detail
}
