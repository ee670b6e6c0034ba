package agreement

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// MaxDays is how long an agreement is in force at most. The records of who asked and approved stay for three years, so they outlive its end by more than six months.
const MaxDays = 730

// MaxBetween is of how many agreements [Store.Between] tells at most.
const MaxBetween = 500

const (
	maxText  = 32 << 10 // bytes of the text that is accepted
	maxOpen  = 1000     // agreements of a tenant that are asked for or in force
	minTerm  = 24 * time.Hour
	loadTime = 5 * time.Second // for reading after a change, whose caller may have gone
)

//go:embed responsibilities.txt
var responsibilities string

// State is what an agreement is at a time.
type State string

// The states.
const (
	Asked    State = "asked"    // nobody has approved it yet
	Coming   State = "coming"   // approved, before its first day
	Active   State = "in_force" // answers go without a visible label
	Ended    State = "ended"    // its last day is over
	Lapsed   State = "lapsed"   // its last day was over before anybody approved it
	Declined State = "declined" // revoked before anybody approved it
	Revoked  State = "revoked"
)

// Agreement is one agreement.
type Agreement struct {
	ID, Tenant   string
	Project, Key string // which it is for; "": all of the tenant
	Recipient    string // who gets answers without a visible label
	Contact      string // of the recipient
	Reference    string // of the document that was signed; "" if there is none
	Purpose      string
	Text         string // the responsibilities that were accepted
	Digest       string // SHA-256 of Text, hex
	From, Until  time.Time

	AskedBy, AskedName       string
	Asked                    time.Time
	ApprovedBy, ApprovedName string // "" until somebody has
	Approved                 time.Time
	RevokedBy, RevokedName   string // "" unless somebody has
	Revoked                  time.Time
	Reason                   string // why it was revoked or declined
}

// State returns what the agreement is at a time.
func (a Agreement) State(now time.Time) State {
	switch {
	case !a.Revoked.IsZero() && a.Approved.IsZero():
		return Declined
	case !a.Revoked.IsZero():
		return Revoked
	case a.Approved.IsZero() && !now.Before(a.Until):
		return Lapsed
	case a.Approved.IsZero():
		return Asked
	case now.Before(a.From):
		return Coming
	case !now.Before(a.Until):
		return Ended
	}
	return Active
}

// End returns when answers stopped to go without a visible label under the agreement, or will; zero if it was never approved.
func (a Agreement) End() time.Time {
	switch {
	case a.Approved.IsZero():
		return time.Time{}
	case !a.Revoked.IsZero() && a.Revoked.Before(a.Until):
		return a.Revoked
	}
	return a.Until
}

// Text is the text that recipients accept.
type Text struct{ Body, Digest string }

// Config is what a store works on.
type Config struct {
	DB        *gorm.DB
	Freshness snapshot.Config
	// TextFile has the responsibilities that recipients accept, UTF-8, 32 KiB at most; "": those of this package, in Chinese and English.
	TextFile string
	// Demanded says that nobody gets answers without a visible label unless an agreement is in force, whatever policies say.
	Demanded bool
	// Exists refuses a tenant, a project or a key of it that there is not; the latter two may be "".
	// The key has to be of the project, where both are named.
	Exists func(ctx context.Context, tenant, project, key string) error
	// Fresh refuses an approver who signed in too long ago.
	Fresh   func(who identity.Principal) error
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Store has the agreements.
type Store struct {
	cfg   Config
	text  Text
	known *snapshot.Snapshot[map[string][]term] // by tenant: approved, not revoked, not over when they were read
	now   func() time.Time
}

// New returns a store over migrated tables; nothing is in force before [Store.Load]. Error: of the text file.
func New(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, now: time.Now}
	var err error
	if s.text, err = readText(cfg.TextFile); err != nil {
		return nil, fmt.Errorf("label agreements: %w", err)
	}
	s.known, err = snapshot.New(cfg.Freshness, snapshot.Source[map[string][]term]{
		Name: "label_agreements", Version: s.version, Load: s.load, Now: func() time.Time { return s.now() },
	}, cfg.Log, cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("label agreements: %w", err)
	}
	return s, nil
}

func readText(path string) (Text, error) {
	body := responsibilities
	if path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return Text{}, fmt.Errorf("read label.agreement_text: %w", err)
		}
		body = string(raw)
	}
	body = strings.ReplaceAll(strings.TrimPrefix(body, "\ufeff"), "\r\n", "\n")
	if strings.TrimSpace(body) == "" || len(body) > maxText || !utf8.ValidString(body) || strings.Contains(body, "\x00") {
		return Text{}, errors.New("label.agreement_text: must be a UTF-8 text of at most 32 KiB")
	}
	sum := sha256.Sum256([]byte(body))
	return Text{Body: body, Digest: hex.EncodeToString(sum[:])}, nil
}

// Load reads which agreements are in force.
func (s *Store) Load(ctx context.Context) error { return s.known.Load(ctx) }

// Run follows changes of other replicas until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	s.known.Run(ctx)
	return nil
}

// Text returns what a recipient accepts now.
func (s *Store) Text() Text { return s.text }

// Demanded reports whether the installation demands an agreement of everybody.
func (s *Store) Demanded() bool { return s.cfg.Demanded }

// Effective returns the id of the agreement under which a caller may get answers without a visible label now, "" without one: the one for its key before those
// for its project, and these before those for its tenant. key and project are "" where the caller has none.
func (s *Store) Effective(tenant, project, key string) string {
	all, err := s.known.Get()
	if err != nil { // the snapshot has logged it; the visible label stays in
		return ""
	}
	now, best, rank := s.now().UnixMicro(), "", -1
	for i := range all[tenant] {
		t := &all[tenant][i]
		if now < t.from || now >= t.until || t.project != "" && t.project != project || t.key != "" && t.key != key {
			continue
		}
		if r := t.rank(); r > rank {
			best, rank = t.id, r
		}
	}
	return best
}

// term is when and for whom an agreement is in force.
type term struct {
	id, project, key string
	from, until      int64
}

// rank is greater the fewer callers an agreement is for.
func (t *term) rank() int {
	switch {
	case t.key != "":
		return 2
	case t.project != "":
		return 1
	}
	return 0
}

// NewAgreement asks for an agreement.
type NewAgreement struct {
	Tenant, Project, Key                   string
	Recipient, Contact, Reference, Purpose string
	TextDigest                             string    // of the text that the recipient has accepted
	From, Until                            time.Time // From may be zero, or over: then it is now
}

// Ask stores an agreement that waits for a second person. Errors: CodeNeedsPerson unless a person asks, since who owns a service account could approve what it
// asks for; CodeMissing and CodeInvalidValue for what is said of the recipient and for the time, which is a day at least; CodeNotFound for the tenant, the
// project or the key; CodeConflict for a text that is not the one in use, and while too many wait or are in force.
func (s *Store) Ask(ctx context.Context, in NewAgreement, by identity.Principal) (Agreement, error) {
	if by.Kind != "user" {
		return Agreement{}, fault.New(fault.CodeNeedsPerson)
	}
	if err := s.check(in); err != nil {
		return Agreement{}, err
	}
	if err := s.cfg.Exists(ctx, in.Tenant, in.Project, in.Key); err != nil {
		return Agreement{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Agreement{}, fmt.Errorf("ask for a label agreement: %w", err)
	}
	now := micros(s.now())
	a := Agreement{
		ID: id.String(), Tenant: in.Tenant, Project: in.Project, Key: in.Key, Recipient: in.Recipient, Contact: in.Contact, Reference: in.Reference,
		Purpose: in.Purpose, Text: s.text.Body, Digest: s.text.Digest, From: micros(later(in.From, now)), Until: micros(in.Until), AskedBy: by.ID, AskedName: by.Name, Asked: now,
	}
	return a, s.create(ctx, a)
}

func micros(t time.Time) time.Time { return t.Truncate(time.Microsecond).UTC() }

func (s *Store) check(in NewAgreement) error {
	now := s.now()
	return errors.Join(
		identity.CheckText("recipient", in.Recipient), identity.CheckText("contact", in.Contact), identity.CheckReason("purpose", in.Purpose),
		optional("reference", in.Reference), s.checkTime(in, now), s.checkDigest(in.TextDigest),
	)
}

func optional(param, value string) error {
	if value == "" {
		return nil
	}
	return identity.CheckText(param, value)
}

func (s *Store) checkTime(in NewAgreement, now time.Time) error {
	if in.Until.Before(later(in.From, now).Add(minTerm)) || in.Until.After(now.AddDate(0, 0, MaxDays)) {
		return fault.New(fault.CodeInvalidValue, "until", fault.Say("agreement.time", MaxDays)).WithParam("until")
	}
	return nil
}

func (s *Store) checkDigest(digest string) error {
	switch digest {
	case s.text.Digest:
		return nil
	case "":
		return fault.New(fault.CodeMissing, "text_digest").WithParam("text_digest")
	}
	return fault.New(fault.CodeConflict, fault.Say("agreement.other_text")).WithParam("text_digest")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Approve puts an agreement in force that somebody else has asked for, not before its first day. Errors: CodeNotFound; CodeNeedsPerson unless a person
// approves; CodeSecondPerson for the asker, and for an account that is not independent of the asker's, see [approval.Independent]; CodeReauthenticate and CodeStepUp; CodeConflict unless it waits.
func (s *Store) Approve(ctx context.Context, tenant, id string, who identity.Principal) (Agreement, error) {
	if who.Kind != "user" {
		return Agreement{}, fault.New(fault.CodeNeedsPerson)
	}
	if err := s.cfg.Fresh(who); err != nil {
		return Agreement{}, err
	}
	now := micros(s.now())
	return s.change(ctx, "approve a label agreement", tenant, id, func(tx *gorm.DB, a *Agreement) error {
		if a.AskedBy == who.ID {
			return fault.New(fault.CodeSecondPerson)
		}
		if err := approval.Independent(tx, a.AskedBy, who.ID, now); err != nil {
			return err
		}
		if state := a.State(now); state != Asked {
			return conflict(state)
		}
		a.Approved, a.ApprovedBy, a.ApprovedName = now, who.ID, who.Name
		return only(tx.Model(&row{}).Where("id = ? AND approved_at = 0 AND revoked_at = 0", id).
			Updates(map[string]any{"approved_at": now.UnixMicro(), "approved_by": who.ID, "approved_name": who.Name}))
	})
}

// Revoke ends an agreement, or declines one that waits, with a reason: at once here, within two polls elsewhere. Errors: CodeMissing and CodeInvalidValue for the
// reason; CodeNotFound; CodeConflict for one that has ended.
func (s *Store) Revoke(ctx context.Context, tenant, id, reason string, who identity.Principal) (Agreement, error) {
	if err := identity.CheckReason("reason", reason); err != nil {
		return Agreement{}, err
	}
	now := micros(s.now())
	return s.change(ctx, "revoke a label agreement", tenant, id, func(tx *gorm.DB, a *Agreement) error {
		if state := a.State(now); !slices.Contains([]State{Asked, Coming, Active}, state) {
			return conflict(state)
		}
		a.Revoked, a.RevokedBy, a.RevokedName, a.Reason = now, who.ID, who.Name, reason
		return only(tx.Model(&row{}).Where("id = ? AND revoked_at = 0", id).
			Updates(map[string]any{"revoked_at": now.UnixMicro(), "revoked_by": who.ID, "revoked_name": who.Name, "revoke_reason": reason}))
	})
}

func conflict(state State) error {
	return fault.New(fault.CodeConflict, fault.Say("agreement.state", state.phrase()))
}

// phrase says what an agreement is.
func (s State) phrase() fault.Phrase {
	switch s {
	case Asked:
		return fault.Say("agreement.state_asked")
	case Coming:
		return fault.Say("agreement.state_coming")
	case Active:
		return fault.Say("agreement.state_in_force")
	case Ended:
		return fault.Say("agreement.state_ended")
	case Lapsed:
		return fault.Say("agreement.state_lapsed")
	case Declined:
		return fault.Say("agreement.state_declined")
	case Revoked:
		return fault.Say("agreement.state_revoked")
	}
	return fault.Quote(string(s), string(s))
}

// only expects that one row has changed: changes take turns, so it is there.
func only(res *gorm.DB) error {
	if res.Error == nil && res.RowsAffected != 1 {
		return fmt.Errorf("%d label agreements have changed", res.RowsAffected)
	}
	return res.Error
}
