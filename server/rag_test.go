package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/server"
)

// passage is a hit of a search, or a citation of a chat, which has no text.
type passage struct {
	Document, Text, Version string
	Start, End, Chunk       int
}

var quoted = regexp.MustCompile(`(?s)<passage-[0-9a-f]{12} number="1">\n(.*?)\n</passage-`)

// TestCitationsCutTheText ingests long documents of every kind. Whatever is found stands in the document's text at the offsets the
// citation says, with what was masked for the engine, and an engine that quotes a passage gives the caller what stands there.
func TestCitationsCutTheText(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true, plan: func(_ int, req *engine.Request) enginetest.Plan {
		m := quoted.FindStringSubmatch(req.Messages[len(req.Messages)-1].Content)
		if m == nil {
			return enginetest.Plan{Texts: []string{"no passage"}}
		}
		return enginetest.Plan{Texts: []string{m[1]}}
	}})
	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "kb"}, new(any))
	texts := map[string]string{} // as extracted
	for name, write := range map[string]func(heading, body string) (source, text string){
		"a.txt": func(_, body string) (string, string) { return body + "\n\n", body + "\n\n" },
		"b.md": func(h, body string) (string, string) {
			return "## " + h + "\n\n**" + body + "**\n\n", h + "\n\n" + body + "\n\n"
		},
		"c.html": func(h, body string) (string, string) {
			return "<h2>" + h + "</h2><p>" + body + "<p hidden>no</p>", h + "\n\n" + body + "\n\n"
		},
	} {
		var source, text strings.Builder
		for i := range 12 {
			mobile := fmt.Sprintf("1380013%04d", 8000+i)
			body := fmt.Sprintf("第%d街道办事处的联系人是李女士（手机 %s），%s and desk %d handles permits.", i, mobile, strings.Repeat("工作日受理，节假日休息。", i%4), i)
			s, x := write(fmt.Sprintf("Section 第%d节", i), body)
			source.WriteString(s)
			text.WriteString(x)
		}
		texts[name] = strings.TrimSpace(text.String())
		in.admin(http.MethodPost, "/rag/collections/kb/documents", map[string]string{"name": name, "text": source.String()}, new(any))
	}
	key := in.started.Welcome.APIKey.Reveal()
	seen := map[string]bool{}
	for i := range 12 {
		question := fmt.Sprintf("第%d街道办事处的联系人是谁？desk %d", i, i)
		var found struct{ Data []passage }
		in.send(http.MethodPost, "/v1/rag/search", key, map[string]any{"collection": "kb", "query": question, "top_k": 20}).decode(t, &found)
		if len(found.Data) == 0 {
			t.Fatal("nothing found")
		}
		for _, p := range found.Data {
			if p.Start < 0 || p.End > len(texts[p.Document]) || texts[p.Document][p.Start:p.End] != p.Text {
				t.Fatalf("%s#%d: %d to %d do not cut %q", p.Document, p.Chunk, p.Start, p.End, p.Text)
			}
			seen[fmt.Sprintf("%s#%d", p.Document, p.Chunk)] = true
		}
		if i%4 != 0 {
			continue
		}
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
			Sluice  struct{ Citations []passage }
		}
		in.chat(map[string]any{
			"model": "scripted", "rag": map[string]any{"collection": "kb", "top_k": 2}, "messages": []any{map[string]string{"role": "user", "content": question}},
		}).decode(t, &answer)
		if len(answer.Sluice.Citations) != 2 {
			t.Fatalf("citations %+v", answer.Sluice.Citations)
		}
		c := answer.Sluice.Citations[0]
		if want := texts[c.Document][c.Start:c.End]; answer.Choices[0].Message.Content != want || !strings.Contains(want, "1380013") {
			t.Errorf("the engine quoted the first passage, the caller got %q, the citation cuts %q", answer.Choices[0].Message.Content, want)
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %d different passages were seen", len(seen))
	}
	for _, r := range in.scripted.Requests() {
		if lead := r.Messages[1].Content; strings.Contains(lead, "1380013") || !strings.Contains(lead, "⟦") {
			t.Errorf("the engine was given %q", lead)
		}
	}
	if len(in.scripted.Requests()) != 3 {
		t.Errorf("the engine was asked %d times", len(in.scripted.Requests()))
	}
}

// TestSearchOfTheManagementPlane: it follows the tenant's policy and leaves the records of any search, nothing more.
func TestSearchOfTheManagementPlane(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true})
	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "kb"}, new(any))
	in.admin(http.MethodPost, "/rag/collections/kb/documents", map[string]string{"name": "a.txt", "text": "Ask Ms Li, 13800138000, about trees."}, new(any))
	search := func(tenant string) reply {
		return in.admin(http.MethodPost, "/rag/search", map[string]any{"collection": "kb", "text": "trees", "tenant": tenant}, nil)
	}
	r := search("demo")
	if r.status != http.StatusOK || !strings.Contains(string(r.body), "13800138000") {
		t.Fatalf("%d %s", r.status, r.body)
	}
	const shown = `"action":"observe","class":"cn_mobile","count":1,` // the value is there
	if !strings.Contains(string(r.body), shown) || strings.Contains(string(r.body), `"token"`) {
		t.Errorf("the search says %s", r.body)
	}
	trail := ""
	for _, e := range in.records(r.header.Get("X-Request-Id"), 2) {
		trail += e.Stage + " " + e.Action + " " + e.Actor.Kind + ", "
	}
	if want := "admitted rag.search user, outcome rag.search user, "; trail != want {
		t.Errorf("records %q, want %q", trail, want)
	}
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	if r := search("bank"); r.status != http.StatusBadRequest {
		t.Errorf("in another tenant: %d %s", r.status, r.body)
	}
	const policy = "schema: 2\nname: strict\nmodels: [\"*\"]\ncollections: [\"*\"]\nentities:\n  default: {request: token, passage: block, answer: redact}\n"
	in.admin(http.MethodPost, "/policies", map[string]string{"tenant": "demo", "yaml": policy}, new(any))
	if r := search("demo"); r.status != http.StatusForbidden || strings.Contains(string(r.body), "13800138000") {
		t.Errorf("a passage the policy blocks was shown: %d %s", r.status, r.body)
	}
}

// TestVectorsAreBilled: what documents and questions cost is in the books and in the log like everything else, and a tenant that has spent its
// budget brings no more documents.
func TestVectorsAreBilled(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true, plan: func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"120"}} }})
	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "kb"}, new(any))
	ingest := func(name, text string) reply {
		return in.admin(http.MethodPost, "/rag/collections/kb/documents", map[string]string{"name": name, "text": text}, nil)
	}
	// part returns the outcome record of a part of a request, and what it says of itself.
	part := func(r reply, name, action string) auditEvent {
		t.Helper()
		parent := r.header.Get("X-Request-Id")
		both := in.records(parent+"."+name, 2)
		for i, stage := range []string{"admitted", "outcome"} {
			var whole struct {
				Detail map[string]string
				Model  struct{ Asked, Version string }
			}
			if err := json.Unmarshal(both[i].raw, &whole); err != nil {
				t.Fatal(err)
			}
			if e := both[i]; e.Stage != stage || e.Action != action || e.Tenant != "demo" || whole.Detail["parent"] != parent || whole.Model.Asked != testmodel.E5ID || whole.Model.Version != "v1" {
				t.Errorf("record %s", e.raw)
			}
		}
		return both[1]
	}
	billed := func() usageTotal { return in.usage("?model=" + testmodel.E5ID) }
	all := int64(0)
	spend := func(what string, e auditEvent) {
		t.Helper()
		if all += e.Usage.PromptTokens; e.Outcome != "ok" || e.Usage.PromptTokens == 0 || e.Usage.Cost != 20*e.Usage.PromptTokens {
			t.Errorf("%s: %s", what, e.raw)
		}
		eventually(t, what+" to be billed", func() bool { u := billed(); return u.PromptTokens == all && u.CostNano == 20*all })
	}
	r := ingest("fees.txt", "A passport costs 120 yuan.\n\n"+strings.Repeat("The office is open from Monday to Friday. ", 60))
	if r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	e := part(r, "document", "rag.ingest")
	if e.Actor.Kind != "user" || strings.Contains(string(e.raw), "passport") {
		t.Errorf("record %s", e.raw)
	}
	spend("the document", e)
	if same := part(ingest("fees.txt", "A passport costs 120 yuan.\n\n"+strings.Repeat("The office is open from Monday to Friday. ", 60)), "document", "rag.ingest"); same.Usage.Cost != 0 || same.Usage.PromptTokens != 0 {
		t.Errorf("the same again: %s", same.raw)
	}
	r = in.chat(map[string]any{"model": "scripted", "rag": map[string]any{"collection": "kb"}, "messages": []any{map[string]string{"role": "user", "content": "What does a passport cost?"}}})
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	question := part(r, "vectors", "embeddings")
	spend("the question of a chat", question)
	r = in.send(http.MethodPost, "/v1/rag/search", in.started.Welcome.APIKey.Reveal(), map[string]any{"collection": "kb", "query": "What does a passport cost?"})
	again := part(r, "vectors", "embeddings")
	if again.Usage != question.Usage || again.Actor != question.Actor {
		t.Errorf("a search: %s", again.raw)
	}
	spend("the question of a search", again)
	if u := billed(); u.Requests != 3 {
		t.Errorf("billed %+v", u)
	}

	in.admin(http.MethodPut, "/budgets", map[string]any{"period": "total", "limit_nano": 0}, new(any))
	wantProblem(t, "without a budget", ingest("more.txt", "A visa costs 90 yuan."), http.StatusTooManyRequests, "organization_spend_limit_exceeded")
	r = in.chat(map[string]any{"model": "scripted", "rag": map[string]any{"collection": "kb"}, "messages": []any{map[string]string{"role": "user", "content": "And a visa?"}}})
	if r.status != http.StatusTooManyRequests || !strings.Contains(string(r.body), "organization_spend_limit_exceeded") {
		t.Errorf("a chat without a budget: %d %s", r.status, r.body)
	}
	var documents struct{ Items []struct{ Name string } }
	in.admin(http.MethodGet, "/rag/collections/kb/documents", nil, &documents)
	if len(documents.Items) != 1 {
		t.Errorf("the collection has %+v", documents.Items)
	}

	stages := map[string]map[string]bool{}
	in.eachRecord("", func(e auditEvent, _ json.RawMessage) {
		if stages[e.Request] == nil {
			stages[e.Request] = map[string]bool{}
		}
		stages[e.Request][e.Stage+e.Outcome] = true
	})
	for request, s := range stages {
		if s["outcomeok"] && !s["admitted"] {
			t.Errorf("request %s was answered and not admitted: %v", request, s)
		}
	}
	if v := in.verify(); v.Status != "finished" || !v.Report.OK {
		t.Errorf("%+v", v)
	}
	if found, err := server.Reconcile(t.Context(), in.cfg, 10, slog.New(slog.DiscardHandler)); err != nil || len(found.Open) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
