package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

// TestWorker: a native engine in a process of its own (here: with parts of its own) answers through a gateway that has no model itself. Adapters are
// loaded over there; an erasure reaches its caches; while it is gone its models are unavailable, and they come back by themselves.
func TestWorker(t *testing.T) {
	dir := t.TempDir()
	socket := "unix:" + filepath.Join(dir, "run", "engine.sock")
	file := filepath.Join(dir, "engine.yaml")
	text := fmt.Sprintf("engines: {native: {models: [{id: chat, path: %q}], context_tokens: 256, threads: 2}}\nrag: {embedding_model: \"\"}\n",
		testmodel.Path(t, testmodel.SmolLM2))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil, map[string]any{
		"data": filepath.Join(dir, "data"), "downloads": filepath.Join(dir, "downloads"), "engines.serve.address": socket,
	})
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	serve := func() (stop func() error) {
		ctx, cancel := context.WithCancel(context.Background())
		ready, done := make(chan string, 1), make(chan error, 1)
		go func() {
			done <- server.RunEngine(ctx, cfg, server.EngineOptions{
				Log: slog.New(slog.NewJSONHandler(log, nil)), Ready: func(address string) error { ready <- address; return nil },
			})
		}()
		stop = sync.OnceValue(func() error { cancel(); return <-done })
		t.Cleanup(func() { _ = stop() })
		select {
		case at := <-ready:
			if at != socket {
				t.Errorf("it listens on %s", at)
			}
		case err := <-done:
			t.Fatal(err)
		case <-time.After(2 * time.Minute):
			t.Fatal("the engine was not ready in two minutes")
		}
		return stop
	}
	stop := serve()
	in, _ := startConfigured(t, fmt.Sprintf("engines: {native: {models: []}, workers: [{name: apart, address: %q, local: true}]}\nrag: {embedding_model: \"\"}\n", socket))
	const canary = "the canary of a prompt that is no line of any log"
	ask := func(model string) reply {
		return in.chat(map[string]any{
			"model": model, "user": "alice", "max_tokens": 8, "temperature": 0,
			"messages": []any{map[string]string{"role": "user", "content": strings.Repeat(canary+". ", 10)}},
		})
	}
	cached := func(r reply) int {
		t.Helper()
		var body struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		r.decode(t, &body)
		return body.Usage.Details.Cached
	}
	plain := ask("chat")
	if n := cached(plain); n != 0 {
		t.Errorf("%d tokens of a new prompt were known", n)
	}
	if cached(ask("chat")) == 0 {
		t.Error("the worker keeps no prefixes")
	}
	var done struct{ Record string }
	in.send(http.MethodPost, "/api/v1/audit/erasures", in.signIn("compliance"), map[string]string{"subject": "alice"}).decode(t, &done)
	if n := cached(ask("chat")); n != 0 {
		t.Errorf("%d tokens were known after the erasure", n)
	}

	writeAdapter(t, filepath.Join(dir, "downloads", "models", "adapters", "law"), 0.1)
	load := map[string]any{"id": "law", "model": "chat", "path": "law"}
	in.admin(http.MethodPost, "/engine/adapters", load, new(any))
	if r := ask("law"); r.status != http.StatusOK || string(r.body) == string(plain.body) {
		t.Errorf("the adapter: %d %s", r.status, r.body)
	}
	if r := in.admin(http.MethodGet, "/engine/adapters", nil, nil); !strings.Contains(string(r.body), `"law"`) {
		t.Errorf("%s", r.body)
	}
	if r := in.admin(http.MethodGet, "/instances", nil, nil); !strings.Contains(string(r.body), `"kind":"worker"`) || !strings.Contains(string(r.body), `"state":"ready"`) {
		t.Errorf("%s", r.body)
	}
	var has struct{ Instances []adminapi.EngineInstance }
	in.admin(http.MethodGet, "/engine/scheduler", nil, &has)
	if i := has.Instances; len(i) != 1 || i[0].Name != "apart" || i[0].Kind != "worker" || i[0].State != "ready" || i[0].ConcurrencyLimit == nil ||
		*i[0].ConcurrencyLimit < 1 || len(i[0].Models) != 1 || i[0].Models[0].KvPages < 1 || i[0].Models[0].KvPageBytes == nil || i[0].Models[0].KvPagesInUse < 1 {
		t.Errorf("what the worker may take: %+v", i)
	}
	load["path"] = "../law"
	if r := in.admin(http.MethodPost, "/engine/adapters", load, nil); r.status != http.StatusBadRequest {
		t.Errorf("a path that leads out: %d %s", r.status, r.body)
	}
	if r := in.admin(http.MethodDelete, "/engine/adapters/law", nil, nil); r.status != http.StatusNoContent || ask("law").status != http.StatusServiceUnavailable {
		t.Errorf("unload: %d %s", r.status, r.body)
	}

	if err := stop(); err != nil {
		t.Error(err)
	}
	if r := ask("chat"); r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), "engine_unavailable") {
		t.Errorf("without the worker: %d %s", r.status, r.body)
	}
	if r := in.admin(http.MethodGet, "/engine/adapters", nil, nil); r.status != http.StatusOK {
		t.Errorf("adapters without the worker: %d %s", r.status, r.body)
	}
	if r := in.admin(http.MethodGet, "/engine/scheduler", nil, &has); len(has.Instances) != 1 || has.Instances[0].State != "unreachable" || len(has.Instances[0].Models) != 0 {
		t.Errorf("a worker that is gone: %s", r.body)
	}
	stop = serve()
	eventually(t, "the worker to be noticed", func() bool { return ask("chat").status == http.StatusOK })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "canary") || strings.Contains(in.logs.String(), canary) {
		t.Error("a prompt is in a log")
	}
}

// TestEngineMistakes: what keeps an engine from starting is said before a model is loaded.
func TestEngineMistakes(t *testing.T) {
	dir := t.TempDir()
	for text, wants := range map[string]string{
		"engines: {native: {models: []}}":                               "engines.native.models",
		"engines: {native: {models: [{id: m, path: /nowhere/m.gguf}]}}": "/nowhere/m.gguf",
	} {
		file := filepath.Join(dir, "engine.yaml")
		if err := os.WriteFile(file, []byte(text+"\nrag: {embedding_model: \"\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, nil, map[string]any{"data": filepath.Join(dir, "data")})
		if err != nil {
			t.Fatal(err)
		}
		err = server.RunEngine(t.Context(), cfg, server.EngineOptions{Log: slog.New(slog.DiscardHandler), Ready: func(string) error { t.Error("ready"); return nil }})
		if err == nil || !strings.Contains(err.Error(), wants) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
