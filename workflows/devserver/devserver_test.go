package devserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/client"

	"github.com/sluice-project/sluice/workflows/devserver/devtest"
)

func config(t *testing.T) Config {
	return Config{Binary: devtest.Binary(t), DBFile: filepath.Join(t.TempDir(), "temporal", "temporal.db"), Namespace: "sluice"}
}

func dial(t *testing.T, s *Server) client.Client {
	t.Helper()
	c, err := client.NewLazyClient(client.Options{HostPort: s.Address(), Namespace: "sluice", Logger: nil})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// supervise runs the supervisor and returns a function that ends it and waits.
func supervise(t *testing.T, s *Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (s *Server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.cmd.Process.Pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// eventually polls because what it waits for happens in another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("%s did not happen", what)
		case <-tick.C:
		}
	}
}

func TestKilledServerComesBackWithItsData(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), config(t))
	if err != nil {
		t.Fatal(err)
	}
	stop := supervise(t, s)
	c, first, address := dial(t, s), s.pid(), s.Address()
	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "kept", TaskQueue: "nobody"}, "Any")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the restart", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := c.DescribeWorkflowExecution(ctx, "kept", "")
		return err == nil && s.pid() != first
	})
	if s.Address() != address {
		t.Errorf("the address moved from %s to %s", address, s.Address())
	}
	second := s.pid()
	stop()
	for _, pid := range []int{first, second} {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if l, err := net.Listen("tcp", address); err != nil {
		t.Errorf("the port is still taken: %v", err)
	} else {
		_ = l.Close()
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// TestServerDiesWithItsParent starts the server from a copy of this test binary and kills that with SIGKILL.
func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a death signal")
	}
	cfg := config(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperParent$")
	cmd.Env = append(os.Environ(), "SLUICE_HELPER_PARENT=1", "SLUICE_HELPER_BINARY="+cfg.Binary, "SLUICE_HELPER_DB="+cfg.DBFile)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "pid %d\n", &pid); err != nil || !alive(pid) {
		_ = cmd.Process.Kill()
		t.Fatalf("the helper did not report a living child: %d %v", pid, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the death of the orphan", func() bool { return !alive(pid) || zombie(pid) })
}

func TestHelperParent(t *testing.T) {
	if os.Getenv("SLUICE_HELPER_PARENT") == "" {
		t.Skip("only as a helper process")
	}
	s, err := Start(t.Context(), Config{Binary: os.Getenv("SLUICE_HELPER_BINARY"), DBFile: os.Getenv("SLUICE_HELPER_DB")})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("pid %d\n", s.pid())
	runtime.GC() // the launching thread must survive this
	_ = s.Run(context.Background())
}

// zombie reports whether pid is dead but not yet reaped, which is up to its new parent.
func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(b), ") Z ")
}

func TestStartErrorsNameTheRemedy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	db := filepath.Join(t.TempDir(), "x.db")
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"no binary":   {Config{Binary: filepath.Join(t.TempDir(), "temporal"), DBFile: db}, "sluice pull temporal"},
		"port in use": {Config{Binary: "true", DBFile: db, Port: l.Addr().(*net.TCPAddr).Port}, "is in use"},
		"no database": {Config{Binary: "true"}, "database file is needed"},
		"ends":        {Config{Binary: script(t, "echo disk on fire; exit 3"), DBFile: db}, "exit status 3; its last words: disk on fire"},
		"says nothing": {
			Config{Binary: script(t, "exec tail -f /dev/null"), DBFile: db, StartTimeout: 300 * time.Millisecond, StopTimeout: time.Millisecond},
			"did not answer",
		},
		"no such address": {Config{Binary: "true", DBFile: db, IP: "203.0.113.1"}, "listen on 203.0.113.1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), tt.cfg)
			if s != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// script makes an executable that ignores its arguments.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "temporal")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStartsAgain: a server that ends at once the first time, as when somebody else has taken one of its ports, is launched again.
func TestStartsAgain(t *testing.T) {
	t.Parallel()
	seen := filepath.Join(t.TempDir(), "seen")
	s, err := Start(t.Context(), Config{
		Binary: script(t, "[ -e "+seen+" ] || { touch "+seen+"; exit 2; }\nexec '"+devtest.Binary(t)+"' \"$@\""), DBFile: filepath.Join(t.TempDir(), "x.db"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestStubbornChildIsKilled: a child that ignores SIGTERM is gone after the deadline all the same.
func TestStubbornChildIsKilled(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	cfg, err := prepare(t.Context(), Config{
		Binary: script(t, "trap '' TERM; touch "+ready+"; while :; do sleep 1; done"), DBFile: filepath.Join(t.TempDir(), "x.db"),
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := start(cfg, cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the trap", func() bool { _, err := os.Stat(ready); return err == nil })
	if err := c.stop(50 * time.Millisecond); err != nil || alive(c.cmd.Process.Pid) {
		t.Errorf("left: %v", err)
	}
}

// TestSupervisorBacksOff: a server that cannot start again is tried again, ever more slowly, until the end.
func TestSupervisorBacksOff(t *testing.T) {
	t.Parallel()
	var buf lockedBuffer
	cfg, err := prepare(t.Context(), Config{
		Binary: script(t, "exit 1"), DBFile: filepath.Join(t.TempDir(), "x.db"), Log: slog.New(slog.NewTextHandler(&buf, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: cfg, log: cfg.Log, addr: net.JoinHostPort(cfg.IP, strconv.Itoa(cfg.Port))}
	if _, err := s.launch(); err != nil {
		t.Fatal(err)
	}
	stop := supervise(t, s)
	eventually(t, "the third attempt", func() bool { return strings.Contains(buf.String(), "wait=1s") })
	stop()
	for _, want := range []string{"wait=250ms", "wait=500ms"} {
		if !strings.Contains(buf.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestEnvironmentKeepsTheUsersTemporalSettingsOut(t *testing.T) {
	t.Parallel()
	got := environment([]string{"PATH=/bin", "TEMPORAL_ADDRESS=elsewhere", "TEMPORAL_ENV=prod", "TZ=UTC"})
	if strings.Join(got, " ") != "USER=sluice HOME=/ PATH=/bin TZ=UTC" {
		t.Errorf("got %v", got)
	}
	// A process takes the last value of a name.
	if got := environment([]string{"USER=ops", "USER="}); got[len(got)-1] != "USER=ops" {
		t.Errorf("the user became %v", got)
	}
}

// TestLastWordsKeepTheCause: the server reports a failed start as one line of kilobytes whose end says why.
func TestLastWordsKeepTheCause(t *testing.T) {
	t.Parallel()
	got := ends("could not start: " + strings.Repeat("é, because of ", 500) + "no user")
	if !strings.HasPrefix(got, "could not start") || !strings.HasSuffix(got, "no user") || len(got) > 410 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestCloseBeforeRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user gave up"))
	cfg := Config{Binary: script(t, "exec tail -f /dev/null"), DBFile: filepath.Join(t.TempDir(), "x.db"), StopTimeout: time.Second}
	if s, err := Start(ctx, cfg); err == nil || s != nil {
		t.Errorf("started in a context that had ended: %v", err)
	}
}
