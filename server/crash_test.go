package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/gateway/reconcile"
	"github.com/sluice-project/sluice/internal/database"
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
		if mark := os.Getenv(hangDisk); mark != "" {
			cfg.Audit.Files = hangingDisk(mark)
		}
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

// hangDisk names a file: as soon as it exists, the disk of a child's write-ahead log answers no more.
const hangDisk = "SLUICE_TEST_HANG_DISK"

func hangingDisk(mark string) durable.Files {
	return &durabletest.Files{Plan: func(string) durabletest.Mode {
		if _, err := os.Stat(mark); err == nil {
			select {}
		}
		return durabletest.Healthy
	}}
}

func startChild(t *testing.T, file string, env ...string) (*exec.Cmd, childReady) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "SLUICE_TEST_SERVE="+file), env...)
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
		return enginetest.Plan{Texts: []string{strings.Repeat("word ", 10+n%40)}} // long enough to be registered
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
	entries := map[string]int{} // of the registry, which become durable with the outcome
	for _, id := range registered(t, url) {
		entries[id]++
	}
	for id := range answered {
		if entries[id] != 1 {
			t.Errorf("request %s was answered and has %d entries in the registry", id, entries[id])
		}
	}
	for id, n := range entries {
		if n != 1 || charged[id] != 1 {
			t.Errorf("request %s has %d entries in the registry and %d outcomes", id, n, charged[id])
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

// registered are the requests that the registry has entries of, once for each.
func registered(t *testing.T, url string) (requests []string) {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(url)})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close(db)
	if err := db.Table("registry_entries").Pluck("request", &requests).Error; err != nil {
		t.Fatal(err)
	}
	return requests
}

// TestKillAfterAnswerFirst kills the server with -9 between an answer and its outcome record, where the policy has answers first: its disk hangs from
// the moment at which the engine is asked. The request that was answered is then named by the verifier, and billed for its prompt, once.
func TestKillAfterAnswerFirst(t *testing.T) { onBoth(t, testKillAfterAnswerFirst) }

func testKillAfterAnswerFirst(t *testing.T, url string) {
	dir := t.TempDir()
	if url == "" {
		url = "sqlite:" + filepath.Join(dir, "a.db")
	}
	mark := filepath.Join(dir, "hang")
	scripted := enginetest.NewScripted(func(_ int, q *engine.Request) enginetest.Plan {
		if strings.HasPrefix(q.Messages[0].Content, "last") {
			if err := os.WriteFile(mark, nil, 0o600); err != nil {
				panic(err)
			}
		}
		return enginetest.Plan{Texts: []string{"an answer of some words"}}
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
`, filepath.Join(dir, "data"), url, upstream.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	child, first := startChild(t, file, hangDisk+"="+mark)
	open := func(ready childReady) *installation {
		return &installation{t: t, started: server.Started{BaseURL: ready.BaseURL, Welcome: server.Welcome{
			AdminUser: first.User, AdminPassword: keyring.Secret(first.Password), APIKey: keyring.Secret(first.Key),
		}}}
	}
	in := open(first)
	first.Password = adminPassword // since the first sign-in
	policy, err := os.ReadFile("../bench/policies/answer-first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in.publish(string(policy))
	ask := func(content string) (id string, answer []byte) {
		t.Helper()
		r := in.chat(map[string]any{"model": "scripted", "messages": []map[string]string{{"role": "user", "content": content}}})
		if r.status != http.StatusOK || !strings.Contains(string(r.body), "an answer of some words") || r.header.Get("X-Sluice-Receipt") == "" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return r.header.Get("X-Request-Id"), r.body
	}
	whole, _ := ask("first " + strings.Repeat("word ", 30))
	if got := in.records(whole, 2); got[1].Outcome != "ok" {
		t.Fatalf("%+v", got)
	}
	lost, _ := ask("last " + strings.Repeat("word ", 60))
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	_, ready := startChild(t, file)
	in = open(ready)
	admitted := in.records(lost, 1)
	if len(admitted) != 1 || admitted[0].Stage != "admitted" || admitted[0].Usage.PromptTokens < 60 || admitted[0].Usage.CompletionTokens != 0 {
		t.Fatalf("after the crash the request has the records %+v", admitted)
	}
	due := admitted[0].Usage
	before, named := in.usage(""), 0
	v := in.verify()
	for _, f := range v.Report.Findings {
		if f.Kind == "unfinished" && strings.Contains(f.Cause, lost) && strings.Contains(f.Cause, "billed") {
			named++
		}
	}
	if !v.Report.OK || named != 1 || before.Requests != 1 {
		t.Errorf("the verifier names it %d times in %+v; booked are %+v", named, v.Report, before)
	}
	cfg, err := config.Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// For the command the time of a request is over at once: reconciliation adds five minutes, in which an outcome might still come.
	cfg.Gateway.Timeout, cfg.Gateway.SettleTimeout = -5*time.Minute, 1
	compare := func() bool {
		in.admin(http.MethodPost, "/audit/reconciliation", nil, nil) // so that the server says now what of its former run is left
		_, err := server.Reconcile(t.Context(), cfg, 10, slog.New(slog.DiscardHandler))
		if err != nil && !errors.Is(err, reconcile.ErrRunning) { // the server compares, too
			t.Fatal(err)
		}
		return err == nil
	}
	eventually(t, "the outcome to be made up, once the server says that nothing of its former run is left", func() bool {
		return compare() && in.usage("").Requests > before.Requests
	})
	eventually(t, "another comparison, which bills nothing twice", compare)
	got := in.records(lost, 2)
	if len(got) != 2 || got[1].Outcome != "failed" || got[1].Usage != due {
		t.Errorf("the records are %+v, want the usage %+v", got, due)
	}
	after := in.usage("")
	if after.Requests != 2 || after.PromptTokens != before.PromptTokens+due.PromptTokens || after.CompletionTokens != before.CompletionTokens || after.CostNano != before.CostNano+due.Cost || due.Cost <= 0 {
		t.Errorf("booked are %+v, before %+v, due %+v", after, before, due)
	}
	for _, f := range in.verify().Report.Findings {
		switch {
		case f.Kind == "unfinished" && !strings.Contains(f.Cause, lost) && !strings.Contains(f.Cause, "billed"): // our own looks at the verification are in progress meanwhile
			in.records(strings.Fields(f.Cause)[1], 2)
		case f.Kind == "unfinished" || f.Kind == "unbooked":
			t.Errorf("after reconciliation the verifier says %+v", f)
		}
	}
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
