package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/witness"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestWitnessUsage: what a witness cannot start with is a mistake of the caller, and says what is missing.
func TestWitnessUsage(t *testing.T) {
	key := strings.TrimSpace(runCommand(t.Context(), nil, "", "audit", "witness", "--print-key", "--name", "w", "--dir", t.TempDir()).out)
	log := "example.org/log+b2a01bf7+AYKaC6UvQbrw3qBs7bmQYhYbUDsZeRHr+1vF7xtZwHSN" // of no log; the hash is wrong on purpose where it is used
	given := []string{"--name", "w", "--dir", t.TempDir(), "--log", "https://sluice.example", "--key", log}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "--name and --dir"},
		{given[:4], "--log and --key"},
		{given, "--key"},
		{append(given[:6:6], "--key", key), "--key"}, // of a witness, not of a log
		{append(given[:4:4], "--log", "sluice.example", "--key", key), "--key"},
		{append(given, "--every", "0s"), "--every"},
		{append(given, "--suite", "rot13"), "--suite: want intl or gm"},
		{[]string{"now"}, "1 words given"},
		{[]string{"--every", "soon"}, "--every"},
	} {
		r := runCommand(t.Context(), nil, "", append([]string{"audit", "witness"}, c.args...)...)
		r.wants(t, exitUsage, c.says)
		if r.out != "" {
			t.Errorf("%v: stdout %q", c.args, r.out)
		}
	}
}

// TestWitnessSuites: a directory has one key of each suite, always the same.
func TestWitnessSuites(t *testing.T) {
	dir := t.TempDir()
	printed := func(args ...string) string {
		args = append([]string{"audit", "witness", "--print-key", "--name", "w", "--dir", dir}, args...)
		return strings.TrimSpace(runCommand(t.Context(), nil, "", args...).out)
	}
	intl, gm := printed(), printed("--suite", "gm")
	if intl == gm || printed("--suite", "intl") != intl || printed("--suite", "gm") != gm {
		t.Errorf("%q, %q", intl, gm)
	}
	if known, err := checkpoint.NewWitnesses(intl + " " + gm); err != nil || !slices.Equal(known.Names(), []string{"w"}) {
		t.Errorf("%v, %v", known.Names(), err)
	}
}

// TestWitnessAgainstAServer goes the way of the other team: print the key, get an account, look once, keep looking, be asked by a probe.
func TestWitnessAgainstAServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "witness")
	printed := runCommand(t.Context(), nil, "", "audit", "witness", "--print-key", "--name", "w.example", "--dir", dir)
	printed.wants(t, exitOK)
	s := newSite(t, nil, "audit: {witnesses: ["+strings.TrimSpace(printed.out)+"]}\n"+quiet)
	p := s.up()
	s.env = p.client()
	base := strings.TrimPrefix(s.env[0], "SLUICE_URL=")
	key := strings.TrimSpace(s.run("audit", "key").out)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret = "canary battery staple horse"
	token := s.account("other-team", secret, "witness")
	// The command needs neither the configuration nor the data of the server.
	look := func(args ...string) result {
		all := append([]string{"audit", "witness", "--log", base, "--key", key, "--name", "w.example", "--dir", dir}, args...)
		r := runCommand(t.Context(), []string{"SLUICE_CONFIG=/nonexistent/sluice.yaml"}, "", all...)
		if strings.Contains(r.out+r.err, "canary") || strings.Contains(r.out+r.err, token) {
			t.Errorf("a secret is shown: %s%s", r.out, r.err)
		}
		return r
	}
	signIn := []string{"--user", "other-team", "--password-file", file("password", secret+"\n")}
	var first result
	p.eventually("the log to be sealed", func() bool { first = look(append(signIn, "--once")...); return first.code == exitOK })
	first.wants(t, exitOK, "first contact", printed.out)
	look("--once", "--token-file", file("token", token)).wants(t, exitOK)
	look("--once").wants(t, exitFailed, "401")
	look("--once", "--token-file", file("empty", "")).wants(t, exitFailed, "is empty")
	look("--once", "--user", "other-team", "--password-file", file("wrong", "canary-wrong")).wants(t, exitFailed, "sign in as other-team")
	look(append(signIn, "--once", "--log", "http://127.0.0.1:1")...).wants(t, exitFailed, "connection refused")
	look(append(signIn, "--once", "--log", base+"/v1")...).wants(t, exitUsage, "--token-file")

	ctx, cancel := context.WithCancel(t.Context())
	errs, done := &lockedBuffer{}, make(chan int, 1)
	go func() {
		args := append([]string{"audit", "witness", "--log", base, "--key", key, "--name", "w.example", "--dir", dir, "--every", "50ms", "--listen", "127.0.0.1:0"}, signIn...)
		done <- run(ctx, args, &cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: errs})
	}()
	address := regexp.MustCompile(`state at (http://\S+)`)
	probe := func() (int, witness.State) {
		found := address.FindStringSubmatch(errs.String())
		if found == nil {
			return 0, witness.State{}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, found[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		var state witness.State
		if err := json.NewDecoder(res.Body).Decode(&state); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, state
	}
	p.eventually("the state to be well", func() bool { status, state := probe(); return status == http.StatusOK && state.OK && state.Size > 0 })
	_, before := probe()
	s.run("key", "create", "another").wants(t, exitOK)
	p.eventually("the new records to be cosigned", func() bool { _, state := probe(); return state.OK && state.Size > before.Size })
	alarm := filepath.Join(dir, "alarms", "rollback-0.json")
	if err := os.WriteFile(alarm, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.eventually("the alarm to be told", func() bool { status, _ := probe(); return status == http.StatusServiceUnavailable })
	look("--once").wants(t, exitFailed, "another process uses it")
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit %d: %s", code, errs)
	}
	look(append(signIn, "--once")...).wants(t, exitFindings, "ALARM", "move the files away")
	if err := os.Remove(alarm); err != nil {
		t.Fatal(err)
	}
	look(append(signIn, "--once")...).wants(t, exitOK)
	s.run("audit", "verify").wants(t, exitOK, "OK: nothing was altered")
}

// account makes a user of a role and returns a session of theirs.
func (s *site) account(name, password, role string) string {
	s.t.Helper()
	a := &cli.App{Environ: s.env, Stdin: strings.NewReader("")}
	f := cli.RemoteFlags{URL: a.Getenv("SLUICE_URL"), User: a.Getenv("SLUICE_ADMIN_USER")}
	r, err := a.Login(s.t.Context(), f)
	if err == nil {
		body := map[string]any{"name": name, "password": password, "roles": []string{role}}
		err = r.Call(s.t.Context(), http.MethodPost, "/users", body, nil)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	var session adminapi.Session
	if err := r.Call(s.t.Context(), http.MethodPost, "/session", adminapi.LoginRequest{User: name, Password: password}, &session); err != nil {
		s.t.Fatal(err)
	}
	return session.AccessToken
}
