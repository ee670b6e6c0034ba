package billing

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestBudgetsOfEveryScope: a request counts against the budgets of its organisation, tenant, project and key, and against no other's; each refuses in
// its own words, and one of the organisation tells nobody what other tenants have spent. Money that a former process spent counts, too.
func TestBudgetsOfEveryScope(t *testing.T) {
	for want, of := range map[string]Scope{
		"organisation 'group'": {Organisation: "group"}, "tenant 'acme'": {Tenant: "acme"}, "project 'shop'": {Tenant: "acme", Project: "shop"}, "API key 'k1'": {Tenant: "acme", Key: "k1"},
	} {
		t.Run(want, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
				c := newClock()
				l := replica(t, db, "n", c)
				mustRecord(t, l, usage("before", c.now(), Tokens{}, Charge{Cost: 4321, Currency: "CNY"}))
				elsewhere := usage("elsewhere", c.now(), Tokens{}, Charge{Cost: 77, Currency: "CNY"})
				elsewhere.Tenant, elsewhere.Project, elsewhere.Key = "bank", "shop", "k9"
				spent := Money(4321)
				if of.Organisation != "" {
					spent += 77
				}
				mustRecord(t, l, elsewhere)
				setBudget(t, l, Budget{Scope: of, Period: Month, Limit: 5000})
				_, err := l.Reserve(t.Context(), ask("big", 68))
				if msg := fault.Public(err).Message(fault.English); fault.KindOf(err) != fault.Quota || !strings.Contains(msg, want) {
					t.Errorf("%v", err)
				}
				if of.Organisation != "" && strings.Contains(fault.Public(err).Message(fault.English), "CNY") {
					t.Errorf("the figures of other tenants: %v", err)
				}
				r := reserve(t, l, "small", 30)
				others := ask("others", 1000)
				others.Scope = Scope{Organisation: "others", Tenant: "bank", Project: "shop", Key: "k1"} // the same names in another tenant
				if free, err := l.Reserve(t.Context(), others); err != nil {
					t.Errorf("another's request: %v", err)
				} else {
					free.Release()
				}
				tok := Tokens{Completion: 20}
				mustRecord(t, l, usage("small", c.now(), tok, r.Settle(tok)))
				if err := l.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				all, err := l.AllBudgets(t.Context())
				if err != nil || len(all) != 1 || all[0].Scope != of || all[0].Spent != spent+200 || all[0].Reserved != 0 {
					t.Errorf("%+v, %v, want %d spent", all, err, spent+200)
				}
				setBudget(t, l, Budget{Scope: of, Period: Month, Limit: 1000})
				_, err = l.Reserve(t.Context(), ask("spent", 1))
				code := map[bool]fault.Code{true: fault.CodeKeyBudget, false: fault.CodeTenantBudget}[of.Key != "" || of.Project != ""]
				if of.Organisation != "" {
					code = fault.CodeOrganisationBudget
				}
				wantSentence(t, err, code, want)
				if err := l.DeleteBudget(t.Context(), of, Month); err != nil {
					t.Fatal(err)
				}
				reserve(t, l, "free", 100_000).Release()
			})
		})
	}
}

// TestUsageStaysWithItsOrganisation: what was admitted in one organisation counts there, though its tenant has another one when it is billed, and what
// nobody remembers counts where the tenant is now.
func TestUsageStaysWithItsOrganisation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		now := "group"
		l.cfg.Organisation = func(string) string { return now }
		for _, o := range []string{"group", "next"} {
			setBudget(t, l, Budget{Scope: Scope{Organisation: o}, Period: Total, Limit: 10_000})
		}
		r := reserve(t, l, "r1", 30)
		now = "next"
		tok := Tokens{Completion: 30}
		mustRecord(t, l, usage("r1", c.now(), tok, r.Settle(tok)))
		mustRecord(t, l, usage("forgotten", c.now(), tok, Charge{Cost: 44, Currency: "CNY"}))
		mustRecord(t, l, usage("forgotten", c.now(), tok, Charge{Cost: 44, Currency: "CNY"}))
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for o, want := range map[string]Money{"group": 300, "next": 44} {
			if b, err := l.OrganisationBudgets(t.Context(), o); err != nil || len(b) != 1 || b[0].Spent != want || b[0].Reserved != 0 {
				t.Errorf("%s: %+v, %v, want %d", o, b, err, want)
			}
		}
	})
}

// TestReportsByProject: usage is summed by project, over whole days and over parts of them, and all projects together are the whole.
func TestReportsByProject(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		c := newClock()
		l := replica(t, db, "n", c)
		for i, project := range []string{"shop", "hotline", "shop", ""} {
			u := usage(id(i), c.now().Add(time.Duration(i)*time.Hour), Tokens{Completion: 1}, Charge{Cost: 1 << (4 * i), Currency: "CNY"})
			u.Project = project
			mustRecord(t, l, u)
		}
		day := c.now().Truncate(24 * time.Hour).UnixMicro()
		for name, q := range map[string]ReportQuery{"days": {From: day, To: day + dayMicros}, "hours": {From: day + 1, To: day + dayMicros}} {
			q.GroupBy = []string{"project"}
			rep, err := l.Report(t.Context(), q)
			if err != nil || len(rep.Rows) != 3 || rep.Rows[0].Project != "" || rep.Rows[0].Cost != 0x1000 || rep.Rows[1].Project != "hotline" || rep.Rows[1].Cost != 0x10 || rep.Rows[2].Cost != 0x101 {
				t.Errorf("%s: %+v, %v", name, rep.Rows, err)
			}
			q.GroupBy, q.Project = nil, "shop"
			if rep, err := l.Report(t.Context(), q); err != nil || rep.Total.Cost != 0x101 || rep.Total.Requests != 2 {
				t.Errorf("%s: %+v, %v", name, rep.Total, err)
			}
		}
	})
}

// TestScopes: a scope is one thing, and its columns read back as it.
func TestScopes(t *testing.T) {
	for name, bad := range map[string]Scope{
		"none": {}, "two": {Organisation: "o", Tenant: "t"}, "both": {Tenant: "t", Project: "p", Key: "k"}, "no tenant": {Project: "p"}, "a mark": {Tenant: "org:x"}, "a mark of a key": {Tenant: "t", Key: "project:x"},
	} {
		if bad.check() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, s := range []Scope{{Organisation: "o"}, {Tenant: "t"}, {Tenant: "t", Project: "p"}, {Tenant: "t", Key: "k"}} {
		if err := s.check(); err != nil || scopeOf(s.columns()) != s {
			t.Errorf("%+v: %v, %+v", s, err, scopeOf(s.columns()))
		}
	}
}
