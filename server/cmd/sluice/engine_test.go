package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// TestEngineServe: the process answers on its socket and its probes; asked to end, it refuses what comes, finishes what runs, and ends well. It makes
// no database and no key.
func TestEngineServe(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	operations := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, nil, "")
	s.write(fmt.Sprintf("data: %s\ndownloads: %s\nengines: {native: {models: [{id: m, path: %q}], context_tokens: 512, threads: 2}}\nrag: {embedding_model: \"\"}\noperations: {listen: %q}\n",
		s.data, filepath.Join(s.dir, "downloads"), testmodel.Path(t, testmodel.SmolLM2), operations))
	at := worker.Endpoint{Address: "unix:" + filepath.Join(s.dir, "run", "e.sock")}
	p := s.launchAs(&process{t: t, out: &lockedBuffer{}, errs: &lockedBuffer{}, done: make(chan struct{})}, "engine", "serve", "--listen", at.Address)
	probe := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+operations+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+operationsToken)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, ""
		}
		defer func() { _ = res.Body.Close() }()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	p.eventually("the engine to be ready", func() bool { return strings.Contains(p.out.String(), at.Address) })
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": `sluice_engine_tokens_total{phase="prompt"}`} {
		if status, body := probe(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	c, err := worker.New(worker.Config{Endpoint: at})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if m, err := c.Models(t.Context()); err != nil || len(m) != 1 || m[0].ID != "m" || m[0].Digest == "" {
		t.Errorf("%+v, %v", m, err)
	}
	if h := c.Health(); len(h.Load) != 1 || h.Load[0].Pages == 0 {
		t.Errorf("%+v", h)
	}
	if m, err := c.Metrics(t.Context()); err != nil || !strings.Contains(string(m), "sluice_engine_kv_pages") {
		t.Errorf("%v, %d bytes", err, len(m))
	}
	ask := &engine.Request{Model: "m", Prompt: "Once upon a time", MaxTokens: 400, MinTokens: 400, Logprobs: -1}
	prompt, err := c.Prepare(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	var usage *engine.Usage
	signalled := false
	for ev, err := range c.Generate(t.Context(), prompt) {
		if err != nil {
			t.Fatal(err)
		}
		if usage = ev.Usage; signalled {
			continue
		}
		signalled = true
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.eventually("the worker to drain", func() bool { return c.Health().State == worker.Draining })
		if _, err := c.Prepare(t.Context(), ask); !fault.Is(err, fault.CodeEngineUnavailable) || !errors.Is(err, engine.ErrNotReached) {
			t.Errorf("while it drains: %v", err)
		}
	}
	if usage == nil || usage.CompletionTokens != 400 {
		t.Errorf("what ran ended with %+v", usage)
	}
	if <-p.done; p.err != nil {
		t.Errorf("it ended with %v", p.err)
	}
	if made, err := filepath.Glob(filepath.Join(s.data, "*")); err != nil || len(made) > 0 {
		t.Errorf("it made %v, %v", made, err)
	}
	if strings.Contains(p.errs.String()+p.out.String(), "Once upon") {
		t.Error("a prompt is in the log")
	}
	s.run("engine", "serve", "--listen", "127.0.0.1:0").wants(t, exitFailed, "engines.serve", "certificate")
	s.run("engine", "serve", "x").wants(t, exitUsage)
}
