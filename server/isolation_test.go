package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// resident is a tenant on a shared installation: the keys and people that a test acts as.
type resident struct {
	tenant          string
	key             issuedKey
	officer, reader account // security_admin, auditor
}

// TestTwoTenantsOnOneEngine puts two tenants on the same weights, cache, adapters, collections and counters, and lets one look for traces of
// the other in everything that an answer shows: figures of the cache, drafts, lists, refusals, records, usage and time.
func TestTwoTenantsOnOneEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("computes twenty long prompts")
	}
	in, downloads := startConfigured(t, fmt.Sprintf("engines: {native: {models: [{id: chat, path: %q}, {id: %s, path: %q}], context_tokens: 1024, threads: 2}}\nrag: {embedding_model: %s}\n",
		testmodel.Path(t, testmodel.SmolLM2), testmodel.E5ID, testmodel.Path(t, testmodel.E5), testmodel.E5ID))
	ward, bank := in.settle("ward"), in.settle("bank")
	in.prefixesStayApart(ward, bank)
	in.draftsStayApart(ward, bank)
	in.adaptersStayApart(downloads, ward, bank)
	in.collectionsStayApart(ward, bank)
	in.pseudonymsStayApart(ward, bank)
	in.answersStayApart(ward, bank)
	in.managementStaysApart(ward, bank)
}

// settle makes a tenant with a key and two people.
func (in *installation) settle(tenant string) resident {
	in.t.Helper()
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": tenant, "name": tenant}, new(any))
	of := map[string]any{"tenant": tenant}
	return resident{
		tenant: tenant, key: in.issueKey(map[string]any{"name": "app", "tenant": tenant}),
		officer: in.newAccount(tenant+"-officer", of, "security_admin"), reader: in.newAccount(tenant+"-reader", of, "auditor"),
	}
}

// asked is what an answer of the chat model shows of how it was made.
type asked struct {
	request, text          string
	cached, draft, guessed int // tokens: found in the cache, guessed, guessed rightly
	took                   time.Duration
}

// ask has r ask the chat model for n tokens at most.
func (in *installation) ask(r resident, prompt string, n int) asked {
	in.t.Helper()
	begun := time.Now()
	got := in.send(http.MethodPost, "/v1/chat/completions", r.key.secret, map[string]any{
		"model": "chat", "max_tokens": n, "temperature": 0, "messages": []any{map[string]string{"role": "user", "content": prompt}},
	})
	a := asked{request: got.header.Get("X-Request-Id"), took: time.Since(begun)}
	var body struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	got.decode(in.t, &body)
	a.text, a.cached = body.Choices[0].Message.Content, body.Usage.Details.Cached
	var steps struct {
		Items []struct {
			Shares []struct {
				Request  string
				Drafts   int `json:"draft_tokens"`
				Accepted int `json:"accepted_tokens"`
			}
		}
	}
	in.admin(http.MethodGet, "/engine/steps?limit=500", nil, &steps)
	for _, s := range steps.Items {
		for _, share := range s.Shares {
			if share.Request == a.request {
				a.draft, a.guessed = a.draft+share.Drafts, a.guessed+share.Accepted
			}
		}
	}
	return a
}

// prefixesStayApart: a prompt that the other tenant has just sent is as new as one that nobody has sent, by the figures of the answer and
// by the time that it took. The owner's own second time shows that both would tell.
func (in *installation) prefixesStayApart(owner, other resident) {
	t := in.t
	t.Helper()
	prompt := func(n int) string {
		return fmt.Sprintf("Case %d. ", n) + strings.Repeat(fmt.Sprintf("In ward %d the patient of bed %d was given medicine %d. ", n, n+1, n*7), 30)
	}
	var again, seen, fresh []time.Duration
	for round := range 5 {
		in.ask(owner, prompt(2*round), 1)
		own := in.ask(owner, prompt(2*round), 1)
		unknown, foreign := in.ask(other, prompt(2*round+1), 1), in.ask(other, prompt(2*round), 1)
		if own.cached < 300 {
			t.Fatalf("the owner's prompt was not found again: %+v", own)
		}
		if foreign.cached >= 64 || unknown.cached >= 64 {
			t.Errorf("round %d: %d tokens of the other tenant's prompt were in the cache, %d of a prompt that nobody sent", round, foreign.cached, unknown.cached)
		}
		again, seen, fresh = append(again, own.took), append(seen, foreign.took), append(fresh, unknown.took)
	}
	a, s, f := median(again), median(seen), median(fresh)
	t.Logf("medians: own second time %v, the other tenant's prompt %v, a new one %v", a, s, f)
	if a > f/2 {
		t.Errorf("the clock does not tell a cached prompt (%v) from a new one (%v): the probe proves nothing", a, f)
	}
	if s < f/2 {
		t.Errorf("the other tenant's prompt took %v, a new one %v: the time tells that somebody has sent it", s, f)
	}
}

func median(d []time.Duration) time.Duration {
	slices.SortFunc(d, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return d[len(d)/2]
}

// draftsStayApart: what the engine guesses for one tenant does not come from answers to the other.
func (in *installation) draftsStayApart(owner, other resident) {
	t := in.t
	t.Helper()
	const prompt = "List the days of the week, twice, one per line."
	first := in.ask(owner, prompt, 64)
	second := in.ask(owner, prompt, 64)
	foreign := in.ask(other, prompt, 64)
	if first.text != foreign.text || first.text == "" {
		t.Fatalf("the same weights answer %q and %q", first.text, foreign.text)
	}
	if second.guessed <= first.guessed {
		t.Fatalf("earlier answers did not help their own tenant: %+v, then %+v", first, second)
	}
	// How many are guessed at a time follows how many were right lately, whoever asked; what is guessed does not.
	t.Logf("guessed rightly: %d of %d at first, %d of %d again, %d of %d for the other tenant", first.guessed, first.draft, second.guessed,
		second.draft, foreign.guessed, foreign.draft)
	if 2*foreign.guessed > first.guessed+second.guessed {
		t.Errorf("%d tokens were guessed rightly for the other tenant: as many as for who has had the answer before", foreign.guessed)
	}
}

// adaptersStayApart: an adapter of one tenant is to the other a model that does not exist, in lists, lookups and requests.
func (in *installation) adaptersStayApart(downloads string, owner, other resident) {
	t := in.t
	t.Helper()
	writeAdapter(t, filepath.Join(downloads, "models", "adapters", "law"), 0.1)
	in.admin(http.MethodPost, "/engine/adapters", map[string]any{"id": "law", "model": "chat", "path": "law", "tenants": []string{owner.tenant}}, new(any))
	list := func(r resident) string { return string(in.send(http.MethodGet, "/v1/models", r.key.secret, nil).body) }
	if !strings.Contains(list(owner), `"law"`) || strings.Contains(list(other), `"law"`) {
		t.Errorf("the owner sees %s, the other tenant %s", list(owner), list(other))
	}
	alike(t, "looked up", "law", "gap", func(id string) reply { return in.send(http.MethodGet, "/v1/models/"+id, other.key.secret, nil) })
	alike(t, "asked", "law", "gap", func(id string) reply {
		return in.send(http.MethodPost, "/v1/chat/completions", other.key.secret, map[string]any{"model": id, "messages": []any{map[string]string{"role": "user", "content": "hello"}}})
	})
}

// alike fails unless the answers about two names of one length differ in nothing but the name: one exists elsewhere, the other does not.
func alike(t *testing.T, what, foreign, unknown string, ask func(name string) reply) {
	t.Helper()
	plain := func(name string) string {
		r := ask(name)
		if r.status < 400 {
			t.Errorf("%s: %s was answered with %d", what, name, r.status)
		}
		text := strings.ReplaceAll(string(r.body), name, "NAME")
		if id := r.header.Get("X-Request-Id"); id != "" {
			text = strings.ReplaceAll(text, id, "ID")
		}
		var names []string
		for h := range r.header {
			names = append(names, h)
		}
		slices.Sort(names)
		return fmt.Sprint(r.status, names, text)
	}
	if a, b := plain(foreign), plain(unknown); a != b {
		t.Errorf("%s: what exists elsewhere is told apart from what does not exist:\n%s\n%s", what, a, b)
	}
}

// collectionsStayApart: collections of one name in two tenants hold each its own documents, and those of the other tenant cannot be
// searched, opened, listed or removed.
func (in *installation) collectionsStayApart(owner, other resident) {
	t := in.t
	t.Helper()
	document := func(r resident, collection, words string) string {
		t.Helper()
		at := "?tenant=" + r.tenant
		in.send(http.MethodPost, "/api/v1/rag/collections"+at, in.token, map[string]any{"name": collection})
		var d struct{ ID string }
		in.admin(http.MethodPost, "/rag/collections/"+collection+"/documents"+at, map[string]any{"name": "a.md", "text": words}, &d)
		return d.ID
	}
	theirs := document(owner, "notes", "The lighthouse of the ward is painted red.")
	document(owner, "wards", "The lighthouse of the ward is painted red.")
	document(other, "notes", "The vault of the bank is painted green.")
	search := func(r resident, collection string) reply {
		return in.send(http.MethodPost, "/v1/rag/search", r.key.secret, map[string]any{"collection": collection, "query": "What is the lighthouse painted?", "top_k": 5})
	}
	if r := search(owner, "notes"); !strings.Contains(string(r.body), "lighthouse") {
		t.Fatalf("the owner does not find his document: %d %s", r.status, r.body)
	}
	if r := search(other, "notes"); strings.Contains(string(r.body), "lighthouse of") || !strings.Contains(string(r.body), "vault") {
		t.Errorf("the other tenant finds %s", r.body)
	}
	alike(t, "searched", "wards", "wordy", func(name string) reply { return search(other, name) })
	alike(t, "opened", theirs, strings.Repeat("0", len(theirs)), func(id string) reply {
		return in.send(http.MethodPost, "/v1/rag/passages", other.key.secret, map[string]any{"collection": "notes", "document_id": id, "version": "v1", "chunk": 0})
	})
	if r := in.send(http.MethodGet, "/api/v1/rag/collections", other.officer.token, nil); strings.Contains(string(r.body), "wards") {
		t.Errorf("the other tenant's officer lists %s", r.body)
	}
	alike(t, "removed", theirs, strings.Repeat("0", len(theirs)), func(id string) reply {
		return in.send(http.MethodDelete, "/api/v1/rag/collections/notes/documents/"+id, other.officer.token, nil)
	})
}

// lists returns what the management API reads without the name of one thing.
func (in *installation) lists() (out []string) {
	in.t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("adminapi/openapi.yaml")
	if err != nil {
		in.t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		if item.Get != nil && !strings.Contains(path, "{") {
			target, _ := sampleRequest(path, item.Get)
			out = append(out, target)
		}
	}
	return out
}

// pseudonymsStayApart: a pseudonym of one tenant's value is a word like any other to the other tenant.
func (in *installation) pseudonymsStayApart(owner, other resident) {
	t := in.t
	t.Helper()
	const number = "13800138000"
	preview := func(r resident, text string) string {
		return string(in.send(http.MethodPost, "/api/v1/masking/preview", r.officer.token, map[string]any{"text": text}).body)
	}
	one, two := preview(owner, "电话 "+number), preview(other, "电话 "+number)
	token := func(body string) string {
		_, rest, found := strings.Cut(body, "⟦")
		name, _, closed := strings.Cut(rest, "⟧")
		if !found || !closed {
			t.Fatalf("no pseudonym in %s", body)
		}
		return "⟦" + name + "⟧"
	}
	if token(one) == token(two) {
		t.Errorf("two tenants have the same pseudonym %s of one value", token(one))
	}
	// The owner keeps the value for a request; the other tenant sends the pseudonym and gets it back as it is.
	kept := in.ask(owner, "Repeat: "+number, 8)
	if r := in.ask(other, "Repeat: "+token(one), 24); strings.Contains(r.text, number) {
		t.Errorf("the other tenant got %q", r.text)
	}
	alike(t, "revealed", kept.request, strings.Repeat("0", len(kept.request)), func(request string) reply {
		return in.send(http.MethodPost, "/api/v1/reveal", other.officer.token, map[string]any{"request": request, "tokens": []string{token(one)}, "reason": "probe"})
	})
}

// answersStayApart: where the policy has equal requests share an answer, the owner's second request gets the kept one, and the other tenant's equal request does
// not: neither the answer nor a sign that there is one.
func (in *installation) answersStayApart(owner, other resident) {
	t := in.t
	t.Helper()
	const exact = "schema: 2\nname: Exact\nmodels: [\"*\"]\ncollections: [\"*\"]\ncache: exact\nentities: {default: {request: token, passage: token, answer: redact}}\n"
	for _, r := range []resident{owner, other} {
		in.admin(http.MethodPost, "/policies", map[string]string{"tenant": r.tenant, "yaml": exact}, new(any))
	}
	ask := func(r resident) string {
		got := in.send(http.MethodPost, "/v1/chat/completions", r.key.secret, map[string]any{
			"model": "chat", "max_tokens": 4, "temperature": 0, "messages": []any{map[string]string{"role": "user", "content": "Which answers are kept?"}},
		})
		if got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return got.header.Get("X-Sluice-Cache")
	}
	if one, two, theirs := ask(owner), ask(owner), ask(other); one != "miss" || two != "hit" || theirs != "miss" {
		t.Errorf("the owner's answers are a %s and a %s, the other tenant's a %s", one, two, theirs)
	}
}

// managementStaysApart: people of one tenant find nothing of the other in lists, records and figures, and what they name of it does not
// exist.
func (in *installation) managementStaysApart(owner, other resident) {
	t := in.t
	t.Helper()
	var all []string
	for _, r := range in.lists() {
		for who, a := range map[string]account{"officer": other.officer, "reader": other.reader} {
			got := in.send(http.MethodGet, "/api/v1"+r, a.token, nil)
			all = append(all, r)
			for _, mark := range []string{owner.key.id, owner.officer.id, owner.reader.id, `"` + owner.tenant + `"`, owner.officer.name} {
				if strings.Contains(string(got.body), mark) {
					t.Errorf("the other tenant's %s reads %q in GET %s: %s", who, mark, r, got.body)
				}
			}
		}
	}
	if len(all) < 40 {
		t.Errorf("only %d lists were read", len(all))
	}
	alike(t, "a key revoked", owner.key.id, strings.Repeat("A", len(owner.key.id)), func(id string) reply {
		return in.send(http.MethodPost, "/api/v1/keys/"+id+"/revoke", other.officer.token, nil)
	})
	alike(t, "a person disabled", owner.reader.id, "01a21020-6b3d-7d5e-8f32-1433144e1128", func(id string) reply {
		return in.send(http.MethodPost, "/api/v1/users/"+id+"/disable", other.officer.token, nil)
	})
	var usage struct{ Items []json.RawMessage }
	r := in.send(http.MethodGet, "/api/v1/usage?tenant="+owner.tenant, other.officer.token, nil)
	if r.status != http.StatusForbidden {
		r.decode(t, &usage)
		t.Errorf("the other tenant's officer reads usage of the owner: %d %s", r.status, r.body)
	}
	if r := in.send(http.MethodGet, "/metrics", other.key.secret, nil); r.status < 400 {
		t.Errorf("a tenant's key reads the metrics of the installation: %d", r.status)
	}
	if m := string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body); strings.Contains(m, owner.tenant+`"`) || strings.Contains(m, owner.key.id) {
		t.Errorf("the metrics name a tenant or a key")
	}
}
