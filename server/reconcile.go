package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/gateway"
)

// The kinds of findings.
const (
	findUnfinished = "unfinished" // a request was admitted and has no outcome; mended with an outcome
	findUnadmitted = "unadmitted" // a request was answered and has no admitted record
	findUnbooked   = "unbooked"   // the ledger refused the usage of a record; mended by booking it again
	findMissing    = "missing"    // the books do not have what a record says was used
	findSurplus    = "surplus"    // the books have what no record says
	findSums       = "sums"       // an hour of a tenant sums up to something else in the books than in the records
)

func findingKinds() []string {
	return []string{findUnfinished, findUnadmitted, findUnbooked, findMissing, findSurplus, findSums}
}

const (
	hour = int64(time.Hour / time.Microsecond)
	// nearBy is how far from a record its other half is looked for first: further than nearly all are.
	nearBy = 6 * hour
	// recentHours are compared at every run, whether or not anything came in for them.
	recentHours = 48
	// mergeHours is the gap between two hours that is compared along.
	mergeHours = 6
	// positionsAtOnce is how many records one statement takes the hours of.
	positionsAtOnce = 500_000

	reconcileEvery = time.Hour
	reconcileTick  = time.Minute
	reconcileFor   = 2 * time.Minute

	// settleMargin is what a request may take beyond its own deadlines. An act of the management API has none, a document that is taken in one of hours.
	settleMargin = 5 * time.Minute
	actLimit     = 6 * time.Hour
	// lostAfter is when a replica that never came back, and was not adopted, is given up: its requests are closed then.
	lostAfter = 7 * 24 * time.Hour
)

// reconciler compares the audit log with itself and with the books, notes what does not agree and mends what can be mended. Of all
// replicas one does it at a time.
type reconciler struct {
	store   reconcileStore
	audit   *audit.Log
	limit   time.Duration // after which a request has its outcome
	log     *slog.Logger
	metrics *reconcileMetrics
	now     func() time.Time
	asked   atomic.Bool   // for a comparison that has not begun
	wake    chan struct{} // look whether one is asked for
}

func newReconciler(p *parts, reg prometheus.Registerer) *reconciler {
	return &reconciler{
		store: reconcileStore{p.db}, audit: p.audit, limit: p.cfg.Gateway.Longest() + settleMargin, log: p.log.With(slog.String("component", "reconcile")),
		metrics: newReconcileMetrics(reg), now: time.Now, wake: make(chan struct{}, 1),
	}
}

// Run compares every hour, and when asked to, until ctx ends. In between it notes what this replica has shipped: others wait for that
// before they give up on a record.
func (r *reconciler) Run(ctx context.Context) error {
	tick := time.NewTicker(reconcileTick)
	defer tick.Stop()
	for {
		err := r.turn(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("reconciliation failed; it is tried again in a minute", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.wake:
		}
	}
}

// ask makes the loop compare now. A comparison that another replica is at is not repeated.
func (r *reconciler) ask() {
	r.asked.Store(true)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// running reports whether a replica compares now, or was asked to and has not begun. That it was asked only the replica itself knows: the
// others report it as soon as it has the lease.
func (r *reconciler) running(ctx context.Context) (bool, error) {
	if r.asked.Load() { // looked at first, since it is taken back after the lease is taken
		return true, nil
	}
	return reconcileLease().Held(r.store.db.WithContext(ctx), r.now())
}

// turn is one turn of the loop.
func (r *reconciler) turn(ctx context.Context) error {
	if err := r.audit.Drain(ctx); err != nil {
		return err
	}
	last, err := r.store.progress(ctx)
	if err != nil {
		return fmt.Errorf("read reconciliation: %w", err)
	}
	since := r.now().Sub(time.UnixMicro(last.Started))
	if r.asked.Load() || since >= reconcileEvery || since < 0 { // begun in the future: by a clock that ran ahead
		if _, err := r.reconcile(ctx); err != nil && !errors.Is(err, errNotReconciler) {
			return err
		}
	}
	return r.measure(ctx)
}

// measure brings the metrics up to date, whichever replica did the work.
func (r *reconciler) measure(ctx context.Context) error {
	counts, err := r.store.counts(ctx, "")
	if err != nil {
		return fmt.Errorf("count findings: %w", err)
	}
	last, err := r.store.progress(ctx)
	if err != nil {
		return fmt.Errorf("read reconciliation: %w", err)
	}
	r.metrics.set(counts, last.Finished)
	return nil
}

// reconcile compares once. What was found is in the database; it returns how many findings it mended. Errors: errNotReconciler while
// another replica is at it.
func (r *reconciler) reconcile(ctx context.Context) (repaired int64, err error) {
	holder, lease := r.audit.Writer(), reconcileLease()
	err = lease.Take(r.store.db.WithContext(ctx), holder, r.now())
	if err == nil || errors.Is(err, errNotReconciler) { // it has begun, here or elsewhere
		r.asked.Store(false)
	}
	if err != nil {
		return 0, fmt.Errorf("reconcile: %w", err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if rerr := lease.Release(r.store.db.WithContext(end), holder); rerr != nil {
			r.log.Warn("the lease of the reconciliation stays until it expires", slog.String("error", rerr.Error()))
		}
	}()
	run := &comparison{reconciler: r, holder: holder, started: r.now()}
	if err := run.do(ctx); err != nil {
		return run.repaired, fmt.Errorf("reconcile: %w", err)
	}
	return run.repaired, nil
}

// comparison is one run.
type comparison struct {
	*reconciler

	holder   string
	started  time.Time
	unbooked map[string]bool // ids of the records whose usage the ledger refused
	pruned   []span          // of requests whose records are gone for good
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
	size, err := c.store.size(ctx) // before anything is compared: what is sealed later is looked at next time
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
	if err := c.refused(ctx); err != nil {
		return err
	}
	spans := spansOf(hours)
	for _, w := range spans {
		if err := c.compare(ctx, w); err != nil {
			return err
		}
	}
	if err := c.revisit(ctx); err != nil {
		return err
	}
	if err := c.mend(ctx); err != nil {
		return err
	}
	if err := c.audit.Drain(ctx); err != nil { // what was mended shows to whoever compares next
		return err
	}
	compared := int64(0)
	for _, w := range spans {
		compared += (w.to - w.from) / hour
	}
	return c.store.saveProgress(ctx, progressRow{
		Positions: size, Started: c.started.UnixMicro(), Finished: c.now().UnixMicro(), Hours: compared, Repaired: c.repaired,
	})
}

// keep prolongs the lease; it fails if the run lost it.
func (c *comparison) keep(ctx context.Context) error {
	return reconcileLease().Take(c.store.db.WithContext(ctx), c.holder, c.now())
}

// hours lists the hours to compare: those with records at positions nobody has looked at, and the last two days.
func (c *comparison) hours(ctx context.Context, from, to int64) ([]int64, error) {
	seen := map[int64]bool{}
	current := c.started.UnixMicro() / hour
	for h := current - recentHours + 1; h <= current; h++ {
		seen[h] = true
	}
	for at := min(from, to); at < to; at += positionsAtOnce {
		if err := c.keep(ctx); err != nil {
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

// spansOf joins hours, in order, into stretches of at most two days.
func spansOf(hours []int64) []span {
	var out []span
	for _, h := range hours {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if h <= last.to/hour+mergeHours && h < last.from/hour+recentHours {
				last.to = (h + 1) * hour
				continue
			}
		}
		out = append(out, span{h * hour, (h + 1) * hour})
	}
	return out
}

// refused notes the records whose usage the ledger refused.
func (c *comparison) refused(ctx context.Context) error {
	c.unbooked = map[string]bool{}
	for after := (audit.Unbooked{}); ; {
		page, err := c.audit.Unbooked(ctx, after, reconcilePage)
		if err != nil {
			return err
		}
		for _, u := range page {
			after = u
			c.unbooked[u.Event.ID] = true
			detail := map[string]string{"record": u.Event.ID, "request": u.Event.Request, "action": u.Event.Action, "code": u.Cause}
			if err := c.note(ctx, findUnbooked, u.Writer+"/"+strconv.FormatInt(u.Seq, 10), u.Event.Tenant, detail); err != nil {
				return err
			}
		}
		if len(page) < reconcilePage {
			return nil
		}
		if err := c.keep(ctx); err != nil {
			return err
		}
	}
}

// compare looks at everything in a span.
func (c *comparison) compare(ctx context.Context, w span) error {
	if err := c.keep(ctx); err != nil {
		return err
	}
	if err := c.halves(ctx, w, audit.StageAdmitted, audit.StageOutcome, findUnfinished); err != nil {
		return fmt.Errorf("look for unfinished requests: %w", err)
	}
	if err := c.keep(ctx); err != nil {
		return err
	}
	if err := c.halves(ctx, w, audit.StageOutcome, audit.StageAdmitted, findUnadmitted); err != nil {
		return fmt.Errorf("look for answers that were not admitted: %w", err)
	}
	if err := c.keep(ctx); err != nil {
		return err
	}
	if err := c.books(ctx, w); err != nil {
		return fmt.Errorf("compare the books: %w", err)
	}
	return nil
}

// due reports whether the other half of a record must be there by now.
func (r *reconciler) due(at int64, action string, now time.Time) bool {
	return r.deadline(at, action) < now.UnixMicro()
}

// deadline is when the outcome of what was admitted at a time is written at the latest.
func (r *reconciler) deadline(at int64, action string) int64 {
	limit := r.limit
	if strings.HasPrefix(action, "admin.") || action == string(gateway.ActionIngest) {
		limit = max(limit, actLimit)
	}
	return at + limit.Microseconds()
}

// halves looks for records without their other half.
func (c *comparison) halves(ctx context.Context, w span, stage, other audit.Stage, kind string) error {
	for after := (halfRow{}); ; {
		page, err := c.store.halves(ctx, w, after, stage, other)
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
			if whole[h.Request] || !c.due(h.Time, h.Action, c.started) {
				continue
			}
			detail := map[string]string{"record": h.ID, "action": h.Action, "writer": h.Writer, "time": strconv.FormatInt(h.Time, 10)}
			if err := c.note(ctx, kind, h.Request, h.Tenant, detail); err != nil {
				return err
			}
		}
		if err := c.keep(ctx); err != nil {
			return err
		}
	}
}

// books compares the books of a span with the records: first by sums, which a statement gives for all hours and tenants at once, then
// entry by entry where those do not agree.
func (c *comparison) books(ctx context.Context, w span) error {
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
		if c.unbooked[e.ID] {
			return nil
		}
		return c.note(ctx, findMissing, e.Request, e.Tenant, map[string]string{"record": e.ID, "action": e.Action})
	})
	if err != nil {
		return err
	}
	for h := range odd {
		if err := c.keep(ctx); err != nil {
			return err
		}
		if err := c.exactly(ctx, h.hour, h.tenant); err != nil {
			return err
		}
	}
	return nil
}

// eachUnmatched calls do with every record in a span that says usage which the books do not have.
func (c *comparison) eachUnmatched(ctx context.Context, w span, tenant string, do func(audit.Event, billing.Usage) error) error {
	for after := (payloadRow{}); ; {
		events, last, err := c.store.unmatched(ctx, w, tenant, after)
		if err != nil {
			return err
		}
		after = last
		for _, e := range events {
			if u, booked := usageOf(e); booked {
				if err := do(e, u); err != nil {
					return err
				}
			}
		}
		if len(events) < reconcilePage {
			return nil
		}
		if err := c.keep(ctx); err != nil {
			return err
		}
	}
}

// total is what some requests sum up to.
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

// exactly compares an hour of a tenant entry by entry, and notes it if the sums differ.
func (c *comparison) exactly(ctx context.Context, h int64, tenant string) error {
	books, records, err := c.totals(ctx, h, tenant, func(request string) error {
		return c.note(ctx, findSurplus, request, tenant, map[string]string{"hour": hourText(h)})
	})
	if err != nil || books == records {
		return err
	}
	return c.note(ctx, findSums, hourText(h)+"/"+tenant, tenant, map[string]string{
		"hour": hourText(h), "books_requests": strconv.FormatInt(books.requests, 10), "records_requests": strconv.FormatInt(records.requests, 10),
		"books_tokens": strconv.FormatInt(books.tokens, 10), "records_tokens": strconv.FormatInt(records.tokens, 10),
		"books_cost": strconv.FormatInt(books.cost, 10), "records_cost": strconv.FormatInt(records.cost, 10),
	})
}

// totals sums an hour of a tenant up, by the books and by the records, and calls surplus for every entry that no record stands for.
func (c *comparison) totals(ctx context.Context, h int64, tenant string, surplus func(request string) error) (books, records total, err error) {
	w := span{h * hour, (h + 1) * hour}
	for after := (bookedRow{}); ; {
		rows, err := c.store.booked(ctx, w, tenant, after)
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
			u, booked := usageOf(outcomes[r.Request])
			booked = booked && u.Tenant == tenant
			if !booked && slices.ContainsFunc(c.pruned, func(w span) bool { return w.has(r.At) }) {
				continue
			}
			books.add(r.Prompt, r.Completion, r.Cost)
			if booked {
				records.addUsage(u)
			} else if err := surplus(r.Request); err != nil {
				return books, records, err
			}
		}
		if err := c.keep(ctx); err != nil {
			return books, records, err
		}
	}
	err = c.eachUnmatched(ctx, span{w.from, w.to + nearBy}, tenant, func(_ audit.Event, u billing.Usage) error {
		if w.has(u.At) {
			records.addUsage(u)
		}
		return nil
	})
	return books, records, err
}

func hourText(h int64) string { return time.UnixMicro(h * hour).UTC().Format(time.RFC3339) }

// note stores a finding of this run.
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
