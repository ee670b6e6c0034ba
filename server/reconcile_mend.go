package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// repairAction is what the record of a booking that was made up for says was done.
	repairAction = "audit.repair"
	// codeOutcomeLost is the error code of an outcome that the reconciliation wrote: nobody ever received it.
	codeOutcomeLost = "outcome_lost"
)

// eachOpen calls do with every open finding.
func (c *comparison) eachOpen(ctx context.Context, do func(findingRow) error) error {
	for after := (findingRow{}); ; {
		page, err := c.store.open(ctx, after)
		if err != nil {
			return fmt.Errorf("read findings: %w", err)
		}
		for _, f := range page {
			if err := c.keep(ctx); err != nil {
				return err
			}
			if err := do(f); err != nil {
				return fmt.Errorf("%s %s: %w", f.Kind, f.Item, err)
			}
			after = f
		}
		if len(page) < reconcilePage {
			return nil
		}
	}
}

// revisit looks again at the open findings that this run did not meet, and closes those that came right.
func (c *comparison) revisit(ctx context.Context) error {
	return c.eachOpen(ctx, func(f findingRow) error {
		if f.LastSeen >= c.started.UnixMicro() {
			return nil
		}
		there, err := c.there(ctx, f)
		if err != nil {
			return err
		}
		if there {
			return c.note(ctx, f.Kind, f.Item, f.Tenant, f.details())
		}
		return c.store.finish(ctx, f, c.now(), "")
	})
}

// there reports whether what a finding says is still so.
func (c *comparison) there(ctx context.Context, f findingRow) (bool, error) {
	switch f.Kind {
	case findUnfinished, findUnadmitted:
		other := audit.StageOutcome
		if f.Kind == findUnadmitted {
			other = audit.StageAdmitted
		}
		whole, err := c.store.having(ctx, []string{f.Item}, other)
		return !whole[f.Item], err
	case findUnbooked:
		// Booked by a run that was cut off before it said so: [comparison.rebook] makes up for the record.
		return c.unbooked[f.details()["record"]] || f.Claimant != "", nil
	case findMissing:
		booked, err := c.store.isBooked(ctx, f.Item)
		return !booked, err
	case findSurplus:
		booked, err := c.store.isBooked(ctx, f.Item)
		if err != nil || !booked {
			return false, err
		}
		outcomes, err := c.store.outcomes(ctx, []string{f.Item})
		_, says := usageOf(outcomes[f.Item])
		return !says, err // what is pruned meanwhile stays open: it was wrong
	case findSums:
		text, tenant, _ := strings.Cut(f.Item, "/")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return false, err
		}
		books, records, err := c.totals(ctx, at.UnixMicro()/hour, tenant, func(string) error { return nil })
		return books != records, err
	}
	return true, nil // of a later release
}

// mend repairs what can be repaired.
func (c *comparison) mend(ctx context.Context) error {
	return c.eachOpen(ctx, func(f findingRow) error {
		var err error
		switch f.Kind {
		case findUnfinished:
			err = c.conclude(ctx, f)
		case findUnbooked:
			err = c.rebook(ctx, f)
		}
		if fault.Is(err, fault.CodeAuditUnavailable) { // the rest can wait too
			return err
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("a finding could not be mended", slog.String("kind", f.Kind), slog.String("item", f.Item), slog.String("error", err.Error()))
			return nil
		}
		return err
	})
}

// free reports whether a finding may be mended: nobody began to, or whoever did has nothing on its way any more that would show it.
func (c *comparison) free(ctx context.Context, f findingRow) (bool, error) {
	if f.Claimant == "" {
		return true, nil
	}
	return c.settled(ctx, f.Claimant, f.Claimed)
}

// settled reports whether everything that a writer wrote up to a time is in the database, or the writer was given up.
func (c *comparison) settled(ctx context.Context, writer string, at int64) (bool, error) {
	through, err := c.store.drained(ctx, writer)
	return through > at || c.now().Sub(time.UnixMicro(at)) > lostAfter, err
}

// conclude writes the outcome of a request that never got one, once it is certain that none is on its way.
func (c *comparison) conclude(ctx context.Context, f findingRow) error {
	e, err := c.store.admitted(ctx, f.Item)
	if err != nil {
		return err
	}
	detail := f.details()
	over, err := c.settled(ctx, detail["writer"], c.deadline(e.Time, e.Action))
	if err != nil || !over {
		return err
	}
	if free, err := c.free(ctx, f); err != nil || !free {
		return err
	}
	err = c.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return c.store.claim(tx, f, c.holder, c.audit.Writer(), c.now())
	})
	if err != nil {
		return err
	}
	receipt, err := c.audit.Append(ctx, lostOutcome(e, c.now()))
	if err != nil {
		return err
	}
	c.repaired++
	return c.store.finish(ctx, f, c.now(), receipt.ID)
}

// lostOutcome is the outcome of a request of which only the admitted record is known. It books what that record says is billed then, the prompt of
// a request whose answer may have left before; else nothing, since what the request used, nobody knows. It is booked under the time of the admission.
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

// rebook offers the usage of a record to the ledger again, and records that it took it.
func (c *comparison) rebook(ctx context.Context, f findingRow) error {
	writer, number, _ := strings.Cut(f.Item, "/")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return err
	}
	page, err := c.audit.Unbooked(ctx, audit.Unbooked{Writer: writer, Seq: seq - 1}, 1)
	if err != nil {
		return err
	}
	if len(page) == 0 || page[0].Writer != writer || page[0].Seq != seq {
		return c.acknowledge(ctx, f)
	}
	booked, err := c.audit.Book(ctx, page[0], func(tx *gorm.DB) error { return c.store.claim(tx, f, c.holder, c.audit.Writer(), c.now()) })
	if fault.KindOf(err) == fault.Conflict || fault.KindOf(err) == fault.Invalid {
		return nil // refused again: a person must look
	}
	if err != nil || !booked {
		return err
	}
	return c.recordRepair(ctx, f)
}

// acknowledge closes the finding of a record that is booked now, and makes up for the record of it if a run before was cut off.
func (c *comparison) acknowledge(ctx context.Context, f findingRow) error {
	id, err := c.store.repairOf(ctx, f.details()["request"])
	if err != nil {
		return err
	}
	if id != "" || f.Claimant == "" {
		return c.store.finish(ctx, f, c.now(), id)
	}
	if free, err := c.free(ctx, f); err != nil || !free {
		return err
	}
	return c.recordRepair(ctx, f)
}

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
