package gateway

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// texts is what was kept, by stage and form.
func (a *fakeAudit) texts() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]string{}
	for _, k := range a.kept {
		out[string(k.stage)+" "+k.form] = k.text
	}
	return out
}

func says(text string) func(int, *engine.Request) enginetest.Plan {
	return func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{text}} }
}

// TestKeptMasked: a policy that keeps texts masked has what the engine was given and wrote, and no value of anybody's.
func TestKeptMasked(t *testing.T) {
	w := newWorld(t, says("Dear ⟦1⟧, BROUGHT ⟦3⟧."))
	w.keep = "masked"
	w.rag.passages = []rag.Passage{{Collection: "docs", DocumentID: "d", Version: "2", Text: "of SECRET3"}}
	c := call("I am SECRET1")
	c.RAG = &RAG{Collection: "docs"}
	_, a := chat(t, w, c)
	if got := a.Choices[0].Text; got != "Dear SECRET1, BROUGHT SECRET3." {
		t.Fatalf("answer %q", got)
	}
	got := w.log.texts()
	given := w.engine.Requests()[0].Messages
	want := map[string]string{
		"admitted request/masked": "system\x00" + given[0].Content + "\x00user\x00" + given[1].Content + "\x00",
		"outcome answer/masked":   "Dear ⟦1⟧, 〔〕 ⟦3⟧.",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || !strings.Contains(given[1].Content, "of ⟦3⟧") || !strings.HasSuffix(given[1].Content, "I am ⟦1⟧") {
		t.Errorf("kept %q\nwant %q", got, want)
	}
	if text := fmt.Sprint(got); strings.Contains(text, "SECRET") || strings.Contains(text, "BROUGHT") {
		t.Errorf("a value was kept: %s", text)
	}
}

// TestKeptClear: what is kept clear has the digests that the records state.
func TestKeptClear(t *testing.T) {
	for name, run := range map[string]func(*world){
		"chat":  func(w *world) { chat(t, w, call("I am SECRET1")) },
		"tools": func(w *world) { chat(t, w, toolCall()) },
		"two":   func(w *world) { c := call("I am SECRET1"); c.Choices = 2; chat(t, w, c) },
		"completion": func(w *world) {
			c := call("")
			c.Action, c.Messages, c.Prompt = ActionCompletion, nil, "say SECRET2"
			chat(t, w, c)
		},
		"tokens": func(w *world) { detokenize(t, w, "say SECRET2") },
		"json": func(w *world) {
			c := call("I am SECRET1")
			c.Format, c.FormatField = &engine.Format{JSONObject: true}, "response_format"
			chat(t, w, c)
		},
		"search": func(w *world) {
			w.rag.passages = []rag.Passage{{Collection: "docs", Text: "of SECRET3"}, {Collection: "docs", Text: "and more"}}
			c := call("")
			c.Action, c.Model, c.Messages, c.Query, c.RAG, c.Permission = ActionSearch, "", nil, "SECRET1", &RAG{Collection: "docs"}, access.RAGSearch
			if _, err := w.Search(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		},
	} {
		w := newWorld(t, nil)
		w.keep = "clear"
		run(w)
		got := w.log.texts()
		in, out := w.log.events[0], w.log.events[1]
		if len(got) != 2 || audit.Digest(w.deps.Keys, "acme", got["admitted request/clear"]) != in.PromptDigest ||
			w.digest(got["outcome answer/clear"]) != out.AnswerDigest || !strings.Contains(got["admitted request/clear"], "SECRET") {
			t.Errorf("%s: kept %q", name, got)
		}
	}
}

// TestKeptForWhom: texts belong to the person the caller acts for, else to the caller, and that person's digest is in the record only if the
// caller named one. Nothing is kept of a call that is refused, nor by a policy that does not say so; vectors are no text.
func TestKeptForWhom(t *testing.T) {
	subject := func(who string) string { return audit.Subject(newWorld(t, nil).deps.Keys, "acme", who) }
	for _, test := range []struct {
		name, keep, onBehalfOf string
		owner                  string
		recorded, subject      string
		kept                   int
		refuse                 error
	}{
		{name: "nothing", onBehalfOf: "alice", recorded: subject("alice")},
		{name: "a person", keep: "masked", onBehalfOf: "alice", recorded: subject("alice"), subject: subject("alice"), kept: 2},
		{name: "a person, clear", keep: "clear", onBehalfOf: "alice", recorded: subject("alice"), subject: subject("alice"), kept: 2},
		{name: "the caller", keep: "masked", subject: subject("k1"), kept: 2},
		{name: "the owner of the key", keep: "masked", owner: "u1", recorded: subject("u1"), subject: subject("u1"), kept: 2},
		{name: "a person, with a key of one's own", keep: "masked", owner: "u1", onBehalfOf: "alice", recorded: subject("alice"), subject: subject("alice"), kept: 2},
		{name: "refused", keep: "clear", onBehalfOf: "alice", recorded: subject("alice"), refuse: fault.New(fault.CodeTenantBudget, fault.Say("billing.monthly"), "acme", "1 CNY", "1 CNY", fault.Quote("it begins anew", "将重新计算"))},
	} {
		w := newWorld(t, nil)
		w.keep, w.fail["reserve"] = test.keep, test.refuse
		w.principal.Owner = test.owner
		c := call("I am SECRET1")
		c.OnBehalfOf = test.onBehalfOf
		if r, err := w.Chat(t.Context(), c); err == nil {
			_, err = r.Collect()
			if err != nil {
				t.Fatal(err)
			}
		} else if test.refuse == nil {
			t.Fatal(err)
		}
		if len(w.log.kept) != test.kept {
			t.Errorf("%s: kept %+v", test.name, w.log.kept)
		}
		for _, k := range w.log.kept {
			if k.subject != test.subject {
				t.Errorf("%s: kept for %q, want %q", test.name, k.subject, test.subject)
			}
		}
		for _, e := range w.log.events {
			if e.Actor.OnBehalfOf != test.recorded || strings.Contains(fmt.Sprint(e), "alice") {
				t.Errorf("%s: %+v, want %q", test.name, e.Actor, test.recorded)
			}
		}
	}
	w := newWorld(t, nil)
	w.keep = "masked"
	c := call("")
	c.Action, c.Messages, c.Input = ActionEmbed, nil, []string{"SECRET1", "b"}
	if _, err := w.Embed(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := w.log.texts(); len(got) != 1 || got["admitted request/masked"] != "⟦1⟧\x00b\x00" {
		t.Errorf("kept of an embedding: %q", got)
	}
}

// TestKeptIsWhatWasSent stops streams after every event: the digest, what is kept clear and what is kept masked are all about the text that
// was sent until then, whatever the rules still held back and however the engine cut it.
func TestKeptIsWhatWasSent(t *testing.T) {
	arguments := `{"to":"⟦1⟧ and ⟦2⟧","⟦1⟧":[1234567,"x\n⟦3⟧"],"n":null}`
	rng := rand.New(rand.NewPCG(7, 1))
	for _, plan := range []enginetest.Plan{
		{Texts: []string{"One ⟦1⟧ two ⟦2⟧⟦3⟧ three ⟦ four ⟦1⟧"}},
		{Texts: []string{"first ⟦1⟧ and ⟦", "second ⟦2⟧"}},
		{Texts: []string{"look: "}, Calls: [][]engine.ToolCall{{{ID: "a", Name: "send", Arguments: arguments}, {ID: "b", Name: "⟦2⟧", Arguments: `{}`}}}},
		{Texts: []string{`{"a":"⟦1⟧","b":[7777777,"⟦2⟧`}},
	} {
		for stop := range 40 {
			plan.Pieces = []int{1 + rng.IntN(4), 1 + rng.IntN(9)}
			for _, keep := range []string{"masked", "clear"} {
				w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return plan })
				w.keep = keep
				c := toolCall()
				if c.Choices = len(plan.Texts); plan.Calls == nil {
					c = call("I am SECRET1 SECRET2 SECRET3")
					c.Choices = len(plan.Texts)
				}
				if strings.HasPrefix(plan.Texts[0], "{") {
					c.Format, c.FormatField = &engine.Format{JSONObject: true}, "response_format"
				}
				sent := streamUntil(t, w, c, stop)
				if got := w.log.events[1].AnswerDigest; got != w.digest(sent) {
					t.Fatalf("%v, stopped after %d events: the digest is not of what was sent, %q", plan, stop, sent)
				}
				kept := w.log.texts()["outcome answer/"+keep]
				if keep == "masked" && (strings.Contains(kept, "SECRET") || restore(kept) != sent) || keep == "clear" && kept != sent {
					t.Fatalf("%v, stopped after %d events: sent %q, kept %s %q", plan, stop, sent, keep, kept)
				}
			}
		}
	}
}

// streamUntil takes some events of a stream and returns what they told, spelled as a digest covers it.
func streamUntil(t *testing.T, w *world, c *Call, events int) string {
	t.Helper()
	r, err := w.Chat(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	texts, calls := make([]string, c.Choices), make([][]string, c.Choices)
	for ev, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		texts[ev.Choice] += ev.Text
		for _, d := range ev.Calls {
			if d.Index == len(calls[ev.Choice]) {
				calls[ev.Choice] = append(calls[ev.Choice], "\x00"+d.Name+"\x00")
			}
			calls[ev.Choice][d.Index] += d.Arguments
		}
		if events--; events <= 0 {
			break
		}
	}
	for i := range texts {
		texts[i] += strings.Join(calls[i], "")
	}
	return strings.Join(texts, "\x00")
}

// TestDigestOfWhatNeverLeft: the end of an answer waits for the engine's usage; if that never comes, it was not sent.
func TestDigestOfWhatNeverLeft(t *testing.T) {
	w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"abc ⟦"}, Pieces: []int{3}, NoUsage: true}
	})
	w.keep = "clear"
	r, err := w.Chat(t.Context(), call("x"))
	if err != nil {
		t.Fatal(err)
	}
	sent := ""
	for ev, err := range r.Events() {
		if sent += ev.Text; err != nil {
			break
		}
	}
	out := w.log.events[1]
	if sent != "abc " || out.Outcome != "failed" || out.AnswerDigest != w.digest(sent) || w.log.texts()["outcome answer/clear"] != sent {
		t.Errorf("sent %q, kept %q, outcome %s", sent, w.log.texts(), out.Outcome)
	}
}

// TestStepsAreTimed: the record says how long each step took that was taken.
func TestStepsAreTimed(t *testing.T) {
	w := newWorld(t, says("fine"))
	clock := time.Unix(1_700_000_000, 0)
	w.now = func() time.Time {
		clock = clock.Add(time.Millisecond)
		return clock
	}
	c := call("x")
	c.RAG = &RAG{Collection: "docs"}
	chat(t, w, c)
	in, out := w.log.events[0].Steps, w.log.events[1].Steps
	if in.Record != 0 || out.Record == 0 {
		t.Errorf("a record knows how long it took itself: %+v, then %+v", in, out)
	}
	out.Record = 0
	if in != out || in.Authenticate == 0 || in.Limit == 0 || in.Policy == 0 || in.Route == 0 || in.Reserve == 0 || in.Retrieve == 0 {
		t.Errorf("steps %+v, then %+v", in, out)
	}
	late := call("x")
	late.Received = clock.Add(-30 * time.Second) // its body took long to come
	r, _ := chat(t, w, late)
	if own := r.Overhead(); own < 5*time.Millisecond || own > 50*time.Millisecond {
		t.Errorf("own time %s of a call whose body took 30 s to come", own)
	}
	w.log.events = w.log.events[:2]
	w.fail["limit"] = fault.New(fault.CodeRateLimited, 5)
	if _, err := w.Chat(t.Context(), call("x")); err == nil {
		t.Fatal("not limited")
	}
	if s := w.log.events[2].Steps; s.Limit == 0 || s.Policy != 0 || s.Record != 0 {
		t.Errorf("steps of a refusal: %+v", s)
	}
}

// TestModerationKeepsNothing: of texts that are only examined nothing is kept, neither by a policy that keeps prompts nor as values behind pseudonyms; no
// engine is asked and nothing is reserved.
func TestModerationKeepsNothing(t *testing.T) {
	for _, form := range []string{"clear", "masked"} {
		w := newWorld(t, nil)
		w.keep = form
		c := call("")
		c.Action, c.Messages, c.Model, c.Input = ActionModerate, nil, "", []string{"I am SECRET1", "hello"}
		r, err := w.Moderate(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Texts) != 2 || !r.Texts[0].Flagged || r.Texts[1].Flagged || r.Texts[0].Findings[0].Count != 1 || len(r.Classes) != 1 {
			t.Errorf("%+v", r)
		}
		events := w.log.of("req-1")
		if len(w.log.kept) != 0 || w.kept != 0 || len(w.engine.Requests()) != 0 || len(events) != 2 || events[1].Outcome != "ok" || len(events[1].Findings) != 1 || events[1].PromptDigest == "" {
			t.Errorf("%s: kept %q, %d values; %+v", form, w.log.texts(), w.kept, events)
		}
	}
}

// detokenize asks for the text of the tokens of a text.
func detokenize(t *testing.T, w *world, text string) *TextReply {
	t.Helper()
	p, err := w.engine.Prepare(t.Context(), &engine.Request{Model: "scripted", Prompt: text})
	if err != nil {
		t.Fatal(err)
	}
	told, err := w.engine.Tokens(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	c := call("")
	c.Action, c.Messages, c.Tokens = ActionDetokenize, nil, told.IDs
	r, err := w.Detokenize(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestKeptTokens: what is kept of tokens is their text, masked, on both ways, and never the numbers that spell a value.
func TestKeptTokens(t *testing.T) {
	w := newWorld(t, nil)
	w.keep = "masked"
	if r := detokenize(t, w, "I am SECRET1"); r.Text != "I am SECRET1" {
		t.Errorf("text %q", r.Text)
	}
	want := map[string]string{"admitted request/masked": "I am ⟦1⟧", "outcome answer/masked": "I am ⟦1⟧"}
	if got := w.log.texts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("kept %q\nwant %q", got, want)
	}
}
