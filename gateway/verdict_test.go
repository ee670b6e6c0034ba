package gateway

import (
	"context"
	"iter"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/refusal"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// TestAnswersAsksBackOrRefuses: what was found decides by the thresholds whether the model is asked. Where it is not, the caller gets the sentence of the reason in
// each choice, nothing is set aside or billed, and reply, record and metric name the reason.
func TestAnswersAsksBackOrRefuses(t *testing.T) {
	t.Parallel()
	rule := governance.Answering{RefuseBelow: 0.2, AskBelow: 0.5}
	for name, c := range map[string]struct {
		rule     governance.Answering
		none     bool
		evidence float64
		json     bool
		want     refusal.Reason
	}{
		"no rule":               {evidence: 0},
		"no rule, no passage":   {none: true},
		"nothing found":         {rule: rule, none: true, want: refusal.NoPassages},
		"nothing found, asking": {rule: governance.Answering{AskBelow: 0.5}, none: true, want: refusal.NoPassages},
		"weak":                  {rule: rule, evidence: 0.19, want: refusal.WeakEvidence},
		"not a number":          {rule: rule, evidence: math.NaN(), want: refusal.WeakEvidence},
		"at the border":         {rule: rule, evidence: 0.2, want: refusal.UnclearQuestion},
		"unclear, JSON":         {rule: rule, evidence: 0.3, json: true, want: refusal.UnclearQuestion},
		"enough":                {rule: rule, evidence: 0.5},
		"nothing to bear out":   {rule: governance.Answering{Unsupported: governance.UnsupportedDrop}, none: true, want: refusal.NoPassages},
	} {
		for _, how := range []string{"stream", "blocking", "whole"} {
			w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"yes", "yes"}} })
			w.answering, w.whole = c.rule, how == "whole"
			w.rollout, w.principal.LabelMode = [2]string{"ro", "candidate"}, identity.LabelText
			if !c.none {
				w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "A text.", Evidence: c.evidence}}
			}
			ask := call("哪里办理？")
			ask.RAG, ask.Choices, ask.Blocking = &RAG{Collection: "docs"}, 2, how != "stream"
			if c.json {
				ask.Format = &engine.Format{JSONObject: true}
			}
			r, a := chat(t, w, ask)
			e, last := r.Summary().Evidence, w.log.events[len(w.log.events)-1]
			if c.want == "" {
				if len(w.engine.Requests()) != 1 || !strings.HasPrefix(a.Choices[0].Text, "yes") || c.rule.Judges() != (e != nil) || last.Detail["refusal"] != "" {
					t.Errorf("%s, %s: asked %d times, %+v, %+v", name, how, len(w.engine.Requests()), a.Choices, e)
				}
				continue
			}
			for _, choice := range a.Choices {
				said, other := choice.Refusal, choice.Text
				if c.want.AsksBack() && !c.json {
					said, other = other, said
				}
				if said != c.want.Sentence().In(fault.Chinese) || other != "" || choice.Finish != engine.FinishStop {
					t.Errorf("%s, %s: %+v", name, how, choice)
				}
			}
			if e == nil || e.Refusal != c.want || last.Detail["refusal"] != string(c.want) || last.Outcome != outcomeOK || last.Detail["refuse_below"] == "" {
				t.Errorf("%s, %s: %+v, recorded %v", name, how, e, last.Detail)
			}
			if n := testutil.ToFloat64(w.metrics.verdicts.WithLabelValues(string(c.want))); n != 1 {
				t.Errorf("%s, %s: counted %v times", name, how, n)
			}
			if u := last.Usage; len(w.engine.Requests()) != 0 || len(w.ledger.asks) != 0 || u.Cost != 0 || u.Energy != 0 || u.PromptTokens+u.CompletionTokens != 0 || last.Rollout != "" || !w.slotFree(t) {
				t.Errorf("%s, %s: the engine was asked %d times, set aside %v, used %+v, rollout %q", name, how, len(w.engine.Requests()), w.ledger.asks, u, last.Rollout)
			}
			if len(r.Citations) != 0 || len(last.Documents) != 0 {
				t.Errorf("%s, %s: cites %v", name, how, r.Citations)
			}
		}
	}
}

// TestWhatTheModelIsGivenIsJudged: the evidence is that of the passages that have room beside the question, not of all that were found, and of none where none
// has. Nothing says then that there are none.
func TestWhatTheModelIsGivenIsJudged(t *testing.T) {
	t.Parallel()
	short := rag.Passage{Collection: "docs", DocumentID: "d", Text: "short", Evidence: 0.1}
	long := rag.Passage{Collection: "docs", DocumentID: "l", Text: strings.Repeat("long ", 2000), Evidence: 0.9}
	rule := governance.Answering{RefuseBelow: 0.2, AskBelow: 0.5}
	for name, c := range map[string]struct {
		passages []rag.Passage
		rule     governance.Answering
	}{
		"the rest answers":           {[]rag.Passage{short, long}, rule},
		"none has room":              {[]rag.Passage{long}, rule},
		"none has room, and dropped": {[]rag.Passage{long}, governance.Answering{Unsupported: governance.UnsupportedDrop}},
	} {
		w := newWorld(t, nil)
		w.answering, w.rag.passages = c.rule, c.passages
		ask := call("Which?")
		ask.RAG = &RAG{Collection: "docs"}
		r, a := chat(t, w, ask)
		if e := r.Summary().Evidence; e == nil || e.Refusal != refusal.WeakEvidence || a.Choices[0].Refusal == "" || len(w.engine.Requests()) != 0 {
			t.Errorf("%s: %+v, %+v", name, e, a.Choices)
		}
	}
}

// TestWhoLeavesARefusalUsesNothing: no engine has said it.
func TestWhoLeavesARefusalUsesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.answering = governance.Answering{RefuseBelow: 0.2, AskBelow: 0.2}
	ask := call("Which?")
	ask.RAG, ask.Choices = &RAG{Collection: "docs"}, 2
	r, err := w.Chat(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	for range r.Events() {
		break
	}
	last := w.log.events[len(w.log.events)-1]
	if u := last.Usage; last.Outcome != outcomeAborted || u.PromptTokens+u.CompletionTokens != 0 {
		t.Errorf("%s, %+v", last.Outcome, u)
	}
}

// TestRefusalsAreNotShared: a chat that is refused asks no cache, whatever an equal one has got.
func TestRefusalsAreNotShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"yes"}} })
	w.caching = exactAnswers()
	for i, evidence := range []float64{0.9, 0.1, 0.9} {
		w.answering = governance.Answering{RefuseBelow: 0.2, AskBelow: 0.2}
		w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "A text.", Evidence: evidence}}
		ask := coldCall(strconv.Itoa(i), "Where?")
		ask.RAG = &RAG{Collection: "docs"}
		r, a := chat(t, w, ask)
		if got, want := r.Summary().Cache, []string{"miss", "", "hit"}[i]; got != want || (a.Choices[0].Text == "yes") != (evidence > 0.5) {
			t.Errorf("%d: cache %q, %+v", i, got, a.Choices)
		}
	}
}

// TestGroundingIsOfEachCaller: of a shared answer each caller gets what his passages bear out.
func TestGroundingIsOfEachCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"Permits are renewed at desk 7. Aliens renew them on Mars."}}
	})
	w.caching, w.answering = exactAnswers(), governance.Answering{Unsupported: governance.UnsupportedDrop}
	w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "Permits are renewed at desk 7."}}
	for i, want := range []string{"miss", "hit"} {
		ask := coldCall(strconv.Itoa(i), "Where?")
		ask.RAG = &RAG{Collection: "docs"}
		r, a := chat(t, w, ask)
		if r.Summary().Cache != want || a.Choices[0].Text != "Permits are renewed at desk 7. [1] " || r.Summary().Evidence.Unsupported != 1 {
			t.Errorf("%s: %+v, %+v", r.Summary().Cache, a.Choices, r.Summary().Evidence)
		}
	}
}

// refusing is an engine whose model says something where it should say why it does not answer.
type refusing struct{ engine.Engine }

func (e refusing) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for _, piece := range []string{"Aliens own ", "desk 9. Permits are ", "renewed at desk 7."} {
			if !yield(engine.Event{Refusal: piece}, nil) {
				return
			}
		}
		e.Engine.Generate(ctx, p)(yield)
	}
}

// TestRefusalsOfModelsAreChecked: why a model does not answer leaves as its answer would.
func TestRefusalsOfModelsAreChecked(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"drop": "Permits are renewed at desk 7. [1]",
		"mark": "Aliens own desk 9. [not borne out by the documents] Permits are renewed at desk 7. [1]",
	} {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{""}} })
		w.wrap = func(e engine.Engine) engine.Engine { return refusing{e} }
		w.answering = governance.Answering{Unsupported: rule}
		w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "Permits are renewed at desk 7."}}
		ask := call("Where?")
		ask.RAG = &RAG{Collection: "docs"}
		if _, a := chat(t, w, ask); a.Choices[0].Text != want || a.Choices[0].Refusal != "" {
			t.Errorf("%s: %+v", rule, a.Choices)
		}
	}
}

// TestBlockedBeforeRefused: what may not be asked is an error, whatever was found.
func TestBlockedBeforeRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.answering = governance.Answering{RefuseBelow: 0.9, AskBelow: 0.9}
	w.fail["mask"] = fault.New(fault.CodeBlockedContent, "person")
	c := call("SECRET1")
	c.RAG = &RAG{Collection: "docs"}
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeBlockedContent) {
		t.Error(err)
	}
}

// thinking is an engine that reasons about aliens first.
type thinking struct{ engine.Engine }

func (e thinking) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		if !yield(engine.Event{Reasoning: "Aliens, I think."}, nil) {
			return
		}
		e.Engine.Generate(ctx, p)(yield)
	}
}

// TestUnsupportedSentences: of an answer leaves only what a passage bears out, or the rest with a mark, however it comes in pieces, and nothing of what was dropped
// is in the reply, the record or the reasoning. Where nothing is left, the caller is told so.
func TestUnsupportedSentences(t *testing.T) {
	t.Parallel()
	const truth = "Residents renew a parking permit at desk 7"
	for name, c := range map[string]struct {
		answer, rule, want, refusal string
		supported, unsupported      int
	}{
		"all of it":        {answer: truth + ".", rule: "drop", want: truth + ". [1]", supported: 1},
		"cited":            {answer: truth + " [1].", rule: "drop", want: truth + " [1].", supported: 1},
		"cited wrongly":    {answer: truth + " [2].", rule: "drop", refusal: "en", unsupported: 1},
		"another number":   {answer: truth + ". Residents renew a parking permit at desk 9. ", rule: "drop", want: truth + ". [1] ", supported: 1, unsupported: 1},
		"made up":          {answer: "Permits were invented by aliens!\n" + truth, rule: "drop", want: truth + " [1]", supported: 1, unsupported: 1},
		"made up, marked":  {answer: "Permits were invented by aliens! " + truth + ".", rule: "mark", want: "Permits were invented by aliens! [not borne out by the documents] " + truth + ". [1]", supported: 1, unsupported: 1},
		"all of it is not": {answer: "Permits were invented by aliens. They cost 4711 euros.", rule: "drop", refusal: "en", unsupported: 2},
		"a list":           {answer: "1. " + truth + "\n2. Aliens land on Tuesdays\n", rule: "drop", want: "1. " + truth + " [1]\n", supported: 1, unsupported: 1},
		"with a value":     {answer: "Ask ⟦1⟧ about a parking permit at desk 7.", rule: "drop", refusal: "en", unsupported: 1},
		"hidden citations": {answer: truth + " [1][9].", rule: "drop", want: truth + " [1].", supported: 1},
		"a number alone":   {answer: "911.", rule: "drop", refusal: "en", unsupported: 1},
		"nobody looks":     {answer: "Permits were invented by aliens.", want: "Permits were invented by aliens."},
	} {
		for _, how := range []string{"stream", "letters", "whole"} {
			w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
				if how == "letters" {
					return enginetest.Plan{Texts: []string{c.answer}, Pieces: []int{1}}
				}
				return enginetest.Plan{Texts: []string{c.answer}}
			})
			w.wrap = func(e engine.Engine) engine.Engine {
				if how == "whole" {
					return onePiece{thinking{e}}
				}
				return thinking{e}
			}
			w.rollout = [2]string{"ro", "candidate"}
			w.answering, w.whole, w.keep = governance.Answering{Unsupported: c.rule}, how == "whole", governance.RecordMasked
			w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: truth + "."}, {Collection: "docs", DocumentID: "2", Text: "Bins are emptied on Tuesday."}}
			ask := call("Where?")
			ask.RAG, ask.Blocking = &RAG{Collection: "docs"}, how == "whole"
			r, a := chat(t, w, ask)
			got := a.Choices[0]
			if c.refusal != "" {
				c.refusal = refusal.UnsupportedAnswer.Sentence().In(fault.English)
			}
			if got.Text != c.want || got.Refusal != c.refusal {
				t.Errorf("%s, %s: %q, refusal %q", name, how, got.Text, got.Refusal)
			}
			if last := w.log.events[len(w.log.events)-1]; (last.Decision == decisionRefuse) != (c.refusal != "") || last.Arm != "candidate" {
				t.Errorf("%s, %s: recorded as %s of the arm %q", name, how, last.Decision, last.Arm)
			}
			e := r.Summary().Evidence
			if c.rule == "" {
				if e != nil {
					t.Errorf("%s: %+v", name, e)
				}
				continue
			}
			if e.Supported != c.supported || e.Unsupported != c.unsupported || len(e.Sentences) != c.supported+c.unsupported || (e.Refusal != "") != (c.refusal != "") {
				t.Errorf("%s, %s: %+v", name, how, e)
			}
			if c.rule == "drop" {
				for _, k := range w.log.kept {
					if k.stage == "outcome" && strings.Contains(strings.ToLower(k.text), "alien") {
						t.Errorf("%s, %s: kept %q", name, how, k.text)
					}
				}
				if got.Reasoning != "" {
					t.Errorf("%s, %s: reasons %q", name, how, got.Reasoning)
				}
			}
			if n := testutil.ToFloat64(w.metrics.sentences.WithLabelValues("unsupported")); int(n) != c.unsupported {
				t.Errorf("%s, %s: counted %v", name, how, n)
			}
		}
	}
}

// TestNoModelSaidOurSentence: where all that the caller gets is a sentence of ours, the signature names no version, no delivery under an agreement is noted and the
// registry keeps nothing. Where no model was asked, nothing says that it was generated either.
func TestNoModelSaidOurSentence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   string
		evidence float64
		ours     bool
	}{
		"refused":  {evidence: 0.1, ours: true},
		"emptied":  {answer: "Permits were invented by aliens, who have landed on a Tuesday and left again.", evidence: 0.9, ours: true},
		"answered": {answer: "Residents of the old town renew their parking permit at desk 7 of the town hall.", evidence: 0.9},
	} {
		for _, how := range []string{"stream", "whole"} {
			w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{c.answer}} })
			w.answering = governance.Answering{RefuseBelow: 0.2, AskBelow: 0.2, Unsupported: governance.UnsupportedDrop}
			w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "Residents of the old town renew their parking permit at desk 7 of the town hall.", Evidence: c.evidence}}
			w.deps.Registry, w.agreement, w.demands, w.whole = fakeRegistry{}, "a1", "policy", how == "whole"
			ask := call("Where?")
			ask.RAG, ask.Signature, ask.Blocking = &RAG{Collection: "docs"}, signature.JWS, how == "whole"
			r, a := chat(t, w, ask)
			w.Drain()
			signer, err := w.Signer(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			x, err := signature.Verify(r.Summary().Signature, []signature.Key{signer.Key})
			if err != nil {
				t.Fatal(err)
			}
			if !x.Matches(signedAnswers(a)) || x.Model.Name != "chat" || (x.Model.Version+x.Model.Digest == "") != c.ours {
				t.Errorf("%s, %s: %+v", name, how, x)
			}
			if asked := c.answer != ""; (len(x.Label) > 0) != asked || (r.Head.LabelText != "") != asked {
				t.Errorf("%s, %s: the label %s, %q", name, how, x.Label, r.Head.LabelText)
			}
			for _, e := range w.log.events {
				delivered := e.Detail[audit.LabelAgreement] != ""
				if admitted := e.Stage == audit.StageAdmitted; admitted && delivered != (c.answer != "") || !admitted && delivered == c.ours {
					t.Errorf("%s, %s: %s says %v", name, how, e.Stage, e.Detail)
				}
			}
			registered := false
			for _, k := range w.log.kept {
				registered = registered || k.form == audit.DirectionMark+"/" && k.text != ""
			}
			if registered == c.ours {
				t.Errorf("%s, %s: registered: %t", name, how, registered)
			}
		}
	}
}

// TestNoSentencesInFormats: where sentences are checked, an answer without sentences is refused rather than let through unchecked.
func TestNoSentencesInFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.answering = governance.Answering{Unsupported: governance.UnsupportedDrop}
	w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "A text.", Evidence: 1}}
	for _, format := range []engine.Format{{JSONObject: true}, {JSONSchema: []byte("{}")}, {GBNF: "root ::= [0-9]+"}, {Regex: `\d{1,3}\.`}, {Choice: []string{"a"}}} {
		c := call("Where?")
		c.RAG, c.Format = &RAG{Collection: "docs"}, &format
		if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeUnsupported) || len(w.engine.Requests()) != 0 {
			t.Errorf("%+v: %v", format, err)
		}
	}
}

// TestSearchSaysWhatAChatWouldComeTo: a search shows its passages whatever the thresholds are, and the score and the reason that a chat would meet; it counts as
// no chat.
func TestSearchSaysWhatAChatWouldComeTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.answering = governance.Answering{RefuseBelow: 0.2, AskBelow: 0.5}
	w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "1", Text: "A text.", Evidence: 0.1}}
	c := call("")
	c.Action, c.Messages, c.RAG, c.Query = ActionSearch, nil, &RAG{Collection: "docs"}, "Where?"
	found, err := w.Search(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if e := found.Evidence; len(found.Passages) != 1 || e == nil || e.Refusal != refusal.WeakEvidence || e.Score != 0.1 || e.RefuseBelow != 0.2 || e.AskBelow != 0.5 {
		t.Errorf("%+v", found)
	}
	if n := testutil.ToFloat64(w.metrics.verdicts.WithLabelValues(string(refusal.WeakEvidence))); n != 0 {
		t.Errorf("counted as %v chats", n)
	}
}
