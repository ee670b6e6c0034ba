package governance

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
)

// TestAnsweringRules: the first rule that names a collection holds, a policy without rules judges nothing, what cannot be meant is refused, and the canonical form
// says the same.
func TestAnsweringRules(t *testing.T) {
	t.Parallel()
	with := func(text string) (*policy, error) {
		return parsePolicy([]byte(strings.Replace(string(defaultPolicy), "\nwatermark: off\n", "\nanswering: "+text+"\n", 1)))
	}
	p, err := with(`[{collections: [hotline], refuse_below: 0.2, ask_below: 0.5, unsupported: drop}, {collections: ["law-*", x], refuse_below: 0.3, direct_above: 0.8}, {collections: ["*"], unsupported: mark}]`)
	if err != nil {
		t.Fatal(err)
	}
	canonical, digest := p.canonical()
	back, err := readCanonical(canonical, digest)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*policy{p, back} {
		a := &Admission{active: activePolicy{policy: p}}
		for collection, want := range map[string]Answering{
			"hotline": {RefuseBelow: 0.2, AskBelow: 0.5, Unsupported: UnsupportedDrop}, "law-2": {RefuseBelow: 0.3, AskBelow: 0.3, DirectAbove: 0.8}, "other": {Unsupported: UnsupportedMark},
		} {
			if got := a.Answering(collection); got != want || got.Judges() != (want.AskBelow > 0) || got.Checks() != (want.Unsupported != "") {
				t.Errorf("%s: %+v", collection, got)
			}
		}
	}
	none, err := parsePolicy(defaultPolicy)
	if err != nil {
		t.Fatal(err)
	}
	if got := (&Admission{active: activePolicy{policy: none}}).Answering("hotline"); got != (Answering{}) || got.Judges() || got.Checks() {
		t.Errorf("without rules: %+v", got)
	}
	if canonical, _ := none.canonical(); strings.Contains(canonical, "answering") {
		t.Error("a policy without rules has another digest than before there were any")
	}
	for _, bad := range []string{
		"off", "{collections: [x]}", "[{refuse_below: 0.1}]", "[{collections: [x], refuse_below: 1.1}]", "[{collections: [x], refuse_below: -0.1}]", "[{collections: [x], refuse_below: .nan}]",
		"[{collections: [x], refuse_below: NaN}]", "[{collections: [x], refuse_below: many}]", "[{collections: [x], refuse_below: 0.5, ask_below: 0.2}]", "[{collections: [x], unsupported: hide}]", "[{collections: [x], refuse: 0.1}]", "[{collections: [x], direct_above: 1.5}]",
	} {
		if _, err := with(bad); !fault.Is(err, fault.CodeInvalidPolicy) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
