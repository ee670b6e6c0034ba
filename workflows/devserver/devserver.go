// Package devserver runs the embedded Temporal: the official CLI's development server as a supervised child process with its
// database in a file. It is a leaf, for one machine; production uses a Temporal cluster.
//
// The child never outlives us: it is stopped with the supervisor, and where the kernel can do it (Linux) it dies with this
// process however that ended. If the child dies, it is started again on the same port with the same database.
package devserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// Config says how to run the server.
type Config struct {
	Binary    string // path of the Temporal CLI; empty means "temporal" on PATH
	DBFile    string // database file; its directory is made if missing
	IP        string // address to listen on; empty means 127.0.0.1
	Port      int    // 0 means a free one, kept over restarts
	UIPort    int    // port of Temporal's web console; 0 or less means none
	Namespace string // made at start; empty means "default"
	Log       *slog.Logger
	// StartTimeout bounds the wait for the first answer; 0 means 60 s: the first start makes the schema.
	StartTimeout time.Duration
	// StopTimeout is how long the child may take to stop before it is killed; 0 means 5 s. Its database survives a kill.
	StopTimeout time.Duration
}

const (
	firstBackoff = 250 * time.Millisecond
	lastBackoff  = 15 * time.Second
	stable       = time.Minute // a child that lived this long starts the backoff anew
)

// Server is a running Temporal. Its methods are safe for concurrent use.
type Server struct {
	cfg  Config
	log  *slog.Logger
	addr string

	mu      sync.Mutex
	child   *child
	stopped bool
}

// startAttempts is how often a server is launched that ends at once: it takes ports of its own, which are free when it looks for them and may be
// somebody else's when it listens.
const startAttempts = 3

// errEnded says that a server ended before it answered.
var errEnded = errors.New("the embedded Temporal ended at once")

// Start launches the server and returns when it answers. The caller must call [Server.Run], or [Server.Close].
func Start(ctx context.Context, cfg Config) (*Server, error) {
	for attempt := 1; ; attempt++ {
		s, err := startOnce(ctx, cfg)
		if err == nil || attempt == startAttempts || !errors.Is(err, errEnded) {
			return s, err
		}
	}
}

func startOnce(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Log.With(slog.String("component", "temporal")), addr: net.JoinHostPort(cfg.IP, strconv.Itoa(cfg.Port)),
	}
	c, err := s.launch()
	if err != nil {
		return nil, err
	}
	if err := s.waitReady(ctx, c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "embedded Temporal is ready", slog.String("address", s.addr), slog.String("database", cfg.DBFile))
	return s, nil
}

func prepare(ctx context.Context, cfg Config) (Config, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.IP == "" {
		cfg.IP = "127.0.0.1"
	}
	if cfg.Namespace == "" {
		cfg.Namespace = "default"
	}
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = time.Minute
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = 5 * time.Second
	}
	if cfg.Binary == "" {
		cfg.Binary = "temporal"
	}
	path, err := exec.LookPath(cfg.Binary)
	if err != nil {
		return cfg, fmt.Errorf("the Temporal CLI is missing (%w): run \"sluice pull temporal\", or set workflows.address to an existing Temporal", err)
	}
	cfg.Binary = path
	if cfg.DBFile == "" {
		return cfg, errors.New("devserver: a database file is needed")
	}
	if err := os.MkdirAll(filepath.Dir(cfg.DBFile), 0o700); err != nil {
		return cfg, fmt.Errorf("make the directory of Temporal's database: %w", err)
	}
	cfg.Port, err = freePort(ctx, cfg.IP, cfg.Port)
	return cfg, err
}

// freePort checks that port can be listened on, and chooses one if it is 0.
func freePort(ctx context.Context, ip string, port int) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, fmt.Errorf("port %d on %s, meant for the embedded Temporal, is in use: stop the program that uses it, or choose another port (0 takes a free one)", port, ip)
	}
	if err != nil {
		return 0, fmt.Errorf("listen on %s for the embedded Temporal: %w", ip, err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Address returns host:port of the front end.
func (s *Server) Address() string { return s.addr }

// Run supervises the server until ctx ends, then stops it. It returns an error only if the server could not be stopped.
func (s *Server) Run(ctx context.Context) error {
	wait := firstBackoff
	for {
		c, stopped := s.current()
		if stopped {
			return s.Close()
		}
		select {
		case <-ctx.Done():
			return s.Close()
		case <-c.done:
		}
		if _, stopped := s.current(); stopped {
			return s.Close()
		}
		if time.Since(c.started) > stable {
			wait = firstBackoff
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, "embedded Temporal ended, starting it again", slog.String("error", c.err.Error()),
			slog.Duration("wait", wait), slog.String("output", c.tail.String()))
		if err := s.restart(ctx, wait); err != nil {
			s.log.LogAttrs(ctx, slog.LevelError, "cannot start the embedded Temporal, trying again", slog.String("error", err.Error()))
		}
		wait = min(wait*2, lastBackoff)
	}
}

func (s *Server) current() (c *child, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child, s.stopped
}

// restart launches another child after wait. If that fails, the dead child stays, and the supervisor comes back.
func (s *Server) restart(ctx context.Context, wait time.Duration) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-t.C:
	}
	c, err := s.launch()
	if err != nil || c == nil {
		return err
	}
	if err := s.waitReady(ctx, c); err != nil {
		if ctx.Err() == nil {
			return errors.Join(err, c.stop(s.cfg.StopTimeout))
		}
		return nil
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "embedded Temporal is ready again", slog.String("address", s.addr))
	return nil
}

// Close stops the server and waits until it is gone. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	s.stopped = true
	c := s.child
	s.mu.Unlock()
	return c.stop(s.cfg.StopTimeout)
}

func (s *Server) launch() (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, nil
	}
	c, err := start(s.cfg, s.log)
	if err != nil {
		return nil, err
	}
	s.child = c
	return c, nil
}

// waitReady waits until the server answers for its namespace, until the child ends, or until the time is up.
func (s *Server) waitReady(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = s.ask(ctx); last == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%w: %w; its last words: %s", errEnded, c.err, c.tail.String())
		case <-ctx.Done():
			return fmt.Errorf("the embedded Temporal did not answer on %s within %s: %w; its last words: %s", s.addr, s.cfg.StartTimeout, last, c.tail.String())
		case <-tick.C:
		}
	}
}

func (s *Server) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: s.addr, Namespace: s.cfg.Namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.cfg.Namespace})
	return err
}

// child is one process. done is closed when it is gone; err says how.
type child struct {
	cmd     *exec.Cmd
	started time.Time
	tail    *lastLines
	done    chan struct{}
	err     error
}

// start launches the process. A goroutine that keeps its thread to itself does so and waits: the kernel's death signal is tied
// to the thread that launched the child, and would be sent early if the thread ended.
func start(cfg Config, log *slog.Logger) (*child, error) {
	args := []string{
		"server", "start-dev", "--ip", cfg.IP, "--port", strconv.Itoa(cfg.Port), "--db-filename", cfg.DBFile,
		"--namespace", cfg.Namespace, "--log-level", "warn", "--log-format", "json", "--color", "never",
	}
	if cfg.UIPort > 0 {
		args = append(args, "--ui-port", strconv.Itoa(cfg.UIPort), "--ui-disable-news-fetch")
	} else {
		args = append(args, "--headless")
	}
	out, in := io.Pipe()
	c := &child{started: time.Now(), tail: &lastLines{}, done: make(chan struct{})}
	c.cmd = exec.Command(cfg.Binary, args...) //nolint:noctx // a context would kill it; it is stopped gently instead
	c.cmd.Env = environment(os.Environ())
	c.cmd.Stdout, c.cmd.Stderr = in, in
	c.cmd.WaitDelay = time.Second
	c.cmd.SysProcAttr = attributes()
	go c.tail.follow(out, log)
	launched := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		launched <- err
		if err != nil {
			_ = in.Close()
			return
		}
		c.err = c.cmd.Wait()
		if c.err == nil {
			c.err = errors.New("exit status 0")
		}
		_ = in.Close()
		close(c.done)
	}()
	if err := <-launched; err != nil {
		return nil, fmt.Errorf("start the embedded Temporal: %w", err)
	}
	return c, nil
}

// stop asks the process to end, kills it if it does not, and waits until it is gone.
func (c *child) stop(waitTime time.Duration) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	t := time.NewTimer(waitTime)
	defer t.Stop()
	select {
	case <-c.done:
		return nil
	case <-t.C:
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the embedded Temporal: %w", err)
	}
	<-c.done
	return nil
}

// environment drops the variables by which a user's own Temporal settings would reach the server, and names a user and a home if there is
// none: the server refuses to start as an account it finds neither there nor in /etc/passwd, as in many containers.
func environment(env []string) []string {
	out := []string{"USER=sluice", "HOME=/"}
	for _, kv := range env {
		switch {
		case strings.HasPrefix(kv, "TEMPORAL_"), kv == "USER=", kv == "HOME=":
		default:
			out = append(out, kv) // of two values the later one counts
		}
	}
	return out
}

// lastLines passes the child's output to the log at debug level and remembers the last lines for an error message.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

func (t *lastLines) follow(r io.Reader, log *slog.Logger) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, _, err := lines.ReadLine() // a longer line comes in pieces
		if text := strings.TrimSpace(string(line)); text != "" {
			log.Debug("temporal", slog.String("line", text))
			t.mu.Lock()
			t.lines = append(t.lines[max(0, len(t.lines)-4):], ends(text))
			t.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// ends shortens a long line to its two ends: errors of nested starts hold the cause at the very end.
func ends(line string) string {
	const part = 200
	if len(line) <= 2*part {
		return line
	}
	return strings.ToValidUTF8(line[:part], "") + " … " + strings.ToValidUTF8(line[len(line)-part:], "")
}

func (t *lastLines) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, " | ")
}
