package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/corpus"
)

// scripted finds what it was told, by text.
func scripted(found map[string][]Found) Detector {
	return func(text string) []Found { return found[text] }
}

func set(documents ...corpus.Document) corpus.Set {
	return corpus.Set{Name: "own", Documents: documents}
}

func measure(t *testing.T, s corpus.Set, d, optional Detector) Report {
	t.Helper()
	r, err := Run(t.Context(), Config{Set: s, Detector: d, Optional: optional})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func span(start, end int, class string) corpus.Span {
	return corpus.Span{Start: start, End: end, Type: class, WellFormed: true}
}

// TestWhatCountsAsFound goes through the rules one by one.
func TestWhatCountsAsFound(t *testing.T) {
	const text = "0123456789"
	one := []corpus.Span{span(2, 6, "person")}
	for _, c := range []struct {
		name     string
		spans    []corpus.Span
		found    []Found
		optional []Found
		want     Row // of Overall
	}{
		{"exact", one, []Found{{2, 6, "person", 1}}, nil, Row{Spans: 1, Hits: 1, Findings: 1, Right: 1}},
		{"wider", one, []Found{{0, 8, "person", 1}}, nil, Row{Spans: 1, Hits: 1, Findings: 1, Right: 1}},
		{"much wider", one, []Found{{0, 10, "person", 1}}, nil, Row{Spans: 1, Hits: 1, Findings: 1}},
		{"one character survives", one, []Found{{3, 6, "person", 1}}, nil, Row{Spans: 1, Partial: 1, Findings: 1, Right: 1}},
		{"two findings together", one, []Found{{2, 4, "person", 1}, {4, 6, "person", 1}}, nil, Row{Spans: 1, Hits: 1, Findings: 2, Right: 2}},
		{"another name", one, []Found{{2, 6, "address", 1}}, nil, Row{Spans: 1, Hits: 1, Findings: 1, Right: 1, WrongClass: 1}},
		{"elsewhere", one, []Found{{7, 9, "person", 1}}, nil, Row{Spans: 1, Findings: 1}},
		{"the surer of two names it", one, []Found{{2, 6, "address", 0.5}, {2, 6, "person", 0.9}}, nil, Row{Spans: 1, Hits: 1, Findings: 2, Right: 2}},
		{"nothing", one, nil, nil, Row{Spans: 1}},
		{"a optional class masks nothing", one, nil, []Found{{2, 6, "company", 1}}, Row{Spans: 1}},
		{"a optional value is not counted here", []corpus.Span{span(2, 6, "company")}, nil, []Found{{2, 6, "company", 1}}, Row{}},
	} {
		r := measure(t, set(corpus.Document{ID: "own/bank/0/clean", Text: text, Spans: c.spans}),
			scripted(map[string][]Found{text: c.found}), scripted(map[string][]Found{text: c.optional})).Overall
		got := Row{Spans: r.Spans, Hits: r.Hits, Partial: r.Partial, Findings: r.Findings, Right: r.Right, WrongClass: r.WrongClass}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestFiguresAndLists(t *testing.T) {
	documents := []corpus.Document{
		{ID: "own/bank/1/clean", Text: "张三的张三", Spans: []corpus.Span{span(0, 2, "person"), {Start: 3, End: 5, Type: "person"}}},
		{ID: "own/bank/2/ocr", Text: "公司甲", Spans: []corpus.Span{span(2, 3, "company")}},
		{ID: "own/negatives/1/clean", Text: "没有"},
		{ID: "own/negatives/2/clean", Text: "高兴"},
		{ID: "own/negatives/3/clean", Text: "单号"},
	}
	r := measure(t, set(documents...), scripted(map[string][]Found{"张三的张三": {{0, 2, "person", 1}, {3, 4, "person", 1}}, "高兴": {{0, 2, "person", 1}}}),
		scripted(map[string][]Found{"公司甲": {{2, 3, "company", 1}}, "单号": {{0, 2, "order_number", 1}}}))
	p := r.Class("person")
	if p.Spans != 2 || p.Hits != 1 || p.Partial != 1 || p.WellFormed != 1 || p.WellFormedHits != 1 || p.Findings != 3 || p.Right != 2 {
		t.Errorf("%+v", p)
	}
	if math.Abs(p.F2-5*p.Precision*p.Recall/(4*p.Precision+p.Recall)) > 1e-12 || p.Recall != 0.5 {
		t.Errorf("%+v", p)
	}
	if c := r.Class("company"); c.Hits != 1 || c.Default {
		t.Errorf("%+v", c)
	}
	// The optional finding in a hard negative masks nothing under the default policy.
	if r.Negatives.Documents != 3 || r.Negatives.Touched != 1 || strings.Join(r.Touched, ",") != "own/negatives/2/clean" {
		t.Errorf("%+v %v", r.Negatives, r.Touched)
	}
	if strings.Join(r.Missed, ",") != "own/bank/1/clean#1 person" {
		t.Error(r.Missed)
	}
	if strings.Join(r.Wrong, ",") != "own/negatives/2/clean@0-2 person,own/negatives/3/clean@0-2 order_number" {
		t.Error(r.Wrong)
	}
	for i, name := range []string{"clean"} { // ocr holds a optional value only
		if r.Noises[i].Name != name || len(r.Noises) != 1 {
			t.Errorf("%+v", r.Noises)
		}
	}
}

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		hits, n   int
		low, high float64
	}{{0, 0, 0, 1}, {0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {50, 100, 0.4038, 0.5962}, {9956, 10000, 0.99409, 0.99671}} {
		_, low, high := Wilson(c.hits, c.n)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%d of %d: [%.5f, %.5f], want [%.5f, %.5f]", c.hits, c.n, low, high, c.low, c.high)
		}
	}
	// 99.4 % as a lower bound allows so many misses and not one more.
	for n, misses := range map[int]int{1000: 1, 2000: 5, 5000: 19, 10000: 44, 20000: 98} {
		_, low, _ := Wilson(n-misses, n)
		_, lower, _ := Wilson(n-misses-1, n)
		if low < 0.994 || lower >= 0.994 {
			t.Errorf("%d misses in %d: %.5f, one more: %.5f", misses, n, low, lower)
		}
	}
}

// perfect is a report that every gate lets through.
func perfect() Report {
	r := Report{Overall: Row{Spans: 20000, Recall: 0.999, Low: 0.998, Precision: 0.99}, Negatives: Negatives{Documents: 4000, Rate: 0.001}}
	for _, c := range corpus.DefaultClasses() {
		r.Classes = append(r.Classes, Row{Name: c, Spans: 500, Recall: 1, WellFormed: 400, WellFormedHits: 400})
	}
	return r
}

func TestGates(t *testing.T) {
	if got := Published().Check(perfect()); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	class := func(r *Report, name string) *Row {
		for i := range r.Classes {
			if r.Classes[i].Name == name {
				return &r.Classes[i]
			}
		}
		t.Fatal(name)
		return nil
	}
	for gate, spoil := range map[string]func(*Report){
		"recall":             func(r *Report) { r.Overall.Recall = 0.9939 },
		"recall_low":         func(r *Report) { r.Overall.Low = 0.9899 },
		"precision":          func(r *Report) { r.Overall.Precision = 0.9699 },
		"touched":            func(r *Report) { r.Negatives.Rate = 0.0101 },
		"hard_negatives":     func(r *Report) { r.Negatives.Documents = 3999 },
		"spans":              func(r *Report) { r.Overall.Spans = 11999 },
		"spans.qq":           func(r *Report) { class(r, "qq").Spans = 499 },
		"recall.person":      func(r *Report) { class(r, "person").Recall = 0.9699 },
		"recall.address":     func(r *Report) { class(r, "address").Recall = 0.9299 },
		"wellformed.cn_uscc": func(r *Report) { class(r, "cn_uscc").WellFormedHits = 399 },
	} {
		r := perfect()
		spoil(&r)
		got := Published().Check(r)
		if len(got) != 1 || got[0].Gate != gate || got[0].English == "" || got[0].Chinese == "" {
			t.Errorf("%s: %+v", gate, got)
		}
	}
}

func TestReportsAreReadAndCompared(t *testing.T) {
	r := Report{Format: Format, Digest: "a", Missed: []string{"x", "y"}, Wrong: []string{"w"}, Touched: []string{}}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	old, err := ReadReport(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Missed, r.Wrong, r.Touched = []string{"y", "z"}, nil, []string{"t"}
	c, err := r.Since(old)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(c.NewlyMissed, "") != "z" || strings.Join(c.NoLonger, "") != "x" || strings.Join(c.NewlyTouched, "") != "t" || len(c.NewlyWrong) != 0 || !c.Worse() {
		t.Errorf("%+v", c)
	}
	r.Digest = "b"
	if _, err := r.Since(old); !errors.Is(err, ErrOtherSet) {
		t.Error(err)
	}
	for _, bad := range []string{"", "[]", `{"format":"x"}`} {
		if _, err := ReadReport(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestMistakesOfDetectors(t *testing.T) {
	for _, f := range []Found{{-1, 1, "person", 1}, {0, 3, "person", 1}, {1, 1, "person", 1}} {
		_, err := Run(t.Context(), Config{Set: set(corpus.Document{ID: "a", Text: "张三"}), Detector: scripted(map[string][]Found{"张三": {f}})})
		if err == nil || !strings.Contains(err.Error(), "in a, which has 2 characters") {
			t.Errorf("%+v: %v", f, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Run(ctx, Config{Set: set(corpus.Document{ID: "a"}), Detector: scripted(nil)}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOffsetsOfDetectorsAreRunes(t *testing.T) {
	got := Of("cn_mobile", "email")("😀张三 13800138000，邮箱 a@example.com。13900139000")
	want := []Found{{4, 15, "cn_mobile", 0}, {19, 32, "email", 0}, {33, 44, "cn_mobile", 0}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i].Score == 0 {
			t.Errorf("%+v has no score", got[i])
		}
		want[i].Score = got[i].Score
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
