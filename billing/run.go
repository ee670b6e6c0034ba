package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Load reads price books and budgets. On a database without a price book it stores the default one.
func (l *Ledger) Load(ctx context.Context) error {
	if err := l.seed(ctx); err != nil {
		return err
	}
	return l.terms.Load(ctx)
}

// reread returns the price books and budgets as they are now.
func (l *Ledger) reread(ctx context.Context) (*terms, error) {
	if err := l.terms.Load(ctx); err != nil {
		return nil, err
	}
	return l.terms.Get()
}

// Run follows changes made by other replicas, renews leases, gives back what is not needed and reaps the leases of crashed
// replicas, until ctx ends. Then it gives everything back that is free.
func (l *Ledger) Run(ctx context.Context) error {
	var fresh sync.WaitGroup
	fresh.Go(func() { l.terms.Run(ctx) })
	defer fresh.Wait()
	poll := time.NewTicker(l.cfg.Poll)
	defer poll.Stop()
	renew := time.NewTicker(l.cfg.Lease / 3)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTimeout)
			defer cancel()
			l.report("give leases back", l.Close(end))
			return nil
		case <-poll.C:
			l.report("tidy leases", l.tidy(ctx, false))
		case <-renew.C:
			l.report("tidy leases", l.tidy(ctx, true))
			l.report("renew leases", l.renew(ctx))
			l.report("reap leases", l.store.reap(ctx, l.now()))
		}
	}
}

// Close gives back what no open reservation needs. The ledger can be used further; it leases anew.
func (l *Ledger) Close(ctx context.Context) error {
	l.retireAll(func(*budgetLease) bool { return true })
	return l.tidy(ctx, false)
}

// report logs an error of a loop; the next turn tries again.
func (l *Ledger) report(step string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		l.log.Warn("billing: "+step+" failed; will be tried again", slog.Any("error", err))
	}
}

// tidy forgets what is recorded, gives up what is too old, retires leases whose budget or period has passed, and returns their
// free amounts. With idle set it also empties leases that nobody used since the last call.
func (l *Ledger) tidy(ctx context.Context, idle bool) error {
	last, loaded := l.terms.Last()
	now := l.now()
	if !loaded {
		return nil // not loaded, so nothing was handed out
	}
	err := l.reconcile(ctx)
	l.retireAll(func(s *budgetLease) bool {
		b := last.budgets[s.key.budget]
		return b == nil || b.limit != s.budget.limit || b.period.id(now, b.loc) > s.key.period
	})
	active, retired := l.all()
	for _, s := range retired {
		err = errors.Join(err, l.giveBack(ctx, s, true), l.drop(ctx, s))
	}
	for _, s := range active {
		if idle && s.resetUsed() {
			err = errors.Join(err, l.giveBack(ctx, s, false), l.drop(ctx, s))
		}
	}
	return err
}

// reconcile finishes the reservations whose usage is committed, and gives up those that are too old.
func (l *Ledger) reconcile(ctx context.Context) error {
	var waiting, open []*Reservation
	for _, r := range l.reservations() {
		if r.awaitsRecord() {
			waiting = append(waiting, r)
		} else {
			open = append(open, r)
		}
	}
	l.abandon(open)
	const batch = 200
	for part := range slices.Chunk(waiting, batch) {
		ids := make([]string, len(part))
		for i, r := range part {
			ids[i] = r.request
		}
		recorded, err := l.store.recorded(ctx, ids)
		if err != nil {
			return fmt.Errorf("reconcile usage: %w", err)
		}
		open = open[:0]
		for _, r := range part {
			if recorded[r.request] {
				r.finish()
			} else {
				open = append(open, r) // the transaction has not ended, or was rolled back
			}
		}
		l.abandon(open)
	}
	return nil
}

// abandon gives up those of the reservations that are too old.
func (l *Ledger) abandon(open []*Reservation) {
	limit := l.now().Add(-l.cfg.ReservationTimeout)
	for _, r := range open {
		if r.lastRenewed().Before(limit) {
			l.log.Error("billing: a reservation was never settled or its usage never recorded; given up", slog.String("request", r.request))
			l.metrics.abandoned.Inc()
			r.expire()
		}
	}
}

func (l *Ledger) reservations() []*Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.open))
}

// retireAll retires the active leases for which when returns true.
func (l *Ledger) retireAll(when func(*budgetLease) bool) {
	active, _ := l.all()
	for _, s := range active {
		if when(s) {
			l.retire(s)
		}
	}
}

func (l *Ledger) all() (active, retired []*budgetLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.leases {
		active = append(active, s)
	}
	return active, append(retired, l.retired...)
}

// giveBack returns what is free in s. If the database cannot tell whether it took it, the lease retires: dropping its row
// returns everything.
func (l *Ledger) giveBack(ctx context.Context, s *budgetLease, retire bool) error {
	amount := s.takeFree(retire)
	if amount == 0 {
		return nil
	}
	if err := l.store.giveBack(ctx, s.rowID, amount); err != nil {
		s.takeFree(true)
		l.retire(s)
		return fmt.Errorf("give back lease: %w", err)
	}
	return nil
}

// drop deletes the row of a lease that nothing depends on.
func (l *Ledger) drop(ctx context.Context, s *budgetLease) error {
	if !s.retireIfUnused() {
		return nil
	}
	l.retire(s)
	if err := l.store.drop(ctx, s.rowID); err != nil {
		return fmt.Errorf("drop lease: %w", err)
	}
	l.remove(s)
	return nil
}

func (l *Ledger) remove(s *budgetLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = slices.DeleteFunc(l.retired, func(r *budgetLease) bool { return r == s })
}

// renew extends every lease. One that is gone was reaped while this process could not reach the database; its lease retires.
func (l *Ledger) renew(ctx context.Context) error {
	active, retired := l.all()
	active = slices.DeleteFunc(active, func(s *budgetLease) bool { return !s.hasRow() })
	expires := l.now().Add(l.cfg.Lease)
	alive, err := l.store.renew(ctx, l.owner, expires)
	if err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	for _, s := range active {
		if !alive[s.rowID] {
			s.takeFree(true)
			l.retire(s)
			l.metrics.lost.Inc()
		}
	}
	for _, s := range append(active, retired...) {
		if alive[s.rowID] {
			s.setExpiry(expires)
		}
	}
	return nil
}
