package engine

import (
	"math"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// Prompt is work that an engine has prepared. Nobody changes it any more. One of Request, Embed and Score is set.
type Prompt struct {
	// Request is what will run: the segments that were kept are part of their message, and none are left. MaxTokens is at
	// most what the context still holds, as far as that is known; 0, as many as it holds, becomes that number where Tokens is exact.
	Request *Request
	Embed   *EmbedRequest
	Score   *ScoreRequest

	Tokens       int  // of the prompt, kept segments included, or of all texts; not less than there are
	Exact        bool // Tokens is the number itself
	SegmentsKept int  // how many of the segments are part of it, from the first

	// Prepared is the engine's own: what spares it to prepare the work again.
	Prepared any
}

// Keep returns a copy of r with its first n segments in their message. It has no segments any more.
func (r *Request) Keep(n int) *Request {
	out := *r
	out.Segments, out.SegmentTokens = nil, 0
	if out.Messages = slices.Clone(r.Messages); len(out.Messages) > 0 {
		m := &out.Messages[r.SegmentMessage()]
		m.Content = strings.Join(r.Segments[:n], "") + m.Content
	}
	return &out
}

// SegmentMessage returns the index of the message that segments stand in. There is one.
func (r *Request) SegmentMessage() int {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == "user" {
			return i
		}
	}
	return len(r.Messages) - 1
}

// TokenCounts are what an engine has counted of a request, in tokens.
type TokenCounts struct {
	Context int  // of the model; 0: unknown
	Base    int  // of the prompt without segments
	Exact   bool // false: all of them are bounds from above
	// Segment returns the length of the i-th segment. It is asked in order, once for each, until one is not kept.
	Segment func(i int) (int, error)
}

// FitPrompt makes the prompt of a request: for engines, which implement Prepare with it, so that the rules about segments and the context are
// the same everywhere. Error: CodeContextLength.
func FitPrompt(r *Request, l TokenCounts) (*Prompt, error) {
	room := l.Context - l.Base // for segments and the completion
	known := l.Context > 0
	if known && l.Exact && room < 1 {
		return nil, tooLong(r, l)
	}
	most := math.MaxInt
	if r.SegmentTokens > 0 {
		most = r.SegmentTokens
	}
	if known {
		most = min(most, l.Context/2)
	}
	if known && l.Exact {
		most = min(most, room-1)
	}
	kept, taken := 0, 0
	for kept < len(r.Segments) && len(r.Messages) > 0 {
		n, err := l.Segment(kept)
		if err != nil {
			return nil, err
		}
		if taken+n > most {
			break
		}
		kept, taken = kept+1, taken+n
	}
	p := &Prompt{Request: r.Keep(kept), Tokens: l.Base + taken, Exact: l.Exact, SegmentsKept: kept}
	if room -= taken; !known {
		return p, nil
	}
	if room < 1 { // by a bound, which proves nothing
		p.Tokens = min(p.Tokens, l.Context) // more than that is refused by whoever runs it
		return p, nil
	}
	switch asked := p.Request.MaxTokens; {
	case asked > 0:
		p.Request.MaxTokens = min(asked, room)
	case l.Exact:
		p.Request.MaxTokens = room
	}
	return p, nil
}

func tooLong(r *Request, l TokenCounts) error {
	field := "messages"
	if r.Messages == nil {
		field = "prompt"
	}
	return fault.New(fault.CodeContextLength, l.Context, l.Base+1).WithParam(field)
}
