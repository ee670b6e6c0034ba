package adminapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListPolicies implements GET /policies: the versions of what is asked for, then those of the scopes above it, which hold where it has none.
func (s *Server) ListPolicies(c *gin.Context, params ListPoliciesParams) {
	of, err := s.levelOf(c, params.Organisation, params.Tenant, params.Project)
	if err != nil {
		s.Fail(c, err)
		return
	}
	views := []Policy{}
	for _, scope := range s.deps.Guard.Scopes(of.policyScope()) {
		versions, err := s.deps.Guard.Versions(c.Request.Context(), scope)
		if err != nil {
			s.Fail(c, err)
			return
		}
		slices.SortFunc(versions, func(a, b governance.Version) int { return int(b.Version - a.Version) })
		covered := len(views) > 0
		for i, v := range versions {
			views = append(views, s.policyView(v, i == 0 && !covered))
		}
	}
	part, next, err := page(views, params.Cursor, params.Limit)
	s.reply(c, http.StatusOK, PolicyPage{Items: list(part), Next: next}, err)
}

// policyScope names the scope of a level's policy.
func (l level) policyScope() string {
	switch {
	case l.organisation != "":
		return governance.OrganisationScope(l.organisation)
	case l.project != "":
		return governance.ProjectScope(l.tenant, l.project)
	}
	return l.tenant
}

func (s *Server) policyView(v governance.Version, active bool) Policy {
	version := strconv.FormatInt(v.Version, 10)
	organisation, tenant, project := governance.ReadScope(v.Scope)
	return Policy{
		Version: version, Name: v.Scope + "@" + version, Organisation: optional(organisation), Tenant: optional(tenant), Project: optional(project), Digest: v.Digest,
		CreatedAt: v.CreatedAt.UTC(), CreatedBy: v.CreatedBy, CreatedByName: optional(s.deps.Identity.NameOf(v.CreatedBy)), Active: active,
	}
}

// PublishPolicy implements POST /policies.
func (s *Server) PublishPolicy(c *gin.Context) {
	in, err := decode[NewPolicy](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	of, err := s.levelOf(c, in.Organisation, in.Tenant, in.Project)
	if err != nil {
		s.Fail(c, err)
		return
	}
	publish := s.deps.Guard.Publish
	if in.Expected != nil {
		publish = func(ctx context.Context, scope string, source []byte, actor string) (governance.Version, error) {
			return s.deps.Guard.PublishAfter(ctx, scope, source, actor, *in.Expected)
		}
	}
	v, err := publish(c.Request.Context(), of.policyScope(), []byte(in.Yaml), caller(c).ID)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, v.Scope+"/"+strconv.FormatInt(v.Version, 10), map[string]string{"digest": v.Digest})
	s.reply(c, http.StatusCreated, s.policyView(v, true), nil)
}

// ValidatePolicy implements POST /policies/validations.
func (s *Server) ValidatePolicy(c *gin.Context) {
	in, err := decode[NewPolicy](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	out := PolicyValidation{Valid: true, Errors: []FieldError{}}
	if err := s.deps.Guard.Validate([]byte(in.Yaml)); err != nil {
		public := fault.Public(err)
		if public.Kind() != fault.Invalid {
			s.Fail(c, err)
			return
		}
		out.Valid = false
		out.Errors = []FieldError{{Field: public.Param(), Detail: public.Message(language(c.GetHeader("Accept-Language")))}}
	}
	s.reply(c, http.StatusOK, out, nil)
}

// GetPolicy implements GET /policies/{version}.
func (s *Server) GetPolicy(c *gin.Context, version string, params GetPolicyParams) {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		s.Fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.policy_version"), version))
		return
	}
	of, err := s.levelOf(c, params.Organisation, params.Tenant, params.Project)
	if err != nil {
		s.Fail(c, err)
		return
	}
	v, source, err := s.deps.Guard.Get(c.Request.Context(), of.policyScope(), n)
	if err != nil {
		s.Fail(c, err)
		return
	}
	all, err := s.deps.Guard.Versions(c.Request.Context(), v.Scope)
	newest := !slices.ContainsFunc(all, func(o governance.Version) bool { return o.Version > v.Version })
	view, text := s.policyView(v, newest), string(source)
	view.Yaml = &text
	s.reply(c, http.StatusOK, view, err)
}

// PreviewMasking implements POST /masking/preview.
func (s *Server) PreviewMasking(c *gin.Context) {
	in, err := decode[MaskingRequest](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	preview := governance.PreviewRequest{Tenant: tenantOf(c), Project: deref(in.Project), Text: in.Text}
	if in.Direction != nil {
		preview.Direction = governance.Direction(*in.Direction)
	}
	if in.Channel != nil {
		preview.Channel = string(*in.Channel)
	}
	if in.Yaml != nil {
		preview.Document = []byte(*in.Yaml)
	}
	seen, err := s.deps.Guard.Preview(c.Request.Context(), preview)
	out := MaskingPreview{Masked: seen.Masked, Restored: seen.Restored, Blocked: seen.Blocked, Spans: []MaskingSpan{}}
	for _, sp := range seen.Spans {
		view := MaskingSpan{
			Start: sp.Start, End: sp.End, Class: sp.Class, Action: MaskingSpanAction(sp.Action), Score: sp.Score, Form: sp.Why.Form(), Reasons: []MaskingReason{}, Grade: sp.Grade,
		}
		for _, r := range sp.Why.Reasons() {
			view.Reasons = append(view.Reasons, MaskingReason{Name: r.Name, Weight: r.Weight})
		}
		out.Spans = append(out.Spans, view)
	}
	if len(seen.Safety) > 0 {
		found := make([]MaskingSafety, len(seen.Safety))
		for i, f := range seen.Safety {
			found[i] = MaskingSafety{Class: f.Class, Detector: f.Detector, Action: MaskingSafetyAction(f.Action), Count: f.Count}
		}
		out.Safety = &found
	}
	s.reply(c, http.StatusOK, out, err)
}
