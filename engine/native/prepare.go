package native

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// prepared is what Generate needs of a prompt.
type prepared struct {
	model  *generator // whose tokens they are
	tokens []int32    // shared by all who run the prompt: never written
}

// Prepare implements engine.Engine; the number of tokens is exact.
func (e *Engine) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	switch q := w.(type) {
	case *engine.Request:
		return e.prepareText(ctx, q)
	case *engine.EmbedRequest:
		m, err := e.encoder(ctx, q.Model)
		if err != nil {
			return nil, err
		}
		return m.prepareEmbed(ctx, q)
	case *engine.ScoreRequest:
		m, err := e.encoder(ctx, q.Model)
		if err != nil {
			return nil, err
		}
		return m.prepareScore(ctx, q)
	default:
		return nil, engine.ErrOtherWork
	}
}

func (e *Engine) prepareText(ctx context.Context, req *engine.Request) (*engine.Prompt, error) {
	g, _, err := e.generator(req.Model, req.Tenant)
	if err == nil {
		err = checkRequest(req)
	}
	if err != nil {
		return nil, err
	}
	p, ids, err := g.prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	p.Prepared = &prepared{g, ids}
	return p, nil
}

// own returns p and its tokens if this engine has prepared it for g, else p prepared again.
func (g *generator) own(ctx context.Context, p *engine.Prompt) (*engine.Prompt, []int32, error) {
	if own, ok := p.Prepared.(*prepared); ok && own.model == g {
		return p, own.tokens, nil
	}
	if err := checkRequest(p.Request); err != nil {
		return nil, nil, err
	}
	return g.prepare(ctx, p.Request)
}

// prepare returns the prompt of a checked request, and its tokens.
//
// The segments are looked for in the rendered text, and tokenised apart from what stands before and behind them. So each is tokenised once,
// however many are kept, unless the template shows them in several places or otherwise than they are.
func (g *generator) prepare(ctx context.Context, req *engine.Request) (*engine.Prompt, []int32, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, cancelled(err)
	}
	n := len(req.Segments)
	if len(req.Messages) == 0 {
		n = 0 // there is no message that they could stand behind
	}
	whole, err := g.render(req.Keep(n))
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		ids, err := g.begin(req, g.tokens.EncodeParts(whole, false))
		if err != nil {
			return nil, nil, err
		}
		p, err := engine.FitPrompt(req, engine.TokenCounts{Context: g.info.ContextTokens, Base: len(ids), Exact: true})
		return p, ids, err
	}
	before, behind, found := around(whole, strings.Join(req.Segments, ""))
	if !found {
		return g.prepareWhole(ctx, req)
	}
	ids, err := g.begin(req, g.tokens.EncodeParts(before, false))
	if err != nil {
		return nil, nil, err
	}
	tail := g.tokens.EncodeParts(behind, true)
	var middle [][]int32
	p, err := engine.FitPrompt(req, engine.TokenCounts{
		Context: g.info.ContextTokens, Base: len(ids) + len(tail), Exact: true,
		Segment: func(i int) (int, error) {
			segment := g.tokens.EncodeParts([]tokenizer.Part{{Text: req.Segments[i]}}, true)
			middle = append(middle, segment)
			if err := ctx.Err(); err != nil {
				return 0, cancelled(err)
			}
			return len(segment), nil
		},
	})
	if err != nil {
		return nil, nil, err
	}
	if p.SegmentsKept < n {
		// What is left out may have changed what the template says elsewhere, or what it trims.
		if whole, err = g.render(p.Request); err != nil {
			return nil, nil, err
		}
		if !slices.Equal(whole, joined(before, strings.Join(req.Segments[:p.SegmentsKept], ""), behind)) {
			fewer := *req
			fewer.Segments = req.Segments[:p.SegmentsKept]
			return g.prepare(ctx, &fewer)
		}
	}
	return p, slices.Concat(ids, slices.Concat(middle[:p.SegmentsKept]...), tail), nil
}

// prepareWhole is prepare where the template shows the segments otherwise than they are: whole texts are tokenised, with one segment more
// each time.
func (g *generator) prepareWhole(ctx context.Context, req *engine.Request) (*engine.Prompt, []int32, error) {
	ids, err := g.encode(req.Keep(0))
	if err != nil {
		return nil, nil, err
	}
	longer := [][]int32{ids} // by the number of segments
	p, err := engine.FitPrompt(req, engine.TokenCounts{
		Context: g.info.ContextTokens, Base: len(ids), Exact: true,
		Segment: func(i int) (int, error) {
			if err := ctx.Err(); err != nil {
				return 0, cancelled(err)
			}
			ids, err := g.encode(req.Keep(i + 1))
			longer = append(longer, ids)
			return len(ids) - len(longer[i]), err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return p, longer[p.SegmentsKept], nil
}

// encode returns the prompt tokens of a request without segments.
func (g *generator) encode(req *engine.Request) ([]int32, error) {
	parts, err := g.render(req)
	if err != nil {
		return nil, err
	}
	return g.begin(req, g.tokens.EncodeParts(parts, false))
}

// render returns the text of a prompt. No two parts of the same kind are neighbours.
func (g *generator) render(req *engine.Request) ([]tokenizer.Part, error) {
	if req.Messages == nil {
		return []tokenizer.Part{{Text: req.Prompt, Special: true}}, nil
	}
	if g.template == nil {
		return nil, fault.New(fault.CodeUnsupported, "messages", fault.Say("native.no_template"))
	}
	in := conversation(req)
	in.BOS, in.EOS = g.tokenName(g.bos), g.tokenName(g.eos)
	segments, err := g.template.RenderSegments(in)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeInvalidValue, "messages", fault.Say("native.template_refused"))
	}
	parts := make([]tokenizer.Part, len(segments))
	for i, s := range segments {
		parts[i] = tokenizer.Part{Text: s.Text, Special: s.Special}
	}
	return parts, nil
}

// begin puts the token that begins a text before the first tokens of a prompt, where the model wants one.
func (g *generator) begin(req *engine.Request, ids []int32) ([]int32, error) {
	_, add := g.tokens.BOS()
	if add && req.Messages != nil && len(ids) > 0 && ids[0] == g.bos {
		add = false // the template wrote it
	}
	if req.OmitBegin {
		add = false
	}
	if empty := req.Messages == nil && len(ids) == 0; add || empty && g.bos >= 0 && !req.OmitBegin {
		ids = slices.Insert(ids, 0, g.bos)
	} else if empty {
		return nil, fault.New(fault.CodeMissing, "prompt")
	}
	return ids, nil
}

// around splits a rendered text at a piece of what callers wrote in it. What is before and behind the piece is tokenised apart from it.
func around(parts []tokenizer.Part, piece string) (before, behind []tokenizer.Part, found bool) {
	for i, p := range parts {
		if p.Special {
			continue
		}
		left, right, ok := strings.Cut(p.Text, piece)
		switch {
		case !ok:
		case found || strings.Contains(right, piece): // it stands in several places
			return nil, nil, false
		default:
			before, behind, found = joined(parts[:i], left, nil), joined(nil, right, parts[i+1:]), true
		}
	}
	return before, behind, found
}

// joined puts a text of callers between parts, as render would have it.
func joined(before []tokenizer.Part, text string, behind []tokenizer.Part) []tokenizer.Part {
	var out []tokenizer.Part
	for _, p := range slices.Concat(before, []tokenizer.Part{{Text: text}}, behind) {
		switch last := len(out) - 1; {
		case p.Text == "":
		case last >= 0 && out[last].Special == p.Special:
			out[last].Text += p.Text
		default:
			out = append(out, p)
		}
	}
	return out
}
