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
	ledger  *Ledger
	request string
	rate    price.Rate
	worst   Money
	quote   Charge // all but the cost

	mu       sync.Mutex
	made     time.Time // or renewed
	state    state
	holds    []*slice // one per budget that covers the request
	charge   Charge
	recorded bool // RecordUsage saw it, in a transaction that may still fail
}

type state uint8

const (
	reserved state = iota
	settled
	released
)

func (r *Reservation) add(s *slice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds = append(r.holds, s)
}

// heldBy reports whether a budget covers the reservation already.
func (r *Reservation) heldBy(budget string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.holds, func(s *slice) bool { return s.key.budget == budget })
}

// Renew says that the request is still at work: what is set aside for it is not given up as that of one that was lost.
func (r *Reservation) Renew() {
	now := r.ledger.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = now
}

// since returns when the reservation was made, or renewed.
func (r *Reservation) since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
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
	if r.state == released { // given up as stale: recording will charge it, no slice covers it any more
		return r.charge
	}
	r.state = settled
	if r.charge.Cost > r.worst {
		r.ledger.metrics.overdrawn.Inc()
	}
	for _, s := range r.holds {
		s.settle(r.worst, r.charge.Cost)
	}
	if len(r.holds) == 0 {
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
	for _, s := range r.holds {
		s.release(r.worst)
	}
	r.ledger.forget(r)
}

// Worst returns the amount set aside.
func (r *Reservation) Worst() Money { return r.worst }

// markRecorded notes that a usage row was written and returns the leases that cover it, by budget.
func (r *Reservation) markRecorded() []*slice {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != settled {
		return nil
	}
	r.recorded = true
	return r.holds
}

// waiting reports whether a usage row was written in a transaction whose end is not known.
func (r *Reservation) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == settled && r.recorded
}

// finish lets the slices forget a settled reservation: its usage is recorded, or given up.
func (r *Reservation) finish() {
	r.ledger.forget(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.holds {
		s.finish()
	}
	r.holds = nil
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
