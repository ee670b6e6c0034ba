package search_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/audittest"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestSearchPagesAndFilters(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		var all []string
		for i := range 60 {
			e := recordtest.Sample(i)
			e.Time = 1000 + int64(i/7) // many share a time
			if i%2 == 0 {
				e.Tenant, e.Outcome = "other", "failed"
			}
			if i%3 == 0 {
				e.Actor.ID, e.Model.Asked, e.Action = "k3", "m3", "a3"
			}
			if i == 59 {
				e.Rollout, e.Stage, e.Request = "r9", record.StageAdmitted, "nul\x00byte"
			}
			all = append(all, l.AppendEvent(e))
		}
		l.Flush()
		l.MustVerify()
		slices.Reverse(all)
		for _, limit := range []int{1, 7, 60, 500} {
			if got := searchIDs(t, l.Reader, search.Query{Limit: limit}); !slices.Equal(got, all) {
				t.Errorf("pages of %d: wrong order or records", limit)
			}
		}
		for _, c := range []struct {
			q    search.Query
			want int
		}{
			{search.Query{Tenant: "other"}, 30},
			{search.Query{Tenant: "nobody"}, 0},
			{search.Query{Outcome: "failed", Actor: "k3"}, 10},
			{search.Query{Model: "m3"}, 20},
			{search.Query{Action: "a3", Tenant: "demo"}, 10},
			{search.Query{Request: "req-5"}, 1},
			{search.Query{Request: "nul\x00byte"}, 1},
			{search.Query{Rollout: "r9"}, 1},
			{search.Query{Stage: record.StageAdmitted}, 1},
			{search.Query{From: 1001, To: 1003}, 14},
		} {
			if got := searchIDs(t, l.Reader, c.q); len(got) != c.want {
				t.Errorf("%+v: %d records, want %d", c.q, len(got), c.want)
			}
		}
		for _, q := range []search.Query{{Limit: 501}, {Limit: -1}, {Cursor: "!"}, {Cursor: "eA"}} {
			if _, err := l.Search(t.Context(), q); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%+v: %v", q, err)
			}
		}
		if _, err := l.Get(t.Context(), "none"); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("get: %v", err)
		}
	})
}

func TestArmStats(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		add := func(n int, arm, outcome string, at int64, stage record.Stage) {
			e := recordtest.Sample(n)
			e.Arm, e.Outcome, e.Time, e.Stage = arm, outcome, at, stage
			e.Latency = record.Latency{FirstToken: int64(n), Total: int64(10 * n)}
			l.AppendEvent(e)
		}
		add(1, "stable", "ok", 100, record.StageOutcome)
		add(2, "stable", "ok", 200, record.StageOutcome)
		add(0, "stable", "ok", 150, record.StageOutcome) // no first token
		add(3, "candidate", "failed", 100, record.StageOutcome)
		add(4, "candidate", "ok", 100, record.StageOutcome)
		add(5, "candidate", "refused", 100, record.StageOutcome)
		add(6, "candidate", "aborted", 100, record.StageOutcome)
		add(7, "candidate", "ok", 99, record.StageOutcome)
		add(8, "candidate", "", 100, record.StageAdmitted)
		for n := range 9 { // lines of a batch that were asked again: one is answered in the end, one is not
			e := recordtest.Sample(10 + n)
			e.Arm, e.Outcome, e.Time, e.Stage, e.Request = "candidate", "failed", 100, record.StageOutcome, fmt.Sprint("batch_1.", n%2)
			if n == 8 {
				e.Outcome, e.Latency = "ok", record.Latency{Total: 7}
			}
			l.AppendEvent(e)
		}
		l.Flush()
		got, err := l.ArmStats(t.Context(), "ro-1", 100)
		if err != nil {
			t.Fatal(err)
		}
		s, c := got["stable"], got["candidate"]
		if s.Requests != 3 || s.Errors != 0 || !slices.Equal(s.FirstToken, []int64{2, 1}) || !slices.Equal(s.Total, []int64{20, 0, 10}) {
			t.Errorf("stable %+v", s)
		}
		slices.Sort(c.Total)
		if c.Requests != 5 || c.Errors != 2 || !slices.Equal(c.Total, []int64{7, 40}) {
			t.Errorf("candidate %+v", c)
		}
		if none, err := l.ArmStats(t.Context(), "unknown", 0); err != nil || len(none) != 0 {
			t.Errorf("unknown rollout: %+v, %v", none, err)
		}
	})
}

// TestArmSums: every request counts once, refusals among them; conversations are units; latencies are counted by bins as evidence rounds them.
func TestArmSums(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		add := func(n int, outcome, session, request, tenant string, tokens, cost int64) {
			e := recordtest.Sample(n)
			e.Arm, e.Outcome, e.Time, e.Stage, e.Session, e.Request, e.Tenant = "candidate", outcome, 100, record.StageOutcome, session, request, tenant
			e.Latency = record.Latency{FirstToken: 1001, Total: int64(1_000_000 + n)}
			e.Usage = record.Usage{CompletionTokens: tokens, Cost: cost}
			l.AppendEvent(e)
		}
		const dear = 4_000_000_000 // squared, it is more than 64 bits hold
		add(1, "ok", "s1", "r1", "acme", 10, dear)
		add(2, "ok", "s1", "r2", "acme", 30, dear)
		add(3, "failed", "s2", "r3", "globex", 0, 0)
		add(4, "refused", "", "r4", "acme", 0, 0)
		add(5, "failed", "", "r5", "acme", 0, 0)
		add(6, "ok", "", "r5", "acme", 20, 0) // asked again, answered in the end
		emptied := recordtest.Sample(7)       // nothing of its answer has left
		emptied.Arm, emptied.Outcome, emptied.Decision, emptied.Time, emptied.Stage = "stable", "ok", "refuse", 100, record.StageOutcome
		l.AppendEvent(emptied)
		l.Flush()
		stable, err := l.ArmSums(t.Context(), "ro-1", "stable", 100)
		if err != nil || stable.Failures.N != 1 || stable.Refusals.Y != 1 || stable.Failures.Y != 0 {
			t.Errorf("%+v, %v", stable, err)
		}
		got, err := l.ArmSums(t.Context(), "ro-1", "candidate", 100)
		if err != nil {
			t.Fatal(err)
		}
		want := search.ArmSums{
			Failures: search.RatioSums{Y: 1, N: 5, YY: 1, YN: 1, NN: 7}, Refusals: search.RatioSums{Y: 1, N: 5, YY: 1, YN: 1, NN: 7},
			Tokens:     search.RatioSums{Y: 60, N: 3, YY: 1600 + 400, YN: 80 + 20, NN: 5},
			Cost:       search.RatioSums{Y: 2 * dear, N: 5, YY: 4 * dear * dear, YN: 4 * dear, NN: 7},
			FirstToken: map[int64]int64{1000: 3}, Total: map[int64]int64{999_424: 3}, Slow: got.Slow,
			Tenants: map[string]search.TenantSums{"acme": {Requests: 4, Refused: 1}, "globex": {Requests: 1, Errors: 1}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant\n%+v", got, want)
		}
		if got.Slow.N != 3 || got.Slow.NN != 5 {
			t.Errorf("slow %+v", got.Slow)
		}
		for rollout, arm := range map[string]string{"unknown": "stable", "ro-1": "unknown"} {
			if none, err := l.ArmSums(t.Context(), rollout, arm, 0); err != nil || !reflect.DeepEqual(none, search.ArmSums{}) {
				t.Errorf("rollout %s, arm %s: %+v, %v", rollout, arm, none, err)
			}
		}
	})
}

// TestArmTenants: both arms tell the same tenants apart, those with most requests in either.
func TestArmTenants(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		n := 0
		add := func(arm, tenant string) {
			n++
			e := recordtest.Sample(n)
			e.Arm, e.Outcome, e.Time, e.Stage, e.Session, e.Request, e.Tenant = arm, "ok", 100, record.StageOutcome, "", fmt.Sprint("r", n), tenant
			l.AppendEvent(e)
		}
		for i := range search.MaxArmTenants + 1 {
			tenant := fmt.Sprintf("t%02d", i)
			add("candidate", tenant)
			add("stable", tenant)
			if i > 0 { // all but the first are asked more often, by turns in one arm and in the other
				add([]string{"candidate", "stable"}[i%2], tenant)
			}
		}
		l.Flush()
		for _, arm := range []string{"stable", "candidate"} {
			got, err := l.ArmSums(t.Context(), "ro-1", arm, 100)
			if err != nil || len(got.Tenants) != search.MaxArmTenants {
				t.Fatalf("%s: %+v, %v", arm, got.Tenants, err)
			}
			if x, ok := got.Tenants["t00"]; ok {
				t.Errorf("%s keeps the tenant with fewest requests: %+v", arm, x)
			}
		}
	})
}

// TestDeliveries: what has gone out of a tenant under an agreement is counted, and neither the agreement's own records nor what did not go out.
func TestDeliveries(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		add := func(n int, tenant, agreement, outcome string, at int64, stage record.Stage) {
			e := recordtest.Sample(n)
			e.Tenant, e.Outcome, e.Time, e.Stage, e.Resource = tenant, outcome, at, stage, ""
			if agreement != "" {
				e.Detail = map[string]string{record.LabelAgreement: agreement}
			}
			l.AppendEvent(e)
		}
		add(1, "acme", "A1", "ok", 100, record.StageOutcome)
		add(2, "acme", "A1", "failed", 199, record.StageOutcome)
		add(3, "acme", "A1", "ok", 200, record.StageOutcome)
		add(4, "acme", "A1", "ok", 99, record.StageOutcome)
		add(5, "acme", "", "refused", 150, record.StageOutcome) // of which nothing has left
		add(7, "acme", "A1", "", 150, record.StageAdmitted)
		add(8, "acme", "A2", "ok", 150, record.StageOutcome)
		add(9, "globex", "A1", "ok", 150, record.StageOutcome)
		add(10, "acme", "", "ok", 150, record.StageOutcome)
		own := recordtest.Sample(11) // of the agreement itself
		own.Tenant, own.Outcome, own.Time, own.Stage, own.Resource = "acme", "ok", 150, record.StageOutcome, "A1"
		l.AppendEvent(own)
		l.Flush()
		want := map[string]search.Deliveries{"A1": {Answers: 2, First: 100, Last: 199}, "A2": {Answers: 1, First: 150, Last: 150}}
		asked := append(make([]string, 150), "A1", "A2", "A3")
		if got, err := l.Deliveries(t.Context(), "acme", asked, 100, 200); err != nil || !maps.Equal(got, want) {
			t.Errorf("%+v, %v", got, err)
		}
		if at, err := l.PrunedUntil(t.Context()); err != nil || at != 0 {
			t.Errorf("pruned until %d, %v", at, err)
		}
		if err := db.Exec("INSERT INTO audit_prunings (first_index, until_index, kept, root, oldest, newest, size, archive, digest, record, time, actor) VALUES (0, 5, 0, '', 0, 120, 10, '', '', '', 0, '')").Error; err != nil {
			t.Fatal(err)
		}
		if at, err := l.PrunedUntil(t.Context()); err != nil || at != 120 {
			t.Errorf("pruned until %d, %v", at, err)
		}
		if ids := searchIDs(t, l.Reader, search.Query{Tenant: "acme", Text: search.AgreementTerm("A1")}); len(ids) != 5 {
			t.Errorf("its records are %v", ids)
		}
	})
}

func searchIDs(t testing.TB, r *search.Reader, q search.Query) []string {
	t.Helper()
	var ids []string
	for {
		p, err := r.Search(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Events {
			ids = append(ids, e.ID)
		}
		if p.Next == "" {
			return ids
		}
		q.Cursor = p.Next
	}
}
