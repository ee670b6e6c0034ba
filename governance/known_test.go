package governance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestMaskKnown: a question is masked before anybody knows what documents name; then that is masked in all of the request. Values have one
// pseudonym, and each is counted once, in findings and in metrics.
func TestMaskKnown(t *testing.T) {
	g := newGuard(t, dbtest.SQLite(t), nil)
	reg := prometheus.NewRegistry()
	g.metrics = newMetrics(reg)
	publish(t, g, EveryTenant, "  default: {request: token, passage: token, answer: observe}\n  person: {request: observe, passage: observe}\n  company: {request: block, passage: redact}")
	const original = "星语呢喃的电话13800138000"
	a, err := g.Admit(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	question, err := a.MaskQuery(original)
	pseudonym, masked := strings.CutPrefix(question, "星语呢喃的电话⟦手机·")
	if err != nil || !masked || len(a.Findings()) > 0 {
		t.Fatalf("%q, %v, found %v", question, err, a.Findings())
	}
	person := []classify.Known{{Class: classify.Person, Value: "星语呢喃"}}
	text := original
	if err := a.Mask(person, ask(&text).Fields); err != nil || !strings.HasPrefix(text, "⟦姓名·") || !strings.HasSuffix(text, "的电话⟦手机·"+pseudonym) {
		t.Errorf("%q, %v", text, err)
	}
	passage, err := a.MaskPassage("星语呢喃来过")
	if err != nil || !strings.HasPrefix(passage, text[:strings.Index(text, "⟧")]) {
		t.Errorf("%q, %v", passage, err)
	}
	want := map[string]int{"request cn_mobile token": 1, "request person token": 1, "passage person token": 1}
	got := map[string]int{}
	for _, f := range a.Findings() {
		got[f.Direction+" "+f.Class+" "+f.Action] = f.Count
	}
	counted := counts(t, reg)
	for name, n := range want {
		if got[name] != n || counted[name] != n || len(got) != len(want) || len(counted) != len(want) {
			t.Errorf("%s: found %v, counted %v", name, got, counted)
		}
	}
	text = original
	company := []classify.Known{{Class: classify.Company, Value: "呢喃的电话"}}
	err = a.Mask(company, ask(&text).Fields)
	if !fault.Is(err, fault.CodeBlockedContent) || text != original || strings.Contains(err.Error(), "呢喃") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := a.MaskQuery(original); !fault.Is(err, fault.CodeBlockedContent) || strings.Contains(err.Error(), "呢喃") {
		t.Errorf("a question that may not be asked: %v", err)
	}
	if kept := a.Redact("星语呢喃和呢喃的电话"); strings.Contains(kept, "星语") || strings.Contains(kept, "呢喃") {
		t.Errorf("kept as %q", kept)
	}
}

// counts are the values that metrics have counted, by direction, class and action.
func counts(t *testing.T, reg *prometheus.Registry) map[string]int {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			label := map[string]string{}
			for _, l := range m.GetLabel() {
				label[l.GetName()] = l.GetValue()
			}
			if family.GetName() == "sluice_governance_values_total" {
				out[label["direction"]+" "+label["class"]+" "+label["action"]] = int(m.GetCounter().GetValue())
			}
		}
	}
	return out
}

// TestShownPassages: a passage that no engine is given comes back to the caller whole, and is found, counted and told as observed; what hides
// it from the caller is told as that.
func TestShownPassages(t *testing.T) {
	for action, want := range map[string]string{"token": "observe", "observe": "observe", "redact": "redact", "partial": "partial", "hash": "hash"} {
		g := newGuard(t, dbtest.SQLite(t), nil)
		reg := prometheus.NewRegistry()
		g.metrics = newMetrics(reg)
		publish(t, g, "acme", "  default: {request: token, passage: "+action+", answer: observe}\n")
		a, err := g.Admit(t.Context(), ask())
		if err != nil {
			t.Fatal(err)
		}
		masked, err := a.MaskDisplayed("电话" + testPhone)
		if err != nil {
			t.Fatal(err)
		}
		r := a.Release()
		shown, err := r.Write(masked)
		if err != nil {
			t.Fatal(err)
		}
		rest, err := r.Close()
		if err != nil || strings.Contains(shown+rest, testPhone) != (want == "observe") {
			t.Errorf("%s shows %q, %v", action, shown+rest, err)
		}
		found := ""
		for _, f := range a.Findings() {
			if f.Direction == "passage" {
				found += f.Action
			}
		}
		if counted := counts(t, reg); found != want || counted["passage cn_mobile "+want] != 1 {
			t.Errorf("%s is found as %q, counted as %v", action, found, counted)
		}
	}
}

// TestExamine: a text that is only looked at stays as it is and is never refused; what is found in each is told apart, and counted once.
func TestExamine(t *testing.T) {
	g := newGuard(t, dbtest.SQLite(t), nil)
	publish(t, g, EveryTenant, "  default: {request: token, passage: token, answer: observe}\n  email: {request: block}\n  cn_mobile: {request: observe}\n  qq: {request: allow}")
	q := ask()
	q.Known = []classify.Known{{Class: classify.Person, Value: "星语呢喃"}}
	a, err := g.Admit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"hello": "", "13800138000 and 13900139000": "cn_mobile observe 2, ", "星语呢喃 at a@b.example": "email block 1, person token 1, ",
	} {
		got, hides := "", false
		for _, f := range a.Examine(text) {
			got += fmt.Sprint(f.Class, " ", f.Action, " ", f.Count, ", ")
			hides = hides || f.Hides()
		}
		if got != want || hides != strings.Contains(want, "block") {
			t.Errorf("%q: %s, hides %v", text, got, hides)
		}
	}
	if all := a.Findings(); len(all) != 3 {
		t.Errorf("%+v", all)
	}
	if classes := a.Examined(); slices.Contains(classes, "qq") || !slices.Contains(classes, "email") || !slices.IsSorted(classes) {
		t.Errorf("%v", classes)
	}
}
