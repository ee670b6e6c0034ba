package adminapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ListOrganisations implements GET /organisations. Whoever reads tenants in one tenant only sees none.
func (s *Server) ListOrganisations(c *gin.Context, params ListOrganisationsParams) {
	var all []identity.Organisation
	var err error
	if s.spans(c, access.TenantsRead) == nil {
		all, err = s.deps.Identity.ListOrganisations(c.Request.Context())
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(all, params.Cursor, params.Limit)
	out := OrganisationPage{Items: []Organisation{}, Next: next}
	for _, o := range part {
		out.Items = append(out.Items, s.organisationView(o))
	}
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) organisationView(o identity.Organisation) Organisation {
	return Organisation{
		Id: o.ID, Name: o.Name, Operator: o.Operator, Labels: labelsView(o.Labels), Limits: limitsView(o.Limits), CreatedAt: o.CreatedAt.UTC(),
		Suspension: s.suspensionView(o.Suspension),
	}
}

// suspensionView is nil where there is none.
func (s *Server) suspensionView(why identity.Suspension) *Suspension {
	if why.Since.IsZero() {
		return nil
	}
	return &Suspension{Since: why.Since, By: optional(why.By), ByName: optional(s.deps.Identity.NameOf(why.By)), Reason: why.Reason}
}

// labelsView writes no labels as an empty object.
func labelsView(labels map[string]string) LevelLabels {
	if labels == nil {
		return LevelLabels{}
	}
	return labels
}

// CreateOrganisation implements POST /organisations.
func (s *Server) CreateOrganisation(c *gin.Context) {
	in, err := decode[NewOrganisation](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, in.Id, nil)
	err = s.deps.Identity.CreateOrganisation(c.Request.Context(), identity.Organisation{
		ID: in.Id, Name: in.Name, Labels: deref(in.Labels), Limits: limitsOf(deref(in.Limits)),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	o, err := s.deps.Identity.Organisation(c.Request.Context(), in.Id)
	s.reply(c, http.StatusCreated, s.organisationView(o), err)
}

// ChangeOrganisation implements PATCH /organisations/{id}.
func (s *Server) ChangeOrganisation(c *gin.Context, id IdPath) {
	in, err := decode[OrganisationChange](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.ChangeOrganisation(c.Request.Context(), id, levelChange(in.Name, in.Labels, in.Limits))
	if err == nil {
		about(c, id, levelChanges(before.Name, after.Name, before.Labels, after.Labels, before.Limits, after.Limits))
	}
	s.reply(c, http.StatusOK, s.organisationView(after), err)
}

func levelChange(name *string, labels *LevelLabels, limits *Limits) identity.LevelChange {
	change := identity.LevelChange{Name: name}
	if labels != nil {
		given := map[string]string(*labels)
		change.Labels = &given
	}
	if limits != nil {
		given := limitsOf(*limits)
		change.Limits = &given
	}
	return change
}

// levelChanges says in the record what was and what is.
func levelChanges(formerName, name string, formerLabels, labels map[string]string, formerLimits, limits identity.Limits) map[string]string {
	detail := map[string]string{}
	noteChange(detail, "name", formerName, name)
	noteChange(detail, "labels", labelsText(formerLabels), labelsText(labels))
	noteChange(detail, "limits", limitsText(formerLimits), limitsText(limits))
	return detail
}

// labelsText writes the same labels in the same way.
func labelsText(labels map[string]string) string {
	b, _ := json.Marshal(labels) // texts always marshal
	return string(b)
}

// suspended names a suspension in its record: why, and that nothing was changed where there was one.
func suspended(c *gin.Context, id, reason string, before, after identity.Suspension) {
	detail := map[string]string{"reason": truncate(reason, maxResource)}
	if before == after && !after.Since.IsZero() {
		detail["unchanged"] = "suspended already"
	}
	about(c, id, detail)
}

// resumed names in its record the suspension that has ended.
func resumed(c *gin.Context, id string, why identity.Suspension) {
	about(c, id, map[string]string{"suspended_at": why.Since.Format(time.RFC3339Nano), "suspended_by": why.By, "suspended_for": truncate(why.Reason, maxResource)})
}

// SuspendOrganisation implements POST /organisations/{id}/suspend.
func (s *Server) SuspendOrganisation(c *gin.Context, id IdPath) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.SuspendOrganisation(c.Request.Context(), id, caller(c).ID, in.Reason)
	suspended(c, id, in.Reason, before.Suspension, after.Suspension)
	s.reply(c, http.StatusOK, s.organisationView(after), err)
}

// ResumeOrganisation implements POST /organisations/{id}/resume.
func (s *Server) ResumeOrganisation(c *gin.Context, id IdPath) {
	in, err := decode[Resumption](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.ResumeOrganisation(c.Request.Context(), id, in.Since)
	if err == nil {
		resumed(c, id, before.Suspension)
	}
	s.reply(c, http.StatusOK, s.organisationView(after), err)
}

// MoveTenant implements POST /tenants/{id}/move.
func (s *Server) MoveTenant(c *gin.Context, id IdPath) {
	in, err := decode[TenantMove](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.MoveTenant(c.Request.Context(), id, in.Organisation)
	if err == nil {
		detail := map[string]string{}
		noteChange(detail, "organisation", before.Organisation, after.Organisation)
		about(c, id, detail)
	}
	s.reply(c, http.StatusOK, s.tenantView(after), err)
}

// ListProjects implements GET /projects. Who makes keys of his own only sees those that a key can have.
func (s *Server) ListProjects(c *gin.Context, params ListProjectsParams) {
	all, err := s.deps.Identity.ListProjects(c.Request.Context(), tenantOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	views := []Project{}
	for _, p := range all {
		if owner(c) == "" || p.Suspension.Since.IsZero() {
			views = append(views, s.projectView(p))
		}
	}
	part, next, err := page(views, params.Cursor, params.Limit)
	s.reply(c, http.StatusOK, ProjectPage{Items: list(part), Next: next}, err)
}

func (s *Server) projectView(p identity.Project) Project {
	return Project{
		Tenant: p.Tenant, Id: p.ID, Name: p.Name, Labels: labelsView(p.Labels), Limits: limitsView(p.Limits), CreatedAt: p.CreatedAt.UTC(),
		Suspension: s.suspensionView(p.Suspension),
	}
}

// CreateProject implements POST /projects.
func (s *Server) CreateProject(c *gin.Context) {
	in, err := decode[NewProject](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, in.Id, nil)
	err = s.deps.Identity.CreateProject(c.Request.Context(), identity.Project{
		Tenant: tenantOf(c), ID: in.Id, Name: in.Name, Labels: deref(in.Labels), Limits: limitsOf(deref(in.Limits)),
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	p, err := s.deps.Identity.Project(c.Request.Context(), tenantOf(c), in.Id)
	s.reply(c, http.StatusCreated, s.projectView(p), err)
}

// ChangeProject implements PATCH /projects/{id}.
func (s *Server) ChangeProject(c *gin.Context, id IdPath, _ ChangeProjectParams) {
	in, err := decode[ProjectChange](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.ChangeProject(c.Request.Context(), tenantOf(c), id, levelChange(in.Name, in.Labels, in.Limits))
	if err == nil {
		about(c, id, levelChanges(before.Name, after.Name, before.Labels, after.Labels, before.Limits, after.Limits))
	}
	s.reply(c, http.StatusOK, s.projectView(after), err)
}

// SuspendProject implements POST /projects/{id}/suspend.
func (s *Server) SuspendProject(c *gin.Context, id IdPath, _ SuspendProjectParams) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.SuspendProject(c.Request.Context(), tenantOf(c), id, caller(c).ID, in.Reason)
	suspended(c, id, in.Reason, before.Suspension, after.Suspension)
	s.reply(c, http.StatusOK, s.projectView(after), err)
}

// ResumeProject implements POST /projects/{id}/resume.
func (s *Server) ResumeProject(c *gin.Context, id IdPath, _ ResumeProjectParams) {
	in, err := decode[Resumption](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	before, after, err := s.deps.Identity.ResumeProject(c.Request.Context(), tenantOf(c), id, in.Since)
	if err == nil {
		resumed(c, id, before.Suspension)
	}
	s.reply(c, http.StatusOK, s.projectView(after), err)
}

// level is what a request names of organisation, tenant and project, where it may name an organisation in the place of a tenant.
type level struct{ organisation, tenant, project string }

// levelOf returns what a request is about, which is there. The chain has checked the permission in the tenant, or in all tenants where an organisation
// is named. Errors: CodeInvalidValue for an organisation beside a tenant or a project, CodeNotFound.
func (s *Server) levelOf(c *gin.Context, organisation, tenant, project *string) (level, error) {
	of := level{organisation: deref(organisation), project: deref(project)}
	if of.organisation == "" {
		of.tenant = tenantOf(c)
	}
	var err error
	switch {
	case strings.ContainsAny(of.tenant, "/:"): // which names what is no tenant
		err = fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), truncate(of.tenant, maxTenant))
	case of.organisation != "" && (deref(tenant) != "" || of.project != ""):
		err = fault.New(fault.CodeInvalidValue, "organisation", fault.Say("billing.budget_scope")).WithParam("organisation")
	case of.organisation != "":
		_, err = s.deps.Identity.Organisation(c.Request.Context(), of.organisation)
	case of.project != "":
		_, err = s.deps.Identity.Project(c.Request.Context(), of.tenant, of.project)
	}
	return of, err
}
