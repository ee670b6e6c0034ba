package server_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
)

// group is an installation with the organisation group, to which the tenants bank and court belong, each with a key and bank with one of a project.
type group struct {
	*installation

	bank, court, project, demo issuedKey

	answered *atomic.Int64 // requests of the organisation that were answered
}

func newGroup(t *testing.T) group {
	t.Helper()
	in := start(t, setup{extra: unlimited})
	in.admin(http.MethodPost, "/organisations", map[string]any{"id": "group", "name": "Group", "labels": map[string]string{"cost_center": "4711"}}, new(any))
	for _, id := range []string{"bank", "court"} {
		in.admin(http.MethodPost, "/tenants", map[string]any{"id": id, "name": id, "organisation": "group"}, new(any))
	}
	in.admin(http.MethodPost, "/projects", map[string]any{"tenant": "bank", "id": "shop", "name": "Shop", "labels": map[string]string{"system": "erp"}}, new(any))
	return group{
		in, in.issueKey(map[string]any{"tenant": "bank", "name": "app"}), in.issueKey(map[string]any{"tenant": "court", "name": "app"}),
		in.issueKey(map[string]any{"tenant": "bank", "project": "shop", "name": "till"}),
		issuedKey{secret: in.started.Welcome.APIKey.Reveal()},
		new(atomic.Int64),
	}
}

func (g group) ask(k issuedKey) reply {
	r := g.send(http.MethodPost, "/v1/chat/completions", k.secret, map[string]any{
		"model": "scripted", "max_tokens": 10, "messages": []any{map[string]string{"role": "user", "content": "hi"}},
	})
	if r.status == http.StatusOK && k.secret != g.demo.secret {
		g.answered.Add(1)
	}
	return r
}

// usageIsRecorded waits until the usage of all that the organisation was answered is recorded: what is not yet is spent of a new budget without ever having been reserved.
func (g group) usageIsRecorded(t *testing.T) {
	t.Helper()
	eventually(t, "the usage of all answers", func() bool {
		var requests int64
		for _, tenant := range []string{"bank", "court"} {
			var report adminapi.UsageReport
			g.admin(http.MethodGet, "/usage?tenant="+tenant, nil, &report)
			requests += report.Total.Requests
		}
		return requests == g.answered.Load()
	})
}

func (g group) answers(t *testing.T, what string, k issuedKey) {
	t.Helper()
	if r := g.ask(k); r.status != http.StatusOK {
		t.Errorf("%s: %d %s", what, r.status, r.body)
	}
}

// recordOf returns the records of a request in the log of a tenant.
func (g group) recordOf(t *testing.T, tenant string, r reply) string {
	t.Helper()
	var out strings.Builder
	eventually(t, "the records of a request", func() bool {
		var page adminapi.AuditPage
		g.admin(http.MethodGet, "/audit/records?tenant="+tenant+"&request="+r.header.Get("X-Request-Id"), nil, &page)
		out.Reset()
		for _, item := range page.Items {
			out.Write(item.Event)
		}
		return strings.Contains(out.String(), `"stage":"outcome"`)
	})
	return out.String()
}

// TestOrganisationsAndProjects: what the operator sets of an organisation and an administrator of a project binds their callers over HTTP: suspension,
// limits, budgets and policy, each with a refusal that says whose it was; and the usage is reported by project.
func TestOrganisationsAndProjects(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	t.Run("suspension", func(t *testing.T) { suspendedLevels(t, g) })
	t.Run("limits", func(t *testing.T) { limitsOfLevels(t, g) })
	t.Run("budgets", func(t *testing.T) { budgetsOfLevels(t, g) })
	t.Run("policies", func(t *testing.T) { policiesOfLevels(t, g) })
}

func suspendedLevels(t *testing.T, g group) {
	clerk := g.newAccount("clerk", map[string]any{"tenant": "court"}, "developer")
	g.answers(t, "before", g.bank)
	wantProblem(t, "its own people", g.send(http.MethodPost, "/api/v1/organisations/group/suspend", clerk.token, map[string]string{"reason": "x"}), http.StatusForbidden, "not_allowed")
	wantProblem(t, "the operator's", g.admin(http.MethodPost, "/organisations/default/suspend", map[string]string{"reason": "x"}, nil), http.StatusConflict, "conflict")
	var o adminapi.Organisation
	done := g.admin(http.MethodPost, "/organisations/group/suspend", map[string]string{"reason": "contract ended"}, &o)
	if o.Suspension == nil || o.Suspension.Reason != "contract ended" || o.Labels["cost_center"] != "4711" {
		t.Errorf("%+v", o)
	}
	if e := g.recordOf(t, "demo", done); !strings.Contains(e, "admin.suspendOrganisation") || !strings.Contains(e, `"reason":"contract ended"`) {
		t.Errorf("the record of the suspension: %s", e)
	}
	refused := g.ask(g.bank)
	checkRefusal(t, refused, http.StatusForbidden, "permission_error", "organisation_suspended", "", "operator")
	if e := g.recordOf(t, "bank", refused); !strings.Contains(e, "organisation_suspended") || !strings.Contains(e, g.bank.id) {
		t.Errorf("the record of the refusal: %s", e)
	}
	checkRefusal(t, g.ask(g.court), http.StatusForbidden, "permission_error", "organisation_suspended", "", "operator")
	wantProblem(t, "a session", g.send(http.MethodGet, "/api/v1/me", clerk.token, nil), http.StatusForbidden, "organisation_suspended")
	wantProblem(t, "a move out", g.admin(http.MethodPost, "/tenants/bank/move", map[string]string{"organisation": "default"}, nil), http.StatusConflict, "conflict")
	g.answers(t, "another organisation", g.demo)
	g.admin(http.MethodPost, "/organisations/group/resume", adminapi.Resumption{Since: o.Suspension.Since}, new(any))
	g.answers(t, "after", g.bank)

	var p adminapi.Project
	g.admin(http.MethodPost, "/projects/shop/suspend?tenant=bank", map[string]string{"reason": "a key has leaked"}, &p)
	checkRefusal(t, g.ask(g.project), http.StatusForbidden, "permission_error", "project_suspended", "", "administrator")
	g.answers(t, "no project", g.bank)
	wantProblem(t, "another tenant's", g.admin(http.MethodPost, "/projects/shop/suspend?tenant=court", map[string]string{"reason": "x"}, nil), http.StatusNotFound, "not_found")
	g.admin(http.MethodPost, "/projects/shop/resume?tenant=bank", adminapi.Resumption{Since: p.Suspension.Since}, new(any))
	g.answers(t, "after", g.project)
	wantProblem(t, "a project that is not there", g.admin(http.MethodPost, "/keys", map[string]any{"tenant": "court", "project": "shop", "name": "x"}, nil), http.StatusNotFound, "not_found")
}

func limitsOfLevels(t *testing.T, g group) {
	for what, c := range map[string]struct {
		path string
		k    issuedKey
	}{"project 'shop'": {"/projects/shop?tenant=bank", g.project}, "organisation 'group'": {"/organisations/group", g.court}} {
		changed := g.admin(http.MethodPatch, c.path, map[string]any{"limits": adminapi.Limits{RequestsPerMinute: 1}}, new(any))
		if e := g.recordOf(t, map[bool]string{true: "bank", false: "demo"}[strings.Contains(c.path, "tenant=bank")], changed); !strings.Contains(e, `"former_limits":"requests_per_minute=0 `) {
			t.Errorf("the record does not say what changed: %s", e)
		}
		g.answers(t, what, c.k)
		r := g.ask(c.k)
		if r.status != http.StatusTooManyRequests || !strings.Contains(string(r.body), "rate_limit_exceeded") || !strings.Contains(string(r.body), what) {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
		g.answers(t, "another organisation", g.demo)
		g.admin(http.MethodPatch, c.path, map[string]any{"limits": adminapi.Limits{}}, new(any))
		g.answers(t, "without a limit", c.k)
	}
}

func budgetsOfLevels(t *testing.T, g group) {
	budget := func(of map[string]any, limit int64) {
		t.Helper()
		g.admin(http.MethodPut, "/budgets", merged(of, map[string]any{"period": "month", "limit_nano": limit}), new(any))
	}
	budget(map[string]any{"tenant": "bank", "project": "shop"}, 1)
	if r := g.ask(g.project); r.status != http.StatusTooManyRequests || !strings.Contains(string(r.body), "project 'shop'") {
		t.Errorf("%d %s", r.status, r.body)
	}
	g.answers(t, "no project", g.bank)
	g.admin(http.MethodDelete, "/budgets?period=month&tenant=bank&project=shop", nil, nil)
	wantProblem(t, "two scopes", g.admin(http.MethodPut, "/budgets", map[string]any{"organisation": "group", "tenant": "bank", "period": "month", "limit_nano": 1}, nil), http.StatusBadRequest, "invalid_value")
	wantProblem(t, "no organisation", g.admin(http.MethodPut, "/budgets", map[string]any{"organisation": "nobody", "period": "month", "limit_nano": 1}, nil), http.StatusNotFound, "not_found")

	g.usageIsRecorded(t)
	var before adminapi.BudgetList
	budget(map[string]any{"organisation": "group"}, 1<<40)
	g.admin(http.MethodGet, "/budgets?organisation=group", nil, &before)
	if len(before.Items) != 1 || before.Items[0].SpentNano == 0 {
		t.Fatalf("a new budget does not count what the tenants have spent: %+v", before)
	}
	limit := before.Items[0].SpentNano + 1_000_000
	budget(map[string]any{"organisation": "group"}, limit)
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for n := range 30 {
		all.Go(func() {
			r := g.ask([]issuedKey{g.bank, g.court, g.project}[n%3])
			mu.Lock()
			defer mu.Unlock()
			codes[r.status]++
			if r.status != http.StatusOK && (!strings.Contains(string(r.body), "organisation_budget_exceeded") || !strings.Contains(string(r.body), "organisation 'group'") || strings.Contains(string(r.body), "CNY")) {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	if codes[http.StatusOK] == 0 || codes[http.StatusTooManyRequests] == 0 {
		t.Errorf("%v", codes)
	}
	g.usageIsRecorded(t)
	var after adminapi.BudgetList
	g.admin(http.MethodGet, "/budgets?organisation=group", nil, &after)
	if b := after.Items[0]; b.SpentNano+b.ReservedNano > limit {
		t.Errorf("overshot: %+v of %d", b, limit)
	}
	g.answers(t, "another organisation", g.demo)
	g.admin(http.MethodDelete, "/budgets?period=month&organisation=group", nil, nil)
	g.answers(t, "without a budget", g.court)

	eventually(t, "usage by project", func() bool {
		var report adminapi.UsageReport
		g.admin(http.MethodGet, "/usage?tenant=bank&group_by=project", nil, &report)
		return len(report.Rows) == 2 && *report.Rows[0].Project == "" && *report.Rows[1].Project == "shop" && report.Rows[1].Labels != nil && (*report.Rows[1].Labels)["system"] == "erp" &&
			report.Rows[0].Requests+report.Rows[1].Requests == report.Total.Requests
	})
}

func policiesOfLevels(t *testing.T, g group) {
	purpose := func(of map[string]any, name string) {
		t.Helper()
		doc := "schema: 2\nname: x\nmodels: [\"*\"]\ncollections: [\"*\"]\nentities: {default: {request: token, passage: token, answer: token}}\npurposes: [" + name + "]\n"
		g.admin(http.MethodPost, "/policies", merged(of, map[string]any{"yaml": doc}), new(any))
	}
	demands := func(k issuedKey, want string) {
		t.Helper()
		r := g.ask(k)
		if r.status != http.StatusForbidden || !strings.Contains(string(r.body), "X-Sluice-Purpose: "+want+".") {
			t.Errorf("want the policy of %s: %d %s", want, r.status, r.body)
		}
	}
	g.answers(t, "the policy of everybody", g.project)
	purpose(map[string]any{"organisation": "group"}, "organisation")
	demands(g.project, "organisation")
	demands(g.court, "organisation")
	g.answers(t, "another organisation", g.demo)
	purpose(map[string]any{"tenant": "bank"}, "tenant")
	demands(g.project, "tenant")
	demands(g.court, "organisation")
	purpose(map[string]any{"tenant": "bank", "project": "shop"}, "project")
	demands(g.project, "project")
	demands(g.bank, "tenant")
	body := map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hi"}}}
	r := g.send(http.MethodPost, "/v1/chat/completions", g.project.secret, body, "X-Sluice-Purpose", "project")
	if e := g.recordOf(t, "bank", r); r.status != http.StatusOK || !strings.Contains(e, `bank/shop@1`) {
		t.Errorf("the record does not say whose policy it was: %d %s", r.status, e)
	}
	var page adminapi.PolicyPage
	g.admin(http.MethodGet, "/policies?tenant=bank&project=shop", nil, &page)
	var names []string
	for _, p := range page.Items {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "bank/shop@1 bank@1 org:group@1 *@1" || !page.Items[0].Active || page.Items[1].Active {
		t.Errorf("%s", got)
	}
	wantProblem(t, "a project that is not there", g.admin(http.MethodPost, "/policies", map[string]any{"tenant": "court", "project": "shop", "yaml": "x"}, nil), http.StatusNotFound, "not_found")

	g.admin(http.MethodPost, "/tenants/court/move", map[string]string{"organisation": "default"}, new(any))
	g.answers(t, "moved to another organisation", g.court)
}

// TestMovingAndResumingNeedASecondPerson: with separated duties the operator's system administrator sees all organisations, suspends one alone, and
// resumes it, or takes a tenant into another one, with a second person.
func TestMovingAndResumingNeedASecondPerson(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.admin(http.MethodPost, "/organisations", map[string]any{"id": "group", "name": "Group"}, new(any))
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	by := in.separated()
	system := by["system_admin"]
	var tenants adminapi.TenantPage
	in.send(http.MethodGet, "/api/v1/tenants", system, nil).decode(t, &tenants)
	var organisations adminapi.OrganisationPage
	in.send(http.MethodGet, "/api/v1/organisations", system, nil).decode(t, &organisations)
	if len(tenants.Items) != 2 || len(organisations.Items) != 2 {
		t.Errorf("who runs the installation sees %+v, %+v", tenants.Items, organisations.Items)
	}
	move := map[string]string{"organisation": "group"}
	wantProblem(t, "a move alone", in.send(http.MethodPost, "/api/v1/tenants/bank/move", system, move), http.StatusForbidden, "act_approval_required")
	id := in.approved(http.MethodPost, "/api/v1/tenants/bank/move", system, by["security_admin"], move)
	if r := in.send(http.MethodPost, "/api/v1/tenants/bank/move", system, move, "X-Sluice-Approval", id); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var o adminapi.Organisation
	in.send(http.MethodPost, "/api/v1/organisations/group/suspend", system, map[string]string{"reason": "breach"}).decode(t, &o)
	body := adminapi.Resumption{Since: o.Suspension.Since}
	wantProblem(t, "a resumption alone", in.send(http.MethodPost, "/api/v1/organisations/group/resume", system, body), http.StatusForbidden, "act_approval_required")
	id = in.approved(http.MethodPost, "/api/v1/organisations/group/resume", system, by["security_admin"], body)
	if r := in.send(http.MethodPost, "/api/v1/organisations/group/resume", system, body, "X-Sluice-Approval", id); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
}
