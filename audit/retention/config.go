package retention

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
)

// MinRecordsDays is the least that any configuration keeps records for: 190 days cover 180 days and any six months.
const MinRecordsDays = 190

const (
	leastSensitiveDays = 1096 // any three years
	maxDays            = 36500
)

// Day is the unit of times to keep.
const Day = 24 * time.Hour

// ActionPrune is the action of the record that a pruning leaves; its resource is the range of positions, [LongTermResource] when only records whose
// longer time is over were removed.
const ActionPrune = "audit.prune"

// LongTermResource is the resource of the record that says which positions left the long-term store.
const LongTermResource = "vault"

// Config says how long records are kept before they may be pruned. Zero values mean the defaults in brackets, which nothing undercuts.
type Config struct {
	// RecordsDays is how long records stay [190].
	RecordsDays int `koanf:"records_days"`
	// SensitiveDays is how long records stay of personal data handed to a remote engine, of policy changes, exports and holds, of
	// erasures asked for, of the reading of kept texts, and of agreements on answers without a visible label, which last for two years at most, so that these
	// records stay for six months after their end and longer [1096].
	SensitiveDays int `koanf:"sensitive_days"`
	// TenantDays is how long all records of single tenants stay, where that is longer.
	TenantDays map[string]int `koanf:"tenant_days"`
	// ArchiveDir takes the evidence bundle of what is pruned; without it nothing ever is [none].
	ArchiveDir string `koanf:"archive_dir"`
}

// WithDefaults fills the zero values.
func (r Config) WithDefaults() Config {
	if r.RecordsDays == 0 {
		r.RecordsDays = MinRecordsDays
	}
	if r.SensitiveDays == 0 {
		r.SensitiveDays = max(leastSensitiveDays, r.RecordsDays)
	}
	return r
}

// Validate returns everything that is wrong, each with its key.
func (r Config) Validate() []error {
	r = r.WithDefaults()
	var errs []error
	days := func(name string, n, least int) {
		if n < least || n > maxDays {
			errs = append(errs, fmt.Errorf("retention.%s: must lie between %d and %d", name, least, maxDays))
		}
	}
	days("records_days", r.RecordsDays, MinRecordsDays)
	days("sensitive_days", r.SensitiveDays, max(leastSensitiveDays, min(r.RecordsDays, maxDays)))
	tenants := make([]string, 0, len(r.TenantDays))
	for tenant := range r.TenantDays {
		tenants = append(tenants, tenant)
	}
	slices.Sort(tenants)
	for _, tenant := range tenants {
		days("tenant_days."+tenant, r.TenantDays[tenant], MinRecordsDays)
	}
	return errs
}

// The classes of records, which decide how long they stay.
const (
	classRecord    = "record"
	classSensitive = "sensitive"
	classLasting   = "lasting" // explains what is gone, so it never goes
)

// retentionOf is the class of a record.
func retentionOf(e record.Event) string {
	switch e.Action {
	case ActionPrune, ActionErase, ActionErased, ActionTenantErased:
		return classLasting
	case "admin.publishPolicy", "admin.exportAudit", "admin.exportTenant", "admin.eraseTenant", "admin.createHold", "admin.releaseHold", "admin.eraseSubject", "admin.eraseValues", "admin.requestErasureApproval",
		"admin.approveErasure", "admin.declineErasure", "admin.askLabelAgreement", "admin.approveLabelAgreement", "admin.revokeLabelAgreement", "admin.exportLabelAgreements", ActionErasureRefused, ActionErasureFailed, "admin.getAuditContent":
		return classSensitive
	}
	if remoteEngine(e) && slices.ContainsFunc(e.Findings, func(f record.Finding) bool { return f.Done() == "observe" }) {
		return classSensitive
	}
	return classRecord
}

// remoteEngine says whether the engine of a record is not our own: personal data that it was given left the house.
func remoteEngine(e record.Event) bool {
	name, _, _ := strings.Cut(e.Model.Engine, "/") // its version follows
	return name != "" && name != "native"
}

// base is the time up to which records of the shortest class are due.
func (r Config) base(now time.Time) int64 {
	return now.Add(-time.Duration(r.RecordsDays) * Day).UnixMicro()
}

// until is the time up to which a record has to stay, and the reason when that is longer than for most.
func (r Config) until(e record.Event) (int64, string) {
	days, reason := r.RecordsDays, ""
	switch retentionOf(e) {
	case classLasting:
		return math.MaxInt64, classLasting
	case classSensitive:
		days, reason = r.SensitiveDays, classSensitive
	}
	if n := r.TenantDays[e.Tenant]; n > days {
		days, reason = n, "tenant"
	}
	return after(e.Time, time.Duration(days)*Day), reason
}

// after adds without running over: a record can claim any time.
func after(at int64, d time.Duration) int64 {
	if at > math.MaxInt64-d.Microseconds() {
		return math.MaxInt64
	}
	return at + d.Microseconds()
}

// Hold keeps records from being pruned, and what is kept beside them from being erased, for as long as it is not released. Empty fields select all; From and To are unix microseconds of
// the records, To is exclusive and 0 is open.
type Hold struct {
	ID         string
	Tenant     string
	Request    string
	Actor      string
	Subject    string // of one person, as audit.Subject returns it
	From       int64
	To         int64
	Reason     string
	Created    int64
	CreatedBy  string
	Released   int64 // 0 while it holds
	ReleasedBy string
	Releaser   string // the account; "" where it was none, as on the command line, or is not known
}

// ActorID is how the log knows somebody again: by the id, a command by the account that started it.
func ActorID(a record.Actor) string {
	if a.Kind == "user" {
		return a.ID
	}
	return a.Kind + "/" + a.ID + "/" + a.Name
}

// subjects says whose a record is: that of the person on whose behalf it is, else of the actor.
type subjects func(tenant, who string) string

func (of subjects) record(e record.Event) string {
	if e.Actor.OnBehalfOf != "" {
		return e.Actor.OnBehalfOf
	}
	return of(e.Tenant, e.Actor.ID)
}

// Matches says whether the hold keeps a record.
func (h Hold) Matches(e record.Event, of subjects) bool {
	same := func(want, have string) bool { return want == "" || want == database.Text(have) }
	actor := same(h.Actor, e.Actor.ID) || e.Actor.OnBehalfOf != "" && e.Actor.OnBehalfOf == of(e.Tenant, h.Actor) // with a key of his own
	// A part of a request has the id of the whole, a dot and a word.
	request := same(h.Request, e.Request) || strings.HasPrefix(e.Request, h.Request+".")
	return same(h.Tenant, e.Tenant) && request && actor && (h.From == 0 || e.Time >= h.From) && (h.To == 0 || e.Time < h.To) &&
		(h.Subject == "" || h.Subject == of.record(e))
}

// held returns the reason why a hold keeps a record, "" without one.
func held(holds []Hold, e record.Event, of subjects) string {
	for _, h := range holds {
		if h.Matches(e, of) {
			return "hold " + h.ID
		}
	}
	return ""
}

// Keeps says whether a record that is past the shortest time has to stay, why, and until when.
func (r Config) Keeps(e record.Event, holds []Hold, of subjects, now time.Time) (until int64, reason string, stays bool) {
	until, reason = r.until(e)
	if until > now.UnixMicro() {
		return until, reason, true
	}
	if hold := held(holds, e, of); hold != "" {
		return until, hold, true
	}
	return until, "", false
}

// LeastUntil is the time up to which no configuration lets a record go.
func LeastUntil(e record.Event) int64 {
	until, _ := Config{}.WithDefaults().until(e)
	return until
}
