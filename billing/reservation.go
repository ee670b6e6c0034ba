package billing

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-project/sluice/billing/price"
)

// Charge is what a request cost.
type Charge struct {
	Cost      Money
	Currency  string
	PriceBook string // version of the book that rated it
}

// Reservation is the worst case of one request, set aside. It is safe for concurrent use.
type Reservation struct {
	ledger       *Ledger
	request      string
	organisation string // at the admission
	rate         price.Rate
	worstCase    Money
	quote        Charge // all but the cost

	mu        sync.Mutex
	renewedAt time.Time // or renewed
	state     state
	leases    []*budgetLease // one per budget that covers the request
	charge    Charge
	recorded  bool // RecordUsage saw it, in a transaction that may still fail
}

type state uint8

const (
	reserved state = iota
	settled
	released
)

func (r *Reservation) add(s *budgetLease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases = append(r.leases, s)
}

// coveredBy reports whether a budget covers the reservation already.
func (r *Reservation) coveredBy(budget string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.leases, func(s *budgetLease) bool { return s.key.budget == budget })
}

// Renew reports that the request is still running, so that its reservation does not expire.
func (r *Reservation) Renew() {
	now := r.ledger.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewedAt = now
}

// lastRenewed returns when the reservation was made, or renewed.
func (r *Reservation) lastRenewed() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewedAt
}

// Quote returns what Settle would charge for t. It changes nothing.
func (r *Reservation) Quote(t Tokens) Charge {
	c := r.quote
	c.Cost = Money(r.rate.Cost(t))
	return c
}

// Settle rates what was used and gives the rest of the reservation back. Further calls return the first charge. What exceeds the
// reservation is charged too: the budget's next requests pay for it.
func (r *Reservation) Settle(t Tokens) Charge {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == settled {
		return r.charge
	}
	r.charge = r.quote
	r.charge.Cost = Money(r.rate.Cost(t))
	if r.state == released { // given up as stale: recording charges it, and no lease covers it any more
		return r.charge
	}
	r.state = settled
	if r.charge.Cost > r.worstCase {
		r.ledger.metrics.overdrawn.Inc()
	}
	for _, s := range r.leases {
		s.settle(r.worstCase, r.charge.Cost)
	}
	if len(r.leases) == 0 {
		r.ledger.forget(r)
	}
	return r.charge
}

// Release gives the whole reservation back because nothing was used. It does nothing after Settle.
func (r *Reservation) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != reserved {
		return
	}
	r.state = released
	for _, s := range r.leases {
		s.release(r.worstCase)
	}
	r.ledger.forget(r)
}

// markRecorded notes that a usage row was written and returns the leases that cover it, by budget.
func (r *Reservation) markRecorded() []*budgetLease {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != settled {
		return nil
	}
	r.recorded = true
	return r.leases
}

// awaitsRecord reports whether a usage row was written in a transaction whose end is not known.
func (r *Reservation) awaitsRecord() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == settled && r.recorded
}

// finish removes a settled reservation from its leases: its usage is recorded, or given up.
func (r *Reservation) finish() {
	r.ledger.forget(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.leases {
		s.finish()
	}
	r.leases = nil
}

// expire gives the reservation up because it is too old.
func (r *Reservation) expire() {
	r.mu.Lock()
	was := r.state
	r.mu.Unlock()
	if was == settled {
		r.finish()
		return
	}
	r.Release()
}
