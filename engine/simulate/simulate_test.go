package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/simulate"
	"github.com/sluice-project/sluice/engine/unified"
)

func config(t *testing.T, name string) simulate.Config {
	t.Helper()
	s, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return simulate.Config{
		Profile: p, Model: simulate.DefaultModel(), Machine: simulate.DefaultMachine(), Seed: 3,
		Clock: simulate.NewVirtual(time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)),
	}
}

func start(t *testing.T, c simulate.Config) *simulate.Simulator {
	t.Helper()
	s, err := simulate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ask posts a body to the handler itself. An aborted answer has the status 0.
func ask(t *testing.T, s http.Handler, path, body string) (status int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	defer func() {
		if recover() != nil {
			status, text = 0, w.Body.String()
		}
	}()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func chat(more string) string {
	return `{"model":"simulated","messages":[{"role":"user","content":"hello there"}],"temperature":1,"max_tokens":10` + more + `}`
}

func read(t *testing.T, s *simulate.Simulator, p *profile.Profile) unified.Values {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, p.Metrics.Path, nil))
	v, err := unified.Read(p.Metrics.Format, w.Body, p.Metrics.Map)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDeterministic: the same requests get the same bytes at the same times; another seed gets others.
func TestDeterministic(t *testing.T) {
	runs := map[string]int{}
	for _, seed := range []uint64{3, 3, 4} {
		c := config(t, "vllm")
		c.Seed = seed
		began := c.Clock.Now()
		s := start(t, c)
		var all bytes.Buffer
		for _, more := range []string{"", `,"stream":true,"stream_options":{"include_usage":true}`, `,"n":2`, `,"tools":[{"function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"required"`, `,"structured_outputs":{"regex":"[a-z]{4}"}`} {
			status, text := ask(t, s, "/v1/chat/completions", chat(more))
			if status != 200 {
				t.Fatalf("%s: %d %s", more, status, text)
			}
			all.WriteString(text)
		}
		fmt.Fprint(&all, c.Clock.Now().Sub(began))
		runs[all.String()]++
	}
	if len(runs) != 2 {
		t.Errorf("three runs with two seeds gave %d results", len(runs))
	}
}

// TestRoofline: a step that decodes waits for the memory, one that reads a long prompt for the arithmetic; more of either takes longer, and a machine twice as
// fast takes half of it.
func TestRoofline(t *testing.T) {
	c := config(t, "vllm")
	c.Machine.StepOverhead = 0
	weights := time.Duration(c.Model.Parameters * c.Model.BytesPerParam / c.Machine.BytesSecond * float64(time.Second))
	if got := c.StepTime(1, 0); got != weights {
		t.Errorf("one token takes %s, the weights alone %s", got, weights)
	}
	if got, want := c.StepTime(8192, 0), time.Duration(2*8e9*8192/4e14*float64(time.Second)); got != want {
		t.Errorf("a prompt takes %s, want %s", got, want)
	}
	if c.StepTime(1, 100000) <= c.StepTime(1, 0) {
		t.Error("keys and values cost nothing")
	}
	fast := c
	fast.Machine.BytesSecond *= 2
	if got := fast.StepTime(1, 0); got != weights/2 {
		t.Errorf("twice the bandwidth: %s", got)
	}
	if got, want := c.Capacity(), 488281; got != want {
		t.Errorf("room for %d tokens, want %d", got, want)
	}
}

// TestBatching: requests that come together share steps, so that together they take less time than one after the other.
func TestBatching(t *testing.T) {
	took := func(together bool) time.Duration {
		c := config(t, "vllm")
		c.Clock = simulate.Real{}
		c.Machine.StepOverhead, c.Machine.BytesSecond = 2*time.Millisecond, 1e18
		s := start(t, c)
		began := time.Now()
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { ask(t, s, "/v1/chat/completions", chat("")) })
			if !together {
				wg.Wait()
			}
		}
		wg.Wait()
		return time.Since(began)
	}
	if one, all := took(false), took(true); all > one*2/3 {
		t.Errorf("together %s, one after the other %s", all, one)
	}
}

// TestMetricsAreTheEngines: the page has the engine's own names and units, and reads back as what was done.
func TestMetricsAreTheEngines(t *testing.T) {
	for _, name := range []string{"vllm", "sglang", "xinference", "trtllm", "triton", "mindie"} {
		c := config(t, name)
		s := start(t, c)
		path, body := c.Profile.Endpoints.Chat, chat("")
		if path == "" {
			path, body = "/v2/models/simulated/generate", `{"text_input":"hello there","parameters":{"max_tokens":20}}`
		}
		if status, text := ask(t, s, path, body); status != 200 {
			t.Fatalf("%s: %s", name, text)
		}
		v := read(t, s, c.Profile)
		for n := range c.Profile.Metrics.Map {
			if _, ok := v[n]; !ok {
				t.Errorf("%s: %s is not on the page", name, n)
			}
		}
		if x, ok := v[unified.FirstToken]; ok {
			// One step for the prompt, and no waiting: the time of the weights, within the grain of a page.
			want := c.StepTime(8, 0).Seconds()
			if mean, has := x.Mean(); !has || mean < want/2 || mean > want*2 {
				t.Errorf("%s: the first token took %g s, a step takes %g s", name, mean, want)
			}
		}
		if x, ok := v[unified.RequestsDone]; ok && x.Value != 1 {
			t.Errorf("%s: %g requests", name, x.Value)
		}
	}
}

// TestFaults: each fault happens to the requests that it should, and to no others.
func TestFaults(t *testing.T) {
	type seen struct {
		status int
		text   string
	}
	run := func(f simulate.Fault, more string) (out []seen, took time.Duration) {
		c := config(t, "vllm")
		c.Faults = []simulate.Fault{f}
		s := start(t, c)
		began := c.Clock.Now()
		for range 3 {
			status, text := ask(t, s, "/v1/chat/completions", chat(more))
			out = append(out, seen{status, text})
		}
		return out, c.Clock.Now().Sub(began)
	}
	stream := `,"stream":true,"stream_options":{"include_usage":true}`
	plain, usual := run(simulate.Fault{Kind: "none"}, stream)
	for _, c := range []struct {
		fault simulate.Fault
		holds func(s seen) bool
	}{
		{simulate.Fault{Kind: simulate.FaultError, Every: 2}, func(s seen) bool { return s.status == 500 }},
		{simulate.Fault{Kind: simulate.FaultOverload, Every: 2}, func(s seen) bool { return s.status == 429 }},
		{simulate.Fault{Kind: simulate.FaultCut, Every: 2, After: 3}, func(s seen) bool { return s.status == 0 && !strings.Contains(s.text, "[DONE]") }},
		{simulate.Fault{Kind: simulate.FaultMalformed, Every: 2, After: 1}, func(s seen) bool { return strings.Contains(s.text, `"index":0,`+"\n") }},
		{simulate.Fault{Kind: simulate.FaultUsage, Every: 2}, func(s seen) bool { return strings.Contains(s.text, `"completion_tokens":13`) }},
	} {
		got, _ := run(c.fault, stream)
		for i, s := range got {
			if due := i%2 == 0; c.holds(s) != due {
				t.Errorf("%s, request %d: %d %.300s", c.fault.Kind, i+1, s.status, s.text)
			}
		}
		if got[1].text != plain[1].text {
			t.Errorf("%s has changed another request", c.fault.Kind)
		}
	}
	if _, slow := run(simulate.Fault{Kind: simulate.FaultSlow, Every: 3, Delay: time.Minute}, stream); slow < usual+time.Minute || slow > usual+time.Minute+time.Second {
		t.Errorf("slow: %s instead of %s", slow, usual)
	}
}

// TestStuckSlot: a slot stays taken after its answer, for as long as the fault says.
func TestStuckSlot(t *testing.T) {
	c := config(t, "vllm")
	c.Clock = simulate.Real{}
	c.Faults = []simulate.Fault{{Kind: simulate.FaultStuck, Delay: time.Hour}}
	s := start(t, c)
	ask(t, s, "/v1/chat/completions", chat(""))
	if v := read(t, s, c.Profile)[unified.RequestsRunning]; v.Value != 1 {
		t.Errorf("%g running", v.Value)
	}
}

// TestQueue: more than there is room for waits; more than may wait is refused with what the profile says.
func TestQueue(t *testing.T) {
	c := config(t, "tgi")
	c.Clock = simulate.Real{}
	c.Machine.MaxBatch, c.Machine.MaxQueue, c.Machine.StepOverhead = 2, 3, 5*time.Millisecond
	s := start(t, c)
	var mu sync.Mutex
	counts := map[int]int{}
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			status, _ := ask(t, s, "/v1/chat/completions", chat(""))
			mu.Lock()
			defer mu.Unlock()
			counts[status]++
		})
	}
	wg.Wait()
	if counts[200] < 5 || counts[429] == 0 || counts[200]+counts[429] != 12 {
		t.Errorf("%v", counts)
	}
}

// TestColdStart: an engine that says that it loads is not ready before; one that loads on demand lets the first request wait, and again after its
// keep-alive.
func TestColdStart(t *testing.T) {
	health := func(s *simulate.Simulator, path string) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code
	}
	c := config(t, "llama.cpp")
	c.Machine.LoadTime = time.Minute
	s := start(t, c)
	if got := health(s, "/health"); got != 503 {
		t.Errorf("while it loads: %d", got)
	}
	_ = c.Clock.Sleep(t.Context(), 2*time.Minute)
	if got := health(s, "/health"); got != 200 {
		t.Errorf("afterwards: %d", got)
	}
	c = config(t, "ollama")
	c.Machine.LoadTime, c.Machine.KeepAlive = time.Minute, 5*time.Minute
	s = start(t, c)
	took := func() time.Duration {
		began := c.Clock.Now()
		ask(t, s, "/v1/chat/completions", chat(""))
		return c.Clock.Now().Sub(began)
	}
	if first, second := took(), took(); first < time.Minute || second > time.Second || health(s, "/api/version") != 200 {
		t.Errorf("first %s, second %s", first, second)
	}
	_ = c.Clock.Sleep(t.Context(), 10*time.Minute)
	if again := took(); again < time.Minute {
		t.Errorf("after the keep-alive: %s", again)
	}
}

// TestEmbedAndRerank: vectors follow from texts, and scores from the words of the query.
func TestEmbedAndRerank(t *testing.T) {
	c := config(t, "vllm")
	c.Model.Embedding = 8
	s := start(t, c)
	_, a := ask(t, s, "/v1/embeddings", `{"model":"simulated","input":["x","y"]}`)
	_, b := ask(t, s, "/v1/embeddings", `{"model":"simulated","input":["x","y"]}`)
	var list struct {
		Data []struct{ Embedding []float64 }
	}
	if a != b || json.Unmarshal([]byte(a), &list) != nil || len(list.Data) != 2 || len(list.Data[0].Embedding) != 8 || list.Data[0].Embedding[0] == list.Data[1].Embedding[0] {
		t.Errorf("%s\n%s", a, b)
	}
	if _, r := ask(t, s, "/v1/rerank", `{"model":"simulated","query":"red fox","documents":["a red fox","a cat"]}`); !strings.Contains(r, `"index":0,"relevance_score":1}`) || !strings.Contains(r, `"index":1,"relevance_score":0}`) {
		t.Error(r)
	}
}

// TestKey: without the key no POST is answered; a GET needs none.
func TestKey(t *testing.T) {
	c := config(t, "vllm")
	c.Key = "secret"
	s := start(t, c)
	for _, q := range []struct {
		method, path, key string
		want              int
	}{
		{http.MethodPost, "/v1/chat/completions", "", 401},
		{http.MethodPost, "/v1/chat/completions", "Bearer wrong", 401},
		{http.MethodPost, "/v1/chat/completions", "Bearer secret", 200},
		{http.MethodGet, "/health", "", 200},
		{http.MethodGet, "/metrics", "", 200},
	} {
		r, w := httptest.NewRequestWithContext(t.Context(), q.method, q.path, strings.NewReader(chat(""))), httptest.NewRecorder()
		r.Header.Set("Authorization", q.key)
		if s.ServeHTTP(w, r); w.Code != q.want {
			t.Errorf("%+v: %d", q, w.Code)
		}
	}
}

// stalled is a reader that takes nothing.
type stalled struct {
	http.ResponseWriter

	reached chan<- struct{}
	release <-chan struct{}
}

func (s *stalled) Write(b []byte) (int, error) {
	select {
	case s.reached <- struct{}{}:
	default:
	}
	<-s.release
	return len(b), nil
}

// TestStalledReader: while one client reads nothing of its answer, others get theirs.
func TestStalledReader(t *testing.T) {
	c := config(t, "vllm")
	s := start(t, c)
	long := strings.Replace(chat(`,"stream":true`), `"max_tokens":10`, `"max_tokens":600`, 1)
	reached, release, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	slow := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(long))
	go func() {
		defer close(ended)
		s.ServeHTTP(&stalled{httptest.NewRecorder(), reached, release}, slow)
	}()
	<-reached
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	func() {
		defer func() {
			if recover() != nil {
				t.Error("another client waited in vain")
			}
		}()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(long)))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "[DONE]") {
			t.Errorf("%d %.300s", w.Code, w.Body)
		}
	}()
	close(release)
	<-ended
}

// TestRequestsAreForgotten: nothing holds a request that is over.
func TestRequestsAreForgotten(t *testing.T) {
	c := config(t, "vllm")
	s := start(t, c)
	type mark struct{ _ [64]byte } // too large for it to share its memory with others
	var first weak.Pointer[mark]
	for i := range 8 { // the newest may still be in somebody's hands
		func() {
			m := &mark{}
			if i == 0 {
				first = weak.Make(m)
			}
			ctx := context.WithValue(t.Context(), mark{}, m)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(chat(""))))
			if w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}()
	}
	deadline := time.Now().Add(5 * time.Second)
	for first.Value() != nil {
		if time.Now().After(deadline) {
			t.Fatal("a request that was answered is held")
		}
		runtime.GC()
	}
}

const fleet = `
instances:
  - {profile: vllm, listen: "127.0.0.1:0", seed: 5, role: prefill, model: {name: big, context: 100}, machine: {max_batch: 7}, faults: [{kind: slow, every: 3, delay: 2s}]}
  - {profile: mindie, listen: "127.0.0.1:0", broken: drain-kills}
`

func TestReadFleet(t *testing.T) {
	s, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	all, err := simulate.ReadFleet([]byte(fleet), s)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	c := all[0].Config
	if c.Profile.Name != "vllm" || c.Seed != 5 || c.Model.Name != "big" || c.Model.Context != 100 || c.Model.Parameters != 8e9 || c.Machine.MaxBatch != 7 || c.Faults[0].Delay != 2*time.Second || c.Role != "prefill" {
		t.Errorf("%+v", c)
	}
	if all[1].Config.Mutation != simulate.MutateDrain {
		t.Errorf("%+v", all[1])
	}
	for _, bad := range []string{
		"instances: []", "instances: [{profile: nobody, listen: a}]", "instances: [{profile: vllm}]", "instances: [{profile: vllm, listen: a, speed: 3}]",
		"instances: [{profile: vllm, listen: a, faults: [{kind: bad}]}]", "instances: [{profile: vllm, listen: a, broken: all}]", "instances: [{profile: vllm, listen: a, machine: {memory_bytes: 1}}]",
		"instances: [{profile: vllm, listen: a, model: {context: -1}}]", "instances: [{profile: vllm, listen: a, faults: [{kind: slow, every: -1}]}]",
	} {
		if _, err := simulate.ReadFleet([]byte(bad), s); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// TestCancelFrees: when a client goes away, its job does, too, and others go on.
func TestCancelFrees(t *testing.T) {
	c := config(t, "vllm")
	c.Clock = simulate.Real{}
	c.Machine.StepOverhead = 2 * time.Millisecond
	s := start(t, c)
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	long := strings.Replace(chat(`,"stream":true`), `"max_tokens":10`, `"max_tokens":4000`, 1)
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(long))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(resp.Body, make([]byte, 100))
	if v := read(t, s, c.Profile)[unified.RequestsRunning]; v.Value != 1 {
		t.Errorf("%g running", v.Value)
	}
	cancel()
	resp.Body.Close()
	deadline := time.Now().Add(5 * time.Second)
	for read(t, s, c.Profile)[unified.RequestsRunning].Value != 0 {
		if time.Now().After(deadline) {
			t.Fatal("it still runs")
		}
	}
}
