package server_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

// metricLabels are the only labels a metric may have: each has few values, none of which a caller chooses.
var metricLabels = []string{"action", "channel", "class", "code", "device", "direction", "event", "kind", "le", "model", "outcome", "part", "pass", "phase", "reason", "result", "route", "shown", "snapshot", "stage", "status", "step"}

// TestMetricsList pins the names, types and labels of all metrics, which dashboards and alerts rely on, and looks for callers'
// text in them. Run with SLUICE_UPDATE=1 to rewrite the list.
func TestMetricsList(t *testing.T) {
	in := start(t, setup{retrieval: true, extra: "audit: {siem: [{name: nobody, address: 'tcp://127.0.0.1:1'}]}\nnotify: {channels: [{name: nobody, kind: webhook, url: 'http://127.0.0.1:1/'}]}\n", overrides: map[string]any{"workflows.enabled": true, "workflows.address": "127.0.0.1:1"}, plan: func(n int, _ *engine.Request) enginetest.Plan {
		if n == 1 {
			return enginetest.Plan{Err: fault.New(fault.CodeEngineUnavailable, "scripted")}
		}
		return enginetest.Plan{}
	}})
	key := in.started.Welcome.APIKey.Reveal()
	body := map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "身份证 11010519491231002X"}}}
	in.send(http.MethodPost, "/v1/chat/completions", key, body)
	in.send(http.MethodPost, "/v1/chat/completions", key, body) // the engine fails
	in.send(http.MethodPost, "/v1/chat/completions", "sk-sluice-nobody", body)
	in.send(http.MethodPost, "/v1/rag/search", key, map[string]any{"collection": "none", "query": "hello"})
	in.admin(http.MethodGet, "/me", nil, new(any))
	// A metric with labels appears with its first count, the one of usage when the first record is shipped.
	eventually(t, "the usage to be recorded", func() bool { return in.usage("").Requests > 0 })
	text := string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body)
	for _, secret := range []string{"11010519491231002X", "sk-sluice", key[10:20], "hello"} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics contain %q", secret)
		}
	}
	got := metricNames(t, text)
	const file = "testdata/metrics.golden"
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("the metrics differ from %s (%v); if that is meant, run with SLUICE_UPDATE=1 and tell the users in CHANGELOG.md. Now:\n%s", file, err, got)
	}
}

var (
	typeLine  = regexp.MustCompile(`(?m)^# TYPE (sluice_\S+) (\S+)$`)
	labelName = regexp.MustCompile(`([a-z_]+)="`)
)

// metricNames lists "name type label,label" of Sluice's own metrics, sorted.
func metricNames(t *testing.T, text string) string {
	var lines []string
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		labels := map[string]bool{}
		for _, series := range regexp.MustCompile(`(?m)^`+m[1]+`(?:_bucket|_sum|_count)?\{([^}]*)\}`).FindAllStringSubmatch(text, -1) {
			for _, l := range labelName.FindAllStringSubmatch(series[1], -1) {
				labels[l[1]] = true
				if !slices.Contains(metricLabels, l[1]) {
					t.Errorf("%s: the label %s is not in the list", m[1], l[1])
				}
			}
		}
		delete(labels, "le")
		names := make([]string, 0, len(labels))
		for l := range labels {
			names = append(names, l)
		}
		slices.Sort(names)
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", m[1], m[2], strings.Join(names, ","))))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
