package server_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/migrations/dbtest"
)

// freeAddress returns an address that nobody listens on: nothing tells which one a server took.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// at sends a request without a body to an address.
func at(t *testing.T, address, path, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestOperations: metrics, profiles and the parts of readiness are for operators; the bare probes are for everybody.
func TestOperations(t *testing.T) {
	t.Parallel()
	own := freeAddress(t)
	const session = "session" // stands for the token of a signed-in administrator
	type ask struct {
		address, path, token string
		status               int
		parts                bool // the answer names parts
	}
	for _, c := range []struct {
		name      string
		overrides map[string]any
		asks      []ask
	}{
		{"neither address nor token", map[string]any{"operations.token": ""}, []ask{
			{"", "/metrics", "", 403, false},
			{"", "/metrics", operationsToken, 403, false},
			{"", "/debug/pprof/", "", 404, false},
			{"", "/readyz", "", 200, false},
			{"", "/readyz", operationsToken, 200, false},
			{"", "/healthz", "", 200, false},
		}},
		{"token", map[string]any{"operations.pprof": true}, []ask{
			{"", "/metrics", "", 401, false},
			{"", "/metrics", "the-operations-tokeN", 401, false},
			{"", "/metrics", session, 401, false},
			{"", "/metrics", operationsToken, 200, false},
			{"", "/readyz", "", 200, false},
			{"", "/readyz", session, 200, false},
			{"", "/readyz", operationsToken, 200, true},
			{"", "/debug/pprof/", "", 401, false},
			{"", "/debug/pprof/cmdline", "", 401, false},
			{"", "/debug/pprof/goroutine", operationsToken, 200, false},
		}},
		{"address", map[string]any{"operations.token": "", "operations.listen": own}, []ask{
			{"", "/metrics", "", 404, false},
			{"", "/readyz", "", 200, false},
			{own, "/metrics", "", 200, false},
			{own, "/readyz", "", 200, true},
			{own, "/healthz", "", 200, false},
			{own, "/debug/pprof/", "", 404, false},
			{own, "/v1/models", "", 404, false},
			{own, "/api/v1/me", "", 404, false},
		}},
		{"address and token", map[string]any{"operations.listen": own}, []ask{
			{own, "/metrics", "", 401, false},
			{own, "/metrics", operationsToken, 200, false},
			{own, "/readyz", "", 200, false},
			{own, "/readyz", operationsToken, 200, true},
			{"", "/readyz", operationsToken, 200, true},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := start(t, setup{overrides: c.overrides})
			for _, a := range c.asks {
				base, err := url.Parse(in.started.BaseURL)
				if err != nil {
					t.Fatal(err)
				}
				address, token := a.address, a.token
				if address == "" {
					address = base.Host
				}
				if token == session {
					token = in.session()
				}
				status, body := at(t, address, a.path, token)
				if status != a.status || strings.Contains(body, `"parts"`) != a.parts {
					t.Errorf("%+v: %d %s", a, status, body)
				}
				if status >= 400 && strings.Contains(body, "sluice_") {
					t.Errorf("%+v is refused and shows %s", a, body)
				}
			}
		})
	}
}

// cuttable passes connections on to a socket until it is cut, and again when it is mended.
type cuttable struct {
	net.Listener

	socket string
	mu     sync.Mutex
	cut    bool
	open   []net.Conn
}

func (p *cuttable) run() {
	for {
		from, err := p.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		to, err := net.Dial("unix", p.socket)
		if p.cut || err != nil {
			_ = from.Close()
			p.mu.Unlock()
			continue
		}
		p.open = append(p.open, from, to)
		p.mu.Unlock()
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

func (p *cuttable) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut = cut; cut {
		for _, c := range p.open {
			_ = c.Close()
		}
		p.open = nil
	}
}

// TestDatabaseOutageDrainsNobody: while the write-ahead log has room a database that is away makes no replica unready, requests are answered
// and recorded, and the probe says which part is degraded.
func TestDatabaseOutageDrainsNobody(t *testing.T) {
	t.Parallel()
	direct, err := url.Parse(dbtest.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cuttable{Listener: l, socket: filepath.Join(direct.Query().Get("host"), ".s.PGSQL.5432")}
	go p.run()
	t.Cleanup(func() { _ = l.Close() })
	through := *direct
	through.Host, through.RawQuery = l.Addr().String(), "sslmode=disable"

	in := start(t, setup{database: through.String()})
	chat := func(text string) reply {
		return in.chat(map[string]any{"model": "scripted", "messages": []map[string]string{{"role": "user", "content": text}}})
	}
	before := chat("before")
	if r := before; r.status != http.StatusOK { // takes a budget lease that the outage is bridged with
		t.Fatalf("before the outage: %d %s", r.status, r.body)
	}
	state := func() (status int, database string) {
		status, body := at(t, strings.TrimPrefix(strings.TrimSuffix(in.started.BaseURL, "/v1"), "http://"), "/readyz", operationsToken)
		var answer struct {
			Parts []struct{ Name, Status string }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		for _, part := range answer.Parts {
			if part.Name == "database" {
				database = part.Status
			}
		}
		return status, database
	}
	p.set(true)
	eventually(t, "the probe to see the outage", func() bool { _, database := state(); return database == "degraded" })
	if status, _ := state(); status != http.StatusOK {
		t.Errorf("the outage drains the replica: %d", status)
	}
	during := chat("during")
	if r := during; r.status != http.StatusOK {
		t.Errorf("during the outage: %d %s", r.status, r.body)
	}
	p.set(false)
	eventually(t, "the database to be back", func() bool { status, database := state(); return status == http.StatusOK && database == "ok" })
	for _, r := range []reply{before, during} {
		if got := in.records(r.header.Get("X-Request-Id"), 2); got[1].Outcome != "ok" {
			t.Errorf("%+v", got)
		}
	}
}
