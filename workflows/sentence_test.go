package workflows

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

var (
	han     = regexp.MustCompile(`\p{Han}`)
	english = regexp.MustCompile(`[a-z]{3,}`)
	machine = regexp.MustCompile(`error_rate|_latency|p 0|p 1|too_few|%!|[0-9]e-`)
)

// chinese reports whether a sentence is Chinese and has no English words but the terms of the trade.
func chinese(s string) bool {
	return han.MatchString(s) && !english.MatchString(strings.ReplaceAll(s, "token", ""))
}

// TestDecisionsAreSaidInBothLanguages says every verdict there is in both languages: with figures and units, without names of codes.
func TestDecisionsAreSaidInBothLanguages(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	good := arm(400, 0, 100*ms, 900*ms)
	bad := th()
	bad.Quantile = 2
	for name, tt := range map[string]struct {
		phase             string
		stable, candidate Arm
		th                Thresholds
		en, zh            string
	}{
		"broken rate":     {"canary-20", good, arm(60, 30, 100*ms, 900*ms), th(), "error rate: candidate 50%, stable 0%, allowed is at most 10%, whatever stable does; the limit is broken", "候选版 50%，稳定版 0%；上限：不超过 10%"},
		"unproven rate":   {"canary-20", good, arm(400, 14, 100*ms, 900*ms), th(), "error rate against stable: candidate 3.5%, stable 0%, allowed is at most 5 points above stable (5%); not proven yet", "最多比稳定版高 5 个百分点（5%）；尚未证明"},
		"slow":            {"canary-20", good, arm(400, 0, 200*ms, 900*ms), th(), "time to first token (P95): candidate 200 ms, stable 100 ms, allowed is at most 1.5 times stable (150 ms); the limit is broken", "首 token 时延（P95）：候选版 200 ms，稳定版 100 ms；上限：最多为稳定版的 1.5 倍（150 ms）"},
		"floor":           {"canary-20", arm(400, 0, 2*ms, 20*ms), arm(400, 0, 90*ms, 20*ms), th(), "at most 50 ms more than stable (52 ms)", "最多比稳定版慢 50 ms（52 ms）"},
		"no latencies":    {"canary-20", good, Arm{Requests: 400}, th(), "candidate no samples, stable 900 ms", "候选版 无样本"},
		"too few":         {"canary-20", arm(1500, 0, 100*ms, 900*ms), arm(7, 0, 100*ms, 900*ms), th(), "1,500 requests of stable and 7 requests of the candidate, 200 of each needed", "稳定版 1,500 个请求，候选版 7 个请求，各需 200 个"},
		"one request":     {PhaseBaseline, arm(1, 0, ms, ms), Arm{}, th(), "1 request of stable, 200 needed", "稳定版 1 个请求，需要 200 个"},
		"baseline":        {PhaseBaseline, arm(6, 0, ms, ms), Arm{}, th(), "6 requests of stable, 200 needed", "稳定版 6 个请求，需要 200 个"},
		"baseline stands": {PhaseBaseline, good, Arm{}, th(), "the baseline stands on 400 requests", "基线已有 400 个请求作依据"},
		"baseline fails":  {PhaseBaseline, arm(400, 80, ms, ms), Arm{}, th(), "stable itself fails 20% of its requests, above the cap of 10%", "20% 的请求失败"},
		"healthy":         {"canary-20", good, good, th(), "every limit is proven to hold on 400 requests", "候选版的 400 个请求"},
		"contradiction":   {"canary-20", good, Arm{Requests: -1}, th(), "contradicts itself", "自相矛盾"},
		"thresholds":      {"canary-20", good, good, bad, "the threshold quantile must lie between 0.5 and 0.999", "须在 0.5 与 0.999 之间"},
	} {
		d := Verdict(Evidence{Phase: tt.phase, Stable: tt.stable, Candidate: tt.candidate}, tt.th)
		en, zh := d.Sentence(tt.th).In(fault.English), d.Sentence(tt.th).In(fault.Chinese)
		if !strings.Contains(en, tt.en) || machine.MatchString(en) || d.Reason != en {
			t.Errorf("%s: %s", name, en)
		}
		if !strings.Contains(zh, tt.zh) || machine.MatchString(zh) || !chinese(strings.ReplaceAll(strings.ReplaceAll(zh, "quantile", ""), " ms", "")) {
			t.Errorf("%s: %s", name, zh)
		}
	}
}

// TestCausesAreSaidInBothLanguages does the same for what the system does by itself.
func TestCausesAreSaidInBothLanguages(t *testing.T) {
	t.Parallel()
	d := Verdict(Evidence{Phase: "canary-20", Stable: arm(6, 0, time.Second, time.Second), Candidate: arm(3, 0, time.Second, time.Second)}, th())
	for code, en := range map[string]string{
		causeVerdict: "6 requests of stable and 3 requests of the candidate", causeDeadline: "the deadline of the step passed: 6 requests of stable",
		causeCancelled: "was cancelled", causeSuperseded: "changed outside of this rollout", causeRefused: "refused: the version m@v2", causeStopped: "the rollout stopped: m@v2",
		causeUnjudged: "no verdict on the candidate could be made for too long",
	} {
		c := Cause{Code: code, Decision: &d, English: "m@v2"}
		if code == causeRefused {
			c.English, c.Chinese = "the version m@v2 does not exist", "版本 m@v2 不存在"
		}
		if got := c.Sentence(th()).In(fault.English); !strings.Contains(got, en) {
			t.Errorf("%s: %s", code, got)
		}
		if got := c.Sentence(th()).In(fault.Chinese); !chinese(got) {
			t.Errorf("%s: %s", code, got)
		}
	}
}

func TestChanceIsABound(t *testing.T) {
	t.Parallel()
	for p, want := range map[float64]string{
		0: "0.0001%", 1e-300: "0.0001%", 1e-6: "0.0001%", 4.05e-5: "0.0041%", 0.000149: "0.015%", 0.001: "0.1%", 0.01: "1%", 0.05: "5%", 0.0501: "5.1%",
		0.123: "13%", 0.5: "50%", 0.999: "100%", 1: "100%",
	} {
		if got := chance(p); got != want {
			t.Errorf("%g is %s, want %s", p, got, want)
		}
	}
}
