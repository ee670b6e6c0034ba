package pool

import (
	"errors"
	"math"
	"time"

	"github.com/sluice-project/sluice/engine"
)

// Preference says how the instances that can have a request are compared. Each of its terms gives an instance a score from 0 to 1, the weights say how much
// each counts, and the highest sum is chosen. The zero value compares by the work that each has for its weight, and by nothing else.
type Preference struct {
	Load    float64 `koanf:"load"`    // little work for its weight
	Prefix  float64 `koanf:"prefix"`  // it was given prompts lately that begin alike: it may have computed the beginning
	Cost    float64 `koanf:"cost"`    // cheap tokens, as declared; one that declares nothing scores 0
	Energy  float64 `koanf:"energy"`  // little energy for a token, as declared; the same
	Session float64 `koanf:"session"` // it is the one to which the conversation belongs, among those that can have it

	// FirstToken is the time within which an answer has to begin: an instance that would take longer, by what it took lately and the work that it has, is not chosen.
	// One of which nobody knows is tried by one request at a time. Where no instance is fast enough the one that is expected first is chosen, whatever the other
	// terms say. 0: no bound.
	FirstToken time.Duration `koanf:"first_token"`
	// Spread is how far above its part of all requests an instance may be and still be preferred, as a fraction; 0 means 0.1. What many want is spread by it. Where
	// the pool has less than one request for two instances, one with fewer than 4 is not above it.
	Spread float64 `koanf:"spread"`
}

const (
	defaultSpread = 0.1
	fewRequests   = 4 // of which nobody has too many while most have nothing to do: engines run them together
	maxTerm       = 1000
	maxFirstToken = time.Hour // times as many requests as an instance may ever have it is a duration still
	// forgetFirst is how long what an instance took until its first token is believed. Afterwards, once it has nothing to do, one request tries it.
	forgetFirst = time.Minute
)

// Any reports whether instances are compared by more than their work.
func (p *Preference) Any() bool { return p != nil && *p != Preference{} }

// UsesPrefix reports whether prompts count.
func (p *Preference) UsesPrefix() bool { return p != nil && p.Prefix > 0 }

// Validate reports what is wrong with the preference; the message begins with the name of the field.
func (p *Preference) Validate() error {
	for _, w := range []float64{p.Load, p.Prefix, p.Cost, p.Energy, p.Session} {
		if !(w >= 0 && w <= maxTerm) {
			return errors.New("choose: load, prefix, cost, energy and session must lie between 0 and 1000")
		}
	}
	if !(p.Spread >= 0 && p.Spread <= maxTerm) || p.FirstToken < 0 || p.FirstToken > maxFirstToken {
		return errors.New("choose: spread must lie between 0 and 1000, and first_token between 0 and an hour")
	}
	if p.Any() && p.Load+p.Prefix+p.Cost+p.Energy+p.Session == 0 {
		return errors.New("choose: one of load, prefix, cost, energy and session must be above 0")
	}
	return nil
}

// Score is what each term gave an instance, from 0 to 1, and their sum by weight.
type Score struct{ Load, Prefix, Cost, Energy, Session, Sum float64 }

// candidate is an instance that can have the request, with what it is compared by.
type candidate struct {
	i       *Instance
	m       *engine.Model
	running int64
	weight  float64
	matched int
	cost    float64 // 0: not known
	energy  float64
	home    uint64        // the highest one has the session
	first   time.Duration // until a first token
	slow    bool
	over    bool
	at      int // in the trace; -1: not there
	score   Score
}

// onStack is how many candidates are compared without an allocation.
const onStack = 16

// compare chooses among candidates by the preference of w. now is the time.
func (s *Set) compare(all []candidate, w *Wanted, now time.Time) *candidate {
	p := w.Prefer
	var running, weight, cheapest, leanest float64
	least, home, fast := math.Inf(1), uint64(0), false
	for n := range all {
		c := &all[n]
		a := c.i.attributes.Load()
		c.running, c.weight = c.i.running.Load(), float64(max(1, a.Weight))
		running, weight = running+float64(c.running), weight+c.weight
		least = min(least, float64(c.running)/c.weight)
		if c.cost = a.CostPerMillion; c.cost > 0 && (cheapest == 0 || c.cost < cheapest) {
			cheapest = c.cost
		}
		if c.energy = a.JoulesPerToken; c.energy > 0 && (leanest == 0 || c.energy < leanest) {
			leanest = c.energy
		}
		if p.Prefix > 0 && len(w.Prefix) > 0 {
			c.matched = c.i.prefixes.Load().match(w.Prefix)
		}
		if p.Session > 0 && w.Session != 0 {
			c.home = mix(w.Session ^ c.i.hash)
			home = max(home, c.home)
		}
		if p.FirstToken > 0 {
			c.first = c.i.firstTokenIn(c.running, now, p.FirstToken)
			c.slow = c.first > p.FirstToken
		}
		fast = fast || !c.slow
	}
	spread := p.Spread
	if spread == 0 {
		spread = defaultSpread
	}
	idle := 2*running < float64(len(all)) // at most every other one has a request: a part of so few means nothing
	within := false                       // somebody is in his part, and fast if anybody is
	for n := range all {
		c := &all[n]
		c.over = !(idle && c.running < fewRequests) && float64(c.running+1) > math.Ceil((running+1)*c.weight/weight*(1+spread))
		within = within || !c.over && c.slow == !fast
	}
	var best *candidate
	drawn := 0.0
	for n := range all {
		c := &all[n]
		c.score.Load = (least + 1) / (float64(c.running)/c.weight + 1)
		if len(w.Prefix) > 0 {
			c.score.Prefix = float64(c.matched) / float64(len(w.Prefix))
		}
		if c.cost > 0 {
			c.score.Cost = cheapest / c.cost
		}
		if c.energy > 0 {
			c.score.Energy = leanest / c.energy
		}
		if home != 0 && c.home == home {
			c.score.Session = 1
		}
		c.score.Sum = p.Load*c.score.Load + p.Prefix*c.score.Prefix + p.Cost*c.score.Cost + p.Energy*c.score.Energy + p.Session*c.score.Session
		if fast && c.slow || within && c.over {
			continue
		}
		switch {
		case !fast && best != nil && c.first != best.first:
			if c.first < best.first {
				best, drawn = c, c.weight
			}
		case best == nil || c.score.Sum > best.score.Sum:
			best, drawn = c, c.weight
		case c.score.Sum == best.score.Sum:
			if drawn += c.weight; s.rand()*drawn < c.weight {
				best = c
			}
		}
	}
	return best
}

// mix spreads the bits of a number.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// HashOf returns a number for a name, the same in every process.
func HashOf(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return max(1, mix(h))
}

// firsts is how long an instance took until its first tokens lately, and with how many requests at once.
type firsts struct {
	took, running float64 // means; nanoseconds
	at            time.Time
}

// noteFirst adds a time.
func (i *Instance) noteFirst(took time.Duration) {
	const share = 0.2 // of the newest one
	now, running := i.now(), float64(i.running.Load())
	for {
		was := i.firsts.Load()
		next := &firsts{float64(took), running, now}
		if was != nil && now.Sub(was.at) < forgetFirst {
			next.took = was.took + share*(next.took-was.took)
			next.running = was.running + share*(next.running-was.running)
		}
		if i.firsts.CompareAndSwap(was, next) {
			return
		}
	}
}

// Waited notes that the instance has said nothing for some time, and is waited for no longer: it takes at least as long. What is less than it is taken to need
// anyway says nothing; of one of which nobody knows that is the bound of the preference.
func (i *Instance) Waited(after, bound time.Duration) {
	if f := i.firsts.Load(); f != nil && i.now().Sub(f.at) < forgetFirst {
		bound = time.Duration(f.took)
	}
	if after > bound {
		i.noteFirst(after)
	}
}

// firstTokenIn is how long the instance would take until a first token with a request more than it runs. One of which nobody knows is taken for just fast enough
// for one.
func (i *Instance) firstTokenIn(running int64, now time.Time, bound time.Duration) time.Duration {
	f := i.firsts.Load()
	if f == nil || now.Sub(f.at) >= forgetFirst {
		return bound * time.Duration(running+1)
	}
	return time.Duration(f.took * float64(running+1) / max(1, f.running))
}
