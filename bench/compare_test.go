package main

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/enginebench"
)

// TestRowsHaveTheirBars: eight rows per number of threads, with their bars.
func TestRowsHaveTheirBars(t *testing.T) {
	t.Parallel()
	want := map[string][2]float64{
		"prompt 128 against the same file":         {0, 0},
		"prompt 512 against the same file":         {2, 3.5},
		"prompt 512 against its Q8_0 form":         {1.2, 1.8},
		"prompt 512 against its Q4_0 form":         {.9, 1.2},
		"generation at 0 against the same file":    {1.3, 2},
		"generation at 0 against its Q8_0 form":    {1.3, 2},
		"generation at 0 against its Q4_0 form":    {1.1, 1.4},
		"generation at 1024 against the same file": {1.3, 2},
	}
	got := map[string][2]float64{}
	for _, r := range planRows(2, 128) {
		got[r.name()] = [2]float64{r.floor, r.aim}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	for _, r := range planRows(1, 128) {
		if r.floor != 1.1 || r.aim != 1.5 {
			t.Errorf("one thread, %s: %g, %g", r.name(), r.floor, r.aim)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	r := row{floor: .9, aim: 1.2}
	for ratio, want := range map[float64]string{.89: "**below the floor**", .9: "floor", 1.19: "floor", 1.2: "aim", 9: "aim", math.NaN(): "**below the floor**"} {
		if got := r.verdict(ratio); got != want {
			t.Errorf("%g: %s", ratio, got)
		}
	}
	if got := (row{}).verdict(.1); got != "" {
		t.Errorf("a row without a bar: %s", got)
	}
}

// TestKeep: settings well behind leave, at most two stay, and one that was given up (rate 0) never wins.
func TestKeep(t *testing.T) {
	t.Parallel()
	a, b, c, d := setting{0, true}, setting{0, false}, setting{1, true}, setting{2, true}
	tr := track{a: {100}, b: {95}, c: {0}, d: {92}}
	if got := tr.keep([]setting{a, b, c, d}); !reflect.DeepEqual(got, []setting{a, b}) {
		t.Errorf("%v", got)
	}
	tr = track{a: {10}, b: {0}, c: {100}, d: {89}}
	if got := tr.keep([]setting{a, b, c, d}); !reflect.DeepEqual(got, []setting{c}) {
		t.Errorf("%v", got)
	}
	tr = track{a: {100, 80, 80}, b: {95, 96, 97}}
	if got := tr.best([]setting{a, b}); got != b {
		t.Errorf("one lucky round won: %v", got)
	}
}

func TestRatios(t *testing.T) {
	t.Parallel()
	if got := ratios([]float64{2, 9, 4}, []float64{1, 3}); !reflect.DeepEqual(got, []float64{2, 3}) {
		t.Errorf("%v", got)
	}
}

func TestBenchRate(t *testing.T) {
	t.Parallel()
	good := `[{"build_number": 11434, "n_prompt": 1, "avg_ts": 96.5}, {"build_number": 11434, "avg_ts": 120.25}]`
	if got, err := benchRate([]byte(good)); err != nil || got != 120.25 {
		t.Errorf("%g, %v", got, err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `[{"build_number": 1, "avg_ts": 5}]`, `[{"build_number": 11434, "avg_ts": 0}]`, `[{"build_number": 11434}]`} {
		if got, err := benchRate([]byte(bad)); err == nil {
			t.Errorf("%q gave %g", bad, got)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	o, err := parseOptions([]string{"-threads", "1,4", "-plans", ",int8", "-tiers", "avx2"})
	if err != nil || !reflect.DeepEqual(o.threads, []int{1, 4}) || !reflect.DeepEqual(o.plans, []string{"", "int8"}) || !reflect.DeepEqual(o.tiers, []string{"avx2"}) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = parseOptions(nil); err != nil || o.tiers != nil || !reflect.DeepEqual(o.plans, []string{""}) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-threads", "two"}, {"-threads", "0"}, {"-rounds", "0"}} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("%v passed", args)
		}
	}
}

// TestMarkdown: each number lands in its column.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	three := func(v float64) enginebench.Spread { return enginebench.Spread{Median: v, Min: v - .5, Max: v + .5} }
	r := report{
		Rows: []reportRow{
			{Threads: 2, Row: "prompt 512", Ours: "avx2", Theirs: "native", Rate: three(900), Peer: three(400), Ratio: three(2.25), Share: three(.6), Floor: 2, Aim: 3.5, Reached: "floor"},
			{Threads: 1, Row: "prompt 512", Ours: "avx2", Theirs: "AVX2", Rate: three(450), Peer: three(225), Ratio: three(2)},
		},
		Process: []reportProcess{{Threads: 2, Load: three(1), FirstLoad: three(2), PeerLoad: three(4), Memory: three(100 << 20), PeerMemory: three(200 << 20)}},
		Limits:  []reportLimit{{Threads: 2, ISA: "avx2", LimitSpreads: enginebench.LimitSpreads{Read: three(30)}}},
	}
	var out strings.Builder
	r.markdown(&out)
	for _, want := range []string{
		"\n2 threads: ", "\nOne thread: ",
		"| prompt 512 | avx2 | 900 (900…900) | 60 % | 400 (400…400) | native | **2.25×** (1.75…2.75) | 2.0×, 3.5× | floor |",
		"| – | 225 (224…226) | AVX2 |",
		"| 2 | load to the first token, seconds | 1.00 (0.50…1.50) | 4.00 (3.50…4.50) | 4.00× |",
		"kept by an earlier load | 2.00 (1.50…2.50) | 4.00 (3.50…4.50) | 2.00× |",
		"MiB | 100 (100…100) | 200 (200…200) | 2.00× |",
		"| 2 | avx2 | 30.0 (29.5…30.5) | – | – |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, &out)
		}
	}
}
