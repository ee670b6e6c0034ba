package wal

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/audit/durable/durabletest"
)

// TestSlowDisk makes every fsync wait: one serves all that came meanwhile, nobody is refused, and none is written before its turn.
func TestSlowDisk(t *testing.T) {
	disk := &durabletest.Files{}
	dir := t.TempDir()
	w, err := Open(Config{
		Dir: dir, Writer: "0123456789abcdef0123456789abcdef", SegmentBytes: 1 << 16, MaxBytes: 64 << 20, Deadline: time.Minute, Files: disk, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()), Device: "log",
	})
	if err != nil {
		t.Fatal(err)
	}
	gate, syncs := make(chan struct{}), make(chan struct{}, 100)
	disk.Set(func(op string) durabletest.Mode {
		if op == "sync" {
			syncs <- struct{}{}
			<-gate
		}
		return durabletest.Healthy
	})
	const callers = 50
	acked := make(chan uint64, callers)
	appendOne := func() {
		seq, err := w.Append(context.Background(), []byte("a record"), FullShare)
		if err != nil {
			t.Errorf("append on a slow disk: %v", err)
		}
		acked <- seq
	}
	go appendOne()
	<-syncs // the first commit is at the disk
	for range callers - 1 {
		go appendOne()
	}
	for queued := 0; queued < callers-1; {
		if t.Context().Err() != nil {
			t.Fatal("the appends do not come")
		}
		w.mu.Lock()
		queued = len(w.queue)
		w.mu.Unlock()
	}
	if len(acked) > 0 {
		t.Error("a record was acknowledged before it was durable")
	}
	gate <- struct{}{}
	<-syncs // the second one carries all the others
	gate <- struct{}{}
	seen := map[uint64]bool{}
	for range callers {
		seen[<-acked] = true
	}
	if len(seen) != callers || len(syncs) != 0 {
		t.Errorf("%d sequences for %d records, %d more syncs", len(seen), callers, len(syncs))
	}
	disk.Set(nil)
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, err := Segments(dir)
	if err != nil || len(stored) != 1 || stored[0].Damage != Whole || len(stored[0].ends) != callers {
		t.Errorf("%+v, %v", stored, err)
	}
}
