package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/internal/database"
)

// tenantBatch is how many people of a tenant are erased behind one sealing of their records.
const tenantBatch = 200

// EraseTenant erases everybody of a tenant of whom something is kept, each as [Log.Erase] does, with the records and certificates of each: a verifier
// who finds a text gone learns from them why. It returns how many people it erased. o names the tenant and no subject. It can be repeated: what an earlier call has not finished this one finishes. seen is told how far it has come.
// Errors: as of Erase; what went before stays erased.
func (l *Log) EraseTenant(ctx context.Context, o retention.Order, seen func(people int)) (people int, err error) {
	if err := l.Flush(ctx); err != nil { // what is on its way counts
		return 0, database.Unavailable("erase", err)
	}
	tenant := database.Text(o.Tenant)
	for {
		l.contents.forget()
		subjects, err := retention.KeptSubjects(ctx, l.store.DB, tenant, tenantBatch)
		if err != nil {
			return people, err
		}
		if len(subjects) == 0 {
			break
		}
		if err := l.eraseEach(ctx, o, subjects); err != nil {
			return people, err
		}
		people += len(subjects)
		seen(people)
	}
	l.contents.forget()
	return people, l.finishTenant(ctx, o.By, tenant)
}

// eraseEach records the erasures of these people, and makes them when the records are sealed.
func (l *Log) eraseEach(ctx context.Context, o retention.Order, subjects []string) error {
	all := make([]retention.Erasure, len(subjects))
	for i, subject := range subjects {
		out := retention.Erasure{Tenant: database.Text(o.Tenant), Subject: subject}
		newest, err := retention.CountKept(ctx, l.store.DB, &out)
		if err != nil {
			return err
		}
		out.Time = max(l.now().UnixMicro(), newest)
		o.Subject = subject
		if out.Record, err = l.appendErasure(ctx, o, out); err != nil {
			return database.Unavailable("record the erasure", err)
		}
		all[i] = out
	}
	if err := l.Flush(ctx); err != nil {
		return database.Unavailable("record the erasure", err)
	}
	for i := range all {
		o.Subject = all[i].Subject
		if err := l.Keeper.Destroy(ctx, &all[i], o, l.now().UnixMicro()); err != nil {
			err = database.Unavailable("erase", err)
			for _, x := range all[i:] {
				err = errors.Join(err, l.recordFailure(ctx, o.By, x, err))
			}
			return err
		}
	}
	return nil
}

// finishTenant removes the copies of what was erased of a tenant from pages and files, and certifies what is not certified.
func (l *Log) finishTenant(ctx context.Context, by Actor, tenant string) error {
	open, err := retention.Uncertified(ctx, l.store.DB, tenant, "")
	if err != nil || len(open) == 0 {
		return err
	}
	if err := errors.Join(retention.Scrub(ctx, l.store.DB), l.emptySegments(ctx)); err != nil {
		return fmt.Errorf("it is erased from the database and not complete; erase again: %w", err)
	}
	_, err = l.certify(ctx, by, open[0].Record, open)
	return err
}

// SignText signs a text with the keys of the checkpoints, as a note that [checkpoint.Verifier.OpenText] opens. Its first line must name what it
// is, so that nothing signed for one purpose is good for another.
func (l *Log) SignText(text string) (string, error) { return l.signer.SignText(text) }
