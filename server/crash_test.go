package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/config"
)

// TestMain lets the test binary act as a server process that a test may kill.
func TestMain(m *testing.M) {
	if file := os.Getenv("SLUICE_TEST_SERVE"); file != "" {
		os.Exit(serveChild(file))
	}
	os.Exit(m.Run())
}

// childReady is what a child prints once it serves.
type childReady struct{ BaseURL, User, Password, Key string }

func serveChild(file string) int {
	cfg, err := config.Load(file, nil, nil)
	if err == nil {
		err = server.Run(context.Background(), cfg, server.Options{
			Version: "test", Setup: true, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Ready: func(s server.Started) error {
				return json.NewEncoder(os.Stdout).Encode(childReady{
					BaseURL: s.BaseURL, User: s.Welcome.AdminUser, Password: s.Welcome.AdminPassword.Reveal(), Key: s.Welcome.APIKey.Reveal(),
				})
			},
		})
	}
	fmt.Fprintln(os.Stderr, "child:", err)
	return 1
}

func startChild(t *testing.T, file string) (*exec.Cmd, childReady) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SLUICE_TEST_SERVE="+file)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the child did not become ready: %v", err)
	}
	var ready childReady
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	return cmd, ready
}

// TestKillDuringStreams kills the server with -9 while 200 streams run, several times over on one data directory, and starts it
// again, on both databases. Every request whose answer ended has its records, none is billed twice, and the log verifies.
func TestKillDuringStreams(t *testing.T) { onBoth(t, testKillDuringStreams) }

func testKillDuringStreams(t *testing.T, url string) {
	const streams = 200
	rounds := 3
	if os.Getenv("SLUICE_TEST_LONG") != "" {
		rounds = 25
	}
	dir := t.TempDir()
	if url == "" {
		url = "sqlite:" + filepath.Join(dir, "a.db")
	}
	scripted := enginetest.NewScripted(func(n int, _ *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{strings.Repeat("word ", 5+n%40)}}
	})
	upstream := httptest.NewServer(&enginetest.Upstream{Engine: scripted})
	defer upstream.Close()
	file := filepath.Join(dir, "sluice.yaml")
	text := fmt.Sprintf(`data: %s
database: {url: %q, max_connections: 8}
listen: 127.0.0.1:0
console: false
workflows: {enabled: false}
log: {level: warn, format: text}
engines:
  native: {models: []}
  remote: [{name: upstream, base_url: "%s/v1", allow_private: [127.0.0.1/32], models: [{id: scripted}]}]
rag: {embedding_model: ""}
limits: {key: {concurrent: 0}}
`, filepath.Join(dir, "data"), url, upstream.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	answered := map[string]bool{}
	var first childReady
	for round := range rounds {
		child, ready := startChild(t, file)
		if round == 0 {
			first = ready
		} else if ready.Password != "" || ready.Key != "" {
			t.Fatal("a later start showed secrets again")
		}
		for id := range killMidway(t, child, ready.BaseURL, first.Key, streams) {
			answered[id] = true
		}
	}
	if len(answered) < rounds*10 {
		t.Fatalf("only %d answers ended before the kills: the test proves nothing", len(answered))
	}

	_, ready := startChild(t, file)
	in := &installation{t: t, started: server.Started{BaseURL: ready.BaseURL, Welcome: server.Welcome{
		AdminUser: first.User, AdminPassword: keyring.Secret(first.Password), APIKey: keyring.Secret(first.Key),
	}}}
	charged := map[string]int{}
	var cost int64
	for id := range answered {
		events := in.records(id, 2)
		if len(events) != 2 || events[0].Stage != "admitted" || events[1].Stage != "outcome" || events[1].Outcome != "ok" {
			t.Errorf("request %s has records %+v", id, events)
		}
	}
	in.eachRecord("stage=outcome&action=chat.completions", func(e auditEvent, _ json.RawMessage) {
		charged[e.Request]++
		cost += e.Usage.Cost
	})
	for id, n := range charged {
		if n != 1 {
			t.Errorf("request %s has %d outcomes", id, n)
		}
	}
	total := in.usage("")
	if total.Requests != int64(len(charged)) || total.CostNano != cost {
		t.Errorf("usage says %d requests for %d, the audit log says %d for %d", total.Requests, total.CostNano, len(charged), cost)
	}
	if v := in.verify(); !v.Report.OK {
		t.Errorf("the log does not verify: %+v", v.Report.Problems)
	}
	t.Logf("%d answers ended before %d kills, %d outcomes in all", len(answered), rounds, len(charged))
}

// killMidway opens streams at once, kills the child when a third of them have ended, and returns the request ids of those that
// ended with [DONE].
func killMidway(t *testing.T, child *exec.Cmd, base, key string, streams int) map[string]bool {
	t.Helper()
	var (
		mu   sync.Mutex
		done = map[string]bool{}
		n    atomic.Int64
		kill sync.Once
		wg   sync.WaitGroup
	)
	for range streams {
		wg.Go(func() {
			id, ended := stream(base, key)
			if !ended {
				return
			}
			mu.Lock()
			done[id] = true
			mu.Unlock()
			if n.Add(1) >= int64(streams/3) {
				kill.Do(func() { _ = child.Process.Kill() })
			}
		})
	}
	wg.Wait()
	kill.Do(func() { t.Error("the child was not killed while streams ran") })
	_ = child.Wait()
	return done
}

func stream(base, key string) (id string, ended bool) {
	body := `{"model":"scripted","stream":true,"messages":[{"role":"user","content":"my number is 13800138000"}]}`
	req, err := http.NewRequest(http.MethodPost, base+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", false
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	return res.Header.Get("X-Request-Id"), err == nil && strings.Contains(string(raw), "data: [DONE]")
}
