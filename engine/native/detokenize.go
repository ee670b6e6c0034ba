package native

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// Tokens implements engine.Engine.
func (e *Engine) Tokens(ctx context.Context, p *engine.Prompt) (*engine.TokenList, error) {
	if p.Request == nil {
		return nil, engine.ErrOtherWork
	}
	g, _, err := e.generator(p.Request.Model, p.Request.Tenant)
	if err != nil {
		return nil, err
	}
	_, ids, err := g.own(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	return g.list(ids), nil
}

// list says what tokens are.
func (g *generator) list(ids []int32) *engine.TokenList {
	out := &engine.TokenList{IDs: make([]int32, len(ids)), Texts: make([]string, len(ids))}
	for i, id := range ids {
		out.IDs[i], out.Texts[i] = id, g.describe(id, 0).Token
	}
	return out
}

// Detokenize implements engine.Engine.
func (e *Engine) Detokenize(ctx context.Context, q *engine.DetokenizeRequest) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", cancelled(err)
	}
	g, _, err := e.generator(q.Model, q.Tenant)
	if err != nil {
		return "", err
	}
	if n := len(q.Tokens); n > g.info.ContextTokens {
		return "", fault.New(fault.CodeContextLength, g.info.ContextTokens, n).WithParam("tokens")
	}
	for i, id := range q.Tokens {
		if id < 0 || int(id) >= g.tokens.Size() {
			field := fmt.Sprintf("tokens[%d]", i)
			return "", fault.New(fault.CodeInvalidValue, field, fault.Say("model.unknown_token", g.tokens.Size())).WithParam(field)
		}
	}
	return spelled(g.tokens, q.Tokens), nil
}

// spelled is the text of tokens, those that are no text by their names. What stands between such tokens is decoded by itself, as it was encoded.
func spelled(t tokenizer.Tokenizer, ids []int32) string {
	var out strings.Builder
	from := 0
	for i, id := range ids {
		if len(t.Bytes(id)) > 0 {
			continue
		}
		out.WriteString(t.Decode(ids[from:i]))
		out.WriteString(t.Name(id))
		from = i + 1
	}
	out.WriteString(t.Decode(ids[from:]))
	return out.String()
}
