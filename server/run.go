package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server/config"
)

// Options are what the command line decides beside the configuration.
type Options struct {
	Version string
	// Setup makes this a `sluice up`: directories, key, schema and first contents are created when missing. Without it they must
	// exist.
	Setup bool
	Log   *slog.Logger
	// Ready is called once the listeners accept requests; an error ends the server.
	Ready func(Started) error
}

// Started says how to reach a server that is ready.
type Started struct {
	BaseURL    string // of the business API, with /v1
	ConsoleURL string // "" without the console
	Welcome    Welcome
	Model      string // a model to try, "" if none generates
	Inference  string // address of the Open Inference Protocol over gRPC, "" without
	Duties     identity.Duties
}

// Run builds an installation and serves it until ctx ends; then it drains: readiness fails, no connection is accepted, running
// requests finish or are cut at the deadline, loops stop, the audit log is flushed, everything is closed. It returns nil after a
// clean stop.
func Run(ctx context.Context, cfg *config.Config, opts Options) (err error) {
	// The listeners come first: a port in use is found before anything else is done.
	main, err := listen(ctx, cfg.Listen, cfg.TLS.CertFile, cfg.TLS.KeyFile)
	if err != nil {
		return err
	}
	defer func() { _ = main.Close() }()
	var admin, operations, inference net.Listener
	for _, own := range []struct {
		address string
		l       *net.Listener
	}{{cfg.AdminListen, &admin}, {cfg.Operations.Listen, &operations}, {cfg.InferenceListen, &inference}} {
		if own.address == "" {
			continue
		}
		if *own.l, err = listen(ctx, own.address, cfg.TLS.CertFile, cfg.TLS.KeyFile); err != nil {
			return err
		}
		defer func() { _ = (*own.l).Close() }()
	}

	var keys *keyring.Ring
	if opts.Setup {
		keys, err = prepare(ctx, cfg)
	} else {
		keys, err = openKeys(ctx, cfg)
	}
	if err != nil {
		return err
	}
	p, err := build(ctx, cfg, keys, opts.Version, opts.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	var welcome Welcome
	if opts.Setup {
		welcome, err = p.bootstrap(ctx)
	} else {
		err = p.checkDuties()
	}
	if err != nil {
		return err
	}
	if err := p.recordRecovery(ctx); err != nil {
		return err
	}
	duties, err := p.identity.Duties()
	if err != nil {
		return err
	}
	if duties == identity.DutiesMerged {
		p.log.LogAttrs(ctx, slog.LevelWarn, "the duties of administrators are merged in one account; `sluice duties split` separates them")
	}
	edge, err := newEdge(p, opts.Version, addresses{main: baseURL(cfg, main), admin: adminURL(cfg, main, admin)}) //nolint:contextcheck // every request brings its own
	if err != nil {
		return err
	}
	served := []listener{{handler: edge.main, at: main}, {handler: edge.admin, at: admin}, {handler: edge.operations, at: operations}, {handler: edge.inference, at: inference, rpc: true}}
	return p.serve(ctx, edge, served, func() error {
		rpc := ""
		if inference != nil {
			rpc = inference.Addr().String()
		}
		return opts.Ready(Started{
			Inference: rpc,
			BaseURL:   edge.addresses.main + "/v1", ConsoleURL: edge.consoleURL(), Welcome: welcome, Model: edge.exampleModel(ctx), Duties: duties,
		})
	})
}

// listener is an address and what answers there; handler is nil where there is none.
type listener struct {
	handler http.Handler
	at      net.Listener
	rpc     bool // speaks HTTP/2 and nothing else, without TLS, too
}

// serve runs listeners and loops until ctx ends or one of them fails, then drains in order.
func (p *parts) serve(ctx context.Context, edge *edge, served []listener, ready func() error) error {
	loopCtx, stopLoops := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoops()
	serveCtx, stopServing := context.WithCancel(ctx)
	defer stopServing()

	debug.FreeOSMemory() // migrations, hashed passwords and tables that were read leave more garbage than requests for a while

	var loops errgroup.Group
	for _, l := range p.loops() {
		loops.Go(func() error {
			err := l.run(loopCtx)
			if errors.Is(err, context.Canceled) && loopCtx.Err() != nil {
				err = nil // it was told to stop
			}
			if err == nil {
				return nil
			}
			stopServing() // a part that cannot go on ends the process: a supervisor restarts it whole
			return fmt.Errorf("%s: %w", l.name, err)
		})
	}
	var listeners errgroup.Group
	for _, l := range served {
		if l.handler == nil {
			continue
		}
		listeners.Go(func() error {
			defer stopServing()
			s := httpServer(l.handler, p.log)
			if l.rpc {
				s.Protocols = &http.Protocols{}
				s.Protocols.SetHTTP2(true)
				s.Protocols.SetUnencryptedHTTP2(true)
			}
			return serveHTTP(serveCtx, s, l.at, p.cfg.DrainTimeout)
		})
	}
	context.AfterFunc(serveCtx, edge.drain)
	readyErr := ready()
	if readyErr != nil {
		stopServing()
	}

	lerr := errors.Join(readyErr, listeners.Wait())
	p.pipeline.Drain() // records that nobody waited for
	p.log.LogAttrs(ctx, slog.LevelInfo, "requests drained, stopping")
	flushed := p.flushAudit(ctx)
	stopLoops()
	lerr = errors.Join(lerr, loops.Wait())
	if flushed { // batches have asked on until then
		p.pipeline.Drain()
		p.flushAudit(ctx)
	}
	return lerr
}

// flushAudit brings what waits in the write-ahead log into the database, and reports whether that is done.
func (p *parts) flushAudit(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := p.audit.Flush(ctx)
	if err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "records wait in the write-ahead log for the next start", slog.String("error", err.Error()))
	}
	return err == nil
}

func baseURL(cfg *config.Config, l net.Listener) string {
	if cfg.PublicURL != "" {
		return cfg.PublicURL
	}
	return localURL(cfg, l)
}

func adminURL(cfg *config.Config, main, admin net.Listener) string {
	switch {
	case admin == nil:
		return baseURL(cfg, main)
	case cfg.AdminURL != "":
		return cfg.AdminURL
	}
	return localURL(cfg, admin)
}

func localURL(cfg *config.Config, l net.Listener) string {
	scheme := "http"
	if cfg.TLS.CertFile != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return scheme + "://" + l.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
