package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func BenchmarkStep(b *testing.B) {
	c := NewController(ControllerConfig{})
	d := Demand{Acceptance: 0.5}
	d.Classes[Interactive] = ClassDemand{Decoding: 3, Context: 900, Drafts: 6}
	d.Classes[Batch] = ClassDemand{Decoding: 12, Context: 9000, Prefill: 4000, PrefillContext: 1e6}
	for b.Loop() {
		got := c.Plan(d)
		c.Observe(got.Load, got.Mean)
		for range got.Load.Decode {
			c.ObserveGap(Interactive, got.Mean, false)
		}
	}
}

func BenchmarkOrder(b *testing.B) {
	for _, n := range []int{8, 64, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f, rng := NewFair(FairConfig{}), rand.New(rand.NewPCG(1, 1))
			var all []Candidate
			for i := range n {
				c := Candidate{Tenant: fmt.Sprint(rng.IntN(20)), Class: rng.IntN(Classes), Arrived: epoch.Add(time.Duration(i)), Tokens: 100}
				f.Arrive(c.Tenant)
				all = append(all, c)
			}
			var dst []int
			for b.Loop() {
				dst = f.Order(dst[:0], all, epoch, 8)
			}
		})
	}
}
