package identity

import (
	"net/netip"
	"sync"
	"time"
)

// Failed sign-ins that are free, per user and source, and per source over all users.
const (
	freePerUser   = 5
	freePerSource = 30
	firstDelay    = time.Second
	maxDelay      = 15 * time.Minute
	forgetAfter   = time.Hour
	maxTracked    = 10000
)

// throttle slows guessing: after the free failures each further one doubles the wait. An attempt counts as failed when it begins
// and is taken back when it succeeds, so a burst of parallel guesses gains nothing. It is local to the replica.
type throttle struct {
	mu      sync.Mutex
	entries map[attemptKey]*attempts
}

// attemptKey with an empty user counts a whole source.
type attemptKey struct{ user, source string }

type attempts struct {
	failed int
	until  time.Time // no attempt before
	last   time.Time
}

// begin counts an attempt, or returns how long to wait before one is allowed.
func (t *throttle) begin(user, source string, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, all := t.entry(attemptKey{user, source}, now), t.entry(attemptKey{"", source}, now)
	if wait := max(one.until.Sub(now), all.until.Sub(now)); wait > 0 {
		return wait
	}
	one.count(freePerUser, now)
	all.count(freePerSource, now)
	return 0
}

// wait returns how long an attempt would have to wait, without counting one.
func (t *throttle) wait(user, source string, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range []attemptKey{{user, source}, {"", source}} {
		if e := t.entries[k]; e != nil {
			wait = max(wait, e.until.Sub(now))
		}
	}
	return wait
}

// network is what attempts are counted by: an IPv6 subscriber has 2^64 addresses, so all of a /64 count as one.
func network(source string) string {
	a, err := netip.ParseAddr(source)
	if err != nil || a.Unmap().Is4() {
		return source
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return source
	}
	return p.String()
}

// succeeded takes back the attempt and forgets the user's failures from this source.
func (t *throttle) succeeded(user, source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, attemptKey{user, source})
	t.decrement(attemptKey{"", source})
}

// cancelAttempt takes back an attempt that was neither right nor wrong because the server failed.
func (t *throttle) cancelAttempt(user, source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decrement(attemptKey{user, source})
	t.decrement(attemptKey{"", source})
}

func (t *throttle) decrement(k attemptKey) {
	if e := t.entries[k]; e != nil {
		e.failed--
		e.until = time.Time{}
	}
}

func (t *throttle) entry(k attemptKey, now time.Time) *attempts {
	e := t.entries[k]
	if e != nil && now.Sub(e.last) > forgetAfter {
		e.failed, e.until = 0, time.Time{}
	}
	if e == nil {
		if len(t.entries) >= maxTracked {
			t.evict(now)
		}
		e = &attempts{last: now}
		t.entries[k] = e
	}
	return e
}

// evict drops what is old, and if nothing is, the entries that have failed least, so that a flood of invented names cannot wash
// out the one under attack.
func (t *throttle) evict(now time.Time) {
	for least := 0; len(t.entries) >= maxTracked; least++ {
		for k, e := range t.entries {
			if now.Sub(e.last) > forgetAfter || e.failed <= least {
				delete(t.entries, k)
			}
		}
	}
}

func (a *attempts) count(free int, now time.Time) {
	a.failed++
	a.last = now
	if over := a.failed - free; over >= 0 {
		a.until = now.Add(min(firstDelay<<min(over, 20), maxDelay))
	}
}
