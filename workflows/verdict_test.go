package workflows

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func th() Thresholds { return Thresholds{}.withDefaults(4) }

// arm makes an arm whose latencies are all the given ones.
func arm(requests, errors int64, first, total time.Duration) Arm {
	a := Arm{Requests: requests, Errors: errors}
	if requests > 0 {
		a.FirstToken = []Bin{{first.Microseconds(), requests}}
		a.Total = []Bin{{total.Microseconds(), requests}}
	}
	return a
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	good := func(n int64) Arm { return arm(n, 0, 100*ms, 900*ms) }
	silent := func(a Arm) Arm {
		a.FirstToken = nil
		return a
	}
	tests := []struct {
		name              string
		phase             string
		stable, candidate Arm
		want              Outcome
		code              string
	}{
		{"nothing", "canary-20", Arm{}, Arm{}, NoData, "too_few_requests"},
		{"stable only", "canary-20", good(1000), Arm{}, NoData, "too_few_requests"},
		{"candidate only", "canary-80", Arm{}, good(1000), NoData, "too_few_requests"},
		{"one below the minimum", "canary-20", good(1000), good(199), NoData, "too_few_requests"},
		{"stable below the minimum at 80", "canary-80", good(199), good(900), NoData, "too_few_requests"},
		{"healthy at the minimum", "canary-20", good(200), good(200), Pass, "healthy"},
		{"one error in one request", "canary-20", good(300), arm(1, 1, 100*ms, 900*ms), NoData, "too_few_requests"},
		{"every request fails", "canary-20", good(300), arm(8, 8, 100*ms, 900*ms), Fail, "error_rate_cap"},
		{"every request fails, stable silent", "canary-20", Arm{}, arm(8, 8, 100*ms, 900*ms), Fail, "error_rate_cap"},
		{"errors above the margin, below the cap", "canary-40", good(4000), arm(2000, 180, 100*ms, 900*ms), Fail, "error_rate"},
		{"errors near the margin", "canary-40", good(400), arm(400, 14, 100*ms, 900*ms), Inconclusive, "error_rate"},
		{"four of four, not proof for sixteen looks", "canary-20", Arm{}, arm(4, 4, 100*ms, 900*ms), NoData, "too_few_requests"},
		{"both arms fail", "canary-40", arm(500, 200, 100*ms, 900*ms), arm(500, 200, 100*ms, 900*ms), Fail, "error_rate_cap"},
		{"slow first token", "canary-20", good(400), arm(400, 0, 200*ms, 900*ms), Fail, "first_token_latency"},
		{"slow in total", "canary-20", good(400), arm(400, 0, 100*ms, 1800*ms), Fail, "total_latency"},
		{"slower within the ratio", "canary-20", good(400), arm(400, 0, 140*ms, 1300*ms), Pass, "healthy"},
		{"three times slower within the floor", "canary-20", arm(400, 0, 2*ms, 20*ms), arm(400, 0, 6*ms, 60*ms), Pass, "healthy"},
		{"no latencies", "canary-20", good(400), Arm{Requests: 400}, Inconclusive, "total_latency"},
		{"answers in one piece", "canary-20", silent(good(400)), silent(good(400)), Pass, "healthy"},
		{"slow answers in one piece", "canary-20", silent(good(400)), silent(arm(400, 0, 0, 1800*ms)), Fail, "total_latency"},
		{"one version answers in one piece", "canary-20", good(400), silent(good(400)), Pass, "healthy"},
		{"a few streams, slow", "canary-20", good(400), Arm{Requests: 400, FirstToken: []Bin{{900_000, 199}}, Total: good(400).Total}, Pass, "healthy"},
		{"half of them streams, slow", "canary-20", good(400), Arm{Requests: 400, FirstToken: []Bin{{890_000, 200}}, Total: good(400).Total}, Fail, "first_token_latency"},
		{"faster and fewer errors", "canary-20", arm(400, 20, 100*ms, 900*ms), arm(400, 0, 10*ms, 90*ms), Pass, "healthy"},
		{"more errors than requests", "canary-20", good(400), arm(400, 401, 100*ms, 900*ms), NoData, "evidence"},
		{"negative requests", "canary-20", good(400), Arm{Requests: -1}, NoData, "evidence"},
		{"unsorted bins", "canary-20", good(400), Arm{Requests: 400, FirstToken: []Bin{{5, 200}, {4, 200}}}, NoData, "evidence"},
		{"baseline silent", PhaseBaseline, good(199), Arm{}, NoData, "too_few_requests"},
		{"baseline", PhaseBaseline, good(200), Arm{}, Pass, "healthy"},
		{"baseline failing", PhaseBaseline, arm(400, 80, 100*ms, 900*ms), Arm{}, Inconclusive, "baseline_unhealthy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := Evidence{Schema: 1, Rollout: "r", Phase: tt.phase, Stable: tt.stable, Candidate: tt.candidate}
			d := Verdict(ev, th())
			if d.Outcome != tt.want || d.Code != tt.code {
				t.Errorf("got %s (%s: %s), want %s (%s)", d.Outcome, d.Code, d.Reason, tt.want, tt.code)
			}
			if d.Evidence != ev.Hash() || d.Reason == "" {
				t.Errorf("the decision does not name its evidence and reason: %+v", d)
			}
		})
	}
}

// TestVerdictRefusesBadThresholds: no threshold that is out of range, and no NaN, can lead to Pass.
func TestVerdictRefusesBadThresholds(t *testing.T) {
	t.Parallel()
	good := arm(5000, 0, time.Millisecond, time.Millisecond)
	ev := Evidence{Phase: "canary-20", Stable: good, Candidate: good}
	if d := Verdict(ev, th()); d.Outcome != Pass {
		t.Fatalf("the good case does not pass: %+v", d)
	}
	v := reflect.ValueOf(th())
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			continue // gates are tried in TestGatesOutOfRangeAreRefused
		}
		for _, x := range []float64{math.NaN(), math.Inf(1), -1, 1e18} {
			bad := th()
			f := reflect.ValueOf(&bad).Elem().Field(i)
			switch {
			case f.Kind() == reflect.Float64:
				f.SetFloat(x)
			case math.IsNaN(x) || x > 1e15:
				continue
			default:
				f.SetInt(int64(x))
			}
			if d := Verdict(ev, bad); d.Outcome != Inconclusive || d.Code != "thresholds" {
				t.Errorf("%s = %v gives %s", v.Type().Field(i).Name, x, d.Outcome)
			}
		}
	}
	if d := Verdict(ev, Thresholds{}); d.Outcome == Pass {
		t.Error("empty thresholds pass")
	}
}

// TestVerdictBelowMinimumNeverPasses tries random evidence with at least one arm below the minimum.
func TestVerdictBelowMinimumNeverPasses(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		n, m := r.Int64N(200), r.Int64N(5000)
		if r.IntN(2) == 0 {
			n, m = m, n
		}
		ev := Evidence{Phase: "canary-40", Stable: arm(n, 0, time.Millisecond, time.Second), Candidate: arm(m, 0, time.Millisecond, time.Second)}
		if d := Verdict(ev, th()); d.Outcome == Pass {
			t.Fatalf("passes on %d and %d requests", n, m)
		}
	}
}

// TestVerdictReplays: stored evidence and thresholds give the same decision again, as an auditor would compute it.
func TestVerdictReplays(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 9))
	for range 50 {
		s, c := sim{p: 0.02, scale: 1}, sim{p: 0.05, scale: 1.4}
		s.draw(r, 300)
		c.draw(r, 300)
		ev := Evidence{Schema: 1, Rollout: "r", Phase: "canary-40", Stable: s.arm(), Candidate: c.arm()}
		first := Verdict(ev, th())
		var again Evidence
		if err := json.Unmarshal(ev.canonical(), &again); err != nil {
			t.Fatal(err)
		}
		if second := Verdict(again, th()); !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v\nbecame\n%+v", first, second)
		}
		again.Candidate.Errors++
		if again.Hash() == first.Evidence {
			t.Fatal("changed evidence has the same hash")
		}
	}
}

func TestEvidenceHashIsStable(t *testing.T) {
	t.Parallel()
	ev := Evidence{Schema: 1, Rollout: "r", Phase: "canary-20", Stable: arm(3, 1, time.Second, 2*time.Second), Candidate: Arm{Since: 7}}
	const want = `{"schema":1,"rollout":"r","phase":"canary-20","stable":{"since":0,"requests":3,"errors":1,"first_token":[{"us":1000000,"n":3}],"total":[{"us":2000000,"n":3}]},"candidate":{"since":7,"requests":0,"errors":0}}`
	if got := string(ev.canonical()); got != want {
		t.Errorf("the canonical form changed, so stored hashes no longer verify:\n%s", got)
	}
}

// sim draws requests of one arm: failures with probability p, log-normal latencies times scale.
type sim struct {
	p, scale float64
	a        ArmStats
}

func (s *sim) draw(r *rand.Rand, n int) {
	for range n {
		s.a.Requests++
		s.a.Errors += bern(r, s.p)
		first := 2e5 * s.scale * math.Exp(0.4*r.NormFloat64())
		s.a.FirstToken = append(s.a.FirstToken, int64(first))
		s.a.Total = append(s.a.Total, int64(first+1e6*s.scale*math.Exp(0.4*r.NormFloat64())))
	}
}

func (s *sim) arm() Arm { return armOf(s.a, 0) }

// simulate runs whole rollouts, looking at the evidence after every 50 requests, and counts how they end.
func simulate(runs int, th Thresholds, stable, candidate sim) (completed, rolledBack, held int) {
	r := rand.New(rand.NewPCG(21, 42))
	for range runs {
		switch outcome := oneRollout(r, th, stable, candidate); outcome {
		case Pass:
			completed++
		case Fail:
			rolledBack++
		default:
			held++
		}
	}
	return completed, rolledBack, held
}

func oneRollout(r *rand.Rand, th Thresholds, stable, candidate sim) Outcome {
	for _, share := range []int{20, 40, 80} {
		s, c, passed := stable, candidate, false
		for sample := 0; sample < 100 && !passed; sample++ {
			s.draw(r, 50*(100-share)/100)
			c.draw(r, 50*share/100)
			switch Verdict(Evidence{Phase: "canary", Stable: s.arm(), Candidate: c.arm()}, th).Outcome {
			case Fail:
				return Fail
			case Pass:
				passed = true
			}
		}
		if !passed {
			return Inconclusive
		}
	}
	return Pass
}

// TestSimulatedRollouts holds the declared error probabilities of the whole procedure, looking often, and its power. The counts
// are of 60 rollouts with a fixed seed; the promises are 1 % each.
func TestSimulatedRollouts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulation")
	}
	const runs = 60
	tests := []struct {
		name                        string
		stable, candidate           sim
		leastCompleted, leastBack   int
		mostCompleted, mostRollback int
	}{
		{"equal", sim{p: 0.01, scale: 1}, sim{p: 0.01, scale: 1}, 57, 0, runs, 1},
		{"errors at the margin", sim{p: 0.01, scale: 1}, sim{p: 0.06, scale: 1}, 0, 0, 1, 2},
		{"errors far above", sim{p: 0.01, scale: 1}, sim{p: 0.15, scale: 1}, 0, runs, 0, runs},
		{"latency at the limit", sim{p: 0.01, scale: 1}, sim{p: 0.01, scale: 1.5}, 0, 0, 1, 2},
		{"latency far above", sim{p: 0.01, scale: 1}, sim{p: 0.01, scale: 2.2}, 0, runs, 0, runs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			completed, back, held := simulate(runs, th(), tt.stable, tt.candidate)
			t.Logf("completed %d, rolled back %d, held %d", completed, back, held)
			if completed < tt.leastCompleted || completed > tt.mostCompleted {
				t.Errorf("%d completed, want %d to %d", completed, tt.leastCompleted, tt.mostCompleted)
			}
			if back < tt.leastBack || back > tt.mostRollback {
				t.Errorf("%d rolled back, want %d to %d", back, tt.leastBack, tt.mostRollback)
			}
		})
	}
}
