package worker

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// pace is an engine whose answers have so many events, one after the other without a pause: what is measured is the way alone.
type pace struct {
	*enginetest.Scripted

	events int
}

func (p *pace) Generate(_ context.Context, q *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for range p.events {
			if !yield(engine.Event{Text: " word"}, nil) {
				return
			}
		}
		yield(engine.Event{Finish: engine.FinishLength, Usage: &engine.Usage{Model: "scripted", PromptTokens: q.Tokens, CompletionTokens: p.events}}, nil)
	}
}

// Prepare takes no time.
func (p *pace) Prepare(_ context.Context, w engine.Work) (*engine.Prompt, error) {
	q := w.(*engine.Request)
	return engine.FitPrompt(q, engine.TokenCounts{Base: 1, Exact: true})
}

// BenchmarkBoundary measures what a process boundary adds: to a request, with a short and a long prompt, and to an event of an answer.
func BenchmarkBoundary(b *testing.B) {
	for _, c := range []struct {
		name   string
		prompt int // bytes
		events int // also what the time is divided by, if it is more than one
	}{
		{"request of 100 bytes", 100, 1},
		{"request of 100 KiB", 100 << 10, 1},
		{"event", 100, 1000},
	} {
		direct := &pace{Scripted: enginetest.NewScripted(nil, engine.Model{ID: "scripted", CanGenerate: true}), events: c.events}
		over := serve(b, Backend{Engine: direct}).connect(b)
		for _, way := range []struct {
			name string
			e    engine.Engine
		}{{"in process", direct}, {"unix socket", over}} {
			b.Run(c.name+"/"+way.name, func(b *testing.B) {
				req := question(strings.Repeat("a text ", c.prompt/7))
				b.ReportAllocs()
				for n := 0; n < b.N; n += c.events {
					for _, err := range enginetest.Ask(b.Context(), way.e, req) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkEvent measures the form of an event alone.
func BenchmarkEvent(b *testing.B) {
	ev := engine.Event{Text: " word"}
	var body, frame []byte
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			body = appendEvent(body[:0], &ev)
			frame = appendFrame(frame[:0], frameEvent, body)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parseEvent(body); err != nil {
				b.Fatal(err)
			}
		}
	})
}
