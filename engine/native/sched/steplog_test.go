package sched

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// checkRecord verifies what energy attribution relies on: the shares sum to the step.
func checkRecord(t *testing.T, r StepRecord) {
	t.Helper()
	var sum Share
	for _, s := range r.Shares {
		sum = sum.plus(s)
	}
	if sum.Decode != r.Load.Decode || sum.Prefill != r.Load.Prefill || sum.Drafts != r.Load.Drafts || sum.Cached != r.Cached || sum.Accepted != r.Accepted {
		t.Errorf("step %d: shares sum to %+v, the step is %+v", r.Step, sum, r)
	}
}

func TestStepLogSharesSumToTheStep(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 6))
	l := NewStepLog(50, 8)
	for step := range uint64(1000) {
		var load Load
		var shares []Share
		for i := range rng.IntN(20) { // more than the log keeps
			s := Share{fmt.Sprint(i), rng.IntN(2), rng.IntN(30), rng.IntN(4), rng.IntN(3), rng.IntN(99)}
			load.Decode, load.Prefill, load.Drafts = load.Decode+s.Decode, load.Prefill+s.Prefill, load.Drafts+s.Drafts
			shares = append(shares, s)
		}
		forgotten := 0
		if step%10 == 9 { // the loop forgot somebody
			forgotten = 7
			load.Prefill += 7
		}
		if got := l.Add(epoch.Add(time.Duration(step)), 5, load, shares); got != forgotten {
			t.Fatalf("step %d: %d rows are without a share, want %d", step, got, forgotten)
		}
		if len(shares) > 0 {
			shares[0].Request = "changed afterwards"
		}
		records := l.Page(0, 5000)
		if len(records) != int(min(step+1, 50)) {
			t.Fatalf("step %d: %d records", step, len(records))
		}
		for i, r := range records {
			checkRecord(t, r)
			if r.Step != step+2+uint64(i)-uint64(len(records)) || !r.Time.Equal(epoch.Add(time.Duration(r.Step-1))) || len(r.Shares) > 9 {
				t.Fatalf("record %d: %+v", i, r)
			}
			for _, s := range r.Shares {
				if s.Request == "changed afterwards" {
					t.Fatal("the log shares memory with its caller")
				}
			}
		}
	}
	for _, k := range []struct{ since, want int }{{990, 10}, {999, 1}, {1000, 0}, {5000, 0}, {100, 50}} {
		if got := l.Page(uint64(k.since), 5000); len(got) != k.want {
			t.Errorf("since %d there are %d records, want %d", k.since, len(got), k.want)
		}
	}
	if got := l.Page(1<<64-1, 5000); got != nil {
		t.Errorf("since the end of time there are %d records", len(got))
	}
	if got := NewStepLog(0, 0).Page(0, 5000); got != nil {
		t.Errorf("an empty log has %d records", len(got))
	}
}

// Steps are recorded while others read; run with the race detector.
func TestStepLogWhileOthersRead(t *testing.T) {
	t.Parallel()
	l := NewStepLog(16, 4)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var last uint64
			for last < 3000 {
				for _, r := range l.Page(last, 5000) {
					checkRecord(t, r)
					if r.Step <= last || len(r.Shares) != 3 {
						t.Errorf("after step %d comes %+v", last, r)
						return
					}
					last = r.Step
				}
			}
		})
	}
	for i := range 3000 {
		shares := []Share{{Request: "a", Decode: 1}, {Request: "b", Prefill: i}, {Request: "c", Drafts: 3, Accepted: 2}}
		l.Add(epoch, time.Millisecond, Load{Decode: 1, Prefill: i, Drafts: 3}, shares)
	}
	wg.Wait()
}

func TestStepLogTakesNoMemory(t *testing.T) {
	l := NewStepLog(64, 8)
	shares := make([]Share, 20)
	if n := testing.AllocsPerRun(1000, func() { l.Add(epoch, 1, Load{Decode: 3}, shares) }); n != 0 {
		t.Errorf("a step takes memory %v times", n)
	}
}
