package peer_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/unified"
)

func profileOf(t *testing.T, name string) *profile.Profile {
	t.Helper()
	s, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// engine answers paths with bodies; a status stands in front of some.
func engine(t *testing.T, answers map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if rest, busy := strings.CutPrefix(body, "503 "); busy {
			w.WriteHeader(http.StatusServiceUnavailable)
			body = rest
		}
		if strings.HasPrefix(body, "302 ") {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, name string, answers map[string]string) *peer.Peer {
	t.Helper()
	url := engine(t, answers)
	p, err := peer.New(peer.Config{Profile: profileOf(t, name), URL: url, Management: url, Metrics: url})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHealth: an answer is read as the profile says: by its status, by a member of its body, as loading, as standing by.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		profile string
		answers map[string]string
		want    peer.State
	}{
		{"vllm", map[string]string{"/health": ""}, peer.Ready},
		{"vllm", map[string]string{"/health": "503 "}, peer.NotReady},
		{"vllm", nil, peer.NotReady},
		{"vllm", map[string]string{"/health": "302 "}, peer.NotReady},
		{"llama.cpp", map[string]string{"/health": "503 {}"}, peer.Loading},
		// What Dynamo's frontend says at /health it says without workers, too.
		{"dynamo", map[string]string{"/health": `{"status":"healthy"}`, "/v1/models": `{"data":[{"id":"m"}]}`}, peer.Ready},
		{"dynamo", map[string]string{"/health": `{"status":"healthy"}`, "/v1/models": `{"data":[]}`}, peer.NotReady},
		{"dynamo", map[string]string{"/health": `{"status":"healthy"}`, "/v1/models": `healthy`}, peer.NotReady},
		{"dynamo", map[string]string{"/health": `{"status":"healthy"}`}, peer.NotReady},
		{"mindie-coordinator", map[string]string{"/readiness": `{"ready":true}`}, peer.Ready},
		{"mindie-coordinator", map[string]string{"/readiness": `{"ready":false}`}, peer.NotReady},
		{"mindie-coordinator", map[string]string{"/readiness": `503 {"message":"Coordinator is not master"}`}, peer.Standby},
	} {
		if got, err := ask(t, c.profile, c.answers).Health(t.Context()); got != c.want || err != nil {
			t.Errorf("%s %v: %s, %v; want %s", c.profile, c.answers, got, err, c.want)
		}
	}
	gone, err := peer.New(peer.Config{Profile: profileOf(t, "vllm"), URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := gone.Health(t.Context()); s != peer.Unreachable || err == nil {
		t.Errorf("nobody there: %s, %v", s, err)
	}
}

// TestWhatIsNotTold is an error of its own, and nothing is made up.
func TestWhatIsNotTold(t *testing.T) {
	p := ask(t, "openai", nil)
	_, health := p.Health(t.Context())
	_, version := p.Version(t.Context())
	_, metrics := p.Metrics(t.Context())
	for what, err := range map[string]error{"health": health, "version": version, "metrics": metrics, "drain": p.Drain(t.Context())} {
		if !errors.Is(err, peer.ErrNotTold) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := p.Models(t.Context()); err == nil || errors.Is(err, peer.ErrNotTold) {
		t.Errorf("a list that is not there: %v", err)
	}
}

func TestObserve(t *testing.T) {
	p := ask(t, "vllm", map[string]string{"/version": `{"version":"0.21.0"}`, "/v1/models": `{"data":[{"id":"a","max_model_len":4096},{"id":"b"}]}`})
	o, err := p.Observe(t.Context(), false)
	if err != nil || o.Version != "0.21.0" || o.Models["a"] != 4096 || len(o.Models) != 2 || o.Grade != capability.E3 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, _ := p.Observe(t.Context(), true); o.Grade != capability.E2 {
		t.Errorf("a simulator bears %s", o.Grade)
	}
	llama := ask(t, "llama.cpp", map[string]string{"/props": `{"build_info":"b1","default_generation_settings":{"n_ctx":512}}`, "/v1/models": `{"data":[{"id":"m"}]}`})
	if models, err := llama.Models(t.Context()); err != nil || models[0] != (peer.Model{ID: "m", Context: 512}) {
		t.Errorf("%+v, %v", models, err)
	}
	for _, list := range []string{"", "[]", `{"data":{}}`, `{"data":[{"name":"x"}]}`} {
		if _, err := ask(t, "vllm", map[string]string{"/v1/models": list}).Models(t.Context()); err == nil {
			t.Errorf("%q was read", list)
		}
	}
	if _, err := ask(t, "vllm", map[string]string{"/version": "{}"}).Observe(t.Context(), false); err == nil {
		t.Error("no version was read")
	}
}

// TestLongAnswers: an answer that is longer than what is read of it is an error, not one that tells less.
func TestLongAnswers(t *testing.T) {
	list := `{"data":[{"id":"a"}]}`
	for n, want := range map[int]bool{4<<20 - len(list): true, 4<<20 - len(list) + 1: false} {
		models, err := ask(t, "vllm", map[string]string{"/v1/models": list + strings.Repeat(" ", n)}).Models(t.Context())
		if (err == nil) != want || (len(models) == 1) != want {
			t.Errorf("%d bytes: %v, %v", len(list)+n, models, err)
		}
	}
	running := "vllm:num_requests_running 3\n"
	for n, want := range map[int]bool{unified.MaxPage - len(running): true, unified.MaxPage - len(running) + 1: false} {
		page := running + "#" + strings.Repeat("-", n-2) + "\n"
		v, err := ask(t, "vllm", map[string]string{"/metrics": page}).Metrics(t.Context())
		if (err == nil) != want || (v[unified.RequestsRunning].Value == 3) != want {
			t.Errorf("a page of %d bytes: %+v, %v", len(page), v, err)
		}
	}
}

// TestPorts: what the profile serves elsewhere is asked for there, on the same host unless the configuration says otherwise.
func TestPorts(t *testing.T) {
	p, err := peer.New(peer.Config{Profile: profileOf(t, "mindie"), URL: "http://h.example:9/", Metrics: "http://m.example:7"})
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[profile.Port]string{
		profile.PortMain: "http://h.example:9", "": "http://h.example:9", profile.PortManagement: "http://h.example:1026", profile.PortMetrics: "http://m.example:7",
	} {
		if got := p.URL(port); got != want {
			t.Errorf("%q is %s, want %s", port, got, want)
		}
	}
	for _, bad := range []string{"", "h.example", "ftp://h", "http://u:p@h", "http://h?x=1"} {
		if _, err := peer.New(peer.Config{Profile: profileOf(t, "vllm"), URL: bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := peer.New(peer.Config{URL: "http://h"}); err == nil {
		t.Error("no profile was taken")
	}
}
