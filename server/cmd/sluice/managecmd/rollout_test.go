package managecmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
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
