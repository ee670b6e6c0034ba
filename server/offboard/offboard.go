package offboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// State says how far an offboarding has come.
type State string

// The states, in their order.
const (
	Suspended State = "suspended" // begun
	Exporting State = "exporting"
	Exported  State = "exported" // or declined with a reason
	Erasing   State = "erasing"
	Erased    State = "erased"
)

// The codes of what stays. They are in records and certificates, so they never change.
const (
	StaysRecords    = "records"    // of the audit log
	StaysProofs     = "proofs"     // that something was erased or held
	StaysBooks      = "books"      // usage, statements and corrections, and counts of the service level
	StaysAgreements = "agreements" // on answers without a visible label, and with whom
	StaysTenant     = "tenant"     // the id, so that nobody gets it
	StaysPages      = "pages"      // of PostgreSQL, until they are used again
	StaysLog        = "wal"        // of a database that is not ours to empty
	StaysSpill      = "spill"      // of the engine
	StaysBackups    = "backups"    // of the database
	StaysRemote     = "remote"     // engines outside
	StaysCallers    = "callers"    // who had the answers
	StaysReplicas   = "replicas"   // whose logs they empty themselves, at the next sealing
	StaysPassages   = "passages"   // in files of servers, until each has followed and purged
)

// Permitted says what an export may contain beside what is the tenant's in any case. Zero values permit nothing.
type Permitted struct {
	Texts  bool `koanf:"export_texts"`  // kept prompts and answers
	Values bool `koanf:"export_values"` // behind pseudonyms
}

// Config is what a service works on.
type Config struct {
	DB        *gorm.DB
	Audit     *audit.Log
	Identity  *identity.Identity
	Guard     *governance.Guard
	Ledger    *billing.Ledger
	Keys      *keyring.Ring
	Permitted Permitted
	Forget    func(tenant string)                     // the tenant's part of the caches of this process
	Leads     func(ctx context.Context) (bool, error) // takes or prolongs the lead; concurrent calls
	Remote    bool                                    // there are engines outside, which may keep what they were sent
	Spill     bool                                    // the engine has a spill file
	Log       *slog.Logger

	Poll    time.Duration // between looks at what is to be done; 0: two seconds
	Retry   time.Duration // after an erasure broke off; 0: 30 seconds
	Prolong time.Duration // between turns that keep the lead while something is erased; 0: 20 seconds
}

// Service offboards tenants. It is safe for concurrent use.
type Service struct {
	cfg  Config
	now  func() time.Time
	wake chan struct{}

	mu        sync.Mutex // guards what follows
	forgotten map[string]int64
	progress  map[string]Progress
}

// Progress says how far the work of this replica on a tenant is.
type Progress struct {
	Files, Bytes int64 // of an export
	People       int   // whose texts were erased in this attempt
}

// New returns a service over a migrated database. It does nothing until [Service.Run].
func New(cfg Config) *Service {
	if cfg.Poll == 0 {
		cfg.Poll = 2 * time.Second
	}
	if cfg.Retry == 0 {
		cfg.Retry = 30 * time.Second
	}
	if cfg.Prolong == 0 {
		cfg.Prolong = 20 * time.Second
	}
	if cfg.Forget == nil {
		cfg.Forget = func(string) {}
	}
	return &Service{cfg: cfg, now: time.Now, wake: make(chan struct{}, 1), forgotten: map[string]int64{}, progress: map[string]Progress{}}
}

// Offboarding is where a tenant stands.
type Offboarding struct {
	Tenant, Reason string
	State          State
	Since, Begun   time.Time // of the suspension; of the offboarding
	BegunBy        string    // name
	Exported       time.Time
	ExportedBy     string
	ExportDigest   string // SHA-256 of the manifest
	ExportFiles    int64
	ExportBytes    int64
	Declined       string // why there is no export
	Plan           string // what an erasure names: this tenant, in this suspension, with this export
	Erasing        time.Time
	ErasingBy      string
	Step           string
	Failure        fault.Code // of the last attempt; "": it goes on
	Attempted      time.Time
	Progress       Progress
	Erased         time.Time
	Certificate    string // id of the record
	Counts         []Count
	Holds          []retention.Covered // that refuse the erasure to whoever asks
}

// Count is how many rows of a table are the tenant's.
type Count struct {
	Table  string `json:"table"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

type row struct {
	Tenant, State               string
	Since                       int64
	Reason                      string
	Begun                       int64
	BegunBy, BegunName          string
	Exported                    int64
	ExportedName, ExportDigest  string
	ExportFiles, ExportBytes    int64
	Declined                    string
	Erasing                     int64
	ErasingBy, ErasingName      string
	Holds, Approval, Step, Plan string
	Failure                     string
	Attempted                   int64
	Report, Certificate         string
	Erased, Changed             int64
}

func (row) TableName() string { return "offboarding_tenants" }

func columns() []string {
	return []string{
		"tenant", "state", "since", "reason", "begun", "begun_by", "begun_name", "exported", "exported_name", "export_digest", "export_files", "export_bytes", "declined",
		"erasing", "erasing_by", "erasing_name", "holds", "approval", "step", "plan", "failure", "attempted", "report", "certificate", "erased", "changed",
	}
}

func at(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

func (r row) public() Offboarding {
	return Offboarding{
		Tenant: r.Tenant, Reason: r.Reason, State: State(r.State), Since: at(r.Since), Begun: at(r.Begun), BegunBy: r.BegunName, Exported: at(r.Exported), ExportedBy: r.ExportedName,
		ExportDigest: r.ExportDigest, ExportFiles: r.ExportFiles, ExportBytes: r.ExportBytes, Declined: r.Declined, Plan: r.binding(), Erasing: at(r.Erasing),
		ErasingBy: r.ErasingName, Step: r.Step, Failure: fault.Code(r.Failure), Attempted: at(r.Attempted), Erased: at(r.Erased), Certificate: r.Certificate,
	}
}

// binding is the digest of what an erasure would erase: what a second person has agreed to for one export or one suspension is good for no other.
func (r row) binding() string {
	raw, _ := json.Marshal([]any{"offboarding/plan/v1", r.Tenant, r.Since, r.Begun, r.Exported, r.ExportDigest, r.Declined}) // of strings and numbers
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// actor is whoever has decided about the erasure.
func (r row) actor() audit.Actor {
	return audit.Actor{Kind: "user", ID: r.ErasingBy, Name: r.ErasingName}
}

func (r row) pass() (holds []string, err error) {
	if r.Holds == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(r.Holds), &holds); err != nil {
		return nil, fmt.Errorf("read the offboarding of %s: %w", r.Tenant, err)
	}
	return holds, nil
}

// Begin begins the offboarding of a suspended tenant, or begins it anew, without an export, where nothing was erased yet. Errors: CodeMissing and
// CodeInvalidValue of the reason; CodeNotFound; CodeConflict for the tenant that runs the installation, for one that is not suspended, and for one that is being
// erased.
func (s *Service) Begin(ctx context.Context, tenant, reason string, by identity.Principal) (Offboarding, error) {
	if err := identity.CheckReason("reason", reason); err != nil {
		return Offboarding{}, err
	}
	t, err := s.suspended(ctx, tenant)
	if err != nil {
		return Offboarding{}, err
	}
	now := s.now().UnixMicro()
	next := row{
		Tenant: tenant, State: string(Suspended), Since: t.Suspension.Since.UnixMicro(), Reason: strings.TrimSpace(reason), Begun: now, BegunBy: by.ID, BegunName: by.Name, Changed: now,
	}
	err = s.cfg.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		res := tx.Where("tenant = ? AND state IN ?", tenant, []State{Suspended, Exporting, Exported}).Delete(&row{})
		if res.Error != nil {
			return res.Error
		}
		var there int64
		if err := tx.Model(&row{}).Where("tenant = ?", tenant).Count(&there).Error; err != nil {
			return err
		}
		if there > 0 {
			return fault.New(fault.CodeConflict, fault.Say("offboard.erasing"))
		}
		return tx.Create(&next).Error
	})
	return next.public(), database.Unavailable("begin the offboarding", err)
}

// suspended returns a tenant that is suspended and may be offboarded.
func (s *Service) suspended(ctx context.Context, id string) (identity.Tenant, error) {
	t, err := s.cfg.Identity.FindTenant(ctx, id)
	switch {
	case err != nil:
		return t, err
	case t.Operator:
		return t, fault.New(fault.CodeConflict, fault.Say("identity.operator_runs"))
	case !t.ClosedAt.IsZero():
		return t, fault.New(fault.CodeConflict, fault.Say("identity.tenant_closed"))
	case t.Suspension.Since.IsZero():
		return t, fault.New(fault.CodeConflict, fault.Say("offboard.not_suspended"))
	}
	return t, nil
}

func (s *Service) find(ctx context.Context, tenant string) (row, error) {
	var all []row
	err := s.cfg.DB.WithContext(ctx).Select(columns()).Where("tenant = ?", database.Text(tenant)).Limit(1).Find(&all).Error
	if err == nil && len(all) == 0 {
		return row{}, fault.New(fault.CodeNotFound, fault.Say("thing.offboarding"), tenant)
	}
	if err != nil {
		return row{}, database.Unavailable("read the offboarding", err)
	}
	return all[0], nil
}

// current is find for what only an offboarding in the present suspension of its tenant may do: one that was resumed and suspended again begins anew.
func (s *Service) current(ctx context.Context, tenant string) (row, error) {
	r, err := s.find(ctx, tenant)
	if err != nil {
		return row{}, err
	}
	if r.State == string(Erasing) || r.State == string(Erased) {
		return row{}, fault.New(fault.CodeConflict, fault.Say("offboard.erasing"))
	}
	t, err := s.suspended(ctx, tenant)
	if err == nil && t.Suspension.Since.UnixMicro() != r.Since {
		err = fault.New(fault.CodeConflict, fault.Say("identity.suspended_again"))
	}
	return r, err
}

// List returns all offboardings, newest first.
func (s *Service) List(ctx context.Context) ([]Offboarding, error) {
	var all []row
	if err := s.cfg.DB.WithContext(ctx).Select(columns()).Order("begun DESC, tenant").Find(&all).Error; err != nil {
		return nil, database.Unavailable("list offboardings", err)
	}
	out := make([]Offboarding, len(all))
	for i, r := range all {
		out[i] = s.seen(r)
	}
	return out, nil
}

func (s *Service) seen(r row) Offboarding {
	out := r.public()
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Progress = s.progress[r.Tenant]
	return out
}

// Get returns the offboarding of a tenant with how much there is and was of it, and with the holds that refuse the erasure to whoever asks. Errors:
// CodeNotFound, CodeDatabaseUnavailable.
func (s *Service) Get(ctx context.Context, tenant string, by audit.Actor) (Offboarding, error) {
	r, err := s.find(ctx, tenant)
	if err != nil {
		return Offboarding{}, err
	}
	out := s.seen(r)
	now, err := s.count(ctx, tenant)
	if err != nil {
		return Offboarding{}, err
	}
	plan, err := r.planned()
	if err != nil {
		return Offboarding{}, err
	}
	for _, c := range now {
		c.After = c.Before
		if r.Plan != "" {
			c.Before = plan.Counts[c.Table]
		}
		out.Counts = append(out.Counts, c)
	}
	if out.State != Erased {
		out.Holds, err = s.cfg.Audit.Covering(ctx, tenant, by, everything())
	}
	return out, err
}

// everything is what the erasure of a tenant destroys, as far as holds go: whoever a hold is about may be among it.
func everything() retention.Reach { return retention.Reach{Unknown: true} }

// Decline notes that no export is wanted, and why. One that was made before another attempt broke off counts no more. Errors: as of Begin; CodeConflict, too,
// where there is one already.
func (s *Service) Decline(ctx context.Context, tenant, reason string, by identity.Principal) (Offboarding, error) {
	if err := identity.CheckReason("reason", reason); err != nil {
		return Offboarding{}, err
	}
	r, err := s.current(ctx, tenant)
	if err == nil && r.State == string(Exported) && r.ExportDigest != "" {
		err = fault.New(fault.CodeConflict, fault.Say("offboard.exported_before"))
	}
	if err != nil {
		return Offboarding{}, err
	}
	now := s.now().UnixMicro()
	return s.change(ctx, r, []State{Suspended, Exporting, Exported}, map[string]any{
		"state": string(Exported), "exported": now, "exported_name": by.Name, "declined": strings.TrimSpace(reason), "changed": now,
		"export_digest": "", "export_files": 0, "export_bytes": 0, // of one before an attempt that broke off
	})
}

// change changes the row of an offboarding that is still the same and in one of these states.
func (s *Service) change(ctx context.Context, r row, in []State, to map[string]any) (Offboarding, error) {
	res := s.cfg.DB.WithContext(ctx).Model(&row{}).Where("tenant = ? AND begun = ? AND state IN ?", r.Tenant, r.Begun, in).Updates(to)
	if res.Error == nil && res.RowsAffected == 0 {
		return Offboarding{}, fault.New(fault.CodeConflict, fault.Say("offboard.changed"))
	}
	if res.Error != nil {
		return Offboarding{}, database.Unavailable("change the offboarding", res.Error)
	}
	r, err := s.find(ctx, r.Tenant)
	return s.seen(r), err
}

// approvalDigest is what the approval of an erasure past holds is good for.
func (s *Service) approvalDigest(r row, holds []string, by audit.Actor) string {
	parts := append([]string{r.Tenant, "tenant", r.binding(), retention.ActorID(by)}, holds...)
	return hex.EncodeToString(s.cfg.Keys.MAC("offboarding/approval/v1", parts...))
}

func holdIDs(held []retention.Covered) (ids []string) {
	for _, c := range held {
		ids = append(ids, c.Hold.ID)
	}
	slices.Sort(ids)
	return ids
}

// RequestOverride asks a second person to let the erasure pass the holds that cover the tenant, as an erasure of a person does. Errors: as of Erase;
// CodeConflict if no hold does.
func (s *Service) RequestOverride(ctx context.Context, tenant, reason string, by audit.Actor) (approval.Approval, error) {
	r, err := s.current(ctx, tenant)
	if err != nil {
		return approval.Approval{}, err
	}
	held, err := s.cfg.Audit.Covering(ctx, tenant, by, everything())
	if err == nil && len(held) == 0 {
		err = fault.New(fault.CodeConflict, fault.Say("erasure.no_hold"))
	}
	if err != nil {
		return approval.Approval{}, err
	}
	counts := map[string]int{"kind/tenant": 1}
	for _, id := range holdIDs(held) {
		counts["hold/"+id] = 1 // as erasure.DescribeApproval reads it
	}
	book := s.cfg.Guard.Approvals()
	a, err := book.New(approval.Approval{
		Tenant: tenant, Kind: approval.KindErasure, Target: r.binding(), Purpose: reason, Counts: counts, AskedBy: retention.ActorID(by), AskedName: by.Name,
	})
	if err != nil {
		return approval.Approval{}, err
	}
	return a, book.AskNow(ctx, a, s.approvalDigest(r, holdIDs(held), by))
}

// Erase decides that the tenant is erased, and closes it: in one transaction, in which no hold covers it, or only such as the approval lets pass,
// which is spent. plan is that of the offboarding as the caller has seen it. [Service.Run] does the rest. Errors: CodeHeld; CodeNotFound; CodeConflict for another plan, another suspension,
// an approval that does not fit, and where no export was made or declined.
func (s *Service) Erase(ctx context.Context, tenant, plan, id string, by audit.Actor) (Offboarding, error) {
	r, err := s.current(ctx, tenant)
	switch {
	case err != nil:
		return Offboarding{}, err
	case r.State != string(Exported):
		return Offboarding{}, fault.New(fault.CodeConflict, fault.Say("offboard.not_exported"))
	case r.binding() != plan:
		return Offboarding{}, fault.New(fault.CodeConflict, fault.Say("offboard.changed")).WithParam("plan")
	}
	held, err := s.cfg.Audit.Covering(ctx, tenant, by, everything())
	if err != nil {
		return Offboarding{}, err
	}
	var pass []string
	if id != "" {
		pass = holdIDs(held)
	}
	holds, err := json.Marshal(pass)
	if err != nil {
		return Offboarding{}, fmt.Errorf("erase the tenant: %w", err)
	}
	now := s.now()
	to := map[string]any{
		"state": string(Erasing), "erasing": now.UnixMicro(), "erasing_by": by.ID, "erasing_name": by.Name, "holds": string(holds), "approval": "", "step": stepPlan,
		"changed": now.UnixMicro(),
	}
	err = s.cfg.Audit.WithoutHold(ctx, tenant, by, pass, func(*gorm.DB) (retention.Reach, error) { return everything(), nil }, func(tx *gorm.DB) error {
		if len(pass) > 0 {
			if err := s.cfg.Guard.Approvals().Spend(tx, approval.KindErasure, id, s.approvalDigest(r, pass, by)); err != nil {
				return err
			}
			to["approval"] = id
		}
		if err := identity.CloseTenant(tx, tenant, at(r.Since), now); err != nil {
			return err
		}
		res := tx.Model(&row{}).Where("tenant = ? AND begun = ? AND state = ? AND exported = ?", tenant, r.Begun, string(Exported), r.Exported).Updates(to)
		if res.Error == nil && res.RowsAffected == 0 {
			return fault.New(fault.CodeConflict, fault.Say("offboard.changed"))
		}
		return res.Error
	})
	if err != nil {
		return Offboarding{}, err
	}
	if err := s.cfg.Identity.Load(ctx); err != nil {
		s.cfg.Log.Warn("accounts are read again later", slog.Any("error", err))
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	r, err = s.find(ctx, tenant)
	return s.seen(r), err
}
