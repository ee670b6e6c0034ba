package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/config"
)

// installation is a running server that a test speaks to over HTTP, with a scripted engine as its upstream.
type installation struct {
	t        *testing.T
	dir      string
	started  server.Started
	scripted *enginetest.Scripted
	logs     *lockedBuffer
	upstream *httptest.Server
	stop     func() error
	cfg      *config.Config
	token    string // of the administrator
	from     string // where a proxy says that requests come from; "": it says nothing
}

// setup says what differs from the plain installation.
type setup struct {
	dir       string // data directory; "" makes one
	database  string // URL; "" is SQLite
	plan      func(n int, req *engine.Request) enginetest.Plan
	models    []engine.Model
	remote    string // YAML list of the upstream's models; "" lists models by their ids
	extra     string // YAML appended to the configuration
	upstream  func(u *enginetest.Upstream)
	wire      func(next http.Handler) http.Handler // sees what goes to the upstream
	keyFile   string                               // where the upstream's key is; "": it has none
	retrieval bool                                 // with the real embedding model; the test is skipped without it

	overrides map[string]any // of the configuration, as the command line's
}

// operationsToken reads the metrics of every installation under test.
const operationsToken = "the-operations-token"

// start runs a server in this process on a free port, as `sluice up` does.
func start(t *testing.T, s setup) *installation {
	t.Helper()
	in := &installation{t: t, dir: s.dir, logs: &lockedBuffer{}}
	if in.dir == "" {
		in.dir = t.TempDir()
	}
	in.scripted = enginetest.NewScripted(s.plan, s.models...)
	up := &enginetest.Upstream{Engine: in.scripted}
	if s.upstream != nil {
		s.upstream(up)
	}
	handler := http.Handler(up)
	if s.wire != nil {
		handler = s.wire(up)
	}
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)
	in.upstream = upstream

	overrides := map[string]any{
		"data": filepath.Join(in.dir, "data"), "listen": "127.0.0.1:0", "workflows.enabled": false, "console": false,
		"operations.token": operationsToken,
	}
	if s.database != "" {
		overrides["database.url"] = s.database
	} else if s.dir == "" { // a new installation
		if err := os.MkdirAll(filepath.Join(in.dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		dbtest.SQLiteFile(t, filepath.Join(in.dir, "data", "sluice.db"))
	}
	maps.Copy(overrides, s.overrides)
	names := "[{id: scripted}]"
	if len(s.models) > 0 {
		var ids []string
		for _, m := range s.models {
			ids = append(ids, "{id: "+string(m.ID)+"}")
		}
		names = "[" + strings.Join(ids, ", ") + "]"
	}
	if s.remote != "" {
		names = s.remote
	}
	native, embedding := "", `""`
	if s.retrieval {
		native = fmt.Sprintf("{id: %s, path: %q}", testmodel.E5ID, testmodel.Path(t, testmodel.E5))
		embedding = testmodel.E5ID
	}
	key := ""
	if s.keyFile != "" {
		key = "api_key: 'file:" + s.keyFile + "', "
	}
	file := filepath.Join(in.dir, "sluice.yaml")
	text := fmt.Sprintf(`engines:
  native: {models: [%s]}
  remote:
    - {name: upstream, base_url: "%s/v1", %sallow_private: [127.0.0.1/32], models: %s}
rag: {embedding_model: %s}
%s`, native, upstream.URL, key, names, embedding, s.extra)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil, overrides)
	if err != nil {
		t.Fatal(err)
	}
	in.run(cfg)
	return in
}

// restart stops the server and starts it on the same data. The secrets of the first start stay valid.
func (in *installation) restart() {
	in.t.Helper()
	if err := in.stop(); err != nil {
		in.t.Fatalf("stop: %v", err)
	}
	welcome := in.started.Welcome
	in.run(in.cfg)
	in.started.Welcome = welcome
}

// run serves cfg until the test ends or stop is called.
func (in *installation) run(cfg *config.Config) {
	in.t.Helper()
	in.cfg = cfg
	cfg.Identity.PasswordCost = identity.PasswordCost{MemoryKiB: 64, Passes: 1} // the product's would be a fifth of the time of all tests
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan server.Started, 1), make(chan error, 1)
	go func() {
		done <- server.Run(ctx, cfg, server.Options{
			Version: "test", Setup: true, Log: slog.New(slog.NewJSONHandler(in.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Ready: func(s server.Started) error { ready <- s; return nil },
		})
	}()
	in.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	in.t.Cleanup(func() {
		if err := in.stop(); err != nil {
			in.t.Errorf("stop: %v", err)
		}
	})
	select {
	case in.started = <-ready:
	case err := <-done:
		done <- err
		in.t.Fatalf("the server did not start: %v", err)
	case <-time.After(2 * time.Minute):
		in.t.Fatal("the server did not start in two minutes")
	}
}

// reply is an HTTP answer read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send sends one request. A nil body sends none; a string is sent as it is, anything else as JSON.
func (in *installation) send(method, path, credential string, body any, header ...string) reply {
	in.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			in.t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(in.t.Context(), method, strings.TrimSuffix(in.started.BaseURL, "/v1")+path, reader)
	if err != nil {
		in.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	if in.from != "" {
		req.Header.Set("X-Forwarded-For", in.from)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		in.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		in.t.Fatal(err)
	}
	conform(in.t, req, res, raw)
	return reply{status: res.StatusCode, header: res.Header, body: raw}
}

// chat asks with the first key.
func (in *installation) chat(body any) reply {
	in.t.Helper()
	return in.send(http.MethodPost, "/v1/chat/completions", in.started.Welcome.APIKey.Reveal(), body)
}

// admin calls the management API as the administrator and decodes the answer into out.
func (in *installation) admin(method, path string, body, out any) reply {
	in.t.Helper()
	if in.token == "" {
		in.signInFirst()
	}
	r := in.send(method, "/api/v1"+path, in.token, body)
	if out != nil {
		r.decode(in.t, out)
	}
	return r
}

// adminPassword is what the administrator of an installation under test changes the one of the first start to.
const adminPassword = "seven tundra kettles hum"

// signInFirst signs the administrator in, who has to change the password of the first start.
func (in *installation) signInFirst() {
	in.t.Helper()
	w := &in.started.Welcome
	var s struct {
		AccessToken string `json:"access_token"`
	}
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": w.AdminUser, "password": w.AdminPassword.Reveal()}).decode(in.t, &s)
	if first := w.AdminPassword.Reveal(); first != adminPassword {
		body := map[string]string{"current_password": first, "new_password": adminPassword}
		in.send(http.MethodPost, "/api/v1/me/password", s.AccessToken, body).decode(in.t, &s)
		w.AdminPassword = adminPassword
	}
	in.token = s.AccessToken
}

// decode reads a successful JSON answer.
func (r reply) decode(t *testing.T, out any) {
	t.Helper()
	if r.status >= http.StatusMultipleChoices {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if err := json.Unmarshal(r.body, out); err != nil {
		t.Fatalf("decode %s: %v", r.body, err)
	}
}

// auditEvent is what the tests look at in a record.
type auditEvent struct {
	ID, Request, Stage, Tenant, Action, Outcome string
	ErrorCode                                   string `json:"error_code"`
	Findings                                    []struct {
		Direction, Class, Action string
		Count                    int
	}
	Actor  struct{ Kind, ID, Name string }
	Detail map[string]string
	Usage  struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		Cost             int64
	}
	raw json.RawMessage
}

// records returns the audit records of a request, oldest first, once there are at least n of them.
func (in *installation) records(request string, n int) []auditEvent {
	in.t.Helper()
	var out []auditEvent
	eventually(in.t, fmt.Sprintf("%d audit records of request %s", n, request), func() bool {
		var page struct {
			Items []struct{ Event json.RawMessage }
		}
		in.admin(http.MethodGet, "/audit/records?limit=200&request="+request, nil, &page)
		out = nil
		for _, item := range page.Items {
			e := auditEvent{raw: item.Event}
			if err := json.Unmarshal(item.Event, &e); err != nil {
				in.t.Fatal(err)
			}
			out = append([]auditEvent{e}, out...)
		}
		return len(out) >= n
	})
	return out
}

// eachRecord goes through all audit records of a query that can be searched now. whole is a record as it is shown.
func (in *installation) eachRecord(query string, do func(e auditEvent, whole json.RawMessage)) {
	in.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items []json.RawMessage
			Next  string
		}
		in.admin(http.MethodGet, "/audit/records?limit=200&"+query+"&cursor="+cursor, nil, &page)
		for _, item := range page.Items {
			var record struct{ Event auditEvent }
			if err := json.Unmarshal(item, &record); err != nil {
				in.t.Fatal(err)
			}
			do(record.Event, item)
		}
		if cursor = page.Next; cursor == "" {
			return
		}
	}
}

// usageTotal is the total of the usage report.
type usageTotal struct {
	Requests         int64
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CostNano         int64 `json:"cost_nano"`
}

func (in *installation) usage(query string) usageTotal {
	in.t.Helper()
	var report struct{ Total usageTotal }
	in.admin(http.MethodGet, "/usage"+query, nil, &report)
	return report.Total
}

// verification is a finished check of the audit log.
type verification struct {
	ID     string
	Status string
	Report struct {
		OK       bool
		Records  int64
		Sealed   int64
		Problems []struct{ Kind, Record, Cause string }
		Findings []struct{ Kind, Record, Cause string }
	}
}

func (in *installation) verify() verification {
	in.t.Helper()
	var job struct{ ID string }
	in.admin(http.MethodPost, "/audit/verifications", nil, &job)
	var v verification
	eventually(in.t, "the verification to finish", func() bool {
		in.admin(http.MethodGet, "/audit/verifications/"+job.ID, nil, &v)
		return v.Status != "running"
	})
	v.ID = job.ID
	return v
}

// eventually polls until ok or the deadline. What is awaited is another process's or goroutine's work behind HTTP, so there is no
// signal to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// lockedBuffer collects logs of several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
