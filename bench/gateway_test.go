package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance"
)

// TestSetups: names stand for policies that can be published, and only the cheapest setup has no bounds.
func TestSetups(t *testing.T) {
	t.Chdir("..")
	own := t.TempDir() + "/answer-first.yaml"
	if err := os.WriteFile(own, []byte("of one's own"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := setups("governed,audit-only," + own)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got {
		names = append(names, fmt.Sprintf("%s %t %t", s.name, s.bounds, s.policy != ""))
	}
	if want := []string{"governed true false", "audit-only false true", "answer-first true true"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if got[2].policy != "of one's own" {
		t.Errorf("%q", got[2].policy)
	}
	if err := new(governance.Guard).Validate([]byte(got[1].policy)); err != nil {
		t.Errorf("%s: %v", got[1].name, err)
	}
	for _, list := range []string{"", "governed,", "nobody", "../governed"} {
		if _, err := setups(list); err == nil {
			t.Errorf("%q was taken", list)
		}
	}
}

// TestBounds: requests with large bodies would reach the limit of tokens, so they have none.
func TestBounds(t *testing.T) {
	t.Parallel()
	if b := bounds(true, true); strings.Count(b, "tokens_per_minute") != 2 {
		t.Error(b)
	}
	if b := bounds(true, false); strings.Count(b, "tokens_per_minute: 0}") != 2 || strings.Count(b, "concurrent: 10000") != 2 {
		t.Error(b)
	}
}

func TestHeadersOf(t *testing.T) {
	t.Parallel()
	got, err := headersOf("x-provider: openai\nx-host: http://127.0.0.1:1/v1\n")
	if err != nil || len(got) != 2 || got["x-provider"] != "openai" || got["x-host"] != "http://127.0.0.1:1/v1" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := headersOf(""); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for _, lines := range []string{"no header\n", ": value\n", "a: b\n\nc: d\n"} {
		if _, err := headersOf(lines); err == nil {
			t.Errorf("%q was taken", lines)
		}
	}
}

// TestReportLoads: each setup is compared with each peer, and with nothing else; the disk stands beside the row that it decides.
func TestReportLoads(t *testing.T) {
	t.Parallel()
	side := func(name string, ours bool, rates, cpu []float64) *gatewaySide {
		return &gatewaySide{target: target{name: name}, ours: ours, row: gatewayRow{rates: rates, cpu: cpu, shipped: []float64{.3}, sealed: []float64{.9}}}
	}
	var b strings.Builder
	reportLoads(&b, 1, []float64{1000}, []float64{.2}, []*gatewaySide{
		side("governed", true, []float64{300, 400}, []float64{1, 2}),
		side("audit-only", true, []float64{600, 600}, []float64{1, 1}),
		side("other", false, []float64{100, 200}, []float64{4, 4}),
	})
	for _, want := range []string{
		"governed ÷ other: requests/s 3.000 (2.000…3.000), CPU 0.500 (0.250…0.500)",
		"audit-only ÷ other: requests/s 6.000 (3.000…6.000), CPU 0.250 (0.250…0.250)",
		"one write and sync of 600 bytes, ms: 0.200",
		"audit-only: all in the database after s: 0.300 (0.300…0.300), sealed after s: 0.900 (0.900…0.900)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), "÷") != 2 || strings.Contains(b.String(), "other: all in") {
		t.Error(b.String())
	}
	b.Reset()
	reportLoads(&b, 16, nil, nil, nil)
	if strings.Contains(b.String(), "disk") {
		t.Error(b.String())
	}
}

// TestRush: every request of a crowd is counted once, as what its client saw.
func TestRush(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	replies := []func(w http.ResponseWriter, r *http.Request){
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { // breaks off
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{}")
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" || r.Header.Get("X-Own") != "1" {
			t.Errorf("%v", r.Header)
		}
		if b, err := io.ReadAll(r.Body); err != nil || string(b) != "body" {
			t.Errorf("%q, %v", b, err)
		}
		replies[(n.Add(1)-1)%int64(len(replies))](w, r)
	}))
	defer s.Close()
	to := target{url: s.URL, dialect: chat(), key: "key", headers: map[string]string{"X-Own": "1"}}
	got := crowd{seconds: 1}
	for range replies {
		got.add(send(t.Context(), hostOf(to), request(to, []byte("body")), nil))
	}
	if got.answered != 1 || got.limited != 1 || got.overloaded != 1 || got.lost != 3 || got.last == nil {
		t.Errorf("%v", got)
	}
	before := n.Load()
	all := rush(t.Context(), to, 3, 50*time.Millisecond, []byte("body"))
	if sum := all.answered + all.limited + all.overloaded + all.lost; int64(sum) != n.Load()-before || sum == 0 {
		t.Errorf("%d requests counted, %d sent", sum, n.Load()-before)
	}
	s.Close()
	if gone := rush(t.Context(), to, 2, time.Minute, []byte("body")); gone.lost != 20 {
		t.Errorf("nobody listens: %v", gone)
	}
}

// TestRushOfTheRefused: an answer that came before the body was sent is an answer.
func TestRushOfTheRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer s.Close()
	ended := make(chan struct{})
	close(ended) // nobody waits for an hour
	to := target{url: s.URL, dialect: chat()}
	if got := send(t.Context(), hostOf(to), request(to, make([]byte, 16<<20)), ended); got.limited != 1 || got.lost != 0 {
		t.Errorf("%v", got)
	}
}

func TestFiller(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(filler(150_000))
	if err != nil || len(raw) < 149_000 || len(raw) > 151_000 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if !strings.HasPrefix(filler(1), prompt) {
		t.Error(filler(1))
	}
}

// TestDialects: every dialect is asked for the same text and the same bound, and its path is one that Sluice has.
func TestDialects(t *testing.T) {
	t.Parallel()
	all, err := dialectsOf("chat,messages,responses,responses-kept,ollama")
	if err != nil || len(all) != len(dialects()) {
		t.Fatalf("%d dialects, %v", len(all), err)
	}
	for _, d := range all {
		for _, stream := range []bool{false, true} {
			b := string(d.body("what is asked", stream))
			for _, part := range []string{`"what is asked"`, `:64`, fmt.Sprintf(`"stream":%t`, stream), `"model":"scripted"`} {
				if !strings.Contains(b, part) {
					t.Errorf("%s: %s lacks %s", d.name, b, part)
				}
			}
		}
	}
	for _, list := range []string{"", "chat,", "soap"} {
		if _, err := dialectsOf(list); err == nil {
			t.Errorf("%q was taken", list)
		}
	}
	side := (&instance{target: target{name: setupGoverned}, pid: 7}).speaking(all[1])
	if side.name != "governed/messages" || side.pid != 7 || !side.ours || side.dialect.path != "/v1/messages" {
		t.Errorf("%+v", side.target)
	}
}
