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

// takeTimeout bounds the transaction that leases more: a request must not wait longer for a database that hangs.
const takeTimeout = 5 * time.Second

var errRetired = errors.New("slice retired")

type sliceKey struct{ budget, period string }

func (k sliceKey) compare(o sliceKey) int {
	return cmp.Or(strings.Compare(k.budget, o.budget), strings.Compare(k.period, o.period))
}

// slice is this process's lease of one budget in one period. The amount of the database row is at least free plus what is held
// plus what was settled and is not recorded.
type slice struct {
	key    sliceKey
	budget *budget // as it was when the slice was made; for the refusal and to notice changes
	lease  string  // id of the database row

	taking chan struct{} // held while leasing more, so that one request asks the database for all that wait

	mu      sync.Mutex
	free    Money // negative after a charge above its reservation
	held    int   // reservations that are open, or settled and not known to be recorded
	expires time.Time
	used    bool // since the last tidy
	retired bool
}

func newSlice(key sliceKey, b *budget) *slice {
	return &slice{key: key, budget: b, lease: uuid.NewString(), taking: make(chan struct{}, 1)}
}

// hold moves amount from free to a reservation, leasing more when there is too little.
func (s *slice) hold(ctx context.Context, l *Ledger, amount Money) error {
	if ok, err := s.tryHold(l.now(), amount); ok || err != nil {
		return err
	}
	select {
	case s.taking <- struct{}{}:
		defer func() { <-s.taking }()
	case <-ctx.Done():
		return unavailable(fmt.Errorf("wait for a lease: %w", context.Cause(ctx)))
	}
	if ok, err := s.tryHold(l.now(), amount); ok || err != nil {
		return err
	}
	return s.extend(ctx, l, amount)
}

func (s *slice) tryHold(now time.Time, amount Money) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return false, errRetired
	}
	if s.free < amount || !now.Before(s.expires) {
		return false, nil
	}
	s.free -= amount
	s.held++
	s.used = true
	return true, nil
}

// extend leases what amount lacks, and more. What is free is set aside first, so that faster requests cannot starve this one.
func (s *slice) extend(ctx context.Context, l *Ledger, amount Money) error {
	s.mu.Lock()
	if s.retired {
		s.mu.Unlock()
		return errRetired
	}
	aside := min(s.free, amount)
	s.free -= aside
	s.held++
	s.used = true
	fresh := s.expires.IsZero()
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	expires := l.now().Add(l.cfg.Lease)
	got, err := l.store.take(ctx, lease{
		id: s.lease, key: s.key, node: l.cfg.Node, owner: l.owner, fresh: fresh, need: amount - aside, now: l.now(), expires: expires,
	})

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.free += aside
		s.held--
		if short := (*shortage)(nil); errors.As(err, &short) {
			short.aside -= aside // free here, and this request was to have it
			return short
		}
		s.retired = true // the database may or may not have granted it: hand out nothing more, dropping the row returns it all
		l.retire(s)
		if errors.Is(err, errLost) {
			return errRetired // it expired while nobody renewed it; another slice takes its place
		}
		if errors.Is(err, errGone) {
			return err
		}
		l.metrics.leaseFailures.Inc()
		return unavailable(fmt.Errorf("lease from budget %s: %w", s.key.budget, err))
	}
	l.metrics.leases.Inc()
	s.free += got - (amount - aside)
	s.expires = expires
	return nil
}

// settle replaces the hold of worst by the cost, which stays covered until finish.
func (s *slice) settle(worst, cost Money) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += worst - cost
}

func (s *slice) release(worst Money) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += worst
	s.held--
}

func (s *slice) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
}

// surrender takes what is free out of the slice, for the budget. A slice that is to retire hands out nothing any more.
func (s *slice) surrender(retire bool) Money {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = s.retired || retire
	back := max(0, s.free)
	s.free -= back
	return back
}

// idle reports whether nothing was reserved since the last call.
func (s *slice) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.used
	s.used = false
	return !was
}

// finished reports whether nothing depends on the slice, and retires it if so: nobody can start using it again.
func (s *slice) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > 0 || (!s.retired && s.free > 0) {
		return false
	}
	s.retired = true
	return true
}

func (s *slice) renewed(expires time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires = expires
}

// retire moves s from the slices that hand out to those that wait.
func (l *Ledger) retire(s *slice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slices[s.key] == s {
		delete(l.slices, s.key)
		l.retired = append(l.retired, s)
	}
}

// leased reports whether the slice ever got a database row.
func (s *slice) leased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.expires.IsZero()
}
