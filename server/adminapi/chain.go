package adminapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

// Keys of values in the gin context. KeyRequestID is set by the HTTP edge before this package sees a request.
const (
	KeyRequestID = "request_id"
	keyOperation = "admin.operation"
	keyPrincipal = "admin.principal"
	keyTenant    = "admin.tenant"
	keyOwn       = "admin.own" // the caller acts on what is his own only
	keyFailure   = "admin.failure"
	keyResource  = "admin.resource"
	keyDetail    = "admin.detail"
	keyApproval  = "admin.approval" // how a grave act was permitted
)

// auditDeadline bounds an append after the client may have gone.
const auditDeadline = 10 * time.Second

// chain is the middleware every operation passes; see the package comment for the order.
func (s *Server) chain(c *gin.Context) {
	defer s.panicked(c)
	op, ok := s.operations[c.Request.Method+" "+c.FullPath()]
	if !ok {
		s.Fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.path"), truncate(c.Request.URL.Path, maxResource)))
		return
	}
	c.Set(keyOperation, op.id)
	c.Header("Cache-Control", "no-store")

	principal, err := s.authenticate(c, op)
	if err == nil {
		err = op.refusesKind(principal.Kind)
	}
	if err != nil && principal.ID != "" {
		s.failRecorded(c, op, principal, principal.Tenant, err)
		return
	}
	if err != nil {
		hangUp(c)
		s.Fail(c, err)
		return
	}
	c.Set(keyPrincipal, principal)

	// Who may not act is refused before his body is read, unless it is the body that names the tenant.
	if tenant := cmp.Or(op.everyTenant(c.Query("organisation")), c.Query("tenant"), principal.Tenant); !op.public && !op.namesTenant && !s.mayAct(c, op, principal, tenant) {
		return
	}
	body, release, err := s.readBody(c, op, principal)
	defer release()
	if err != nil {
		s.Fail(c, err)
		return
	}
	if op.public {
		s.public(c, op, body)
		return
	}
	if op.namesTenant && !s.mayAct(c, op, principal, cmp.Or(requestedTenant(c, op, body), principal.Tenant)) {
		return
	}
	tenant := c.GetString(keyTenant)
	if s.deps.RAG == nil && strings.HasPrefix(op.path, "/rag/") {
		s.Fail(c, fault.New(fault.CodeRetrievalOff))
		return
	}
	if err := s.validate(c, op, body); err != nil {
		s.Fail(c, err)
		return
	}
	if op.wantsFactor(principal) {
		if err := s.deps.Guard.Approvals().RequireFreshSignIn(principal); err != nil {
			s.failRecorded(c, op, principal, principal.Tenant, err)
			return
		}
	}
	if !op.recorded || op.late {
		c.Next()
		return
	}
	refused := func() {}
	if op.secondPerson {
		if refused = s.secondPerson(c, op, principal, tenant, body); refused == nil {
			return
		}
	}
	s.act(c, op, principal, tenant, c.Next)
	if f, failed := c.Get(keyFailure); failed {
		if public, _ := f.(*fault.Error); outcome(public) == "refused" {
			refused()
		}
	}
}

// refusesKind says what callers of a kind do not do here: keys only read, and what is grave is asked for by somebody, of somebody else; and batches here are a
// person's own: those of programs are made, and read, on the other plane.
func (op operation) refusesKind(kind string) error {
	switch {
	case kind == "key" && op.method != http.MethodGet:
		return fault.New(fault.CodeKeyScope)
	case kind == "service" && (op.secondPerson || op.permission == access.BatchesUse):
		return fault.New(fault.CodeNeedsPerson)
	}
	return nil
}

// wantsFactor reports whether the second factor of somebody is to have been shown a short time ago. Whoever has shown one at his provider shows it again there.
func (op operation) wantsFactor(p identity.Principal) bool {
	return op.stepUp && (p.SecondFactor || p.Provider != "" && p.Factor != "")
}

// refusesBefore says what somebody has to do before this.
func (op operation) refusesBefore(p identity.Principal) error {
	switch {
	case p.MustChange && op.id != "getMe" && op.id != "changePassword":
		return fault.New(fault.CodeChangePassword)
	case p.MustEnrol && !slices.Contains([]string{"getMe", "changePassword", "startTotp", "confirmTotp", "startWebauthn", "confirmWebauthn"}, op.id):
		return fault.New(fault.CodeEnrolFactor)
	}
	return nil
}

// mayAct reports whether the caller may do the operation in a tenant, and remembers the tenant; else it has refused.
func (s *Server) mayAct(c *gin.Context, op operation, p identity.Principal, tenant string) bool {
	c.Set(keyTenant, tenant)
	err := op.refusesBefore(p)
	switch {
	case err != nil:
	case p.Kind == identity.KindEmergency && !op.breakGlass:
		err = fault.New(fault.CodeNotAllowed, cmp.Or(string(op.permission), op.id))
	case op.permission == "":
	default:
		if err = s.permit(c, op, p, tenant); err == nil {
			err = s.requireOpen(op, tenant)
		} else {
			// A refused act is evidence too. It belongs to the log of whoever tried: nobody writes into that of a tenant where he
			// may do nothing.
			c.Set(keyDetail, map[string]string{"tenant": truncate(tenant, maxTenant)})
		}
	}
	if err != nil {
		if !op.namesTenant {
			hangUp(c)
		}
		s.failRecorded(c, op, p, p.Tenant, err)
	}
	return err == nil
}

// hangUp closes the connection of a caller whose body is not read, if he sends one.
func hangUp(c *gin.Context) {
	if c.Request.ContentLength != 0 {
		inflight.HangUp(c.Writer, c.Request)
	}
}

// permit checks the permission of an operation, or that for what is the caller's own, which binds the operation to it.
func (s *Server) permit(c *gin.Context, op operation, p identity.Principal, tenant string) error {
	err := s.deps.Access.Allow(p, op.permission, tenant)
	if err != nil && op.own != "" && s.deps.Access.Allow(p, op.own, tenant) == nil {
		c.Set(keyOwn, true)
		return nil
	}
	return err
}

// public serves an operation that needs no session. Strangers must not be able to fill the audit log: a throttled sign-in and the
// end of a session that does not exist leave no record. The others are recorded in the tenant of the account.
func (s *Server) public(c *gin.Context, op operation, body []byte) {
	if err := s.validate(c, op, body); err != nil {
		s.Fail(c, err)
		return
	}
	switch op.id {
	case "login":
		var in LoginRequest
		if err := json.Unmarshal(body, &in); err != nil {
			s.Fail(c, fault.Wrap(err, fault.CodeInvalidJSON, 0))
			return
		}
		if wait := s.deps.Identity.LoginWait(in.User, c.ClientIP()); wait > 0 {
			s.Fail(c, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait))
			return
		}
		p := s.deps.Identity.Claimed(in.User)
		c.Set(keyResource, p.ID)
		s.act(c, op, p, p.Tenant, c.Next)
	case "acceptInvitation":
		s.acceptRecorded(c, op, body)
	case "openBreakGlass":
		if !s.deps.Identity.BreakGlassEnabled() {
			c.Next() // it refuses, and there is nothing to guess
			return
		}
		if wait := s.deps.Identity.EmergencyWait(c.ClientIP()); wait > 0 {
			s.Fail(c, fault.New(fault.CodeLoginThrottled).WithRetryAfter(wait))
			return
		}
		p := s.deps.Identity.Emergency("")
		s.act(c, op, p, p.Tenant, c.Next)
	case "logout":
		token, _ := c.Cookie(refreshCookie)
		p, found, err := s.deps.Identity.Holder(c.Request.Context(), token)
		switch {
		case err != nil:
			s.Fail(c, err)
		case found:
			s.act(c, op, p, p.Tenant, c.Next)
		default:
			c.Next()
		}
	default:
		c.Next()
	}
}

// act performs a recorded operation between its two records. One that panics has failed.
func (s *Server) act(c *gin.Context, op operation, principal identity.Principal, tenant string, do func()) {
	if err := s.record(c, op, principal, tenant, audit.StageAdmitted); err != nil {
		s.Fail(c, err)
		return
	}
	returned := false
	defer func() {
		if !returned {
			c.Set(keyFailure, fault.New(fault.CodeInternal))
			s.outcome(c, op, principal, tenant)
		}
	}()
	do()
	returned = true
	s.outcome(c, op, principal, tenant)
}

// outcome writes the second record of an act.
func (s *Server) outcome(c *gin.Context, op operation, principal identity.Principal, tenant string) {
	if err := s.record(c, op, principal, tenant, audit.StageOutcome); err != nil {
		// The act is done and its admitted record is durable; the missing outcome is itself a finding of the verifier.
		s.log.ErrorContext(c.Request.Context(), "audit outcome of an admin act was not written",
			attr("operation", op.id), attr("request_id", c.GetString(KeyRequestID)), attr("error", err.Error()))
	}
}

// panicked renders a panic as this plane does and passes it on to the HTTP edge, which logs it.
func (s *Server) panicked(c *gin.Context) {
	v := recover()
	if v == nil {
		return
	}
	if !c.Writer.Written() {
		s.Fail(c, fault.New(fault.CodeInternal))
	}
	panic(v)
}

func (s *Server) authenticate(c *gin.Context, op operation) (identity.Principal, error) {
	if op.public {
		return identity.Principal{Kind: "anonymous"}, nil
	}
	token, ok := bearer(c)
	if !ok {
		return identity.Principal{}, fault.New(fault.CodeInvalidSession)
	}
	return s.deps.Identity.Authenticate(c.Request.Context(), identity.AdminPlane, token, c.ClientIP())
}

func bearer(c *gin.Context) (string, bool) {
	return strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
}

// maxPublicBody bounds what a stranger may send: a name and a password.
const maxPublicBody = 16 << 10

// readBody reads the bounded body and puts it back for the handler. release is called when that has ended.
func (s *Server) readBody(c *gin.Context, op operation, p identity.Principal) (body []byte, release func(), err error) {
	if c.Request.Body == nil || c.Request.Body == http.NoBody || op.streams {
		return nil, func() {}, nil
	}
	who, limit := inflight.Caller{Tenant: p.Tenant, ID: p.ID}, min(s.cfg.MaxBodyBytes, s.deps.Bodies.PerCaller())
	if op.public {
		who, limit = inflight.Caller{ID: c.ClientIP()}, min(limit, maxPublicBody)
	}
	body, release, err = s.deps.Bodies.Body(c.Writer, c.Request, who, limit)
	if err == nil {
		c.Request.Body = io.NopCloser(bytes.NewReader(body))
	}
	return body, release, err
}

// What a record repeats of what a caller named is no longer than a name can be: else a refusal would not fit its record.
const (
	maxTenant   = 64
	maxResource = 256
)

func truncate(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// requestedTenant returns the tenant a request names in its query or body, "" if none. The permission is checked in it.
func requestedTenant(c *gin.Context, op operation, body []byte) string {
	var named struct {
		Tenant       string `json:"tenant"`
		Organisation string `json:"organisation"`
	}
	if len(body) > 0 && json.Unmarshal(body, &named) != nil {
		named.Tenant, named.Organisation = "", ""
	}
	return cmp.Or(op.everyTenant(cmp.Or(c.Query("organisation"), named.Organisation)), c.Query("tenant"), named.Tenant)
}

// everyTenant returns where the permission is checked if the operation names an organisation: in all tenants, since it has several. "" if it names none.
func (op operation) everyTenant(organisation string) string {
	if !op.organisation || organisation == "" {
		return ""
	}
	return access.AllTenants
}

// validate holds the request against the document.
func (s *Server) validate(c *gin.Context, op operation, body []byte) error {
	params := map[string]string{}
	for _, p := range c.Params {
		params[p.Key] = strings.TrimPrefix(p.Value, "/") // in front of a parameter that takes the rest of the path
	}
	in := &openapi3filter.RequestValidationInput{
		Request:    c.Request,
		PathParams: params,
		Route:      &routers.Route{Spec: s.doc, Path: op.path, PathItem: op.item, Method: c.Request.Method, Operation: op.op},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, ExcludeRequestBody: op.streams, SchemaValidationOptions: []openapi3.SchemaValidationOption{openapi3.WithStringFormatValidators(s.formats)},
		},
	}
	err := openapi3filter.ValidateRequest(c.Request.Context(), in)
	if body != nil {
		c.Request.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err == nil {
		return single(c, body)
	}
	var re *openapi3filter.RequestError
	if !errors.As(err, &re) {
		return genericViolation("body", err)
	}
	return explain(c, re, body)
}

// single refuses a JSON body that goes on behind its value: what reads bodies elsewhere, in a proxy or a log, might take another one for it.
func single(c *gin.Context, body []byte) error {
	if len(body) == 0 || !strings.HasSuffix(strings.ToLower(mediaType(c)), "json") || json.Valid(body) {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(body))
	_ = in.Decode(new(json.RawMessage)) // it was read before
	return fault.New(fault.CodeInvalidJSON, in.InputOffset())
}

// record writes one stage of an act. It runs on a context the client cannot cancel: an act that happened is recorded.
func (s *Server) record(c *gin.Context, op operation, p identity.Principal, tenant string, stage audit.Stage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), auditDeadline)
	defer cancel()
	e := audit.Event{
		Request: c.GetString(KeyRequestID), Stage: stage, Tenant: tenant, Project: p.Project,
		Actor: audit.Actor{Kind: p.Kind, ID: p.ID, Name: p.Name}, Source: c.ClientIP(),
		Action: "admin." + op.id, Route: c.Request.Method + " " + Prefix + op.path, Dialect: "admin",
		Resource: resource(c), Decision: "allow",
	}
	if d, ok := c.Get(keyDetail); ok {
		e.Detail, _ = d.(map[string]string)
	}
	noteApproval(c, &e)
	if stage == audit.StageOutcome {
		e.Status, e.Outcome = c.Writer.Status(), "ok"
		if f, ok := c.Get(keyFailure); ok {
			public, _ := f.(*fault.Error)
			e.Outcome, e.ErrorKind, e.ErrorCode = outcome(public), public.Kind().String(), string(public.Code())
			e.Status = public.Kind().Status() // a refusal is recorded before it is answered
			if public.Kind() == fault.Denied {
				e.Decision = "refuse"
			}
		}
	}
	got, err := s.deps.Audit.Append(ctx, e)
	if err == nil && op.late && got.Writer == "" { // a log that may lose records lets acts go on; values are shown on record only
		return fault.New(fault.CodeAuditUnavailable)
	}
	return err
}

func outcome(e *fault.Error) string {
	switch e.Kind() {
	case fault.Internal, fault.Unavailable, fault.Timeout:
		return "failed"
	default: // the rest are the caller's
		return "refused"
	}
}

// failRecorded answers err and leaves one outcome record of the refusal. If that cannot be written the caller learns of the
// audit log's failure instead.
func (s *Server) failRecorded(c *gin.Context, op operation, p identity.Principal, tenant string, err error) {
	c.Set(keyFailure, fault.Public(err))
	if aerr := s.record(c, op, p, tenant, audit.StageOutcome); aerr != nil {
		s.Fail(c, aerr)
		return
	}
	s.Fail(c, err)
}

// resource names what an act was about: what the handler or chain set, else the path parameters.
func resource(c *gin.Context) string {
	if r := c.GetString(keyResource); r != "" {
		return r
	}
	parts := make([]string, 0, len(c.Params))
	for _, p := range c.Params {
		parts = append(parts, truncate(p.Value, maxResource))
	}
	return strings.Join(parts, "/")
}

// about names the resource of the act in its outcome record, with details that are neither personal nor secret.
func about(c *gin.Context, resource string, detail map[string]string) {
	c.Set(keyResource, resource)
	if detail != nil {
		c.Set(keyDetail, detail)
	}
}
