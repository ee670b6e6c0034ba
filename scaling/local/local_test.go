package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/scaling/actuatortest"
)

// TestMain lets the test binary be a worker.
func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, "--be-a-worker"); i > 0 {
		if err := scripted(os.Args[i+1], os.Args[i+2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// scripted serves an engine until SIGTERM; a start takes away one of the failures that are ordered in a file and fails.
func scripted(address, failures string) error {
	left, err := os.ReadFile(failures)
	if err == nil && len(left) > 0 {
		if err := os.WriteFile(failures, left[1:], 0o600); err != nil {
			return err
		}
		return errors.New("this start was to fail")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := worker.Listen(ctx, worker.Endpoint{Address: address})
	if err != nil {
		return err
	}
	s := worker.NewServer(slog.New(slog.DiscardHandler))
	s.Ready(worker.Backend{Engine: enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{} })})
	return s.Serve(ctx, l, 10*time.Second)
}

// rig is a pool of workers beside a set, as a gateway has it.
type rig struct {
	*Pool
	set      *pool.Set
	failures string
	took     atomic.Int64
	stop     func()
}

func open(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir, err := os.MkdirTemp("", "w") //nolint:usetesting // the path of a socket has room for a hundred bytes only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{set: &pool.Set{}, failures: filepath.Join(dir, "failures")}
	cfg := Config{
		Command: []string{os.Args[0], "--be-a-worker", AddressArgument, r.failures}, Dir: filepath.Join(dir, "s"), Settle: 50 * time.Millisecond,
		FirstPause: 20 * time.Millisecond, DrainTimeout: 20 * time.Second, StartTimeout: time.Minute,
	}
	for _, c := range change {
		c(&cfg)
	}
	r.Pool, err = New("chat", cfg, Deps{
		Join: func(ctx context.Context, members []pool.Member) {
			r.set.Replace("chat", members)
			r.set.Refresh(ctx)
		},
		Member: func(name string, c *worker.Client) pool.Member {
			return pool.Member{Name: name, Kind: pool.KindWorker, Engine: c}
		},
		Running: func(name string, _ *worker.Client) int {
			for _, i := range r.set.Instances("chat") {
				if i.Name == name {
					return i.Status().Running
				}
			}
			return 0
		},
		Ready: func(d time.Duration) { r.took.Store(int64(d)) },
		Log:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// TestActuator holds real processes to the contract.
func TestActuator(t *testing.T) {
	t.Parallel()
	actuatortest.Run(t, func(t *testing.T) actuatortest.Subject {
		r := open(t)
		return actuatortest.Subject{Actuator: r, Within: time.Minute, FailStarts: func(n int) {
			if err := os.WriteFile(r.failures, []byte(strings.Repeat("x", n)), 0o600); err != nil {
				t.Fatal(err)
			}
		}}
	})
}

func (r *rig) reach(t *testing.T, n int) {
	t.Helper()
	if err := r.Scale(t.Context(), scaling.Order{Target: n, Term: 1}); err != nil {
		t.Fatal(err)
	}
	r.await(t, func(f scaling.Fleet) bool { return f == scaling.Fleet{Ready: n} })
}

func (r *rig) await(t *testing.T, ok func(scaling.Fleet) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	beat := time.NewTicker(5 * time.Millisecond)
	defer beat.Stop()
	for {
		f, err := r.Fleet(t.Context())
		if err == nil && ok(f) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("after a minute: %+v %v", f, err)
		case <-beat.C:
		}
	}
}

// TestNoRequestIsLost: while workers come, go and are killed, nobody who was sent to one that was not killed gets an error.
func TestNoRequestIsLost(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.reach(t, 2)
	if took := time.Duration(r.took.Load()); took <= 0 || took > 2*time.Minute {
		t.Errorf("from the order to readiness: %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var answered, lost atomic.Int64
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				if err := r.ask(t.Context()); err != nil {
					lost.Add(1)
					t.Error(err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for _, n := range []int{4, 1, 3, 2} {
		before := answered.Load()
		r.reach(t, n)
		r.await(t, func(scaling.Fleet) bool { return answered.Load() > before+20 || lost.Load() > 0 })
	}
	cancel()
	asking.Wait()
	t.Logf("%d requests answered, %d lost", answered.Load(), lost.Load())
}

// ask sends one request as a gateway does: to whom the set chooses.
func (r *rig) ask(ctx context.Context) error {
	i, _, none := r.set.Choose("chat", pool.Wanted{Model: "scripted", Fits: func(pool.Offer) bool { return true }})
	if i == nil {
		return fmt.Errorf("nobody: %+v", none)
	}
	i.Begin()
	defer i.End(nil)
	for _, err := range enginetest.Ask(ctx, i.Engine, &engine.Request{Model: "scripted", Messages: []engine.Message{{Role: "user", Content: "hello"}}, Logprobs: -1, MaxTokens: 10}) {
		if err != nil {
			return fmt.Errorf("%s: %w", i.Name, err)
		}
	}
	return nil
}

// TestKilledWorkerIsReplaced, and at the end nobody is left.
func TestKilledWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.reach(t, 2)
	r.mu.Lock()
	victim := r.workers[0]
	r.mu.Unlock()
	if err := victim.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-victim.exited
	r.await(t, func(f scaling.Fleet) bool { return f == scaling.Fleet{Ready: 2} })
	if len(r.set.Instances("chat")) != 2 || slices.ContainsFunc(r.set.Instances("chat"), func(i *pool.Instance) bool { return i.Name == victim.name }) {
		t.Error("the killed one is in the pool")
	}
	r.mu.Lock()
	left := slices.Clone(r.workers)
	r.mu.Unlock()
	r.stop()
	for _, w := range left {
		select {
		case <-w.exited:
		default:
			t.Errorf("%s runs still", w.name)
		}
	}
	if len(r.set.Instances("chat")) != 0 {
		t.Error("the pool is not empty")
	}
}

// TestWorkerThatDoesNotHold: one that is ready and dies at once is a start that has failed, so that the pauses grow.
func TestWorkerThatDoesNotHold(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.reach(t, 1)
	for n := range 3 {
		r.mu.Lock()
		w := r.workers[0]
		r.mu.Unlock()
		if w.before != n {
			t.Fatalf("after %d that did not hold, %d had failed", n, w.before)
		}
		w.signal(syscall.SIGKILL)
		<-w.exited
		r.await(t, func(f scaling.Fleet) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return f.Ready == 1 && r.workers[0] != w
		})
	}
}

// TestDrainingIsTakenBack: more that are wanted while some drain are those, not further processes.
func TestDrainingIsTakenBack(t *testing.T) {
	t.Parallel()
	r := open(t, func(c *Config) { c.Settle = time.Hour })
	r.reach(t, 2)
	drained := func() (names []string) {
		for _, i := range r.set.Instances("chat") {
			if i.Status().Draining {
				names = append(names, i.Name)
			}
		}
		return names
	}
	if err := r.Scale(t.Context(), scaling.Order{Target: 1, Term: 1}); err != nil {
		t.Fatal(err)
	}
	r.await(t, func(f scaling.Fleet) bool { return f == scaling.Fleet{Ready: 1, Draining: 1} && len(drained()) == 1 })
	r.reach(t, 2)
	r.await(t, func(scaling.Fleet) bool { return len(drained()) == 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != 2 {
		t.Errorf("%d were started for two", r.next)
	}
	r.cfg.Settle = 0 // let them go
}

// TestWrappedWorkerEnds: what the command has started ends with it.
func TestWrappedWorkerEnds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	pids := filepath.Join(t.TempDir(), "pids")
	r := open(t, func(c *Config) {
		c.Command = append([]string{"sh", "-c", `"$@" & echo $! >> ` + pids + `; wait`, "sh"}, c.Command...)
	})
	r.reach(t, 1)
	r.mu.Lock()
	victim := r.workers[0]
	r.mu.Unlock()
	if err := victim.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-victim.exited
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, _, _ := strings.Cut(string(text), "\n")
	r.await(t, func(scaling.Fleet) bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// TestStartIsKilledAtTheEnd: a worker that loads when the server ends, and does not listen to SIGTERM, does not keep it.
func TestStartIsKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	up := filepath.Join(t.TempDir(), "up")
	r := open(t, func(c *Config) {
		c.Command, c.DrainTimeout = []string{"sh", "-c", `trap '' TERM; echo > ` + up + `; while :; do sleep 1; done`, "sh", AddressArgument}, time.Hour
	})
	if err := r.Scale(t.Context(), scaling.Order{Target: 1, Term: 1}); err != nil {
		t.Fatal(err)
	}
	r.await(t, func(scaling.Fleet) bool {
		_, err := os.Stat(up)
		return err == nil
	})
	done := make(chan struct{})
	go func() { defer close(done); r.stop() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for a worker that starts")
	}
}

// TestNoSecretIsInherited: what the server was told through its variables stays there.
func TestNoSecretIsInherited(t *testing.T) {
	t.Parallel()
	got := environment([]string{"PATH=/bin", "SLUICE_MASTER_KEY=secret", "VAULT_TOKEN=secret", "LC_ALL=C", "GOMAXPROCS=2", "PATHS=x", "=odd"})
	if want := []string{"PATH=/bin", "LC_ALL=C", "GOMAXPROCS=2"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestPauseGrows(t *testing.T) {
	t.Parallel()
	p := &Pool{cfg: Config{FirstPause: time.Second}}
	now := time.Now()
	var pauses []time.Duration
	for range 9 {
		p.fail(now)
		pauses = append(pauses, p.pause.Sub(now))
	}
	if want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60}; !slices.EqualFunc(pauses, want, func(a, b time.Duration) bool { return a == b*time.Second }) {
		t.Errorf("%v", pauses)
	}
}
