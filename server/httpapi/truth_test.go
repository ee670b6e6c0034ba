package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/rag"
)

// The values of each direction, and what stands for them where they are hidden.
const (
	askedValue = "13800138000"
	foundValue = "13700137000"
	ownValue   = "13912345678"
)

// truthPolicy treats mobile numbers so in each direction.
func truthPolicy(request, passage, answer string) string {
	return "schema: 2\nname: T\nmodels: [\"*\"]\ncollections: [\"*\"]\nentities:\n  default: {request: allow, passage: allow, answer: allow}\n" +
		fmt.Sprintf("  cn_mobile: {request: %s, passage: %s, answer: %s}\n", request, passage, answer)
}

// reported is what a reply says was done to the values of a direction.
func reported(t *testing.T, body string) map[string]gateway.Finding {
	t.Helper()
	chunks := []string{body}
	if strings.HasPrefix(body, "data:") {
		chunks = events(t, body)
	}
	out := map[string]gateway.Finding{}
	for _, c := range chunks {
		var reply struct {
			Sluice *struct{ Findings []gateway.Finding }
		}
		if json.Unmarshal([]byte(c), &reply) != nil || reply.Sluice == nil {
			continue
		}
		for _, f := range reply.Sluice.Findings {
			if _, twice := out[f.Direction]; twice || f.Class != "cn_mobile" {
				t.Fatalf("findings %+v", reply.Sluice.Findings)
			}
			out[f.Direction] = f
		}
	}
	return out
}

// hides are the actions that say that a value is not shown.
func hides() []string { return []string{"token", "partial", "redact", "hash", "block"} }

// TestFindingsAreTrue: whatever the policy does in any direction, on every surface that reports findings, streamed or not, what is
// reported is what was done: a finding that says hidden never stands beside a reply that shows the value, unless it says that it was put
// back; what is shown is not reported as hidden; the record says the same; and no value that is hidden from the engine reaches it.
func TestFindingsAreTrue(t *testing.T) {
	t.Parallel()
	actions := append(hides(), "observe", "allow")
	for _, action := range actions {
		for _, direction := range []string{"request", "passage", "answer"} {
			rule := map[string]string{"request": "allow", "passage": "allow", "answer": "allow"}
			rule[direction] = action
			m := newMasked(t, "observe")
			if _, err := m.guard.Publish(t.Context(), governance.EveryTenant, []byte(truthPolicy(rule["request"], rule["passage"], rule["answer"])), "test"); err != nil {
				t.Fatal(err)
			}
			m.playground(t)
			for name, s := range truthSurfaces() {
				t.Run(action+" of "+direction+"/"+name, func(t *testing.T) { m.checkTruth(t, s, direction, action) })
			}
		}
	}
}

// truthSurface is a call of one surface, with what of it reaches an engine and what comes back of each direction.
type truthSurface struct {
	path, body string
	engine     map[string]bool // the directions of which an engine is given the values
	shows      map[string]bool // the directions of which the reply shows the values, if nothing hides them
}

func truthSurfaces() map[string]truthSurface {
	all := func(directions ...string) map[string]bool {
		out := map[string]bool{}
		for _, d := range directions {
			out[d] = true
		}
		return out
	}
	chat := `{"model":"chat","messages":[{"role":"user","content":"打给` + askedValue + `。"}]`
	return map[string]truthSurface{
		"chat":                {"/v1/chat/completions", chat + `}`, all("request"), all("request", "answer")},
		"chat, streamed":      {"/v1/chat/completions", chat + `,"stream":true}`, all("request"), all("request", "answer")},
		"completions":         {"/v1/completions", `{"model":"chat","prompt":"打给` + askedValue + `。"}`, all("request"), all("request", "answer")},
		"retrieval":           {"/v1/chat/completions", chat + `,"rag":{"collection":"docs"}}`, all("request", "passage"), all("request", "passage", "answer")},
		"retrieval, streamed": {"/v1/chat/completions", chat + `,"rag":{"collection":"docs"},"stream":true}`, all("request", "passage"), all("request", "passage", "answer")},
		"playground":          {"/play", chat + `,"rag":{"collection":"docs"},"stream":true}`, all("request", "passage"), all("request", "passage", "answer")},
		"embeddings":          {"/v1/embeddings", `{"model":"embed","input":"打给` + askedValue + `。"}`, all("request"), nil},
		"rerank":              {"/v1/rerank", `{"model":"rank","query":"q","documents":["打给` + askedValue + `。"],"return_documents":true}`, all("request"), all("request")},
		"rerank, scores":      {"/v1/rerank", `{"model":"rank","query":"q","documents":["打给` + askedValue + `。"]}`, all("request"), nil},
		"score":               {"/v1/score", `{"model":"rank","text_1":"打给` + askedValue + `。","text_2":"b"}`, all("request"), nil},
		"search":              {"/v1/rag/search", `{"collection":"docs","query":"x"}`, nil, all("passage")},
		"search of a value":   {"/v1/rag/search", `{"collection":"docs","query":"打给` + askedValue + `。"}`, nil, all("passage")},
	}
}

// playground adds the chat of the console to the server.
func (m *masked) playground(t *testing.T) {
	t.Helper()
	e := gin.New()
	e.Use(m.api.Middleware())
	e.POST("/play", m.api.Playground(func(c *gin.Context, err error) { m.api.WriteError(c, err) }))
	old := m.Config.Handler
	e.NoRoute(func(c *gin.Context) { old.ServeHTTP(c.Writer, c.Request) })
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	m.Server = server
}

func (m *masked) checkTruth(t *testing.T, s truthSurface, direction, action string) {
	values := map[string][]string{"request": {askedValue}, "passage": {foundValue}, "answer": {ownValue, askedValue, foundValue}}[direction] // whatever stands in an answer is one's
	holds := func(text string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(text, v) })
	}
	m.rag.passages = []rag.Passage{{Collection: "docs", Document: "d", DocumentID: "1", Version: "1", Text: "资料：" + foundValue + "。"}}
	given := ""
	m.upstream.says(func(string) string {
		given = m.upstream.bodies[len(m.upstream.bodies)-1]
		switch s.path {
		case "/v1/embeddings":
			return `{"data":[{"index":0,"embedding":[1,2]}]}`
		case "/v1/rerank", "/v1/score":
			return `{"results":[{"index":0,"relevance_score":0.5}]}`
		}
		text := "好的"
		for _, lead := range []string{"打给", "资料："} { // the model repeats what it was given
			if _, rest, ok := strings.Cut(given, lead); ok {
				rest, _, _ = strings.Cut(rest, "。")
				text += "，" + rest
			}
		}
		return stream(choice(`"text":%s,"delta":{"content":%[1]s}`)(text + "，" + ownValue)...)
	})
	resp, body := m.post(t, s.path, s.body)

	shown := body
	if strings.HasPrefix(body, "data:") && !strings.Contains(body, `"error":{`) {
		shown += whole(t, body)[0].Content // a value may come in pieces
	}

	met := map[string]bool{"request": strings.Contains(s.body, askedValue), "passage": strings.Contains(s.body, "docs"), "answer": s.shows != nil}[direction]
	if hidden := slices.Contains(hides(), action); direction != "answer" && strings.Contains(given, values[0]) != (s.engine[direction] && !hidden) {
		t.Errorf("the engine was given %s", given)
	}
	recorded := ""
	for _, f := range m.last().Findings {
		if f.Direction == direction {
			recorded = f.Action
		}
	}
	if refused := resp.StatusCode != http.StatusOK || strings.Contains(body, `"error":{`); refused || action == "block" && met {
		if !refused || !met || recorded != "block" || action != "block" || holds(shown) {
			t.Errorf("%d, recorded %q, %s", resp.StatusCode, recorded, body)
		}
		return
	}
	got, told := reported(t, body)[direction]
	if told != (met && action != "allow") || got.Action != recorded {
		t.Fatalf("reported %+v, recorded %q, %s", got, recorded, body)
	}
	if !told {
		return
	}
	want := action
	if action == "token" && direction == "passage" && !s.engine["passage"] {
		want = "observe" // nobody reads it but the caller, who gets it back
	}
	if got.Action != want || direction != "answer" && got.Count != 1 {
		t.Errorf("reported %+v, want %s", got, want)
	}
	if hidden := slices.Contains(hides(), got.Action); hidden && holds(shown) != (got.Restored > 0) || !hidden && (holds(shown) != s.shows[direction] && direction != "answer" || got.Restored > 0) {
		t.Errorf("reported %+v beside %s", got, body)
	}
}

// TestQuotesAreNoAnswers: what the rules for answers do to a quote is counted as done to the passage, and what they block there leaves the answer
// alone; a quote that is cut ends before a pseudonym that it would break.
func TestQuotesAreNoAnswers(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]string{"token": "token", "redact": "redact", "block": ""} {
		m := newMasked(t, "observe")
		if _, err := m.guard.Publish(t.Context(), governance.EveryTenant, []byte(truthPolicy("allow", "allow", action)), "test"); err != nil {
			t.Fatal(err)
		}
		for before := range 12 {
			text := strings.Repeat("a", gateway.MaxQuoteRunes-before-3) + "电话 " + foundValue + "。"
			m.rag.passages = []rag.Passage{{Collection: "docs", Document: "d", DocumentID: "1", Version: "1", Text: text}}
			m.upstream.says(func(string) string { return stream(choice(`"text":%s,"delta":{"content":%[1]s}`)("好的")...) })
			resp, body := m.post(t, "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"谁？"}],"rag":{"collection":"docs"}}`)
			if resp.StatusCode != http.StatusOK || strings.Contains(body, foundValue) || strings.Contains(body, `"text_withheld":true`) != (action == "block") {
				t.Fatalf("%s: %d %s", action, resp.StatusCode, body)
			}
			found := reported(t, body)
			if f, ok := found["answer"]; ok || found["passage"].Action != want {
				t.Errorf("%s: reported %+v, and %+v of the answer", action, found["passage"], f)
			}
			if strings.Count(body, "⟦") != strings.Count(body, "⟧") {
				t.Errorf("%s, %d before the end: a part of a pseudonym: …%s", action, before, body[strings.Index(body, "电话"):])
			}
		}
	}
}
