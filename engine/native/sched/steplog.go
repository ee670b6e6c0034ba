package sched

import (
	"slices"
	"sync"
	"time"
)

// Share is what a step did for one request.
type Share struct {
	Request  string `json:"request"`
	Decode   int    `json:"decode_tokens"`
	Prefill  int    `json:"prefill_tokens"`
	Drafts   int    `json:"draft_tokens"`
	Accepted int    `json:"accepted_tokens"` // of the drafts
	Cached   int    `json:"cached_tokens"`   // prompt tokens that were found in the cache instead
}

func (s Share) plus(o Share) Share {
	return Share{s.Request, s.Decode + o.Decode, s.Prefill + o.Prefill, s.Drafts + o.Drafts, s.Accepted + o.Accepted, s.Cached + o.Cached}
}

// StepRecord is one step.
type StepRecord struct {
	Step     uint64        `json:"step"` // counts from 1
	Time     time.Time     `json:"time"` // when it began
	Took     time.Duration `json:"took_ns"`
	Load     Load          `json:"load"`
	Accepted int           `json:"accepted_tokens"`
	Cached   int           `json:"cached_tokens"`
	Shares   []Share       `json:"shares"` // their sums are the step's tokens, always
}

// StepLog is a ring of the latest steps. It is safe for use by several goroutines.
type StepLog struct {
	mu      sync.Mutex
	records []StepRecord // step n is at n modulo their number; their shares lie in memory of the log
	last    uint64
}

// NewStepLog returns a log of that many steps with that many shares each at most, both at least 1. The shares beyond go to one without a
// request. All memory is taken here.
func NewStepLog(steps, shares int) *StepLog {
	steps, shares = max(steps, 1), max(shares, 1)+1
	l := &StepLog{records: make([]StepRecord, steps)}
	memory := make([]Share, steps*shares)
	for i := range l.records {
		l.records[i].Shares = memory[i*shares : i*shares : (i+1)*shares]
	}
	return l
}

// Add records a step and copies the shares. The totals of rows are those of the load; rows that no share accounts for are billed to a
// share without a request, and their number is returned, so that a loop that forgets somebody is found out.
func (l *StepLog) Add(at time.Time, took time.Duration, load Load, shares []Share) (unattributed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	r := &l.records[l.last%uint64(len(l.records))]
	kept := append(r.Shares[:0], shares[:min(len(shares), cap(r.Shares)-1)]...)
	var rest, sum Share
	for _, s := range shares[len(kept):] {
		rest = rest.plus(s)
	}
	rest.Request = ""
	for _, s := range shares {
		sum = sum.plus(s)
	}
	missing := Share{Decode: load.Decode - sum.Decode, Prefill: load.Prefill - sum.Prefill, Drafts: load.Drafts - sum.Drafts}
	if rest = rest.plus(missing); rest != (Share{}) {
		kept = append(kept, rest)
	}
	*r = StepRecord{Step: l.last, Time: at, Took: took, Load: load, Accepted: sum.Accepted, Cached: sum.Cached, Shares: kept}
	return abs(missing.Decode) + abs(missing.Prefill) + abs(missing.Drafts)
}

func abs(n int) int { return max(n, -n) }

// Last is the number of the latest step, 0 before the first.
func (l *StepLog) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Page returns copies of the records with a Step above the given one that are still there, oldest first, so many at most.
func (l *StepLog) Page(step uint64, most int) []StepRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	if step >= l.last || most < 1 {
		return nil
	}
	size := uint64(len(l.records))
	from := max(step, l.last-min(l.last, size)) + 1
	to := min(l.last, from+uint64(most)-1)
	out := make([]StepRecord, 0, to-from+1)
	for n := from; n <= to; n++ {
		r := l.records[n%size]
		r.Shares = slices.Clone(r.Shares)
		out = append(out, r)
	}
	return out
}
