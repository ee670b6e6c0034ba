package identity

import (
	"net/netip"
	"sync"
	"time"
)

// Failed sign-ins that are free: per account and network, per network over all accounts, and per account over all networks; and by way of a provider
// per network.
const (
	freePerPair    = 5
	freePerSource  = 30
	freePerAccount = 20
	freeFederated  = 100
	firstDelay     = time.Second
	maxDelay       = 15 * time.Minute
	forgetAfter    = time.Hour
	knownFor       = 30 * 24 * time.Hour
	maxTracked     = 10000
)

// throttle slows guessing: after the free failures each further one doubles the wait. An attempt counts as failed when it begins
// and is taken back when it succeeds, so a burst of parallel guesses gains nothing. A success takes back itself and the failures of
// its account in its network: neither those of the network with other accounts, nor those of the account in other networks.
//
// Whoever guesses at an account from many networks must not lock its owner out: a network from which the account has signed in within
// 30 days does not wait for what fails elsewhere. It is local to the replica.
type throttle struct {
	mu      sync.Mutex
	entries map[attemptKey]*attempts
	known   map[attemptKey]time.Time // account and network → last success
}

// attemptKey with an empty user counts a whole network, and with an empty source a whole account.
type attemptKey struct{ user, source string }

type attempts struct {
	failed int
	until  time.Time // no attempt before
	last   time.Time
}

// attempt is one that has begun, with the wait that it brought about for each of its keys.
type attempt struct {
	t     *throttle
	pair  attemptKey
	marks map[attemptKey]time.Time
}

func newThrottle() *throttle {
	return &throttle{entries: map[attemptKey]*attempts{}, known: map[attemptKey]time.Time{}}
}

// counted returns what an attempt counts for, with the failures that are free. t.mu is held.
func (t *throttle) counted(user, source string, now time.Time) map[attemptKey]int {
	pair := attemptKey{user, source}
	keys := map[attemptKey]int{pair: freePerPair, {"", source}: freePerSource}
	if now.Sub(t.known[pair]) > knownFor {
		keys[attemptKey{user, ""}] = freePerAccount
	}
	return keys
}

// begin counts an attempt, or returns how long to wait before one is allowed.
func (t *throttle) begin(user, source string, now time.Time) (a attempt, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := t.counted(user, source, now)
	for k := range keys {
		wait = max(wait, t.entry(k, now).until.Sub(now))
	}
	if wait > 0 {
		return attempt{}, wait
	}
	a = attempt{t: t, pair: attemptKey{user, source}, marks: map[attemptKey]time.Time{}}
	for k, free := range keys {
		e := t.entry(k, now)
		e.count(free, now)
		a.marks[k] = e.until
	}
	return a, 0
}

// wait returns how long an attempt would have to wait, without counting one.
func (t *throttle) wait(user, source string, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.counted(user, source, now) {
		if e := t.entries[k]; e != nil {
			wait = max(wait, e.until.Sub(now))
		}
	}
	return wait
}

// failed counts a failure of a network alone, when it is over.
func (t *throttle) failed(source string, free int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entry(attemptKey{"", source}, now).count(free, now)
}

// forget forgets what a network has failed.
func (t *throttle) forget(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, attemptKey{"", source})
}

// network is what attempts are counted by: an IPv6 subscriber has 2^64 addresses, so all of a /64 count as one.
func network(source string) string {
	a, err := netip.ParseAddr(source)
	if err != nil {
		return source
	}
	if a = a.Unmap(); a.Is4() {
		return a.String()
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return source
	}
	return p.String()
}

// succeeded takes back the attempt and forgets the account's failures in this network.
func (a attempt) succeeded(now time.Time) {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	a.takeBack()
	delete(a.t.entries, a.pair)
	if len(a.t.known) >= maxTracked {
		clear(a.t.known) // more accounts in one replica than it can remember: they wait as strangers do
	}
	a.t.known[a.pair] = now
}

// cancel takes back an attempt that was neither right nor wrong because the server failed.
func (a attempt) cancel() {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	a.takeBack()
}

// takeBack ends the waits that this attempt brought about, and none that a later one did.
func (a attempt) takeBack() {
	for k, until := range a.marks {
		e := a.t.entries[k]
		if e == nil {
			continue
		}
		e.failed--
		if e.until.Equal(until) {
			e.until = time.Time{}
		}
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
