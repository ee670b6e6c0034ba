package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

// noCards blocks one class and masks the others.
const noCards = `schema: 2
name: No cards
models: ["*"]
collections: ["*"]
entities:
  default: {request: token, passage: token, answer: observe}
  bank_card: {request: block, passage: block, answer: block}
`

// TestRealTokens: with the real detectors, the tokens that are told are those of the masked prompt; tokens that spell a value are masked and judged like a
// prompt that says it, and the records have no value.
func TestRealTokens(t *testing.T) {
	const card = "6222021234567890128"
	w := wire(t, nil)
	must(w.guard.Publish(t.Context(), "acme", []byte(noCards), "test"))(t)
	tokens := func(text string) []int32 { // as another program counts them
		t.Helper()
		p := must(w.engine.Prepare(t.Context(), &engine.Request{Model: "scripted", Prompt: text}))(t)
		return must(w.engine.Tokens(t.Context(), p))(t).IDs
	}
	count := w.call("req-1", "打给 "+mobile)
	count.Action, count.TokenTexts = gateway.ActionTokenize, true
	told := must(w.Tokenize(t.Context(), count))(t)
	if whole := strings.Join(told.Texts, ""); strings.Contains(whole, mobile) || !strings.Contains(whole, "打给") || len(told.IDs) != told.Tokens || len(told.Findings) != 1 {
		t.Errorf("%q, %+v", whole, told.CountReply)
	}
	ask := func(id string, ids []int32) (*gateway.TextReply, error) {
		c := w.call(id, "")
		c.Action, c.Messages, c.Tokens = gateway.ActionDetokenize, nil, ids
		return w.Detokenize(t.Context(), c)
	}
	spelt := must(ask("req-2", tokens("打给 "+mobile)))(t)
	if spelt.Text != "打给 "+mobile || len(spelt.Findings) != 1 || spelt.Findings[0].Restored != 1 || spelt.Usage.Cost != 0 {
		t.Errorf("%q, %+v", spelt.Text, spelt.Summary)
	}
	if got, err := ask("req-3", tokens("charge "+card)); !fault.Is(err, fault.CodeBlockedContent) {
		t.Errorf("a card that was spelt in numbers: %+v, %v", got, err)
	}
	ok(t, w.log.Flush(t.Context()))
	for id, records := range map[string]int{"req-1": 2, "req-2": 2, "req-3": 1} {
		page := must(w.log.Search(t.Context(), search.Query{Tenant: "acme", Request: id}))(t)
		if text := fmt.Sprintf("%+v", page.Events); len(page.Events) != records || strings.Contains(text, mobile) || strings.Contains(text, card) {
			t.Errorf("%s: %d records: %s", id, len(page.Events), text)
		}
	}
	if n := len(w.engine.Requests()); n != 0 {
		t.Errorf("a model was asked %d times", n)
	}
}
