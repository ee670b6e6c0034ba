package conform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/conform"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/simulate"
	"github.com/sluice-project/sluice/engine/unified"
)

func profiles(t *testing.T) *profile.Set {
	t.Helper()
	s, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// simulated is a small, fast engine that speaks a profile.
func simulated(p *profile.Profile) simulate.Config {
	m := simulate.DefaultModel()
	m.Context, m.Adapters, m.Vision, m.Thinks = 4096, []string{"tuned"}, true, p.Claims(capability.Reasoning)
	h := simulate.DefaultMachine()
	h.StepOverhead, h.FLOPS, h.BytesSecond, h.MaxBatch, h.MaxQueue = 300*time.Microsecond, 1e18, 1e18, 4, 8
	return simulate.Config{Profile: p, Model: m, Machine: h, Seed: 7, Version: "1.2.3"}
}

// examine runs the cases against a simulator.
func examine(t *testing.T, c simulate.Config, only ...conform.Case) conform.Report {
	t.Helper()
	s, err := simulate.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.Close()
	r, err := conform.Run(t.Context(), conform.Config{
		Peer:  peer.Config{Profile: c.Profile, URL: server.URL, Management: server.URL, Metrics: server.URL},
		Model: c.Model.Name, Adapter: "tuned", Destructive: true, Only: only, Timeout: 20 * time.Second, FreeWithin: 300 * time.Millisecond, MovesWithin: 300 * time.Millisecond, Load: 32, Software: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func outcome(r conform.Report, c conform.Case) conform.Outcome {
	i := slices.IndexFunc(r.Cases, func(o conform.Outcome) bool { return o.Case == c })
	if i < 0 {
		return conform.Outcome{}
	}
	return r.Cases[i]
}

// wire is what of a profile a simulator and the cases see.
func wire(t *testing.T, p *profile.Profile) string {
	t.Helper()
	seen := *p
	seen.Name, seen.Title, seen.Extends, seen.Basis, seen.Kind, seen.Systems, seen.About, seen.Sources, seen.Ran, seen.Quirks = "", "", "", "", "", nil, profile.Text{}, nil, nil, nil
	seen.Claimed = capability.Contract{Features: p.Claimed.Features}
	j, err := json.Marshal(seen)
	if err != nil {
		t.Fatal(err)
	}
	return string(j)
}

// TestSimulatorsConform: the simulator of every profile passes every case that applies to it, and the report claims no more than E2, or nothing where
// the dialect is assumed. Of profiles with the same dialect one is examined by all cases.
func TestSimulatorsConform(t *testing.T) {
	s := profiles(t)
	whole := map[string]bool{}
	for _, name := range s.Names() {
		p, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		var only []conform.Case
		if w := wire(t, p); whole[w] {
			only = []conform.Case{conform.Answer}
		} else {
			whole[w] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := examine(t, simulated(p), only...)
			for _, o := range r.Cases {
				if o.Result == conform.Failed {
					t.Errorf("CP-%d: %s %q", o.Case, o.Reason.En, o.Evidence)
				}
			}
			want := capability.E2
			if p.Basis == profile.Assumed {
				want = capability.E0
			}
			if r.Grade != want || !r.Target.Simulated || outcome(r, conform.Answer).Result != conform.Passed {
				t.Errorf("grade %s, want %s; %+v", r.Grade, want, r.Target)
			}
		})
	}
	if len(whole) < 20 {
		t.Errorf("only %d dialects differ", len(whole))
	}
}

// sane reports whether a mutation can be seen on the simulator of a profile: the thing that it breaks is there.
func sane(p *profile.Profile, m simulate.Mutation) bool {
	claims := p.Claims
	own := p.Endpoints.Chat == "" && p.Endpoints.Completions == ""
	switch m {
	case simulate.MutateHealth, simulate.MutateFlap:
		return p.Health.Ready.Path != ""
	case simulate.MutateModels:
		return p.Models.Path != ""
	case simulate.MutateContext:
		return p.Models.Path != "" && (p.Models.Context != "" || p.Models.ContextFrom.Path != "")
	case simulate.MutateDone:
		return !own && p.Stream.Done != ""
	case simulate.MutateStreamUsage:
		return !own && p.Stream.Usage != "none"
	case simulate.MutateStreamFinish:
		return !own
	case simulate.MutateUsageWrong:
		return !own
	case simulate.MutateToolsText, simulate.MutateToolArguments:
		return claims(capability.ToolsRequired) || claims(capability.ToolsNamed)
	case simulate.MutateReasoning:
		return claims(capability.Reasoning)
	case simulate.MutateFormat:
		return slices.ContainsFunc([]capability.Feature{
			capability.FormatObject, capability.FormatSchema, capability.FormatRegex, capability.FormatGrammar, capability.FormatChoice,
		}, claims)
	case simulate.MutateLogprobs:
		return claims(capability.Logprobs)
	case simulate.MutateSeed:
		return claims(capability.Seed)
	case simulate.MutateSampling:
		return claims(capability.TopK) || claims(capability.MinP) || claims(capability.MinTokens)
	case simulate.MutateCancel:
		_, running := p.Metrics.Map["requests_running"]
		_, batch := p.Metrics.Map["batch_size"]
		return p.Cancel.Disconnect != nil && (running || batch)
	case simulate.MutateMetricName, simulate.MutateMetricPage:
		return len(p.Metrics.Map) > 0
	case simulate.MutateMetricFrozen:
		return slices.ContainsFunc([]unified.Name{unified.PromptTokens, unified.OutputTokens, unified.RequestsDone, unified.FirstToken, unified.RequestTime}, func(n unified.Name) bool {
			row, ok := p.Metrics.Map[n]
			return ok && !row.Optional && row.Form != unified.Gauge
		})
	case simulate.MutateMetricUnit:
		_, ttft := p.Metrics.Map["time_to_first_token_seconds"]
		_, e2e := p.Metrics.Map["request_seconds"]
		return ttft || e2e
	case simulate.MutateVersion, simulate.MutateVersionFlap:
		return p.Version.Path != ""
	case simulate.MutateImage, simulate.MutateImageError:
		return claims(capability.ImageIn)
	case simulate.MutateAdapter:
		return claims(capability.Adapters)
	case simulate.MutateAdapterUnknown:
		return claims(capability.Adapters) && (p.Errors.WrongModel != 0 || p.Request.Adapter.Name != "model")
	case simulate.MutateDrain, simulate.MutateDrainOpen:
		return p.Drain.Path != ""
	}
	return true
}

// leaders are one profile of each family, and those that differ from it in what mutations break.
func leaders() []string {
	return []string{
		"openai", "vllm", "sglang", "mindie", "mindie-coordinator", "lmdeploy", "fastdeploy", "tgi", "lorax", "llama.cpp", "ollama", "trtllm", "triton", "kserve", "dynamo",
		"xinference", "gpustack", "mistral.rs", "chitu",
	}
}

// TestMutationsAreFound: each thing that is broken on the simulator of a family fails the case that it should.
func TestMutationsAreFound(t *testing.T) {
	s := profiles(t)
	tried := map[simulate.Mutation]int{}
	for _, name := range leaders() {
		p, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for m, cases := range simulate.Mutations() {
			if !sane(p, m) {
				continue
			}
			tried[m]++
			t.Run(name+"/"+string(m), func(t *testing.T) {
				t.Parallel()
				c := simulated(p)
				c.Mutation = m
				var only []conform.Case
				for _, n := range cases {
					only = append(only, conform.Case(n))
				}
				r := examine(t, c, only...)
				if len(r.Failed()) == 0 {
					t.Errorf("nothing failed: %+v", r.Cases)
				}
			})
		}
	}
	for m := range simulate.Mutations() {
		if tried[m] == 0 {
			t.Errorf("%s was tried on no profile", m)
		}
	}
}

// TestSimulatorTells: whatever a simulator is asked, it is known for one, and a client that was handed in stays as it was.
func TestSimulatorTells(t *testing.T) {
	p, err := profiles(t).Get("vllm")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.New(simulated(p))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.Close()
	for _, c := range []conform.Case{conform.Health, conform.Models, conform.Contract} {
		client := &http.Client{}
		r, err := conform.Run(t.Context(), conform.Config{Peer: peer.Config{Profile: p, URL: server.URL, Client: client}, Only: []conform.Case{c}, Hardware: "attested"})
		if err != nil || r.Grade != capability.E2 || !r.Target.Simulated || client.Transport != nil {
			t.Errorf("CP-%d bears %s: %+v, %v; %+v", c, r.Grade, r.Target, err, client)
		}
	}
}

// TestSilence: an engine that takes a question and never answers holds nobody up for longer than the time of a case.
func TestSilence(t *testing.T) {
	p, err := profiles(t).Get("vllm")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := conform.Config{Peer: peer.Config{Profile: p, URL: server.URL}, Model: "m", Only: []conform.Case{conform.Health}, Timeout: 100 * time.Millisecond}
	r, err := conform.Run(ctx, c)
	if err != nil || ctx.Err() != nil || outcome(r, conform.Health).Result != conform.Passed || r.Target.Version != "" {
		t.Errorf("%+v, %v, %v", r, err, ctx.Err())
	}
	c.Model = ""
	if _, err := conform.Run(ctx, c); err == nil || ctx.Err() != nil {
		t.Errorf("without a model: %v, %v", err, ctx.Err())
	}
}

// TestUnseenCalls: a model that talks instead of calling a tool, where the profile allows for it, proves nothing: neither that calls work nor that they do not.
func TestUnseenCalls(t *testing.T) {
	p, err := profiles(t).Get("llama.cpp")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.New(simulated(p))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var doc map[string]any
		if json.NewDecoder(r.Body).Decode(&doc) == nil { // the model does not hear of tools
			delete(doc, "tools")
			delete(doc, "tool_choice")
		}
		j, err := json.Marshal(doc)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(j))
		s.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer s.Close()
	r, err := conform.Run(t.Context(), conform.Config{Peer: peer.Config{Profile: p, URL: server.URL}, Only: []conform.Case{conform.ToolsAndReasoning}})
	if err != nil {
		t.Fatal(err)
	}
	o := outcome(r, conform.ToolsAndReasoning)
	if o.Result != conform.NotReported || len(o.Evidence) == 0 {
		t.Errorf("%+v", o)
	}
	seen := p.Claimed.Observe(r.Observation("report"))
	for _, f := range []capability.Feature{capability.Tools, capability.ToolsRequired, capability.ToolsNamed} {
		if _, told := o.Features[f]; told || !p.Claims(f) || seen.Features[f].Proven() == capability.Roadmap {
			t.Errorf("%s: %+v, and then %+v", f, o.Features, seen.Features[f])
		}
	}
}
