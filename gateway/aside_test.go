package gateway

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// TestEveryTextOfAnEventIsReleased: an event leaves with nothing but what the egress puts there, so a new field has to be looked at.
func TestEveryTextOfAnEventIsReleased(t *testing.T) {
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[engine.Event]():        "Choice Text Reasoning Refusal Calls Logprobs Finish Usage Used",
		reflect.TypeFor[engine.ToolDelta]():    "Index ID Name Arguments",
		reflect.TypeFor[engine.TokenLogprob](): "Token Bytes Logprob Top",
		reflect.TypeFor[rag.Passage]():         "Collection Document DocumentID Version Title Section Chunk Text Start End Score Known",
		reflect.TypeFor[Citation]():            "Number Collection Document Title Section DocumentID Version Chunk Start End Score Text Truncated Withheld",
		reflect.TypeFor[AnswerChoice]():        "Text Reasoning Refusal Calls Logprobs Finish",
	} {
		var have []string
		for i := range typ.NumField() {
			have = append(have, typ.Field(i).Name)
		}
		if !slices.Equal(have, strings.Fields(want)) {
			t.Errorf("%s has the fields %v, this test knows %s: does a new one bear text?", typ, have, want)
		}
	}
}

// TestPassagesTeach: what documents say is sensitive is learnt before anything of them is masked, each value once; if the question may not
// go on with it, the engine is not asked.
func TestPassagesTeach(t *testing.T) {
	w := newWorld(t, nil)
	ann := rag.Known{Class: "person", Value: "Ann"}
	w.rag.passages = []rag.Passage{
		{Collection: "docs", DocumentID: "1", Text: "SECRET3", Known: []rag.Known{ann, {Class: "company", Value: "SECRET4"}}}, {Collection: "docs", DocumentID: "2", Known: []rag.Known{ann}},
	}
	c := call("SECRET1")
	c.RAG = &RAG{Collection: "docs"}
	r, _ := chat(t, w, c)
	got := r.run.admission.decision.(*fakeAdmission)
	if want := []classify.Known{{Class: "person", Value: "Ann"}, {Class: "company", Value: "SECRET4"}}; !slices.Equal(got.known, want) {
		t.Errorf("masked knowing %+v", got.known)
	}
	if q := w.engine.Requests()[0].Messages; !strings.Contains(q[0].Content, "⟦3⟧") || q[1].Content != "⟦1⟧" {
		t.Errorf("the engine was given %+v", q)
	}
	if strings.Contains(fmt.Sprintf("%+v", r.run.call), "SECRET1") {
		t.Error("what the caller sent is kept")
	}
	w.fail["mask"] = fault.New(fault.CodeBlockedContent, "person")
	c = call("SECRET1")
	c.RAG = &RAG{Collection: "docs"}
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeBlockedContent) || len(w.engine.Requests()) != 1 || !w.slotFree(t) {
		t.Errorf("%v, asked %d times", err, len(w.engine.Requests()))
	}
}

// TestRescue: what a panic says may be text of the answer; only the runtime is believed that it is not.
func TestRescue(t *testing.T) {
	for _, c := range []struct {
		panics any
		want   string
	}{{"SECRET1", "with a string"}, {errors.New("SECRET1"), "errors.errorString"}, {nil, "index out of range"}} {
		err := func() (err error) {
			defer new(egress).rescue(&err)
			if c.panics != nil {
				panic(c.panics)
			}
			var none []int
			return errors.New(string(rune(none[len(c.want)])))
		}()
		if !fault.Is(err, fault.CodeInternal) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET1") {
			t.Errorf("%v: %v", c.panics, err)
		}
	}
}

// FuzzEgress: whatever events an engine sends, in whatever order, nothing panics, what a choice shows depends on its texts alone and not on
// where they were cut, and nothing follows the end of a choice.
func FuzzEgress(f *testing.F) {
	f.Add([]byte("t⟦1⟧ab\x00r⟦2⟧cd\x01tSECRET\x00fno\x00e"), uint8(2))
	f.Add([]byte(`c{"a":"⟦1⟧","b":[1234567]}`+"\x00e"), uint8(1))
	f.Add([]byte("rabc\x00txyz\x00rdef\x00e\x00tlate"), uint8(3))
	f.Add([]byte("lab\x00l⟦\x00l1⟧\x00e"), uint8(1))
	f.Fuzz(func(t *testing.T, script []byte, size uint8) {
		whole, failed := playEvents(t, script, 1<<20)
		cut, also := playEvents(t, script, 1+int(size)%8)
		if failed != also || !failed && whole != cut {
			t.Fatalf("%q shows %q whole (failed %v) and %q cut (failed %v)", script, whole, failed, cut, also)
		}
	})
}

// playEvents sends what a script says, in pieces of so many characters, and returns all that was shown.
func playEvents(t *testing.T, script []byte, size int) (shown string, failed bool) {
	t.Helper()
	w := newWorld(t, nil)
	r := w.begin(call("x"), route.Generate)
	r.admission.decision, r.admission.keep = &fakeAdmission{w: w}, governance.RecordMasked
	r.prompt.Prompt = &engine.Prompt{Request: &engine.Request{Choices: 2}}
	r.call.Logprobs = 0
	e := r.egress()
	var texts, reasonings, refusals, arguments [2]string
	send := func(ev engine.Event) bool {
		out, _, err := e.pass(t.Context(), ev)
		if err != nil {
			failed = true
			return false
		}
		texts[out.Choice] += out.Text
		reasonings[out.Choice] += out.Reasoning
		refusals[out.Choice] += out.Refusal
		for _, c := range out.Calls {
			arguments[out.Choice] += c.Arguments
		}
		for _, l := range out.Logprobs {
			if !strings.Contains(texts[out.Choice], string(l.Bytes)) {
				t.Fatalf("an entry spells %q, the text is %q", l.Bytes, texts[out.Choice])
			}
		}
		return true
	}
	begun := [2]bool{}
	for n, line := range strings.Split(strings.ToValidUTF8(string(script), "\uFFFD"), "\x00") {
		if line == "" {
			continue
		}
		ev, rest := engine.Event{Choice: n % 2}, []rune(line[1:])
		if line[0] == 'e' {
			ev.Finish = engine.FinishLength
			if !send(ev) {
				return "", true
			}
			continue
		}
		for len(rest) > 0 {
			k := min(size, len(rest))
			text := string(rest[:k])
			ev, rest = engine.Event{Choice: n % 2}, rest[k:]
			switch line[0] {
			case 'r':
				ev.Reasoning = text
			case 'f':
				ev.Refusal = text
			case 'c':
				d := engine.ToolDelta{Arguments: text}
				if !begun[n%2] {
					d.ID, d.Name, begun[n%2] = "a", "f", true
				}
				ev.Calls = []engine.ToolDelta{d}
			case 'l':
				ev.Text, ev.Logprobs = text, []engine.TokenLogprob{{Token: text, Bytes: []byte(text)}}
			default:
				ev.Text = text
			}
			if !send(ev) {
				return "", true
			}
		}
	}
	for i := range e.choices {
		if !e.choices[i].done && !send(engine.Event{Choice: i, Finish: engine.FinishLength}) {
			return "", true
		}
	}
	if e.held != nil {
		texts[e.held.Choice] += e.held.Text
		reasonings[e.held.Choice] += e.held.Reasoning
		refusals[e.held.Choice] += e.held.Refusal
		for _, c := range e.held.Calls {
			arguments[e.held.Choice] += c.Arguments
		}
	}
	return strings.Join(slices.Concat(texts[:], reasonings[:], refusals[:], arguments[:]), "\x00"), false
}
