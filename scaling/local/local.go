// Package local is the actuator of worker engines on this machine: processes that are started, warmed up, drained and ended. It implements
// scaling.Actuator.
//
// A worker gets a socket of its own in a directory that is this pool's alone. It joins the gateway's pool once it has said that it is ready. What is to
// go gets nothing new, ends what runs on it, is then asked to end, and killed if it does not within the drain timeout. A worker that ends by itself
// leaves the pool at once and is replaced. A start that fails, takes too long or does not hold for a minute is tried again after a pause that doubles.
//
// One process owns a pool of workers: on Linux they die with it. What a worker has started itself is told to end with it, and killed once it has ended;
// only if this process is killed does it stay behind. They get its standard error, and none of its variables but those that say where things
// are and how Go is to run.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/scaling"
)

// AddressArgument stands in a command for the address that the worker is to listen on.
const AddressArgument = "{address}"

// NamePrefix begins the names of the workers; a number follows.
const NamePrefix = "scaled-"

// Config says how workers are started. Zero durations mean the defaults named at each field.
type Config struct {
	// Command starts a worker; one argument contains AddressArgument.
	Command []string `koanf:"command"`
	// Dir is where the sockets are; it is made, for this account alone. Its path and the names in it must fit into the address of a socket.
	Dir string `koanf:"-"`
	// StartTimeout is the longest that a worker may take to be ready; 0 means 5 minutes.
	StartTimeout time.Duration `koanf:"start_timeout"`
	// DrainTimeout is the longest that what runs on a worker may take once it is to go; 0 means 2 minutes.
	DrainTimeout time.Duration `koanf:"drain_timeout"`
	// Settle is how long a worker that gets nothing new stays at least: a request that was sent to it may not have begun; 0 means 2 seconds.
	Settle time.Duration `koanf:"settle"`
	// FirstPause is that after a start that failed; 0 means 1 second. It doubles up to a minute.
	FirstPause time.Duration `koanf:"first_pause"`
}

// Validate reports what is wrong with the configuration; the message begins with the name of the field.
func (c Config) Validate() error {
	switch {
	case len(c.Command) == 0 || !slices.ContainsFunc(c.Command[1:], func(a string) bool { return strings.Contains(a, AddressArgument) }):
		return fmt.Errorf("command: must be a program with an argument that contains %s", AddressArgument)
	case c.StartTimeout < 0 || c.DrainTimeout < 0 || c.Settle < 0 || c.FirstPause < 0:
		return errors.New("start_timeout, drain_timeout, settle and first_pause: must not be negative")
	}
	return nil
}

const (
	longestDir   = 80
	socketSuffix = ".sock"
	longestPause = time.Minute
	lostAfter    = 30 * time.Second // of silence a ready worker is killed
	holdsAfter   = time.Minute      // a start that was ready for less has failed
	tick         = 100 * time.Millisecond
)

// Deps are what a pool of workers works with.
type Deps struct {
	// Join makes the members those of the gateway's pool that this actuator has put there. It returns when requests may go to them. It is called by one
	// goroutine, with all of them each time.
	Join func(ctx context.Context, members []pool.Member)
	// Member makes the member of a worker that is ready.
	Member func(name string, c *worker.Client) pool.Member
	// Running returns how many requests run on a member.
	Running func(name string, c *worker.Client) int
	// Ready is told how long each worker took from its start to readiness.
	Ready func(took time.Duration)
	Log   *slog.Logger
}

// Pool is the workers of one pool. It does nothing before [Pool.Run].
type Pool struct {
	cfg  Config
	deps Deps
	name string
	wake chan struct{}

	mu      sync.Mutex // guards what follows
	target  int
	term    int64
	workers []*process
	failed  int       // starts, in a row; those that did not hold among them
	pause   time.Time // until then nobody is started
	next    int       // number of the next worker
}

// stage is how far a worker is.
type stage int

const (
	starting stage = iota
	ready
	draining // it gets nothing new
	ending   // it was asked to end
)

type process struct {
	name    string
	socket  string
	stage   stage
	since   time.Time // of the stage
	joined  bool      // the gateway has it in its pool
	lost    time.Time // since when a ready one does not answer; zero if it does
	before  int       // starts that had failed when it got ready
	command *exec.Cmd
	client  *worker.Client
	exited  chan struct{} // closed when it has ended
}

var _ scaling.Actuator = (*Pool)(nil)

// New returns a pool of workers. The directory is made when the pool runs.
func New(name string, cfg Config, deps Deps) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("local workers: %w", err)
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, errors.New("local workers: the directory must be absolute")
	}
	if len(cfg.Dir) > longestDir {
		return nil, fmt.Errorf("local workers: the path of the directory must have at most %d bytes, since it is part of the address of a socket", longestDir)
	}
	cfg.StartTimeout, cfg.DrainTimeout = cmp.Or(cfg.StartTimeout, 5*time.Minute), cmp.Or(cfg.DrainTimeout, 2*time.Minute)
	cfg.Settle, cfg.FirstPause = cmp.Or(cfg.Settle, 2*time.Second), cmp.Or(cfg.FirstPause, time.Second)
	deps.Log = deps.Log.With(slog.String("component", "scaling"), slog.String("pool", name))
	return &Pool{cfg: cfg, deps: deps, name: name, wake: make(chan struct{}, 1)}, nil
}

// Fleet implements scaling.Actuator. A worker is ready once the gateway may send requests to it, and one that has ended is not counted.
func (p *Pool) Fleet(ctx context.Context) (scaling.Fleet, error) {
	if err := ctx.Err(); err != nil {
		return scaling.Fleet{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := scaling.Fleet{Failed: p.failed}
	for _, w := range p.workers {
		switch {
		case w.ended():
		case w.stage == starting, w.stage == ready && !w.joined:
			f.Starting++
		case w.stage == ready:
			f.Ready++
		default:
			f.Draining++
		}
	}
	return f, nil
}

// Scale implements scaling.Actuator. The order's domains do not matter: all are this machine.
func (p *Pool) Scale(ctx context.Context, o scaling.Order) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.Target < 0 || o.Target > scaling.MaxInstances {
		return fmt.Errorf("local workers: %d is no target", o.Target)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Term < p.term {
		return scaling.ErrStaleTerm
	}
	p.target, p.term = o.Target, o.Term
	p.hurry()
	return nil
}

// Clients returns the connections to all workers, those that drain among them.
func (p *Pool) Clients() []*worker.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*worker.Client
	for _, w := range p.workers {
		out = append(out, w.client)
	}
	return out
}

func (p *Pool) hurry() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run brings the pool to its target until ctx ends; then it kills the workers that start, drains and ends the others, and returns.
func (p *Pool) Run(ctx context.Context) error {
	if err := os.MkdirAll(p.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("local workers: make the directory: %w", err)
	}
	left, err := os.ReadDir(p.cfg.Dir)
	if err != nil {
		return fmt.Errorf("local workers: list the directory: %w", err)
	}
	for _, f := range left { // of a process that was killed; its workers died with it
		if !strings.HasSuffix(f.Name(), socketSuffix) {
			continue
		}
		if err := os.Remove(filepath.Join(p.cfg.Dir, f.Name())); err != nil {
			return fmt.Errorf("local workers: remove a socket that was left: %w", err)
		}
	}
	beat := time.NewTicker(tick)
	defer beat.Stop()
	over := ctx.Done()
	for {
		if p.step(context.WithoutCancel(ctx), time.Now()) && over == nil {
			return nil
		}
		select {
		case <-over:
			over = nil
			p.mu.Lock()
			p.target, p.term = 0, 1<<62 // nobody orders any more
			for _, w := range p.workers {
				if w.stage == starting { // it has nothing to end, and may not listen while it loads
					w.signal(syscall.SIGKILL)
					w.stage, w.since = ending, time.Now()
				}
			}
			p.mu.Unlock()
		case <-p.wake:
		case <-beat.C:
		}
	}
}

// step does what is due. It reports whether there is no worker left.
func (p *Pool) step(ctx context.Context, now time.Time) (empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	joined := p.members()
	for _, w := range p.workers {
		p.advance(w, now) //nolint:contextcheck // looks at a worker have a life of their own
	}
	p.workers = slices.DeleteFunc(p.workers, func(w *process) bool { return p.gone(w, now) })
	p.balance(now) //nolint:contextcheck // the same
	if now := p.members(); !slices.EqualFunc(joined, now, same) {
		p.mu.Unlock()
		p.deps.Join(ctx, now)
		p.mu.Lock()
		for _, w := range p.workers {
			w.joined = w.stage != starting // no other goroutine moves a worker on
		}
	}
	return len(p.workers) == 0
}

func same(a, b pool.Member) bool {
	return a.Name == b.Name && a.Engine == b.Engine && a.Draining == b.Draining
}

// members are the workers that the gateway has in its pool. The caller holds mu.
func (p *Pool) members() []pool.Member {
	var out []pool.Member
	for _, w := range p.workers {
		if w.stage == starting {
			continue
		}
		m := p.deps.Member(w.name, w.client)
		m.Draining = w.stage != ready
		out = append(out, m)
	}
	return out
}

// advance moves a worker to its next stage, if it is time. The caller holds mu.
func (p *Pool) advance(w *process, now time.Time) {
	switch w.stage {
	case starting:
		switch {
		case w.client.State() == worker.Ready:
			p.deps.Ready(now.Sub(w.since))
			w.before, p.failed, p.pause = p.failed, 0, time.Time{}
			w.stage, w.since = ready, now
			p.deps.Log.Info("a worker is ready", slog.String("worker", w.name))
		case now.Sub(w.since) > p.cfg.StartTimeout || w.client.State() == worker.Failed:
			w.signal(syscall.SIGKILL) // it is counted when it has ended
		}
	case draining:
		idle := p.deps.Running(w.name, w.client) == 0 && now.Sub(w.since) >= p.cfg.Settle
		if idle || now.Sub(w.since) >= p.cfg.DrainTimeout {
			w.signal(syscall.SIGTERM)
			w.stage, w.since = ending, now
		}
	case ending:
		if now.Sub(w.since) >= p.cfg.DrainTimeout {
			w.signal(syscall.SIGKILL)
		}
	case ready:
		switch w.client.State() {
		case worker.Unreachable, worker.Failed:
			if w.lost.IsZero() {
				w.lost = now
			} else if now.Sub(w.lost) > lostAfter {
				w.signal(syscall.SIGKILL) // it hangs: another one comes for it
			}
		default:
			w.lost = time.Time{}
		}
	}
}

// signal sends a signal to the worker and to what it has started, unless it has ended.
func (w *process) signal(s syscall.Signal) {
	if !w.ended() {
		_ = syscall.Kill(-w.command.Process.Pid, s)
	}
}

// ended reports whether the worker's process has ended.
func (w *process) ended() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}

// gone reports whether a worker has ended, and counts what failed. The caller holds mu.
func (p *Pool) gone(w *process, now time.Time) bool {
	if !w.ended() {
		return false
	}
	if err := w.client.Close(); err != nil {
		p.deps.Log.Warn("the connection to a worker could not be closed", slog.Any("error", err))
	}
	_ = os.Remove(w.socket)
	if w.stage == starting || w.stage == ready {
		if w.stage == ready && now.Sub(w.since) < holdsAfter {
			p.failed += w.before
		}
		p.fail(now)
		p.deps.Log.Warn("a worker has ended that should not", slog.String("worker", w.name), slog.String("status", w.command.ProcessState.String()), slog.Int("failures", p.failed))
	}
	return true
}

// fail notes a failure: nobody is started until a pause is over that doubles with each in a row. Those that fail together count, but pause once.
func (p *Pool) fail(now time.Time) {
	p.failed++
	pause := p.cfg.FirstPause << min(p.failed-1, 16)
	p.pause = now.Add(min(longestPause, pause))
}

// balance starts and drains workers. The caller holds mu.
func (p *Pool) balance(now time.Time) {
	have := 0
	for _, w := range p.workers {
		if w.stage == starting || w.stage == ready {
			have++
		}
	}
	for _, w := range p.workers { // those that drain are there already
		if have < p.target && w.stage == draining && w.client.State() == worker.Ready {
			w.stage, w.since, w.before, w.joined = ready, now, 0, false
			have++
		}
	}
	for ; have < p.target && !now.Before(p.pause); have++ {
		if err := p.start(now); err != nil {
			p.fail(now)
			p.deps.Log.Error("a worker could not be started", slog.Any("error", err))
			return
		}
	}
	for i := len(p.workers) - 1; i >= 0 && have > p.target; i-- { // those that start first, then the youngest
		if w := p.workers[i]; w.stage == starting {
			w.signal(syscall.SIGTERM)
			w.stage, w.since = ending, now
			have--
		}
	}
	for i := len(p.workers) - 1; i >= 0 && have > p.target; i-- {
		if w := p.workers[i]; w.stage == ready {
			w.stage, w.since = draining, now
			have--
		}
	}
}

// environment is what a worker gets to know of this process's variables: none that may hold a secret.
func environment(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "USER", "TMPDIR", "LANG", "TZ", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "GODEBUG", "GOMEMLIMIT", "GOMAXPROCS", "GOGC", "GOCOVERDIR":
			return false
		}
		return !strings.HasPrefix(name, "LC_")
	})
}

// start starts one worker. The caller holds mu.
func (p *Pool) start(now time.Time) error {
	p.next++
	name := NamePrefix + strconv.Itoa(p.next)
	w := &process{name: name, socket: filepath.Join(p.cfg.Dir, name+socketSuffix), since: now, exited: make(chan struct{})}
	address := "unix:" + w.socket
	var err error
	if w.client, err = worker.New(worker.Config{Endpoint: worker.Endpoint{Address: address}, Local: true}); err != nil {
		return err
	}
	args := make([]string, len(p.cfg.Command))
	for i, a := range p.cfg.Command {
		args[i] = strings.ReplaceAll(a, AddressArgument, address)
	}
	w.command = exec.Command(args[0], args[1:]...) //nolint:noctx // the command is the configuration's; the worker outlives every context, so that it can drain
	w.command.SysProcAttr = attributes()
	w.command.Env, w.command.Stderr = environment(os.Environ()), os.Stderr
	started := make(chan error, 1)
	go func() {
		// The signal of the parent's death comes with the death of the thread that started the child: this one lives as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := w.command.Start()
		started <- err
		if err == nil {
			_ = w.command.Wait()
			_ = syscall.Kill(-w.command.Process.Pid, syscall.SIGKILL) // what it has left behind
		}
		close(w.exited)
		p.hurry()
	}()
	if err = <-started; err != nil {
		return errors.Join(fmt.Errorf("start worker: %w", err), w.client.Close())
	}
	p.workers = append(p.workers, w)
	return nil
}
