package refusal_test

import (
	"testing"
	"unicode"

	"github.com/sluice-project/sluice/governance/refusal"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestReasons: each reason has a name of its own and a sentence of its own in both languages, so that nobody reads another one's.
func TestReasons(t *testing.T) {
	t.Parallel()
	said := map[string]refusal.Reason{}
	for _, r := range refusal.Reasons() {
		for _, l := range []fault.Lang{fault.English, fault.Chinese} {
			s := r.Sentence().In(l)
			if other, ok := said[s]; ok {
				t.Errorf("%s and %s both say %q", r, other, s)
			}
			said[s] = r
			han := false
			for _, c := range s {
				han = han || unicode.Is(unicode.Han, c)
			}
			if len(s) < 10 || han != (l == fault.Chinese) {
				t.Errorf("%s says %q", r, s)
			}
		}
	}
	if refusal.Reason("").AsksBack() || !refusal.UnclearQuestion.AsksBack() || refusal.WeakEvidence.AsksBack() {
		t.Error("only an unclear question is asked back for")
	}
}
