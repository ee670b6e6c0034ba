package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// passage is a hit of a search, or a citation of a chat, which has no text.
type passage struct {
	Document, Text, Version string
	Start, End, Chunk       int
}

var quoted = regexp.MustCompile(`(?s)<passage number="1">\n(.*?)\n</passage>`)

// TestCitationsCutTheText ingests long documents of every kind. Whatever is found stands in the document's text at the offsets the
// citation says, with what was masked for the engine, and an engine that quotes a passage gives the caller what stands there.
func TestCitationsCutTheText(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true, plan: func(_ int, req *engine.Request) enginetest.Plan {
		m := quoted.FindStringSubmatch(req.Messages[0].Content)
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
		if lead := r.Messages[0].Content; strings.Contains(lead, "1380013") || !strings.Contains(lead, "⟦") {
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
