package server_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestDocumentAccess follows a rule through all that is wired to it: who may see a document by name, by his own key or for a purpose that the policy takes
// finds it, on both planes, and nobody else does, who is told what he would be told of a document that is not there; also with a time, and in lists. Who may
// only write documents opens none, and records tell that a rule has changed, and not what it says.
func TestDocumentAccess(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true, plan: func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"So."}} }})
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": strings.Replace(openPolicy, "purposes: []", "purposes: [service, care]", 1)}, new(any))
	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "kb"}, new(any))
	const documents = "/rag/collections/kb/documents"
	var open, board adminapi.Document
	in.admin(http.MethodPost, documents, map[string]string{"name": "open.txt", "text": "The fee is public."}, &open)
	in.admin(http.MethodPost, documents, map[string]string{"name": "board.txt", "text": "The fee of the board."}, &board)
	alice, bob := in.newAccount("alice", nil, "developer"), in.newAccount("bob", nil, "developer")
	auditor := in.newAccount("ann", nil, "auditor")
	var own struct{ Secret string }
	in.send(http.MethodPost, "/api/v1/keys", alice.token, map[string]any{"name": "own"}).decode(t, &own)
	other := in.issueKey(map[string]any{"name": "other"}).secret

	access := documents + "/" + board.Id + "/access"
	var is adminapi.DocumentAccess
	in.admin(http.MethodGet, access, nil, &is)
	rule := map[string]any{"restricted": true, "allow": []any{map[string]any{"principals": []string{"user:" + alice.id}}, map[string]any{"purposes": []string{"care"}}}}
	r := in.admin(http.MethodPut, access, map[string]any{"labels": []string{}, "rule": rule, "revision": is.Revision}, &is)
	changed := r.header.Get("X-Request-Id")
	stale := in.admin(http.MethodPut, access, map[string]any{"labels": []string{}, "rule": map[string]any{"restricted": false}, "revision": 1}, nil)
	if stale.status != http.StatusConflict {
		t.Errorf("an editor of what was: %d %s", stale.status, stale.body)
	}

	// search returns the versions of the documents that are found, and the request.
	search := func(credential, purpose string, asOf time.Time) (map[string]string, string) {
		t.Helper()
		path, body := "/v1/rag/search", map[string]any{"collection": "kb", "query": "What is the fee?"}
		if credential != own.Secret && credential != other {
			path, body = "/api/v1/rag/search", map[string]any{"collection": "kb", "text": "What is the fee?"}
		}
		if !asOf.IsZero() {
			body["as_of"] = asOf.Format(time.RFC3339Nano)
		}
		r := in.send(http.MethodPost, path, credential, body, "X-Sluice-Purpose", purpose)
		var found struct{ Data, Items []passage }
		r.decode(t, &found)
		out := map[string]string{}
		for _, p := range slices.Concat(found.Data, found.Items) {
			out[p.Document] = p.Version
		}
		return out, r.header.Get("X-Request-Id")
	}
	finds := func(who, credential, purpose string, asOf time.Time, want map[string]string) string {
		t.Helper()
		got, request := search(credential, purpose, asOf)
		if !maps.Equal(got, want) {
			t.Errorf("%s for %s at %s finds %v, want %v", who, purpose, asOf, got, want)
		}
		return request
	}
	both, public := map[string]string{"open.txt": "v1", "board.txt": "v1"}, map[string]string{"open.txt": "v1"}
	now := time.Time{}
	finds("alice", alice.token, "service", now, both)
	finds("her own key", own.Secret, "service", now, both)
	finds("bob", bob.token, "service", now, public)
	finds("another key", other, "service", now, public)
	finds("bob", bob.token, "care", now, both)
	finds("another key", other, "care", now, both)

	// What is not his is answered like what is not there.
	opens := func(credential, id string, asOf time.Time) reply {
		path := "/v1/rag/passages"
		if credential != other {
			path = "/api/v1/rag/passages"
		}
		body := map[string]any{"collection": "kb", "document_id": id, "version": "v1", "chunk": 0}
		if !asOf.IsZero() {
			body["as_of"] = asOf.Format(time.RFC3339Nano)
		}
		return in.send(http.MethodPost, path, credential, body, "X-Sluice-Purpose", "service")
	}
	const absent = "00000000-0000-0000-0000-000000000000"
	alike := func(what string, hidden, none reply) {
		t.Helper()
		code, sentence, param := refusalOf(t, hidden)
		code2, sentence2, param2 := refusalOf(t, none)
		if hidden.status != http.StatusNotFound || none.status != hidden.status || code != code2 || param != param2 || strings.ReplaceAll(sentence, board.Id, absent) != sentence2 {
			t.Errorf("%s: hidden: %d %s; absent: %d %s", what, hidden.status, hidden.body, none.status, none.body)
		}
	}
	for _, c := range []string{bob.token, other} {
		alike("a passage", opens(c, board.Id, now), opens(c, absent, now))
	}
	if r := opens(alice.token, board.Id, now); r.status != http.StatusOK {
		t.Errorf("alice: %d %s", r.status, r.body)
	}

	// Lists and counts.
	listed := func(token string) (names []string, count int64) {
		var page adminapi.DocumentPage
		in.send(http.MethodGet, "/api/v1"+documents, token, nil).decode(t, &page)
		for _, d := range page.Items {
			names = append(names, d.Name)
		}
		var all adminapi.CollectionList
		in.send(http.MethodGet, "/api/v1/rag/collections", token, nil).decode(t, &all)
		return names, all.Items[0].Documents
	}
	if names, count := listed(auditor.token); !slices.Equal(names, []string{"open.txt"}) || count != 1 {
		t.Errorf("the auditor is shown %v, %d", names, count)
	}
	if names, count := listed(bob.token); !slices.Equal(names, []string{"open.txt"}) || count != 1 {
		t.Errorf("bob, who writes, is shown %v, %d", names, count)
	}
	if names, count := listed(alice.token); len(names) != 2 || count != 2 {
		t.Errorf("alice is shown %v, %d", names, count)
	}
	if names, count := listed(in.token); len(names) != 2 || count != 2 {
		t.Errorf("the administrator is shown %v, %d", names, count)
	}
	// Whoever writes changes nothing of what he may not see, and sees what he has brought, also where he may not read it.
	for what, c := range map[string]struct {
		method, path string
		body         any
	}{
		"dates":    {http.MethodPatch, "/versions/v1", map[string]any{"revision": is.Revision, "valid_until": "2030-01-01T00:00:00Z"}},
		"version":  {http.MethodDelete, "/versions/v1", nil},
		"document": {http.MethodDelete, "", nil},
		"versions": {http.MethodGet, "/versions", nil},
	} {
		alike(what, in.send(c.method, "/api/v1"+documents+"/"+board.Id+c.path, bob.token, c.body), in.send(c.method, "/api/v1"+documents+"/"+absent+c.path, bob.token, c.body))
	}
	var his adminapi.Document
	in.send(http.MethodPost, "/api/v1"+documents, bob.token, map[string]any{"name": "his.txt", "text": "Figures of bob.", "access": map[string]any{"restricted": true}}).decode(t, &his)
	if names, count := listed(bob.token); !slices.Equal(names, []string{"his.txt", "open.txt"}) || count != 2 {
		t.Errorf("bob is shown %v, %d", names, count)
	}
	if names, _ := listed(alice.token); slices.Contains(names, "his.txt") {
		t.Errorf("alice is shown %v", names)
	}
	if r := in.send(http.MethodDelete, "/api/v1"+documents+"/"+his.Id, bob.token, nil); r.status != http.StatusNoContent {
		t.Errorf("bob deletes his own: %d %s", r.status, r.body)
	}
	alike("versions", in.send(http.MethodGet, "/api/v1"+documents+"/"+board.Id+"/versions", auditor.token, nil), in.send(http.MethodGet, "/api/v1"+documents+"/"+absent+"/versions", auditor.token, nil))

	// Whoever may only write opens nothing; a version of his keeps the rule, and of what he may not see he brings none.
	for what, body := range map[string]map[string]any{
		"the rule":   {"name": "board.txt", "text": "The fee of all.", "access": map[string]any{"restricted": false}},
		"the labels": {"name": "board.txt", "text": "The fee of all.", "labels": []string{"all"}},
	} {
		if r := in.send(http.MethodPost, "/api/v1"+documents, bob.token, body); r.status != http.StatusConflict {
			t.Errorf("bob changes %s: %d %s", what, r.status, r.body)
		}
		if r := in.send(http.MethodPost, "/api/v1"+documents, alice.token, body); r.status != http.StatusForbidden {
			t.Errorf("alice changes %s: %d %s", what, r.status, r.body)
		}
	}
	if r := in.send(http.MethodPut, "/api/v1"+access, bob.token, map[string]any{"labels": []string{}, "rule": map[string]any{"restricted": false}, "revision": is.Revision}); r.status != http.StatusForbidden {
		t.Errorf("bob changes access: %d %s", r.status, r.body)
	}
	var versions adminapi.DocumentVersionPage
	in.admin(http.MethodGet, documents+"/"+board.Id+"/versions", nil, &versions)
	before := versions.Items[0].ValidFrom
	if r := in.send(http.MethodPost, "/api/v1"+documents, alice.token, map[string]any{"name": "board.txt", "text": "The new fee of the board."}); r.status != http.StatusCreated {
		t.Errorf("alice writes: %d %s", r.status, r.body)
	}
	finds("bob", bob.token, "service", now, public)
	finds("alice", alice.token, "service", now, map[string]string{"open.txt": "v1", "board.txt": "v2"})

	// With a time.
	request := finds("her own key", own.Secret, "service", before, both)
	finds("alice", alice.token, "service", before, both)
	finds("bob", bob.token, "service", before, public)
	alike("a passage of then", opens(bob.token, board.Id, before), opens(bob.token, absent, before))
	if r := opens(alice.token, board.Id, before); r.status != http.StatusOK || !strings.Contains(string(r.body), "The fee of the board.") {
		t.Errorf("alice: %d %s", r.status, r.body)
	}
	for path, body := range map[string]map[string]any{
		"/v1/rag/search": {"collection": "kb", "query": "fee"}, "/api/v1/rag/search": {"collection": "kb", "text": "fee"},
	} {
		credential := map[bool]string{true: own.Secret, false: alice.token}[strings.HasPrefix(path, "/v1")]
		body["as_of"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		r := in.send(http.MethodPost, path, credential, body, "X-Sluice-Purpose", "service")
		if _, _, param := refusalOf(t, r); r.status != http.StatusBadRequest || param != "as_of" {
			t.Errorf("%s of tomorrow: %d %s", path, r.status, r.body)
		}
	}

	// What is on record.
	e := in.eventsOf(request, 2)[1]
	if e.Detail["as_of"] != before.UTC().Format(time.RFC3339Nano) || !slices.Contains(e.Documents, fmt.Sprintf("kb/%s@v1#0", board.Id)) {
		t.Errorf("a search of then: %+v", e)
	}
	all := in.eventsOf(changed, 2)
	e = all[len(all)-1]
	if text := fmt.Sprintf("%+v", all); e.Detail["before"] == "" || e.Detail["after"] == "" || e.Detail["before"] == e.Detail["after"] || !strings.Contains(e.Resource, board.Id) || strings.Contains(text, alice.id) || strings.Contains(text, "care") {
		t.Errorf("the change of the rule: %s", text)
	}
}
