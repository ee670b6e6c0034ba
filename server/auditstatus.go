package server

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/siem"
	"github.com/sluice-project/sluice/server/adminapi"
)

// statusTimeout bounds what the state of the audit log asks the database: whoever looks does so because something hangs.
const statusTimeout = 3 * time.Second

// auditStatus says how the audit log is doing, in figures of a tenant or, if whole, of all.
func (e *edge) auditStatus(ctx context.Context, tenant string, whole bool) (adminapi.AuditStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	l := e.parts.audit
	witnessState, err := l.Status()
	if err != nil {
		return adminapi.AuditStatus{}, err
	}
	out := adminapi.AuditStatus{
		AsOf: time.Now().UTC(), Since: e.startedAt, Whole: whole, Problems: []adminapi.AuditTrouble{}, Losses: []adminapi.AuditLoss{},
		Checkpoint: adminapi.SeenCheckpoint{Size: witnessState.Checkpoint.Size}, Modes: e.auditModes(tenant, whole), Retention: retentionState(l.Retention(), tenant, whole),
	}
	if witnessState.Checkpoint.Size > 0 {
		root := witnessState.Checkpoint.Root.String()
		out.Checkpoint.Root, out.Checkpoint.SeenAt = &root, &witnessState.Seen
	}
	if witnessState.Oldest != 0 {
		oldest := time.UnixMicro(witnessState.Oldest).UTC()
		out.OldestWaiting = &oldest
	}
	if whole {
		out.Waiting = &witnessState.Waiting
	}
	losses := l.Losses()
	for _, t := range slices.Sorted(maps.Keys(losses)) {
		if whole || t == tenant {
			out.Losses = append(out.Losses, adminapi.AuditLoss{Tenant: t, Records: losses[t]})
		}
	}
	trouble := func(code adminapi.AuditTroubleCode, detail string) {
		t := adminapi.AuditTrouble{Code: code}
		if whole {
			t.Detail = &detail
		}
		out.Problems = append(out.Problems, t)
	}
	switch err := l.Ready(); {
	case witnessState.Rewritten != "":
		trouble(adminapi.Rewritten, witnessState.Rewritten)
	case err != nil:
		trouble(adminapi.Device, err.Error())
	}
	code, err := e.askDatabase(ctx, tenant, &out)
	if err != nil {
		trouble(code, err.Error())
	}
	return out, nil
}

// askDatabase fills what only the database knows. On an error, what it says stays out.
func (e *edge) askDatabase(ctx context.Context, tenant string, out *adminapi.AuditStatus) (adminapi.AuditTroubleCode, error) {
	p := e.parts
	unsealed, err := p.audit.Unsealed(ctx)
	if err != nil {
		return adminapi.Database, err
	}
	if out.Whole {
		out.Unsealed, tenant = &unsealed, ""
	}
	if out.Whole && len(p.cfg.Audit.SIEM) > 0 {
		states, err := siem.States(ctx, p.db, p.cfg.Audit.SIEM)
		if err != nil {
			return adminapi.Database, err
		}
		list := destinations(states)
		out.Siem = &list
	}
	least, err := p.audit.Least(ctx)
	if err != nil {
		return adminapi.Database, err
	}
	out.Retention.LeastIndex = &least
	reconciled, err := p.reconciler.State(ctx, tenant)
	if err != nil {
		return adminapi.Database, err
	}
	out.Reconciliation = reconciliationState(reconciled)
	witnessed, err := p.audit.Witnessed(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return adminapi.Database, err
		}
		return adminapi.Cosignature, err
	}
	witnessState := witnessStandings(witnessed, out.Checkpoint.Size)
	out.Witnesses = &witnessState
	return "", nil
}

func retentionState(r retention.Config, tenant string, whole bool) adminapi.RetentionState {
	out := adminapi.RetentionState{RecordsDays: r.RecordsDays, SensitiveDays: r.SensitiveDays, Archives: r.ArchiveDir != ""}
	if !whole {
		out.RecordsDays = max(out.RecordsDays, r.TenantDays[tenant])
		out.SensitiveDays = max(out.SensitiveDays, r.TenantDays[tenant])
	}
	return out
}

func witnessStandings(witnessed []seal.Witnessed, size int64) []adminapi.WitnessStanding {
	out := []adminapi.WitnessStanding{}
	for _, w := range witnessed {
		s := adminapi.WitnessStanding{Witness: w.Witness, Size: w.Size, Behind: max(0, size-w.Size)}
		if w.Size > 0 {
			s.Time = &w.Time
		}
		out = append(out, s)
	}
	return out
}

// auditModes says what happens to requests that cannot be recorded: of one tenant, or first of those without a mode of their own.
func (e *edge) auditModes(tenant string, whole bool) []adminapi.AuditMode {
	mode := func(tenant string) adminapi.AuditMode {
		return adminapi.AuditMode{Tenant: tenant, Mode: adminapi.AuditModeMode(e.parts.audit.Mode(tenant))}
	}
	if !whole {
		return []adminapi.AuditMode{mode(tenant)}
	}
	out := []adminapi.AuditMode{mode("")}
	for _, t := range slices.Sorted(maps.Keys(e.parts.cfg.Audit.Modes)) {
		out = append(out, mode(t))
	}
	return out
}
