package unified_test

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/unified"
)

// TestContract: names are unique, end in their unit as the rules of Prometheus have it, and say what they mean; aliases are vLLM's.
func TestContract(t *testing.T) {
	seen, kinds := map[unified.Name]bool{}, map[unified.Kind]int{}
	endings := map[unified.Unit][]string{
		unified.Seconds: {"_seconds"}, unified.Ratio: {"_ratio"}, unified.Bytes: {"_bytes", "_bytes_total"}, unified.Rate: {"_tokens_per_second"}, unified.Tokens: {"_tokens", "_tokens_total"},
	}
	for _, m := range unified.Metrics() {
		if seen[m.Name] || m.Meaning == "" || m.Unit == "" || m.Form == "" {
			t.Errorf("%+v", m)
		}
		seen[m.Name] = true
		kinds[m.Kind]++
		ok := len(endings[m.Unit]) == 0
		for _, e := range endings[m.Unit] {
			ok = ok || strings.HasSuffix(string(m.Name), e)
		}
		if !ok {
			t.Errorf("%s is in %s", m.Name, m.Unit)
		}
		if (m.Form == unified.Counter) != strings.HasSuffix(string(m.Name), "_total") {
			t.Errorf("%s is a %s", m.Name, m.Form)
		}
		if m.VLLM != "" && !strings.HasPrefix(m.VLLM, "vllm:") {
			t.Errorf("%s: %s", m.Name, m.VLLM)
		}
	}
	for _, k := range []unified.Kind{unified.Experience, unified.State, unified.Efficiency, unified.LoadBound} {
		if kinds[k] == 0 {
			t.Errorf("no metric is of kind %s", k)
		}
		delete(kinds, k)
	}
	if len(kinds) > 0 {
		t.Errorf("kinds that there are not: %v", kinds)
	}
	names := map[string]bool{}
	for _, e := range unified.Events() {
		if names[e.Name] || e.Meaning == "" {
			t.Errorf("%+v", e)
		}
		names[e.Name] = true
		for _, a := range e.Attributes {
			if a == "text" || a == "prompt" || a == "answer" {
				t.Errorf("%s has the attribute %s", e.Name, a)
			}
		}
	}
}

const page = `# TYPE a gauge
a{x="1"} 0
a{x="2"} 4
# TYPE half gauge
half{x="1"} 0.5
half{x="2"} 1
# TYPE h histogram
h_bucket{le="100"} 1
h_bucket{le="+Inf"} 4
h_sum 800
h_count 4
# TYPE nan gauge
nan NaN
plain 7
`

// TestNotReportedIsNotZero: what is not there is missing; what is there and zero is zero.
func TestNotReportedIsNotZero(t *testing.T) {
	v, err := unified.Read(unified.Prometheus, strings.NewReader(page), unified.Map{
		unified.RequestsRunning: {Name: "a"}, unified.RequestsWaiting: {Name: "a", Labels: map[string]string{"x": "1"}}, unified.BatchSize: {Name: "a", Labels: map[string]string{"y": "*"}},
		unified.KVUsage: {Name: "half"}, unified.FirstToken: {Name: "h", Scale: .001}, unified.KVTokens: {Name: "nan"}, unified.OutputTokens: {Name: "plain"},
		unified.PromptTokens: {Name: "absent"}, unified.CachedTokens: {Name: "new", Older: []string{"older", "plain"}}, unified.QueueTime: {Name: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if x := v[unified.RequestsRunning]; x.Value != 4 {
		t.Errorf("sums are %+v", x)
	}
	if x, ok := v[unified.RequestsWaiting]; !ok || x.Value != 0 {
		t.Errorf("zero is %+v, %t", x, ok)
	}
	if x := v[unified.KVUsage]; x.Value != .75 {
		t.Errorf("a share of two is %+v", x)
	}
	x := v[unified.FirstToken]
	if mean, ok := x.Mean(); !ok || mean != .2 || x.Buckets[0] != (unified.Bucket{Le: .1, Count: 1}) || x.Count != 4 {
		t.Errorf("milliseconds are %+v", x)
	}
	if x := v[unified.CachedTokens]; x.Value != 7 || x.Series != "plain" {
		t.Errorf("an older name is %+v", x)
	}
	for _, n := range []unified.Name{unified.BatchSize, unified.KVTokens, unified.PromptTokens, unified.QueueTime} {
		if x, ok := v[n]; ok {
			t.Errorf("%s is %+v", n, x)
		}
	}
	if len(v.Missing())+len(v) != len(unified.Metrics()) {
		t.Errorf("missing %v", v.Missing())
	}
	if _, ok := (unified.Value{Form: unified.Histogram}).Mean(); ok {
		t.Error("no observations have a mean")
	}
	if _, err := unified.Read(unified.Prometheus, strings.NewReader("{{{"), nil); err == nil {
		t.Error("nonsense was read")
	}
	if _, err := unified.Read(unified.JSON, strings.NewReader("["), nil); err == nil {
		t.Error("nonsense was read")
	}
	if v, err := unified.Read(unified.JSON, strings.NewReader("[]"), unified.Map{unified.KVUsage: {Name: "a"}}); err != nil || len(v) > 0 {
		t.Errorf("%v, %v", v, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(page, true)
	f.Add(`[{"a":{"b":1}}]`, false)
	f.Fuzz(func(t *testing.T, text string, prom bool) {
		format := unified.JSON
		if prom {
			format = unified.Prometheus
		}
		v, err := unified.Read(format, strings.NewReader(text), unified.Map{unified.KVUsage: {Name: "a.b"}, unified.RequestsRunning: {Name: "a"}, unified.FirstToken: {Name: "h"}})
		for n, x := range v {
			if err != nil || x.Value != x.Value {
				t.Fatalf("%s is %+v, %v", n, x, err)
			}
		}
	})
}
