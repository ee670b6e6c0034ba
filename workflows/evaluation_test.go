package workflows

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// undecided traffic is enough to look at and too little to judge.
func undecided(string, int64) map[string]ArmStats {
	return map[string]ArmStats{"stable": sim0.stats(10), "candidate": behaviour{0, 120}.stats(7)}
}

// TestAbortKeepsWhatItStoodOn: a person stops a rollout between two looks that decided nothing. The counts, rates, latencies,
// checks and thresholds that it stood on then stay readable, and the audit record names them.
func TestAbortKeepsWhatItStoodOn(t *testing.T) {
	t.Parallel()
	w := newWorld()
	healthy := w.stats
	w.stats = func(id string, since int64) map[string]ArmStats {
		if w.cur.Basis == 2000 {
			return undecided(id, since)
		}
		return healthy(id, since)
	}
	r := rehearse(t, w, nil)
	r.RegisterDelayedCallback(func() {
		r.SignalWorkflow(abortSignal, command{Rollout: "r-1", Actor: bob, Reason: "phones ring"})
	}, 15*time.Minute+30*time.Second)
	r.run()
	s := &Service{store: r.acts.store, now: time.Now}
	st, err := s.Get(t.Context(), "r-1")
	if err != nil {
		t.Fatal(err)
	}
	last, left, err := s.Evaluations(t.Context(), st)
	if err != nil || last == nil {
		t.Fatalf("no last evaluation: %v", err)
	}
	end := st.History[len(st.History)-1]
	evaluation, ok := left[end.Evidence]
	if !ok || evaluation.Evidence.Stable.Requests != 10 || evaluation.Evidence.Candidate.Requests != 7 || len(evaluation.Decision.Checks) != rules || !reflect.DeepEqual(evaluation.Thresholds, st.Spec.Thresholds) {
		t.Errorf("the step ended on %+v", evaluation)
	}
	if first, total := evaluation.Quantiles(evaluation.Evidence.Candidate); first < 118_000 || first > 120_000 || total < 1_180_000 || total > 1_200_000 {
		t.Errorf("the latencies are %d and %d", first, total)
	}
	if last.Decision.Code != tooFewRequests || last.Evidence.Hash() != end.Evidence {
		t.Errorf("the last evaluation is %+v", last.Decision)
	}
	if rec := w.records[len(w.records)-1]; rec.Detail["to"] != PhaseAborted || rec.Detail["evidence"] != end.Evidence {
		t.Errorf("the audit record says %v", rec.Detail)
	}
}

// TestAStepThatNobodyEvaluatedIsEvaluated: an abort before the first evaluation is carried out first and looks then; without statistics it
// is carried out all the same.
func TestAStepThatNobodyEvaluatedIsEvaluated(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]error{"statistics": nil, "no statistics": errors.New("down")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.stats = undecided
			r := rehearse(t, w, nil)
			do := func(to string, seq int, from string, share int) {
				t.Helper()
				move := Transition{ID: "r-1/" + to, Seq: seq, From: from, To: to, Share: share, At: int64(seq), Actor: bob}
				if _, err := r.acts.Transition(t.Context(), transitionInput{Rollout: "r-1", Model: "m", Stable: "v1", Candidate: "v2", Transition: move}); err != nil {
					t.Fatal(err)
				}
			}
			do(PhaseBaseline, 1, PhaseStarting, 0)
			w.fail.stats = down
			for range 2 { // a repetition changes nothing
				do(PhaseAborted, 2, PhaseBaseline, 0)
			}
			st, err := r.acts.store.get(t.Context(), "r-1")
			if err != nil || st.Phase != PhaseAborted || w.cur.Rollout != "" {
				t.Fatalf("%s, %+v, %v", st.Phase, w.cur, err)
			}
			evaluations, err := r.acts.store.evaluations(t.Context(), st)
			if err != nil {
				t.Fatal(err)
			}
			evaluation, ok := evaluations[st.History[1].Evidence]
			if ok != (down == nil) || ok && (evaluation.Evidence.Stable.Requests != 10 || evaluation.Evidence.Phase != PhaseBaseline) {
				t.Errorf("it was left on %+v", evaluation)
			}
			if n := len(w.records); n != 2 || w.records[1].Detail["evidence"] != st.History[1].Evidence {
				t.Errorf("%d records, %+v", n, w.records)
			}
		})
	}
}

// TestVerdictAndCountsAreOfOneEvaluation: what is shown beside the verdict is what the verdict was made of, however much has arrived since.
func TestVerdictAndCountsAreOfOneEvaluation(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.cur.Rollout = "r-1"
	r := rehearse(t, w, nil)
	first := Transition{ID: "r-1/1", Seq: 1, From: PhaseStarting, To: PhaseBaseline, At: 1, Actor: alice}
	if err := r.acts.store.entered(t.Context(), "r-1", first); err != nil {
		t.Fatal(err)
	}
	ask := evaluateInput{Rollout: "r-1", Model: "m", Phase: PhaseBaseline, Since: 1, StableSince: 1, Thresholds: r.input.Spec.Thresholds}
	w.stats = func(string, int64) map[string]ArmStats { return map[string]ArmStats{"stable": sim0.stats(6)} }
	if _, err := r.acts.Evaluate(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	w.stats = func(string, int64) map[string]ArmStats { return map[string]ArmStats{"stable": sim0.stats(10)} }
	s := &Service{store: r.acts.store, deps: r.acts.deps, now: time.Now}
	st, err := s.Get(t.Context(), "r-1")
	if err != nil {
		t.Fatal(err)
	}
	last, _, err := s.Evaluations(t.Context(), st)
	if err != nil || last == nil || last.Evidence.Stable.Requests != 6 || last.At != st.CheckedAt {
		t.Fatalf("the last evaluation: %+v %v", last, err)
	}
	if text := st.Decision.Sentence(st.Spec.Thresholds).String(); !strings.HasPrefix(text, "6 requests of stable") {
		t.Errorf("the verdict says %q", text)
	}
}

// TestNeeds: what is foretold comes true if things go on as before, and nothing is foretold where more of the same proves nothing.
func TestNeeds(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	evaluate := func(phase string, stable, candidate Arm) Evaluation {
		ev := Evidence{Schema: 1, Rollout: "r", Phase: phase, Stable: stable, Candidate: candidate}
		return Evaluation{Evidence: ev, Thresholds: th(), Decision: Verdict(ev, th())}
	}
	undecided := evaluate("canary-40", arm(400, 4, 100*ms, 900*ms), arm(250, 8, 100*ms, 900*ms))
	stable, candidate, ok := undecided.RequestsNeeded(errorRate)
	if !ok || stable < 1 || candidate < 1 {
		t.Fatalf("needs %d and %d, %t of %+v", stable, candidate, ok, undecided.Decision)
	}
	grown := func(extra float64) Outcome {
		by := 1 + extra*float64(candidate)/250
		return Verdict(Evidence{Phase: "canary-40", Stable: undecided.Evidence.Stable.grown(by), Candidate: undecided.Evidence.Candidate.grown(by)}, th()).Outcome
	}
	if grown(1) != Pass || grown(0.7) == Pass {
		t.Errorf("with what is needed it is %s, with 70 %% of it %s", grown(1), grown(0.7))
	}
	if stable, candidate, ok := evaluate("canary-100", undecided.Evidence.Stable, undecided.Evidence.Candidate).RequestsNeeded(errorRate); !ok || stable != 0 || candidate < 1 {
		t.Errorf("with all traffic on the candidate: %d, %d, %t", stable, candidate, ok)
	}
	for name, l := range map[string]Evaluation{
		"small sample":     evaluate("canary-40", arm(400, 0, 100*ms, 900*ms), arm(8, 0, 100*ms, 900*ms)),
		"beyond the limit": evaluate("canary-40", arm(400, 4, 100*ms, 900*ms), arm(250, 18, 100*ms, 900*ms)),
		"no latencies":     evaluate("canary-40", arm(400, 4, 100*ms, 900*ms), Arm{Requests: 300}),
	} {
		check := errorRate
		if name == "no latencies" {
			check = totalLatency
		}
		if stable, candidate, ok := l.RequestsNeeded(check); ok {
			t.Errorf("%s: %d and %d are foretold", name, stable, candidate)
		}
	}
	if stable, candidate, ok := evaluate("canary-20", arm(150, 0, 100*ms, 900*ms), arm(199, 0, 100*ms, 900*ms)).RequestsNeeded(""); !ok || stable != 50 || candidate != 1 {
		t.Errorf("the minimum lacks %d and %d, %t", stable, candidate, ok)
	}
}

// TestReasonsOfEarlierReleases: English that was stored alone is told in Chinese too.
func TestReasonsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	ev := Evidence{Phase: "canary-20", Stable: arm(300, 0, time.Second, time.Second), Candidate: arm(10, 10, time.Second, time.Second)}
	d := Verdict(ev, th())
	d.Stable, d.Candidate = nil, nil // such a release stored no counts
	evaluation := &Evaluation{Evidence: ev, Thresholds: th(), Decision: d}
	for reason, want := range map[string]string{
		"error_rate_cap: candidate 1, stable 0, limit broken (p 1e-9)":           causeVerdict,
		"deadline: 0 requests of stable, 200 needed":                             causeDeadline,
		"the workflow was cancelled":                                             causeCancelled,
		"the assignment of the model was changed outside of this rollout":        causeSuperseded,
		"the rollout stopped: activity error (type: RolloutTransition): timeout": causeStopped,
	} {
		move := Transition{To: PhaseRolledBack, Actor: rolloutActor(), Reason: reason}
		code, text := move.Why(th(), evaluation)
		if zh := text.In(fault.Chinese); code != want || code != causeStopped && !chinese(zh) {
			t.Errorf("%q is %s: %s", reason, code, zh)
		}
		if code, text := (Transition{Actor: bob, Reason: reason}).Why(th(), evaluation); code != "" || text.In(fault.Chinese) != reason {
			t.Errorf("bob's words %q are %s: %s", reason, code, text)
		}
	}
}

// TestRowOfTheReleaseBefore: a replica of the release before writes verdicts without what they rest on. Then nothing is shown as
// that, rather than the counts of an earlier evaluation.
func TestRowOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, nil)
	first := Transition{ID: "r-1/1", Seq: 1, To: PhaseBaseline, At: 1}
	ev := Evidence{Schema: 1, Rollout: "r-1", Phase: PhaseBaseline, Stable: arm(9, 1, time.Second, time.Second)}
	if err := errors.Join(r.acts.store.entered(t.Context(), "r-1", first), r.acts.store.checked(t.Context(), ev, Verdict(ev, th()), time.UnixMicro(5))); err != nil {
		t.Fatal(err)
	}
	old := `{"outcome":"no_data","code":"too_few_requests","reason":"12 requests of stable, 200 needed","evidence":""}`
	if err := r.acts.store.db.Exec("UPDATE rollout_rollouts SET decision = ?", old).Error; err != nil {
		t.Fatal(err)
	}
	st, err := r.acts.store.get(t.Context(), "r-1")
	if err != nil || st.Seen != nil || st.Decision.Code != tooFewRequests {
		t.Errorf("%+v %+v %v", st.Seen, st.Decision, err)
	}
	if zh := st.Decision.Sentence(st.Spec.Thresholds).In(fault.Chinese); !chinese(zh) {
		t.Error(zh)
	}
}

// TestCausesAreStored: the code and its figures come back from the database and from a workflow's history.
func TestCausesAreStored(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.stats = w.traffic(500, sim0, behaviour{60, 100})
	r := rehearse(t, w, nil)
	st := r.run()
	kept, err := r.acts.store.get(t.Context(), "r-1")
	if err != nil {
		t.Fatal(err)
	}
	want := st.History[len(st.History)-1].Cause
	got := kept.History[len(kept.History)-1].Cause
	if want == nil || want.Code != causeVerdict || want.Decision.Outcome != Fail || !reflect.DeepEqual(got, want) {
		t.Errorf("stored as %+v, want %+v", got, want)
	}
	var told Cause
	if err := json.Unmarshal([]byte(w.records[len(w.records)-1].Detail["cause"]), &told); err != nil || !reflect.DeepEqual(&told, want) {
		t.Errorf("the audit record says %+v, %v", told, err)
	}
	if kept.History[0].Cause != nil || w.records[0].Detail["cause"] != "" {
		t.Errorf("alice's words have a cause: %+v", kept.History[0])
	}
}
