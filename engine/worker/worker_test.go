package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestMain lets the test binary be a worker, for tests that kill one.
func TestMain(m *testing.M) {
	if address := os.Getenv("SLUICE_TEST_WORKER"); address != "" {
		if err := scriptedWorker(address); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// scriptedWorker serves an engine whose answers stop after two pieces.
func scriptedWorker(address string) error {
	l, err := Listen(context.Background(), Endpoint{Address: address})
	if err != nil {
		return err
	}
	s := NewServer(slog.New(slog.DiscardHandler))
	step := make(chan struct{}, 2)
	step <- struct{}{}
	step <- struct{}{}
	s.Ready(Backend{Engine: enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })})
	return s.Serve(context.Background(), l, time.Second)
}

// rig is a server on a listener of its own.
type rig struct {
	server *Server
	at     Endpoint
	stop   context.CancelFunc
	done   chan error // what Serve returned
}

// serve starts a server for an engine on a unix socket.
func serve(t testing.TB, b Backend) *rig {
	t.Helper()
	return serveAt(t, b, Endpoint{Address: unixPrefix + filepath.Join(t.TempDir(), "engine", "e.sock")}, time.Minute)
}

func serveAt(t testing.TB, b Backend, at Endpoint, drain time.Duration) *rig {
	t.Helper()
	l, err := Listen(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{server: NewServer(slog.New(slog.DiscardHandler)), done: make(chan error, 1), at: at}
	if at.set() > 0 {
		r.at.Address = l.Addr().String()
	}
	if b.Engine != nil {
		r.server.Ready(b)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- r.server.Serve(ctx, l, drain) }()
	t.Cleanup(stop)
	return r
}

// connect returns a client of the server.
func (r *rig) connect(t testing.TB) *Client {
	t.Helper()
	return connect(t, Config{Endpoint: r.at})
}

func connect(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eventually polls, since what is awaited happens at the other end.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

func question(text string) *engine.Request {
	return &engine.Request{Model: "scripted", Messages: []engine.Message{{Role: "user", Content: text}}, Logprobs: -1, MaxTokens: 100}
}

// answer asks and returns the text, and the error that ended it.
func answer(ctx context.Context, e engine.Engine, req *engine.Request) (string, error) {
	var text strings.Builder
	for ev, err := range enginetest.Ask(ctx, e, req) {
		if err != nil {
			return text.String(), err
		}
		text.WriteString(ev.Text)
	}
	return text.String(), nil
}

// TestConformance: an engine behind a worker is held to the same contract as one of this process. That of the native engine is in its package.
func TestConformance(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
		models, err := enginetest.NewScripted(nil).Models(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range models { // what its plan would have to do
			models[i].HasFormats, models[i].HasTools, models[i].HasSampling = false, false, false
		}
		r := serve(t, Backend{Engine: enginetest.NewScripted(nil, models...)})
		return r.connect(t), enginetest.Options{Generate: "scripted", Embed: "scripted-embed", Score: "scripted-rerank"}
	})
}

// TestHooksStay: a hook is code of this process. No model of a worker promises them, and a request with one is refused, prepared or not.
func TestHooksStay(t *testing.T) {
	s := enginetest.NewScripted(nil, engine.Model{ID: "scripted", CanGenerate: true, HasHooks: true, Local: true, ContextTokens: 100})
	c := serve(t, Backend{Engine: s}).connect(t)
	models, err := c.Models(t.Context())
	if err != nil || len(models) != 1 || models[0].HasHooks || models[0].Local {
		t.Errorf("%+v, %v", models, err)
	}
	req := question("x")
	req.Hook = func(*engine.Draw) error { return nil }
	if _, err := c.Prepare(t.Context(), req); !fault.Is(err, fault.CodeUnsupported) {
		t.Errorf("prepared: %v", err)
	}
	for _, err := range c.Generate(t.Context(), &engine.Prompt{Request: req}) {
		if !fault.Is(err, fault.CodeUnsupported) || fault.Public(err).Param() != "hook" {
			t.Errorf("run: %v", err)
		}
	}
	if len(s.Requests()) > 0 {
		t.Error("the request was run without its hook")
	}
}

// TestWatermarksStay: no model of a worker promises watermarks, and an answer to a request with one says that it has none.
func TestWatermarksStay(t *testing.T) {
	s := enginetest.NewScripted(nil, engine.Model{ID: "scripted", CanGenerate: true, HasMarks: true, ContextTokens: 100})
	c := serve(t, Backend{Engine: s}).connect(t)
	if models, err := c.Models(t.Context()); err != nil || len(models) != 1 || models[0].HasMarks {
		t.Errorf("%+v, %v", models, err)
	}
	req := question("x")
	req.Watermark = &engine.Watermark{Scheme: "s", Key: "k"}
	var marking *engine.Marking
	for ev, err := range c.Generate(t.Context(), &engine.Prompt{Request: req}) {
		if err != nil {
			t.Fatal(err)
		}
		marking = ev.Marking
	}
	if want := (engine.Marking{Reason: engine.MarkReasonEngine, Scheme: "s", Key: "k"}); marking == nil || *marking != want {
		t.Errorf("%+v", marking)
	}
}

// TestKilledWorker: a process that dies in the middle of an answer ends the answer as unavailable, its models are gone, and a new process is noticed.
func TestKilledWorker(t *testing.T) {
	at := Endpoint{Address: unixPrefix + filepath.Join(t.TempDir(), "engine", "e.sock")}
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SLUICE_TEST_WORKER="+at.Address)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	c := connect(t, Config{Endpoint: at, Local: true})
	if _, err := c.Models(t.Context()); !fault.Is(err, fault.CodeEngineUnavailable) || !errors.Is(err, engine.ErrNotReached) {
		t.Fatalf("before it was started: %v", err)
	}
	_, err := answer(t.Context(), c, question("x"))
	if !fault.Is(err, fault.CodeEngineUnavailable) || !errors.Is(err, engine.ErrNotReached) || fault.Public(err).RetryAfter() == 0 {
		t.Errorf("a request that found nobody: %v", err)
	}
	process := start()
	listed := func() bool {
		models, err := c.Models(t.Context())
		return err == nil && len(models) == 3 && models[0].Local
	}
	eventually(t, "the models of a worker that was started", listed)
	first := c.Health().Instance

	got, end := "", error(nil)
	for ev, err := range enginetest.Ask(t.Context(), c, question("abcdefghijkl")) {
		if err != nil {
			end = err
			continue
		}
		if got += ev.Text; got == "abcdef" {
			if err := process.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got != "abcdef" || !fault.Is(end, fault.CodeEngineUnavailable) || errors.Is(end, engine.ErrNotReached) {
		t.Errorf("of the killed worker came %q, then %v", got, end)
	}
	_ = process.Wait()
	eventually(t, "the models to go", func() bool { _, err := c.Models(t.Context()); return fault.Is(err, fault.CodeEngineUnavailable) })
	if h := c.Health(); h.State != Unreachable || len(h.Models) > 0 {
		t.Errorf("%+v", h)
	}
	start() // in the place of the socket that the first has left
	eventually(t, "the models of the next process", listed)
	if second := c.Health().Instance; second == first || second == "" {
		t.Errorf("instance %q, at first %q", second, first)
	}
}

// TestDrain: a worker that is asked to end finishes what runs, and refuses what comes so that it may go elsewhere.
func TestDrain(t *testing.T) {
	step := make(chan struct{})
	r := serve(t, Backend{Engine: enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })})
	c := r.connect(t)
	prompt, err := c.Prepare(t.Context(), question("later"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	begun := make(chan struct{})
	go func() {
		var text strings.Builder
		for ev, err := range enginetest.Ask(t.Context(), c, question("abcdef")) {
			if err != nil {
				text.WriteString(err.Error())
			}
			if text.Len() == 0 {
				close(begun)
			}
			text.WriteString(ev.Text)
		}
		got <- text.String()
	}()
	step <- struct{}{}
	<-begun
	r.stop()
	eventually(t, "the worker to say that it drains", func() bool { return c.Health().State == Draining })
	for what, err := range map[string]error{
		"prepare": func() error { _, err := c.Prepare(t.Context(), question("x")); return err }(),
		"embed": func() error {
			_, err := enginetest.Embed(t.Context(), c, &engine.EmbedRequest{Model: "scripted-embed", Input: []string{"x"}})
			return err
		}(),
		"run": func() (err error) {
			for _, err = range c.Generate(t.Context(), prompt) {
			}
			return err
		}(),
	} {
		if !fault.Is(err, fault.CodeEngineUnavailable) || !errors.Is(err, engine.ErrNotReached) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if m, err := c.Models(t.Context()); err != nil || len(m) != 3 {
		t.Errorf("models while it drains: %+v, %v", m, err)
	}
	close(step)
	if text := <-got; text != "abcdef" {
		t.Errorf("what ran ended with %q", text)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// TestDrainCuts: what does not finish in time is cut, and says so at both ends.
func TestDrainCuts(t *testing.T) {
	step := make(chan struct{}, 1)
	step <- struct{}{}
	engineOf := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })
	r := serveAt(t, Backend{Engine: engineOf}, Endpoint{Address: unixPrefix + filepath.Join(t.TempDir(), "engine", "e.sock")}, 10*time.Millisecond)
	var end error
	for ev, err := range enginetest.Ask(t.Context(), r.connect(t), question("abcdef")) {
		if end = err; ev.Text != "" {
			r.stop()
		}
	}
	if !fault.Is(end, fault.CodeEngineUnavailable) || errors.Is(end, engine.ErrNotReached) {
		t.Errorf("what was cut: %v", end)
	}
	if err := <-r.done; err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("the server says %v", err)
	}
	eventually(t, "the engine to be told", func() bool { return engineOf.Aborted() == 1 })
}

// TestLeaving: whoever goes away frees what the request held in the worker, be it by breaking out, by cancelling, or by closing the client.
func TestLeaving(t *testing.T) {
	step := make(chan struct{}, 100)
	s := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })
	r := serve(t, Backend{Engine: s})
	for i, leave := range []func(c *Client, cancel func()) (stay bool){
		func(*Client, func()) bool { return false },
		func(_ *Client, cancel func()) bool { cancel(); return true },
		func(c *Client, _ func()) bool { _ = c.Close(); return true },
	} {
		step <- struct{}{}
		c := r.connect(t)
		ctx, cancel := context.WithCancel(t.Context())
		var end error
		for _, err := range enginetest.Ask(ctx, c, question("abcdef")) {
			if end = err; err == nil && !leave(c, cancel) {
				break
			}
		}
		cancel()
		if want := []bool{end == nil, errors.Is(end, context.Canceled), fault.Is(end, fault.CodeEngineUnavailable)}[i]; !want {
			t.Errorf("%d: %v", i, end)
		}
		eventually(t, "the engine to be left", func() bool { return s.Aborted() == i+1 })
	}
	step <- struct{}{}
	step <- struct{}{}
	if text, err := answer(t.Context(), r.connect(t), question("abcdef")); text != "abcdef" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSlowReader: who reads nothing of an answer that fills every buffer on the way holds nobody up.
func TestSlowReader(t *testing.T) {
	long := strings.Repeat("a long piece of text ", 1<<16)
	pieces := len([]rune(long)) / 40
	s := enginetest.NewScripted(func(_ int, r *engine.Request) enginetest.Plan {
		if r.Messages[0].Content == "long" {
			return enginetest.Plan{Texts: []string{long}, Pieces: []int{pieces}}
		}
		return enginetest.Plan{}
	}, engine.Model{ID: "scripted", CanGenerate: true})
	c := serve(t, Backend{Engine: s}).connect(t)
	req := question("long")
	req.MaxTokens = 1 << 30
	var got strings.Builder
	for ev, err := range enginetest.Ask(t.Context(), c, req) {
		if err != nil {
			t.Fatal(err)
		}
		if got.Len() == 0 {
			var others sync.WaitGroup
			for i := range 8 {
				others.Go(func() {
					want := fmt.Sprint("quick ", i)
					if text, err := answer(t.Context(), c, question(want)); text != want || err != nil {
						t.Errorf("beside a slow reader: %q, %v", text, err)
					}
				})
			}
			others.Wait()
		}
		got.WriteString(ev.Text)
	}
	if got.String() != long {
		t.Errorf("%d of %d bytes", got.Len(), len(long))
	}
}

// TestPromptsAreSentOnce: a prompt that the worker holds is run by its id; it is sent whole when it was run, forgotten or changed.
func TestPromptsAreSentOnce(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	s := NewServer(slog.New(slog.DiscardHandler))
	s.Ready(Backend{Engine: enginetest.NewScripted(nil)})
	path := filepath.Join(t.TempDir(), "e.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/generate") {
			mu.Lock()
			bodies = append(bodies, string(body))
			mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.ServeHTTP(w, r)
	})}
	go func() { _ = web.Serve(l) }()
	defer func() { _ = web.Close() }()
	c := connect(t, Config{Endpoint: Endpoint{Address: unixPrefix + path}})
	run := func(p *engine.Prompt) (sent []string) {
		mu.Lock()
		bodies = nil
		mu.Unlock()
		text := ""
		for ev, err := range c.Generate(t.Context(), p) {
			if err != nil {
				t.Fatal(err)
			}
			text += ev.Text
		}
		if text != "needle" {
			t.Errorf("%q", text)
		}
		mu.Lock()
		defer mu.Unlock()
		return bodies
	}
	has := func(bodies []string) (out []bool) {
		for _, b := range bodies {
			out = append(out, strings.Contains(b, "needle"))
		}
		return out
	}
	p, err := c.Prepare(t.Context(), question("needle"))
	if err != nil {
		t.Fatal(err)
	}
	if sent := has(run(p)); !slices.Equal(sent, []bool{false}) {
		t.Errorf("the first run sends %v", sent)
	}
	if sent := has(run(p)); !slices.Equal(sent, []bool{false, true}) {
		t.Errorf("the second run sends %v", sent)
	}
	if p, err = c.Prepare(t.Context(), question("needle")); err != nil {
		t.Fatal(err)
	}
	p.Request.Temperature = 0.5
	if sent := has(run(p)); !slices.Equal(sent, []bool{true}) {
		t.Errorf("a changed prompt sends %v", sent)
	}
	of := question("needle")
	of.Tenant = "acme"
	if p, err = c.Prepare(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	c.Forget("other")
	c.Forget("acme")
	if sent := has(run(p)); !slices.Equal(sent, []bool{false, true}) {
		t.Errorf("a forgotten prompt sends %v", sent)
	}
}

// TestStash: what is held is bounded in bytes, number and time.
func TestStash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStash()
		s.bytes = 100
		a := s.put(&engine.Prompt{Tokens: 1}, 60)
		b := s.put(&engine.Prompt{Tokens: 2}, 60)
		if s.take(a) != nil {
			t.Error("the oldest was not dropped")
		}
		if p := s.take(b); p == nil || p.Tokens != 2 || s.take(b) != nil || s.held != 0 {
			t.Error("a prompt is taken once")
		}
		large := s.put(&engine.Prompt{}, 1000)
		if s.take(large) == nil {
			t.Error("one alone is held however large it is: it is the next to run")
		}
		var ids []string
		for range stashMost + 1 {
			ids = append(ids, s.put(&engine.Prompt{}, 0))
		}
		if s.take(ids[0]) != nil || s.take(ids[1]) == nil {
			t.Error("the number is not bounded")
		}
		old := s.put(&engine.Prompt{}, 1)
		time.Sleep(stashTime)
		synctest.Wait()
		if s.take(old) != nil || s.order.Len() > 0 || s.held != 0 {
			t.Errorf("%d prompts of %d bytes are held after their time", s.order.Len(), s.held)
		}
		time.Sleep(stashTime)
		synctest.Wait()
		if s.sweep != nil {
			t.Error("the sweep goes on without anything to do")
		}
	})
}

// TestForgetIsRepeated: a worker that cannot be reached is told to forget as soon as it can be.
func TestForgetIsRepeated(t *testing.T) {
	at := Endpoint{Address: unixPrefix + filepath.Join(t.TempDir(), "engine", "e.sock")}
	c := connect(t, Config{Endpoint: at})
	c.Forget("acme")
	c.Forget("beta")
	if n := c.Unforgotten(); n != 2 {
		t.Errorf("%d tenants are to be forgotten", n)
	}
	var mu sync.Mutex
	var told []string
	serveAt(t, Backend{Engine: enginetest.NewScripted(nil), Forget: func(tenant string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, tenant)
	}}, at, time.Second)
	eventually(t, "the worker to be told", func() bool { return c.Unforgotten() == 0 })
	mu.Lock()
	defer mu.Unlock()
	if slices.Sort(told); !slices.Equal(told, []string{"acme", "beta"}) {
		t.Errorf("told %v", told)
	}
}

// store has adapters as an engine does.
type store struct{ loaded []Adapter }

func (s *store) List() []Adapter { return s.loaded }

func (s *store) Load(_ context.Context, a NewAdapter) (Adapter, error) {
	if a.Path == "none" {
		return Adapter{}, fault.New(fault.CodeInvalidValue, "path", fault.Say("native.adapter_unusable", "x")).WithParam("path")
	}
	s.loaded = append(s.loaded, Adapter{ID: a.ID, Model: a.Model, Digest: "sha256:" + a.Path, Bytes: 7, Tenants: a.Tenants})
	return s.loaded[len(s.loaded)-1], nil
}

func (s *store) Unload(id engine.ModelID) error {
	n := len(s.loaded)
	if s.loaded = slices.DeleteFunc(s.loaded, func(a Adapter) bool { return a.ID == id }); len(s.loaded) == n {
		return fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
	}
	return nil
}

// TestManagement: adapters, load and metrics cross.
func TestManagement(t *testing.T) {
	b := Backend{
		Engine: enginetest.NewScripted(nil), Adapters: &store{}, Load: func() []Load {
			return []Load{{Model: "scripted", Running: 3, Waiting: 2, Slots: 4, Pages: 9, PagesInUse: 8, PageTokens: 64, PageBytes: 7}}
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
	}
	c := serve(t, b).connect(t)
	a, err := c.LoadAdapter(t.Context(), NewAdapter{ID: "a/b", Model: "scripted", Path: "p", Tenants: []string{"acme"}})
	if err != nil || a.ID != "a/b" || a.Digest != "sha256:p" || a.Bytes != 7 || !slices.Equal(a.Tenants, []string{"acme"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := c.LoadAdapter(t.Context(), NewAdapter{ID: "b", Path: "none"}); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != "path" {
		t.Errorf("one that is none: %v", err)
	}
	if all, err := c.Adapters(t.Context()); err != nil || len(all) != 1 || all[0].ID != "a/b" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := c.UnloadAdapter(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
	if err := c.UnloadAdapter(t.Context(), "a/b"); !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("unloaded twice: %v", err)
	}
	if h := c.Health(); h.State != Ready || !slices.Equal(h.Load, b.Load()) {
		t.Errorf("%+v", h)
	}
	if m, err := c.Metrics(t.Context()); err != nil || string(m) != "up 1\n" {
		t.Errorf("%q, %v", m, err)
	}
}

// TestStates: until a worker is ready nothing is asked of its engine.
func TestStates(t *testing.T) {
	s := enginetest.NewScripted(nil)
	r := serve(t, Backend{})
	c := r.connect(t)
	refused := func(state State) {
		t.Helper()
		_, err := c.Prepare(t.Context(), question("x"))
		if !fault.Is(err, fault.CodeEngineUnavailable) || !errors.Is(err, engine.ErrNotReached) {
			t.Errorf("%s: %v", state, err)
		}
		eventually(t, "the state "+string(state), func() bool { return c.Health().State == state })
		if _, err := c.Models(t.Context()); (state == Warming) != (err == nil) || err != nil && !fault.Is(err, fault.CodeEngineUnavailable) {
			t.Errorf("%s: models: %v", state, err)
		}
	}
	refused(Starting)
	r.server.Warm(Backend{Engine: s})
	refused(Warming)
	if err := WarmUp(t.Context(), s); err != nil || len(s.Requests()) != 1 || len(s.Inputs()) != 1 || len(s.Scores()) != 1 {
		t.Errorf("warmed up with %v, %v, %v: %v", s.Requests(), s.Inputs(), s.Scores(), err)
	}
	r.server.Ready(Backend{Engine: s})
	if text, err := answer(t.Context(), c, question("x")); text != "x" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	eventually(t, "the models", func() bool { m, err := c.Models(t.Context()); return err == nil && len(m) == 3 })
	r.server.Fail()
	refused(Failed)
	if _, err := c.Prepare(t.Context(), nil); !errors.Is(err, engine.ErrOtherWork) {
		t.Error(err)
	}
}

// TestClosedClientSendsNothing: a worker that has gone takes nothing, so that another one may have it.
func TestClosedClientSendsNothing(t *testing.T) {
	c := serve(t, Backend{Engine: enginetest.NewScripted(nil)}).connect(t)
	p, err := c.Prepare(t.Context(), question("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, again := c.Prepare(t.Context(), question("x"))
	for _, err := range append([]error{again}, ending(c.Generate(t.Context(), p))) {
		if !fault.Is(err, fault.CodeEngineUnavailable) || !errors.Is(err, engine.ErrNotReached) {
			t.Error(err)
		}
	}
}

// ending is the error that an answer ends with.
func ending(events iter.Seq2[engine.Event, error]) (last error) {
	for _, last = range events {
	}
	return last
}

// TestModelsAreChosen: the configuration may leave models of a worker out.
func TestModelsAreChosen(t *testing.T) {
	r := serve(t, Backend{Engine: enginetest.NewScripted(nil)})
	c := connect(t, Config{Endpoint: r.at, Models: []string{"scripted-embed", "another"}})
	if m, err := c.Models(t.Context()); err != nil || len(m) != 1 || m[0].ID != "scripted-embed" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := answer(t.Context(), c, question("x")); !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("prepared: %v", err)
	}
	for _, err := range c.Generate(t.Context(), &engine.Prompt{Request: question("x")}) {
		if !fault.Is(err, fault.CodeModelNotFound) {
			t.Errorf("run: %v", err)
		}
	}
}

// TestFaultsCross: an error of the engine arrives as it was, and its cause does not; nothing of a request reaches the log.
func TestFaultsCross(t *testing.T) {
	var log bytes.Buffer
	overloaded := fault.Wrap(errors.New("canary-cause"), fault.CodeEngineOverloaded, "scripted").WithRetryAfter(90 * time.Millisecond)
	for what, boom := range map[string]error{"a fault": overloaded, "an error without a code": errors.New("canary-private")} {
		for at := range 3 {
			s := NewServer(slog.New(slog.NewTextHandler(&log, nil)))
			s.Ready(Backend{Engine: enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Err: boom, FailAt: at} })})
			path := filepath.Join(t.TempDir(), "e", "e.sock")
			l, err := Listen(t.Context(), Endpoint{Address: unixPrefix + path})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = s.Serve(t.Context(), l, time.Second) }()
			text, err := answer(t.Context(), connect(t, Config{Endpoint: Endpoint{Address: unixPrefix + path}}), question("canary-text"))
			public := fault.Public(err)
			if text != "canary-text"[:3*at] || strings.Contains(err.Error(), "canary") || public.Code() != fault.Public(boom).Code() || public.RetryAfter() != fault.Public(boom).RetryAfter() {
				t.Errorf("%s after %d events: %q, %v", what, at, text, err)
			}
		}
	}
	if strings.Contains(log.String(), "canary-text") || !strings.Contains(log.String(), "canary-private") {
		t.Errorf("the log: %s", &log)
	}
}

// TestLaterReleases: a request that this release does not know all of is refused, and a worker of another version says nothing that is understood.
func TestLaterReleases(t *testing.T) {
	r := serve(t, Backend{Engine: enginetest.NewScripted(nil)})
	c := r.connect(t)
	for _, body := range []string{`{"generate":{"model":"scripted","later":1}}`, `{`, `{"generate":{}} {}`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"generate", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(got), `"code":"unsupported_parameter"`) || strings.Contains(string(got), "later") {
			t.Errorf("%s: %d %s %v", body, res.StatusCode, got, err)
		}
	}
	c.base = "http://worker/sluice-engine/v9/"
	if _, err := c.Prepare(t.Context(), question("x")); !fault.Is(err, fault.CodeUpstreamFailed) || !strings.Contains(err.Error(), "same release") {
		t.Errorf("another version: %v", err)
	}
}

// TestSilentWorker: a worker that is not heard of for a while is given up, and what it runs with it.
func TestSilentWorker(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler))
	s.Ready(Backend{Engine: enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: make(chan struct{})} })})
	path := filepath.Join(t.TempDir(), "e.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var silent atomic.Bool
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			panic(http.ErrAbortHandler)
		}
		s.ServeHTTP(w, r)
	})}
	go func() { _ = web.Serve(l) }()
	defer func() { _ = web.Close() }()
	c := connect(t, Config{Endpoint: Endpoint{Address: unixPrefix + path}})
	ended := make(chan error, 1)
	go func() {
		_, err := answer(t.Context(), c, question("x"))
		ended <- err
	}()
	eventually(t, "the request to run", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.running == 1 })
	silent.Store(true)
	c.look()
	select {
	case err := <-ended:
		t.Fatalf("it ended after one look: %v", err)
	default:
	}
	eventually(t, "the request to be given up", func() bool {
		c.heard.Store(time.Now().Add(-lostAfter).UnixNano())
		c.look()
		return len(ended) > 0
	})
	if err := <-ended; !fault.Is(err, fault.CodeEngineUnavailable) || errors.Is(err, engine.ErrNotReached) || !strings.Contains(err.Error(), "not been heard") {
		t.Errorf("%v", err)
	}
}
