package server_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

// faulty is an upstream that breaks at its third request.
type faulty struct {
	next  http.Handler
	fails func(f *faulty, w http.ResponseWriter, r *http.Request)
	left  atomic.Int64 // requests until it breaks
	s     *httptest.Server

	mu   sync.Mutex
	held []net.Conn
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	generates := r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/")
	switch {
	case generates && f.left.Add(-1) < 0:
		f.fails(f, w, r)
	case r.URL.Path == "/health":
		w.WriteHeader(http.StatusOK)
	default:
		f.next.ServeHTTP(w, r)
	}
}

func (f *faulty) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.held {
		_ = c.Close()
	}
	f.s.CloseClientConnections()
	f.s.Close()
}

// events sends an answer in pieces, and breaks off.
func (f *faulty) events(w http.ResponseWriter, lines ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, l := range lines {
		_, _ = io.WriteString(w, "data: "+l+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// The faults, with what clients may see of them: how many requests of each model may fail, and with which code.
var upstreamFaults = []struct {
	name  string
	fails func(f *faulty, w http.ResponseWriter, r *http.Request)
	most  int
	code  fault.Code
}{
	{name: "kill", fails: func(f *faulty, _ http.ResponseWriter, _ *http.Request) {
		_ = f.s.Listener.Close()
		go f.s.CloseClientConnections()
		panic(http.ErrAbortHandler)
	}},
	{name: "hang", fails: func(_ *faulty, _ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}},
	{name: "slow", fails: func(f *faulty, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
			r.Body = io.NopCloser(bytes.NewReader(body))
			f.next.ServeHTTP(w, r)
		}
	}},
	{name: "half-open connection", fails: func(f *faulty, w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held = append(f.held, c) // nobody reads, writes or closes it
	}},
	{name: "storm of 500", fails: func(_ *faulty, w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"boom","type":"server_error"}}`, http.StatusInternalServerError)
	}},
	{name: "storm of 502", fails: func(_ *faulty, w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>", http.StatusBadGateway)
	}},
	{name: "overload", fails: func(_ *faulty, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"error":{"message":"busy"}}`, http.StatusTooManyRequests)
	}},
	{name: "malformed", fails: func(f *faulty, w http.ResponseWriter, _ *http.Request) { f.events(w, `{"choices": [`) }},
	{name: "lying about its choices", fails: func(f *faulty, w http.ResponseWriter, _ *http.Request) {
		f.events(w, `{"model":"scripted","choices":[{"index":7,"delta":{"content":"somebody else's"}}]}`)
	}},
	{name: "truncated before its text", fails: func(f *faulty, w http.ResponseWriter, _ *http.Request) {
		f.events(w, `{"model":"scripted","choices":[{"index":0,"delta":{"role":"assistant"}}]}`)
	}},
	{name: "truncated", most: 16, code: fault.CodeUpstreamFailed, fails: func(f *faulty, w http.ResponseWriter, _ *http.Request) {
		f.events(w, `{"model":"scripted","choices":[{"index":0,"delta":{"content":"the "}}]}`)
	}},
}

// seen is what a client saw of a request.
type seen struct {
	id      string
	text    string
	code    string
	took    time.Duration
	stream  bool
	ended   bool // properly
	headers http.Header
}

// TestUpstreamFaults: one of three upstreams breaks under load, in every way that upstreams break. Clients see no doubled and no foreign answer, an error only
// where a part of the answer was there, and nothing that takes as long as three seconds; one answer of each request is billed, and its record tells the attempts.
func TestUpstreamFaults(t *testing.T) {
	t.Parallel()
	in := start(t, setup{remote: "[{id: scripted, dialect: vllm}]", overrides: map[string]any{
		"engines.registered.networks": []any{"127.0.0.0/8"},
		"route.models": []any{
			map[string]any{"model": "*", "attempt_timeout": "300ms"},
			map[string]any{"model": "first-choice", "fallbacks": map[string]any{"fault": []any{"missing", "scripted"}}},
		},
	}})
	const requests, atOnce = 24, 4
	results := make([][]seen, len(upstreamFaults))
	for n, c := range upstreamFaults {
		name := fmt.Sprintf("fault-%c", 'a'+n)
		upstreams := in.faultyPool(name, c.fails)
		results[n] = in.load(name, requests, atOnce)
		for _, u := range upstreams {
			u.close()
		}
	}
	last := results[len(results)-1]
	in.eventsOf(last[len(last)-1].id, 2)
	records := map[string]record.Event{}
	in.eachRecord("", func(_ auditEvent, whole json.RawMessage) {
		var item struct{ Event json.RawMessage }
		if err := json.Unmarshal(whole, &item); err != nil {
			t.Fatal(err)
		}
		event, err := record.Decode(item.Event)
		if err != nil {
			t.Fatal(err)
		}
		if event.Stage == record.StageOutcome {
			if _, twice := records[event.Request]; twice {
				t.Errorf("%s has two outcomes", event.Request)
			}
			records[event.Request] = event
		}
	})
	var table strings.Builder
	fmt.Fprintf(&table, "%-26s %8s %8s %10s %8s  %s\n", "fault", "answers", "errors", "retried", "slowest", "codes")
	for n, c := range upstreamFaults {
		codes, retried, failed, slowest := map[string]int{}, 0, 0, time.Duration(0)
		for _, s := range results[n] {
			slowest = max(slowest, s.took)
			if s.code != "" {
				failed++
				codes[s.code]++
			}
			e, ok := records[s.id]
			if !ok {
				t.Errorf("%s: no record of %+v", c.name, s)
			}
			answered := s.code == ""
			if (e.Outcome == "ok") != answered || answered && e.Usage.PromptTokens == 0 || !answered && (e.Usage.Cost != 0 || e.Usage.Currency != "") {
				t.Errorf("%s: %s with %+v, where the client saw %q", c.name, e.Outcome, e.Usage, s.code)
			}
			if e.Detail["attempts"] != "" {
				retried++
			}
		}
		if failed > c.most || failed > 0 && codes[string(c.code)] != failed {
			t.Errorf("%s: %d failed, as %v", c.name, failed, codes)
		}
		if slowest >= 3*time.Second {
			t.Errorf("%s: one took %s", c.name, slowest)
		}
		if retried == 0 && c.most == 0 {
			t.Errorf("%s: none is recorded as retried", c.name)
		}
		fmt.Fprintf(&table, "%-26s %8d %8d %10d %8s  %v\n", c.name, requests-failed, failed, retried, slowest.Round(10*time.Millisecond), codes)
	}
	t.Logf("%d requests to each of %d pools of three, %d at once; the first instance breaks at its third request\n%s", requests, len(upstreamFaults), atOnce, table.String())
	in.fallsBack()
}

// fallsBack asks a model whose only upstream is dead.
func (in *installation) fallsBack() {
	in.t.Helper()
	dead := in.faultyPool("first-choice", func(*faulty, http.ResponseWriter, *http.Request) {})
	for _, u := range dead {
		u.close()
	}
	in.replaysFallback()
	for n, s := range in.load("first-choice", 2, 1) {
		if s.code != "" || s.headers.Get("X-Sluice-Fallback") != "from=first-choice; cause=fault" {
			in.t.Errorf("%d: %+v", n, s)
		}
		e := in.eventsOf(s.id+".fallback2", 2)
		if d := e[1].Detail; e[1].Model.Asked != "scripted" || d["fallback_of"] != s.id || d["fallback_from"] != "first-choice" || d["fallback_cause"] != "fault" || e[1].Usage.PromptTokens == 0 {
			in.t.Errorf("%+v", e[1])
		}
		if first := in.eventsOf(s.id, 2)[1]; first.Outcome != "failed" || first.Usage.PromptTokens != 0 {
			in.t.Errorf("%+v", first)
		}
	}
}

// replaysFallback asks twice with one key: the answer that is given again says who answered, too.
func (in *installation) replaysFallback() {
	in.t.Helper()
	for _, replayed := range []string{"", "true"} {
		body := `{"model":"first-choice","messages":[{"role":"user","content":"again"}]}`
		req, err := http.NewRequestWithContext(in.t.Context(), http.MethodPost, in.started.BaseURL+"/chat/completions", strings.NewReader(body))
		if err != nil {
			in.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+in.started.Welcome.APIKey.Reveal())
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "fallback")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			in.t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotent-Replayed") != replayed || resp.Header.Get("X-Sluice-Fallback") != "from=first-choice; cause=fault" {
			in.t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	}
}

// faultyPool registers a pool of three upstreams, of which the first breaks, and a model that it has.
func (in *installation) faultyPool(name string, fails func(f *faulty, w http.ResponseWriter, r *http.Request)) (out []*faulty) {
	in.t.Helper()
	for n := range 3 {
		f := &faulty{next: &enginetest.Upstream{Engine: enginetest.NewScripted(nil)}, fails: fails}
		f.left.Store(map[bool]int64{true: 2, false: 1 << 40}[n == 0])
		f.s = httptest.NewServer(f)
		in.t.Cleanup(f.close)
		out = append(out, f)
		body := map[string]any{"name": fmt.Sprint("i", n), "base_url": f.s.URL + "/v1", "dialect": "vllm", "models": []any{map[string]any{"id": "scripted", "context_tokens": 4096}}}
		if r := in.send(http.MethodPost, "/api/v1/pools/"+name+"/instances", in.session(), body); r.status != http.StatusCreated {
			in.t.Fatalf("%d %s", r.status, r.body)
		}
	}
	in.admin(http.MethodPost, "/model-versions", map[string]any{"model": name, "version": "v1", "engine": name, "engine_model": "scripted"}, new(any))
	eventually(in.t, "the pool to be ready", func() bool {
		ready := 0
		for _, i := range in.instances() {
			if i.Pool == name && i.State == "ready" {
				ready++
			}
		}
		return ready == 3
	})
	return out
}

// load asks a model, several times at once, every second time in a stream, and checks what clients see of each answer: their own text and no other, or a beginning of
// it and an error.
func (in *installation) load(model string, requests, atOnce int) []seen {
	in.t.Helper()
	out := make([]seen, requests)
	var next atomic.Int64
	var clients sync.WaitGroup
	for range atOnce {
		clients.Go(func() {
			for n := int(next.Add(1)) - 1; n < requests; n = int(next.Add(1)) - 1 {
				own := "the answer for " + strings.Repeat(string(rune('a'+n%26)), 3+n/26)
				s := in.askOnce(model, own, n%2 == 0)
				if s.code == "" && (s.text != own || !s.ended) || s.code != "" && !strings.HasPrefix(own, s.text) {
					in.t.Errorf("%s: asked %q and saw %+v", model, own, s)
				}
				out[n] = s
			}
		})
	}
	clients.Wait()
	return out
}

// askOnce asks for an echo.
func (in *installation) askOnce(model, text string, stream bool) (s seen) {
	s.stream = stream
	body, _ := json.Marshal(map[string]any{"model": model, "stream": stream, "messages": []any{map[string]any{"role": "user", "content": text}}})
	req, err := http.NewRequestWithContext(in.t.Context(), http.MethodPost, in.started.BaseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		in.t.Error(err)
		return s
	}
	req.Header.Set("Authorization", "Bearer "+in.started.Welcome.APIKey.Reveal())
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		in.t.Error(err)
		return s
	}
	defer resp.Body.Close()
	defer func() { s.took = time.Since(began) }()
	s.id, s.headers = resp.Header.Get("X-Request-Id"), resp.Header
	type message struct {
		Error   struct{ Code string }
		Choices []struct{ Message, Delta struct{ Content string } }
	}
	take := func(data []byte) {
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			in.t.Errorf("%v: %s", err, data)
			return
		}
		s.code = cmp.Or(s.code, m.Error.Code)
		for _, c := range m.Choices {
			s.text += c.Message.Content + c.Delta.Content
		}
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			in.t.Error(err)
		}
		take(raw)
		s.ended = resp.StatusCode == http.StatusOK
		return s
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			s.ended = true
		default:
			take([]byte(data))
		}
	}
	return s
}
