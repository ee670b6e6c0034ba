package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// fast are sides that reach every bar, in two rounds.
func fast() (governed, auditOnly, first, peer *gatewaySide) {
	side := func(name string, ours bool, r gatewayRow) *gatewaySide {
		if ours {
			r.shipped, r.sealed = []float64{.2, .9}, []float64{1.2, 1.9}
		}
		return &gatewaySide{target: target{name: name}, ours: ours, row: r}
	}
	return side(setupGoverned, true, gatewayRow{rates: []float64{700, 700}, cpu: []float64{.4, .4}, peak: []float64{100, 100}, p50: pair{[]float64{1}}, p99: pair{[]float64{4}}}),
		side(setupAuditOnly, true, gatewayRow{rates: []float64{1000, 1000}}),
		side(setupAnswerFirst, true, gatewayRow{p50: pair{[]float64{.6}}, p99: pair{[]float64{2.5}}}),
		side(peerOfBars, false, gatewayRow{rates: []float64{1000, 1000}, cpu: []float64{.2}})
}

// run takes what such sides show at every place where bars look.
func run(change func(governed, auditOnly, first, peer *gatewaySide), stream []float64, lost, crowdMiB int) *gatewayBars {
	governed, auditOnly, first, peer := fast()
	change(governed, auditOnly, first, peer)
	g := newGatewayBars()
	for _, n := range []int{1, 16, 64} {
		g.loads(n, []*gatewaySide{governed, auditOnly, first, peer})
	}
	for _, s := range []*gatewaySide{governed, auditOnly, peer} {
		g.stream(s, true, stream[:1], stream[1:2])
		g.stream(s, false, stream[:1], stream[2:3])
		stream = []float64{9, 9, 9} // only the governed side counts
	}
	g.crowd(governed, crowd{answered: 5, lost: lost}, crowdMiB)
	g.crowd(peer, crowd{lost: 7}, 9000)
	return g
}

// TestBars: each figure decides its own bar, and only a backlog and a lost request fail the run.
func TestBars(t *testing.T) {
	t.Parallel()
	none := func(_, _, _, _ *gatewaySide) {}
	stream := []float64{.7, .030, .015}
	for name, c := range map[string]struct {
		change         func(governed, auditOnly, first, peer *gatewaySide)
		stream         []float64
		lost, crowdMiB int
		missed         string // the beginning of the bar's name; "" if all are reached
		fails          bool
	}{
		"all reached":       {none, stream, 0, 953, "", false},
		"few requests":      {func(g, _, _, _ *gatewaySide) { g.row.rates = []float64{690, 690} }, stream, 0, 953, "governed ÷ GoModel", false},
		"a faster peer":     {func(_, _, _, p *gatewaySide) { p.row.rates = []float64{1001, 1001} }, stream, 0, 953, "governed ÷ GoModel|audit-only ÷ GoModel", false},
		"much CPU":          {func(g, _, _, _ *gatewaySide) { g.row.cpu = []float64{.41, .41} }, stream, 0, 953, "governed, CPU", false},
		"much memory":       {func(g, _, _, _ *gatewaySide) { g.row.peak = []float64{101, 101} }, stream, 0, 953, "governed, MiB", false},
		"slow":              {func(g, _, _, _ *gatewaySide) { g.row.p50.added = []float64{1.1} }, stream, 0, 953, "governed, added p50", false},
		"slow at times":     {func(g, _, _, _ *gatewaySide) { g.row.p99.added = []float64{4.1} }, stream, 0, 953, "governed, added p99", false},
		"slow first":        {func(_, _, f, _ *gatewaySide) { f.row.p50.added = []float64{.61} }, stream, 0, 953, "answer-first, added p50", false},
		"slow first, too":   {func(_, _, f, _ *gatewaySide) { f.row.p99.added = []float64{2.6} }, stream, 0, 953, "answer-first, added p99", false},
		"first token":       {none, []float64{.71, .030, .015}, 0, 953, "governed, added ms to the first token", false},
		"chunks":            {none, []float64{.7, .030, .016}, 0, 953, "governed, added ms per chunk without", false},
		"masked chunks":     {none, []float64{.7, .031, .015}, 0, 953, "governed, added ms per chunk with values", false},
		"a heavy crowd":     {none, stream, 0, 954, "a crowd, MiB", false},
		"a lost request":    {none, stream, 1, 953, "a crowd, requests lost", true},
		"one slow round":    {func(_, a, _, _ *gatewaySide) { a.row.shipped = []float64{.1, 1.1, .1}; a.row.sealed = a.row.shipped }, stream, 0, 953, "s after the load", true},
		"slow to seal":      {func(g, _, _, _ *gatewaySide) { g.row.sealed = []float64{1.1, 2.1} }, stream, 0, 953, "s until all are sealed", true},
		"what is no number": {func(g, _, _, _ *gatewaySide) { g.row.p50.added = []float64{math.NaN()} }, stream, 0, 953, "governed, added p50", false},
	} {
		var b strings.Builder
		err := run(c.change, c.stream, c.lost, c.crowdMiB).report(&b)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		var missed []string
		for line := range strings.Lines(b.String()) {
			if strings.HasSuffix(line, "missed\n") {
				missed = append(missed, line)
			}
			if strings.Contains(line, "not measured") {
				t.Errorf("%s: %s", name, line)
			}
		}
		want := strings.FieldsFunc(c.missed, func(r rune) bool { return r == '|' })
		if len(missed) != len(want) {
			t.Fatalf("%s: missed\n%s", name, missed)
		}
		for i := range want {
			if !strings.HasPrefix(missed[i], want[i]) {
				t.Errorf("%s: missed %s, want %s", name, missed[i], want[i])
			}
		}
		if c.fails && !strings.Contains(err.Error(), c.missed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBarsNotMeasured: a bar whose row did not run is neither reached nor missed.
func TestBarsNotMeasured(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	g := newGatewayBars()
	governed, _, _, _ := fast()
	g.loads(16, []*gatewaySide{governed})
	if err := g.report(&b); err != nil {
		t.Error(err)
	}
	if n := strings.Count(b.String(), "not measured\n"); n != len(g.all())-2 || strings.Count(b.String(), "reached\n") != 2 { // both of the backlog
		t.Error(b.String())
	}
}

// TestDrain: a load is over when its records are in the database and under a checkpoint; a server that does not tell is an error.
func TestDrain(t *testing.T) {
	t.Parallel()
	var looks atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || r.Header.Get("Authorization") != "Bearer "+operationsToken {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		switch n := looks.Add(1); {
		case n > 100:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = fmt.Fprintf(w, "# HELP x\nsluice_audit_records_appended_total 10\nsluice_audit_records_shipped_total %d\nsluice_audit_sealed_records %d\n", min(7+n, 10), min(4+n, 10))
		}
	}))
	defer s.Close()
	side := &gatewaySide{target: target{url: s.URL}, ours: true}
	shipped, sealed, err := side.drain(t.Context())
	if err != nil || shipped <= 0 || sealed <= shipped || looks.Load() != 6 {
		t.Errorf("%v: shipped after %v, sealed after %v, %d looks", err, shipped, sealed, looks.Load())
	}
	looks.Store(100)
	if _, _, err := side.drain(t.Context()); err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Error(err)
	}
}

// TestCrowdCounts: a crowd in front of a side counts for the bars, and that of a peer does not.
func TestCrowdCounts(t *testing.T) {
	t.Parallel()
	g := newGatewayBars()
	g.crowd(&gatewaySide{ours: true}, crowd{}, 300)
	g.crowd(&gatewaySide{ours: true}, crowd{lost: 2}, 200)
	g.crowd(&gatewaySide{ours: true}, crowd{}, 100)
	if g.crowdLost.value != 2 || g.crowdMemory.value != 300 {
		t.Errorf("%+v, %+v: the worst counts", g.crowdLost, g.crowdMemory)
	}
	if err := g.report(io.Discard); err == nil {
		t.Error("two requests were lost")
	}
}
