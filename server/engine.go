package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
)

// EngineOptions are what the command line decides of an engine that runs alone.
type EngineOptions struct {
	Log *slog.Logger
	// Ready is called once the engine takes requests, with the address that it is reached at; an error ends it.
	Ready func(address string) error
}

// RunEngine serves the native engine of a configuration, and nothing else, until ctx ends; then it drains: new requests are refused, running ones
// finish or are cut at the deadline. It opens no database and no key. It returns nil after a clean stop.
func RunEngine(ctx context.Context, cfg *config.Config, opts EngineOptions) (err error) {
	if len(cfg.Engines.Native.Models) == 0 {
		return errors.New("no model is configured: set engines.native.models")
	}
	at, err := worker.Listen(ctx, cfg.Engines.Serve.Endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	p := &parts{cfg: cfg, log: opts.Log, reg: prometheus.NewRegistry(), engines: map[string]engine.Engine{}}
	p.metrics = prometheus.Gatherers{p.reg}
	p.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := worker.NewServer(opts.Log)
	var operations net.Listener
	if cfg.Operations.Listen != "" {
		if operations, err = listen(ctx, cfg.Operations.Listen, cfg.TLS.CertFile, cfg.TLS.KeyFile); err != nil {
			return err
		}
		defer func() { _ = operations.Close() }()
	}
	defer func() { err = errors.Join(err, p.close()) }()

	serveCtx, stop := context.WithCancel(ctx)
	defer stop()
	var serving errgroup.Group
	serving.Go(func() error {
		defer stop()
		return s.Serve(serveCtx, at, cfg.DrainTimeout)
	})
	if operations != nil {
		serving.Go(func() error {
			defer stop()
			return serveHTTP(serveCtx, httpServer(p.engineOperations(s), p.log), operations, cfg.DrainTimeout)
		})
	}
	startErr := p.startEngine(serveCtx, s)
	if startErr == nil && ctx.Err() == nil {
		startErr = opts.Ready(address(cfg.Engines.Serve, at))
	}
	if startErr != nil {
		s.Fail()
		stop()
	}
	err = errors.Join(startErr, serving.Wait())
	if startErr != nil && ctx.Err() != nil && errors.Is(startErr, context.Canceled) {
		err = nil // it was told to stop while it started
	}
	p.log.LogAttrs(ctx, slog.LevelInfo, "requests drained, stopping")
	return err
}

// address is where a worker is reached: a port that was left open is known now.
func address(cfg config.Serve, at net.Listener) string {
	if at.Addr().Network() == "unix" {
		return cfg.Address
	}
	return at.Addr().String()
}

// startEngine loads the models, warms them up and takes requests.
func (p *parts) startEngine(ctx context.Context, s *worker.Server) error {
	if err := os.MkdirAll(p.cfg.Data, 0o700); err != nil { // adapters are copied there before they are read
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := p.buildNative(ctx); err != nil {
		return err
	}
	b := worker.Backend{
		Engine: p.native, Forget: p.native.Forget, Load: p.engineLoad, Adapters: nativeAdapters{p}, Metrics: promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{}),
	}
	s.Warm(b)
	if err := worker.WarmUp(ctx, p.native); err != nil {
		return err
	}
	s.Ready(b)
	return nil
}

// engineLoad is what the models of this process have to do.
func (p *parts) engineLoad() []worker.Load {
	var out []worker.Load
	for _, m := range p.native.Scheduler() {
		out = append(out, worker.Load{
			Model: m.Model, Running: m.Running, Waiting: m.Waiting, Slots: m.Concurrency,
			Pages: m.Pages, PagesInUse: m.PagesInUse, PageTokens: m.PageTokens, PageBytes: m.PageBytes,
		})
	}
	return out
}

// localEngines are the engines of our own that this process knows: its native one and the workers that are configured, by name, as they were last.
func (p *parts) localEngines() []adminapi.LocalEngine {
	var out []adminapi.LocalEngine
	if p.native != nil {
		out = append(out, adminapi.LocalEngine{Name: nativeEngine, Kind: pool.KindNative, State: worker.Ready, Load: p.engineLoad()})
	}
	for _, name := range slices.Sorted(maps.Keys(p.workers)) {
		h := p.workers[name].Health()
		out = append(out, adminapi.LocalEngine{Name: name, Kind: pool.KindWorker, State: h.State, Load: h.Load})
	}
	return out
}

// nativeAdapters lets a gateway manage the adapters of this process. Whether they are callable is the gateway's affair.
type nativeAdapters struct{ p *parts }

// List implements worker.Adapters.
func (n nativeAdapters) List() []worker.Adapter {
	var out []worker.Adapter
	for _, a := range n.p.native.Adapters() {
		out = append(out, worker.Adapter(a))
	}
	return out
}

// Load implements worker.Adapters.
func (n nativeAdapters) Load(ctx context.Context, a worker.NewAdapter) (worker.Adapter, error) {
	loaded, err := n.p.loadAdapterFile(ctx, native.AdapterConfig(a))
	return worker.Adapter(loaded), err
}

// Unload implements worker.Adapters.
func (n nativeAdapters) Unload(id engine.ModelID) error { return n.p.native.UnloadAdapter(id) }

// engineOperations answers the probes of a worker, and what operators may read.
func (p *parts) engineOperations(s *worker.Server) http.Handler {
	e := &edge{parts: p}
	mux := http.NewServeMux()
	mux.Handle("/healthz", readOnly(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	}))
	mux.Handle("/readyz", readOnly(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		state := s.State()
		if state != worker.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(state + "\n"))
	}))
	e.mountOperations(mux)
	return fromOperations(mux)
}
