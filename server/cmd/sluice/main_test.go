package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestMain lets the test binary act as the program, for tests that need a process: signals, limits, children. So it does when a
// command under test starts its own executable again: running the tests instead would start it once more, without end.
func TestMain(m *testing.M) {
	if os.Getenv("SLUICE_TEST_CLI") != "" || (len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-")) {
		main()
	}
	os.Exit(m.Run())
}

// site is a directory with a configuration whose only engine is a scripted upstream.
// operationsToken reads the metrics and the parts of a server under test.
const operationsToken = "the-operations-token"

type site struct {
	t        *testing.T
	dir      string
	data     string
	config   string
	env      []string // of every command
	stdin    string   // of the next command
	scripted *enginetest.Scripted
}

// begun returns the steps of a scripted answer that has begun to leave: its first word waits for its end, since it could be the scheme of an
// address with a password. With fewer nothing would leave before the keep-alive of fifteen seconds.
func begun() chan struct{} {
	step := make(chan struct{}, 3)
	for range cap(step) {
		step <- struct{}{}
	}
	return step
}

// newSite writes the configuration; extra is appended to it.
func newSite(t *testing.T, plan func(n int, req *engine.Request) enginetest.Plan, extra string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), scripted: enginetest.NewScripted(plan)}
	upstream := httptest.NewServer(&enginetest.Upstream{Engine: s.scripted})
	t.Cleanup(upstream.Close)
	s.data, s.config = filepath.Join(s.dir, "data"), filepath.Join(s.dir, "sluice.yaml")
	s.write(fmt.Sprintf(`data: %s
downloads: %s
listen: 127.0.0.1:0
engines:
  native: {models: []}
  remote: [{name: upstream, base_url: "%s/v1", allow_private: [127.0.0.1/32], models: [{id: scripted}]}]
rag: {embedding_model: ""}
%s`, s.data, filepath.Join(s.dir, "downloads"), upstream.URL, extra))
	return s
}

func (s *site) write(config string) {
	s.t.Helper()
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// result is what a command left.
type result struct {
	out, err string
	code     int
}

// run runs a command in this process, with the site's configuration.
func (s *site) run(args ...string) result {
	s.t.Helper()
	return runCommand(s.t.Context(), append([]string{"SLUICE_CONFIG=" + s.config}, s.env...), s.stdin, args...)
}

func runCommand(ctx context.Context, env []string, stdin string, args ...string) result {
	var out, errOut bytes.Buffer
	code := run(ctx, args, &cli.App{Environ: env, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut, Version: version})
	return result{out.String(), errOut.String(), code}
}

// noise matches what an operator must never see.
var noise = regexp.MustCompile(`goroutine \d|\.go:\d|panic:|0x[0-9a-f]{6,}|%!`)

// wants fails unless the command ended with code and said all of the words.
func (r result) wants(t *testing.T, code int, words ...string) {
	t.Helper()
	all := r.out + r.err
	if r.code != code {
		t.Errorf("exit code %d, want %d:\n%s", r.code, code, all)
	}
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("it does not say %q:\n%s", w, all)
		}
	}
	if noise.MatchString(all) {
		t.Errorf("it shows its insides:\n%s", all)
	}
	if code == exitFailed || code == exitUsage {
		if !strings.HasPrefix(lastLine(r.err, "sluice: "), "sluice: ") {
			t.Errorf("no message of ours on stderr:\n%s", r.err)
		}
	}
}

// lastLine returns the last line that begins with prefix, "" if there is none.
func lastLine(text, prefix string) string {
	found := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			found = line
		}
	}
	return found
}

// process is a running `sluice up`.
type process struct {
	t         *testing.T
	cmd       *exec.Cmd
	out, errs *lockedBuffer
	ready     map[string]string
	readyFile string
	done      chan struct{}
	err       error
	password  string // of the administrator, who has changed the one of the first start
}

// up starts `sluice up` as a process of its own and waits until it is ready.
func (s *site) up(args ...string) *process {
	s.t.Helper()
	p := s.launch(append([]string{"up"}, args...)...)
	p.awaitReady()
	return p
}

func (s *site) launch(args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, out: &lockedBuffer{}, errs: &lockedBuffer{}, done: make(chan struct{}), readyFile: filepath.Join(s.dir, "ready.json")}
	return s.launchAs(p, append(args, "--ready-file", p.readyFile)...)
}

func (s *site) launchAs(p *process, args ...string) *process {
	s.t.Helper()
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(append(os.Environ(), "SLUICE_TEST_CLI=1", "SLUICE_CONFIG="+s.config, "SLUICE_OPERATIONS_TOKEN="+operationsToken), s.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if s.t.Failed() {
			s.t.Logf("stdout:\n%s\nstderr:\n%s", p.out, p.errs)
		}
	})
	return p
}

func (p *process) awaitReady() {
	p.t.Helper()
	p.eventually("the server to be ready", func() bool {
		raw, err := os.ReadFile(p.readyFile)
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		if err != nil {
			p.t.Fatal(err)
		}
		return json.Unmarshal(raw, &p.ready) == nil
	})
	if first := p.ready["admin_password"]; first != "" {
		p.password = "seven tundra kettles hum"
		a := &cli.App{Environ: []string{"SLUICE_ADMIN_PASSWORD=" + first}, Stdin: strings.NewReader("")}
		r, err := a.Login(p.t.Context(), cli.RemoteFlags{URL: strings.TrimSuffix(p.ready["base_url"], "/v1"), User: p.ready["admin_user"]})
		if err == nil {
			err = r.Call(p.t.Context(), http.MethodPost, "/me/password", adminapi.PasswordChange{CurrentPassword: first, NewPassword: p.password}, nil)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// stop sends a signal and waits for the end.
func (p *process) stop(sig syscall.Signal) error {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(40 * time.Second):
		p.t.Fatalf("it runs 40 s after %s", sig)
	}
	return p.err
}

// eventually polls, since what is awaited happens in another process; the end of that process ends the wait.
func (p *process) eventually(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-p.done:
			p.t.Fatalf("the process ended while the test waited for %s: %v\n%s", what, p.err, p.errs)
		case <-deadline:
			p.t.Fatalf("waited 60 s for %s", what)
		}
	}
}

// register makes another version of the scripted model known to a running server.
func (s *site) register(model, version string) {
	s.t.Helper()
	a := &cli.App{Environ: s.env, Stdin: strings.NewReader("")}
	f := cli.RemoteFlags{URL: a.Getenv("SLUICE_URL"), User: a.Getenv("SLUICE_ADMIN_USER")}
	r, err := a.Login(s.t.Context(), f)
	if err == nil {
		body := map[string]any{"model": model, "version": version, "engine": "upstream", "engine_model": "scripted"}
		err = r.Call(s.t.Context(), http.MethodPost, "/model-versions", body, nil)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// client returns the environment by which commands reach the process.
func (p *process) client() []string {
	return []string{
		"SLUICE_URL=" + strings.TrimSuffix(p.ready["base_url"], "/v1"), "SLUICE_API_KEY=" + p.ready["api_key"],
		"SLUICE_ADMIN_USER=" + p.ready["admin_user"], "SLUICE_ADMIN_PASSWORD=" + p.password,
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var _ io.Writer = (*lockedBuffer)(nil)
