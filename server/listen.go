package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/gateway"
)

// listen opens a TCP listener, with TLS if cert files are given. A port in use is reported with the remedy.
func listen(ctx context.Context, address string, certFile, keyFile string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: the port is in use; stop the other process or choose another address with --listen", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if certFile == "" {
		return l, nil
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("read TLS certificate (tls.cert_file, tls.key_file): %w", err)
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

// httpServer returns a server with the timeouts that bound slow clients. Answers have no write timeout: a stream lasts as long
// as its generation, and the handler sets a deadline per write.
func httpServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           oneCredential(handler),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // handshake noise of scanners
	}
}

// oneCredential takes away credentials where a request shows two: a proxy in front may have looked at the other one. RFC 9110 knows no list of
// them.
func oneCredential(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Values("Authorization")) > 1 {
			r.Header.Del("Authorization")
		}
		next.ServeHTTP(w, r)
	})
}

// settleTime is how long a request that was cut may take to write its outcome.
const settleTime = 15 * time.Second

// serveHTTP serves l until ctx ends, then drains: no new connections, running requests may finish until the deadline. It returns
// when no handler runs any more, so that what they write on leaving finds the parts open.
func serveHTTP(ctx context.Context, s *http.Server, l net.Listener, drain time.Duration) error {
	var running atomic.Int64
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	s.BaseContext = func(net.Listener) context.Context { return base }
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		next.ServeHTTP(w, r)
	})
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := s.Shutdown(deadline)
	if err == nil {
		err = settled(deadline, &running) // it knows nothing of connections that have become WebSockets
	}
	if err != nil {
		cut(gateway.ErrStopping) // what did not finish; before its connections, whose end would be the caller's
		_ = s.Close()
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer stop()
		_ = settled(last, &running)
		return fmt.Errorf("drain HTTP: %w: requests still ran after %s and were cut", err, drain)
	}
	return nil
}

// settled waits until nothing runs any more, or for the end of the context, which is its error.
func settled(ctx context.Context, running *atomic.Int64) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for running.Load() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
