package server_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

// relay is a syslog receiver on this machine that keeps what it reads.
type relay struct {
	mu  sync.Mutex
	got strings.Builder
}

func (r *relay) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got.String()
}

func (r *relay) listen(t *testing.T, address string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			raw, _ := io.ReadAll(c)
			r.mu.Lock()
			r.got.Write(raw)
			r.mu.Unlock()
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// TestSecurityMonitoring: what is recorded reaches security monitoring once it listens; until then the parts, the status, the command and the
// metrics say so. No text goes with it.
func TestSecurityMonitoring(t *testing.T) {
	t.Parallel()
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	in := start(t, setup{extra: "audit: {siem: [{name: soc, address: 'tcp://" + address + "', history: true, host: gw-1}]}\n"})
	r := in.chat(map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "planted-words and 13800138000"}}})
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	status := func() adminapi.MonitoringDestination {
		var s adminapi.AuditStatus
		in.admin(http.MethodGet, "/audit/status", nil, &s)
		if s.Siem == nil || len(*s.Siem) != 1 {
			t.Fatalf("%+v", s)
		}
		return (*s.Siem)[0]
	}
	eventually(t, "the failure to be told", func() bool { s := status(); return s.FailedSince != nil && s.Failure != nil && s.Behind > 0 })
	eventually(t, "the part to be degraded", func() bool {
		text := string(in.send(http.MethodGet, "/readyz", operationsToken, nil).body)
		return strings.Contains(text, `{"name":"siem","status":"degraded"}`) && strings.Contains(text, `"ready":true`)
	})
	listed, err := server.SIEMStatus(t.Context(), in.cfg, slog.New(slog.DiscardHandler))
	if err != nil || len(listed) != 1 || listed[0].Failure == nil || listed[0].Next != 0 || listed[0].Behind == 0 || !strings.Contains(*listed[0].Failure, "refused") {
		t.Errorf("the command says %+v, %v", listed, err)
	}
	if text := string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body); strings.Contains(text, `sluice_audit_siem_failures_total{channel="soc"} 0`) || strings.Contains(text, `sluice_audit_siem_behind_records{channel="soc"} 0`) {
		t.Error("the metrics tell nothing")
	}

	var got relay
	got.listen(t, address)
	eventually(t, "the request to arrive", func() bool {
		return strings.Contains(got.text(), `"operation":"chat.completions"`) && strings.Contains(got.text(), `"event_code":"outcome"`)
	})
	eventually(t, "all to be confirmed", func() bool {
		s := status()
		return s.Failure == nil && s.FailedSince == nil && s.ConfirmedAt != nil && s.Skipped == 0
	})
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	text := got.text()
	for _, want := range []string{" gw-1 sluice - outcome ", `"class_uid":6003`, `"version":"test"`, "installation.setup"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %.600s", want, text)
		}
	}
	for _, planted := range []string{"planted-words", "13800138000", in.started.Welcome.APIKey.Reveal(), "prompt_digest"} {
		if strings.Contains(text, planted) {
			t.Errorf("%q went to security monitoring", planted)
		}
	}
}
