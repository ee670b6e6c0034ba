package gateway

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/rag"
)

// preparing remembers the prompts that it prepared and the one that it ran.
type preparing struct {
	engine.Engine

	prompts []*engine.Prompt
	ran     *engine.Prompt
}

func (p *preparing) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	out, err := p.Engine.Prepare(ctx, w)
	p.prompts = append(p.prompts, out)
	return out, err
}

func (p *preparing) Generate(ctx context.Context, prompt *engine.Prompt) iter.Seq2[engine.Event, error] {
	p.ran = prompt
	return p.Engine.Generate(ctx, prompt)
}

// TestPreparedOnce: the prompt that runs is the one whose tokens were reserved, and the only one that was prepared, however many passages there
// are; where none of them can be kept, the text that says so is a second one.
func TestPreparedOnce(t *testing.T) {
	short, long := rag.Passage{Collection: "c", DocumentID: "d", Text: "short"}, rag.Passage{Collection: "c", DocumentID: "l", Text: strings.Repeat("long ", 2000)}
	middling := rag.Passage{Collection: "c", DocumentID: "m", Text: strings.Repeat("x", 1930)}
	for name, c := range map[string]struct {
		rag            bool
		passages       []rag.Passage
		prepared, kept int
	}{
		"no passages":     {false, nil, 1, 0},
		"all":             {true, []rag.Passage{short, short, short, short}, 1, 4},
		"some":            {true, []rag.Passage{short, short, long, short}, 1, 2},
		"none fits":       {true, []rag.Passage{long, short}, 2, 0},
		"nothing found":   {true, nil, 1, 0},
		"all of the room": {true, []rag.Passage{middling, middling, middling}, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			e := &preparing{}
			w.wrap = func(inner engine.Engine) engine.Engine { e.Engine = inner; return e }
			w.rag.passages = c.passages
			q := call("Which?")
			if c.rag {
				q.RAG = &RAG{Collection: "c"}
			}
			r, _ := chat(t, w, q)
			if len(e.prompts) != c.prepared || e.ran != e.prompts[len(e.prompts)-1] || e.ran.SegmentsKept != c.kept || len(r.Citations) != c.kept {
				t.Fatalf("prepared %d times, %d passages kept, %d cited", len(e.prompts), e.ran.SegmentsKept, len(r.Citations))
			}
			reserved := w.ledger.asks[0].PromptTokens
			if used := int64(e.ran.Tokens); used != reserved {
				t.Errorf("%d tokens, reserved %d", used, reserved)
			}
			given := e.ran.Request.Messages
			if n := strings.Count(given[len(given)-1].Content, "<passage"); n != c.kept || c.rag && strings.Contains(given[0].Content, emptySearchEN) != (c.kept == 0) {
				t.Errorf("%d passages kept, the model reads %q", c.kept, given)
			}
		})
	}
}
