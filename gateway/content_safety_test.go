package gateway_test

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

const unsafePolicy = `
schema: 2
name: safe
models: ["*"]
collections: ["*"]
entities:
  default: {request: token, passage: token, answer: observe}
safety:
  mode: enforce
  rules:
    - {id: strike, risk: a1.4, level: 5, action: block, scope: both, words: [恐袭教程]}
    - {id: betting, risk: a1.8, level: 3, action: replace, scope: output, words: [赌球平台]}
`

// TestContentSafety: a request that a rule blocks reaches no engine; no text of an answer, and no argument of its calls, shows what a rule blocks or
// replaces; the record names rule, risk and action, and no record has the text.
func TestContentSafety(t *testing.T) {
	t.Parallel()
	plans := map[string]enginetest.Plan{
		"answer":    {Texts: []string{"先说。恐袭教程如下"}, Pieces: []int{1}},
		"replaced":  {Texts: []string{"上赌球平台吧"}, Pieces: []int{1, 2}},
		"arguments": {Calls: [][]engine.ToolCall{{{ID: "c1", Name: "search", Arguments: `{"q":"恐袭教程"}`}}}},
	}
	at := ""
	w := wire(t, func(int, *engine.Request) enginetest.Plan { return plans[at] })
	must(w.guard.Publish(t.Context(), "acme", []byte(unsafePolicy), "test"))(t)
	if _, err := w.Chat(t.Context(), w.call("req-in", "看恐 袭 教 程")); !fault.Is(err, fault.CodeUnsafeContent) || len(w.engine.Requests()) != 0 {
		t.Errorf("%v, and the engine was asked %d times", err, len(w.engine.Requests()))
	}
	for name, want := range map[string]string{"answer": "", "replaced": "上***吧", "arguments": ""} {
		at = name
		c := w.call("req-"+name, "你好")
		c.Tools = []engine.Tool{{Name: "search", Parameters: []byte(`{"type":"object"}`)}}
		reply := must(w.Chat(t.Context(), c))(t)
		var shown strings.Builder
		var last error
		for ev, err := range reply.Events() {
			shown.WriteString(ev.Text)
			for _, part := range ev.Calls {
				shown.WriteString(part.Arguments)
			}
			last = err
		}
		if want != "" && (last != nil || shown.String() != want) || want == "" && (!fault.Is(last, fault.CodeUnsafeAnswer) || strings.Contains(shown.String(), "恐")) {
			t.Errorf("%s: %q %v", name, shown.String(), last)
		}
	}
	ok(t, w.log.Flush(t.Context()))
	for id, want := range map[string]string{
		"req-in": "request safety.a1.4 #strike block", "req-answer": "answer safety.a1.4 #strike block", "req-replaced": "answer safety.a1.8 #betting replace",
	} {
		found := false
		for _, e := range must(w.log.Search(t.Context(), search.Query{Tenant: "acme", Request: id}))(t).Events {
			for _, f := range e.Findings {
				_, rule, _ := strings.Cut(f.Detector, "#")
				found = found || e.Stage != audit.StageAdmitted && strings.Join([]string{f.Direction, f.Class, "#" + rule, f.Action}, " ") == want
			}
		}
		if !found {
			t.Errorf("%s: no record says %s", id, want)
		}
	}
}
