package governance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
)

const dataRule = `{grade: L2, raise: {3: L3, 5: L4}, places: {L1: [device, edge, centre, cloud], L2: [edge, centre, cloud], L3: [edge, centre], L4: []}}`

func withData(text string) []byte {
	return []byte(strings.Replace(string(defaultPolicy), "\ncache: off\n", "\ncache: off\ndata: "+text+"\n", 1))
}

// TestDataRules: a policy says the grade of its traffic, what raises it and where each grade may go; what would let raised data go further is refused, and the
// canonical form says the same.
func TestDataRules(t *testing.T) {
	p, err := parsePolicy(withData(dataRule))
	if err != nil {
		t.Fatal(err)
	}
	back, err := readCanonical(p.canonical())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*policy{p, back} {
		got := ""
		for g := DataGrade(0); g <= 5; g++ {
			got += fmt.Sprint(p.placing(g).Allowed())
		}
		if got != "[][device edge centre cloud][edge centre cloud][edge centre][][]" {
			t.Error(got)
		}
	}
	if p.placing(1).Allows("") || p.placing(1).Allows("moon") || (Placing{}).Allows("centre") || !Anywhere().Allows("moon") {
		t.Error("an unknown place is nowhere, unless nothing is ruled")
	}
	for _, text := range []string{
		"off", "{grade: L2}", "{grade: L5, places: {L1: [], L2: [], L3: [], L4: []}}", "{grade: l1, places: {L1: [], L2: [], L3: [], L4: []}}",
		"{grade: L1, places: {L1: [], L2: [], L3: []}}", "{grade: L1, places: {L1: [moon], L2: [], L3: [], L4: []}}",
		"{grade: L1, places: {L1: [edge], L2: [centre], L3: [], L4: []}}", "{grade: L1, places: {L1: [edge], L2: [], L3: [edge], L4: []}}",
		"{grade: L1, raise: {6: L2}, places: {L1: [], L2: [], L3: [], L4: []}}", "{grade: L1, raise: {5: 2}, places: {L1: [], L2: [], L3: [], L4: []}}",
		"{grade: L1, masked: maybe, places: {L1: [], L2: [], L3: [], L4: []}}",
	} {
		if _, err := parsePolicy(withData(text)); !fault.Is(err, fault.CodeInvalidPolicy) || !strings.Contains(err.Error(), "data") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestGradeOnlyRises: the grade is the highest of the policy's, the caller's and that of what was found in texts for engines, masked or not unless the policy
// spares what is masked; a policy without rules binds only who states a grade.
func TestGradeOnlyRises(t *testing.T) {
	g := withDefault(t)
	spared := strings.Replace(dataRule, "places:", "masked: spared, places:", 1)
	for tenant, change := range map[string][3]string{
		"acme":    {dataRule},
		"spared":  {spared},
		"partial": {spared, "  api_secret: {answer: redact}\n", "  api_secret: {answer: redact}\n  cn_mobile: {request: partial}\n"},
		"allow":   {spared, "  api_secret: {answer: redact}\n", "  api_secret: {answer: redact}\n  cn_mobile: {request: allow}\n"},
		"named":   {dataRule, "  cn_resident_id: 4\n", "  cn_resident_id: 4\n  company: 3\n"},
		"channel": {dataRule, "\ncache: off\n", "\ncache: off\nchannels: {chat: {cn_mobile: {request: allow}}}\n"},
		"low":     {dataRule, "  api_secret: {answer: redact}\n", "  api_secret: {answer: redact}\n  cn_mobile: {request: allow}\n"},
	} {
		text := string(withData(change[0]))
		if change[1] != "" && !strings.Contains(text, change[1]) {
			t.Fatal(tenant)
		}
		text = strings.Replace(text, change[1], change[2], 1)
		if tenant == "low" {
			text = strings.Replace(text, "  email: 2\n", "  email: 2\n  cn_mobile: 2\n", 1)
		}
		if _, err := g.Publish(t.Context(), tenant, []byte(text), "tester"); err != nil {
			t.Fatal(err)
		}
	}
	const email, phone, id, company = "mail a@example.com", "call " + testPhone, "my number is " + testID, "我在北京星河科技有限公司工作"
	for _, c := range []struct {
		tenant string
		asked  DataGrade
		text   string
		want   string
	}{
		{"acme", 0, "hello", "L2 [edge centre cloud]"},
		{"acme", 1, "hello", "L2 [edge centre cloud]"}, // a header never lowers
		{"acme", 3, "hello", "L3 [edge centre]"},
		{"acme", 0, email, "L2 [edge centre cloud]"}, // a class of grade 2 raises nothing
		{"acme", 0, phone, "L3 [edge centre]"},
		{"acme", 0, id, "L3 [edge centre]"}, // of grade 4: what raises from 3 on
		{"acme", 4, phone, "L4 []"},
		{"acme", 5, "hello", " []"},
		{"spared", 0, phone, "L2 [edge centre cloud]"},
		{"partial", 0, phone, "L3 [edge centre]"}, // whose ends the engine gets
		{"allow", 0, phone, "L3 [edge centre]"},   // all of which it gets
		{"allow", 0, company, "L2 [edge centre cloud]"},
		{"named", 0, company, "L3 [edge centre]"},
		{"channel", 0, phone, "L3 [edge centre]"},
		{"low", 0, phone, "L2 [edge centre cloud]"},
		{"other", 0, phone, " [device edge centre cloud]"},
		{"other", 2, phone, "L2 [device edge centre cloud]"},
		{"other", 3, "hello", "L3 [device edge centre]"},
		{"other", 4, "hello", "L4 [device edge centre]"},
		{"other", 9, "hello", " []"},
	} {
		text := c.text
		q := ask(&text)
		q.Tenant, q.DataGrade = c.tenant, c.asked
		a, err := g.Admit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		p := a.Placing()
		if got := fmt.Sprintf("%s %v", p.Grade, p.Allowed()); got != c.want && (p.Grade <= maxDataGrade || len(p.Allowed()) > 0) {
			t.Errorf("%+v: %s", c, got)
		}
	}
	a, err := g.Admit(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.MaskQuery(phone); err != nil || a.Placing().Grade != 3 {
		t.Errorf("a question that is searched with: %v, %s", err, a.Placing().Grade)
	}
	if a, err = g.Admit(t.Context(), ask()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.MaskDisplayed(phone); err != nil || a.Placing().Grade != 2 {
		t.Errorf("a passage that no engine is given: %v, %s", err, a.Placing().Grade)
	}
	if _, err := a.MaskPassage(phone); err != nil || a.Placing().Grade != 3 {
		t.Errorf("a passage: %v, %s", err, a.Placing().Grade)
	}
	if p, err := g.PlacingOf("acme", "", 1); err != nil || p.Grade != 2 || !slices.Equal(p.Allowed(), []string{"edge", "centre", "cloud"}) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := g.PlacingOf("", "", 1); !fault.Is(err, fault.CodePolicyUnavailable) {
		t.Error(err)
	}
}
