package governance

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestCoverage: what an engine gets is counted whatever grades a policy gives, by the policies of all projects, and a policy that cannot be used counts as such.
func TestCoverage(t *testing.T) {
	t.Parallel()
	g := newGuard(t, dbtest.SQLite(t), nil)
	if _, err := g.Coverage("acme"); !fault.Is(err, fault.CodePolicyUnavailable) {
		t.Errorf("without a policy: %v", err)
	}
	publish := func(scope, text string) {
		t.Helper()
		if _, err := g.Publish(t.Context(), scope, []byte("schema: 2\nname: x\nmodels: ['*']\ncollections: ['*']\n"+text), "test"); err != nil {
			t.Fatal(err)
		}
	}
	publish(EveryTenant, "entities: {default: {request: token, passage: token, answer: observe}}\n")
	c, err := g.Coverage("acme")
	if err != nil || c.Policies != 1 || c.Unusable+len(c.Exposed)+c.Safe+c.Visible+c.Words != 0 || !c.Library.IsZero() {
		t.Errorf("%+v, %v", c, err)
	}
	publish(ProjectScope("acme", "p"), "grades: {default: 1}\nlabel: text\nsignature: always\nsafety: {mode: enforce, libraries: [starter]}\nentities: {default: {request: token, passage: allow, answer: token}}\n")
	for rule, refuses := range map[string]int{"direct_above: 0.9": 0, "unsupported: mark": 0, "unsupported: drop": 1, "refuse_below: 0.1": 1, "ask_below: 0.1": 1} {
		publish(EveryTenant, "answering: [{collections: [x], direct_above: 0.9}, {collections: [y], "+rule+"}]\nentities: {default: {request: token, passage: token, answer: observe}}\n")
		if c, err := g.Coverage("acme"); err != nil || c.Answering != refuses {
			t.Errorf("%s: %+v, %v", rule, c, err)
		}
	}
	publish(ProjectScope("globex", "p"), "entities: {default: {request: allow, passage: allow, answer: allow}}\n")
	c, err = g.Coverage("acme")
	if err != nil || c.Policies != 2 || c.Visible != 1 || c.Signed != 1 || c.Safe != 1 || c.Words != 0 || len(c.Exposed) < 10 || !slices.IsSorted(c.Exposed) {
		t.Errorf("%+v, %v", c, err)
	}
	if strings.Contains(strings.Join(c.Exposed, " "), "birth_date") {
		t.Errorf("a class that is looked for only where it is named: %v", c.Exposed)
	}
}
