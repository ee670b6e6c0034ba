package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/workflows/devserver/devtest"
)

// TestReadyFile: the fields scripts rely on, secrets once, for the owner's eyes.
func TestReadyFile(t *testing.T) {
	s := newSite(t, nil, quiet)
	first := s.up()
	fields := slices.Sorted(maps.Keys(first.ready))
	if !slices.Equal(fields, []string{"admin_password", "admin_user", "api_key", "base_url", "console_url"}) {
		t.Errorf("fields %v", fields)
	}
	if !strings.HasPrefix(first.ready["base_url"], "http://127.0.0.1:") || !strings.HasSuffix(first.ready["base_url"], "/v1") {
		t.Errorf("base_url %q", first.ready["base_url"])
	}
	if info, err := os.Stat(first.readyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the ready file: %v %v", info, err)
	}
	secrets := []string{first.ready["admin_password"], first.ready["api_key"]}
	for _, secret := range secrets {
		if len(secret) < 20 {
			t.Errorf("a secret of %d characters", len(secret))
		}
		if strings.Contains(first.out.String()+first.errs.String(), secret) {
			t.Error("the log of a container would hold a secret")
		}
	}
	if !strings.Contains(first.out.String(), first.readyFile+"\n") {
		t.Errorf("stdout does not say where the secrets are:\n%s", first.out)
	}
	if err := first.stop(syscall.SIGTERM); err != nil {
		t.Fatalf("stop: %v", err)
	}

	s.run("up", "--ready-file", first.readyFile, "--listen", "127.0.0.1:99999").wants(t, exitFailed, "listen")
	if _, err := os.Stat(first.readyFile); err == nil {
		t.Error("a start that failed left the ready file of the one before")
	}
	second := s.up("--no-console")
	if second.ready["admin_password"] != "" || second.ready["api_key"] != "" || second.ready["base_url"] == first.ready["base_url"] {
		t.Errorf("second start: %v", second.ready)
	}
	for _, secret := range secrets {
		if strings.Contains(second.out.String()+second.errs.String(), secret) {
			t.Error("the second start shows a secret")
		}
	}
	if !strings.Contains(second.out.String(), "secrets are shown on the first start only") {
		t.Errorf("the second start does not say where the secrets went:\n%s", second.out)
	}
	s.env = append(second.client()[:1], first.client()[1:]...)
	s.run("chat", "hello again").wants(t, exitOK, "hello again")

	private(t, s.data)
}

// TestFirstSecretsGoToAFile: where standard output is no terminal, and no file is named, they are in the data directory, and in no log.
func TestFirstSecretsGoToAFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.launchAs(&process{t: t, out: &lockedBuffer{}, errs: &lockedBuffer{}, done: make(chan struct{}), readyFile: filepath.Join(s.data, "first-start.json")}, "up")
	p.awaitReady()
	p.eventually("the greeting", func() bool { return strings.Contains(p.out.String(), p.readyFile+"\n") })
	for _, secret := range []string{p.ready["admin_password"], p.ready["api_key"]} {
		if len(secret) < 20 || strings.Contains(p.out.String()+p.errs.String(), secret) {
			t.Error("a secret is missing, or in what the process prints")
		}
	}
	private(t, s.data)
	s.env = append(s.env, "SLUICE_URL="+strings.TrimSuffix(p.ready["base_url"], "/v1"), "SLUICE_ADMIN_USER=admin")
	s.env = append(s.env, "SLUICE_ADMIN_PASSWORD="+p.ready["admin_password"])
	s.run("user", "list").wants(t, exitFailed, "invalid_login") // it was changed
	s.env[len(s.env)-1] = "SLUICE_ADMIN_PASSWORD=" + p.password
	s.run("user", "list").wants(t, exitOK, "admin")
}

// private fails if others may read anything in dir.
func private(t *testing.T, dir string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %#o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDrain: SIGTERM lets an open stream end as it would have, refuses new work, and the process ends with 0, its records whole.
func TestDrain(t *testing.T) {
	t.Parallel()
	step := begun()
	s := newSite(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"one two three four"}, Step: step}
	}, quiet)
	p := s.up()
	res := p.post(t, `{"model":"scripted","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	defer func() { _ = res.Body.Close() }()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.eventually("new connections to be refused", func() bool {
		_, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(p.url("/healthz"))
		return err != nil
	})
	close(step)
	rest, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(rest, []byte("data: [DONE]")) || !bytes.Contains(rest, []byte(`"finish_reason":"stop"`)) {
		t.Errorf("the stream was cut: %v\n%s", err, rest)
	}
	<-p.done
	if p.err != nil {
		t.Errorf("end: %v", p.err)
	}
	r := s.run("audit", "verify")
	r.wants(t, exitOK, "OK: nothing was altered", "waiting 0")
	if strings.Contains(r.out, "unfinished") {
		t.Errorf("the drained request has no outcome:\n%s", r.out)
	}
}

// TestDrainDeadline: a stream that does not end is cut at the deadline, with its outcome recorded, and the exit code says so.
func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	step := begun()
	defer close(step)
	s := newSite(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"one two three four"}, Step: step}
	}, quiet+"drain_timeout: 300ms\n")
	p := s.up()
	res := p.post(t, `{"model":"scripted","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	defer func() { _ = res.Body.Close() }()
	if err := p.stop(syscall.SIGTERM); err == nil || p.cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("end: %v", err)
	}
	result{p.out.String(), p.errs.String(), exitFailed}.wants(t, exitFailed, "sluice: ", "300ms", "were cut")
	r := s.run("audit", "verify")
	r.wants(t, exitOK, "OK: nothing was altered")
	if strings.Contains(r.out, "unfinished") {
		t.Errorf("the cut request has no outcome:\n%s", r.out)
	}
}

// TestTemporalIsKilled: requests to models go on while the embedded Temporal is dead, the rollout commands say so, it comes back
// by itself, and nothing of it is left when the server stops.
func TestTemporalIsKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, "")
	hold, wrapper := filepath.Join(s.dir, "hold"), filepath.Join(s.dir, "temporal")
	// While the file exists, Temporal does not come back, so that the test can look at an installation without it.
	writeFile(t, wrapper, []byte("#!/bin/sh\nwhile [ -e '"+hold+"' ]; do sleep 0.05; done\nexec '"+devtest.Binary(t)+"' \"$@\"\n"))
	chmod(t, wrapper, 0o700)
	raw, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	s.write(string(raw) + "console: false\nworkflows: {embedded: {binary: " + wrapper + "}}\n")
	p := s.up()
	s.env = p.client()
	s.register("scripted", "v2")
	before := childrenOf(t, p.cmd.Process.Pid)
	if len(before) != 1 || p.workflows(t) != "ok" {
		t.Fatalf("children %v, workflows %s", before, p.workflows(t))
	}
	writeFile(t, hold, nil)
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.run("chat", "still there?").wants(t, exitOK, "still there?")
	s.run("rollout", "start", "scripted", "v2", "--preset", "trial").wants(t, exitFailed, "workflow_unavailable", "Requests to models go on", "try this action again later")
	s.run("rollout", "list").wants(t, exitOK, "CANDIDATE") // read from our own tables
	p.eventually("the readiness probe to call workflows degraded", func() bool { return p.workflows(t) == "degraded" })
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	p.eventually("Temporal to come back", func() bool { return p.workflows(t) == "ok" })
	started := s.run("rollout", "start", "scripted", "v2", "--preset", "trial")
	started.wants(t, exitOK, "scripted v1 → v2")
	id, _, _ := strings.Cut(started.out, ":")
	s.run("rollout", "abort", id, "only a test").wants(t, exitOK, "sluice rollout get "+id)
	p.eventually("the abort to be carried out", func() bool { return strings.Contains(s.run("rollout", "get", id).out, "only a test") })
	last := childrenOf(t, p.cmd.Process.Pid)
	if len(last) != 1 || last[0] == before[0] {
		t.Errorf("children %v", last)
	}
	if err := p.stop(syscall.SIGINT); err != nil {
		t.Errorf("end: %v", err)
	}
	for _, pid := range last {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("Temporal (%d) outlives the server", pid)
		}
	}
	private(t, s.data)
}

// operate asks as an operator.
func (p *process) operate(t *testing.T, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operationsToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// workflows returns the state of the part as the readiness probe shows it.
func (p *process) workflows(t *testing.T) string {
	t.Helper()
	res := p.operate(t, "/readyz")
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Ready bool
		Parts []struct{ Name, Status string }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if !answer.Ready {
		t.Error("a dead Temporal makes the server unready")
	}
	for _, part := range answer.Parts {
		if part.Name == "workflows" {
			return part.Status
		}
	}
	return ""
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("needs /proc")
	}
	var out []int
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(raw), ") ") // pid (name) state ppid …
		fields := strings.Fields(after)
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) && fields[0] != "Z" {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			out = append(out, child)
		}
	}
	return out
}

func (p *process) url(path string) string {
	return strings.TrimSuffix(p.ready["base_url"], "/v1") + path
}

func (p *process) post(t *testing.T, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url("/v1/chat/completions"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.ready["api_key"])
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
