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

// TestCandidateThatLosesAFeatureGoesBack from where it is, at the next look, whatever was counted.
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
		"lost":                   {Evidence{Phase: "canary-20", Stable: good, Candidate: good, Lost: []string{"tools"}}, Fail, lostAbilities},
		"lost before a request":  {Evidence{Phase: PhaseBaseline, Lost: []string{"tools"}}, Fail, lostAbilities},
		"lost and contradictory": {Evidence{Phase: "canary-20", Stable: Arm{Requests: -1}, Lost: []string{"tools"}}, NoData, "evidence"},
		"unseen":                 {Evidence{Phase: "canary-20", Stable: good, Candidate: good, Unseen: true}, NoData, unseenAbilities},
		"unseen baseline":        {Evidence{Phase: PhaseBaseline, Stable: good, Unseen: true}, NoData, unseenAbilities},
		"unseen and failing":     {Evidence{Phase: "canary-20", Stable: good, Candidate: bad, Unseen: true}, Fail, "error_rate_cap"},
	} {
		d := Verdict(tt.ev, th())
		if d.Outcome != tt.want || d.Code != tt.code || d.Evidence != tt.ev.Hash() {
			t.Errorf("%s: %+v", name, d)
		}
		if text := d.Sentence(th()); tt.code == lostAbilities && (!strings.Contains(text.In(fault.English), "tools") || !strings.Contains(text.In(fault.Chinese), "tools")) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if a, b := (Evidence{Lost: []string{"tools"}}), (Evidence{}); a.Hash() == b.Hash() {
		t.Error("the hash does not cover what is lost")
	}
}
