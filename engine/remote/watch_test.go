package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/simulate"
	"github.com/sluice-project/sluice/engine/unified"
	"github.com/sluice-project/sluice/internal/keyring"
)

// watched is an upstream that a pool looks at, on a clock of the test.
type watched struct {
	t      *testing.T
	url    string
	files  []string // of profiles
	engine *Engine
	pools  *pool.Set

	mu     sync.Mutex
	now    time.Time
	behind http.Handler   // nil: it closes every connection
	paths  map[string]int // how often each was asked
	keys   map[string]string
}

func (w *watched) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.paths[r.URL.Path]++
	w.keys[r.URL.Path] = r.Header.Get("Authorization")
	h := w.behind
	w.mu.Unlock()
	if h == nil {
		panic(http.ErrAbortHandler)
	}
	h.ServeHTTP(rw, r)
}

func (w *watched) put(h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind = h
}

func (w *watched) asked(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paths[path]
}

func (w *watched) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// after lets time pass, has the pool ask, waits for the look that this begins, and has the pool ask what it has found.
func (w *watched) after(d time.Duration) pool.Status {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	for range 2 {
		w.pools.Refresh(w.t.Context())
		w.engine.reach.looks.Wait()
	}
	return w.pools.Instances("p")[0].Status()
}

// chosen reports whether the pool sends requests with these needs to the upstream.
func (w *watched) chosen(features ...capability.Feature) bool {
	i, _, _ := w.pools.Choose("p", pool.Wanted{Model: "chat", Fits: func(o pool.Offer) bool {
		ok, _ := o.Known.Meets(&capability.Needs{Features: features}, o.Batch)
		return ok
	}})
	return i != nil
}

// watch starts an upstream of a dialect, with further files of profiles.
func watch(t *testing.T, h http.Handler, dialect string, more ...string) *watched {
	t.Helper()
	w := &watched{t: t, now: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), behind: h, paths: map[string]int{}, keys: map[string]string{}}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	w.url = s.URL
	w.open(dialect, more...)
	return w
}

func (w *watched) open(dialect string, more ...string) {
	w.t.Helper()
	w.files = more
	set, err := profile.New(more...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.engine, err = New(Config{
		BaseURL: w.url + "/v1", AllowPrivate: []string{"127.0.0.0/8"}, APIKey: keyring.Inline("upstream-secret"), Profiles: set,
		Models: []ModelConfig{{ID: "chat", Upstream: simulate.DefaultModel().Name, Dialect: dialect, Tools: true, Sampling: true}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = w.engine.Close() })
	w.engine.reach.now = w.clock
	w.pools = &pool.Set{Now: w.clock}
	w.pools.Replace("p", []pool.Member{{Name: "only", Kind: pool.KindRemote, Engine: w.engine}})
}

// simulated is a simulator with something changed.
func simulated(t *testing.T, dialect string, change func(*simulate.Config), more ...string) *simulate.Simulator {
	t.Helper()
	set, err := profile.New(more...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := set.Get(dialect)
	if err != nil {
		t.Fatal(err)
	}
	c := simulate.Config{Profile: p, Model: simulate.DefaultModel(), Machine: simulate.DefaultMachine(), Seed: 1}
	if change != nil {
		change(&c)
	}
	s, err := simulate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func versioned(t *testing.T, dialect, version string, more ...string) *simulate.Simulator {
	t.Helper()
	return simulated(t, dialect, func(c *simulate.Config) { c.Version = version }, more...)
}

// TestUpstreamThatLoads gets no request before it says that it is ready, and is asked often until then.
func TestUpstreamThatLoads(t *testing.T) {
	clock := simulate.NewVirtual(time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC))
	w := watch(t, simulated(t, "llama.cpp", func(c *simulate.Config) { c.Clock, c.Machine.LoadTime = clock, time.Minute }), "llama.cpp")
	if st := w.after(0); st.State != pool.StateWarming || st.Version != "" || w.chosen(capability.Chat) || w.asked("/props") != 0 || w.asked("/metrics") != 0 {
		t.Errorf("while it loads: %+v", st)
	}
	_ = clock.Sleep(t.Context(), 2*time.Minute)
	if st := w.after(lookDead - 1); st.State != pool.StateWarming {
		t.Errorf("before the next look: %s", st.State)
	}
	st := w.after(1)
	if st.State != pool.StateReady || st.Version != "0.0.0-simulated" || !w.chosen(capability.Chat) {
		t.Errorf("afterwards: %+v", st)
	}
}

// TestNewUpstreamStarts: until it has told how it is, an upstream that can be asked gets no request, whatever it lists; whoever asks for its models first
// waits for that, and never longer than the time for it.
func TestNewUpstreamStarts(t *testing.T) {
	s := versioned(t, "vllm", "1.0")
	held, told := make(chan struct{}), make(chan struct{}, 1)
	w := watch(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			told <- struct{}{}
			<-held
		}
		s.ServeHTTP(rw, r)
	}), "vllm")
	if c := w.engine.Condition(); c != pool.StateStarting {
		t.Errorf("as it was made: %s", c)
	}
	w.engine.reach.until = time.Now() // the time is over
	w.pools.Refresh(t.Context())
	<-told
	if st := w.pools.Instances("p")[0].Status(); st.State != pool.StateStarting || len(st.Models) != 1 || w.chosen(capability.Chat) {
		t.Errorf("while it is asked: %+v", st)
	}
	w.engine.reach.until = time.Now().Add(time.Hour)
	refreshed := make(chan struct{})
	go func() { w.pools.Refresh(t.Context()); close(refreshed) }()
	select {
	case <-refreshed:
		t.Error("nobody has waited for the first look")
	case held <- struct{}{}:
		<-refreshed
	}
	if st := w.pools.Instances("p")[0].Status(); st.State != pool.StateReady || st.Version != "1.0" || !w.chosen(capability.Chat) {
		t.Errorf("as soon as it has told: %+v", st)
	}
	close(held)
}

// TestNewUpstreamIsAway: one failed look leaves a new upstream where it was, two make it sick. One that cannot be asked is taken for ready.
func TestNewUpstreamIsAway(t *testing.T) {
	w := watch(t, nil, "vllm")
	if st := w.after(0); st.State != pool.StateStarting || w.chosen(capability.Chat) {
		t.Errorf("after one look: %+v", st)
	}
	if st := w.after(lookDead); st.State != pool.StateSick || w.chosen(capability.Chat) {
		t.Errorf("after two: %+v", st)
	}
	w.put(versioned(t, "vllm", "1.0"))
	if st := w.after(lookDead); st.State != pool.StateReady || !w.chosen(capability.Chat) {
		t.Errorf("it came: %+v", st)
	}
	w.open("openai")
	w.engine.reach.until = time.Now()
	w.pools.Refresh(t.Context())
	if st := w.pools.Instances("p")[0].Status(); st.State != pool.StateReady || !w.chosen(capability.Chat) {
		t.Errorf("nobody can ask it: %+v", st)
	}
}

// TestUpstreamComesBack: one that is away twice in a row is sick; when it is back it is asked what it is before it counts as ready, and every ten minutes.
func TestUpstreamComesBack(t *testing.T) {
	w := watch(t, versioned(t, "vllm", "1.0"), "vllm")
	if st := w.after(0); st.State != pool.StateReady || st.Version != "1.0" || w.asked("/version") != 1 {
		t.Errorf("at first: %+v, asked %d times", st, w.asked("/version"))
	}
	if st := w.after(lookAlive); st.State != pool.StateReady || w.asked("/version") != 1 || w.asked("/health") != 2 {
		t.Errorf("later: %+v, %v", st, w.paths)
	}
	w.put(nil)
	if st := w.after(lookAlive); st.State != pool.StateReady {
		t.Errorf("one look may fail: %+v", st)
	}
	if st := w.after(lookDead); st.State != pool.StateSick || st.Cause == nil || w.chosen(capability.Chat) || st.Metrics != nil {
		t.Errorf("away: %+v", st)
	}
	w.put(versioned(t, "vllm", "2.0"))
	if st := w.after(lookDead); st.State != pool.StateReady || st.Version != "2.0" || w.asked("/version") != 2 {
		t.Errorf("back: %+v, asked %d times", st, w.asked("/version"))
	}
	w.put(versioned(t, "vllm", "3.0"))
	if st := w.after(learnEvery - 1); st.Version != "2.0" {
		t.Errorf("asked too early: %+v", st)
	}
	if st := w.after(lookAlive); st.Version != "3.0" {
		t.Errorf("after ten minutes: %+v", st)
	}
	w.put(versioned(t, "vllm", "4.0")) // quick enough for no look to see, but not for a request
	w.engine.reach.doubt()
	if st := w.after(0); st.Version != "4.0" {
		t.Errorf("after a request could not connect: %+v", st)
	}
}

// TestProbeThatFails changes nothing, and is made again at the next look.
func TestProbeThatFails(t *testing.T) {
	w := watch(t, versioned(t, "vllm", "1.0"), "vllm")
	w.after(0)
	sound := versioned(t, "vllm", "2.0")
	w.put(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		sound.ServeHTTP(rw, r)
	}))
	if st := w.after(learnEvery); st.State != pool.StateReady || st.Version != "1.0" || w.asked("/version") != 2 {
		t.Errorf("%+v, asked %d times", st, w.asked("/version"))
	}
	w.put(sound)
	if st := w.after(lookAlive); st.Version != "2.0" {
		t.Errorf("%+v", st)
	}
}

// TestFirstProbeThatFails: an upstream that is ready and has not told yet what it is takes requests, and says that there is more to learn. What it has told
// once counts while later questions fail.
func TestFirstProbeThatFails(t *testing.T) {
	sound := versioned(t, "vllm", "2.0")
	mute := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		sound.ServeHTTP(rw, r)
	})
	w := watch(t, mute, "vllm")
	upstream := func() *pool.Instance { return w.pools.Instances("p")[0] }
	if st := w.after(0); st.State != pool.StateReady || upstream().Learnt() {
		t.Errorf("%+v, learnt: %t", st, upstream().Learnt())
	}
	if o, ok := upstream().Open("chat"); !ok || o.ContextTokens() != 0 {
		t.Errorf("%+v, %t", o, ok)
	}
	w.put(sound)
	w.after(lookAlive)
	if o, ok := upstream().Open("chat"); !ok || o.ContextTokens() == 0 || !upstream().Learnt() {
		t.Errorf("%+v, %t, learnt: %t", o, ok, upstream().Learnt())
	}
	w.put(mute)
	if w.after(learnEvery); !upstream().Learnt() {
		t.Error("what was learnt is forgotten")
	}
}

// TestConditionOverTheVersion: what a version can do follows the version that answers, from the next request on.
func TestConditionOverTheVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made-up.yaml")
	text := `
profile: made-up
title: Made up
extends: vllm
family: vllm
kind: engine
basis: documented
sources: {book: {url: "https://example.com/manual", date: "2026-11-26"}}
contract:
  features: {sampling.top_k: {status: claimed, grade: E1, owner: engine, source: book, when: 'version.engine >= "2.0"'}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := watch(t, versioned(t, "made-up", "2.0", file), "made-up", file)
	w.pools.Refresh(t.Context())
	if w.engine.reach.looks.Wait(); w.engine.version() != "2.0" || !w.chosen(capability.TopK) {
		t.Errorf("version %q", w.engine.version())
	}
	w.put(nil)
	w.after(lookAlive)
	w.after(lookDead)
	w.put(versioned(t, "made-up", "1.9", file))
	if st := w.after(lookDead); st.State != pool.StateReady || w.chosen(capability.TopK) || !w.chosen(capability.MinP) {
		t.Errorf("an older one: %+v", st)
	}
	w.put(versioned(t, "made-up", "no version; <b>", file))
	w.engine.reach.doubt()
	if st := w.after(0); st.Version != "" || w.chosen(capability.TopK) || !w.chosen(capability.MinP) {
		t.Errorf("one that says nothing of use: %+v", st)
	}
}

// TestFiguresOfUpstreams: what the page says is told with its time; a page that cannot be read is not reported, and the upstream is none the worse.
func TestFiguresOfUpstreams(t *testing.T) {
	w := watch(t, simulated(t, "vllm", nil), "vllm")
	st := w.after(0)
	if v, ok := st.Metrics[unified.RequestsRunning]; !ok || v.Value != 0 || !st.MetricsAt.Equal(w.clock()) {
		t.Errorf("%+v at %s", st.Metrics, st.MetricsAt)
	}
	if v, ok := st.Metrics[unified.PrefixHitRatio]; ok {
		t.Errorf("vLLM has no such series: %+v", v)
	}
	w.put(simulated(t, "vllm", func(c *simulate.Config) { c.Mutation = simulate.MutateMetricPage }))
	if st := w.after(lookAlive); st.Metrics != nil || !st.MetricsAt.IsZero() || st.State != pool.StateReady || w.asked("/metrics") != 2 {
		t.Errorf("without the page: %+v", st)
	}
	plain := watch(t, simulated(t, "openai", nil), "openai")
	if st := plain.after(0); st.Metrics != nil || st.Version != "" || st.State != pool.StateReady || len(plain.paths) > 0 {
		t.Errorf("a dialect without questions: %+v, asked %v", st, plain.paths)
	}
}

// TestMomentOfTrouble: one that was ready and loads, or has no time for the question, gets requests until it says so twice, or cannot be connected to.
func TestMomentOfTrouble(t *testing.T) {
	loads := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
	w := watch(t, simulated(t, "sglang", nil), "sglang")
	if st := w.after(0); st.State != pool.StateReady {
		t.Fatal(st.State)
	}
	w.put(loads)
	if st := w.after(lookAlive); st.State != pool.StateReady {
		t.Errorf("once: %s", st.State)
	}
	if st := w.after(lookDead); st.State != pool.StateWarming {
		t.Errorf("twice: %s", st.State)
	}

	held := make(chan struct{})
	defer close(held)
	slow := watch(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }), "vllm")
	known, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	p, err := known.Get("vllm")
	if err != nil {
		t.Fatal(err)
	}
	asked, err := peer.New(peer.Config{Profile: p, URL: slow.url})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []peer.State{peer.Ready, peer.Unreachable} {
		connect := func(context.Context) (peer.State, error) { return want, nil }
		if got, err := health(asked, true, connect, time.Millisecond)(t.Context()); err != nil || got != want {
			t.Errorf("without time for the question: %s, %v, want what connecting finds: %s", got, err, want)
		}
	}
}

// TestOnlyItsModelsAreKept of all those that an upstream lists.
func TestOnlyItsModelsAreKept(t *testing.T) {
	const many = 10_000
	w := watch(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			list := []map[string]any{{"id": simulate.DefaultModel().Name, "max_model_len": 77}}
			for n := range many {
				list = append(list, map[string]any{"id": strconv.Itoa(n), "max_model_len": 5})
			}
			_ = json.NewEncoder(rw).Encode(map[string]any{"data": list})
		case "/version":
			_, _ = rw.Write([]byte(`{"version":"1.0"}`))
		}
	}), "vllm")
	w.after(0)
	c := w.engine.Capabilities("chat").Contract()
	if n := len(c.Models); n == 0 || n > 10 || c.Models[0].MaxIn.Value != 77 {
		t.Errorf("%d rows of models: %+v", n, c.Models[:min(n, 2)])
	}
}

// TestConsumedPages: a page that reading empties is left to whom the operator has chosen.
func TestConsumedPages(t *testing.T) {
	w := watch(t, simulated(t, "trtllm", nil), "trtllm")
	if st := w.after(0); st.State != pool.StateReady || st.Metrics != nil || w.asked("/metrics") != 0 {
		t.Errorf("%s, %v, asked %d times", st.State, st.Metrics, w.asked("/metrics"))
	}
}

// TestUntoldHealth: an upstream that does not answer the question of health is there as long as it answers something; one that says no is not.
func TestUntoldHealth(t *testing.T) {
	for _, status := range []int{404, 405, 401, 403, 501, 302, 400, 429} {
		w := watch(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) }), "vllm")
		st := w.after(0)
		if again := w.after(lookAlive); st.State != pool.StateReady || again.State != pool.StateReady || again.Metrics != nil || w.asked("/health") != 2 {
			t.Errorf("%d: %s, then %+v", status, st.State, again)
		}
		if w.asked("/version") != 1 && !slices.Contains([]int{302, 400, 429}, status) { // what is not told is not asked for at every look
			t.Errorf("%d: asked for the version %d times", status, w.asked("/version"))
		}
		w.put(nil)
		w.after(lookAlive)
		if st := w.after(lookDead); st.State != pool.StateSick {
			t.Errorf("%d, away: %s", status, st.State)
		}
	}
	w := watch(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }), "vllm")
	if st := w.after(0); st.State != pool.StateWarming || w.chosen() {
		t.Errorf("never ready yet: %s", st.State)
	}
	if st := w.after(lookDead); st.State != pool.StateSick || st.Cause == nil || !strings.Contains(st.Cause.Error(), "not ready") {
		t.Errorf("and again not: %s, %v", st.State, st.Cause)
	}
	w.put(simulated(t, "vllm", nil))
	if st := w.after(lookDead); st.State != pool.StateReady {
		t.Errorf("ready: %s", st.State)
	}
}

// TestStandby: an upstream that stands behind another one gets no requests.
func TestStandby(t *testing.T) {
	w, manager := managed(t, "standby: [503], ", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }))
	if st := w.after(0); st.State != pool.StateWarming || w.chosen() || manager.asked("/ready") == 0 {
		t.Errorf("standing by: %+v", st)
	}
}

// TestOtherPorts: what the profile serves at another port is asked there only if the upstream has the profile's own port, and without the credential.
// Where it cannot be asked, a connection is enough.
func TestOtherPorts(t *testing.T) {
	w, manager := managed(t, "", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if st := w.after(0); st.State != pool.StateReady || manager.asked("/ready") != 1 || manager.keys["/ready"] != "" || w.keys["/version"] != "Bearer upstream-secret" {
		t.Errorf("%+v: keys %v and %v", st, manager.keys, w.keys)
	}
	manager.put(nil)
	w.after(lookAlive)
	if st := w.after(lookDead); st.State != pool.StateReady {
		t.Errorf("its management is gone: %+v", st)
	}
	w, manager = managed(t, "standby: [503], ", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }))
	moved := httptest.NewServer(w) // the same upstream at a port that is not the profile's
	t.Cleanup(moved.Close)
	w.url = moved.URL
	w.open("split", w.files...)
	if st := w.after(0); st.State != pool.StateReady || st.Version == "" || manager.asked("/ready") != 0 {
		t.Errorf("at another port: %+v, asked %v", st, manager.paths)
	}
}

// managed starts an upstream that is managed at another port, by a profile whose question of health has more members.
func managed(t *testing.T, more string, management http.Handler) (w, m *watched) {
	t.Helper()
	w = &watched{t: t, now: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), behind: simulated(t, "vllm", nil), paths: map[string]int{}, keys: map[string]string{}}
	m = &watched{t: t, behind: management, paths: map[string]int{}, keys: map[string]string{}}
	for _, one := range []*watched{w, m} {
		s := httptest.NewServer(one)
		t.Cleanup(s.Close)
		one.url = s.URL
	}
	port := func(url string) string { return url[strings.LastIndex(url, ":")+1:] }
	file := filepath.Join(t.TempDir(), "split.yaml")
	text := `
profile: split
title: Split
extends: vllm
family: vllm
kind: engine
basis: documented
sources: {book: {url: "https://example.com/manual", date: "2026-11-26"}}
ports: {main: ` + port(w.url) + `, management: ` + port(m.url) + `, source: book}
health: {ready: {path: /ready, port: management, ` + more + `source: book}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.open("split", file)
	return w, m
}

// TestCloudIsAskedNothing but by requests.
func TestCloudIsAskedNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloudy.yaml")
	text := `
profile: cloudy
title: Cloudy
extends: vllm
family: vllm
kind: cloud
cloud: true
basis: documented
sources: {book: {url: "https://example.com/manual", date: "2026-11-26"}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := watch(t, simulated(t, "vllm", nil), "cloudy", file)
	if st := w.after(0); st.State != pool.StateReady || len(w.paths) != 0 || !w.engine.Learnt() {
		t.Errorf("%+v: asked %v", st, w.paths)
	}
}

// TestWhatIsObservedNarrows: the shorter of the contexts that the configuration and the upstream tell counts.
func TestWhatIsObservedNarrows(t *testing.T) {
	w := watch(t, simulated(t, "vllm", func(c *simulate.Config) { c.Model.Context = 1000 }), "vllm")
	meets := func(tokens int) bool {
		ok, _ := w.engine.Capabilities("chat").Meets(&capability.Needs{PromptTokens: tokens}, 1)
		return ok
	}
	if !meets(5000) {
		t.Error("a length that nobody has told binds")
	}
	if w.after(0); meets(1000) || !meets(999) {
		t.Error("what the upstream tells of its context does not bind")
	}
}

// TestClaims: what each dialect may be asked for, by what its documents claim and the configuration vouches for.
func TestClaims(t *testing.T) {
	all := ModelConfig{ID: "m", Tools: true, Formats: true, Sampling: true, Logprobs: true}
	text := []capability.Feature{capability.Chat, capability.Completions, capability.Stream, capability.Stop, capability.Seed, capability.Choices}
	for _, c := range []struct {
		dialect string
		model   ModelConfig
		yes, no []capability.Feature
	}{
		{"openai", ModelConfig{ID: "m"}, text, []capability.Feature{capability.Tools, capability.FormatObject, capability.Logprobs, capability.TopK, capability.Rerank}},
		{"openai", all, append([]capability.Feature{
			capability.Tools, capability.ToolsRequired, capability.ToolsNamed, capability.ToolsParallel, capability.FormatObject, capability.FormatSchema,
			capability.Logprobs, capability.TopLogprobs, capability.FrequencyPenalty, capability.PresencePenalty, capability.LogitBias, capability.Echo,
		}, text...), []capability.Feature{capability.FormatRegex, capability.FormatGrammar, capability.FormatChoice, capability.TopK, capability.MinP, capability.MinTokens, capability.RepetitionPenalty}},
		{"vllm", all, append([]capability.Feature{capability.ToolsParallel, capability.FormatRegex, capability.FormatGrammar, capability.TopK, capability.MinTokens, capability.Echo}, text...), nil},
		{"sglang", all, append([]capability.Feature{capability.ToolsParallel, capability.FormatChoice, capability.MinP, capability.Echo}, text...), nil},
		{"llama.cpp", all, append([]capability.Feature{capability.ToolsParallel, capability.FormatGrammar, capability.FormatChoice, capability.TopK}, text...), []capability.Feature{capability.FormatRegex, capability.MinTokens, capability.Echo}},
		{"chitu", all, []capability.Feature{capability.Chat, capability.Tools}, []capability.Feature{capability.Completions, capability.Stop, capability.Seed, capability.Choices}},
		{"vllm-triton-ct", ModelConfig{ID: "m", Tools: true, Deterministic: true}, []capability.Feature{capability.Chat, capability.Stream, capability.Tools, capability.Seed}, []capability.Feature{capability.TopK, capability.FormatRegex, capability.Choices, capability.Rerank}},
		{"openai", ModelConfig{ID: "m", EmbedDim: 3}, []capability.Feature{capability.Embeddings}, []capability.Feature{capability.Rerank, capability.Seed}},
		{"openai", ModelConfig{ID: "m", Rerank: true}, []capability.Feature{capability.Rerank}, nil},
		{"trtllm", ModelConfig{ID: "m", Seed: true, Choices: true}, []capability.Feature{capability.Chat, capability.Seed, capability.Choices}, []capability.Feature{capability.Tools}},
		{"trtllm", ModelConfig{ID: "m"}, []capability.Feature{capability.Chat}, []capability.Feature{capability.Seed, capability.Choices}},
		{"lmdeploy", all, []capability.Feature{capability.Seed, capability.Choices, capability.FormatRegex}, []capability.Feature{capability.FormatGrammar}},
	} {
		c.model.Dialect = c.dialect
		e, err := New(Config{BaseURL: "http://127.0.0.1:1/v1", Models: []ModelConfig{c.model}})
		if err != nil {
			t.Fatal(err)
		}
		v := e.Capabilities("m")
		for _, f := range append(slices.Clone(c.yes), c.no...) {
			ok, why := v.Meets(&capability.Needs{Features: []capability.Feature{f}}, 1)
			if ok != slices.Contains(c.yes, f) {
				t.Errorf("%s %+v: %s is %v (%+v)", c.dialect, c.model, f, ok, why)
			}
		}
		_ = e.Close()
	}
}

// TestCapabilitiesCostNothing: they are looked at for every request.
func TestCapabilitiesCostNothing(t *testing.T) {
	var models []ModelConfig
	for i := range 50 {
		models = append(models, ModelConfig{ID: "m" + strconv.Itoa(i), ContextTokens: 100, Dialect: "vllm"})
	}
	e, err := New(Config{BaseURL: "http://127.0.0.1:1/v1", Models: models})
	if err != nil {
		t.Fatal(err)
	}
	id := engine.ModelID(models[30].ID)
	if v := e.Capabilities(id); v == nil || v.Model() != "m30" || e.Capabilities("nobody") != nil {
		t.Errorf("%+v", v)
	}
	if n := testing.AllocsPerRun(100, func() { _ = e.Capabilities(id); _ = e.Condition() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestClosedEngineLooksNoMore, and waits for the look that is on its way.
func TestClosedEngineLooksNoMore(t *testing.T) {
	reached, done := make(chan struct{}), make(chan struct{})
	w := watch(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
		close(done)
	}), "vllm")
	w.pools.Refresh(t.Context())
	<-reached
	if err := w.engine.Close(); err != nil {
		t.Fatal(err)
	}
	if w.engine.reach.looking { // not guarded: nobody looks any more
		t.Error("somebody looks yet")
	}
	<-done
	w.after(time.Hour)
	if w.asked("/health") != 1 {
		t.Errorf("asked %d times", w.asked("/health"))
	}
}
