package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Subject is [Subject] under the keys of this log.
func (l *Log) Subject(tenant, who string) string { return Subject(l.contents.keys, tenant, who) }

// Kept says how many keys and texts are kept of a subject: what an erasure would destroy.
func (l *Log) Kept(ctx context.Context, tenant, subject string) (keys, contents int64, err error) {
	e := retention.Erasure{Tenant: database.Text(tenant), Subject: database.Text(subject)}
	_, err = retention.CountKept(ctx, l.store.DB, &e)
	return e.Keys, e.Contents, err
}

// EmptyDatabaseLog removes what was deleted from the log of the database where it is ours, which it is on SQLite. Error: a long read holds it.
func (l *Log) EmptyDatabaseLog(ctx context.Context) error { return retention.EmptyLog(ctx, l.store.DB) }

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
func (l *Log) Erase(ctx context.Context, o retention.Order) (retention.Erasure, error) {
	if o.Subject == "" {
		return retention.Erasure{}, fault.New(fault.CodeInvalidValue, "subject", fault.Say("value.empty")).WithParam("subject")
	}
	if err := l.Flush(ctx); err != nil { // what is on its way counts
		return retention.Erasure{}, database.Unavailable("erase", err)
	}
	held, err := l.Covering(ctx, o.Tenant, o.By, retention.Reach{Parts: []retention.Part{{Subject: o.Subject}}})
	if err == nil {
		err = retention.Held(held, o.Pass)
	}
	if err != nil {
		return retention.Erasure{}, fmt.Errorf("erase: %w", err)
	}
	l.contents.forget()
	out := retention.Erasure{Tenant: database.Text(o.Tenant), Subject: database.Text(o.Subject)}
	newest, err := retention.CountKept(ctx, l.store.DB, &out)
	if err != nil {
		return retention.Erasure{}, err
	}
	out.Time = max(l.now().UnixMicro(), newest) // the clock of a replica that made a key may be ahead
	if out.Record, err = l.recordErasure(ctx, o, out); err != nil {
		return retention.Erasure{}, database.Unavailable("record the erasure", err)
	}
	if err := l.Keeper.Destroy(ctx, &out, o, l.now().UnixMicro()); err != nil {
		err = database.Unavailable("erase", err)
		return retention.Erasure{}, errors.Join(err, l.recordFailure(ctx, o.By, out, err))
	}
	out.Done = true
	l.contents.forget()
	return l.finish(ctx, o.By, out)
}

// Finish ends an erasure of a person that an approval let pass a hold and that is not complete, and reports whether there is one. It destroys
// copies of what is gone from the database, and nothing else: so it needs no approval, and asks no hold. Errors: as of Erase.
func (l *Log) Finish(ctx context.Context, tenant, subject, approval string, by Actor) (out retention.Erasure, found bool, err error) {
	open, err := retention.Uncertified(ctx, l.store.DB, database.Text(tenant), database.Text(subject))
	if err != nil {
		return retention.Erasure{}, false, err
	}
	for _, e := range open {
		if e.Detail["approval"] == approval {
			out, err = l.finish(ctx, by, e)
			return out, true, err
		}
	}
	return retention.Erasure{}, false, nil
}

// finish removes the copies of what was erased from pages and files, and certifies what of this person was erased before that and is not certified.
func (l *Log) finish(ctx context.Context, by Actor, out retention.Erasure) (retention.Erasure, error) {
	open, oerr := retention.Uncertified(ctx, l.store.DB, out.Tenant, out.Subject)
	err := errors.Join(retention.Scrub(ctx, l.store.DB), l.emptySegments(ctx))
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
func (l *Log) certify(ctx context.Context, by Actor, of string, open []retention.Erasure) (string, error) {
	certificates := map[string]string{}
	for _, x := range open {
		e := Event{
			Stage: StageAction, Tenant: x.Tenant, Actor: by, Action: retention.ActionErased, Resource: x.Subject, Decision: "allow", Outcome: "ok", Detail: map[string]string{},
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
	return retention.Certify(ctx, l.store.DB, certificates, of)
}

// recordErasure makes the record of an erasure durable and sealed, and returns its id: nothing is destroyed before.
func (l *Log) recordErasure(ctx context.Context, o retention.Order, out retention.Erasure) (string, error) {
	id, err := l.appendErasure(ctx, o, out)
	if err == nil {
		err = l.Flush(ctx)
	}
	return id, err
}

// appendErasure makes the record of an erasure durable, and returns its id. It is to be sealed before anything is destroyed.
func (l *Log) appendErasure(ctx context.Context, o retention.Order, out retention.Erasure) (string, error) {
	e := Event{
		Stage: StageAction, Time: out.Time, Tenant: o.Tenant, Actor: o.By, Action: retention.ActionErase, Resource: o.Subject, Decision: "allow", Outcome: "ok",
		Detail: map[string]string{},
	}
	maps.Copy(e.Detail, o.Detail)
	maps.Copy(e.Detail, map[string]string{
		"keys": strconv.FormatInt(out.Keys, 10), "contents": strconv.FormatInt(out.Contents, 10), "time": strconv.FormatInt(out.Time, 10),
	})
	var err error
	if e.Detail[retention.AttestationKey], err = retention.Attest(l.signer, e); err != nil {
		return "", err
	}
	receipt, err := l.Append(ctx, e)
	if err == nil && receipt.Writer == "" { // a tenant whose mode is best-effort
		err = fault.New(fault.CodeAuditUnavailable).WithRetryAfter(retryAfter)
	}
	return receipt.ID, err
}

// recordFailure says that what the record of an erasure says did not happen, or not all of it.
func (l *Log) recordFailure(ctx context.Context, by Actor, out retention.Erasure, why error) error {
	f := fault.Public(why)
	e := Event{
		Stage: StageAction, Tenant: out.Tenant, Actor: by, Action: retention.ActionErasureFailed, Resource: out.Subject, Decision: "allow", Outcome: "failed",
		ErrorKind: f.Kind().String(), ErrorCode: string(f.Code()), Detail: map[string]string{"erasure": out.Record},
	}
	if retention.Refused(why) {
		e.Action, e.Decision, e.Outcome = retention.ActionErasureRefused, "refuse", "refused"
	}
	_, err := l.Append(context.WithoutCancel(ctx), e)
	return err
}

// WhenErased has fn called with the tenant of every erasure, whichever replica makes it, within seconds. Set it before [Log.Run].
func (l *Log) WhenErased(fn func(tenant string)) { l.erased = fn }

// Erasures returns the erasures of a tenant, of all for "", oldest first. A site keeps the list apart from the backups of its database: what
// was erased after a backup must be erased again when it is restored.
func (l *Log) Erasures(ctx context.Context, tenant string) ([]retention.Erasure, error) {
	return retention.Erasures(ctx, l.store.DB, tenant)
}

// heedErasures drops the keys in memory and turns to new segments when somebody, this replica or another, has erased since the last call, and
// tells whoever else keeps something. The caller holds the lock on work.
func (l *Log) heedErasures(ctx context.Context) error {
	n, err := retention.CountErasures(ctx, l.store.DB)
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

// emptySegments waits until every segment of the write-ahead log that holds wrapped keys or marks now is retired.
func (l *Log) emptySegments(ctx context.Context) error {
	var paths []string
	for _, w := range l.logs() {
		paths = append(paths, w.Turn()...)
	}
	wait := time.NewTicker(20 * time.Millisecond)
	defer wait.Stop()
	for {
		if err := l.pass(ctx, true); err != nil && !errors.Is(err, seal.ErrNotSealer) {
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

// Others reports whether other processes than this one may have a write-ahead log, which only they can empty: whether another writer is known, of
// which nobody has found that it is over. tx is the transaction that asks; nil for none.
func (l *Log) Others(ctx context.Context, tx *gorm.DB) (bool, error) {
	var mine []string
	for _, w := range l.logs() {
		mine = append(append(mine, w.Writer), w.Former...)
	}
	if tx == nil {
		tx = l.store.DB
	}
	var n int64
	err := tx.WithContext(ctx).Model(&store.WriterRow{}).Where("drained < ? AND writer NOT IN ?", int64(store.Forever), mine).Count(&n).Error
	return n > 0, database.Unavailable("look for other writers", err)
}
