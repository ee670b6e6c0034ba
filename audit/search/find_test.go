package search_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/audittest"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestSearchAgainstScan asks random questions about random records and compares every page with a plain look at all of them, also when the
// finder takes nearly every attribute set for many, and when many records share a time.
func TestSearchAgainstScan(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		r := rand.New(rand.NewPCG(7, 11))
		var events []record.Event
		for i := range 400 {
			e := randomRecord(r, i)
			e.ID = l.AppendEvent(e)
			events = append(events, e)
		}
		l.Flush()
		l.MustVerify()
		slices.SortFunc(events, func(a, b record.Event) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.ID, a.ID)) })
		hits := 0
		for range 120 {
			q := randomQuery(r)
			var want []string
			for _, e := range events {
				if matches(e, q) {
					want = append(want, e.ID)
				}
			}
			hits += min(1, len(want))
			if got := searchIDs(t, l.Reader, q); !slices.Equal(got, want) {
				t.Errorf("%+v: %d records, want %d", q, len(got), len(want))
			}
			for _, limits := range [][2]int{{0, 3}, {2, 10}, {5, 1000}} {
				if got := findAll(t, db, q, limits[0], limits[1]); !slices.Equal(got, want) {
					t.Errorf("%+v with %v: %d records, want %d", q, limits, len(got), len(want))
				}
			}
		}
		if hits < 40 {
			t.Errorf("only %d questions had an answer", hits)
		}
	})
}

// findAll pages through what a search with other limits finds.
func findAll(t *testing.T, db *gorm.DB, q search.Query, few, window int) []string {
	t.Helper()
	var out []string
	for {
		ids, last, err := search.FindWithin(db.WithContext(t.Context()), q, few, window)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ids...)
		if len(ids) < q.Limit {
			return out
		}
		q.Cursor = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last, ids[len(ids)-1]))
	}
}

func one(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

// randomTime is one of few times in each of a few hours.
func randomTime(r *rand.Rand) int64 {
	return 1_700_000_000_000_000 + int64(r.IntN(4))*search.ListUnit + int64(r.IntN(20))
}

func randomRecord(r *rand.Rand, i int) record.Event {
	e := recordtest.Sample(i)
	e.Time = randomTime(r)
	e.Request = fmt.Sprintf("req-%d", r.IntN(150))
	e.Tenant, e.Project = one(r, "a", "a", "b", "rare\x00"), one(r, "p", "q")
	e.Actor.ID, e.Actor.Name = one(r, "k1", "k2", "k3", "K%4"), one(r, "App", "Ünïcode 名字", "50%_x")
	e.Actor.OnBehalfOf = one(r, "", "", "h1", "h2")
	e.Action, e.Outcome = one(r, "chat.completions", "embeddings"), one(r, "ok", "ok", "ok", "failed")
	e.Model.Asked, e.Model.Routed = one(r, "m1", "m2", strings.Repeat("长", 300)), one(r, "m1@1", "m2@7")
	e.Source, e.Session, e.Policy = one(r, "", "10.0.0.1", "10.0.0.2"), one(r, "", "s1", fmt.Sprint("s", i)), one(r, "3", "4")
	e.Rollout, e.ErrorCode, e.Model.Version = one(r, "", "ro-1"), one(r, "", "timeout"), one(r, "1", "2")
	e.Findings, e.Documents = nil, nil
	for _, c := range []string{"email", "mobile", "own class%"} {
		if r.IntN(4) == 0 {
			e.Findings = append(e.Findings, record.Finding{Direction: "request", Class: c, Action: "masked", Count: 1}, record.Finding{Direction: "answer", Class: c, Action: "masked", Count: 1})
		}
	}
	for range r.IntN(3) {
		e.Documents = append(e.Documents, fmt.Sprintf("kb/Handbook-%d@%d#%d", r.IntN(8), r.IntN(2), r.IntN(9)))
	}
	e.Resource = one(r, "", "", "Key-1", "pk_2")
	return e
}

func randomQuery(r *rand.Rand) search.Query {
	q := search.Query{Limit: 1 + r.IntN(60)}
	some := func(to *string, of ...string) {
		if r.IntN(6) == 0 {
			*to = one(r, of...)
		}
	}
	some(&q.Tenant, "a", "a", "b", "rare\x00", "nobody")
	some(&q.Project, "p", "q", "x")
	some(&q.Actor, "k1", "K%4", "nobody")
	if r.IntN(2) == 0 {
		q.Keys = []string{"k1", "K%4"}
	}
	some(&q.Action, "embeddings")
	some(&q.Outcome, "ok", "failed", "aborted")
	some(&q.Model, "m1", strings.Repeat("长", 300))
	some(&q.Source, "10.0.0.1", "10.9.9.9")
	some(&q.Session, "s1", "s7")
	some(&q.Request, "req-5")
	some(&q.Rollout, "ro-1")
	some(&q.Version, "1")
	some(&q.Policy, "4")
	some(&q.OnBehalfOf, "h1", "h3")
	some(&q.Class, "email", "own class%", "mob", "none")
	some(&q.Text, "APP", "ïcode", "名字", "%_", "k", "k%", "handbook-3", "book-3@1", "#", "req-9", "req-", "timeout", "pk_2", "pkx2", "ro-1", "长", "nothing")
	if r.IntN(4) == 0 {
		q.From = randomTime(r)
	}
	if r.IntN(4) == 0 {
		q.To = randomTime(r)
	}
	return q
}

// matches says what a query means, record by record.
func matches(e record.Event, q search.Query) bool {
	for _, c := range [][2]string{
		{q.Tenant, e.Tenant},
		{q.Project, e.Project},
		{q.Action, e.Action},
		{q.Outcome, e.Outcome},
		{q.Model, e.Model.Asked},
		{q.Source, e.Source},
		{q.Session, e.Session},
		{q.Request, e.Request},
		{q.Rollout, e.Rollout},
		{q.Version, e.Model.Version},
		{q.Policy, e.Policy},
		{q.OnBehalfOf, e.Actor.OnBehalfOf},
	} {
		if c[0] != "" && c[0] != c[1] {
			return false
		}
	}
	if q.Actor != "" && q.Actor != e.Actor.ID && !slices.Contains(q.Keys, e.Actor.ID) {
		return false
	}
	if q.Class != "" && !slices.ContainsFunc(e.Findings, func(f record.Finding) bool { return f.Class == q.Class }) {
		return false
	}
	if q.From != 0 && e.Time < q.From || q.To != 0 && e.Time >= q.To {
		return false
	}
	if q.Text == "" || e.Request == q.Text {
		return true
	}
	texts := []string{e.Actor.ID, e.Actor.Name, e.Resource, e.Action, e.Model.Asked, e.Model.Routed, e.ErrorCode, e.Rollout, e.Policy}
	for _, d := range e.Documents {
		texts = append(texts, d[:strings.Index(d, "#")])
	}
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(q.Text)) })
}
