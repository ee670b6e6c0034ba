package audit

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
)

// link is a network between a log and a PostgreSQL server, which can be in three states.
type link struct {
	server *url.URL
	socket string // directory of the socket that clients connect to

	mu    sync.Mutex
	state linkState
	conns map[net.Conn]bool // both ends of every connection
}

type linkState int

const (
	forward linkState = iota
	refuse            // connections are cut, new ones are refused
	swallow           // connections stay, and what is sent over them disappears; new ones, too
)

// newLink listens in front of the server at rawURL, with a migrated database.
func newLink(t *testing.T, rawURL string) *link {
	t.Helper()
	direct, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(rawURL), MaxConnections: 1})
	must(t, err)
	_, err = migrations.Apply(t.Context(), direct)
	must(t, err)
	must(t, database.Close(direct))
	u, err := url.Parse(rawURL)
	must(t, err)
	w := &link{server: u, socket: t.TempDir(), conns: map[net.Conn]bool{}}
	in, err := net.Listen("unix", filepath.Join(w.socket, ".s.PGSQL.5432"))
	must(t, err)
	t.Cleanup(func() {
		_ = in.Close()
		w.set(refuse)
	})
	go func() {
		for {
			c, err := in.Accept()
			if err != nil {
				return
			}
			w.carry(c)
		}
	}()
	return w
}

// address is where the server listens.
func (w *link) address() (network, address string) {
	if dir := w.server.Query().Get("host"); dir != "" {
		return "unix", filepath.Join(dir, ".s.PGSQL.5432")
	}
	port := w.server.Port()
	if port == "" {
		port = "5432"
	}
	return "tcp", net.JoinHostPort(w.server.Hostname(), port)
}

// open returns a handle on the database over this link.
func (w *link) open(t *testing.T) *gorm.DB {
	t.Helper()
	u := *w.server
	q := u.Query()
	q.Set("host", w.socket)
	q.Set("port", "5432")
	u.Host, u.RawQuery = "", q.Encode()
	db, err := database.Open(context.Background(), database.Config{URL: keyring.Inline(u.String()), MaxConnections: 4})
	must(t, err)
	t.Cleanup(func() { _ = database.Close(db) })
	return db
}

// set changes the state. Connections that swallowed something are of no use afterwards, so they are cut when the state changes back.
func (w *link) set(state linkState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	if state == swallow {
		return
	}
	for c := range w.conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

func (w *link) carry(client net.Conn) {
	network, address := w.address()
	server, err := net.Dial(network, address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.state == refuse {
		_ = client.Close()
		if server != nil {
			_ = server.Close()
		}
		return
	}
	w.conns[client], w.conns[server] = true, true
	go w.copy(server, client)
	go w.copy(client, server)
}

// copy carries bytes one way until an end is closed.
func (w *link) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			_ = to.Close()
			return
		}
		w.mu.Lock()
		swallowing := w.state == swallow
		w.mu.Unlock()
		if swallowing {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			_ = from.Close()
			return
		}
	}
}
