package limit

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-project/sluice/internal/fault"
)

// clock is set by tests; limiters read it concurrently.
type clock struct{ us atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.us.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}
func (c *clock) now() time.Time          { return time.UnixMicro(c.us.Load()) }
func (c *clock) advance(d time.Duration) { c.us.Add(d.Microseconds()) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// each runs a test on both stores. open may be called again: the limiters it returns share their state, like replicas.
func each(t *testing.T, test func(t *testing.T, open func(Config) *Limiter, c *clock)) {
	t.Run("memory", func(t *testing.T) {
		c, m := newClock(), newMemory()
		test(t, func(cfg Config) *Limiter {
			l, err := build(cfg, m, discard())
			if err != nil {
				t.Fatal(err)
			}
			l.now = c.now
			return l
		}, c)
	})
	t.Run("redis", func(t *testing.T) {
		c, server := newClock(), miniredis.RunT(t)
		test(t, func(cfg Config) *Limiter {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { _ = client.Close() })
			l, err := NewRedis(cfg, client, discard())
			if err != nil {
				t.Fatal(err)
			}
			l.now = c.now
			return l
		}, c)
	})
}

// request is one of a key of a tenant, without levels of limits of their own.
func request(tenant, key string, own Limits, tokens int) Request {
	return Request{Tenant: tenant, Tokens: tokens, Bounds: []Bound{{Scope: Key, ID: key, Limits: own}, {Scope: Tenant, ID: tenant}}}
}

func grant(t *testing.T, l *Limiter, a Request) (*Permit, State) {
	t.Helper()
	k, s, err := l.Acquire(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return k, s
}

func refuse(t *testing.T, l *Limiter, a Request, code fault.Code) (time.Duration, State) {
	t.Helper()
	k, s, err := l.Acquire(t.Context(), a)
	if k != nil || !fault.Is(err, code) {
		t.Fatalf("got %v, %v; want %s", k, err, code)
	}
	return fault.Public(err).RetryAfter(), s
}

// TestMemoryClock: the limiter of one process counts on a clock that follows the monotonic one from a right start.
func TestMemoryClock(t *testing.T) {
	l, err := NewMemory(Config{}, discard())
	if err != nil {
		t.Fatal(err)
	}
	a, b := l.now(), l.now()
	if b.Before(a) || time.Until(a).Abs() > time.Minute {
		t.Errorf("%s, then %s", a, b)
	}
	if wall := a.Round(0); wall.UnixMicro() != a.UnixMicro() {
		t.Errorf("the wall reading %s is not the steady one %s", wall, a)
	}
}

func TestRequestsPerMinute(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, c *clock) {
		l := open(Config{Key: Limits{RequestsPerMinute: 3}})
		a := request("t", "k", Limits{}, 0)
		for i := range 3 {
			_, s := grant(t, l, a)
			if s.Requests.Limit != 3 || s.Requests.Remaining != 2-i || s.Requests.Reset != time.Duration(i+1)*20*time.Second {
				t.Errorf("after %d: %+v", i+1, s.Requests)
			}
		}
		wait, s := refuse(t, l, a, fault.CodeRateLimited)
		if wait != 20*time.Second || s.Requests.Remaining != 0 || s.Requests.Limit != 3 {
			t.Errorf("refused: wait %v, %+v", wait, s.Requests)
		}
		grant(t, l, request("t", "other", Limits{}, 0))
		grant(t, l, request("u", "k", Limits{}, 0))
		c.advance(wait - time.Microsecond)
		refuse(t, l, a, fault.CodeRateLimited)
		c.advance(time.Microsecond)
		grant(t, l, a)
		refuse(t, l, a, fault.CodeRateLimited)
		c.advance(10 * time.Minute)
		if _, s := grant(t, l, a); s.Requests.Remaining != 2 {
			t.Errorf("a long pause must refill one minute's worth, no more: %+v", s.Requests)
		}
	})
}

func TestTokensAreCorrectedAfterwards(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, _ *clock) {
		l := open(Config{})
		a := request("t", "k", Limits{TokensPerMinute: 1000}, 600)
		k, s := grant(t, l, a)
		if s.Tokens.Remaining != 400 || s.Requests.Limit != 0 {
			t.Errorf("%+v", s)
		}
		refuse(t, l, a, fault.CodeTokenRateLimited)
		k.Release(t.Context(), 100)
		k.Release(t.Context(), 100) // the second does nothing
		k, s = grant(t, l, a)
		if s.Tokens.Remaining != 300 {
			t.Errorf("after the correction: %+v", s.Tokens)
		}
		k.Release(t.Context(), 900) // used more than the estimate: 100 + 900
		if _, s := refuse(t, l, request("t", "k", a.Bounds[0].Limits, 1), fault.CodeTokenRateLimited); s.Tokens.Remaining != 0 {
			t.Errorf("%+v", s.Tokens)
		}
	})
}

func TestEstimateAboveTheLimitCanRunAlone(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, _ *clock) {
		l := open(Config{Key: Limits{TokensPerMinute: 100}})
		k, s := grant(t, l, request("t", "k", Limits{}, 5000))
		if s.Tokens.Remaining != 0 {
			t.Errorf("%+v", s.Tokens)
		}
		k.Release(t.Context(), 50)
		grant(t, l, request("t", "k", Limits{}, 50))
	})
}

// TestAdjust: a permit takes what was counted instead of the estimate, whether that is less or more; what does not fit is refused, changes
// nothing and goes back with the permit.
func TestAdjust(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, c *clock) {
		l, replica := open(Config{Tenant: Limits{TokensPerMinute: 2000, Concurrent: 9}}), open(Config{Tenant: Limits{TokensPerMinute: 2000, Concurrent: 9}})
		a := request("t", "k", Limits{TokensPerMinute: 1000, RequestsPerMinute: 60, Concurrent: 2}, 400)
		first, _ := grant(t, l, a)
		second, _ := grant(t, replica, a)
		adjust := func(k *Permit, tokens int, code fault.Code, left int) time.Duration {
			t.Helper()
			s, err := k.Adjust(t.Context(), tokens)
			if code == "" && err != nil || code != "" && !fault.Is(err, code) || s.Tokens.Remaining != left || s.Tokens.Limit != 1000 || s.Requests.Limit != 60 {
				t.Fatalf("%d tokens: %+v, %v; want %d left, code %q", tokens, s, err, left, code)
			}
			return fault.Public(err).RetryAfter()
		}
		adjust(first, 100, "", 500)
		adjust(first, 100, "", 500) // again is nothing new
		adjust(second, 900, "", 0)
		adjust(second, 700, "", 200)
		if wait := adjust(first, 350, fault.CodeTokenRateLimited, 200); wait != 3*time.Second { // 50 tokens at 1000 a minute
			t.Errorf("refused for %v", wait)
		}
		refuse(t, l, a, fault.CodeConcurrency)
		first.Release(t.Context(), 0)
		adjust(second, 1000, "", 0)
		second.Release(t.Context(), 250)
		if _, s := grant(t, l, a); s.Tokens.Remaining != 350 {
			t.Errorf("after what was used: %+v", s.Tokens)
		}
		// What a permit took and time has given back is not given twice.
		c.advance(time.Minute)
		third, _ := grant(t, l, request("t", "other", a.Bounds[0].Limits, 500))
		c.advance(time.Hour)
		adjust(third, 0, "", 1000)
		if _, s := grant(t, l, request("t", "other", a.Bounds[0].Limits, 1000)); s.Tokens.Remaining != 0 {
			t.Errorf("credit from an adjustment: %+v", s.Tokens)
		}
	})
}

// TestAdjustAllOrNothing: where the tenant's rate refuses, the key's stays as it was; more than the limit counts as the limit, as before; a request
// whose tokens are not limited has nothing to adjust.
func TestAdjustAllOrNothing(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, _ *clock) {
		l := open(Config{Tenant: Limits{TokensPerMinute: 600}})
		grant(t, l, request("t", "b", Limits{}, 300))
		k, _ := grant(t, l, request("t", "a", Limits{TokensPerMinute: 1000}, 100))
		s, err := k.Adjust(t.Context(), 400)
		if !fault.Is(err, fault.CodeTokenRateLimited) || fault.Public(err).RetryAfter() != 10*time.Second || s.Tokens.Remaining != 900 {
			t.Fatalf("%+v, %v", s, err)
		}
		if s, err = k.Adjust(t.Context(), 300); err != nil || s.Tokens.Remaining != 700 {
			t.Errorf("the key paid for a refusal: %+v, %v", s, err)
		}
		alone, _ := grant(t, l, request("u", "a", Limits{}, 10))
		if s, err := alone.Adjust(t.Context(), 5000); err != nil || s.Tokens.Remaining != 0 {
			t.Errorf("alone: %+v, %v", s, err)
		}
		free, before := grant(t, l, request("v", "a", Limits{}, 0))
		if s, err := free.Adjust(t.Context(), 5000); err != nil || s != before {
			t.Errorf("not limited: %+v, %v", s, err)
		}
	})
}

func TestConcurrent(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, c *clock) {
		l, replica := open(Config{Key: Limits{Concurrent: 2}}), open(Config{Key: Limits{Concurrent: 2}})
		a := request("t", "k", Limits{}, 0)
		first, _ := grant(t, l, a)
		grant(t, replica, a)
		refuse(t, l, a, fault.CodeConcurrency)
		c.advance(time.Minute)
		refuse(t, replica, a, fault.CodeConcurrency)
		first.Release(t.Context(), 0)
		grant(t, replica, a)
		refuse(t, l, a, fault.CodeConcurrency)
	})
}

// TestRefusalTakesNothing: a request that the tenant's bound refuses leaves the key's rates and slots as they were.
func TestRefusalTakesNothing(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, _ *clock) {
		l := open(Config{Key: Limits{RequestsPerMinute: 10, Concurrent: 5}, Tenant: Limits{Concurrent: 1}})
		k, s := grant(t, l, request("t", "a", Limits{}, 0))
		if s.Requests.Remaining != 9 {
			t.Errorf("%+v", s)
		}
		for range 3 {
			refuse(t, l, request("t", "b", Limits{}, 0), fault.CodeConcurrency)
		}
		k.Release(t.Context(), 0)
		if _, s := grant(t, l, request("t", "b", Limits{}, 0)); s.Requests.Remaining != 9 {
			t.Errorf("refusals were charged: %+v", s)
		}
	})
}

// TestNeverAboveTheBound: whatever the interleaving, in any minute at most twice the limit is granted (a burst and a minute's
// worth), and never more slots than there are.
func TestNeverAboveTheBound(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, c *clock) {
		const limit, slots = 30, 4
		cfg := Config{Key: Limits{RequestsPerMinute: limit, Concurrent: slots}}
		replicas := []*Limiter{open(cfg), open(cfg)}
		var granted, running, most atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				for range 40 {
					k, _, err := replicas[rng.IntN(2)].Acquire(context.Background(), request("t", "k", Limits{}, 0))
					if err == nil {
						granted.Add(1)
						n := running.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						running.Add(-1)
						k.Release(context.Background(), 0)
					}
					c.advance(time.Duration(rng.IntN(400)) * time.Millisecond / 8)
				}
			})
		}
		wg.Wait()
		if granted.Load() > 2*limit || granted.Load() < limit || most.Load() > slots {
			t.Errorf("%d granted (limit %d), %d at once (bound %d)", granted.Load(), limit, most.Load(), slots)
		}
	})
}

func TestRedisLeaseOfDeadReplicaEnds(t *testing.T) {
	c, server := newClock(), miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	l, err := NewRedis(Config{Key: Limits{Concurrent: 1}, Lease: time.Minute}, client, discard())
	if err != nil {
		t.Fatal(err)
	}
	l.now = c.now
	a := request("t", "k", Limits{}, 0)
	grant(t, l, a) // never released
	refuse(t, l, a, fault.CodeConcurrency)
	c.advance(time.Minute)
	grant(t, l, a)
}

func TestRedisDown(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer client.Close()
	closed, err := NewRedis(Config{Key: Limits{RequestsPerMinute: 10}}, client, discard())
	if err != nil {
		t.Fatal(err)
	}
	share, err := NewRedis(Config{Key: Limits{RequestsPerMinute: 10}, Fallback: 5}, client, discard())
	if err != nil {
		t.Fatal(err)
	}
	k, _ := grant(t, closed, request("t", "k", Limits{TokensPerMinute: 100}, 10))
	estimated, before := grant(t, share, request("x", "k", Limits{TokensPerMinute: 100}, 10))
	server.Close()
	if _, err := k.Adjust(t.Context(), 20); !fault.Is(err, fault.CodeLimitUnavailable) || fault.Public(err).RetryAfter() == 0 {
		t.Errorf("adjusted without a store: %v", err)
	}
	if s, err := estimated.Adjust(t.Context(), 20); err != nil || s != before {
		t.Errorf("a replica with a share of its own must keep the estimate: %+v, %v", s, err)
	}
	k.Release(t.Context(), 0) // must not fail the caller
	refuse(t, closed, request("t", "k", Limits{}, 0), fault.CodeLimitUnavailable)
	for range 2 { // 10 / 5 replicas
		grant(t, share, request("t", "k", Limits{}, 0))
	}
	refuse(t, share, request("t", "k", Limits{}, 0), fault.CodeRateLimited)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := closed.Acquire(ctx, request("t", "k", Limits{}, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, s := grant(t, share, request("t", "new", Limits{}, 0)); s.Requests.Remaining != 9 {
		t.Errorf("after the recovery: %+v", s)
	}
}

// TestMemoryForgets: entries of callers that have recovered go away, so memory is bounded by recent callers.
func TestMemoryForgets(t *testing.T) {
	m, c := newMemory(), newClock()
	l, err := build(Config{Key: Limits{RequestsPerMinute: 60}}, m, discard())
	if err != nil {
		t.Fatal(err)
	}
	l.now = c.now
	for i := range 20_000 {
		grant(t, l, request("t", string(rune('a'+i%26))+time.Duration(i).String(), Limits{}, 0))
		c.advance(100 * time.Millisecond)
	}
	if n := len(m.shard("t").entries); n > 200 {
		t.Errorf("%d entries after 20,000 callers, of which 10 are recent", n)
	}
}

func TestNoLimits(t *testing.T) {
	l, err := NewMemory(Config{}, discard())
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		k, s := grant(t, l, request("t", "k", Limits{}, 1<<40))
		if s != (State{}) {
			t.Fatalf("%+v", s)
		}
		k.Release(t.Context(), 5)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{
		{Key: Limits{RequestsPerMinute: -1}}, {Tenant: Limits{TokensPerMinute: maxPerMinute + 1}}, {Fallback: -1}, {Lease: -1},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v passed", c)
		}
	}
}

// TestLevels: a request is counted at every level that it stands on; each binds those below it together and nobody else, and the refusal says which
// one it was.
func TestLevels(t *testing.T) {
	each(t, func(t *testing.T, open func(Config) *Limiter, _ *clock) {
		l, replica := open(Config{}), open(Config{})
		ask := func(organisation, tenant, project, key string) Request {
			bound := func(id string) Limits {
				n := map[string]int{"group": 6, "bank": 4, "shop": 2}[id]
				return Limits{RequestsPerMinute: n}
			}
			return Request{Tenant: tenant, Bounds: []Bound{
				{Scope: Key, ID: key},
				{Scope: Project, ID: project, Limits: bound(project)},
				{Scope: Tenant, ID: tenant, Limits: bound(tenant)},
				{Scope: Organisation, ID: organisation, Limits: bound(organisation)},
			}}
		}
		refusedBy := func(a Request, level string) {
			t.Helper()
			_, _, err := replica.Acquire(t.Context(), a)
			if !fault.Is(err, fault.CodeRateLimited) || !strings.Contains(fault.Public(err).Message(fault.English), level) {
				t.Errorf("%v, want a refusal by %s", err, level)
			}
		}
		grant(t, l, ask("group", "bank", "shop", "k1"))
		grant(t, replica, ask("group", "bank", "shop", "k2"))
		refusedBy(ask("group", "bank", "shop", "k3"), "project 'shop'")
		for range 2 { // what a project refuses no level above has counted
			grant(t, l, ask("group", "bank", "other", "k1"))
		}
		refusedBy(ask("group", "bank", "other", "k1"), "tenant 'bank'")
		grant(t, l, ask("group", "court", "shop", "k9")) // a project of that name in another tenant
		grant(t, l, ask("group", "court", "shop", "k9"))
		refusedBy(ask("group", "third", "none", "k9"), "organisation 'group'")
		grant(t, l, ask("elsewhere", "fourth", "none", "k9"))
	})
}
