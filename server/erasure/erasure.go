// Package erasure is a façade over everything that keeps what people said: it erases a person, or the values of a conversation, everywhere.
//
// The order is always the same. No hold covers it, or a second person lets it pass; the record is durable; then texts and values are destroyed in
// one transaction, in which the holds are looked at once more and the approval is spent; then the copies of keys in files, and the caches. What
// stays is named by code, with why in the words of who shows it: before anything is destroyed, and afterwards. A second record, made when all is
// done, says how much it was; with its proof it is the certificate. Whatever breaks off is finished by repeating it, with the same approval.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// The codes of what stays. They are in records, so they never change; the management API says what each means.
const (
	StaysRecords      = "records"
	StaysTexts        = "texts"
	StaysDocuments    = "documents"
	StaysFiles        = "files"
	StaysOthers       = "others"
	StaysUnattributed = "unattributed"
	StaysPages        = "pages"
	StaysLog          = "wal"
	StaysSpill        = "spill"
	StaysBackups      = "backups"
	StaysRemote       = "remote"
	StaysCallers      = "callers"
	StaysReplicas     = "replicas"
	StaysFingerprints = "fingerprints"
)

// Config is what an eraser works on.
type Config struct {
	Audit     *audit.Log
	Values    *pseudonym.Store
	Approvals *approval.Store
	Keys      *keyring.Ring
	// Beside removes, in the transaction, what else was made for a person, among it the entries of answers by which texts are traced, and returns how much of
	// what, as the certificate says it; nil if there is nothing.
	Beside func(tx *gorm.DB, tenant, subject string) (map[string]int64, error)
	// Files reports whether a tenant has files or batches, as tx sees them; tx may be nil. They stay: nobody knows whom their lines speak of. nil if there
	// are none.
	Files   func(ctx context.Context, tx *gorm.DB, tenant string) (bool, error)
	Forget  func(tenant string) // the tenant's part of the caches in this process; nil if there are none
	Remote  bool                // there are engines outside, which may keep what they were sent
	Spill   bool                // the engine has a spill file
	Log     bool                // the database has a log that is not ours to empty
	Command bool                // this is a command, and servers may run beside it
	// Tenant refuses a tenant that is not there, with CodeNotFound.
	Tenant func(ctx context.Context, id string) error
}

// Eraser erases. It is safe for concurrent use.
type Eraser struct{ cfg Config }

// New returns an eraser.
func New(cfg Config) *Eraser {
	if cfg.Forget == nil {
		cfg.Forget = func(string) {}
	}
	if cfg.Files == nil {
		cfg.Files = func(context.Context, *gorm.DB, string) (bool, error) { return false, nil }
	}
	return &Eraser{cfg}
}

// Target is a person, or a conversation whose values are erased.
type Target struct {
	Tenant       string
	Subject      string            // digest of the person, "" for
	Conversation *pseudonym.Target // whose values, and nothing else
}

// Figures count what goes.
type Figures struct{ Keys, Contents, Values, Conversations int64 }

// Remainder is something that stays. Count and Until, unix microseconds, are zero where they say nothing.
type Remainder struct {
	Code         string
	Count, Until int64
}

// Preview is what an erasure would do now.
type Preview struct {
	Tenant, Subject string // digest of the person, or of the conversation
	Goes            Figures
	Remainders      []Remainder
	Holds           []retention.Covered // that refuse it to whoever asked for the preview
	Records, Newest int64               // of the person
}

// Override says who let an erasure pass which holds.
type Override struct {
	Approval, ApprovedBy string
	Holds                []string
}

// Result is what an erasure did.
type Result struct {
	Tenant, Subject string
	Gone            Figures
	Stays           []Remainder
	Override        *Override
	Record          string // of the erasure of a person
	Certificate     string // the record that it is done
	Time            int64  // up to which it is erased, unix microseconds
}

func (t Target) kind() string {
	if t.Conversation != nil {
		return "values"
	}
	return "person"
}

// subject is how records and approvals name a target.
func (e *Eraser) subject(t Target) string {
	if t.Conversation != nil {
		return e.cfg.Values.Digest(*t.Conversation)
	}
	return t.Subject
}

func (e *Eraser) removal(t Target) *pseudonym.Erasure {
	if t.Conversation != nil {
		return e.cfg.Values.EraseConversation(*t.Conversation)
	}
	return e.cfg.Values.ErasePerson(t.Tenant, t.Subject)
}

// holdReach is what goes, as far as holds are concerned.
func holdReach(t Target, f pseudonym.Found) retention.Reach {
	out := retention.Reach{Unknown: f.Unknown}
	if t.Conversation == nil {
		out.Parts = append(out.Parts, retention.Part{Subject: t.Subject})
	}
	for _, o := range f.Others {
		out.Parts = append(out.Parts, retention.Part{Subject: o.Subject, From: o.First, To: o.Until})
	}
	return out
}

// Preview says what an erasure by somebody would do. It changes nothing.
func (e *Eraser) Preview(ctx context.Context, t Target, by audit.Actor) (Preview, error) {
	p := Preview{Tenant: t.Tenant, Subject: e.subject(t)}
	if p.Subject == "" {
		return p, fault.New(fault.CodeInvalidValue, "subject", fault.Say("value.empty")).WithParam("subject")
	}
	if t.Tenant == access.AllTenants {
		return p, fault.New(fault.CodeInvalidValue, "tenant", fault.Say("erasure.one_tenant")).WithParam("tenant")
	}
	if err := e.cfg.Tenant(ctx, t.Tenant); err != nil {
		return p, err
	}
	r := e.removal(t)
	if err := r.Preview(ctx); err != nil {
		return p, err
	}
	p.Goes.Values, p.Goes.Conversations = r.Found.Values, r.Found.Scopes
	var err error
	if p.Holds, err = e.cfg.Audit.Covering(ctx, t.Tenant, by, holdReach(t, r.Found)); err != nil {
		return p, err
	}
	if t.Conversation == nil {
		if p.Goes.Keys, p.Goes.Contents, err = e.cfg.Audit.Kept(ctx, t.Tenant, t.Subject); err == nil {
			p.Records, p.Newest, err = e.cfg.Audit.CountRecords(ctx, t.Tenant, t.Subject)
		}
	}
	if err == nil {
		p.Remainders, err = e.remainders(ctx, nil, t, p.Records, r.Found)
	}
	return p, err
}

// remainders lists what an erasure leaves, as tx sees it; nil for none.
func (e *Eraser) remainders(ctx context.Context, tx *gorm.DB, t Target, records int64, f pseudonym.Found) ([]Remainder, error) {
	out := []Remainder{{Code: StaysRecords, Count: records}}
	if t.Conversation != nil {
		out = append(out, Remainder{Code: StaysTexts})
	} else {
		out = append(out, Remainder{Code: StaysDocuments})
		files, err := e.cfg.Files(ctx, tx, t.Tenant)
		if err != nil {
			return nil, err
		}
		if files {
			out = append(out, Remainder{Code: StaysFiles})
		}
		out = append(out, Remainder{Code: StaysOthers})
		if e.cfg.Beside != nil {
			out = append(out, Remainder{Code: StaysFingerprints})
		}
		u, err := e.cfg.Values.Unattributed(ctx, tx, t.Tenant)
		if err != nil {
			return nil, err
		}
		if u.Values > 0 {
			out = append(out, Remainder{Code: StaysUnattributed, Count: u.Values, Until: u.Until})
		}
		others := e.cfg.Command
		if !others {
			if others, err = e.cfg.Audit.Others(ctx, tx); err != nil {
				return nil, err
			}
		}
		if others {
			out = append(out, Remainder{Code: StaysReplicas})
		}
	}
	if f.Pages {
		out = append(out, Remainder{Code: StaysPages})
	}
	if e.cfg.Log {
		out = append(out, Remainder{Code: StaysLog})
	}
	if e.cfg.Spill && t.Conversation == nil {
		out = append(out, Remainder{Code: StaysSpill})
	}
	out = append(out, Remainder{Code: StaysBackups})
	if e.cfg.Remote {
		out = append(out, Remainder{Code: StaysRemote})
	}
	return append(out, Remainder{Code: StaysCallers}), nil
}

// binding is what an approval is good for: this erasure, past these holds, asked for by this actor.
func (e *Eraser) binding(t Target, p Preview, by audit.Actor) string {
	parts := append([]string{t.Tenant, t.kind(), p.Subject, retention.ActorID(by)}, holdIDs(p.Holds)...)
	return fmt.Sprintf("%x", e.cfg.Keys.MAC("erasure/approval/v1", parts...))
}

func holdIDs(held []retention.Covered) (ids []string) {
	for _, c := range held {
		ids = append(ids, c.Hold.ID)
	}
	slices.Sort(ids)
	return ids
}

// holdPrefix is before the id of a hold in the counts of an approval.
const holdPrefix = "hold/"

// Request asks a second person to let an erasure pass the holds that cover it. Errors: as of Preview; CodeConflict if no hold does.
func (e *Eraser) Request(ctx context.Context, t Target, reason string, by audit.Actor) (approval.Approval, error) {
	p, err := e.Preview(ctx, t, by)
	if err != nil {
		return approval.Approval{}, err
	}
	if len(p.Holds) == 0 {
		return approval.Approval{}, fault.New(fault.CodeConflict, fault.Say("erasure.no_hold"))
	}
	counts := map[string]int{
		"kind/" + t.kind(): 1, "keys": int(p.Goes.Keys), "contents": int(p.Goes.Contents), "values": int(p.Goes.Values), "conversations": int(p.Goes.Conversations),
	}
	for _, id := range holdIDs(p.Holds) {
		counts[holdPrefix+id] = 1
	}
	a, err := e.cfg.Approvals.New(approval.Approval{
		Tenant: t.Tenant, Kind: approval.KindErasure, Target: p.Subject, Purpose: reason, Counts: counts, AskedBy: retention.ActorID(by), AskedName: by.Name,
	})
	if err != nil {
		return approval.Approval{}, err
	}
	return a, e.cfg.Approvals.AskNow(ctx, a, e.binding(t, p, by))
}

// DescribeApproval is what an approval of an erasure is for.
func DescribeApproval(a approval.Approval) (kind string, goes Figures, holds []string) {
	kind = "person"
	switch {
	case a.Counts["kind/values"] > 0:
		kind = "values"
	case a.Counts["kind/tenant"] > 0: // asked for by the offboarding of one
		kind = "tenant"
	}
	for what := range maps.Keys(a.Counts) {
		if id, ok := strings.CutPrefix(what, holdPrefix); ok {
			holds = append(holds, id)
		}
	}
	slices.Sort(holds)
	n := func(what string) int64 { return int64(a.Counts[what]) }
	return kind, Figures{n("keys"), n("contents"), n("values"), n("conversations")}, holds
}

// CheckOverride says which holds an erasure would pass now, and who lets it; nil if none covers it. Errors: as of Erase.
func (e *Eraser) CheckOverride(ctx context.Context, t Target, id string, by audit.Actor) (*Override, error) {
	p, err := e.Preview(ctx, t, by)
	if err != nil {
		return nil, err
	}
	return e.checkOverride(ctx, t, p, id, by)
}

func (e *Eraser) checkOverride(ctx context.Context, t Target, p Preview, id string, by audit.Actor) (*Override, error) {
	if len(p.Holds) == 0 {
		return nil, nil
	}
	if id == "" {
		return nil, retention.Held(p.Holds, nil)
	}
	a, err := e.cfg.Approvals.Spendable(ctx, approval.KindErasure, id, e.binding(t, p, by))
	if err != nil {
		return nil, err
	}
	return &Override{Approval: a.ID, ApprovedBy: a.ApprovedName, Holds: holdIDs(p.Holds)}, nil
}

// Erase erases, or refuses with CodeHeld. id is an approval that lets it pass the holds, "" for none; where no hold covers it, it is not spent. One
// that was spent for an erasure that is not complete finishes it, and nothing else is destroyed.
// Errors: CodeHeld; CodeConflict for an approval that does not fit; CodeErasureIncomplete, with a result, when all is gone from the database and
// not yet from files; those of the log, the pseudonym store and the database, after which everything may be there or gone: repeat it.
func (e *Eraser) Erase(ctx context.Context, t Target, id string, by audit.Actor) (Result, error) {
	if id != "" && t.Conversation == nil {
		if done, found, err := e.cfg.Audit.Finish(ctx, t.Tenant, t.Subject, id, by); found || err != nil {
			return e.ended(done, err)
		}
	}
	p, err := e.Preview(ctx, t, by)
	if err != nil {
		return Result{}, err
	}
	out := Result{Tenant: p.Tenant, Subject: p.Subject}
	w := &deletion{eraser: e, target: t, removal: e.removal(t), records: p.Records}
	if out.Override, err = e.checkOverride(ctx, t, p, id, by); err != nil {
		return Result{}, err
	}
	if out.Override != nil {
		w.approval, w.digest = id, e.binding(t, p, by)
	}
	if t.Conversation != nil {
		err = e.cfg.Audit.WithoutHold(ctx, t.Tenant, by, holdIDs(p.Holds), w.Take, w.destroy)
		out.Gone.Values, out.Gone.Conversations = w.removal.Found.Values, w.removal.Found.Scopes
		if err == nil && e.cfg.Audit.EmptyDatabaseLog(ctx) != nil { // they are gone; to repeat it would take another approval
			w.stays = append(w.stays, Remainder{Code: StaysLog})
		}
	} else {
		var done retention.Erasure
		done, err = e.cfg.Audit.Erase(ctx, retention.Order{
			Tenant: t.Tenant, Subject: t.Subject, By: by, Beside: w, Pass: holdIDs(p.Holds), Detail: detail(p, out.Override),
		})
		var ended Result
		ended, err = e.ended(done, err)
		ended.Override = out.Override
		out = ended
	}
	if err != nil && !fault.Is(err, fault.CodeErasureIncomplete) {
		return Result{}, err
	}
	out.Stays = w.stays
	w.removal.AwaitReplicas(ctx)
	return out, err
}

// ended drops the caches behind what the log has erased, and says what that was.
func (e *Eraser) ended(done retention.Erasure, err error) (Result, error) {
	if !done.Done {
		return Result{}, err
	}
	e.cfg.Forget(done.Tenant) // that of other replicas follows when they hear of it
	d := done.Detail
	out := Result{Tenant: done.Tenant, Subject: done.Subject, Record: done.Record, Certificate: done.Certificate, Time: done.Time}
	figure := func(name string) int64 {
		n, _ := strconv.ParseInt(d[name], 10, 64) // written by detail and work.Destroy
		return n
	}
	out.Gone = Figures{Keys: done.Keys, Contents: done.Contents, Values: figure("values"), Conversations: figure("conversations")}
	for _, code := range strings.Fields(d["stays"]) {
		out.Stays = append(out.Stays, Remainder{Code: code})
	}
	if d["approval"] != "" {
		out.Override = &Override{Approval: d["approval"], ApprovedBy: d["approved_by"], Holds: strings.Fields(d["holds"])}
	}
	if err == nil {
		return out, nil
	}
	left := fault.Say("erasure.key_copies")
	if done.Clean {
		left = fault.Say("erasure.uncertified")
	}
	return out, fault.Wrap(err, fault.CodeErasureIncomplete,
		fault.Say("erasure.erased", out.Gone.Keys, out.Gone.Contents, out.Gone.Values, out.Gone.Conversations, out.Record), left)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// detail is what the records of an erasure say besides keys and texts: figures, what stays, and who let it pass what.
func detail(p Preview, o *Override) map[string]string {
	out := map[string]string{"values": number(p.Goes.Values), "conversations": number(p.Goes.Conversations), "records": number(p.Records)}
	out["stays"] = Codes(p.Remainders)
	maps.Copy(out, o.Detail())
	return out
}

// Codes are the codes of what stays, as records have them.
func Codes(stays []Remainder) string {
	var out []string
	for _, s := range stays {
		out = append(out, s.Code)
	}
	return strings.Join(out, " ")
}

// Detail is what the record of the act that erased a person says of it: how much, and the records that it made; nothing if there are none.
func (r Result) Detail() map[string]string {
	if r.Record == "" {
		return nil
	}
	out := map[string]string{
		"erasure": r.Record, "keys": number(r.Gone.Keys), "contents": number(r.Gone.Contents), "values": number(r.Gone.Values), "conversations": number(r.Gone.Conversations),
	}
	if r.Certificate != "" {
		out["certificate"] = r.Certificate
	}
	return out
}

// Detail is what records say of an override; nothing for none.
func (o *Override) Detail() map[string]string {
	if o == nil {
		return nil
	}
	return map[string]string{"approval": o.Approval, "approved_by": o.ApprovedBy, "holds": strings.Join(o.Holds, " ")}
}

// Repeat has persons erased again whom a list of erasures names, after the restore of an older copy of the database for instance. Where a hold
// covers one, or its tenant is not there any more, the others go on; the error names all that did not go.
func Repeat(list []retention.Erasure, erase func(Target) error) error {
	var errs []error
	for _, x := range list {
		err := erase(Target{Tenant: x.Tenant, Subject: x.Subject})
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("tenant %s, person %s: %w", x.Tenant, x.Subject, err))
		if !fault.Is(err, fault.CodeHeld) && !fault.Is(err, fault.CodeNotFound) {
			break
		}
	}
	return errors.Join(errs...)
}

// Deadline is how long an erasure may take after its caller has left: half done helps nobody.
const Deadline = 10 * time.Minute
