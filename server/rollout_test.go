package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/workflows/devserver/devtest"
)

// rollout is what the tests look at in a rollout.
type rollout struct {
	ID, Phase, Reason, Verdict string
	History                    []struct {
		From, To, Reason, Evidence, Receipt string
		ShareBasis                          int `json:"share_basis"`
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
		return engine.Model{ID: engine.ModelID(id), Digest: "sha256:" + id, CanGenerate: true, ContextTokens: 4096}
	}
	in := start(t, setup{
		models: []engine.Model{info("steady"), info("faulty"), info("better")},
		plan: func(_ int, req *engine.Request) enginetest.Plan {
			if req.Model == "faulty" {
				return enginetest.Plan{Err: fault.New(fault.CodeEngineUnavailable, "faulty")}
			}
			return enginetest.Plan{Texts: []string{"from " + string(req.Model)}}
		},
		extra: "limits: {key: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}, tenant: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}}\n" +
			"workflows: {enabled: true, namespace: trials, embedded: {binary: \"" + binary + "\"}}\n",
		overrides: map[string]any{"workflows.enabled": true},
	})
	for version, model := range map[string]string{"v2": "faulty", "v3": "better"} {
		in.admin(http.MethodPost, "/model-versions", map[string]any{"model": "steady", "version": version, "engine": "upstream", "engine_model": model}, new(any))
	}
	stopTraffic := in.traffic("steady", 4)
	defer stopTraffic()

	failing := in.rollout("v2")
	if failing.Phase != "rolled_back" || failing.path() != "baseline 0, canary-20 2000, rolled_back 0" {
		t.Errorf("the failing version: %s by %s (%s)", failing.Phase, failing.path(), failing.Reason)
	}
	if testing.Short() { // under the race detector a whole rollout takes minutes, and no other paths
		in.checkTransitions(failing)
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
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the audit log does not verify: %+v", v.Report.Problems)
	}
}

// rollout starts one and waits for its end.
func (in *installation) rollout(candidate string) rollout {
	in.t.Helper()
	var r rollout
	in.admin(http.MethodPost, "/rollouts", map[string]any{
		"model": "steady", "candidate": candidate, "min_requests": 30, "dwell_seconds": 1, "poll_seconds": 1, "deadline_seconds": 120,
		"max_latency_ratio_percent": 1000, "reason": "test",
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
