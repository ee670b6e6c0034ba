package classify_test

import (
	"encoding/base64"
	"math"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
)

func names(reasons []classify.Reason) []string {
	var out []string
	for _, r := range reasons {
		out = append(out, r.Name)
	}
	return out
}

// TestWhyIsTheScore: what is said about a finding adds up to its score, and says what the text has.
func TestWhyIsTheScore(t *testing.T) {
	t.Parallel()
	encoded := base64.StdEncoding.EncodeToString([]byte("身份证号：11010519491231002X"))
	for _, c := range []struct {
		text  string
		class classify.Class
		with  []string
		not   []string
	}{
		{"身份证号：11010519491231002X", classify.ResidentID, []string{"check_right", "date_right", "region_right"}, []string{"check_wrong", "base64"}},
		{"身份证号：110105194912310021", classify.ResidentID, []string{"check_wrong", "label_before"}, []string{"check_right"}},
		{encoded, classify.ResidentID, []string{"base64", "check_right"}, nil},
		{"请王芳女士到三号窗口", classify.Person, []string{"honorific"}, []string{"label_before"}},
	} {
		found := classify.New().Find(c.text)
		if len(found) != 1 || found[0].Class != c.class {
			t.Fatalf("%s: %+v", c.text, found)
		}
		f := found[0]
		sum := f.Why.Form()
		for _, r := range f.Why.Reasons() {
			sum += r.Weight
		}
		if math.Abs(min(max(sum, 0), 1)-f.Score) > 1e-6 {
			t.Errorf("%s: the reasons sum up to %v, the score is %v: %+v", c.class, sum, f.Score, f.Why.Reasons())
		}
		got := names(f.Why.Reasons())
		for _, want := range c.with {
			if !slices.Contains(got, want) {
				t.Errorf("%s lacks the reason %s: %v", c.class, want, got)
			}
		}
		for _, no := range c.not {
			if slices.Contains(got, no) {
				t.Errorf("%s has the reason %s: %v", c.class, no, got)
			}
		}
	}
}

// TestKnownValuesSayWhy: a value that the caller named is explained as such.
func TestKnownValuesSayWhy(t *testing.T) {
	t.Parallel()
	found := classify.New().Know([]classify.Known{{Class: classify.Person, Value: "慕容雪"}}).Find("慕容雪来过")
	if len(found) != 1 || !slices.Contains(names(found[0].Why.Reasons()), "listed") {
		t.Fatalf("%+v", found)
	}
}
