package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/rag"
)

// What no detector takes for a value.
const (
	knownPerson = "星语呢喃"
	knownTerm   = "zorblax"
)

// TestKnownValues: what a caller says is sensitive is masked in every field of every request, though the policy would leave its class
// alone, and comes back; no record, log or error has it.
func TestKnownValues(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"token", "observe", "allow"} {
		m := newMasked(t, "observe")
		if _, err := m.guard.Publish(t.Context(), governance.EveryTenant, []byte(strings.ReplaceAll(policyFor("observe"), "request: token, passage: token", "request: "+policy+", passage: "+policy)), "test"); err != nil {
			t.Fatal(err)
		}
		const known = `,"sluice":{"known":["` + knownPerson + `",{"class":"company","value":"Zorblax"}]}}`
		text := "找" + knownPerson + "，在" + knownTerm + "。"
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"model":"chat","messages":[{"role":"user","content":"` + text + `"}],"stop":["` + knownPerson + `"],"tools":[{"type":"function","function":{"name":"f","description":"` + text + `"}}]`,
			"/v1/completions":      `{"model":"chat","prompt":"` + text + `"`,
			"/v1/embeddings":       `{"model":"embed","input":"` + text + `"`,
			"/v1/rerank":           `{"model":"rank","query":"` + text + `","documents":["` + text + `"],"return_documents":true`,
			"/v1/score":            `{"model":"rank","text_1":"` + text + `","text_2":"` + text + `"`,
			"/v1/rag/search":       `{"collection":"docs","query":"` + text + `"`,
		} {
			m.rag.passages = []rag.Passage{{Collection: "docs", Document: "d", DocumentID: "1", Version: "1", Text: "资料：" + text}}
			before := len(m.upstream.sent())
			m.upstream.says(func(value string) string {
				switch path {
				case "/v1/embeddings":
					return `{"data":[{"index":0,"embedding":[1,2]}]}`
				case "/v1/rerank", "/v1/score":
					return `{"results":[{"index":0,"relevance_score":0.5}]}`
				}
				return stream(choice(`"text":%s,"delta":{"content":%[1]s}`)("好的" + value)...)
			})
			resp, got := m.post(t, path, body+known)
			if resp.StatusCode != http.StatusOK || strings.Contains(got, "⟦") {
				t.Fatalf("%s, %s: %d %s", policy, path, resp.StatusCode, got)
			}
			sent := strings.ToLower(m.upstream.sent()[before:])
			if strings.Contains(sent, knownPerson) || strings.Contains(sent, knownTerm) || path != "/v1/rag/search" && !strings.Contains(sent, "⟦公司·") {
				t.Errorf("%s, %s: the upstream was sent %s", policy, path, sent)
			}
			if strings.HasSuffix(path, "completions") && whole(t, got)[0].Content != "好的"+knownPerson {
				t.Errorf("%s, %s: %s", policy, path, got)
			}
			recorded := fmt.Sprintf("%+v", m.last()) + m.logs.String() + strings.Join(m.texts(), "\n")
			if strings.Contains(recorded, knownPerson) || strings.Contains(recorded, knownTerm) {
				t.Errorf("%s, %s: recorded %s", policy, path, recorded)
			}
			found := map[string]int{}
			for _, f := range m.last().Findings {
				found[f.Direction+" "+f.Class+" "+f.Action] += f.Count
			}
			if found["request company token"] == 0 || found["request person token"] == 0 {
				t.Errorf("%s, %s: %v", policy, path, found)
			}
		}
	}
}

// TestKnownValuesInAnswers: what the model brings of them is treated by the rule of their class.
func TestKnownValuesInAnswers(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{"observe": "见" + knownPerson, "redact": "见〔已屏蔽:姓名〕", "partial": "见星**"} {
		m := newMasked(t, rule)
		s := surfaces()["content"]
		m.upstream.says(func(string) string { return stream(s.chunks("见" + knownPerson)...) })
		for _, streamed := range []bool{true, false} {
			_, got := m.post(t, s.path, s.request(streamed, `,"sluice":{"known":["`+knownPerson+`"]}`))
			if shown := s.shown(whole(t, got)); !strings.HasPrefix(shown, want) || rule != "observe" && strings.Contains(got, knownPerson) {
				t.Errorf("%s: %q\n%s", rule, shown, got)
			}
		}
	}
}

// TestKnownValuesAreBounded: what is wrong is named by its place, and never quoted.
func TestKnownValuesAreBounded(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	long := strings.Repeat("长", maxKnownRunes+1)
	many := strings.Repeat(`"`+knownPerson+`",`, maxKnown) + `"x1"`
	for sluice, param := range map[string]string{
		`{"known":["一"]}`: "sluice.known[0].value", `{"known":["` + long + `"]}`: "sluice.known[0].value", `{"known":[` + many + `]}`: "sluice.known",
		`{"known":["` + knownPerson + `",{"class":"planet","value":"` + knownPerson + `"}]}`: "sluice.known[1].class", `{"known":[{"class":"person"}]}`: "sluice.known[0].value",
		`{"known":["` + knownPerson + `",7]}`: "sluice.known[1]", `{"known":"` + knownPerson + `"}`: "sluice.known", `"` + knownPerson + `"`: "sluice",
		`{"known":[],"` + knownPerson + `":1}`: "sluice", `{"known":[{"value":7}]}`: "sluice.known[0].value", `{"known":[null]}`: "sluice.known[0]",
	} {
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"model":"chat","messages":[{"role":"user","content":"x"}]`, "/v1/completions": `{"model":"chat","prompt":"x"`,
			"/v1/embeddings": `{"model":"embed","input":"x"`, "/v1/rerank": `{"model":"rank","query":"x","documents":["y"]`,
			"/v1/score": `{"model":"rank","text_1":"x","text_2":"y"`, "/v1/rag/search": `{"collection":"docs","query":"x"`,
		} {
			resp, got := m.post(t, path, body+`,"sluice":`+sluice+`}`)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, `"param":"`+param+`"`) || strings.Contains(got+m.logs.String(), knownPerson) {
				t.Errorf("%s with %.60s: %d %s", path, sluice, resp.StatusCode, got)
			}
		}
	}
	if sent := m.upstream.sent(); sent != "" {
		t.Errorf("the upstream was sent %s", sent)
	}
}

// TestDocumentsNameValues: what a document says is sensitive is masked in its passages, in what is cited of it and in the question, which
// was masked before the document was found; it comes back to the caller, and each finding is counted once.
func TestDocumentsNameValues(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	m.rag.passages = []rag.Passage{
		{Collection: "docs", Document: knownPerson + ".txt", DocumentID: "1", Version: "1", Title: "病历：" + knownPerson, Text: knownPerson + "，" + sentValue, Known: []rag.Known{{Class: "person", Value: knownPerson}}},
		{Collection: "docs", Document: "b.txt", DocumentID: "2", Version: "1", Text: knownPerson + "在" + knownTerm, Known: []rag.Known{{Class: "company", Value: "ZORBLAX"}, {Class: "person", Value: knownPerson}}},
	}
	for _, streamed := range []bool{true, false} {
		before := len(m.upstream.sent())
		m.upstream.says(func(value string) string {
			return stream(choice(`"delta":{"content":%s}`)("病人是" + value + "。")...)
		})
		args := `"{\"who\":\"` + knownPerson + `\"}"`
		_, got := m.post(t, "/v1/chat/completions", fmt.Sprintf(`{"model":"chat","rag":{"collection":"docs"},"stream":%v,"messages":[`+
			`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":`+args+`}}]},{"role":"tool","tool_call_id":"a","content":"ok"},`+
			`{"role":"user","content":"`+knownPerson+`怎么样？电话`+sentValue+`，zorblax"}]}`, streamed))
		sent := strings.ToLower(m.upstream.sent()[before:])
		if strings.Contains(sent, knownPerson) || strings.Contains(sent, knownTerm) || strings.Contains(sent, sentValue) || strings.Count(sent, "⟦姓名·") != 4 {
			t.Errorf("the upstream was sent %s", sent)
		}
		if text := whole(t, got)[0].Content; text != "病人是"+knownPerson+"。" || !strings.Contains(got, `"title":"病历：`+knownPerson) || strings.Contains(got, "⟦") {
			t.Errorf("the caller got %s", got)
		}
		found := map[string]int{}
		for _, f := range m.last().Findings {
			found[f.Direction+" "+f.Class+" "+f.Action] += f.Count
		}
		if found["request person token"] != 2 || found["request cn_mobile token"] != 1 || found["request company token"] != 1 {
			t.Errorf("findings %v", found)
		}
		if recorded := fmt.Sprintf("%+v", m.last()) + m.logs.String() + strings.Join(m.texts(), "\n"); strings.Contains(recorded, knownPerson) {
			t.Errorf("recorded %s", recorded)
		}
	}
}
