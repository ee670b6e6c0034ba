package identity

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Project is a part of a tenant to which keys belong: an application, a team or a cost centre.
type Project struct {
	Tenant, ID, Name string
	Labels           map[string]string
	Limits           Limits // of all its keys together; a zero field bounds nothing
	CreatedAt        time.Time
	Suspension       Suspension
}

// CreateProject creates a project. Errors: CodeInvalidValue, CodeMissing, CodeNotFound (tenant), CodeExists, CodeConflict in a closed tenant.
func (i *Identity) CreateProject(ctx context.Context, p Project) error {
	if err := checkID("id", p.ID); err != nil {
		return err
	}
	level, err := newLevel(p.Name, p.Labels, p.Limits)
	if err != nil {
		return err
	}
	row := projectRow{Tenant: p.Tenant, ID: p.ID, Name: p.Name, CreatedAt: i.now().UnixMicro(), Level: level}
	defer i.reload(ctx)
	return i.store.change(ctx, "create project", func(tx *gorm.DB) error {
		if _, err := openTenant(tx, row.Tenant); err != nil {
			return err
		}
		return insert(tx, &row, fault.Say("thing.project"), row.ID)
	})
}

// ListProjects returns the projects of a tenant, or of all, by tenant and id.
func (i *Identity) ListProjects(ctx context.Context, tenant string) ([]Project, error) {
	var rows []projectRow
	err := i.store.list(ctx, projectColumns(), tenant, "tenant, id", &rows)
	out := make([]Project, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out, err
}

// Project returns one project of a tenant. Error: CodeNotFound, also for a project of another tenant.
func (i *Identity) Project(ctx context.Context, tenant, id string) (Project, error) {
	row, err := project(i.store.db.WithContext(ctx), tenant, id)
	return row.public(), database.Unavailable("find project", err)
}

// ChangeProject changes a project: at once here, within two polls elsewhere. Errors: CodeInvalidValue, CodeMissing, CodeNotFound.
func (i *Identity) ChangeProject(ctx context.Context, tenant, id string, change LevelChange) (before, after Project, err error) {
	return i.changeProject(ctx, "change project", tenant, id, func(row *projectRow) error { return change.apply(&row.Name, &row.Level) })
}

// SuspendProject refuses the keys of a project with CodeProjectSuspended, at once here and within two polls elsewhere, until it is resumed. Requests
// that were let in before go on to their end. A project that is suspended stays so for the first reason. Errors: CodeMissing and CodeInvalidValue of
// the reason, CodeNotFound.
func (i *Identity) SuspendProject(ctx context.Context, tenant, id, by, reason string) (before, after Project, err error) {
	if err := CheckReason("reason", reason); err != nil {
		return Project{}, Project{}, err
	}
	now := i.now().UnixMicro()
	return i.changeProject(ctx, "suspend project", tenant, id, func(row *projectRow) error {
		row.Level.suspend(now, by, reason)
		return nil
	})
}

// ResumeProject ends the suspension that began at since. Errors: CodeNotFound, CodeConflict where there is no suspension or another one.
func (i *Identity) ResumeProject(ctx context.Context, tenant, id string, since time.Time) (before, after Project, err error) {
	return i.changeProject(ctx, "resume project", tenant, id, func(row *projectRow) error { return row.Level.resume(since) })
}

func (i *Identity) changeProject(ctx context.Context, step, tenant, id string, fn func(row *projectRow) error) (before, after Project, err error) {
	defer i.reload(ctx)
	was, row, err := changeLevel(ctx, i.store, step, func(tx *gorm.DB) (projectRow, error) { return openProject(tx, tenant, id) },
		func(_ *gorm.DB, row *projectRow) error { return fn(row) })
	return was.public(), row.public(), err
}

// project reads the row of a project of a tenant. Error: CodeNotFound.
func project(tx *gorm.DB, tenant, id string) (projectRow, error) {
	row, found, err := one[projectRow](tx.Where("tenant = ? AND id = ?", tenant, id), projectColumns())
	if err == nil && !found {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.project"), id).WithParam("project")
	}
	return row, err
}

// openProject is project for what a closed tenant does not get.
func openProject(tx *gorm.DB, tenant, id string) (projectRow, error) {
	if _, err := openTenant(tx, tenant); err != nil {
		return projectRow{}, err
	}
	return project(tx, tenant, id)
}

// projectAllows refuses a key or service account the project that it is to have after another: one that its tenant does not have, and one that is
// suspended.
func projectAllows(tx *gorm.DB, tenant, before, after string) error {
	if after == "" || after == before {
		return nil
	}
	row, err := project(tx, tenant, after)
	if err == nil && row.Level.suspended() {
		err = fault.New(fault.CodeConflict, fault.Say("identity.project_suspended", row.ID)).WithParam("project")
	}
	return err
}

// projectID names a project: ids are unique within a tenant only.
type projectID struct{ tenant, project string }

type projectRow struct {
	Tenant, ID, Name string
	CreatedAt        int64
	Level            levelRow `gorm:"embedded"`
}

func (projectRow) TableName() string { return "identity_projects" }

func projectColumns() []string {
	return append([]string{"tenant", "id", "name", "created_at"}, levelColumns...)
}

func (r projectRow) where(tx *gorm.DB) *gorm.DB {
	return tx.Where("tenant = ? AND id = ?", r.Tenant, r.ID)
}

func (r projectRow) changed() map[string]any { return r.Level.with(map[string]any{"name": r.Name}) }

func (r projectRow) public() Project {
	return Project{
		Tenant: r.Tenant, ID: r.ID, Name: r.Name, Labels: r.Level.labels(), Limits: r.Level.limits(), CreatedAt: at(r.CreatedAt), Suspension: r.Level.suspension(),
	}
}
