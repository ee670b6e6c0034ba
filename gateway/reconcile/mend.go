package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// repairAction is the action of the record that says that a refused usage was billed after all.
	repairAction = "audit.repair"
	// codeOutcomeLost is the error code of an outcome that a run wrote. No caller ever received it.
	codeOutcomeLost = "outcome_lost"
	// abandonAfter is when a replica that never came back, and whose log nobody recovered, is given up.
	abandonAfter = 7 * 24 * time.Hour
)

// eachOpen calls do with every open finding.
func (c *comparison) eachOpen(ctx context.Context, do func(findingRow) error) error {
	for after := (findingRow{}); ; {
		page, err := c.store.open(ctx, after)
		if err != nil {
			return fmt.Errorf("read findings: %w", err)
		}
		for _, f := range page {
			if err := c.extendLease(ctx); err != nil {
				return err
			}
			if err := do(f); err != nil {
				return fmt.Errorf("%s %s: %w", f.Kind, f.Item, err)
			}
			after = f
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// recheck looks again at the open findings that this run did not meet, and closes those that came right.
func (c *comparison) recheck(ctx context.Context) error {
	return c.eachOpen(ctx, func(f findingRow) error {
		if f.LastSeen >= c.started.UnixMicro() {
			return nil
		}
		persists, err := c.persists(ctx, f)
		if err != nil {
			return err
		}
		if persists {
			return c.note(ctx, f.Kind, f.Item, f.Tenant, f.details())
		}
		return c.store.finish(ctx, f, c.now(), "")
	})
}

// persists reports whether what a finding says is still so.
func (c *comparison) persists(ctx context.Context, f findingRow) (bool, error) {
	switch f.Kind {
	case kindUnfinished, kindUnadmitted:
		other := audit.StageOutcome
		if f.Kind == kindUnadmitted {
			other = audit.StageAdmitted
		}
		whole, err := c.store.having(ctx, []string{f.Item}, other)
		return !whole[f.Item], err
	case kindUnbooked:
		// A claim means that a run billed it and was cut off before it recorded so. [comparison.rebill] writes that record.
		return c.unbilled[f.details()["record"]] || f.Claimant != "", nil
	case kindMissing:
		billed, err := c.store.isBilled(ctx, f.Item)
		return !billed, err
	case kindSurplus:
		billed, err := c.store.isBilled(ctx, f.Item)
		if err != nil || !billed {
			return false, err
		}
		outcomes, err := c.store.outcomes(ctx, []string{f.Item})
		_, says := billedBy(outcomes[f.Item], usageRow{})
		return !says, err // a surplus whose time was pruned since stays open: it was wrong before
	case kindSums:
		text, tenant, _ := strings.Cut(f.Item, "/")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return false, err
		}
		books, records, err := c.totals(ctx, at.UnixMicro()/hour, tenant, func(string) error { return nil })
		return books != records, err
	}
	return true, nil // a kind of a later release
}

// mend repairs what can be repaired.
func (c *comparison) mend(ctx context.Context) error {
	return c.eachOpen(ctx, func(f findingRow) error {
		var err error
		switch f.Kind {
		case kindUnfinished:
			err = c.finishRequest(ctx, f)
		case kindUnbooked:
			err = c.rebill(ctx, f)
		}
		if fault.Is(err, fault.CodeAuditUnavailable) { // nothing can be recorded, so nothing else can be mended
			return err
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("a finding could not be mended", slog.String("kind", f.Kind), slog.String("item", f.Item), slog.String("error", err.Error()))
			return nil
		}
		return err
	})
}

// claimable reports whether a finding may be mended: nobody has claimed it, or the claimant has nothing left under way that would mend it.
func (c *comparison) claimable(ctx context.Context, f findingRow) (bool, error) {
	if f.Claimant == "" {
		return true, nil
	}
	return c.shipped(ctx, f.Claimant, f.Claimed)
}

// shipped reports whether everything that a writer wrote up to a time is in the database, or the writer is given up.
func (c *comparison) shipped(ctx context.Context, writer string, at int64) (bool, error) {
	through, err := c.store.drained(ctx, writer)
	return through > at || c.now().Sub(time.UnixMicro(at)) > abandonAfter, err
}

// finishRequest writes the outcome of a request that has none, once it is certain that none is under way.
func (c *comparison) finishRequest(ctx context.Context, f findingRow) error {
	e, err := c.store.admitted(ctx, f.Item)
	if err != nil {
		return err
	}
	detail := f.details()
	over, err := c.shipped(ctx, detail["writer"], c.deadline(e.Time, e.Action))
	if err != nil || !over {
		return err
	}
	if ok, err := c.claimable(ctx, f); err != nil || !ok {
		return err
	}
	if err := c.store.claim(ctx, c.claimOf(f)); err != nil {
		return err
	}
	receipt, err := c.audit.Append(ctx, lostOutcome(e, c.now()))
	if err != nil {
		return err
	}
	c.repaired++
	return c.store.finish(ctx, f, c.now(), receipt.ID)
}

// claimOf is this run's claim to mend a finding.
func (c *comparison) claimOf(f findingRow) claim {
	return claim{finding: f, holder: c.holder, writer: c.audit.Writer(), now: c.now}
}

// lostOutcome returns the outcome of a request of which only the admitted record is known. It bills what that record says is billed in this case: the
// prompt of a request whose answer may have left already, else nothing, since nobody knows what the request used. The usage counts for the time of
// the admission.
func lostOutcome(admitted audit.Event, now time.Time) audit.Event {
	e := admitted
	e.Stage, e.Time = audit.StageOutcome, now.UnixMicro()
	e.Outcome, e.ErrorKind, e.ErrorCode, e.Status = "failed", fault.Internal.String(), codeOutcomeLost, fault.Internal.Status()
	e.AnswerDigest, e.Contents, e.Latency = "", nil, audit.Latency{Total: e.Time - (admitted.Time - admitted.Latency.Admit)}
	e.Detail = maps.Clone(admitted.Detail)
	if e.Detail == nil {
		e.Detail = map[string]string{}
	}
	e.Detail["by"], e.Detail["admitted"] = "reconciliation", admitted.ID
	return e
}

// rebill offers the usage of a record to the ledger again, and records that the ledger took it.
func (c *comparison) rebill(ctx context.Context, f findingRow) error {
	writer, number, _ := strings.Cut(f.Item, "/")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return err
	}
	page, err := c.audit.Unbilled(ctx, audit.Unbilled{Writer: writer, Seq: seq - 1}, 1)
	if err != nil {
		return err
	}
	if len(page) == 0 || page[0].Writer != writer || page[0].Seq != seq {
		return c.closeBilled(ctx, f)
	}
	billed, err := c.audit.Bill(ctx, page[0], c.claimOf(f).in)
	if fault.KindOf(err) == fault.Conflict || fault.KindOf(err) == fault.Invalid {
		return nil // refused again: a person must look
	}
	if err != nil || !billed {
		return err
	}
	return c.recordRepair(ctx, f)
}

// closeBilled closes the finding of a usage that is billed by now. If an earlier run billed it and was cut off before it recorded so, it writes that record.
func (c *comparison) closeBilled(ctx context.Context, f findingRow) error {
	id, err := c.store.repairOf(ctx, f.details()["request"])
	if err != nil {
		return err
	}
	if id != "" || f.Claimant == "" {
		return c.store.finish(ctx, f, c.now(), id)
	}
	if ok, err := c.claimable(ctx, f); err != nil || !ok {
		return err
	}
	return c.recordRepair(ctx, f)
}

// recordRepair records that a refused usage is billed now, and closes its finding.
func (c *comparison) recordRepair(ctx context.Context, f findingRow) error {
	d := f.details()
	receipt, err := c.audit.Append(ctx, audit.Event{
		Request: d["request"], Stage: audit.StageAction, Tenant: f.Tenant,
		Actor: audit.Actor{Kind: "system", ID: "reconciliation"}, Action: repairAction, Resource: d["record"], Dialect: "reconciliation",
		Decision: "allow", Outcome: "ok", Detail: map[string]string{"kind": f.Kind, "refused": d["code"]},
	})
	if err != nil {
		return err
	}
	c.repaired++
	return c.store.finish(ctx, f, c.now(), receipt.ID)
}
