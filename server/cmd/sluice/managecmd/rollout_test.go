package managecmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/workflows"
)

// TestRolloutIsPrinted: rates in percent, latencies in milliseconds, every check with its limit and state, and what each step was left
// on, in the language of the reader; what the server says is printed as it came.
func TestRolloutIsPrinted(t *testing.T) {
	t.Parallel()
	rate, latency := 0.035, 95_500.0
	evaluation := adminapi.RolloutEvidence{
		At: time.Unix(0, 0).UTC(), Stage: "canary-20", Stable: adminapi.RolloutArm{Requests: 400, Errors: 2}, Candidate: adminapi.RolloutArm{Requests: 100, Errors: 3},
		Metrics: []adminapi.RolloutMetric{
			{Title: "error rate against stable", Unit: adminapi.RolloutMetricUnitRatio, Candidate: adminapi.RolloutSample{Value: &rate}, LimitText: "at most 5 points above stable", State: adminapi.Unproven, Needs: &adminapi.RolloutNeeds{Stable: 40, Candidate: 160}},
			{Title: "duration (P95)", Unit: adminapi.RolloutMetricUnitUs, Candidate: adminapi.RolloutSample{Value: &latency}, State: adminapi.Holds},
		},
	}
	reason := "what the server says"
	x := adminapi.Rollout{Id: "r1", Phase: "aborted", Reason: &reason, Evidence: &evaluation, History: &[]adminapi.RolloutTransition{
		{From: "starting", To: "baseline", Actor: "alice", Reason: "try it"}, {From: "canary-20", To: "aborted", Actor: "bob", Reason: "phones ring", Look: &evaluation},
	}}
	for lang, words := range map[string][]string{
		"en": {reason, "3.5%", "95.5 ms", "at most 5 points above stable", "not proven yet", "holds", "40 + 160", "2/400", "3/100", "phones ring", "STATE"},
		"zh": {reason, "3.5%", "95.5 ms", "尚未证明", "在上限以内", "失败数/请求数", "约还需请求数", "理由"},
	} {
		var out bytes.Buffer
		a := &app{&cli.App{Stdout: &out, Environ: []string{"SLUICE_LANG=" + lang}}}
		if err := a.printRollout(x); err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: no %q in\n%s", lang, w, out.String())
			}
		}
		if lang == "zh" && strings.Contains(out.String(), "STATE") {
			t.Errorf("English headings:\n%s", out.String())
		}
	}
}

// TestHistoryIsVerified: the evidence has to be that of the audit record, and only what passes may go forward.
func TestHistoryIsVerified(t *testing.T) {
	t.Parallel()
	ev := workflows.Evidence{Schema: 1, Rollout: "r1", Phase: "canary-20"}
	hash, sealed := ev.Hash(), workflows.Evaluation{Evidence: ev, Decision: workflows.Verdict(ev, workflows.Thresholds{})}.Sealed()
	for name, tt := range map[string]struct {
		to, recorded, body string
		ok                 bool
	}{
		"went back":        {"rolled_back", hash, sealed, true},
		"went on":          {"canary-40", hash, sealed, false},
		"another record":   {"rolled_back", "ab", sealed, false},
		"no evidence":      {"rolled_back", hash, "", false},
		"changed evidence": {"rolled_back", hash, strings.Replace(sealed, `"r1"`, `"r2"`, 1), false},
	} {
		receipt := "record"
		history := []adminapi.RolloutTransition{{From: "starting", To: "baseline"}, {From: "canary-20", To: tt.to, Evidence: &hash, Receipt: &receipt, Look: &adminapi.RolloutEvidence{Sealed: &tt.body}}}
		var out bytes.Buffer
		err := verifyHistory(&out, history, func(string) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"detail": map[string]string{"evidence": tt.recorded}})
		})
		if (err == nil) != tt.ok || strings.Count(out.String(), "\n") == 0 {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}
