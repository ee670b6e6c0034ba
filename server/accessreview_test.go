package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/adminapi"
)

// TestReviewsOfAccess: the owner of a review ends what is not needed, at once; what nobody has decided about is ended when it is due, and the
// log says so.
func TestReviewsOfAccess(t *testing.T) {
	t.Parallel()
	in := start(t, setup{overrides: map[string]any{"identity.review_notice": "1s"}})
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, new(any))
	of := map[string]any{"tenant": "bank"}
	checker, gone := in.newAccount("checker", of, "auditor"), in.newAccount("gone", of, "developer")
	app := in.issueKey(map[string]any{"name": "app", "tenant": "bank"})
	forgotten := in.issueKey(map[string]any{"name": "forgotten", "tenant": "bank"})
	ask := func(k issuedKey) int { return in.send(http.MethodGet, "/v1/models", k.secret, nil).status }

	due := time.Now().UTC().Add(20 * time.Second)
	var r adminapi.AccessReview
	in.admin(http.MethodPost, "/access-reviews", map[string]any{"tenant": "bank", "name": "autumn", "owner": "checker", "due_at": due}, &r)
	if r.Entries != 4 || r.Waiting != 4 || r.OwnerName != "checker" {
		t.Errorf("%+v", r)
	}
	path := "/api/v1/access-reviews/" + r.Id
	holds := func(id string) []string {
		var d adminapi.AccessReviewDetail
		in.admin(http.MethodGet, "/access-reviews/"+r.Id+"?tenant=bank", nil, &d)
		return d.Items[slices.IndexFunc(d.Items, func(i adminapi.AccessReviewItem) bool { return i.Id == id })].Holds
	}
	decide := func(who, kind, id string, keep bool) reply {
		return in.send(http.MethodPost, path+"/decisions", who, map[string]any{"kind": kind, "id": id, "keep": keep, "reason": "looked at", "holds": holds(id)})
	}
	wantProblem(t, "somebody else", decide(gone.token, "key", app.id, true), http.StatusForbidden, "not_allowed")
	wantProblem(t, "who started it", in.send(http.MethodPost, path+"/decisions?tenant=bank", in.token, map[string]any{"kind": "key", "id": app.id, "keep": true}), http.StatusForbidden, "not_reviewer")
	wantProblem(t, "the owner about himself", decide(checker.token, "user", checker.id, true), http.StatusForbidden, "second_person_required")
	if got := decide(checker.token, "key", app.id, true); got.status != http.StatusOK {
		t.Errorf("confirmed: %d %s", got.status, got.body)
	}
	ended := decide(checker.token, "user", gone.id, false)
	if ended.status != http.StatusOK || !strings.Contains(string(ended.body), `"decision":"ended"`) {
		t.Errorf("ended: %d %s", ended.status, ended.body)
	}
	if got := in.send(http.MethodGet, "/api/v1/me", gone.token, nil); got.status != http.StatusUnauthorized {
		t.Errorf("an account that was ended: %d %s", got.status, got.body)
	}
	log := func(query string) string {
		return string(in.admin(http.MethodGet, "/audit/records?tenant=bank&"+query, nil, nil).body)
	}
	eventually(t, "the record of the decision", func() bool {
		got := log("request=" + ended.header.Get("X-Request-Id"))
		return strings.Contains(got, "admin.decideAccessReview") && strings.Contains(got, gone.id) && strings.Contains(got, "looked at")
	})

	eventually(t, "the forgotten key to lapse", func() bool { return ask(forgotten) == http.StatusUnauthorized })
	if time.Now().Before(due) {
		t.Error("it lapsed before it was due")
	}
	if got := ask(app); got != http.StatusOK {
		t.Errorf("the confirmed key: %d", got)
	}
	var detail adminapi.AccessReviewDetail
	eventually(t, "the review to end", func() bool {
		in.admin(http.MethodGet, "/access-reviews/"+r.Id+"?tenant=bank", nil, &detail)
		return detail.Review.EndedAt != nil
	})
	at := slices.IndexFunc(detail.Items, func(i adminapi.AccessReviewItem) bool { return i.Id == forgotten.id })
	if i := detail.Items[at]; i.Decision == nil || *i.Decision != adminapi.Lapsed || i.DoneAt == nil {
		t.Errorf("%+v", i)
	}
	eventually(t, "the record of the lapse", func() bool {
		got := log("action=access.lapse")
		return strings.Contains(got, forgotten.id) && strings.Contains(got, r.Id)
	})
}
