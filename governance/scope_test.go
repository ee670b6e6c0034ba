package governance

import (
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/reveal"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestTheMostSpecificPolicyHolds: of the policies of a project, its tenant, its organisation and everybody the most specific one in force holds, alone;
// where a level has none the next one does; the record names whose it was; a tenant that is moved has the other organisation's.
func TestTheMostSpecificPolicyHolds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGuard(t, db, nil)
		of := map[string]string{"acme": "group", "court": "group", "bank": "other"}
		g.cfg.Organisation = func(tenant string) string { return of[tenant] }
		if _, err := g.EnsureDefault(t.Context(), "system"); err != nil {
			t.Fatal(err)
		}
		holds := func(tenant, project, want string) {
			t.Helper()
			q := ask()
			q.Tenant, q.Project = tenant, project
			a, err := g.Admit(t.Context(), q)
			if err != nil || a.Policy().Version != want {
				t.Errorf("%s/%s: %v, %v, want %s", tenant, project, a.Policy(), err, want)
			}
		}
		holds("acme", "shop", "*@1")
		rules := "  default: {request: token, passage: token, answer: observe}\n"
		publish(t, g, OrganisationScope("group"), rules)
		holds("acme", "shop", "org:group@1")
		holds("court", "", "org:group@1")
		holds("bank", "shop", "*@1")
		publish(t, g, "acme", rules)
		holds("acme", "shop", "acme@1")
		holds("court", "shop", "org:group@1")
		publish(t, g, ProjectScope("acme", "shop"), rules)
		publish(t, g, ProjectScope("acme", "shop"), rules)
		holds("acme", "shop", "acme/shop@2")
		holds("acme", "hotline", "acme@1")
		holds("acme", "", "acme@1")
		holds("court", "shop", "org:group@1") // a project of that name
		of["court"] = "other"
		holds("court", "shop", "*@1")
		if got := g.Models(t.Context(), "acme", "shop", []string{"gpt", "smollm2"}); !slices.Equal(got, []string{"smollm2"}) {
			t.Errorf("%v", got)
		}

		// Whoever publishes has seen what holds for the scope, wherever it comes from.
		doc := []byte("schema: 2\nname: test\nmodels: [\"*\"]\ncollections: []\nentities:\n" + rules)
		_, err := g.PublishAfter(t.Context(), ProjectScope("acme", "hotline"), doc, "x", "")
		wantCode(t, err, fault.CodePolicyChanged)
		if _, err := g.PublishAfter(t.Context(), ProjectScope("acme", "hotline"), doc, "x", "acme@1"); err != nil {
			t.Error(err)
		}
		_, err = g.PublishAfter(t.Context(), ProjectScope("acme", "hotline"), doc, "x", "acme@1")
		wantCode(t, err, fault.CodePolicyChanged)
		if _, err := g.PublishAfter(t.Context(), ProjectScope("bank", "p"), doc, "x", "*@1"); err != nil {
			t.Error(err)
		}

		// One that cannot be used refuses whom it is of, and nobody above.
		if err := db.Exec("INSERT INTO policy_documents VALUES ('acme/shop', 9, 'x', 'x', 'x', 'x', 1, 'x')").Error; err != nil {
			t.Fatal(err)
		}
		if err := g.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		q := ask()
		q.Project = "shop"
		_, err = g.Admit(t.Context(), q)
		wantCode(t, err, fault.CodePolicyUnavailable)
		holds("acme", "", "acme@1")
	})
}

// TestScopeNames: every scope has a name of its own, which reads back as it.
func TestScopeNames(t *testing.T) {
	for name, want := range map[string][3]string{
		"*": {"", "*", ""}, "acme": {"", "acme", ""}, OrganisationScope("acme"): {"acme", "", ""}, ProjectScope("acme", "shop"): {"", "acme", "shop"},
	} {
		if o, tenant, p := ReadScope(name); [3]string{o, tenant, p} != want {
			t.Errorf("%s: %q %q %q", name, o, tenant, p)
		}
	}
}

// TestProjectsNarrowWhatIsShown: a value that is kept is shown as far as the policy of the tenant and that of each of its projects let it.
func TestProjectsNarrowWhatIsShown(t *testing.T) {
	g := keeper(t, dbtest.SQLite(t), &dbtest.Faults{}, revealPolicyText+revealRulesText)
	shown := func() (reveal.Visibility, int) {
		t.Helper()
		rules, err := g.revealRules("acme", []string{"compliance"}, "complaint")
		if err != nil {
			t.Fatal(err)
		}
		most := reveal.VisibleToken
		for _, c := range classify.Classes() {
			if v := rules.Visibility(c); v == reveal.VisibleClear {
				most = v
			}
		}
		return most, rules.SecondPersonFrom
	}
	before, second := shown()
	if before != reveal.VisibleClear {
		t.Fatalf("the test shows nothing: %s", before)
	}
	if _, err := g.Publish(t.Context(), ProjectScope("acmes", "shop"), []byte(revealPolicyText), "x"); err != nil {
		t.Fatal(err)
	}
	if v, n := shown(); v != before || n != second {
		t.Errorf("another tenant's project: %s, %d", v, n)
	}
	if _, err := g.Publish(t.Context(), ProjectScope("acme", "shop"), []byte(revealPolicyText), "x"); err != nil {
		t.Fatal(err)
	}
	if v, _ := shown(); v != reveal.VisibleToken {
		t.Errorf("a project whose policy shows nothing: %s", v)
	}
}
