package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/gateway"
)

// TestUpgradedConnectionsAreDrained: a server that stops waits for handlers that have taken their connection over, as WebSockets do, and ends the
// contexts of those that go on past the time to drain.
func TestUpgradedConnectionsAreDrained(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]bool{"finishes": false, "is cut": true} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		taken, release, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		s := httpServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			close(taken)
			select {
			case <-release:
			case <-r.Context().Done():
			}
			left <- context.Cause(r.Context())
		}), slog.New(slog.DiscardHandler))
		drain := time.Minute
		if cut {
			drain = time.Millisecond
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- serveHTTP(ctx, s, l, drain) }()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-taken
		stop()
		if !cut {
			select {
			case err := <-stopped:
				t.Fatalf("%s: the server stopped first: %v", name, err)
			case <-time.After(50 * time.Millisecond): // it must not; nothing says that it never will
			}
			close(release)
		}
		if err := <-left; errors.Is(err, gateway.ErrStopping) != cut {
			t.Errorf("%s: the context of the handler: %v", name, err)
		}
		if err := <-stopped; (err != nil && strings.Contains(err.Error(), "were cut")) != cut {
			t.Errorf("%s: %v", name, err)
		}
	}
}
