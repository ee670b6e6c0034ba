package remote

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestReach: an upstream that cannot be connected to is told after two looks, seconds apart; one that can again at the next. A question waits
// for no look, an upstream that answers is seldom looked at, and a closed engine looks no more.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, end := context.WithCancel(t.Context())
		looks, away := 0, false
		dial := func(ctx context.Context, _, address string) (net.Conn, error) {
			looks++
			if address != "h:1" {
				t.Errorf("looked at %s", address)
			}
			if away {
				<-ctx.Done() // as behind a firewall
				return nil, errors.New("no route")
			}
			c, other := net.Pipe()
			_ = other.Close()
			return c, nil
		}
		r := &reach{
			ask: connects(dial, "h:1", time.Second), learn: func(context.Context) error { return nil }, scrape: func(context.Context, bool) {},
			closed: closed, now: time.Now, first: make(chan struct{}),
		}
		ask := func(after time.Duration, dead bool, want int) {
			t.Helper()
			time.Sleep(after)
			begun := time.Now()
			err := r.state()
			if (err != nil) != dead || time.Since(begun) != 0 {
				t.Errorf("%v after %v, %d looks", err, time.Since(begun), looks)
			}
			synctest.Wait()
			if looks != want {
				t.Errorf("%d looks, want %d", looks, want)
			}
		}
		ask(0, false, 1)
		ask(9*time.Second, false, 1)
		away = true
		ask(time.Second, false, 2) // this look is on its way
		ask(time.Second, false, 2) // and has failed
		ask(time.Second, false, 3) // the second is on its way
		ask(1500*time.Millisecond, true, 3)
		away = false
		ask(500*time.Millisecond, true, 4)
		ask(0, false, 4)
		r.doubt()
		ask(0, false, 5)
		end()
		ask(time.Hour, false, 5)
	})
}

func TestHostPort(t *testing.T) {
	for base, want := range map[string]string{"http://h/v1": "h:80", "https://h/v1": "h:443", "https://[::1]:8443/v1": "[::1]:8443", "http://h:8000": "h:8000"} {
		if got, err := hostPort(base); got != want || err != nil {
			t.Errorf("%s: %q, %v", base, got, err)
		}
	}
}
