package adminapi

import (
	"fmt"
	"testing"
	"time"
)

func TestLookupsPerMinute(t *testing.T) {
	var l lookupLimiter
	now := time.Unix(1_700_000_000, 0)
	for i := range lookupsPerMinute {
		if w := l.wait("a", now.Add(time.Duration(i)*time.Second)); w != 0 {
			t.Fatalf("look-up %d waits %v", i, w)
		}
	}
	if w := l.wait("a", now.Add(45*time.Second)); w != 15*time.Second {
		t.Errorf("one too many waits %v", w)
	}
	if w := l.wait("b", now.Add(45*time.Second)); w != 0 {
		t.Errorf("another caller waits %v", w)
	}
	if w := l.wait("a", now.Add(time.Minute)); w != 0 {
		t.Errorf("after a minute it waits %v", w)
	}
	if w := l.wait("a", now.Add(-time.Hour)); w != 0 {
		t.Errorf("with the clock set back it waits %v", w)
	}
	for i := range 3 * maxLookups {
		l.wait(fmt.Sprint(i), now)
	}
	if len(l.callers) > maxLookups {
		t.Errorf("%d callers are remembered", len(l.callers))
	}
}
