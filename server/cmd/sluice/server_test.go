package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestAgainstAServer goes the way of an operator: make a key, chat with it, revoke it, look at the rest, verify the log while the
// server runs and after it stopped, and see one flipped byte named.
func TestAgainstAServer(t *testing.T) {
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()

	created := s.run("key", "create", "nightly", "--days", "3")
	created.wants(t, exitOK, "It is shown once")
	secret := strings.TrimSpace(created.out)
	if !strings.HasPrefix(secret, "sk-sluice-") || strings.Contains(secret, "\n") {
		t.Fatalf("stdout must be the secret alone: %q", created.out)
	}
	list := s.run("key", "list")
	list.wants(t, exitOK, "nightly", "first key", "active", "EXPIRES")
	if strings.Contains(list.out, secret) {
		t.Error("the list shows a secret")
	}
	with := func(env ...string) *site { c := *s; c.env = append(append([]string{}, s.env...), env...); return &c }
	var id string
	for line := range strings.Lines(list.out) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "nightly" {
			id = f[0]
		}
	}
	mine := with() // the last of two settings loses, so the key is replaced
	mine.env[1] = "SLUICE_API_KEY=" + secret
	mine.run("chat", "call", "13800138000").wants(t, exitOK, "call 13800138000", "[receipt ")
	s.run("key", "revoke", id).wants(t, exitOK, "revoked "+id)
	p.eventually("the revoked key to be refused", func() bool { return mine.run("chat", "again").code == exitFailed })
	mine.run("chat", "again").wants(t, exitFailed, "expired or was revoked", "Create a new one", "request ")
	zh := *mine
	zh.env = append([]string{"LANG=zh_CN.UTF-8"}, mine.env...)
	zh.run("chat", "again").wants(t, exitFailed, "请在控制台创建新的密钥")
	s.run("key", "list").wants(t, exitOK, "revoked")
	s.run("key", "revoke", "nothing").wants(t, exitFailed, "does not exist", "not_found")

	night := filepath.Join(t.TempDir(), "night.jsonl")
	if err := os.WriteFile(night, []byte(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"scripted","messages":[{"role":"user","content":"good night"}]}}
{"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{"model":"scripted"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	batch := s.run("batch", "create", night)
	batch.wants(t, exitOK, "batch_")
	name := strings.TrimSpace(batch.out)
	p.eventually("the batch to be completed", func() bool { return strings.Contains(s.run("batch", "show", name).out, "status     completed") })
	s.run("batch", "list").wants(t, exitOK, "STATUS", name, "/v1/chat/completions")
	s.run("batch", "results", name).wants(t, exitOK, `"custom_id":"a"`, "good night")
	s.run("batch", "results", name, "--failed").wants(t, exitOK, `"custom_id":"b"`, "missing_required_parameter")
	s.run("batch", "cancel", name).wants(t, exitFailed, "can no longer be cancelled")
	s.run("batch", "create", night, "--endpoint", "/v1/rerank").wants(t, exitFailed, "/v1/embeddings")
	s.run("batch", "show", "batch_none").wants(t, exitFailed, "does not exist")

	lines := *s
	lines.stdin = "first line\n\nsecond line\n"
	lines.run("chat").wants(t, exitOK, "first line\n", "second line\n")
	s.run("chat", "--model", "nothing", "x").wants(t, exitFailed, "GET /v1/models")
	s.run("chat", "--url", "http://127.0.0.1:1", "x").wants(t, exitFailed, "is it running?")
	s.run("key", "list", "--url", "http://127.0.0.1:1").wants(t, exitFailed, "is it running?")
	wrong := with()
	wrong.env[3] = "SLUICE_ADMIN_PASSWORD=canary-wrong"
	r := wrong.run("key", "list")
	r.wants(t, exitFailed, "sign in", "wrong", "invalid_login")
	if strings.Contains(r.err, "canary") {
		t.Errorf("the password is shown: %s", r.err)
	}
	s.run("rollout", "list").wants(t, exitFailed, "workflow")
	s.run("rollout", "start", "scripted", "v2", "--preset", "trial").wants(t, exitFailed, "workflow")
	s.run("rag", "list").wants(t, exitFailed, "retrieval")
	s.run("engine", "scheduler").wants(t, exitOK) // no native models here
	s.run("engine", "steps", "--limit", "3").wants(t, exitOK, "GUESSED")
	s.run("engine", "steps", "--limit", "501").wants(t, exitFailed, "limit")
	s.run("engine", "adapters", "list").wants(t, exitOK, "TENANTS")
	s.run("engine", "adapters", "load", "law", "chat", "law", "--tenant", "acme,demo").wants(t, exitFailed, "model_not_found")
	s.run("engine", "adapters", "load", "a b", "chat", "law").wants(t, exitFailed, "invalid_value")
	s.run("engine", "adapters", "unload", "law").wants(t, exitFailed, "model_not_found")

	s.run("migrate").wants(t, exitOK, "schema version")
	url := strings.TrimPrefix(s.env[0], "SLUICE_URL=")
	s.run("doctor", "--url", url+"/").wants(t, exitOK, "ok", "server", `"ready":true`)
	doctor := s.run("doctor", "--json", "--url", url)
	var report struct {
		OK     bool
		Checks []server.Check
	}
	if err := json.Unmarshal([]byte(doctor.out), &report); err != nil || !report.OK || len(report.Checks) != 11 {
		t.Errorf("doctor --json: %v %s", err, doctor.out)
	}
	s.run("doctor", "--url", "http://127.0.0.1:1").wants(t, exitFindings, "is it running?")
	s.run("audit", "verify").wants(t, exitOK, "OK: nothing was altered")
	verifier := strings.TrimSpace(s.run("audit", "key").out)

	if err := p.stop(syscall.SIGINT); err != nil {
		t.Fatalf("stop: %v", err)
	}
	s.run("audit", "verify", "--key", verifier).wants(t, exitOK, "OK: nothing was altered", "in the write-ahead log")
	verified := s.run("audit", "verify", "--json")
	verified.wants(t, exitOK, `"ok": true`)
	s.run("audit", "verify", "--key", "nonsense").wants(t, exitFailed, "key")
	flipInDatabase(t, filepath.Join(s.data, "sluice.db"), `"action":"admin.createKey"`)
	bad := s.run("audit", "verify")
	bad.wants(t, exitFindings, "FAILED: problems found", "record 0")
	if !regexp.MustCompile(`record [0-9a-f]{8}-[0-9a-f-]{27}, index \d+: `).MatchString(bad.out) {
		t.Errorf("no record is named:\n%s", bad.out)
	}
	if bad.err != "" {
		t.Errorf("findings belong on stdout: %s", bad.err)
	}
	s.run("audit", "verify", "--json").wants(t, exitFindings, `"ok": false`)
}

// flipInDatabase changes one bit in every copy of text in a file: SQLite leaves old copies in pages it has split.
func flipInDatabase(t *testing.T, path, text string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(text)
	changed[len(changed)/2] ^= 1
	if !bytes.Contains(raw, []byte(text)) {
		t.Fatalf("%s is not in %s", text, path)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(raw, []byte(text), changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestChatStreams: words are printed as they come, and a failure mid-stream keeps what came and says what happened.
func TestChatStreams(t *testing.T) {
	step := make(chan struct{})
	s := newSite(t, func(n int, _ *engine.Request) enginetest.Plan {
		if n == 0 {
			return enginetest.Plan{Texts: []string{"one two three four"}, Step: step}
		}
		return enginetest.Plan{Texts: []string{"one two three four"}, Err: os.ErrDeadlineExceeded, FailAt: 2}
	}, quiet)
	p := s.up()
	out := &lockedBuffer{}
	done := make(chan int)
	go func() {
		env := append(p.client(), "SLUICE_CONFIG="+s.config)
		done <- run(t.Context(), []string{"chat", "count"}, &cli.App{Environ: env, Stdin: strings.NewReader(""), Stdout: out, Stderr: out})
	}()
	for range 3 { // the first word waits for its end: it could be the scheme of an address with a password
		step <- struct{}{}
	}
	p.eventually("the first word", func() bool { return strings.HasPrefix(out.String(), "on") })
	if strings.Contains(out.String(), "four") {
		t.Error("the whole answer came before it was written")
	}
	close(step)
	if code := <-done; code != exitOK || !strings.HasPrefix(out.String(), "one two three four\n") {
		t.Errorf("exit %d: %s", code, out)
	}
	s.env = p.client()
	r := s.run("chat", "count")
	r.wants(t, exitFailed, "engine", "Try again")
	if !strings.HasPrefix(r.out, "on") {
		t.Errorf("what came is lost: %q", r.out)
	}
}
