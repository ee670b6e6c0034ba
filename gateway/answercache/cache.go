package answercache

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
)

const (
	// defaultBytes is the most that kept answers may take where nobody says.
	defaultBytes = 64 << 20

	// maxRunning bounds the bytes that are held of one answer that comes: what is longer is not kept, nobody joins it any more, and the engine waits for
	// who reads slowest.
	maxRunning = 1 << 20
	// minRunning is what each answer that comes may hold where all together hold more than the cache may.
	minRunning = 16 << 10
	// maxStall is how long the engine, and all others, wait for one who does not read.
	maxStall = 5 * time.Second
	// perEntry is what an answer takes beside its events: where it was made, its key and its timer.
	perEntry = 1 << 10
	// perEvent is what an event takes beside its texts, at least.
	perEvent = 320
)

// Key is a digest of all that an answer depends on.
type Key [32]byte

// Terms are those of one who joins.
type Terms struct {
	Keep        bool          // the answer is kept, and a kept one is taken
	TTL         time.Duration // for which an answer is kept
	Stale       time.Duration // after it, in which the answer still takes the place of one that fails; 0: none
	TenantBytes int64         // that the answers of the tenant may take
	Generation  uint64        // of the cache when the first text of the request was read: an answer from before a Drop is not kept

	// Failed reports whether an error says that an engine is at fault, so that a stale answer may take its place. nil: none does.
	Failed func(error) bool
}

// Cache gives answers to equal requests. P says where an answer was made; its user knows what that is. It is safe for concurrent use.
type Cache[P any] struct {
	max int64

	generation atomic.Uint64  // how often a tenant was dropped; changed with mu held
	running    atomic.Int64   // bytes that answers hold which come
	flights    sync.WaitGroup // engines at work

	mu      sync.Mutex // never taken while that of a flight is held
	bytes   int64
	tenants map[string]*tenant[P]
}

// tenant is what a tenant has in the cache; nil lists and maps are made with it.
type tenant[P any] struct {
	bytes   int64
	kept    map[Key]*list.Element // of *entry
	used    *list.List            // of *entry, the last one used first
	flights map[Key]*flight[P]    // that may be joined
}

// entry is an answer that is kept. But for its place in the list nobody changes it.
type entry[P any] struct {
	key    Key
	origin string
	events []engine.Event
	at     P
	bytes  int64
	fresh  time.Time // until then
	gone   *time.Timer
}

// New returns a cache without answers. Those that are kept take at most maxBytes; 0 means 64 MiB. Those that come take as much again at most, and besides
// minRunning each.
func New[P any](maxBytes int64) *Cache[P] {
	if maxBytes <= 0 {
		maxBytes = defaultBytes
	}
	return &Cache[P]{max: maxBytes, tenants: map[string]*tenant[P]{}}
}

// Join returns a share in the answer with the key: one that is kept, one that comes, or a new one. request names who asks; it is the origin of an
// answer that it leads. The share has to be left.
func (c *Cache[P]) Join(of string, key Key, request string, terms Terms) *Share[P] {
	s := &Share[P]{cache: c, tenant: of, key: key, request: request, terms: terms}
	s.join()
	return s
}

// Generation returns what Terms tell of when a request began.
func (c *Cache[P]) Generation() uint64 { return c.generation.Load() }

// Wait returns when no engine is at work any more. Call it when every share was left.
func (c *Cache[P]) Wait() { c.flights.Wait() }

// Drop forgets all answers of a tenant. One that comes still reaches those who wait for it, nobody else, and is not kept; nor is one whose request began before,
// under whatever share it comes.
func (c *Cache[P]) Drop(of string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation.Add(1)
	t := c.tenants[of]
	if t == nil {
		return
	}
	for e := t.used.Front(); e != nil; e = t.used.Front() {
		c.remove(t, e)
	}
	clear(t.flights) // what is in no map is not kept
	delete(c.tenants, of)
}

// room is what an answer that comes may hold now.
func (c *Cache[P]) room() int {
	if c.running.Load() > c.max {
		return minRunning
	}
	return maxRunning
}

// of returns what a tenant has. The caller holds c.mu.
func (c *Cache[P]) of(name string) *tenant[P] {
	t := c.tenants[name]
	if t == nil {
		t = &tenant[P]{kept: map[Key]*list.Element{}, used: list.New(), flights: map[Key]*flight[P]{}}
		c.tenants[name] = t
	}
	return t
}

// find returns the kept answer, if it is fresh; stale takes an older one, too.
func (c *Cache[P]) find(of string, key Key, stale bool) *entry[P] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lookUp(of, key, stale)
}

// lookUp is find for a caller who holds c.mu.
func (c *Cache[P]) lookUp(of string, key Key, stale bool) *entry[P] {
	t := c.tenants[of]
	if t == nil || t.kept[key] == nil {
		return nil
	}
	e := t.kept[key].Value.(*entry[P])
	if !stale && !time.Now().Before(e.fresh) {
		return nil
	}
	t.used.MoveToFront(t.kept[key])
	return e
}

// end takes a flight out of the map, so that nobody joins it any more, and keeps its answer if it has one: unless the tenant was dropped since.
func (c *Cache[P]) end(f *flight[P], answer *entry[P], terms Terms) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[f.tenant]
	if t == nil || t.flights[f.key] != f {
		return
	}
	delete(t.flights, f.key)
	if answer != nil && terms.Keep && answer.bytes <= min(terms.TenantBytes, c.max) {
		c.keep(f.tenant, t, answer, terms)
	}
	c.forget(f.tenant, t)
}

// keep takes an answer in and others out, as far as the bounds demand it. The caller holds c.mu.
func (c *Cache[P]) keep(of string, t *tenant[P], e *entry[P], terms Terms) {
	if old := t.kept[e.key]; old != nil {
		c.remove(t, old)
	}
	e.fresh = time.Now().Add(terms.TTL)
	at := t.used.PushFront(e)
	t.kept[e.key] = at
	t.bytes, c.bytes = t.bytes+e.bytes, c.bytes+e.bytes
	e.gone = time.AfterFunc(terms.TTL+terms.Stale, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.kept[e.key] == at {
			c.remove(t, at)
			c.forget(of, t)
		}
	})
	for t.bytes > terms.TenantBytes {
		c.remove(t, t.used.Back())
	}
	for c.bytes > c.max {
		name, most := of, t
		for n, other := range c.tenants {
			if other.bytes > most.bytes {
				name, most = n, other
			}
		}
		c.remove(most, most.used.Back())
		c.forget(name, most)
	}
}

// remove takes an answer out. The caller holds c.mu.
func (c *Cache[P]) remove(t *tenant[P], at *list.Element) {
	e := t.used.Remove(at).(*entry[P])
	e.gone.Stop()
	delete(t.kept, e.key)
	t.bytes, c.bytes = t.bytes-e.bytes, c.bytes-e.bytes
}

// forget takes out a tenant that has nothing. The caller holds c.mu.
func (c *Cache[P]) forget(name string, t *tenant[P]) {
	if len(t.kept) == 0 && len(t.flights) == 0 && c.tenants[name] == t {
		delete(c.tenants, name)
	}
}

// size is what an event takes.
func size(ev *engine.Event) int {
	n := perEvent + len(ev.Text) + len(ev.Reasoning) + len(ev.Refusal)
	for _, call := range ev.Calls {
		n += perEvent/4 + len(call.ID) + len(call.Name) + len(call.Arguments)
	}
	return n + logprobs(ev.Logprobs)
}

func logprobs(list []engine.TokenLogprob) int {
	n := 0
	for _, l := range list {
		n += perEvent/4 + len(l.Token) + len(l.Bytes) + logprobs(l.Top)
	}
	return n
}
