package gateway

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// TestEveryTextBesideAnAnswerIsReleased: package egress looks at events; what else reaches the caller is looked at here, so that a new field is.
func TestEveryTextBesideAnAnswerIsReleased(t *testing.T) {
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[rag.Passage]():  "Collection Document DocumentID Version Title Section Chunk Text Start End Score Known",
		reflect.TypeFor[Citation]():     "Number Collection Document Title Section DocumentID Version Chunk Start End Score Text Truncated Withheld",
		reflect.TypeFor[AnswerChoice](): "Text Reasoning Refusal Calls Logprobs Finish",
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
