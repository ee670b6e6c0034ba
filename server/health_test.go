package server

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/adminapi"
)

// TestHealthIsShared: however many probe, the parts are asked once a second, and a prober who leaves does not cut the question short.
func TestHealthIsShared(t *testing.T) {
	now, asked := time.Unix(1, 0), 0
	release := make(chan struct{})
	h := health{now: func() time.Time { return now }, check: func(ctx context.Context) []adminapi.SystemPart {
		asked++
		<-release
		if ctx.Err() != nil {
			t.Error("the question ends with the prober")
		}
		return []adminapi.SystemPart{{Name: "database"}}
	}}
	gone, leave := context.WithCancel(t.Context())
	leave()
	probe := func() {
		if got := h.parts(gone); len(got) != 1 {
			t.Errorf("parts %v", got)
		}
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(probe)
	}
	close(release)
	all.Wait()
	if asked != 1 {
		t.Errorf("50 probes ask %d times", asked)
	}
	now = now.Add(healthAge)
	if probe(); asked != 2 {
		t.Errorf("a probe a second later asks %d times in all", asked)
	}
}
