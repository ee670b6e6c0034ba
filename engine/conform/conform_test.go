package conform_test

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/conform"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/simulate"
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
		Model: c.Model.Name, Adapter: "tuned", Destructive: true, Only: only, Timeout: 20 * time.Second, FreeWithin: 300 * time.Millisecond, Load: 32, Software: "test",
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

// TestSimulatorsConform: the simulator of every profile passes every case that applies to it, and the report claims no more than E2, or nothing where
// the dialect is assumed.
func TestSimulatorsConform(t *testing.T) {
	s := profiles(t)
	for _, name := range s.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := s.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			r := examine(t, simulated(p))
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
}
