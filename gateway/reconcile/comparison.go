package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
)

// The kinds of findings; the package comment says what they mean.
const (
	kindUnfinished = "unfinished"
	kindUnadmitted = "unadmitted"
	kindUnbooked   = "unbooked"
	kindMissing    = "missing"
	kindSurplus    = "surplus"
	kindSums       = "sums"
)

func kinds() []string {
	return []string{kindUnfinished, kindUnadmitted, kindUnbooked, kindMissing, kindSurplus, kindSums}
}

const (
	hour = int64(time.Hour / time.Microsecond)
	// pairWindow is how far around a record one statement looks for its other half. Nearly all halves lie closer.
	pairWindow = 6 * hour
	// recentHours are compared in every run, whether or not a record of them was sealed since the last.
	recentHours = 48
	// maxGapHours is the most hours that a range includes only because they lie between two hours to compare.
	maxGapHours = 6
	// positionsAtOnce is how many records one statement reads the hours of.
	positionsAtOnce = 500_000
)

// comparison is one run.
type comparison struct {
	*Reconciler

	holder   string
	started  time.Time
	unbilled map[string]bool // ids of the records whose usage the ledger refused
	pruned   []span          // times of requests whose records were removed
	repaired int64
}

func (c *comparison) do(ctx context.Context) error {
	last, err := c.store.progress(ctx)
	if err != nil {
		return fmt.Errorf("read how far it got: %w", err)
	}
	if err := c.audit.Drain(ctx); err != nil {
		return err
	}
	size, err := c.store.size(ctx) // read before the comparisons: the next run looks at what is sealed later
	if err != nil {
		return fmt.Errorf("read tree size: %w", err)
	}
	hours, err := c.hours(ctx, last.Positions, size)
	if err != nil {
		return fmt.Errorf("read hours: %w", err)
	}
	if c.pruned, err = c.store.pruned(ctx); err != nil {
		return fmt.Errorf("read prunings: %w", err)
	}
	if err := c.noteUnbilled(ctx); err != nil {
		return err
	}
	compared := spans(hours)
	for _, w := range compared {
		if err := c.compareSpan(ctx, w); err != nil {
			return err
		}
	}
	if err := c.recheck(ctx); err != nil {
		return err
	}
	if err := c.mend(ctx); err != nil {
		return err
	}
	if err := c.audit.Drain(ctx); err != nil { // the next run, of any replica, sees what was mended
		return err
	}
	n := int64(0)
	for _, w := range compared {
		n += (w.to - w.from) / hour
	}
	return c.store.saveProgress(ctx, progressRow{
		Positions: size, Started: c.started.UnixMicro(), Finished: c.now().UnixMicro(), Hours: n, Repaired: c.repaired,
	})
}

// extendLease prolongs the lease. It returns [ErrRunning] if the run has lost it.
func (c *comparison) extendLease(ctx context.Context) error {
	return c.store.lease(ctx, c.holder, c.now())
}

// hours lists the hours to compare, in order: the last two days, and those of the records at the positions [from, to) of the tree.
func (c *comparison) hours(ctx context.Context, from, to int64) ([]int64, error) {
	seen := map[int64]bool{}
	current := c.started.UnixMicro() / hour
	for h := current - recentHours + 1; h <= current; h++ {
		seen[h] = true
	}
	for at := min(from, to); at < to; at += positionsAtOnce {
		if err := c.extendLease(ctx); err != nil {
			return nil, err
		}
		found, err := c.store.hoursAt(ctx, at, min(at+positionsAtOnce, to))
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			seen[h] = true
		}
	}
	out := make([]int64, 0, len(seen))
	for h := range seen {
		out = append(out, h)
	}
	slices.Sort(out)
	return out, nil
}

// spans joins sorted hours into ranges of at most two days.
func spans(hours []int64) []span {
	var out []span
	for _, h := range hours {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if h <= last.to/hour+maxGapHours && h < last.from/hour+recentHours {
				last.to = (h + 1) * hour
				continue
			}
		}
		out = append(out, span{h * hour, (h + 1) * hour})
	}
	return out
}

// noteUnbilled notes the records whose usage the ledger refused.
func (c *comparison) noteUnbilled(ctx context.Context) error {
	c.unbilled = map[string]bool{}
	for after := (audit.Unbilled{}); ; {
		page, err := c.audit.Unbilled(ctx, after, pageSize)
		if err != nil {
			return err
		}
		for _, u := range page {
			after = u
			c.unbilled[u.Event.ID] = true
			detail := map[string]string{"record": u.Event.ID, "request": u.Event.Request, "action": u.Event.Action, "code": u.Cause}
			if err := c.note(ctx, kindUnbooked, u.Writer+"/"+strconv.FormatInt(u.Seq, 10), u.Event.Tenant, detail); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
		if err := c.extendLease(ctx); err != nil {
			return err
		}
	}
}

// compareSpan makes all comparisons of a span.
func (c *comparison) compareSpan(ctx context.Context, w span) error {
	if err := c.extendLease(ctx); err != nil {
		return err
	}
	if err := c.findUnpaired(ctx, w, audit.StageAdmitted, audit.StageOutcome, kindUnfinished); err != nil {
		return fmt.Errorf("look for unfinished requests: %w", err)
	}
	if err := c.extendLease(ctx); err != nil {
		return err
	}
	if err := c.findUnpaired(ctx, w, audit.StageOutcome, audit.StageAdmitted, kindUnadmitted); err != nil {
		return fmt.Errorf("look for answers that were not admitted: %w", err)
	}
	if err := c.extendLease(ctx); err != nil {
		return err
	}
	if err := c.compareBooks(ctx, w); err != nil {
		return fmt.Errorf("compare the books: %w", err)
	}
	return nil
}

// deadline is when the outcome of a request admitted at a time is written at the latest, in unix microseconds.
func (r *Reconciler) deadline(at int64, action string) int64 {
	limit := r.limit
	if strings.HasPrefix(action, "admin.") || slices.Contains(r.slow, action) {
		limit = max(limit, slowLimit)
	}
	return at + limit.Microseconds()
}

// findUnpaired notes the records of a stage whose request has no record of the other stage.
func (c *comparison) findUnpaired(ctx context.Context, w span, stage, other audit.Stage, kind string) error {
	for after := (unpairedRow{}); ; {
		page, err := c.store.unpaired(ctx, w, after, stage, other)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		after = page[len(page)-1]
		requests := make([]string, len(page))
		for i, h := range page {
			requests[i] = h.Request
		}
		whole, err := c.store.having(ctx, requests, other)
		if err != nil {
			return err
		}
		for _, h := range page {
			if whole[h.Request] || c.deadline(h.Time, h.Action) >= c.started.UnixMicro() {
				continue
			}
			detail := map[string]string{"record": h.ID, "action": h.Action, "writer": h.Writer, "time": strconv.FormatInt(h.Time, 10)}
			if err := c.note(ctx, kind, h.Request, h.Tenant, detail); err != nil {
				return err
			}
		}
		if err := c.extendLease(ctx); err != nil {
			return err
		}
	}
}

// compareBooks compares the books of a span with the records. One statement compares the sums of all hours and tenants; single entries are
// compared only where the sums differ.
func (c *comparison) compareBooks(ctx context.Context, w span) error {
	type hourOf struct {
		hour   int64
		tenant string
	}
	odd := map[hourOf]bool{}
	rows, err := c.store.sums(ctx, w)
	if err != nil {
		return err
	}
	for _, r := range rows {
		odd[hourOf{r.Hour, r.Tenant}] = true
	}
	err = c.eachUnmatched(ctx, w, "", func(e audit.Event, u billing.Usage) error {
		odd[hourOf{u.At / hour, u.Tenant}] = true
		if c.unbilled[e.ID] {
			return nil
		}
		return c.note(ctx, kindMissing, e.Request, e.Tenant, map[string]string{"record": e.ID, "action": e.Action})
	})
	if err != nil {
		return err
	}
	for h := range odd {
		if err := c.extendLease(ctx); err != nil {
			return err
		}
		if err := c.compareEntries(ctx, h.hour, h.tenant); err != nil {
			return err
		}
	}
	return nil
}

// eachUnmatched calls do with every record of a span whose usage the books lack.
func (c *comparison) eachUnmatched(ctx context.Context, w span, tenant string, do func(audit.Event, billing.Usage) error) error {
	for after := (payloadRow{}); ; {
		events, last, err := c.store.unmatched(ctx, w, tenant, after)
		if err != nil {
			return err
		}
		after = last
		for _, e := range events {
			if u, billed := UsageOf(e); billed {
				if err := do(e, u); err != nil {
					return err
				}
			}
		}
		if len(events) < pageSize {
			return nil
		}
		if err := c.extendLease(ctx); err != nil {
			return err
		}
	}
}

// total is the sum of some requests; cost counts 10⁻⁹ currency units.
type total struct{ requests, tokens, cost int64 }

func (t *total) add(prompt, completion, cost int64) {
	t.requests++
	t.tokens += prompt + completion
	t.cost += cost
}

func (t *total) addUsage(u billing.Usage) {
	n := u.Tokens.Bounded()
	t.add(n.Prompt, n.Completion, int64(u.Cost))
}

// compareEntries compares an hour of a tenant entry by entry. It notes every surplus entry, and the hour itself if the sums differ.
func (c *comparison) compareEntries(ctx context.Context, h int64, tenant string) error {
	books, records, err := c.totals(ctx, h, tenant, func(request string) error {
		return c.note(ctx, kindSurplus, request, tenant, map[string]string{"hour": hourText(h)})
	})
	if err != nil || books == records {
		return err
	}
	return c.note(ctx, kindSums, hourText(h)+"/"+tenant, tenant, map[string]string{
		"hour": hourText(h), "books_requests": strconv.FormatInt(books.requests, 10), "records_requests": strconv.FormatInt(records.requests, 10),
		"books_tokens": strconv.FormatInt(books.tokens, 10), "records_tokens": strconv.FormatInt(records.tokens, 10),
		"books_cost": strconv.FormatInt(books.cost, 10), "records_cost": strconv.FormatInt(records.cost, 10),
	})
}

// totals returns the sums of an hour of a tenant, by the books and by the records. It calls surplus with every entry without a record.
func (c *comparison) totals(ctx context.Context, h int64, tenant string, surplus func(request string) error) (books, records total, err error) {
	w := span{h * hour, (h + 1) * hour}
	for after := (usageRow{}); ; {
		rows, err := c.store.billed(ctx, w, tenant, after)
		if err != nil {
			return books, records, err
		}
		if len(rows) == 0 {
			break
		}
		after = rows[len(rows)-1]
		requests := make([]string, len(rows))
		for i, r := range rows {
			requests[i] = r.Request
		}
		outcomes, err := c.store.outcomes(ctx, requests)
		if err != nil {
			return books, records, err
		}
		for _, r := range rows {
			u, billed := billedBy(outcomes[r.Request], r)
			billed = billed && u.Tenant == tenant
			if !billed && slices.ContainsFunc(c.pruned, func(w span) bool { return w.has(r.At) }) {
				continue
			}
			books.add(r.Prompt, r.Completion, r.Cost)
			if billed {
				records.addUsage(u)
			} else if err := surplus(r.Request); err != nil {
				return books, records, err
			}
		}
		if err := c.extendLease(ctx); err != nil {
			return books, records, err
		}
	}
	err = c.eachUnmatched(ctx, span{w.from, w.to + pairWindow}, tenant, func(_ audit.Event, u billing.Usage) error {
		if w.has(u.At) {
			records.addUsage(u)
		}
		return nil
	})
	return books, records, err
}

func hourText(h int64) string { return time.UnixMicro(h * hour).UTC().Format(time.RFC3339) }

// note stores a finding as seen by this run.
func (c *comparison) note(ctx context.Context, kind, item, tenant string, detail map[string]string) error {
	b, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("note finding: %w", err)
	}
	at := c.started.UnixMicro()
	err = c.store.note(ctx, findingRow{Kind: kind, Item: item, Tenant: tenant, Detail: string(b), FirstSeen: at, LastSeen: at})
	if err != nil {
		return fmt.Errorf("note finding: %w", err)
	}
	return nil
}
