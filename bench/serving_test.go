package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/engine/enginetest"
)

func TestServingOptions(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	o, err := parseServing([]string{"-clients", "8", "-prompt", "128", "-forms", ",Q8_0"})
	if err != nil || !reflect.DeepEqual(o.clients, []int{8}) || !reflect.DeepEqual(o.prompts, []int{128}) || !reflect.DeepEqual(o.forms, []string{"", "Q8_0"}) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = parseServing([]string{"-forms", "none"}); err != nil || len(o.forms) != 0 || len(o.clients) != 4 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-clients", "0"}, {"-prompt", "long"}, {"-rounds", "0"}, {"-output", "1"}, {"-rate", "-1"}} {
		if _, err := parseServing(args); err == nil {
			t.Errorf("%v passed", args)
		}
	}
}

// TestServingRows: every number of clients and length with and without a shared prefix, and one open loop per length; only plain rows of
// eight clients have bars.
func TestServingRows(t *testing.T) {
	t.Parallel()
	rows := planServing([]int{1, 8}, []int{128, 512}, 8)
	if len(rows) != 10 {
		t.Fatalf("%d rows", len(rows))
	}
	bars := map[string]bool{}
	for _, r := range rows {
		if floor, aim := r.bar(""); floor != 0 {
			bars[r.name()] = floor == 2.5 && aim == 4
		}
		if n := r.perSlot(64); n < r.prompt+64 || n%256 != 0 {
			t.Errorf("%s: a slot has %d tokens", r.name(), n)
		}
	}
	if want := map[string]bool{"8 clients, prompt 128": true, "8 clients, prompt 512": true}; !reflect.DeepEqual(bars, want) {
		t.Errorf("%v", bars)
	}
	if rows = planServing([]int{1}, []int{128}, 8); len(rows) != 2 {
		t.Errorf("an open loop whose closed one is not measured: %v", rows)
	}
}

// TestPromptsAreExact: so many tokens, no two alike, and with a shared prefix three quarters of the tokens the same.
func TestPromptsAreExact(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(defaultModel()); err != nil {
		t.Skip("the default model is not there; `make pull` fetches it")
	}
	p, err := openPrompts(defaultModel())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{128, 512} {
		for _, shared := range []bool{false, true} {
			asks, err := p.asks(16, n, 64, shared, 3)
			if err != nil {
				t.Fatal(err)
			}
			var common int
			first := p.tokens.Encode(asks[0].prompt, false)
			for i, a := range asks {
				ids := p.tokens.Encode(a.prompt, false)
				if len(ids) != n {
					t.Fatalf("%d tokens, not %d", len(ids), n)
				}
				if i == 0 {
					continue
				}
				same := 0
				for same < n && ids[same] == first[same] {
					same++
				}
				common = max(common, same)
				if shared && same < n*3/4 {
					t.Errorf("the prefix ends after %d of %d tokens", same, n)
				}
			}
			if !shared && common > 20 || common > n*3/4+20 {
				t.Errorf("%d tokens, shared %v: two prompts share %d", n, shared, common)
			}
			again, err := p.asks(16, n, 64, shared, 3)
			if err != nil || !reflect.DeepEqual(asks, again) {
				t.Errorf("the same seed gave other requests (%v)", err)
			}
		}
	}
}

func TestArrivals(t *testing.T) {
	t.Parallel()
	at := arrivals(4000, 2, 1)
	if at[0] != 0 || !reflect.DeepEqual(at, arrivals(4000, 2, 1)) {
		t.Error("arrivals differ from run to run")
	}
	if rate := 4000 / at[len(at)-1].Seconds(); rate < 1.9 || rate > 2.1 {
		t.Errorf("%.2f a second", rate)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	tick := time.Millisecond
	s := seen{took: 2 * time.Second, answers: []answered{
		{first: 100 * tick, gaps: []time.Duration{10 * tick, 20 * tick}, prompt: 100, cached: 50, completion: 6},
		{first: 300 * tick, gaps: []time.Duration{30 * tick, 40 * tick}, prompt: 100, completion: 6},
	}}
	got := s.figures(tick * 200)
	want := figures{
		rate: 6, first50: 300, first99: 300, gap50: 30, gap99: 40, worst: 40, seconds: 2, perChunk: 2, cached: .25, generator: .1, perSecond: 1,
	}
	if got != want {
		t.Errorf("%+v", got)
	}
	faster := []figures{{rate: 20, gap99: 5}, {rate: 40, gap99: 10}}
	slower := []figures{{rate: 10, gap99: 10}, {rate: 10, gap99: 10}}
	if r := ratioOf(faster, slower, func(f figures) float64 { return f.rate }); r != (enginebench.Spread{Median: 3, Min: 2, Max: 4}) {
		t.Errorf("%+v", r)
	}
}

// TestReadsStreams: chunks without text are no tokens, and an answer that breaks off is an error.
func TestReadsStreams(t *testing.T) {
	t.Parallel()
	const good = `data: {"choices":[{"text":""}]}

data: {"choices":[{"text":"a"}]}

: comment

data: {"choices":[{"text":"bc"}]}

data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

`
	var a answered
	if err := a.read(strings.NewReader(good), time.Now()); err != nil || len(a.gaps) != 1 || a.prompt != 7 || a.cached != 4 || a.completion != 3 || a.first <= 0 || a.whole < a.first {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{"", "data: {\n\n", `data: {"choices":[{"text":""}]}` + "\n\n", `data: {"error":{"message":"no"}}` + "\n\n"} {
		if err := new(answered).read(strings.NewReader(bad), time.Now()); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

// TestOpenServer: the ungoverned server is the real edge: a load goes through it, and tenants and classes arrive at the engine.
func TestOpenServer(t *testing.T) {
	t.Parallel()
	e := enginetest.NewScripted(func(_ int, req *engine.Request) enginetest.Plan {
		if req.Tenant != "acme" || req.Class != engine.ClassBatch || req.MinTokens != 2 {
			return enginetest.Plan{Err: errors.New("not what was asked")}
		}
		return enginetest.Plan{Texts: []string{"abcdef"}}
	})
	handler, err := openHandler(e, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	to := &endpoint{name: "ours", url: server.URL, model: servedModel, least: true, client: http.DefaultClient}
	asks := make([]ask, 5)
	for i := range asks {
		asks[i] = ask{prompt: "one two", output: 2, tenant: "acme", tier: "flex"}
	}
	for name, run := range map[string]func() (seen, error){
		"closed": func() (seen, error) { return closed(t.Context(), to, 2, asks) },
		"open":   func() (seen, error) { return open(t.Context(), to, arrivals(len(asks), 1e6, 1), asks) },
	} {
		got, err := run()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, a := range got.answers {
			if a.completion != 2 || a.first <= 0 {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
	asks[0].tier = "priority"
	if _, err := closed(t.Context(), to, 1, asks); err == nil {
		t.Error("a failed request passed")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(ended, to, arrivals(len(asks), .001, 1), asks); err == nil {
		t.Error("a load that was cancelled passed")
	}
}

// TestServingMarkdown: each number lands in its column, and ratios say how many times better ours is.
func TestServingMarkdown(t *testing.T) {
	t.Parallel()
	c := &servingRun{
		plan: []servingRow{{8, 128, false, false}}, sides: []side{{name: "Sluice"}, {name: "other", peer: true}}, peer: &peer{builds: []build{{name: "native"}}},
		settings: map[settingKey]peerSetting{}, rates: map[servingRow]float64{},
		results: map[resultKey][]figures{
			{0, 0}: {{rate: 300, first50: 100, first99: 200, gap50: 5, gap99: 10, seconds: 4, perChunk: 1.5}},
			{0, 1}: {{rate: 100, first50: 150, first99: 500, gap50: 10, gap99: 40, seconds: 12, perChunk: 1}},
		},
	}
	c.fair = fairTrack{idle: []float64{100}, beside: []float64{150}, ratio: []float64{1.5}}
	c.mixed.with = []figures{{first50: 42}}
	var out strings.Builder
	c.report(time.Now()).markdown(&out)
	for _, want := range []string{
		"\n8 clients, prompt 128\n", "| Sluice | 300 (300…300) | 100 (100…100) | 200 (200…200) | 5.00 (5.00…5.00) | 10.0 (10.0…10.0) | 4.00 (4.00…4.00) | 1.50 |",
		"| other (native) | 100 (100…100) |", "| **3.00×** (3.00…3.00) | **1.50×** (1.50…1.50) | **2.50×** (2.50…2.50) | **2.00×** (2.00…2.00) | **4.00×** (4.00…4.00) | asked 2.5×, 4.0×: floor |",
		"| beside batch work | 42.0 (42.0…42.0) |", "first token p50 150 (150…150) ms, on an idle engine 100 (100…100) ms: **1.50×**",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, &out)
		}
	}
}
