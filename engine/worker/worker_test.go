package worker

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// rig is a server on a unix socket.
type rig struct {
	server  *Server
	address string
	stop    context.CancelFunc
	done    chan error // what Serve returned
}

// serve starts a server for an engine.
func serve(t testing.TB, b Backend) *rig {
	t.Helper()
	return serveAt(t, b, unixPrefix+filepath.Join(t.TempDir(), "engine", "e.sock"), TLS{}, time.Minute)
}

func serveAt(t testing.TB, b Backend, address string, files TLS, drain time.Duration) *rig {
	t.Helper()
	l, err := Listen(t.Context(), Endpoint{Address: address, TLS: files})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{server: NewServer(slog.New(slog.DiscardHandler)), done: make(chan error, 1), address: address}
	if files.set() > 0 {
		r.address = l.Addr().String()
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
	return connect(t, Config{Endpoint: Endpoint{Address: r.address}})
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
