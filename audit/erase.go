package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// The actions of the records of an erasure, whose resource is the digest of the subject.
const (
	// ActionErase is that of the record before anything is destroyed. It says what is about to be; those that follow name it in their detail.
	ActionErase = "audit.erase"
	// ActionErased is that of the certificate: everything is gone, from files of this server too, and this is how much it was.
	ActionErased = "audit.erased"
	// ActionErasureRefused takes an erasure back: before anything was destroyed a hold came or an approval went.
	ActionErasureRefused = "audit.erasure_refused"
	// ActionErasureFailed is that of an erasure that broke off: it is to be repeated.
	ActionErasureFailed = "audit.erasure_failed"
)

// Order is an erasure to be made. Only Tenant, Subject and By are needed.
type Order struct {
	Tenant  string
	Subject string // as Subject returns it
	By      Actor
	// Beside is what goes with the texts, in one transaction with them.
	Beside Beside
	// Pass are the ids of holds that a second person lets pass.
	Pass []string
	// Detail is what the record says besides its own figures.
	Detail map[string]string
}

// Erasure says that what was kept of a subject was erased: what had been kept up to Time.
type Erasure struct {
	Tenant   string
	Subject  string // as Subject returns it
	Time     int64  // UTC unix microseconds
	Record   string // that says so
	Keys     int64  // destroyed
	Contents int64
	Done     bool // all of it is gone from the database
	Clean    bool // and from files of this server
	// Certificate is the record that says that it was done, "" for one that is not complete or that an earlier release made.
	Certificate string
	// Detail is what the certificate says; nil in lists.
	Detail map[string]string
}

// Subject is [Subject] under the keys of this log.
func (l *Log) Subject(tenant, who string) string { return Subject(l.contents.keys, tenant, who) }

// Kept says how many keys and texts are kept of a subject: what an erasure would destroy.
func (l *Log) Kept(ctx context.Context, tenant, subject string) (keys, contents int64, err error) {
	e := Erasure{Tenant: database.Text(tenant), Subject: database.Text(subject)}
	_, err = l.store.kept(ctx, &e)
	return e.Keys, e.Contents, err
}

// EmptyDatabaseLog removes what was deleted from the log of the database where it is ours, which it is on SQLite. Error: a long read holds it.
func (l *Log) EmptyDatabaseLog(ctx context.Context) error { return l.store.emptyLog(ctx) }

// Erase destroys what is kept of the prompts and answers of a person: the keys, the ciphertexts, and the copies of both in the pages of the
// database and in the write-ahead log of this replica; other replicas do so to theirs when they next seal. The records stay, and with them every
// proof. What an answer that is being given now keeps under a key made before goes as well. The erasure is itself a record, durable before
// anything is destroyed, and another one, the certificate, when all is done. It may be repeated, after the restore of an old copy for instance.
//
// It is refused, with CodeHeld, if an active hold covers anything of what would go: before the record is made, and once more in the transaction
// that destroys, beside which nobody places a hold. If it is refused there, or fails, another record says so.
//
// An error with an Erasure whose Done is set means that all is gone from the database but not yet from a page or a file, or that there is no
// certificate yet; the erasure is to be repeated then, or finished by [Log.Finish]. Error: CodeDatabaseUnavailable for what has no code.
func (l *Log) Erase(ctx context.Context, o Order) (Erasure, error) {
	if o.Subject == "" {
		return Erasure{}, fault.New(fault.CodeInvalidValue, "subject", fault.Say("value.empty")).WithParam("subject")
	}
	if err := l.Flush(ctx); err != nil { // what is on its way counts
		return Erasure{}, database.Unavailable("erase", err)
	}
	held, err := l.Covering(ctx, o.Tenant, o.By, Reach{Parts: []Part{{Subject: o.Subject}}})
	if err == nil {
		err = Held(held, o.Pass)
	}
	if err != nil {
		return Erasure{}, fmt.Errorf("erase: %w", err)
	}
	l.contents.forget()
	out := Erasure{Tenant: database.Text(o.Tenant), Subject: database.Text(o.Subject)}
	newest, err := l.store.kept(ctx, &out)
	if err != nil {
		return Erasure{}, err
	}
	out.Time = max(l.now().UnixMicro(), newest) // the clock of a replica that made a key may be ahead
	if out.Record, err = l.recordErasure(ctx, o, out); err != nil {
		return Erasure{}, database.Unavailable("record the erasure", err)
	}
	if err := l.store.erase(ctx, &out, o, l.now().UnixMicro()); err != nil {
		err = database.Unavailable("erase", err)
		return Erasure{}, errors.Join(err, l.recordFailure(ctx, o.By, out, err))
	}
	out.Done = true
	l.contents.forget()
	return l.finish(ctx, o.By, out)
}

// Finish ends an erasure of a person that an approval let pass a hold and that is not complete, and reports whether there is one. It destroys
// copies of what is gone from the database, and nothing else: so it needs no approval, and asks no hold. Errors: as of Erase.
func (l *Log) Finish(ctx context.Context, tenant, subject, approval string, by Actor) (out Erasure, found bool, err error) {
	open, err := l.store.uncertified(ctx, database.Text(tenant), database.Text(subject))
	if err != nil {
		return Erasure{}, false, err
	}
	for _, e := range open {
		if e.Detail["approval"] == approval {
			out, err = l.finish(ctx, by, e)
			return out, true, err
		}
	}
	return Erasure{}, false, nil
}

// finish removes the copies of what was erased from pages and files, and certifies what of this person was erased before that and is not certified.
func (l *Log) finish(ctx context.Context, by Actor, out Erasure) (Erasure, error) {
	open, oerr := l.store.uncertified(ctx, out.Tenant, out.Subject)
	err := errors.Join(l.store.scrub(ctx), l.emptySegments(ctx))
	if out.Clean = err == nil; out.Clean {
		if err = oerr; err == nil {
			out.Certificate, err = l.certify(ctx, by, out.Record, open)
		}
	}
	if err != nil {
		err = fmt.Errorf("it is erased from the database and not complete; erase again: %w", err)
		err = errors.Join(err, l.recordFailure(ctx, by, out, fault.Wrap(err, fault.CodeErasureIncomplete)))
	}
	return out, err
}

// certify makes the records that say that all of these erasures are done, durable and sealed, and returns that of one of them. Another process may have
// certified it first: then its record is the certificate.
func (l *Log) certify(ctx context.Context, by Actor, of string, open []Erasure) (string, error) {
	certificates := map[string]string{}
	for _, x := range open {
		e := Event{
			Stage: StageAction, Tenant: x.Tenant, Actor: by, Action: ActionErased, Resource: x.Subject, Decision: "allow", Outcome: "ok", Detail: map[string]string{},
		}
		maps.Copy(e.Detail, x.Detail)
		e.Detail["erasure"] = x.Record
		receipt, err := l.Append(ctx, e)
		if err == nil && receipt.Writer == "" { // a tenant whose mode is best-effort
			err = fault.New(fault.CodeAuditUnavailable).WithRetryAfter(retryAfter)
		}
		if err != nil {
			return "", fmt.Errorf("certify the erasure: %w", err)
		}
		certificates[x.Record] = receipt.ID
	}
	if err := l.Flush(ctx); err != nil {
		return "", fmt.Errorf("certify the erasure: %w", err)
	}
	return l.store.certified(ctx, certificates, of)
}

// recordErasure makes the record of an erasure durable and sealed, and returns its id: nothing is destroyed before.
func (l *Log) recordErasure(ctx context.Context, o Order, out Erasure) (string, error) {
	e := Event{
		Stage: StageAction, Time: out.Time, Tenant: o.Tenant, Actor: o.By, Action: ActionErase, Resource: o.Subject, Decision: "allow", Outcome: "ok",
		Detail: map[string]string{},
	}
	maps.Copy(e.Detail, o.Detail)
	maps.Copy(e.Detail, map[string]string{
		"keys": strconv.FormatInt(out.Keys, 10), "contents": strconv.FormatInt(out.Contents, 10), "time": strconv.FormatInt(out.Time, 10),
	})
	var err error
	if e.Detail[warrantKey], err = l.warrantFor(e); err != nil {
		return "", err
	}
	receipt, err := l.Append(ctx, e)
	if err == nil && receipt.Writer == "" { // a tenant whose mode is best-effort
		err = fault.New(fault.CodeAuditUnavailable).WithRetryAfter(retryAfter)
	}
	if err == nil {
		err = l.Flush(ctx)
	}
	return receipt.ID, err
}

// recordFailure says that what the record of an erasure says did not happen, or not all of it.
func (l *Log) recordFailure(ctx context.Context, by Actor, out Erasure, why error) error {
	f := fault.Public(why)
	e := Event{
		Stage: StageAction, Tenant: out.Tenant, Actor: by, Action: ActionErasureFailed, Resource: out.Subject, Decision: "allow", Outcome: "failed",
		ErrorKind: f.Kind().String(), ErrorCode: string(f.Code()), Detail: map[string]string{"erasure": out.Record},
	}
	if refusedAfter(why) {
		e.Action, e.Decision, e.Outcome = ActionErasureRefused, "refuse", "refused"
	}
	_, err := l.Append(context.WithoutCancel(ctx), e)
	return err
}

// WhenErased has fn called with the tenant of every erasure, whichever replica makes it, within seconds. Set it before [Log.Run].
func (l *Log) WhenErased(fn func(tenant string)) { l.erased = fn }

// Erasures returns the erasures of a tenant, of all for "", oldest first. A site keeps the list apart from the backups of its database: what
// was erased after a backup must be erased again when it is restored.
func (l *Log) Erasures(ctx context.Context, tenant string) ([]Erasure, error) {
	return l.store.erasures(ctx, tenant)
}

// heedErasures drops the keys in memory and turns to new segments when somebody, this replica or another, has erased since the last call, and
// tells whoever else keeps something. The caller holds the lock on work.
func (l *Log) heedErasures(ctx context.Context) error {
	n, err := l.store.countErasures(ctx)
	if err != nil || maps.Equal(n, l.erasures) {
		return err
	}
	l.contents.forget()
	for _, w := range l.logs() {
		w.Turn()
		if err := w.DropCuts(); err != nil {
			return err
		}
	}
	for tenant, now := range n {
		if l.erased != nil && now != l.erasures[tenant] {
			l.erased(tenant)
		}
	}
	l.erasures = n
	return nil
}

// emptySegments waits until every segment of the write-ahead log that holds wrapped keys now is retired.
func (l *Log) emptySegments(ctx context.Context) error {
	var paths []string
	for _, w := range l.logs() {
		paths = append(paths, w.Turn()...)
	}
	wait := time.NewTicker(20 * time.Millisecond)
	defer wait.Stop()
	for {
		if err := l.pass(ctx, true); err != nil && !errors.Is(err, errNotSealer) {
			return fmt.Errorf("empty the write-ahead log: %w", err)
		}
		left := 0
		for _, w := range l.logs() {
			for _, s := range w.Segments() {
				if slices.Contains(paths, s.Path) {
					left++
				}
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("empty the write-ahead log: %d segments still wait: %w", left, ctx.Err())
		case <-wait.C:
		}
	}
}
