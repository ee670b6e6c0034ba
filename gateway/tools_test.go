package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// toolCall is a chat with a tool, a call of it in an earlier turn, and its result, all of which name SECRET1.
func toolCall() *Call {
	c := call("send it to SECRET1")
	c.Messages = append(c.Messages,
		engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "c1", Name: "send", Arguments: `{"to":["SECRET1",1],"note":"a \"b\" SECRET\u0032"}`}}},
		engine.Message{Role: "tool", ToolCallID: "c1", Content: "sent to SECRET1"})
	c.Tools = []engine.Tool{{
		Name: "send", Description: "Sends to SECRET1.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string","description":"not SECRET2","enum":["SECRET1","x"],"default":"SECRET1"}},"required":["to"]}`),
	}}
	c.ParallelTools = true
	return c
}

func calls(all ...engine.ToolCall) func(int, *engine.Request) enginetest.Plan {
	return func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Calls: [][]engine.ToolCall{all}} }
}

func TestTools(t *testing.T) {
	w := newWorld(t, calls(
		engine.ToolCall{ID: "call_1", Name: "send", Arguments: `{"to":"⟦1⟧","⟦2⟧": [1.5, {"a":null}, "\u27e61\u27e7 \"x\""]}`},
		engine.ToolCall{ID: "odd id!", Name: "other", Arguments: ``},
	))
	w.principal.LabelMode = identity.LabelText
	c := toolCall()
	r, a := chat(t, w, c)
	got := a.Choices[0]
	if got.Finish != engine.FinishTools || got.Text != "" || len(got.Calls) != 2 {
		t.Fatalf("%+v", got)
	}
	if k := got.Calls[0]; k.ID != "call_1" || k.Name != "send" || k.Arguments != `{"to":"SECRET1","SECRET2": [1.5, {"a":null}, "SECRET1 \"x\""]}` {
		t.Errorf("%+v", k)
	}
	if k := got.Calls[1]; !strings.HasPrefix(k.ID, "call_") || k.Name != "other" || k.Arguments != "{}" {
		t.Errorf("%+v", k)
	}
	q := w.engine.Requests()[0]
	if text := fmt.Sprintf("%+v %s", q, q.Tools[0].Parameters); strings.Contains(text, "SECRET") {
		t.Errorf("the engine was given %s", text)
	}
	if args := q.Messages[1].ToolCalls[0].Arguments; args != `{"to":["⟦1⟧",1],"note":"a \"b\" ⟦2⟧"}` {
		t.Errorf("arguments of the past %s", args)
	}
	if want := `{"type":"object","properties":{"to":{"type":"string","description":"not ⟦2⟧","enum":["⟦1⟧","x"],"default":"⟦1⟧"}},"required":["to"]}`; string(q.Tools[0].Parameters) != want {
		t.Errorf("parameters %s", q.Tools[0].Parameters)
	}
	out := w.log.events[1]
	if want := w.digest("\x00send\x00" + got.Calls[0].Arguments + "\x00other\x00{}"); out.AnswerDigest != want {
		t.Error("the answer's digest must cover its calls")
	}
	if out.Usage.CompletionTokens == 0 || out.Latency.FirstToken < 0 || r.Summary().Outcome != "ok" {
		t.Errorf("%+v", out)
	}
	plain := toolCall()
	plain.Tools[0].Description = "another"
	chat(t, w, plain)
	if w.log.events[2].PromptDigest == w.log.events[0].PromptDigest {
		t.Error("the prompt's digest must cover the tools")
	}
	named := toolCall()
	named.Messages[0].Name = "Ada"
	chat(t, w, named)
	if w.log.events[4].PromptDigest == w.log.events[0].PromptDigest {
		t.Error("the prompt's digest must cover names")
	}
}

// TestEveryTextIsMasked walks the fields of a call: a new one has to be put on one of the lists.
func TestEveryTextIsMasked(t *testing.T) {
	known := map[string]string{
		"Call": "Messages Prompt Tokens Input Query Documents Queries Tools Format Stop | Credential Plane Permission RequestID ClientID Session OnBehalfOf Purpose DataGrade Source Route " +
			"Dialect Language Received Action Model Role RAG Passage ToolChoice ParallelTools FormatField FieldNames Class Priority FirstTokenTimeout MaxTokens Choices Temperature TopP Seed " +
			"Logprobs Sampling Dimensions Known TopN ReturnDocuments Blocking Signature Tenant Document OmitBegin TokenTexts As Batch Resource Places parent fallback authenticated",
		"Message":  "Content Name ToolCalls ToolCallID | Role",
		"ToolCall": "ID Name Arguments",
		"Tool":     "Name Description Parameters | Strict",
		"Format":   "JSONSchema GBNF Regex Choice | JSONObject",
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[Call](), reflect.TypeFor[engine.Message](), reflect.TypeFor[engine.ToolCall](), reflect.TypeFor[engine.Tool](), reflect.TypeFor[engine.Format]()} {
		var have []string
		for i := range typ.NumField() {
			have = append(have, typ.Field(i).Name)
		}
		want := slices.DeleteFunc(strings.Fields(known[typ.Name()]), func(s string) bool { return s == "|" })
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s has the fields %v, this test knows %v: does a new one bear text?", typ, have, want)
		}
	}
	whole, secret := reflect.New(reflect.TypeFor[Call]()).Elem(), append(strings.Fields(strings.Split(known["Call"], "|")[0]), "Credential", "Session", "OnBehalfOf", "Known")
	for _, name := range secret {
		switch f := whole.FieldByName(name); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		default:
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
	filled := whole.Interface().(Call)
	described, given := reflect.ValueOf(filled.withoutTexts()), reflect.ValueOf(*filled.cloneTexts(""))
	for i, name := range secret {
		if !described.FieldByName(name).IsZero() || i >= len(secret)-4 && !given.FieldByName(name).IsZero() {
			t.Errorf("%s stays in a call that is to have no texts, or no secrets", name)
		}
	}
	const s = "x SECRET1"
	for name, set := range map[string]func(c *Call){
		"content": func(c *Call) { c.Messages[0].Content = s },
		"name":    func(c *Call) { c.Messages[0].Name = s },
		"call id": func(c *Call) { c.Messages[0].ToolCalls = []engine.ToolCall{{ID: s, Name: "f", Arguments: "{}"}} },
		"arguments": func(c *Call) {
			c.Messages[0].ToolCalls = []engine.ToolCall{{ID: "i", Name: "f", Arguments: `{"a":"` + s + `"}`}}
		},
		"tool call id": func(c *Call) { c.Messages[0].ToolCallID = s },
		"stop":         func(c *Call) { c.Stop = []string{s} },
		"description":  func(c *Call) { c.Tools = []engine.Tool{{Name: "f", Description: s}} },
		"parameters": func(c *Call) {
			c.Tools = []engine.Tool{{Name: "f", Parameters: json.RawMessage(`{"enum":["` + s + `"]}`)}}
		},
		"schema": func(c *Call) {
			c.Format = &engine.Format{JSONSchema: json.RawMessage(`{"const":{"pattern2":["` + s + `"]}}`)}
		},
		"choice": func(c *Call) { c.Format = &engine.Format{Choice: []string{s}} },
	} {
		w := newWorld(t, nil)
		c := call("hello")
		set(c)
		chat(t, w, c)
		if q := w.engine.Requests()[0]; true {
			q.Hook = nil
			j, err := json.Marshal(struct {
				engine.Request
				Hook, Watermark any
			}{Request: q})
			if err != nil || strings.Contains(string(j), "SECRET") || !strings.Contains(string(j), "⟦1⟧") {
				t.Errorf("%s: the engine was given %s, %v", name, j, err)
			}
		}
	}
	for path, set := range map[string]func(c *Call){
		"messages[0].tool_calls[0].function.name": func(c *Call) { c.Messages[0].ToolCalls = []engine.ToolCall{{ID: "i", Name: s, Arguments: "{}"}} },
		"messages[0].tool_calls[0].function.arguments": func(c *Call) {
			c.Messages[0].ToolCalls = []engine.ToolCall{{ID: "i", Name: "f", Arguments: `{"` + s + `":1}`}}
		},
		"tools[0].function.name": func(c *Call) { c.Tools = []engine.Tool{{Name: s}} },
		"tools[0].function.parameters": func(c *Call) {
			c.Tools = []engine.Tool{{Name: "f", Parameters: json.RawMessage(`{"pattern":"` + s + `"}`)}}
		},
		"response_format": func(c *Call) {
			c.Format = &engine.Format{JSONSchema: json.RawMessage(`{"properties":{"` + s + `":{}}}`)}
		},
		"grammar":      func(c *Call) { c.Format, c.FormatField = &engine.Format{GBNF: s}, "grammar" },
		"guided_regex": func(c *Call) { c.Format, c.FormatField = &engine.Format{Regex: s}, "guided_regex" },
	} {
		w := newWorld(t, nil)
		c := call("hello")
		c.FormatField = "response_format"
		set(c)
		_, err := w.Chat(t.Context(), c)
		if !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != path || len(w.engine.Requests()) > 0 || w.log.trail() != "outcome/refused" {
			t.Errorf("%s: %v, %q", path, err, w.log.trail())
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: leaked %v", path, err)
		}
	}
}

// TestManyValues: each value is looked at by itself, so there is a bound on them.
func TestManyValues(t *testing.T) {
	w := newWorld(t, nil)
	c := call("x")
	list := json.RawMessage(`{"enum":[` + strings.TrimSuffix(strings.Repeat(`"",`, maxValues/2), ",") + `]}`)
	c.Tools = []engine.Tool{{Name: "f", Parameters: list}, {Name: "g", Parameters: list}}
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != "tools[1].function.parameters" {
		t.Errorf("%v", err)
	}
}

// TestToolStreams: however the engine cuts, the caller gets the same calls, in parts that follow the dialect's rules, and nothing
// of a value before the rules have seen it whole.
func TestToolStreams(t *testing.T) {
	all := []engine.ToolCall{
		{ID: "a", Name: "f", Arguments: `{"x":"⟦1⟧ and \u4e16⟦2⟧","n":12345678,"t":true,"deep":{"k":[{},[],"",-1e3]}}`},
		{ID: "b", Name: "g", Arguments: `{"q":"\ud83d\ude00 \"⟦3⟧\"\n"}`},
	}
	want := []string{`{"x":"SECRET1 and 世SECRET2","n":12345678,"t":true,"deep":{"k":[{},[],"",-1e3]}}`, `{"q":"😀 \"SECRET3\"\n"}`}
	for size := 1; size <= 40; size++ {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Texts: []string{"Let me ⟦1⟧: "}, Calls: [][]engine.ToolCall{all}, Pieces: []int{size, 1, size + 3}}
		})
		r, err := w.Chat(t.Context(), call("SECRET1"))
		if err != nil {
			t.Fatal(err)
		}
		got, text := []string{"", ""}, ""
		for ev, err := range r.Events() {
			if err != nil {
				t.Fatal(err)
			}
			text += ev.Text
			for i, d := range ev.Calls {
				if slices.ContainsFunc(ev.Calls[:i], func(o engine.ToolDelta) bool { return o.Index == d.Index }) {
					t.Errorf("size %d: two parts of one call in an event: %+v", size, ev.Calls)
				}
				if first := got[d.Index] == "" && d.Name != ""; first != (d.ID != "") {
					t.Errorf("size %d: %+v", size, d)
				}
				got[d.Index] += d.Arguments
				if strings.Contains(d.Arguments, "⟦") {
					t.Errorf("size %d: a pseudonym was let out: %+v", size, d)
				}
			}
		}
		if !slices.Equal(got, want) || text != "Let me SECRET1: " {
			t.Fatalf("size %d: %q, %q", size, text, got)
		}
		w2 := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Calls: [][]engine.ToolCall{all}, Pieces: []int{size}}
		})
		if _, a := chat(t, w2, call("x")); a.Choices[0].Calls[0].Arguments != want[0] || a.Choices[0].Calls[1].Arguments != want[1] {
			t.Fatalf("size %d: collected %+v", size, a.Choices[0].Calls)
		}
	}
}

func TestToolsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code fault.Code
	}{
		"blocked":             {`{"a":"FORBIDDEN"}`, fault.CodeBlockedAnswer},
		"blocked in a key":    {`{"FORBIDDEN":1}`, fault.CodeBlockedAnswer},
		"blocked by escapes":  {`{"a":["FORB\u0049DDEN"]}`, fault.CodeBlockedAnswer},
		"text":                {`hello`, fault.CodeEngineUnavailable},
		"an array":            {`[1]`, fault.CodeEngineUnavailable},
		"cut":                 {`{"a":"b"`, fault.CodeEngineUnavailable},
		"something behind":    {`{"a":1} x`, fault.CodeEngineUnavailable},
		"no colon":            {`{"a" 1}`, fault.CodeEngineUnavailable},
		"a trailing comma":    {`{"a":1,}`, fault.CodeEngineUnavailable},
		"wrong bracket":       {`{"a":[1}`, fault.CodeEngineUnavailable},
		"a word":              {`{"a":FORBIDDEN}`, fault.CodeEngineUnavailable},
		"nearly a word":       {`{"a":tru}`, fault.CodeEngineUnavailable},
		"nearly a number":     {`{"a":01234567}`, fault.CodeEngineUnavailable},
		"a key is no string":  {`{1:2}`, fault.CodeEngineUnavailable},
		"a comma comes first": {`{,"a":1}`, fault.CodeEngineUnavailable},
	} {
		w := newWorld(t, calls(engine.ToolCall{ID: "a", Name: "f", Arguments: c.args}))
		r, err := w.Chat(t.Context(), call("x"))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := r.Collect(); !fault.Is(err, c.code) {
			t.Errorf("%s: %+v, %v", name, a, err)
		} else if strings.Contains(err.Error(), "FORBIDDEN") {
			t.Errorf("%s: leaked %v", name, err)
		}
	}
	w := newWorld(t, calls(engine.ToolCall{ID: "a", Name: "FORBIDDEN", Arguments: "{}"}))
	if r, err := w.Chat(t.Context(), call("x")); err != nil {
		t.Fatal(err)
	} else if _, err := r.Collect(); !fault.Is(err, fault.CodeBlockedAnswer) {
		t.Errorf("a name: %v", err)
	}
}

// TestWhatTheModelCannotDo is refused by the name of its field.
func TestWhatTheModelCannotDo(t *testing.T) {
	for field, set := range map[string]func(c *Call){
		"top_k": func(c *Call) { c.TopK = 1 }, "min_p": func(c *Call) { c.MinP = .1 }, "repetition_penalty": func(c *Call) { c.RepetitionPenalty = 1.1 },
		"frequency_penalty": func(c *Call) { c.FrequencyPenalty = -1 }, "presence_penalty": func(c *Call) { c.PresencePenalty = 1 },
		"logit_bias": func(c *Call) { c.LogitBias = map[int32]float64{1: 1} }, "min_tokens": func(c *Call) { c.MinTokens = 1 }, "echo": func(c *Call) { c.Echo = true },
		"logprobs": func(c *Call) { c.Logprobs = 0 }, "tools": func(c *Call) { c.Tools = []engine.Tool{{Name: "f"}} },
		"messages[0].tool_calls": func(c *Call) { c.Messages[0].ToolCalls = []engine.ToolCall{{ID: "x", Name: "f", Arguments: "{}"}} },
		"guided_regex":           func(c *Call) { c.Format, c.FormatField = &engine.Format{Regex: "a"}, "guided_regex" },
	} {
		w := newWorld(t, nil)
		w.plain = true
		c := call("x")
		set(c)
		if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeUnsupported) || fault.Public(err).Param() != field {
			t.Errorf("%s: %v", field, err)
		}
		w.plain = false
		c = call("x")
		set(c)
		chat(t, w, c)
	}
}

// TestWhatTheEngineIsTold: who asks and how urgently, and every field of the sampling.
func TestWhatTheEngineIsTold(t *testing.T) {
	w := newWorld(t, nil)
	c := call("x")
	c.Received = time.Now()
	c.Class, c.Priority, c.FirstTokenTimeout = engine.ClassBatch, 5, time.Second
	c.Sampling = Sampling{TopK: 1, MinP: .2, RepetitionPenalty: 1.3, FrequencyPenalty: .4, PresencePenalty: .5, LogitBias: map[int32]float64{6: 7}, MinTokens: 8}
	c.ToolChoice, c.Tools = engine.ToolChoice{Mode: engine.ToolRequired}, []engine.Tool{{Name: "f"}}
	c.Format = &engine.Format{JSONObject: true}
	chat(t, w, c)
	q := w.engine.Requests()[0]
	if q.ID != "req-1" || q.Tenant != "acme" || q.Class != engine.ClassBatch || q.Priority != 5 || !q.Deadline.Equal(c.Received.Add(time.Second)) || q.SharedPrefix {
		t.Errorf("%+v", q)
	}
	if q.TopK != 1 || q.MinP != .2 || q.RepetitionPenalty != 1.3 || q.FrequencyPenalty != .4 || q.PresencePenalty != .5 || q.LogitBias[6] != 7 || q.MinTokens != 8 ||
		q.ToolChoice.Mode != engine.ToolRequired || len(q.Tools) != 1 || !q.Format.JSONObject {
		t.Errorf("%+v", q)
	}
}

// breaking is an engine that prepares prompts and breaks when they run.
type breaking struct{ engine.Engine }

func (breaking) Embed(context.Context, *engine.Prompt) (*engine.Embeddings, error) {
	return nil, fault.New(fault.CodeEngineUnavailable, "embed")
}

func (breaking) Score(context.Context, *engine.Prompt) (*engine.Scores, error) {
	return nil, fault.New(fault.CodeEngineUnavailable, "rank")
}

func TestScore(t *testing.T) {
	w := newWorld(t, nil)
	c := &Call{
		Credential: "good", Permission: access.InferenceEmbed, RequestID: "s", Action: ActionRerank, Model: "rank", Class: engine.ClassBatch,
		Query: "who is SECRET1", Documents: []string{"nobody", "who is SECRET1"},
	}
	r, err := w.Score(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Scores) != 2 || r.Scores[1] != 1 || r.Scores[0] >= 1 || r.Usage.PromptTokens == 0 || r.Usage.Cost == 0 || !w.ledger.asks[0].Embed || w.log.trail() != "admitted outcome/ok" {
		t.Errorf("%+v, %q", r, w.log.trail())
	}
	if w.ledger.asks[0].PromptTokens < r.Usage.PromptTokens {
		t.Errorf("reserved %d, used %d", w.ledger.asks[0].PromptTokens, r.Usage.PromptTokens)
	}
	q := w.engine.Scores()[0]
	if q.Query != "who is ⟦1⟧" || q.Documents[1] != "who is ⟦1⟧" || q.Tenant != "acme" || q.Class != engine.ClassBatch {
		t.Errorf("the engine was given %+v", q)
	}
	pairs := &Call{
		Credential: "good", Permission: access.InferenceEmbed, RequestID: "p", Action: ActionScore, Model: "rank",
		Queries: []string{"aaa", "aaa", "SECRET2"}, Documents: []string{"aaa", "bbb", "SECRET2"},
	}
	got, err := w.Score(t.Context(), pairs)
	if err != nil || fmt.Sprint(got.Scores) != "[1 0 1]" || len(w.engine.Scores()) != 3 || w.engine.Scores()[2].Query != "⟦2⟧" {
		t.Errorf("%+v, %v, %+v", got, err, w.engine.Scores())
	}
	w.wrap = func(e engine.Engine) engine.Engine { return breaking{e} }
	if _, err = w.Score(t.Context(), c); !fault.Is(err, fault.CodeEngineUnavailable) || w.ledger.released != 1 || !w.slotFree(t) {
		t.Errorf("%v, released %d", err, w.ledger.released)
	}
	_ = w.engine.Close() // before it is prepared
	if _, err = w.Score(t.Context(), c); !fault.Is(err, fault.CodeEngineUnavailable) || len(w.ledger.asks) != 3 || !w.slotFree(t) {
		t.Errorf("%v, reserved %d times", err, len(w.ledger.asks))
	}
}

// TestLabelsAreForReaders: a call is for a program and takes no sentence; a text beside it gets one, in a stream and in one piece. Where an agreement is
// demanded, the outcome says what has left without.
func TestLabelsAreForReaders(t *testing.T) {
	calls := [][]engine.ToolCall{{{ID: "a", Name: "f", Arguments: "{}"}}}
	for name, c := range map[string]struct {
		plan     enginetest.Plan
		labelled bool
		noted    string
	}{
		"a text":                {plan: enginetest.Plan{Texts: []string{"Text."}}, labelled: true},
		"a text and a call":     {plan: enginetest.Plan{Texts: []string{"Text."}, Calls: calls}, labelled: true},
		"a blank one":           {plan: enginetest.Plan{Texts: []string{"\n\n"}, Calls: calls}, noted: "impossible"},
		"only a call":           {plan: enginetest.Plan{Calls: calls}, noted: "impossible"},
		"one that breaks off":   {plan: enginetest.Plan{Texts: []string{"Text. Text."}, Err: errors.New("broken"), FailAt: 2}, noted: "missing"},
		"one that never begins": {plan: enginetest.Plan{Err: errors.New("broken")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return c.plan })
			w.demands, w.streams = "policy", true
			for _, blocking := range []bool{true, false} {
				ask, text, broken := call("x"), "", false
				ask.Blocking = blocking
				r, err := w.Chat(t.Context(), ask)
				if err != nil {
					t.Fatal(err)
				}
				for ev, err := range r.Events() {
					text, broken = text+ev.Text, broken || err != nil
				}
				if strings.Contains(text, label.TextEnglish) != c.labelled || broken != (c.plan.Err != nil) {
					t.Errorf("%q, broken: %t", text, broken)
				}
				if got := w.log.events[len(w.log.events)-1].Detail["visible_label"]; got != c.noted {
					t.Errorf("blocking %t: noted %q", blocking, got)
				}
			}
		})
	}
}

// TestLabelsOfForms: whoever wants labels and asks for JSON gets JSON, where nobody demands more.
func TestLabelsOfForms(t *testing.T) {
	w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"{}"}} })
	w.principal.LabelMode = identity.LabelText
	c := call("x")
	c.Format = &engine.Format{JSONObject: true}
	if _, a := chat(t, w, c); a.Choices[0].Text != "{}" {
		t.Errorf("behind JSON: %q", a.Choices[0].Text)
	}
}

// TestDeliveredUnderAnAgreement: the outcome names the agreement if anything has left under it, whatever became of the answer, and else does not.
func TestDeliveredUnderAnAgreement(t *testing.T) {
	for name, c := range map[string]struct {
		plan enginetest.Plan
		left bool
	}{
		"an answer":             {plan: enginetest.Plan{Texts: []string{"Text."}}, left: true},
		"only a call":           {plan: enginetest.Plan{Calls: [][]engine.ToolCall{{{ID: "a", Name: "f", Arguments: "{}"}}}}, left: true},
		"one that breaks off":   {plan: enginetest.Plan{Texts: []string{"Text. Text."}, Err: errors.New("broken"), FailAt: 2}, left: true},
		"one that never begins": {plan: enginetest.Plan{Err: errors.New("broken")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return c.plan })
			w.demands, w.agreement = "policy", "a1"
			r, err := w.Chat(t.Context(), call("x"))
			if err != nil {
				t.Fatal(err)
			}
			for range r.Events() {
			}
			first, last := w.log.events[0], w.log.events[len(w.log.events)-1]
			if first.Detail["label_agreement"] != "a1" || (last.Detail["label_agreement"] == "a1") != c.left || last.Stage != audit.StageOutcome {
				t.Errorf("admitted: %v, outcome: %v", first.Detail, last.Detail)
			}
		})
	}
}

// TestLogprobsStopAtCalls: entries of the tokens that a call is made of must not leave as entries of text.
func TestLogprobsStopAtCalls(t *testing.T) {
	w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"abcdef"}, Calls: [][]engine.ToolCall{{{ID: "a", Name: "f", Arguments: "{}"}}}}
	})
	c := call("x")
	c.Logprobs = 0
	r, a := chat(t, w, c)
	if len(a.Choices[0].Logprobs) != 2 || !r.Summary().LogprobsWithheld {
		t.Errorf("%+v", a.Choices[0].Logprobs)
	}
}

// TestBlockedJSONAnswers: an answer that was asked to be JSON is stopped as any other, inside it and behind it.
func TestBlockedJSONAnswers(t *testing.T) {
	for _, s := range []string{`{"a":"FORBIDDEN"}`, `{"a":1} FORBIDDEN`} {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{s}} })
		c := call("x")
		c.Format = &engine.Format{JSONObject: true}
		r, err := w.Chat(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := r.Collect(); !fault.Is(err, fault.CodeBlockedAnswer) {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// TestFormatsAreNamedAsAsked: engines know one name of the format, callers know several.
func TestFormatsAreNamedAsAsked(t *testing.T) {
	for _, field := range []string{"response_format", "guided_regex", "structured_outputs.grammar"} {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Err: fmt.Errorf("engine: %w", fault.New(fault.CodeInvalidValue, "response_format", fault.Quote("is wrong", "有误")).WithParam("response_format"))}
		})
		c := call("x")
		c.Format, c.FormatField = &engine.Format{Regex: "(("}, field
		r, err := w.Chat(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Collect()
		if p := fault.Public(err); p.Code() != fault.CodeInvalidValue || p.Param() != field || !strings.Contains(p.Message(fault.English), "'"+field+"'") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
