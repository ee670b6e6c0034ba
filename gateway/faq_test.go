package gateway

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
	"github.com/sluice-project/sluice/rag/faq"
)

// entryOf is an entry that a question asks with a probability.
func entryOf(score float64, vetoed bool) *rag.Passage {
	return &rag.Passage{
		Collection: "docs", DocumentID: "e", Version: "v3", Title: "Who is SECRET2?", Text: "Who is SECRET2?\n\nAsk SECRET1 at desk 7.", Evidence: 0.1,
		FAQ: &rag.FAQMatch{Match: faq.Match{Score: score, Vetoed: vetoed}, Answer: "Ask SECRET1 at desk 7."},
	}
}

// TestDirectAnswers: from the threshold of the policy on the entry of a FAQ answers as it was written, in each choice, however it leaves; no model is asked, nothing is set
// aside or billed, nothing says that a model has said it, and reply, record and metric say that the entry has. Its citation alone is given, and values are put back as in an
// answer of a model. Below the threshold, without one, or where the entry is vetoed, the model is asked with all that was found.
func TestDirectAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		above, score float64
		vetoed, none bool
		change       func(*Call)
		models       bool // it is the model's, whatever the entries say: nobody waits for them
		direct       bool
	}{
		"above": {above: 0.8, score: 0.9, direct: true}, "at the border": {above: 0.8, score: 0.8, direct: true}, "below": {above: 0.8, score: 0.79}, "no rule": {score: 1}, "vetoed": {above: 0.8, score: 1, vetoed: true},
		"not a number": {above: 0.8, score: math.NaN()}, "no entry": {above: 0.8, none: true},
		"JSON":             {above: 0.8, score: 1, models: true, change: func(c *Call) { c.Format = &engine.Format{JSONObject: true} }},
		"a tool is forced": {above: 0.8, score: 1, models: true, change: func(c *Call) { c.Tools, c.ToolChoice.Mode = []engine.Tool{{Name: "f"}}, engine.ToolRequired }},
		"a tool may be":    {above: 0.8, score: 1, direct: true, change: func(c *Call) { c.Tools = []engine.Tool{{Name: "f"}} }},
		"a system message": {above: 0.8, score: 1, direct: true, change: func(c *Call) {
			c.Messages = append([]engine.Message{{Role: "system", Content: "Be brief."}}, c.Messages...)
		}},
		"said before": {above: 0.8, score: 1, models: true, change: func(c *Call) {
			c.Messages = append([]engine.Message{{Role: "user", Content: "Here is my contract."}, {Role: "assistant", Content: "Yes?"}}, c.Messages...)
		}},
		"continued": {above: 0.8, score: 1, models: true, change: func(c *Call) {
			c.Messages = append(c.Messages, engine.Message{Role: "assistant", Content: "Ask"})
		}},
	} {
		for _, how := range []string{"stream", "blocking", "whole"} {
			w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"yes", "yes"}} })
			// Where the model is asked, thresholds of evidence do not keep it from that.
			w.answering, w.whole = governance.Answering{DirectAbove: c.above, Unsupported: governance.UnsupportedKeep}, how == "whole"
			w.rollout, w.principal.LabelMode, w.deps.Registry = [2]string{"ro", "candidate"}, identity.LabelText, fakeRegistry{}
			w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "A text."}, {Collection: "docs", DocumentID: "2", Text: "Another."}}
			if !c.none {
				w.rag.faq = entryOf(c.score, c.vetoed)
			}
			ask := call("Who is SECRET2?")
			ask.RAG, ask.Choices, ask.Blocking, ask.Signature = &RAG{Collection: "docs"}, 2, how != "stream", signature.JWS
			if c.change != nil {
				c.change(ask)
			}
			r, a := chat(t, w, ask)
			last := w.log.events[len(w.log.events)-1]
			e := r.Summary().Evidence
			if got := w.rag.asks[0].FAQ; got != (c.above > 0 && !c.models) {
				t.Errorf("%s, %s: entries matched: %v", name, how, got)
			}
			if !c.direct {
				if len(w.engine.Requests()) != 1 || len(r.Citations) != 2 || last.Detail["answered_by"] != "" || e != nil && e.AnsweredBy != "" {
					t.Errorf("%s, %s: asked %d times, cites %v, %+v, recorded %v", name, how, len(w.engine.Requests()), r.Citations, e, last.Detail)
				}
				continue
			}
			for _, choice := range a.Choices {
				if choice.Text != "Ask SECRET1 at desk 7." || choice.Refusal != "" || choice.Finish != engine.FinishStop {
					t.Errorf("%s, %s: %+v", name, how, choice)
				}
			}
			if e == nil || e.AnsweredBy != "faq" || e.FAQScore != c.score || e.DirectAbove != c.above || e.Refusal != "" || last.Detail["answered_by"] != "faq" || last.Detail["faq_score"] == "" || e.Judgement != nil || last.Detail["evidence"]+last.Detail["refuse_below"]+last.Detail["ask_below"] != "" || last.Outcome != outcomeOK || last.Decision != decisionAllow {
				t.Errorf("%s, %s: %+v, recorded %v", name, how, e, last)
			}
			if len(r.Citations) != 1 || r.Citations[0].DocumentID != "e" || r.Citations[0].Version != "v3" || !strings.Contains(r.Citations[0].Text, "desk 7") || len(last.Documents) != 1 {
				t.Errorf("%s, %s: cites %+v, recorded %v", name, how, r.Citations, last.Documents)
			}
			if n := testutil.ToFloat64(w.metrics.verdicts.WithLabelValues(byFAQ)); n != 1 {
				t.Errorf("%s, %s: counted %v times", name, how, n)
			}
			if u := last.Usage; len(w.engine.Requests()) != 0 || len(w.ledger.asks) != 0 || u.Cost != 0 || u.PromptTokens+u.CompletionTokens != 0 || last.Rollout != "" || !w.slotFree(t) {
				t.Errorf("%s, %s: the engine was asked %d times, set aside %v, used %+v, rollout %q", name, how, len(w.engine.Requests()), w.ledger.asks, u, last.Rollout)
			}
			if r.LabelText != "" || last.Model.Version != "v1" && last.Model.Version != "" || r.Summary().Signature == "" {
				t.Errorf("%s, %s: labelled %q, model %+v, signed %q", name, how, r.LabelText, last.Model, r.Summary().Signature)
			}
			for _, x := range w.log.kept {
				if strings.HasPrefix(x.form, "mark") {
					t.Errorf("%s, %s: it is registered as a model's", name, how)
				}
			}
		}
	}
}

// TestDirectAnswersPassTheGuard: an entry whose answer may not leave does not, and one that cannot be masked is not given; thresholds of evidence and checks of sentences,
// which are for models, do not keep it back.
func TestDirectAnswersPassTheGuard(t *testing.T) {
	t.Parallel()
	ask := func() *Call {
		c := call("Which?")
		c.RAG = &RAG{Collection: "docs"}
		return c
	}
	w := newWorld(t, nil)
	w.answering = governance.Answering{DirectAbove: 0.5}
	w.rag.faq = entryOf(1, false)
	w.rag.faq.FAQ.Answer = "It is FORBIDDEN."
	r, err := w.Chat(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Collect(); !fault.Is(err, fault.CodeBlockedAnswer) {
		t.Errorf("what is blocked: %v", err)
	}
	w = newWorld(t, nil)
	w.answering, w.rag.faq = governance.Answering{DirectAbove: 0.5}, entryOf(1, false)
	w.fail["mask passage"] = fault.New(fault.CodeBlockedContent, "person")
	if _, err := w.Chat(t.Context(), ask()); !fault.Is(err, fault.CodeBlockedContent) {
		t.Errorf("what cannot be masked: %v", err)
	}
	w = newWorld(t, nil)
	w.answering = governance.Answering{DirectAbove: 0.5, RefuseBelow: 0.9, AskBelow: 0.9, Unsupported: governance.UnsupportedDrop}
	w.rag.faq = entryOf(1, false)
	if _, a := chat(t, w, ask()); a.Choices[0].Text != "Ask SECRET1 at desk 7." {
		t.Errorf("beside thresholds: %+v", a.Choices)
	}
	// A search says what a chat would get, and shows what was found; the entry's answer leaves in no field of its own, which nobody would look at.
	w = newWorld(t, nil)
	w.answering, w.rag.faq = governance.Answering{DirectAbove: 0.5}, entryOf(0.7, false)
	w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "A text."}, *entryOf(0.7, false)}
	c := ask()
	c.Action, c.Permission, c.Query, c.Messages = ActionSearch, "rag.search", "Which?", nil
	found, err := w.Search(t.Context(), c)
	if err != nil || len(found.Passages) != 2 || found.Evidence.AnsweredBy != byFAQ || found.Evidence.Judgement == nil || found.Evidence.FAQScore != 0.7 || found.Passages[1].FAQ.Answer != "" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestDirectAnswersStandNowhere: an entry answers also where its texts may not go to the model, since no engine is given them; no record says that anything ran there, of a
// refusal of ours either.
func TestDirectAnswersStandNowhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry *rag.Passage
		rule  governance.Answering
	}{
		"an entry":  {entryOf(1, false), governance.Answering{DirectAbove: 0.5}},
		"a refusal": {nil, governance.Answering{RefuseBelow: 0.5, AskBelow: 0.5}},
	} {
		w, _ := twoPlaces(t, pool.Member{Name: "a", Attributes: pool.Attributes{Place: "cloud"}}, pool.Member{Name: "b", Attributes: pool.Attributes{Place: "cloud"}})
		w.answering, w.rag.faq, w.rag.passages = c.rule, c.entry, nil
		w.place = func(masked bool) governance.Placing {
			if masked {
				return governance.PlacingAt(3, "device", "edge", "centre")
			}
			return governance.PlacingAt(2, governance.Places()...)
		}
		ask := call("Which?")
		ask.RAG = &RAG{Collection: "docs"}
		_, a := chat(t, w, ask)
		if c.entry != nil && a.Choices[0].Text != "Ask SECRET1 at desk 7." || len(w.engine.Requests()) != 0 {
			t.Errorf("%s: %+v, the engine was asked %d times", name, a.Choices, len(w.engine.Requests()))
		}
		for _, e := range w.log.events {
			if place := e.Detail["place"]; place != "" {
				t.Errorf("%s: recorded %q at %s", name, place, e.Stage)
			}
		}
	}
}
