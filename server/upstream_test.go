package server_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDeadUpstream: when an upstream is away its models are unavailable, and the part says so; when it is back, they are ready again, without
// a request that tried.
func TestDeadUpstream(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	key := in.started.Welcome.APIKey.Reveal()
	models := func() string { return string(in.send(http.MethodGet, "/v1/models", key, nil).body) }
	parts := func() string { return string(in.send(http.MethodGet, "/readyz", operationsToken, nil).body) }
	if m := models(); !strings.Contains(m, `"id":"scripted"`) || !strings.Contains(m, `"status":"ready"`) {
		t.Fatal(m)
	}
	handler, address := in.upstream.Config.Handler, in.upstream.Listener.Addr().String()
	in.upstream.Close()
	eventually(t, "the models to be unavailable", func() bool { return strings.Contains(models(), `"status":"unavailable"`) })
	eventually(t, "the part to be degraded", func() bool { return strings.Contains(parts(), `{"name":"engine upstream","status":"degraded"}`) })
	r := in.chat(map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}})
	checkRefusal(t, r, http.StatusServiceUnavailable, "server_error", "engine_unavailable", "", "")
	if log := in.logs.String(); strings.Contains(log, "panic") {
		t.Error(log)
	}

	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	back := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = back.Serve(l) }()
	t.Cleanup(func() { _ = back.Close() })
	eventually(t, "the models to be ready", func() bool {
		return strings.Contains(models(), `"status":"ready"`) && strings.Contains(parts(), `{"name":"engine upstream","status":"ok"}`)
	})
	if r := in.chat(map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}}); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
}
