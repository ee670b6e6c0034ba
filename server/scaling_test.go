package server_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/worker"
)

// TestScaledWorkerProcess is the worker that TestScaledPool has started; alone it does nothing.
func TestScaledWorkerProcess(t *testing.T) {
	if flag.NArg() != 1 {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := scriptedWorker(ctx, flag.Arg(0)); err != nil {
		t.Fatal(err)
	}
}

func scriptedWorker(ctx context.Context, address string) error {
	l, err := worker.Listen(ctx, worker.Endpoint{Address: address})
	if err != nil {
		return err
	}
	s := worker.NewServer(slog.New(slog.DiscardHandler))
	s.Ready(worker.Backend{
		Engine: enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{} }),
		Load:   func() []worker.Load { return []worker.Load{{Model: "scripted", Slots: 4, Pages: 10}} },
	})
	return s.Serve(ctx, l, time.Second)
}

// TestScaledPool: a pool of the configuration gets the workers that its policy demands, they answer beside the one that was there, each decision is in
// the audit log with what it saw, and with the server they end.
func TestScaledPool(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // the path of a socket has room for a hundred bytes only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	base := "unix:" + filepath.Join(dir, "base.sock")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- scriptedWorker(ctx, base) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	in, _ := startConfigured(t, fmt.Sprintf(`engines:
  native: {models: []}
  workers: [{name: base, address: %q, local: true}]
  pools:
    - name: chat
      instances: [{engine: base}]
      scale: {min: 3, max: 4, every: 100ms, targets: {rate: 1000}, workers: {settle: 50ms, command: [%q, "-test.run=^TestScaledWorkerProcess$", "{address}"]}}
rag: {embedding_model: ""}
`, base, os.Args[0]))
	defer func() {
		if t.Failed() {
			t.Log(in.logs.String())
		}
	}()
	ready := func() int {
		r := in.admin(http.MethodGet, "/instances", nil, nil)
		var has struct {
			Items []struct{ Pool, Name, State string }
		}
		r.decode(t, &has)
		n := 0
		for _, i := range has.Items {
			if i.Pool == "chat" && i.State == "ready" {
				n++
			}
		}
		return n
	}
	eventually(t, "three instances", func() bool { return ready() == 3 })
	for range 12 {
		if r := in.chat(map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hello"}}}); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	r := in.admin(http.MethodGet, "/audit/records?action=pool.scale", nil, nil)
	if text := string(r.body); r.status != http.StatusOK || !strings.Contains(text, `"target":"3"`) || !strings.Contains(text, `"winner":"floor"`) || !strings.Contains(text, `\"needs\"`) {
		t.Errorf("the decision: %d %.2000s", r.status, text)
	}
}
