package engine_test

import (
	"errors"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

func TestFit(t *testing.T) {
	type asked struct {
		context, base int
		exact         bool
		segments      []int // lengths
		most, max     int
	}
	for name, c := range map[string]struct {
		asked
		tokens, kept, max int // 0 tokens: refused
	}{
		"nothing known":                {asked{base: 50, segments: []int{900, 900}, max: 7}, 1850, 2, 7},
		"as many as it holds":          {asked{context: 100, base: 40, exact: true}, 40, 0, 60},
		"one token left":               {asked{context: 100, base: 99, exact: true, segments: []int{1}, max: 7}, 99, 0, 1},
		"none left":                    {asked{context: 100, base: 100, exact: true, max: 7}, 0, 0, 0},
		"none left, by a bound":        {asked{context: 100, base: 180, max: 7}, 100, 0, 7},
		"bounded":                      {asked{context: 100, base: 60, segments: []int{30}, max: 70}, 90, 1, 10},
		"a bound and no limit":         {asked{context: 100, base: 60}, 60, 0, 0},
		"half":                         {asked{context: 100, base: 10, exact: true, segments: []int{30, 20, 1}}, 60, 2, 40},
		"half, by a bound":             {asked{context: 100, base: 180, segments: []int{30, 20, 1}, max: 7}, 100, 2, 7},
		"room":                         {asked{context: 100, base: 60, exact: true, segments: []int{30, 9, 1}, max: 7}, 99, 2, 1},
		"at most":                      {asked{context: 100, base: 10, exact: true, segments: []int{3, 4, 1}, most: 7}, 17, 2, 83},
		"too long in the middle":       {asked{context: 100, base: 10, exact: true, segments: []int{3, 40, 1}, most: 7}, 13, 1, 87},
		"at most, the context unknown": {asked{base: 10, segments: []int{3, 5}, most: 7, max: 9}, 13, 1, 9},
	} {
		t.Run(name, func(t *testing.T) {
			req := &engine.Request{Messages: []engine.Message{{Content: "m"}}, SegmentTokens: c.most, MaxTokens: c.asked.max}
			text := ""
			for i := range c.segments {
				req.Segments = append(req.Segments, string(rune('a'+i)))
				if i < c.kept {
					text += req.Segments[i]
				}
			}
			text += "m"
			next := 0
			p, err := engine.FitPrompt(req, engine.TokenCounts{Context: c.context, Base: c.base, Exact: c.exact, Segment: func(i int) (int, error) {
				if i != next {
					t.Errorf("segment %d is asked for, want %d", i, next)
				}
				next++
				return c.segments[i], nil
			}})
			if c.tokens == 0 {
				if !fault.Is(err, fault.CodeContextLength) || fault.Public(err).Param() != "messages" {
					t.Errorf("%+v, %v", p, err)
				}
				return
			}
			if err != nil || p.Tokens != c.tokens || p.Exact != c.exact || p.SegmentsKept != c.kept || p.Request.MaxTokens != c.max ||
				p.Request.Messages[0].Content != text || p.Request.Segments != nil || p.Request.SegmentTokens != 0 {
				t.Errorf("%+v of %+v, %v", p, p.Request, err)
			}
			if req.Messages[0].Content != "m" || len(req.Segments) != len(c.segments) || next > c.kept+1 {
				t.Errorf("left %+v, asked for %d segments", req, next)
			}
		})
	}
	broken := errors.New("cannot count")
	req := &engine.Request{Messages: []engine.Message{{}}, Segments: []string{"a"}}
	if _, err := engine.FitPrompt(req, engine.TokenCounts{Segment: func(int) (int, error) { return 0, broken }}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	raw := &engine.Request{Prompt: "p", Segments: []string{"a"}}
	if p, err := engine.FitPrompt(raw, engine.TokenCounts{Base: 1}); err != nil || p.SegmentsKept != 0 || p.Request.Prompt != "p" {
		t.Errorf("without messages: %+v, %v", p, err)
	}
	if _, err := engine.FitPrompt(raw, engine.TokenCounts{Context: 1, Base: 1, Exact: true}); fault.Public(err).Param() != "prompt" {
		t.Errorf("%v", err)
	}
}
