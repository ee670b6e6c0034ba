package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pendingRequest is a request whose body is sent when the test says so.
type pendingRequest struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (in *installation) begin(path, credential string, length int) *pendingRequest {
	in.t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(in.started.BaseURL, "http://"), "/v1")
	conn, err := new(net.Dialer).DialContext(in.t.Context(), "tcp", address)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	p := &pendingRequest{in.t, conn, bufio.NewReader(conn)}
	p.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nAuthorization: Bearer %s\r\n\r\n", path, length, credential))
	return p
}

func (p *pendingRequest) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pendingRequest) answer() (resp *http.Response, body string) {
	p.t.Helper()
	resp, err := http.ReadResponse(p.in, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(b)
}

// TestManagementBodies: who may not do an act is refused before his body is sent; bodies of the management API count as they arrive, for their
// caller, his tenant and all, together with those of the other plane, and are given back.
func TestManagementBodies(t *testing.T) {
	in := start(t, setup{overrides: map[string]any{
		"http.max_body_bytes": 50_000, "http.max_in_flight_bytes": 400_000, "http.max_in_flight_per_tenant": 100_000, "http.max_in_flight_per_key": 60_000,
	}})
	const documents = "/api/v1/rag/collections/some/documents"
	admin, auditor := in.signIn("platform_admin"), in.signIn("auditor")
	refused := func(p *pendingRequest, status int, words ...string) {
		t.Helper()
		resp, body := p.answer()
		for _, w := range words {
			if !strings.Contains(body, w) {
				t.Errorf("the answer does not say %q: %s", w, body)
			}
		}
		if resp.StatusCode != status || !resp.Close || status == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %s, closes: %v, %v", resp.StatusCode, body, resp.Close, resp.Header)
		}
	}
	refused(in.begin(documents, auditor, 50_000), http.StatusForbidden, "rag.write")
	eventually(t, "the refusal's record", func() bool {
		found := false
		in.eachRecord("stage=outcome&action=admin.ingestDocument", func(e auditEvent, _ json.RawMessage) { found = found || e.Outcome == "refused" })
		return found
	})
	refused(in.begin(documents, "nobody", 50_000), http.StatusUnauthorized)
	refused(in.begin("/api/v1/session", "", 20_000), http.StatusRequestEntityTooLarge, "16384")
	refused(in.begin(documents, admin, 60_001), http.StatusRequestEntityTooLarge, "60000")

	slow := in.begin(documents, admin, 55_000)
	slow.send(strings.Repeat(" ", 52_000))
	eventually(t, "the body to arrive", func() bool { return in.gauge("sluice_http_body_bytes") == "52000" })
	refused(in.begin(documents, admin, 10_000), http.StatusTooManyRequests, "bytes_in_flight_limit_exceeded", "60000")
	refused(in.begin("/v1/chat/completions", in.started.Welcome.APIKey.Reveal(), 49_000), http.StatusTooManyRequests, "bytes_in_flight_limit_exceeded", "100000")
	if r := in.chat(map[string]any{"model": "scripted", "messages": []map[string]string{{"role": "user", "content": "short"}}}); r.status != http.StatusOK {
		t.Errorf("what fits is not answered: %d %s", r.status, r.body)
	}
	slow.send(strings.Repeat(" ", 3_000))
	if resp, body := slow.answer(); resp.StatusCode < 400 || resp.StatusCode == http.StatusTooManyRequests {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	eventually(t, "the bytes to be given back", func() bool { return in.gauge("sluice_http_body_bytes") == "0" })
}
