package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// leaseTimeout bounds the transaction that leases more: a request must not wait longer for a database that hangs.
const leaseTimeout = 5 * time.Second

var errLeaseRetired = errors.New("lease retired")

type leaseKey struct{ budget, period string }

func (k leaseKey) compare(o leaseKey) int {
	return cmp.Or(strings.Compare(k.budget, o.budget), strings.Compare(k.period, o.period))
}

// budgetLease is this process's part of one budget in one period. The amount of its database row is at least the sum of what is
// free, held, and settled but not yet recorded.
type budgetLease struct {
	key    leaseKey
	budget *budget // as it was when the lease was made; for the refusal and to notice changes
	rowID  string  // id of the database row

	extending chan struct{} // held while leasing more, so that one request asks the database for all that wait

	mu      sync.Mutex
	free    Money // negative after a charge above its reservation
	held    int   // reservations that are open, or settled and not known to be recorded
	expires time.Time
	used    bool // since the last tidy
	retired bool
}

func newBudgetLease(key leaseKey, b *budget) *budgetLease {
	return &budgetLease{key: key, budget: b, rowID: uuid.NewString(), extending: make(chan struct{}, 1)}
}

// hold moves amount from free to a reservation, leasing more when there is too little.
func (s *budgetLease) hold(ctx context.Context, l *Ledger, amount Money) error {
	if ok, err := s.tryHold(l.now(), amount); ok || err != nil {
		return err
	}
	select {
	case s.extending <- struct{}{}:
		defer func() { <-s.extending }()
	case <-ctx.Done():
		return unavailable(fmt.Errorf("wait for a lease: %w", context.Cause(ctx)))
	}
	if ok, err := s.tryHold(l.now(), amount); ok || err != nil {
		return err
	}
	return s.extend(ctx, l, amount)
}

func (s *budgetLease) tryHold(now time.Time, amount Money) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false, errLeaseRetired
	}
	if s.free < amount || !now.Before(s.expires) {
		return false, nil
	}
	s.free -= amount
	s.held++
	s.used = true
	return true, nil
}

// extend leases at least what is missing for amount. It claims the free part first, so that faster requests cannot starve this one.
func (s *budgetLease) extend(ctx context.Context, l *Ledger, amount Money) error {
	s.mu.Lock()
	if s.retired {
		s.mu.Unlock()
		return errLeaseRetired
	}
	claimed := min(s.free, amount)
	s.free -= claimed
	s.held++
	s.used = true
	fresh := s.expires.IsZero()
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	expires := l.now().Add(l.cfg.Lease)
	got, err := l.store.take(ctx, leaseRequest{
		id: s.rowID, key: s.key, node: l.cfg.Node, owner: l.owner, fresh: fresh, need: amount - claimed, now: l.now(), expires: expires,
	})

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.free += claimed
		s.held--
		if short := (*shortage)(nil); errors.As(err, &short) {
			short.leased -= claimed // free here, and this request was to have it
			return short
		}
		s.retired = true // the database may or may not have granted it: hand out nothing more, dropping the row returns it all
		l.retire(s)
		if errors.Is(err, errLeaseLost) {
			return errLeaseRetired // it expired while nobody renewed it; another lease takes its place
		}
		if errors.Is(err, errBudgetRemoved) {
			return err
		}
		l.metrics.leaseFailures.Inc()
		return unavailable(fmt.Errorf("lease from budget %s: %w", s.key.budget, err))
	}
	l.metrics.leases.Inc()
	s.free += got - (amount - claimed)
	s.expires = expires
	return nil
}

// settle replaces the hold of worst by the cost, which stays covered until finish.
func (s *budgetLease) settle(worst, cost Money) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += worst - cost
}

func (s *budgetLease) release(worst Money) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += worst
	s.held--
}

func (s *budgetLease) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
}

// takeFree removes and returns the free amount, so that it can go back to the budget. With retire set the lease grants nothing more.
func (s *budgetLease) takeFree(retire bool) Money {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = s.retired || retire
	back := max(0, s.free)
	s.free -= back
	return back
}

// resetUsed reports whether nothing was reserved since the last call.
func (s *budgetLease) resetUsed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.used
	s.used = false
	return !was
}

// retireIfUnused reports whether nothing depends on the lease, and retires it if so: nobody can start using it again.
func (s *budgetLease) retireIfUnused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > 0 || (!s.retired && s.free > 0) {
		return false
	}
	s.retired = true
	return true
}

func (s *budgetLease) setExpiry(expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires = expires
}

// retire moves s from the leases that grant to those that only wait for their reservations.
func (l *Ledger) retire(s *budgetLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases[s.key] == s {
		delete(l.leases, s.key)
		l.retired = append(l.retired, s)
	}
}

// hasRow reports whether the lease ever got a database row.
func (s *budgetLease) hasRow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.expires.IsZero()
}
