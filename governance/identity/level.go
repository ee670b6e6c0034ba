package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
)

// A caller stands on four levels: its key, the project of the key, the tenant and the organisation of the tenant. The upper three are rows with the
// same properties: a name, labels, limits of all their callers together, and a suspension that refuses these callers.

// The levels above a key.
const (
	LevelProject      = "project"
	LevelTenant       = "tenant"
	LevelOrganisation = "organisation"
)

// Level is one of those that a caller stands on, above its key.
type Level struct {
	Kind   string // LevelProject, LevelTenant or LevelOrganisation
	ID     string // a project's within its tenant
	Limits Limits // of all its callers together; zero fields are not limited, or, of a tenant, take those of the installation
}

// Suspension says since when a level is suspended. The zero value says that it is not.
type Suspension struct {
	Since      time.Time
	By, Reason string // By is a user id
}

// LevelChange is what an administrator changes of a level; nil fields stay.
type LevelChange struct {
	Name   *string
	Labels *map[string]string // replace all that were there
	Limits *Limits
}

// maxLabels bounds the labels of a level.
const maxLabels = 32

// levelRow is what the rows of all levels have.
type levelRow struct {
	Labels                                         string
	SuspendedAt                                    int64
	SuspendedBy, Suspension                        string
	RequestsPerMinute, TokensPerMinute, Concurrent int
}

//nolint:gochecknoglobals // a constant list
var levelColumns = []string{"labels", "suspended_at", "suspended_by", "suspension", "requests_per_minute", "tokens_per_minute", "concurrent"}

// newLevel checks what every new row has.
func newLevel(name string, labels map[string]string, l Limits) (levelRow, error) {
	row := levelRow{Labels: "{}"}
	err := LevelChange{Name: &name, Labels: &labels, Limits: &l}.apply(new(string), &row)
	return row, err
}

func (c LevelChange) apply(name *string, row *levelRow) error {
	if c.Name != nil {
		if err := CheckText("name", *c.Name); err != nil {
			return err
		}
		*name = *c.Name
	}
	if c.Labels != nil {
		if err := checkLabels(*c.Labels); err != nil {
			return err
		}
		row.Labels = packLabels(*c.Labels)
	}
	if c.Limits != nil {
		if err := checkLimits(*c.Limits); err != nil {
			return err
		}
		row.RequestsPerMinute, row.TokensPerMinute, row.Concurrent = c.Limits.RequestsPerMinute, c.Limits.TokensPerMinute, c.Limits.Concurrent
	}
	return nil
}

// checkLabels accepts a bounded number of lines under names like ids.
func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalid("labels", fault.Say("identity.label_count", maxLabels))
	}
	for name, value := range labels {
		if err := checkID("labels", name); err != nil {
			return err
		}
		if err := CheckText("labels."+name, value); err != nil {
			return err
		}
	}
	return nil
}

// packLabels writes the same labels in the same way: their names in order.
func packLabels(labels map[string]string) string {
	if labels == nil {
		labels = map[string]string{}
	}
	b, _ := json.Marshal(labels) // texts always marshal
	return string(b)
}

// labels returns none for a row that cannot be read: nothing is decided by them.
func (r levelRow) labels() map[string]string {
	out := map[string]string{}
	if err := json.Unmarshal([]byte(r.Labels), &out); err != nil || out == nil {
		return map[string]string{}
	}
	return out
}

func (r levelRow) limits() Limits {
	return Limits{RequestsPerMinute: r.RequestsPerMinute, TokensPerMinute: r.TokensPerMinute, Concurrent: r.Concurrent}
}

func (r levelRow) suspension() Suspension {
	return Suspension{Since: at(r.SuspendedAt), By: r.SuspendedBy, Reason: r.Suspension}
}

func (r levelRow) suspended() bool { return r.SuspendedAt != 0 }

// suspend begins a suspension, and reports whether there was none.
func (r *levelRow) suspend(now int64, by, reason string) bool {
	if r.suspended() {
		return false
	}
	r.SuspendedAt, r.SuspendedBy, r.Suspension = now, by, reason
	return true
}

// resume ends the suspension that began at since.
func (r *levelRow) resume(since time.Time) error {
	switch {
	case !r.suspended():
		return fault.New(fault.CodeConflict, fault.Say("identity.not_suspended"))
	case r.SuspendedAt != since.UnixMicro():
		return fault.New(fault.CodeConflict, fault.Say("identity.suspended_again"))
	}
	r.SuspendedAt, r.SuspendedBy, r.Suspension = 0, "", ""
	return nil
}

func (r levelRow) columns() map[string]any {
	return map[string]any{
		"labels": r.Labels, "suspended_at": r.SuspendedAt, "suspended_by": r.SuspendedBy, "suspension": r.Suspension,
		"requests_per_minute": r.RequestsPerMinute, "tokens_per_minute": r.TokensPerMinute, "concurrent": r.Concurrent,
	}
}

// levelled is the row of a level.
type levelled interface {
	comparable
	where(tx *gorm.DB) *gorm.DB // it is the only row of
	changed() map[string]any    // what may change
}

// changeLevel reads a row, lets fn alter it, and writes what may change.
func changeLevel[R levelled](ctx context.Context, s store, step string, find func(tx *gorm.DB) (R, error), fn func(tx *gorm.DB, row *R) error) (before, row R, err error) {
	err = s.change(ctx, step, func(tx *gorm.DB) error {
		if before, err = find(tx); err != nil {
			return err
		}
		row = before
		if err := fn(tx, &row); err != nil || row == before {
			return err
		}
		return row.where(tx.Model(new(R))).Updates(row.changed()).Error
	})
	return before, row, err
}

// with adds the columns of a level to those of a row.
func (r levelRow) with(columns map[string]any) map[string]any {
	maps.Copy(columns, r.columns())
	return columns
}

// endSignIns ends the sign-ins of the people of some tenants.
func endSignIns(tx *gorm.DB, now int64, tenants []string) error {
	err := tx.Exec("UPDATE identity_sessions SET revoked_at = ? WHERE revoked_at = 0 AND user_id IN (SELECT id FROM identity_users WHERE tenant IN ?)", now, tenants).Error
	if err != nil {
		return fmt.Errorf("end sign-ins: %w", err)
	}
	return nil
}

// refusal returns why somebody of a tenant, and of a project unless that is "", is refused: CodeTenantSuspended, CodeOrganisationSuspended,
// CodeProjectSuspended; nil if nothing is suspended.
func (s *accounts) refusal(tenant, project string) error {
	t := s.tenants[tenant]
	switch {
	case t.Level.suspended():
		return fault.New(fault.CodeTenantSuspended)
	case s.organisations[t.Organisation].Level.suspended():
		return fault.New(fault.CodeOrganisationSuspended)
	case project != "" && s.projects[projectID{tenant, project}].Level.suspended():
		return fault.New(fault.CodeProjectSuspended)
	}
	return nil
}

// addLevels notes the levels above the callers of each tenant.
func (s *accounts) addLevels(organisations []organisationRow, projects []projectRow) {
	for _, o := range organisations {
		s.organisations[o.ID] = o
	}
	for _, p := range projects {
		s.projects[projectID{p.Tenant, p.ID}] = p
	}
	for id, t := range s.tenants {
		s.above[id] = []Level{
			{Kind: LevelTenant, ID: id, Limits: t.Level.limits()},
			{Kind: LevelOrganisation, ID: t.Organisation, Limits: s.organisations[t.Organisation].Level.limits()},
		}
	}
}

// levels returns those above a key, the nearest first. A project without a row, as the release before makes them, bounds nothing.
func (s *accounts) levels(tenant, project string) []Level {
	p, there := s.projects[projectID{tenant, project}]
	if !there {
		return s.above[tenant]
	}
	return append([]Level{{Kind: LevelProject, ID: project, Limits: p.Level.limits()}}, s.above[tenant]...)
}

// Above returns the organisation of a tenant, and the levels above its callers of no project.
func (i *Identity) Above(tenant string) (organisation string, above []Level) {
	s, loaded := i.accounts.Last()
	if !loaded {
		return "", nil
	}
	return s.tenants[tenant].Organisation, s.above[tenant]
}

// OrganisationOf returns the organisation of a tenant, "" where there is no such tenant.
func (i *Identity) OrganisationOf(tenant string) string {
	organisation, _ := i.Above(tenant)
	return organisation
}
