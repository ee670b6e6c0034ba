package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/workflows"
	"github.com/sluice-project/sluice/workflows/devserver/devtest"
)

// rollout is what the tests look at in a rollout.
type rollout struct {
	ID, Phase, Reason, Verdict string
	Preset                     string
	Thresholds                 struct{ Gates []any }
	Evidence                   *evaluation
	History                    []struct {
		From, To, Reason, Evidence, Receipt string
		ShareBasis                          int    `json:"share_basis"`
		ReasonCode                          string `json:"reason_code"`
		Look                                *evaluation
	}
}

// evaluation is one evaluation of a rollout.
type evaluation struct {
	Hash, Stage, Reason string
	Sealed              string
	ReasonCode          string `json:"reason_code"`
	Kept                bool
	Stable, Candidate   struct{ Requests, Errors int64 }
	Thresholds          struct {
		MinRequests int64   `json:"min_requests"`
		Margin      int     `json:"error_margin_basis"`
		Quantile    int     `json:"latency_quantile_basis"`
		FloorMs     int     `json:"latency_floor_ms"`
		Promote     float64 `json:"promote_alpha"`
	}
	Metrics []struct {
		Name, Title, State, Proof string
		LimitText                 string  `json:"limit_text"`
		BrokenP                   float64 `json:"broken_p"`
	}
}

func (r rollout) path() string {
	var names []string
	for _, h := range r.History {
		names = append(names, fmt.Sprintf("%s %d", h.To, h.ShareBasis))
	}
	return strings.Join(names, ", ")
}

// TestRollouts runs two rollouts on a real Temporal under real traffic: a version whose engine fails goes back by itself, a
// healthy one reaches all traffic; the transitions are in the audit log, and a caller notices the failing version at most as far as
// its share went.
func TestRollouts(t *testing.T) {
	binary := devtest.Binary(t)
	info := func(id string) engine.Model {
		return engine.Model{ID: engine.ModelID(id), Digest: "sha256:" + id, CanGenerate: true, HasLogprobs: true, ContextTokens: 4096}
	}
	able := func(id string) string { return "{id: " + id + ", context_tokens: 4096, logprobs: true}" }
	soc := listen(t)
	in := start(t, setup{
		remote: "[" + able("steady") + ", " + able("faulty") + ", " + able("better") + ", {id: weaker, context_tokens: 2048}]",
		models: []engine.Model{info("steady"), info("faulty"), info("better"), {ID: "weaker", Digest: "sha256:weaker", CanGenerate: true, ContextTokens: 2048}},
		plan: func(_ int, req *engine.Request) enginetest.Plan {
			if req.Model == "faulty" {
				return enginetest.Plan{Err: fault.New(fault.CodeEngineUnavailable, "faulty")}
			}
			return enginetest.Plan{Texts: []string{"from " + string(req.Model)}}
		},
		extra: "limits: {key: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}, tenant: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}}\n" +
			"workflows: {enabled: true, namespace: trials, embedded: {binary: \"" + binary + "\"}}\n" + soc.config(),
		overrides: map[string]any{"workflows.enabled": true},
	})
	for version, model := range map[string]string{"v2": "faulty", "v3": "better", "v4": "weaker"} {
		in.admin(http.MethodPost, "/model-versions", map[string]any{"model": "steady", "version": version, "engine": "upstream", "engine_model": model}, new(any))
	}
	in.checkLosses()
	stopTraffic := in.traffic("steady", 4)
	defer stopTraffic()

	failing := in.rollout("v2")
	if failing.Phase != "rolled_back" || failing.path() != "baseline 0, canary-20 2000, rolled_back 0" {
		t.Errorf("the failing version: %s by %s (%s)", failing.Phase, failing.path(), failing.Reason)
	}
	soc.waitFor(t, "rollout.rolled_back")
	if testing.Short() { // under the race detector a whole rollout takes minutes, and no other paths
		in.checkTransitions(failing)
		in.checkLastEvaluation(failing)
		return
	}
	healthy := in.rollout("v3")
	if healthy.Phase != "completed" || healthy.path() != "baseline 0, canary-20 2000, canary-40 4000, canary-80 8000, canary-100 10000, completed 10000" {
		t.Errorf("the healthy version: %s by %s (%s)", healthy.Phase, healthy.path(), healthy.Reason)
	}
	answered := stopTraffic()
	if answered["from better"] == 0 || answered["from steady"] == 0 || answered["error"] == 0 {
		t.Errorf("the traffic did not see every version: %v", answered)
	}
	last := in.chat(map[string]any{"model": "steady", "messages": []any{map[string]any{"role": "user", "content": "hello"}}})
	if last.status != http.StatusOK || !strings.Contains(string(last.body), "from better") {
		t.Errorf("after the rollout: %d %s", last.status, last.body)
	}
	for _, r := range []rollout{failing, healthy} {
		in.checkTransitions(r)
	}
	in.checkLastEvaluation(failing)
	in.checkAbort()
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the audit log does not verify: %+v", v.Report.Problems)
	}
}

// rollout starts one and waits for its end.
func (in *installation) rollout(candidate string) rollout {
	in.t.Helper()
	var r rollout
	in.admin(http.MethodPost, "/rollouts", map[string]any{
		"model": "steady", "candidate": candidate, "preset": "trial", "min_requests": 30, "dwell_seconds": 1, "poll_seconds": 1, "deadline_seconds": 120,
		"max_latency_ratio_percent": 1000, "error_margin_basis": 300, "latency_quantile_basis": 9000, "latency_floor_ms": 70, "promote_alpha": 0.02, "reason": "test",
	}, &r)
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for r.Phase == "" || r.Phase == "baseline" || r.Phase == "canary" || r.Phase == "holding" {
		select {
		case <-tick.C:
		case <-deadline:
			in.t.Fatalf("the rollout of %s did not end: %+v", candidate, r)
		}
		in.admin(http.MethodGet, "/rollouts/"+r.ID, nil, &r)
	}
	return r
}

// checkLastEvaluation looks at what the failing rollout ended on: figures, checks and thresholds, in the language asked for.
func (in *installation) checkLastEvaluation(failing rollout) {
	in.t.Helper()
	var zh rollout
	got := in.send(http.MethodGet, "/api/v1/rollouts/"+failing.ID, in.token, nil, "Accept-Language", "zh-CN")
	if err := json.Unmarshal(got.body, &zh); err != nil {
		in.t.Fatal(err)
	}
	for _, r := range []rollout{failing, zh} {
		end := r.History[len(r.History)-1]
		if end.Look == nil || r.Evidence == nil || end.Look.Hash != end.Evidence || r.Evidence.Hash != end.Evidence || !end.Look.Kept || end.ReasonCode != "verdict" {
			in.t.Fatalf("what it ended on: %+v, %+v", end, r.Evidence)
		}
		l := end.Look
		if l.Stage != "canary-20" || l.Candidate.Errors == 0 || l.Stable.Requests == 0 || len(l.Metrics) != 3 || // nobody knows the first tokens of answers in one piece
			l.Thresholds.MinRequests != 30 || l.Thresholds.Margin != 300 || l.Thresholds.Quantile != 9000 || l.Thresholds.FloorMs != 70 || l.Thresholds.Promote != 0.02 {
			in.t.Errorf("the evaluation: %+v", l)
		}
		if m := l.Metrics[0]; m.State != "broken" || m.BrokenP > 0.01 || m.LimitText == "" || m.Proof == "" {
			in.t.Errorf("the check: %+v", m)
		}
	}
	end := zh.History[len(zh.History)-1]
	for _, text := range []string{end.Reason, zh.Reason, end.Look.Reason, end.Look.Metrics[0].Title, end.Look.Metrics[0].LimitText, end.Look.Metrics[0].Proof} {
		if !regexp.MustCompile(`\p{Han}`).MatchString(text) || regexp.MustCompile(`[a-z]{6}`).MatchString(text) {
			in.t.Errorf("a Chinese reader gets %q", text)
		}
	}
	if zh.History[0].Reason != "test" {
		in.t.Errorf("the person's own words became %q", zh.History[0].Reason)
	}
}

// checkAbort stops a rollout by gates that has hardly begun: it shows what it stood on all the same, and the sealed evidence gives the same verdict.
func (in *installation) checkAbort() {
	in.t.Helper()
	var r rollout
	in.admin(http.MethodPost, "/rollouts", map[string]any{
		"model": "steady", "candidate": "v2", "min_requests": 1_000_000, "poll_seconds": 1, "dwell_seconds": 1, "gates": []any{map[string]any{"metric": "total", "quantile": 0.5, "margin": 0.03}},
		"without": []any{map[string]any{"gate": "first_token_p95", "reason": "answers in one piece"}},
		"results": []any{map[string]any{"suite": "faq", "digest": strings.Repeat("a", 64), "both": 90, "only_stable": 1, "only_candidate": 1, "neither": 8}},
	}, &r)
	eventually(in.t, "the baseline to be evaluated", func() bool {
		in.admin(http.MethodGet, "/rollouts/"+r.ID, nil, &r)
		return r.Evidence != nil
	})
	if r.Evidence.Kept || !strings.HasPrefix(r.Reason, fmt.Sprintf("%d requests of stable, ", r.Evidence.Stable.Requests)) || r.Reason != r.Evidence.Reason {
		in.t.Errorf("verdict and counts disagree: %q beside %+v", r.Reason, r.Evidence)
	}
	in.admin(http.MethodPost, "/rollouts/"+r.ID+"/abort", map[string]any{"reason": "seen enough"}, nil)
	eventually(in.t, "the abort", func() bool {
		in.admin(http.MethodGet, "/rollouts/"+r.ID, nil, &r)
		return r.Phase == "aborted"
	})
	end := r.History[len(r.History)-1]
	if end.Reason != "seen enough" || end.ReasonCode != "" || end.Look == nil || end.Look.ReasonCode != "too_few_requests" || !r.Evidence.Kept || r.Evidence.Hash != end.Evidence {
		in.t.Errorf("aborted as %+v with %+v", end, r.Evidence)
	}
	if end.Look.Sealed != "" {
		in.t.Error("evidence is shown that nobody asked for")
	}
	in.admin(http.MethodGet, "/rollouts/"+r.ID+"?sealed=true", nil, &r)
	if end = r.History[len(r.History)-1]; r.Preset != "standard" || len(r.Thresholds.Gates) != 8 {
		in.t.Errorf("a rollout by default: %q with %d gates", r.Preset, len(r.Thresholds.Gates))
	}
	if l, err := workflows.VerifySealed(end.Look.Sealed, end.Evidence); err != nil || l.Decision.Outcome != workflows.NoData {
		in.t.Errorf("the sealed evidence: %s, %v", l.Decision.Outcome, err)
	}
	eventually(in.t, "the record of gates that were changed", func() bool {
		text := string(in.send(http.MethodGet, "/api/v1/audit/records?action=admin.startRollout&stage=outcome", in.token, nil).body)
		return strings.Contains(text, "answers in one piece") && strings.Contains(text, "margin 0.03")
	})
}

// checkLosses: a candidate that cannot do what stable does is refused with the names of what it lacks, until somebody accepts just that, which is recorded.
func (in *installation) checkLosses() {
	in.t.Helper()
	weaker := map[string]any{"model": "steady", "candidate": "v4", "preset": "trial", "min_requests": 1_000_000}
	for _, accepted := range [][]string{{}, {"logprobs", "context_tokens"}} {
		weaker["accept_losses"] = accepted
		got := in.send(http.MethodPost, "/api/v1/rollouts", in.token, weaker)
		if text := string(got.body); got.status != http.StatusConflict || !strings.Contains(text, `"candidate_lacks"`) || !strings.Contains(text, "logprobs.top") ||
			strings.Contains(text, "logprobs, logprobs.top, context_tokens") != (len(accepted) == 0) {
			in.t.Errorf("accepting %v: %d %s", accepted, got.status, text)
		}
	}
	weaker["accept_losses"] = []string{"logprobs", "logprobs.top", "context_tokens"}
	var r rollout
	in.admin(http.MethodPost, "/rollouts", weaker, &r)
	in.admin(http.MethodPost, "/rollouts/"+r.ID+"/abort", map[string]any{"reason": "it was a test"}, nil)
	eventually(in.t, "the abort", func() bool {
		in.admin(http.MethodGet, "/rollouts/"+r.ID, nil, &r)
		return r.Phase == "aborted"
	})
	eventually(in.t, "the record of what was accepted", func() bool {
		return strings.Contains(string(in.send(http.MethodGet, "/api/v1/audit/records?action=admin.startRollout&stage=outcome", in.token, nil).body), "logprobs logprobs.top context_tokens")
	})
}

// checkTransitions looks every transition's receipt up in the audit log.
func (in *installation) checkTransitions(r rollout) {
	in.t.Helper()
	for _, h := range r.History {
		if h.Receipt == "" {
			in.t.Errorf("transition to %s of rollout %s has no audit record", h.To, r.ID)
			continue
		}
		eventually(in.t, "the audit record of the transition to "+h.To, func() bool {
			return in.send(http.MethodGet, "/api/v1/audit/records/"+h.Receipt, in.token, nil).status == http.StatusOK
		})
	}
}

// traffic sends chats of ever new conversations from n clients until the returned function is called, which counts the answers.
// It is paced, so that the audit log ships as fast as it grows under the race detector too: a rollout decides on what is shipped.
func (in *installation) traffic(model string, n int) (stop func() map[string]int) {
	ctx, cancel := context.WithCancel(in.t.Context())
	var (
		clients sync.WaitGroup
		mu      sync.Mutex
		number  atomic.Int64
	)
	answers := map[string]int{}
	for range n {
		clients.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				<-pace.C
				r := in.send(http.MethodPost, "/v1/chat/completions", in.started.Welcome.APIKey.Reveal(),
					map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": "hello"}}},
					"X-Sluice-Session", fmt.Sprintf("conversation-%d", number.Add(1)))
				answer := "error"
				for _, text := range []string{"from steady", "from better", "from faulty"} {
					if r.status == http.StatusOK && strings.Contains(string(r.body), text) {
						answer = text
					}
				}
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			}
		})
	}
	return sync.OnceValue(func() map[string]int {
		cancel()
		clients.Wait()
		return answers
	})
}
