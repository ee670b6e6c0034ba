package offboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// The steps of an erasure, in their order. Each may be repeated.
const (
	stepPlan        = "plan"
	stepTexts       = "texts"
	stepValues      = "values"
	stepRows        = "rows"
	stepFiles       = "files"
	stepCertificate = "certificate"
)

// lateFor is how long after its erasure a tenant is looked after: the log of a replica that was away, or a request that was let in before the tenant was
// suspended, may still bring something.
const lateFor = 7 * 24 * time.Hour

// lateEvery is how often that is.
const lateEvery = time.Minute

// errNotLeading ends work of a tenant that another replica does.
var errNotLeading = errors.New("another replica goes on with it")

// plan is what there was before anything went.
type plan struct {
	Counts map[string]int64 `json:"counts"`
	Keys   []Key            `json:"keys"`
	// Documents are how many were encrypted under which wrapping key: they have no data key of their own.
	Documents map[int64]int64 `json:"documents"`
}

// Key is a data key of the tenant, and the epoch of the wrapping key that it is stored under.
type Key struct {
	ID    string `json:"id"`
	Use   string `json:"use"` // texts or values
	Epoch int64  `json:"epoch"`
}

func (r row) planned() (p plan, err error) {
	if r.Plan == "" {
		return plan{}, nil
	}
	if err := json.Unmarshal([]byte(r.Plan), &p); err != nil {
		return plan{}, fmt.Errorf("read the offboarding of %s: %w", r.Tenant, err)
	}
	return p, nil
}

// Run does what was decided, and drops what this process has in memory of tenants that go, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	t := time.NewTicker(s.cfg.Poll)
	defer t.Stop()
	var late time.Time
	for {
		if err := s.turn(ctx, &late); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("the offboarding of tenants waits; the next turn repeats it", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-s.wake:
		}
	}
}

func (s *Service) turn(ctx context.Context, late *time.Time) error {
	now := s.now()
	var all []row
	err := s.cfg.DB.WithContext(ctx).Select(columns()).Where("state = ? OR state = ? AND erased > ?", string(Erasing), string(Erased), now.Add(-lateFor).UnixMicro()).
		Order("erasing").Find(&all).Error
	if err != nil || len(all) == 0 {
		return database.Unavailable("look for offboardings", err)
	}
	for _, r := range all {
		s.forget(r)
	}
	leads, err := s.cfg.Leads(ctx)
	if err != nil || !leads {
		return err
	}
	look := now.Sub(*late) >= lateEvery
	var errs []error
	for _, r := range all {
		var err error
		switch {
		case r.State == string(Erasing) && (r.Failure == "" || now.Sub(at(r.Attempted)) >= s.cfg.Retry):
			err = s.attempt(ctx, r)
		case r.State == string(Erased) && look:
			err = s.sweep(ctx, r)
		}
		errs = append(errs, err)
		if errors.Is(err, errNotLeading) {
			return errors.Join(errs...)
		}
	}
	if look {
		*late = now
	}
	return errors.Join(errs...)
}

// forget drops what this process has in memory of a tenant, once in each state.
func (s *Service) forget(r row) {
	s.mu.Lock()
	before := s.forgotten[r.Tenant]
	s.forgotten[r.Tenant] = r.Changed
	s.mu.Unlock()
	if before != r.Changed {
		s.drop(r.Tenant)
	}
}

func (s *Service) drop(tenant string) {
	s.cfg.Guard.Values().ForgetKeys()
	s.cfg.Forget(tenant)
}

func (s *Service) note(tenant string, change func(p *Progress)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.progress[tenant]
	change(&p)
	s.progress[tenant] = p
}

// leading does work, and keeps the lead meanwhile: a step may take longer than the lease. The context of the work ends once another replica has the lead;
// its error is errNotLeading then, too. A turn that cannot tell who has it changes nothing: the work goes on, and the next turn asks again.
func (s *Service) leading(ctx context.Context, work func(ctx context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.keepLead(ctx, end)
	}()
	defer func() {
		end(nil)
		<-ended
	}()
	err := work(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errNotLeading) {
		err = fmt.Errorf("%w: %w", errNotLeading, err)
	}
	return err
}

// keepLead prolongs the lead until ctx ends, and ends it once another replica has the lead.
func (s *Service) keepLead(ctx context.Context, end context.CancelCauseFunc) {
	t := time.NewTicker(s.cfg.Prolong)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		leads, err := s.cfg.Leads(ctx)
		if err == nil && !leads {
			end(errNotLeading)
			return
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("the lead of offboardings was not prolonged; the next turn repeats it", slog.Any("error", err))
		}
	}
}

// attempt does all the steps of an erasure, and notes what it broke off with, unless another replica goes on.
func (s *Service) attempt(ctx context.Context, r row) error {
	err := s.leading(ctx, func(ctx context.Context) error { return s.erase(ctx, r) })
	if err == nil || ctx.Err() != nil || errors.Is(err, errNotLeading) {
		return err
	}
	now := s.now().UnixMicro()
	noted := s.cfg.DB.WithContext(ctx).Model(&row{}).Where("tenant = ? AND state = ?", r.Tenant, string(Erasing)).
		Updates(map[string]any{"failure": string(fault.Public(err).Code()), "attempted": now}).Error
	return errors.Join(fmt.Errorf("erase the tenant %s: %w", r.Tenant, err), noted)
}

func (s *Service) erase(ctx context.Context, r row) error {
	s.note(r.Tenant, func(p *Progress) { p.People = 0 })
	p, err := s.writePlan(ctx, r)
	if err != nil {
		return err
	}
	if err := s.destroy(ctx, r, func(step string) error { return s.enter(ctx, r.Tenant, step) }); err != nil {
		return err
	}
	if err := s.enter(ctx, r.Tenant, stepCertificate); err != nil {
		return err
	}
	return s.certify(ctx, r, p)
}

// destroy does the steps that destroy. At its end nothing of the tenant is left that goes.
func (s *Service) destroy(ctx context.Context, r row, enter func(step string) error) error {
	for _, step := range []struct {
		name string
		do   func(context.Context, row) error
	}{{stepTexts, s.eraseTexts}, {stepValues, s.eraseValues}, {stepRows, s.eraseRows}, {stepFiles, s.cleanFiles}} {
		if err := enter(step.name); err != nil {
			return err
		}
		if err := step.do(ctx, r); err != nil {
			return err
		}
	}
	left, err := s.count(ctx, r.Tenant)
	for _, c := range left {
		if err == nil && c.Before > 0 && Goes(c.Table) {
			err = fmt.Errorf("%d rows of %s came while it was erased", c.Before, c.Table)
		}
	}
	return err
}

// Goes reports whether an erasure leaves nothing of a tenant in a table.
func Goes(table string) bool {
	return slices.ContainsFunc(slices.Concat(kept(), rows()), func(p part) bool { return p.table == table })
}

// enter notes that a step begins, and keeps the lead.
func (s *Service) enter(ctx context.Context, tenant, step string) error {
	leads, err := s.cfg.Leads(ctx)
	if err == nil && !leads {
		err = errNotLeading
	}
	if err != nil {
		return err
	}
	err = s.cfg.DB.WithContext(ctx).Model(&row{}).Where("tenant = ? AND state = ?", tenant, string(Erasing)).Updates(map[string]any{"step": step, "failure": ""}).Error
	return database.Unavailable("note the step", err)
}

// count counts the rows of a tenant in every table that has some, in one view of the database.
func (s *Service) count(ctx context.Context, tenant string) (out []Count, err error) {
	err = database.Snapshot(ctx, s.cfg.DB, func(tx *gorm.DB) error {
		out = nil
		for _, p := range slices.Concat(kept(), rows(), staying()) {
			c := Count{Table: p.table}
			if err := tx.Raw("SELECT COUNT(*) FROM "+p.table+" WHERE "+p.where, tenant).Scan(&c.Before).Error; err != nil {
				return err
			}
			out = append(out, c)
		}
		return nil
	})
	return out, database.Unavailable("count what is the tenant's", err)
}

func staying() (out []part) {
	for _, code := range []string{StaysRecords, StaysProofs, StaysBooks, StaysAgreements, StaysTenant} {
		out = append(out, stays()[code]...)
	}
	return out
}

// writePlan writes down what there is, once: whatever an attempt finds later is less.
func (s *Service) writePlan(ctx context.Context, r row) (p plan, err error) {
	if r.Plan != "" {
		return r.planned()
	}
	if err := s.cfg.Audit.Flush(ctx); err != nil { // what is on its way counts
		return plan{}, database.Unavailable("seal", err)
	}
	counts, err := s.count(ctx, r.Tenant)
	if err != nil {
		return plan{}, err
	}
	p = plan{Counts: map[string]int64{}, Documents: map[int64]int64{}}
	for _, c := range counts {
		p.Counts[c.Table] = c.Before
	}
	db := s.cfg.DB.WithContext(ctx)
	for use, table := range map[string]string{"texts": "audit_subject_keys", "values": "vault_keys"} {
		var keys []Key
		if err := db.Raw("SELECT id, epoch FROM "+table+" WHERE tenant = ? ORDER BY id", r.Tenant).Scan(&keys).Error; err != nil {
			return plan{}, database.Unavailable("list the keys", err)
		}
		for i := range keys {
			keys[i].Use = use
		}
		p.Keys = append(p.Keys, keys...)
	}
	var documents []struct{ Epoch, N int64 }
	if err := db.Raw("SELECT epoch, COUNT(*) AS n FROM rag_versions WHERE "+ofCollection+" GROUP BY epoch", r.Tenant).Scan(&documents).Error; err != nil {
		return plan{}, database.Unavailable("list the documents", err)
	}
	for _, d := range documents {
		p.Documents[d.Epoch] = d.N
	}
	slices.SortFunc(p.Keys, func(a, b Key) int { return strings.Compare(a.Use+a.ID, b.Use+b.ID) })
	raw, err := json.Marshal(p)
	if err != nil {
		return plan{}, fmt.Errorf("write the plan: %w", err)
	}
	err = db.Model(&row{}).Where("tenant = ? AND state = ? AND plan = ''", r.Tenant, string(Erasing)).Update("plan", string(raw)).Error
	return p, database.Unavailable("write the plan", err)
}

func (s *Service) eraseTexts(ctx context.Context, r row) error {
	pass, err := r.pass()
	if err != nil {
		return err
	}
	_, err = s.cfg.Audit.EraseTenant(ctx, retention.Order{
		Tenant: r.Tenant, By: r.actor(), Pass: pass, Detail: map[string]string{"offboarding": at(r.Begun).Format(time.RFC3339Nano)},
	}, func(people int) { s.note(r.Tenant, func(p *Progress) { p.People = people }) })
	return err
}

func (s *Service) eraseValues(ctx context.Context, r row) error {
	removal := s.cfg.Guard.Values().EraseTenant(r.Tenant)
	err := s.withoutHold(ctx, r, func(tx *gorm.DB) error {
		if err := removal.Lock(tx); err != nil {
			return err
		}
		return removal.Delete(tx)
	})
	if err != nil {
		return err
	}
	ended, end := context.WithCancel(ctx)
	end()
	removal.AwaitReplicas(ended) // what others remember does not matter: none of them stores a value for a closed tenant
	return nil
}

func (s *Service) withoutHold(ctx context.Context, r row, do func(tx *gorm.DB) error) error {
	pass, err := r.pass()
	if err != nil {
		return err
	}
	return s.cfg.Audit.WithoutHold(ctx, r.Tenant, r.actor(), pass, func(*gorm.DB) (retention.Reach, error) { return everything(), nil }, do)
}

// eraseRows deletes the rows that no concern has erased before, and tells the replicas. A counter that moves first puts its concern's writers in a queue.
func (s *Service) eraseRows(ctx context.Context, r row) error {
	err := s.withoutHold(ctx, r, func(tx *gorm.DB) error {
		if database.IsSQLite(tx) { // what is deleted is overwritten
			if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
				return err
			}
		}
		for _, name := range counters() {
			if err := tx.Exec("UPDATE "+name+"_changes SET version = version + 1 WHERE name = ?", name).Error; err != nil {
				return err
			}
		}
		for _, p := range rows() {
			if err := tx.Exec("DELETE FROM "+p.table+" WHERE "+p.where, r.Tenant).Error; err != nil {
				return fmt.Errorf("%s: %w", p.table, err)
			}
		}
		return nil
	})
	if err == nil {
		s.drop(r.Tenant)
	}
	return err
}

// rewritten are the tables that PostgreSQL writes anew at the end, while nobody else reads them: small ones, with names, digests of passwords and keys,
// and wrapped keys, without which the ciphertexts of dead rows are nothing. Those of the others are ciphertexts, vectors and figures, whose pages it uses
// again.
func rewritten() []string {
	return []string{
		"vault_keys", "audit_subject_keys", "identity_service_accounts", "identity_service_keys", "identity_invitations", "identity_users", "identity_keys", "identity_projects", "identity_sessions", "identity_factors", "identity_recovery_codes", "identity_passwords", "identity_bindings",
		"identity_grants", "policy_documents", "billing_budgets", "access_reviews", "access_review_items", "act_approvals", "reveal_approvals", "erasure_approvals",
		"file_blobs", "batch_batches", "reply_replies", "signature_seeds", "watermark_keys", "registry_tenants",
	}
}

// cleanFiles removes what deleted rows left in the files of the database. SQLite writes the whole file anew and empties its log.
func (s *Service) cleanFiles(ctx context.Context, _ row) error {
	db := s.cfg.DB.WithContext(ctx)
	statements := []string{"VACUUM"}
	if !database.IsSQLite(db) {
		statements = nil
		for _, table := range rewritten() {
			statements = append(statements, "VACUUM FULL "+table)
		}
		for _, p := range slices.Concat(kept(), rows()) {
			if !slices.Contains(rewritten(), p.table) {
				statements = append(statements, "VACUUM "+p.table)
			}
		}
	}
	for _, statement := range statements {
		if err := db.Exec(statement).Error; err != nil {
			return database.Unavailable("clean the pages of the database", err)
		}
	}
	return s.cfg.Audit.EmptyDatabaseLog(ctx)
}

// certify makes the report and its record, which is durable and sealed before the tenant counts as erased.
func (s *Service) certify(ctx context.Context, r row, p plan) error {
	report, err := s.report(ctx, r, p)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("certify the erasure: %w", err)
	}
	sum := sha256.Sum256(raw)
	receipt, err := s.cfg.Audit.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: r.Tenant, Actor: r.actor(), Action: retention.ActionTenantErased, Resource: r.Tenant, Decision: "allow", Outcome: "ok",
		Detail: report.detail(hex.EncodeToString(sum[:])),
	})
	if err == nil && receipt.Writer == "" { // a tenant whose mode is best-effort
		err = fault.New(fault.CodeAuditUnavailable)
	}
	if err == nil {
		err = s.cfg.Audit.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("certify the erasure: %w", err)
	}
	now := s.now().UnixMicro()
	err = s.cfg.DB.WithContext(ctx).Model(&row{}).Where("tenant = ? AND state = ?", r.Tenant, string(Erasing)).Updates(map[string]any{
		"state": string(Erased), "report": string(raw), "certificate": receipt.ID, "erased": now, "changed": now, "step": "", "failure": "",
	}).Error
	return database.Unavailable("note the end of the erasure", err)
}

// sweep erases what came of an erased tenant after all, and records how much that was.
func (s *Service) sweep(ctx context.Context, r row) error {
	left, err := s.count(ctx, r.Tenant)
	if err != nil {
		return err
	}
	detail := map[string]string{"certificate": r.Certificate}
	for _, c := range left {
		if c.Before > 0 && Goes(c.Table) {
			detail[c.Table] = strconv.FormatInt(c.Before, 10)
		}
	}
	if len(detail) == 1 {
		return nil
	}
	err = s.leading(ctx, func(ctx context.Context) error { return s.destroy(ctx, r, func(string) error { return nil }) })
	if err != nil {
		return err
	}
	_, err = s.cfg.Audit.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: r.Tenant, Actor: audit.Actor{Kind: "system", ID: "offboarding"}, Action: "offboarding.swept", Resource: r.Tenant, Decision: "allow",
		Outcome: "ok", Detail: detail,
	})
	return err
}
