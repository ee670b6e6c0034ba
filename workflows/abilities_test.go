package workflows

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// needing is a rollout that was started when stable did what it does in a new world.
func needing(s *Spec) {
	s.Needed = &Abilities{Features: []string{"chat", "tools"}, ContextTokens: 4096}
}

func TestLosses(t *testing.T) {
	t.Parallel()
	all := Abilities{Features: []string{"chat", "tools"}, ContextTokens: 4096}
	for name, tt := range map[string]struct {
		needed, have Abilities
		want         string
	}{
		"the same":                {all, all, ""},
		"more":                    {all, Abilities{[]string{"chat", "seed", "tools"}, 8192}, ""},
		"one feature less":        {all, Abilities{[]string{"chat"}, 4096}, "tools"},
		"a shorter context":       {all, Abilities{[]string{"chat", "tools"}, 4095}, "context_tokens"},
		"a context nobody knows":  {all, Abilities{[]string{"chat", "tools"}, 0}, "context_tokens"},
		"nothing":                 {all, Abilities{}, "chat tools context_tokens"},
		"stable's was not known":  {Abilities{Features: []string{"chat"}}, Abilities{[]string{"chat"}, 1}, ""},
		"nobody knew of anything": {Abilities{}, Abilities{}, ""},
		"the other one, not this": {Abilities{Features: []string{"tools"}}, Abilities{Features: []string{"tools.named"}}, "tools"},
	} {
		if got := strings.Join(tt.needed.lost(tt.have), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	accepting := Spec{AcceptLosses: []string{"tools"}}
	if got := accepting.unaccepted(all.lost(Abilities{Features: []string{"chat"}})); !slices.Equal(got, []string{"context_tokens"}) {
		t.Errorf("%v", got)
	}
}

// TestCandidateThatLosesAFeatureGoesBack from where it is, once two minutes of looks have found it missing, whatever was counted.
func TestCandidateThatLosesAFeatureGoesBack(t *testing.T) {
	t.Parallel()
	for share, want := range map[int]string{0: "baseline rolled_back", 4000: "baseline canary-20 canary-40 rolled_back"} {
		w := newWorld()
		healthy := w.stats
		w.stats = func(id string, since int64) map[string]ArmStats {
			if w.cur.Basis == share {
				w.can["v2"] = Abilities{Features: []string{"chat"}, ContextTokens: 2048}
			}
			return healthy(id, since)
		}
		r := rehearse(t, w, needing)
		start := r.Now()
		st := r.run()
		if path(st) != want || st.Decision.Outcome != Fail || st.Decision.Code != lostAbilities || r.Now().Sub(start) > 25*time.Minute {
			t.Errorf("%s after %s, %+v", path(st), r.Now().Sub(start), st.Decision)
		}
		end := st.History[len(st.History)-1]
		if !strings.HasSuffix(end.Reason, ": tools, context_tokens") || end.Cause == nil || end.Cause.Code != causeVerdict {
			t.Errorf("%+v", end)
		}
	}
}

// each changes what versions can do before each look of which n is the number, from 1; a look at the last step counts twice.
func (w *world) each(change func(n int)) {
	healthy, n := w.stats, 0
	w.stats = func(id string, since int64) map[string]ArmStats {
		n++
		change(n)
		return healthy(id, since)
	}
}

// TestLossOfAMoment: what is missing at looks for less than two minutes, however often, takes nothing back, and no step passes on such a look.
func TestLossOfAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld()
	whole, part := w.can["v2"], Abilities{Features: []string{"chat"}, ContextTokens: 2048}
	w.each(func(n int) {
		if w.can["v2"] = whole; n <= 30 && n%3 != 0 { // two looks in a row of three
			w.can["v2"] = part
		}
	})
	r := rehearse(t, w, needing)
	r.RegisterDelayedCallback(func() {
		if st, err := r.acts.store.get(t.Context(), "r-1"); err != nil || !st.Holding() || st.Decision.Code != missingAbilities || st.Seen == nil || len(st.Seen.Lacking) != 2 {
			t.Errorf("it must hold: %+v, %v", st.Decision, err)
		}
	}, 10*time.Minute+30*time.Second) // the tenth look was due, and lacks it
	if st := r.run(); st.Phase != PhaseCompleted {
		t.Errorf("%s: %+v", path(st), st.Decision)
	}
}

// TestUnlearntIsNotLost: what an instance has not told yet is not lost, however long that takes; nothing passes meanwhile, and at the deadline the candidate
// goes back.
func TestUnlearntIsNotLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		have     Abilities
		learning bool
		back     bool
		want     string
	}{
		"a context nobody has learnt": {Abilities{Features: []string{"chat", "tools"}}, false, true, "baseline canary-20 canary-40 canary-80 canary-100 completed"},
		"an instance that is new":     {Abilities{Features: []string{"chat"}, ContextTokens: 2048}, true, true, "baseline canary-20 canary-40 canary-80 canary-100 completed"},
		"one that never tells":        {Abilities{Features: []string{"chat"}}, true, false, "baseline rolled_back"},
	} {
		w := newWorld()
		whole := w.can["v2"]
		w.each(func(n int) {
			away := n <= 30 || !tt.back
			if w.can["v2"], w.learning = whole, nil; away {
				w.can["v2"], w.learning = tt.have, map[string]bool{"v2": tt.learning}
			}
		})
		r := rehearse(t, w, needing)
		r.RegisterDelayedCallback(func() {
			if st, err := r.acts.store.get(t.Context(), "r-1"); err != nil || !st.Holding() || st.Decision.Code != missingAbilities {
				t.Errorf("%s: it must hold: %+v, %v", name, st.Decision, err)
			}
		}, 20*time.Minute+30*time.Second)
		if st := r.run(); path(st) != tt.want {
			t.Errorf("%s: %s, want %s: %+v", name, path(st), tt.want, st.Decision)
		}
	}
}

// TestStableLosesItToo: what stable does not do any more either is no loss of the candidate, if stable can be seen; what only the candidate has lost is.
func TestStableLosesItToo(t *testing.T) {
	t.Parallel()
	const through = "baseline canary-20 canary-40 canary-80 canary-100 completed"
	for name, tt := range map[string]struct {
		stable, candidate Abilities
		change            func(w *world)
		want              string
	}{
		"both": {Abilities{Features: []string{"chat"}, ContextTokens: 2048}, Abilities{Features: []string{"chat"}, ContextTokens: 2048}, nil, through},
		"a context shorter than stable's": {
			Abilities{Features: []string{"chat"}, ContextTokens: 2048}, Abilities{Features: []string{"chat"}, ContextTokens: 2047}, nil, "baseline rolled_back",
		},
		"another feature": {Abilities{Features: []string{"tools"}, ContextTokens: 4096}, Abilities{Features: []string{"tools"}, ContextTokens: 2048}, nil, "baseline rolled_back"},
		"stable is away":  {Abilities{}, Abilities{Features: []string{"chat"}, ContextTokens: 4096}, func(w *world) { delete(w.can, "v1") }, "baseline rolled_back"},
		"stable is new": {
			Abilities{Features: []string{"chat"}, ContextTokens: 4096},
			Abilities{Features: []string{"chat"}, ContextTokens: 4096},
			func(w *world) { w.learning = map[string]bool{"v1": true} }, "baseline rolled_back",
		},
		"stable's context is not known": {
			Abilities{Features: []string{"chat", "tools"}}, Abilities{Features: []string{"chat", "tools"}, ContextTokens: 2048}, nil, "baseline rolled_back",
		},
	} {
		w := newWorld()
		w.each(func(n int) {
			if w.can["v1"], w.can["v2"] = tt.stable, tt.candidate; tt.change != nil {
				tt.change(w)
			}
		})
		r := rehearse(t, w, needing)
		start := r.Now()
		if st := r.run(); path(st) != tt.want || tt.want != through && (st.Decision.Code != lostAbilities || r.Now().Sub(start) > 4*time.Minute) {
			t.Errorf("%s: %s after %s, want %s: %+v", name, path(st), r.Now().Sub(start), tt.want, st.Decision)
		}
	}
}

// TestALossHasToLast counts evaluations at which nothing else was found, by the clock that they are given.
func TestALossHasToLast(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, needing)
	w.cur = Assignment{Model: "m", Stable: "v1", Candidate: "v2", Rollout: "r-1", Basis: 2000}
	if err := r.acts.store.entered(t.Context(), "r-1", Transition{Seq: 1, To: "canary-20", Share: 20, At: 1}); err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	evaluate := func(at time.Duration, features ...string) string {
		t.Helper()
		w.can["v2"] = Abilities{Features: features, ContextTokens: 8192}
		in := evaluateInput{
			Rollout: "r-1", Model: "m", Phase: "canary-20", Candidate: "v2", Needed: r.input.Spec.Needed, Thresholds: r.input.Spec.Thresholds, Now: begin.Add(at).UnixMicro(),
		}
		out, err := r.acts.Evaluate(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return out.Decision.Code + " " + strings.Join(out.Decision.Lost, " ")
	}
	for _, step := range []struct {
		at       time.Duration
		features []string
		want     string
	}{
		{0, []string{"chat"}, "missing_abilities tools"},
		{119 * time.Second, []string{"chat"}, "missing_abilities tools"},
		{119 * time.Second, []string{"chat"}, "missing_abilities tools"}, // the same evaluation again
		{125 * time.Second, []string{"chat", "tools"}, "healthy "},
		{130 * time.Second, []string{"chat"}, "missing_abilities tools"}, // counted anew
		{131 * time.Second, nil, "missing_abilities chat tools"},
		{130*time.Second + lasting, nil, "lost_abilities tools"},
	} {
		if got := evaluate(step.at, step.features...); got != step.want {
			t.Errorf("at %s: %q, want %q", step.at, got, step.want)
		}
	}
}

// TestAcceptedLossesAndEarlierReleases: what somebody has accepted takes nothing back, nor does anything in a rollout that was started without needs.
func TestAcceptedLossesAndEarlierReleases(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Spec){
		"accepted": func(s *Spec) { needing(s); s.AcceptLosses = []string{"tools", "context_tokens"} },
		"earlier":  nil,
	} {
		w := newWorld()
		w.can["v2"] = Abilities{Features: []string{"chat"}}
		if st := rehearse(t, w, change).run(); st.Phase != PhaseCompleted {
			t.Errorf("%s: %s, %+v", name, path(st), st.Decision)
		}
	}
}

// TestUnseenCandidateHolds: while no instance of the candidate can be looked at nothing passes, and at the deadline it goes back.
func TestUnseenCandidateHolds(t *testing.T) {
	t.Parallel()
	for back, want := range map[bool]string{true: "baseline canary-20 canary-40 canary-80 canary-100 completed", false: "baseline rolled_back"} {
		w := newWorld()
		can, evaluations := w.can["v2"], 0
		healthy := w.stats
		w.stats = func(id string, since int64) map[string]ArmStats {
			delete(w.can, "v2")
			if evaluations++; back && evaluations > 30 {
				w.can["v2"] = can
			}
			return healthy(id, since)
		}
		r := rehearse(t, w, needing)
		r.RegisterDelayedCallback(func() {
			if st, err := r.acts.store.get(t.Context(), "r-1"); err != nil || !st.Holding() || st.Decision.Code != unseenAbilities {
				t.Errorf("it must hold: %+v, %v", st.Decision, err)
			}
		}, 20*time.Minute)
		if st := r.run(); path(st) != want {
			t.Errorf("%s, want %s: %+v", path(st), want, st.Decision)
		}
	}
}

// TestVerdictOnAbilities: what is lost fails before anything else is looked at but evidence that contradicts itself; what nobody can see never passes and
// excuses no failure.
func TestVerdictOnAbilities(t *testing.T) {
	t.Parallel()
	good, bad := arm(400, 0, 100*time.Millisecond, 900*time.Millisecond), arm(400, 300, 100*time.Millisecond, 900*time.Millisecond)
	for name, tt := range map[string]struct {
		ev   Evidence
		want Outcome
		code string
	}{
		"lost":                     {Evidence{Phase: "canary-20", Stable: good, Candidate: good, Lost: []string{"tools"}}, Fail, lostAbilities},
		"lost before a request":    {Evidence{Phase: PhaseBaseline, Lost: []string{"tools"}}, Fail, lostAbilities},
		"lost and contradictory":   {Evidence{Phase: "canary-20", Stable: Arm{Requests: -1}, Lost: []string{"tools"}}, NoData, "evidence"},
		"lacking":                  {Evidence{Phase: "canary-20", Stable: good, Candidate: good, Lacking: []Lack{{Name: "tools", Since: 1}}}, NoData, missingAbilities},
		"lacking for the baseline": {Evidence{Phase: PhaseBaseline, Stable: good, Lacking: []Lack{{Name: "tools"}}}, NoData, missingAbilities},
		"lacking and failing":      {Evidence{Phase: "canary-20", Stable: good, Candidate: bad, Lacking: []Lack{{Name: "tools"}}}, Fail, "error_rate_cap"},
		"both, for a moment":       {Evidence{Phase: "canary-20", Stable: good, Candidate: good, Lacking: []Lack{{Name: "tools", Both: true}}}, NoData, missingAbilities},
		"both, for good":           {Evidence{Phase: "canary-20", Stable: good, Candidate: good, Lacking: []Lack{{Name: "tools", Both: true, Lasts: true}}}, Pass, "healthy"},
		"unseen":                   {Evidence{Phase: "canary-20", Stable: good, Candidate: good, Unseen: true}, NoData, unseenAbilities},
		"unseen baseline":          {Evidence{Phase: PhaseBaseline, Stable: good, Unseen: true}, NoData, unseenAbilities},
		"unseen and failing":       {Evidence{Phase: "canary-20", Stable: good, Candidate: bad, Unseen: true}, Fail, "error_rate_cap"},
	} {
		d := Verdict(tt.ev, th())
		if d.Outcome != tt.want || d.Code != tt.code || d.Evidence != tt.ev.Hash() {
			t.Errorf("%s: %+v", name, d)
		}
		if text := d.Sentence(th()); (tt.code == lostAbilities || tt.code == missingAbilities) && (!strings.Contains(text.In(fault.English), "tools") || !strings.Contains(text.In(fault.Chinese), "tools")) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if a, b := (Evidence{Lost: []string{"tools"}}), (Evidence{}); a.Hash() == b.Hash() {
		t.Error("the hash does not cover what is lost")
	}
}
