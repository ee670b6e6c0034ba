package workflows

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluice-project/sluice/internal/fault"
)

// standardSpec is a rollout by gates with ten minutes for a day.
func standardSpec() Spec {
	return Spec{
		Model: "m", Candidate: "v2", Preset: Standard, Dwell: 10 * time.Minute, Poll: time.Minute,
		Results: []Results{{Suite: "faq", Digest: strings.Repeat("a", 64), Both: 9000, OnlyStable: 40, OnlyCandidate: 40, Neither: 920}},
	}.withDefaults()
}

// TestStandardDefaults holds the limits that a rollout has when nobody names any.
func TestStandardDefaults(t *testing.T) {
	t.Parallel()
	s := Spec{Model: "m", Candidate: "v2", Preset: Standard}.withDefaults()
	if s.Dwell != 72*time.Hour || s.Deadline != 9*24*time.Hour || s.analyses() != 3 {
		t.Errorf("dwell %v, deadline %v, %d looks", s.Dwell, s.Deadline, s.analyses())
	}
	margins := map[string]float64{}
	for _, g := range s.Thresholds.Gates {
		margins[g.Name()] = g.Margin
		if g.MinSample != 1000 || g.Alpha != 0.01 || g.Source == "" || g.Direction == "" {
			t.Errorf("%+v", g)
		}
	}
	want := map[string]float64{
		"failures": 0.005, "refusals": 0.005, "first_token_p95": 0.05, "total_p95": 0.05, "total_p99": 0.10, "tokens": 0.05, "cost": 0.05, "accuracy": 0.005,
	}
	if !reflect.DeepEqual(margins, want) {
		t.Errorf("margins %v", margins)
	}
	if err := s.check(); !fault.Is(err, fault.CodeInvalidValue) || !strings.Contains(err.Error(), "accuracy") {
		t.Errorf("accuracy without results: %v", err)
	}
	s.Without = []RemovedGate{{Gate: "accuracy", Reason: "no suite yet"}}
	s.Thresholds.Gates = nil
	if s = s.withDefaults(); s.check() != nil || len(s.Thresholds.Gates) != len(want)-1 {
		t.Errorf("without accuracy: %v", s.check())
	}
}

func TestGatesOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Spec){
		"gates[0].metric":     func(s *Spec) { s.Gates = []Gate{{Metric: "luck"}} },
		"gates[0].margin":     func(s *Spec) { s.Gates = []Gate{{Metric: MetricTotal, Margin: math.NaN()}} },
		"gates[0].quantile":   func(s *Spec) { s.Gates = []Gate{{Metric: MetricCost, Quantile: 0.9}} },
		"gates[0].alpha":      func(s *Spec) { s.Gates = []Gate{{Metric: MetricCost, Alpha: 0.7}} },
		"gates[0].floor":      func(s *Spec) { s.Gates = []Gate{{Metric: MetricCost, Floor: time.Second}} },
		"gates[0].min_sample": func(s *Spec) { s.Gates = []Gate{{Metric: MetricCost, MinSample: -1}} },
		"without[0].gate":     func(s *Spec) { s.Without = []RemovedGate{{"luck", "x"}} },
		"without[0].reason":   func(s *Spec) { s.Without = []RemovedGate{{MetricCost, " "}} },
		"results":             func(s *Spec) { s.Results = nil },
		"results[0]":          func(s *Spec) { s.Results[0] = Results{Suite: "x", Digest: strings.Repeat("a", 64)} },
		"results[0].digest":   func(s *Spec) { s.Results[0].Digest = "A" },
		"preset":              func(s *Spec) { s.Thresholds.LatencyRatio = 3 },
		"gates[0]":            func(s *Spec) { s.Gates = []Gate{{Metric: MetricTotal, Margin: 0.2}} },
		"gates[1]": func(s *Spec) {
			s.Gates = []Gate{{Metric: MetricTotal, Margin: 0.01}, {Metric: MetricCost, MinSample: 1}}
		},
		"steps": func(s *Spec) { s.Steps = []int{100} },
	} {
		s := standardSpec()
		change(&s)
		s = s.withDefaults()
		err := s.check()
		if public := fault.Public(err); err == nil || public.Param() != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	weak := standardSpec()
	weak.Gates, weak.Without = []Gate{{Metric: MetricTotal, Margin: 0.2}}, []RemovedGate{{"total_p95", "longer answers are wanted"}}
	weak = weak.withDefaults()
	if g, ok := weak.Thresholds.gate("total_p95"); weak.check() != nil || !ok || g.Margin != 0.2 || !reflect.DeepEqual(weak.OwnGates(), []Gate{g}) {
		t.Errorf("a weaker gate with a reason: %v, %+v", weak.check(), g)
	}
	trial := Spec{Model: "m", Candidate: "v", Preset: Trial, Gates: []Gate{{Metric: MetricCost}}}.withDefaults()
	if trial.check() == nil {
		t.Error("a trial takes gates that it does not read")
	}
}

// TestSpentAddsUp: what the analyses of a step may spend adds up to alpha, grows from one to the next, and is nothing outside.
func TestSpentAddsUp(t *testing.T) {
	t.Parallel()
	for of := 1; of <= maxAnalyses; of++ {
		sum := 0.0
		for n := 1; n <= of; n++ {
			sum += spent(0.01, n, of)
		}
		if math.Abs(sum-0.01) > 1e-12 || spent(0.01, 0, of) != 0 || spent(0.01, of+1, of) != 0 {
			t.Errorf("%d analyses spend %v", of, sum)
		}
	}
	if spent(0.01, 1, 3) > 1e-4 || spent(0.01, 3, 3) < 0.008 {
		t.Errorf("the first spends %v, the last %v", spent(0.01, 1, 3), spent(0.01, 3, 3))
	}
	if spent(math.NaN(), 1, 1) != 0 {
		t.Error("no alpha spends something")
	}
}

func TestAnalysesComeOnce(t *testing.T) {
	t.Parallel()
	s := standardSpec()
	at := []int{}
	for m := 0; m <= 40; m += 5 {
		at = append(at, s.analysisAt(time.Duration(m)*time.Minute))
	}
	if want := []int{0, 0, 1, 1, 2, 2, 3, 3, 3}; !reflect.DeepEqual(at, want) {
		t.Errorf("looks %v, want %v", at, want)
	}
	for n := 1; n <= s.analyses(); n++ {
		due := s.analysisDue(n)
		if before, then := s.analysisAt(due-1), s.analysisAt(due); before != n-1 || then != n {
			t.Errorf("analysis %d is due after %s: %d before, %d then", n, due, before, then)
		}
		st := State{Spec: s, Phase: PhaseCanary, Share: 20, EnteredAt: 1, CheckedAt: 1 + due.Microseconds() - 1}
		if next := st.NextAnalysis(); next != 1+due.Microseconds() {
			t.Errorf("analysis %d is announced at %d", n, next)
		}
	}
}

// gateEvidence is good evidence of a last partial step at its last analysis.
func gateEvidence() (Evidence, Thresholds) {
	th := standardSpec().Thresholds
	r := rand.New(rand.NewPCG(1, 2))
	s, c := world0.arm(r, 200_000, nil), world0.arm(r, 200_000, nil)
	return Evidence{Schema: gateSchema, Rollout: "r", Phase: "canary-80", Stable: s, Candidate: c, Look: 3, Looks: 3, Last: true, Results: standardSpec().Results}, th
}

// TestGateVerdict breaks every metric of good evidence, one at a time, and takes its figures away.
func TestGateVerdict(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Evidence, *Thresholds)
		want   Outcome
		code   string
	}{
		"good":                {nil, Pass, "healthy"},
		"between looks":       {func(e *Evidence, _ *Thresholds) { e.Look = 0 }, Inconclusive, betweenAnalyses},
		"proven before":       {func(e *Evidence, _ *Thresholds) { e.Look, e.Proven = 0, "x" }, Pass, "healthy"},
		"proven, now failing": {func(e *Evidence, _ *Thresholds) { e.Proven = "x"; e.Candidate.fail(0.1) }, Fail, MetricFailures},
		"failures":            {func(e *Evidence, _ *Thresholds) { e.Candidate.fail(0.02) }, Fail, MetricFailures},
		"failures at margin":  {func(e *Evidence, _ *Thresholds) { e.Candidate.fail(0.0145) }, Inconclusive, MetricFailures},
		"refusals":            {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums.Refusals = binary(6000, 200_000) }, Fail, MetricRefusals},
		"cost":                {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums.Cost.scale(1.2) }, Fail, MetricCost},
		"tokens":              {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums.Tokens.scale(1.2) }, Fail, MetricTokens},
		"accuracy": {func(e *Evidence, _ *Thresholds) {
			e.Results = []Results{{Both: 9000, OnlyStable: 140, OnlyCandidate: 40, Neither: 820}}
		}, Inconclusive, MetricAccuracy},
		"accuracy lost": {func(e *Evidence, _ *Thresholds) { e.Results = []Results{{Both: 8000, OnlyStable: 500, Neither: 820}} }, Fail, MetricAccuracy},
		"worst suite": {func(e *Evidence, _ *Thresholds) {
			e.Results = append(e.Results, Results{Both: 8000, OnlyStable: 500, Neither: 820})
		}, Fail, MetricAccuracy},
		"no results":      {func(e *Evidence, _ *Thresholds) { e.Results = nil }, NoData, MetricAccuracy},
		"no first tokens": {func(e *Evidence, _ *Thresholds) { e.Candidate.FirstToken = nil }, NoData, "first_token_p95"},
		"no sums":         {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums = nil }, NoData, MetricFailures},
		"no cost":         {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums.Cost, e.Stable.Sums.Cost = Ratio{}, Ratio{} }, NoData, MetricCost},
		"NaN":             {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums.Cost.YY = math.NaN() }, NoData, "evidence"},
		"too few":         {func(e *Evidence, _ *Thresholds) { e.Candidate.Requests, e.Candidate.Errors = 999, 9 }, NoData, tooFewRequests},
		"confirm":         {func(e *Evidence, _ *Thresholds) { e.Confirm = true; e.Stable.Requests, e.Stable.Errors = 5, 0 }, Pass, "healthy"},
		"slow at 100":     {func(e *Evidence, _ *Thresholds) { e.Confirm = true; e.Candidate.Sums.Cost.scale(1.2) }, Pass, "healthy"},
		"above the cap":   {func(e *Evidence, _ *Thresholds) { e.Confirm = true; e.Candidate.fail(0.3) }, Fail, errorRateCap},
		"one tenant":      {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums.Tenants[3].Errors += 800 }, Fail, tenantFailures},
		"bad gate":        {func(_ *Evidence, th *Thresholds) { th.Gates[0].Margin = math.NaN() }, Inconclusive, "thresholds"},
		"bad at the end": {func(e *Evidence, _ *Thresholds) { // what went well before does not pay for it
			e.Candidate.fail(0.0144)
			e.Earlier = []EarlierStep{{Effects: []StepEffect{{MetricFailures, -0.01, 0.0001}}}}
		}, Inconclusive, MetricFailures},
		"few conversations": {func(e *Evidence, _ *Thresholds) { e.Candidate.Sums.Cost.NN = 200_000 * 200_000 / 30 }, NoData, MetricCost},
		"slow before": {func(e *Evidence, _ *Thresholds) {
			e.Earlier = []EarlierStep{{Effects: []StepEffect{{"total_p95", 0.2, 0.001}}}}
		}, Inconclusive, "total_p95"},
	} {
		ev, th := gateEvidence()
		th.Gates = append([]Gate{}, th.Gates...)
		if tt.change != nil {
			tt.change(&ev, &th)
		}
		d := Verdict(ev, th)
		if d.Outcome != tt.want || d.Code != tt.code {
			t.Errorf("%s: %s by %s (%s), want %s by %s", name, d.Outcome, d.Code, d.Reason, tt.want, tt.code)
		}
		if name == "NaN" {
			continue
		}
		var again Evidence
		if err := json.Unmarshal(ev.canonical(), &again); err != nil || !reflect.DeepEqual(Verdict(again, th), d) {
			t.Errorf("%s does not replay: %v", name, err)
		}
		for _, c := range d.Checks {
			for _, p := range []fault.Phrase{c.Title(th), c.LimitText(th), d.Proof(c, th)} {
				if en := p.In(fault.English); machine.MatchString(en) || !han.MatchString(p.In(fault.Chinese)) {
					t.Errorf("%s %s: %q, %q", name, c.Name, en, p.In(fault.Chinese))
				}
			}
		}
	}
}

func binary(k, n float64) Ratio { return Ratio{Y: k, N: n, YY: k, YN: k, NN: n} }

func (a *Arm) fail(p float64) {
	a.Errors = int64(p * float64(a.Requests))
	a.Sums.Failures = binary(float64(a.Errors), float64(a.Requests))
}

func (r *Ratio) scale(by float64) { r.Y, r.YN, r.YY = r.Y*by, r.YN*by, r.YY*by*by }

// TestConversationsAreUnits: failures that come by whole conversations widen the interval as much as they should.
func TestConversationsAreUnits(t *testing.T) {
	t.Parallel()
	const per, units, bad = 10, 1000, 20 // 20 conversations of 10 requests each fail wholly
	alike := Ratio{Y: bad * per, N: units * per, YY: bad * per * per, YN: bad * per * per, NN: units * per * per}
	if got := alike.inflation(); got < 9.5 || got > 10.5 {
		t.Errorf("the variance is inflated by %.2f, want about %d", got, per)
	}
	if e, f := shareEffect(alike, alike), shareEffect(binary(200, 10_000), binary(200, 10_000)); e.se < 3*f.se {
		t.Errorf("standard errors %g and %g", e.se, f.se)
	}
}

// TestGatedRolloutReachesEveryone runs a rollout by gates in the workflow: each step is left at a planned analysis, the last partial one on all steps together.
func TestGatedRolloutReachesEveryone(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.stats = w.traffic(8_000, sim0, sim0)
	r := rehearse(t, w, func(s *Spec) {
		*s = standardSpec()
		s.RequireApproval = []int{40, 100}
		s.Thresholds.Gates = nil
	})
	r.RegisterDelayedCallback(func() {
		r.UpdateWorkflow(approveUpdate, "a", &answer{}, command{Rollout: "r-1", Actor: bob, Reason: "go"})
	}, 45*time.Minute)
	r.RegisterDelayedCallback(func() { // soon after the last step began
		r.UpdateWorkflow(approveUpdate, "b", &answer{}, command{Rollout: "r-1", Actor: bob, Reason: "go"})
	}, 58*time.Minute)
	st := r.run()
	if got, want := path(st), "baseline canary-20 canary-40 canary-80 canary-100 completed"; got != want {
		t.Fatalf("path %q, want %q: %s", got, want, st.Decision.Reason)
	}
	kept, err := r.acts.store.get(t.Context(), "r-1")
	if err != nil {
		t.Fatal(err)
	}
	left, err := r.acts.store.evaluations(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]Evaluation{}
	for _, h := range kept.History {
		if h.From != PhaseStarting {
			l, err := VerifySealed(left[h.Evidence].Sealed(), h.Evidence)
			if steps[h.Evidence] = l; err != nil || l.VerifyEarlier(steps) != nil || l.Decision.Outcome != Pass {
				t.Errorf("%s does not verify: %v, %v, %s", h.From, err, l.VerifyEarlier(steps), l.Decision.Outcome)
			}
		}
		ev := left[h.Evidence].Evidence
		switch h.From {
		case "canary-20":
			if ev.Look != 1 || ev.Looks != 3 || ev.Last {
				t.Errorf("20 was left at look %d", ev.Look)
			}
		case "canary-40":
			if ev.Proven == "" {
				t.Error("40 was left without the proof of its look")
			}
		case "canary-80":
			if !ev.Last || len(ev.Earlier) != 2 || ev.Confirm {
				t.Errorf("80 was left on %d earlier steps", len(ev.Earlier))
			}
		case "canary-100":
			if stood := time.Duration(h.At-kept.History[len(kept.History)-2].At) * time.Microsecond; stood < 10*time.Minute {
				t.Errorf("an approval ended the last step after %v", stood)
			}
			if !ev.Confirm {
				t.Error("100 is compared with a version that answers nothing")
			}
		}
	}
}

// TestGatedRolloutGoesBack: proof of a broken gate does not wait for an analysis, and what no analysis proves goes back at the deadline.
func TestGatedRolloutGoesBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		candidate behaviour
		least     time.Duration
		most      time.Duration
	}{
		"failing":         {behaviour{8, 100}, 0, 15 * time.Minute},
		"a little slower": {behaviour{0, 106}, 0, 15 * time.Minute},
		"no answers":      {behaviour{}, 35 * time.Minute, 45 * time.Minute},
	} {
		w := newWorld()
		w.stats = w.traffic(8_000, sim0, tt.candidate)
		if name == "no answers" {
			full := w.stats
			w.stats = func(id string, since int64) map[string]ArmStats {
				arms := full(id, since)
				delete(arms, "candidate")
				return arms
			}
		}
		r := rehearse(t, w, func(s *Spec) { *s = standardSpec(); s.Thresholds.Gates = nil })
		start := r.Now()
		st := r.run()
		if got := path(st); got != "baseline canary-20 rolled_back" {
			t.Errorf("%s: path %q", name, got)
		}
		if took := r.Now().Sub(start); took < tt.least || took > tt.most {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// TestSealedVerdictsAreVerified: what is taken away gives the same verdict again, and every change of evidence, limits or decision is found.
func TestSealedVerdictsAreVerified(t *testing.T) {
	t.Parallel()
	ev, th := gateEvidence()
	ev.Limits = th.digest()
	l := Evaluation{Evidence: ev, Thresholds: th, Decision: Verdict(ev, th)}
	hash := ev.Hash()
	if got, err := VerifySealed(l.Sealed(), hash); err != nil || got.Decision.Outcome != Pass {
		t.Fatalf("%v, %v", got.Decision.Outcome, err)
	}
	waiting := l
	waiting.Evidence.Look, waiting.Evidence.Proven = 0, hash
	waiting.Decision = Verdict(waiting.Evidence, th)
	if _, err := VerifySealed(waiting.Sealed(), waiting.Evidence.Hash()); err == nil {
		t.Error("a step that waited verifies without the analysis that it passed")
	}
	waiting.Proof = &l
	if _, err := VerifySealed(waiting.Sealed(), waiting.Evidence.Hash()); err != nil {
		t.Error(err)
	}
	wide := l // margins that let everything pass, with the decision that they give
	wide.Thresholds.Gates = append([]Gate{}, th.Gates...)
	for i := range wide.Thresholds.Gates {
		wide.Thresholds.Gates[i].Margin = 0.9
	}
	wide.Decision = Verdict(ev, wide.Thresholds)
	if _, err := VerifySealed(wide.Sealed(), hash); err == nil {
		t.Error("other limits verify with the decision that they give")
	}
	next := Evidence{Earlier: []EarlierStep{earlierStep(l)}}
	if err := (Evaluation{Evidence: next}).VerifyEarlier(map[string]Evaluation{hash: l}); err != nil {
		t.Error(err)
	}
	next.Earlier[0].Effects[0].Effect = -1
	if err := (Evaluation{Evidence: next}).VerifyEarlier(map[string]Evaluation{hash: l}); err == nil {
		t.Error("effects verify that the earlier step has not")
	}
	for name, change := range map[string]func(string) string{
		"evidence":  func(s string) string { return strings.Replace(s, `"requests":200000`, `"requests":200001`, 1) },
		"limits":    func(s string) string { return strings.Replace(s, `"margin":0.005`, `"margin":0.0001`, 1) },
		"hash":      func(s string) string { return strings.Replace(s, `"rollout":"r"`, `"rollout":"q"`, 1) },
		"decision":  func(s string) string { return strings.Replace(s, `"outcome":"pass"`, `"outcome":"fail"`, 1) },
		"no body":   func(string) string { return "" },
		"a p-value": func(s string) string { return strings.Replace(s, `"holds":`, `"holds":1`, 1) },
	} {
		if changed := change(l.Sealed()); changed == l.Sealed() {
			t.Errorf("%s: nothing was changed", name)
		} else if _, err := VerifySealed(changed, hash); err == nil {
			t.Errorf("a changed %s verifies", name)
		}
	}
}

// TestTangoAgainstNormal: with many cases that differ the score test is the usual one, and at no difference it needs no variance of the sample.
func TestTangoAgainstNormal(t *testing.T) {
	t.Parallel()
	r := Results{Both: 80_000, OnlyStable: 5_000, OnlyCandidate: 5_000, Neither: 10_000}
	if got, want := r.notWorse(0.005), r.effect().notWorse(0.005); math.Abs(math.Log(got/want)) > 0.3 {
		t.Errorf("p-value %g, the normal one is %g", got, want)
	}
	if p := (Results{Both: 100}).notWorse(0.005); p < 0.1 {
		t.Errorf("a hundred cases alike prove 0.5 points: %g", p)
	}
	if p := (Results{}).notWorse(0.005); p != 1 {
		t.Errorf("no cases prove something: %g", p)
	}
}

// TestScoreTests compares both score tests with the likelihood that they maximise, and the size of the one for shares with its level.
func TestScoreTests(t *testing.T) {
	t.Parallel()
	r := Results{Both: 9_000, OnlyStable: 25, OnlyCandidate: 3, Neither: 972}
	n, b, c, margin := 10_000.0, 25.0, 3.0, 0.005
	best, q := math.Inf(-1), 0.0
	for x := 1e-6; x < 0.01; x += 1e-6 {
		if l := b*math.Log(x+margin) + c*math.Log(x) + (n-b-c)*math.Log(1-2*x-margin); l > best {
			best, q = l, x
		}
	}
	want := upperTail((n*margin - (b - c)) / math.Sqrt(n*(2*q+margin-margin*margin)))
	if got := r.notWorse(margin); math.Abs(math.Log(got/want)) > 0.01 {
		t.Errorf("p-value %g, by the likelihood %g", got, want)
	}
	for _, tt := range []struct{ nc, ns, stable float64 }{{1000, 4000, 0}, {1000, 4000, 0.001}, {2000, 8000, 0.005}, {6000, 6000, 0.01}} {
		size, p := 0.0, tt.stable+margin
		for kc := 0.0; kc < tt.nc*p+10*math.Sqrt(tt.nc*p); kc++ {
			chance := distuv.Binomial{N: tt.nc, P: p}.Prob(kc)
			for ks := 0.0; ks <= tt.ns*tt.stable+10*math.Sqrt(tt.ns*tt.stable); ks++ {
				if shareNotWorse(binary(kc, tt.nc), binary(ks, tt.ns), margin) > 0.01 {
					continue
				}
				size += chance * distuv.Binomial{N: tt.ns, P: tt.stable}.Prob(ks)
			}
		}
		if size > 0.015 {
			t.Errorf("%+v: worse by the margin holds in %.2f %% at a level of 1 %%", tt, 100*size)
		}
	}
}

// TestMeansNeedUnits: two versions alike are not proven apart by the first requests, nor by one long conversation.
func TestMeansNeedUnits(t *testing.T) {
	t.Parallel()
	th := standardSpec().Thresholds
	for run := range 40 {
		r := rand.New(rand.NewPCG(uint64(run), 7))
		s, c := newSimArm(), newSimArm()
		for n := 1; n <= 60; n++ {
			for _, a := range []*simArm{s, c} {
				a.draw(r, world0, 1)
			}
			if d := Verdict(Evidence{Schema: gateSchema, Phase: "canary-20", Stable: s.arm(), Candidate: c.arm(), Looks: 3}, th); d.Outcome == Fail {
				t.Fatalf("run %d, after %d requests: %s by %s", run, n, d.Outcome, d.Code)
			}
		}
	}
	long := func(tokens float64) Ratio {
		return Ratio{Y: 5000 * tokens, N: 5000, YY: 5000 * 5000 * tokens * tokens, YN: 5000 * 5000 * tokens, NN: 5000 * 5000}
	}
	ev, th := gateEvidence()
	ev.Stable.Sums.Tokens, ev.Candidate.Sums.Tokens = long(100), long(130)
	if d := Verdict(ev, th); d.Outcome != NoData || d.Code != MetricTokens {
		t.Errorf("one conversation an arm: %s by %s", d.Outcome, d.Code)
	}
}

// TestGatesHaveNamesOfTheirOwn: a worker of an earlier release, which would leave the gates out, is asked for neither the workflow nor the evaluation.
func TestGatesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	old, before := Spec{Preset: Trial}.withDefaults().names()
	flow, evaluate := standardSpec().names()
	if old != "Rollout" || before != "RolloutEvaluate" || flow == old || evaluate == before {
		t.Errorf("%s, %s; with gates %s, %s", old, before, flow, evaluate)
	}
}

// TestNextAnalysisIsOfPartialSteps: where no analysis decides, none is announced.
func TestNextAnalysisIsOfPartialSteps(t *testing.T) {
	t.Parallel()
	st := State{Spec: standardSpec(), Phase: PhaseCanary, Share: 20, EnteredAt: 1, CheckedAt: 2}
	if st.NextAnalysis() == 0 {
		t.Error("none on a partial step")
	}
	full, baseline := st, st
	full.Share, baseline.Phase = 100, PhaseBaseline
	if full.NextAnalysis() != 0 || baseline.NextAnalysis() != 0 {
		t.Error("one at 100 % or on the baseline")
	}
}
