package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// cited is a citation of a chat.
type cited struct {
	Number               int
	Collection, Document string
	ID                   string `json:"document_id"`
	Title, Section       string
	Version, Text        string
	Chunk                int
}

// opened is the answer to who opens a passage, on either plane.
type opened struct {
	Document, Title, Version string
	Data, Items              []openedPiece
}

type openedPiece struct {
	Chunk         int
	Section, Text string
	Quoted        bool
}

// TestCitedPassages follows citations as a reader does: the answer quotes its passages, streamed or not, on both planes; each can be opened
// by whom a search would show it to, masked and recorded like one; and once the document was replaced or deleted, no other text takes its
// place.
func TestCitedPassages(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true, plan: func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"Ask Ms Li [1]."}}
	}})
	in.admin(http.MethodPost, "/rag/collections", map[string]any{"name": "kb", "labels": []string{"staff"}}, new(any))
	document := map[string]any{"name": "trees.md", "text": "# Trees\n\n## Felling\n\n" + strings.Repeat("Felling a tree needs a permit of the office. ", 12) +
		"\n\n## Contact\n\nAsk Ms Li, 13800138000, before you fell a tree.\n\n## Fees\n\n" + strings.Repeat("The fee is paid at the desk in the hall. ", 14)}
	in.admin(http.MethodPost, "/rag/collections/kb/documents", document, new(any))
	reader := in.issueKey(map[string]any{"name": "reader", "labels": []string{"staff"}}).secret
	stranger := in.started.Welcome.APIKey.Reveal()

	body := func(stream bool, rag map[string]any) map[string]any {
		return map[string]any{"model": "scripted", "stream": stream, "rag": rag, "messages": []any{map[string]string{"role": "user", "content": "Ask Ms Li, contact before you fell a tree"}}}
	}
	citations := func(r reply) (reply, []cited) {
		raw := string(r.body)
		if strings.HasPrefix(raw, "data:") {
			for line := range strings.Lines(raw) {
				if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"sluice"`) {
					raw = data
				}
			}
		}
		var answer struct{ Sluice struct{ Citations []cited } }
		if err := json.Unmarshal([]byte(raw), &answer); err != nil || r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return r, answer.Sluice.Citations
	}
	var found struct{ Data []cited }
	in.send(http.MethodPost, "/v1/rag/search", reader, map[string]any{"collection": "kb", "query": "Ask Ms Li, contact before you fell a tree", "top_k": 1}).decode(t, &found)
	want := found.Data[0]
	if want.Text == "" || !strings.Contains(want.Text, "13800138000") {
		t.Fatalf("the search shows %+v", want)
	}
	ask := map[string]any{"collection": "kb", "top_k": 1}
	for _, stream := range []bool{false, true} {
		_, got := citations(in.send(http.MethodPost, "/v1/chat/completions", reader, body(stream, ask)))
		if len(got) != 1 || got[0] != want || got[0].Title != "Trees" || got[0].Section == "" {
			t.Errorf("stream %v: %+v, a search shows %+v", stream, got, want)
		}
		_, none := citations(in.send(http.MethodPost, "/v1/chat/completions", reader, body(stream, map[string]any{"collection": "kb", "top_k": 1, "quotes": false})))
		if len(none) != 1 || none[0].Text != "" || none[0].ID != want.ID {
			t.Errorf("stream %v without quotes: %+v", stream, none)
		}
	}
	for _, q := range in.scripted.Requests() {
		if strings.Contains(fmt.Sprint(q.Messages), "13800138000") {
			t.Errorf("the engine was given %v", q.Messages)
		}
	}

	open := map[string]any{"collection": "kb", "document_id": want.ID, "version": want.Version, "chunk": want.Chunk, "neighbours": 1}
	r := in.send(http.MethodPost, "/v1/rag/passages", reader, open)
	var got opened
	r.decode(t, &got)
	at := slices.IndexFunc(got.Data, func(p openedPiece) bool { return p.Quoted })
	if len(got.Data) != 3 || at != 1 || got.Data[1].Text != want.Text || got.Data[1].Section != want.Section || got.Title != "Trees" || got.Document != "trees.md" || got.Version != "v1" {
		t.Errorf("%s", r.body)
	}
	trail, documents := "", []string{}
	for _, e := range in.records(r.header.Get("X-Request-Id"), 2) {
		var more struct{ Documents []string }
		if err := json.Unmarshal(e.raw, &more); err != nil {
			t.Fatal(err)
		}
		trail, documents = trail+e.Stage+" "+e.Action+" "+e.Actor.Kind+", ", more.Documents
	}
	if ref := fmt.Sprintf("kb/%s@v1#%d", want.ID, want.Chunk); trail != "admitted rag.passage key, outcome rag.passage key, " || len(documents) != 3 || documents[1] != ref {
		t.Errorf("records %q of %v, want %s among them", trail, documents, ref)
	}

	// Who may not search it may not open it, and is told no more.
	if code, _, param := refusalOf(t, in.send(http.MethodPost, "/v1/rag/passages", stranger, open)); code != "collection_not_found" || param != "collection" {
		t.Errorf("a key without the label: %s %s", code, param)
	}
	if r := in.send(http.MethodPost, "/api/v1/rag/passages", in.signIn("auditor"), open); r.status != http.StatusForbidden {
		t.Errorf("a role without the permission: %d %s", r.status, r.body)
	}
	for field, value := range map[string]any{"document_id": "a/b", "version": "", "chunk": -1, "neighbours": 4, "collection": "no such name"} {
		bad := map[string]any{"collection": "kb", "document_id": want.ID, "version": "v1", "chunk": 0}
		bad[field] = value
		if r := in.send(http.MethodPost, "/v1/rag/passages", reader, bad); r.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", field, r.status, r.body)
		} else if _, _, param := refusalOf(t, r); param != field {
			t.Errorf("%s: %s", field, r.body)
		}
	}

	// Wherever a request names a collection that is not there, the field is named.
	for _, c := range []struct {
		method, path, field string
		body                any
	}{
		{http.MethodPost, "/rag/search", "collection", map[string]any{"collection": "none", "text": "x"}},
		{http.MethodPost, "/rag/passages", "collection", map[string]any{"collection": "none", "document_id": "d", "version": "v1", "chunk": 0}},
		{http.MethodPost, "/playground/chat/completions", "rag.collection", body(false, map[string]any{"collection": "none"})},
		{http.MethodGet, "/rag/collections/none/documents", "collection", nil},
		{http.MethodPost, "/rag/collections/none/documents", "collection", map[string]any{"name": "a.txt", "text": "a"}},
		{http.MethodDelete, "/rag/collections/none/documents/d", "collection", nil},
		{http.MethodDelete, "/rag/collections/none", "collection", nil},
	} {
		r := in.admin(c.method, c.path, c.body, nil)
		if code, _, field := refusalOf(t, r); r.status != http.StatusNotFound || code != "collection_not_found" || field != c.field {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.status, r.body)
		}
	}

	// The console: a signed-in person with the label, in the playground and the drawer.
	in.admin(http.MethodPost, "/rag/collections", map[string]any{"name": "open"}, new(any))
	in.admin(http.MethodPost, "/rag/collections/open/documents", document, new(any))
	_, shown := citations(in.send(http.MethodPost, "/api/v1/playground/chat/completions", in.session(), body(false, map[string]any{"collection": "open", "top_k": 1})))
	if len(shown) != 1 || shown[0].Text != want.Text {
		t.Errorf("the playground shows %+v", shown)
	}
	mine := map[string]any{"collection": "open", "document_id": shown[0].ID, "version": shown[0].Version, "chunk": shown[0].Chunk}
	var view opened
	r = in.admin(http.MethodPost, "/rag/passages", mine, &view)
	if len(view.Items) != 3 || !view.Items[1].Quoted || view.Items[1].Text != want.Text || view.Title != "Trees" {
		t.Errorf("%s", r.body)
	}
	if e := in.records(r.header.Get("X-Request-Id"), 2)[1]; e.Action != "rag.passage" || e.Actor.Kind != "user" {
		t.Errorf("%+v", e)
	}

	// Replaced, then deleted: never another text.
	document["text"] = "# Trees\n\nNo tree may be felled.\n"
	in.admin(http.MethodPost, "/rag/collections/open/documents", document, new(any))
	r = in.admin(http.MethodPost, "/rag/passages", mine, nil)
	if code, sentence, param := refusalOf(t, r); r.status != http.StatusNotFound || code != "passage_replaced" || param != "version" || !strings.Contains(sentence, "version v2 is in effect") || strings.Contains(string(r.body), "felled") {
		t.Errorf("a replaced document: %d %s", r.status, r.body)
	}
	in.admin(http.MethodDelete, "/rag/collections/open/documents/"+shown[0].ID, nil, nil)
	if code, _, param := refusalOf(t, in.admin(http.MethodPost, "/rag/passages", mine, nil)); code != "not_found" || param != "document_id" {
		t.Errorf("a deleted document: %s %s", code, param)
	}

	// The rules of the policy hold here too.
	const strict = "schema: 2\nname: strict\nmodels: [\"*\"]\ncollections: [\"*\"]\nentities:\n  default: {request: token, passage: block, answer: redact}\n"
	in.admin(http.MethodPost, "/policies", map[string]string{"tenant": "demo", "yaml": strict}, new(any))
	if r := in.send(http.MethodPost, "/v1/rag/passages", reader, open); r.status != http.StatusForbidden || strings.Contains(string(r.body), "13800138000") {
		t.Errorf("a passage that the policy blocks was opened: %d %s", r.status, r.body)
	}
}

// TestPurposesInTheConsole: the signed-in user is told what the policy takes, and searches, opens passages and chats with one of them only.
func TestPurposesInTheConsole(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true, plan: func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"Ask Ms Li [1]."}}
	}})
	me := func() (me adminapi.Me) {
		in.admin(http.MethodGet, "/me", nil, &me)
		return me
	}
	if got := me().Purposes; got != nil {
		t.Errorf("a policy without purposes demands %v", *got)
	}
	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "kb"}, new(any))
	in.admin(http.MethodPost, "/rag/collections/kb/documents", map[string]string{"name": "a.txt", "text": "Ask Ms Li about trees."}, new(any))
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": strings.Replace(openPolicy, "purposes: []", "purposes: [support, billing]", 1)}, new(any))
	if got := me().Purposes; got == nil || !slices.Equal(*got, []string{"support", "billing"}) {
		t.Errorf("told of %v", got)
	}

	var found adminapi.PassageList
	in.send(http.MethodPost, "/api/v1/rag/search", in.token, map[string]string{"collection": "kb", "text": "trees"}, "X-Sluice-Purpose", "billing").decode(t, &found)
	hit := found.Items[0]
	for path, body := range map[string]any{
		"/rag/search":                  map[string]string{"collection": "kb", "text": "trees"},
		"/rag/passages":                map[string]any{"collection": "kb", "document_id": hit.DocumentId, "version": hit.Version, "chunk": hit.Chunk},
		"/playground/chat/completions": map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "trees?"}}},
	} {
		for _, header := range [][]string{nil, {"X-Sluice-Purpose", "curiosity"}} {
			r := in.send(http.MethodPost, "/api/v1"+path, in.token, body, header...)
			wantProblem(t, path, r, http.StatusForbidden, "purpose_required")
			if !strings.Contains(string(r.body), "support, billing") {
				t.Errorf("%s names no purposes: %s", path, r.body)
			}
		}
		if r := in.send(http.MethodPost, "/api/v1"+path, in.token, body, "X-Sluice-Purpose", "support"); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
