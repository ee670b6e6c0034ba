package httpapi

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// tokenize answers POST /v1/tokenize in the form of vLLM: how many tokens a prompt has, masked, which they are, and how many the model takes. Where the
// model's engine does not tell them, tokens are null and the count is a bound.
func (a *API) tokenize(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	decode := func(f *fields) error { return tokenizeCall(f, call) }
	return a.inOnePiece(c, who, call, decode, func(ctx context.Context) (gateway.Head, any, error) {
		reply, err := a.pipeline.Tokenize(ctx, call)
		if err != nil {
			return gateway.Head{}, nil, err
		}
		x := extend(reply.Head, reply.Summary)
		x.Estimated = !reply.Exact
		return reply.Head, struct {
			Count  int        `json:"count"`
			Most   int        `json:"max_model_len"`
			Tokens []int32    `json:"tokens"`
			Texts  []string   `json:"token_strs"`
			Sluice *extension `json:"sluice"`
		}{reply.Tokens, reply.Context, reply.IDs, reply.Texts, x}, nil
	})
}

// tokenizeCall decodes a prompt, or messages with tools, in the form of vLLM.
func tokenizeCall(f *fields, c *gateway.Call) error {
	c.Model = model(f)
	_, prompt := f.raw("prompt")
	_, chat := f.raw("messages")
	switch {
	case prompt && chat:
		f.invalid("prompt", fault.Say("httpapi.one_format", "messages"))
	case chat:
		c.Messages = messages(f)
		tools(f, c)
	default:
		c.Prompt = f.needText("prompt")
		if _, said := f.raw("add_special_tokens"); said {
			c.OmitBegin = !f.flag("add_special_tokens")
		}
		var beside gateway.Call // a prompt has no tools; what is there must still be what it says
		if tools(f, &beside); len(beside.Tools) > 0 {
			f.invalid("tools", fault.Say("httpapi.one_format", "prompt"))
		}
	}
	c.TokenTexts = f.flag("return_token_strs")
	for _, field := range []string{"continue_final_message", "chat_template"} {
		if raw, ok := f.raw(field); ok && raw != "false" {
			f.unsupported(field, fault.Say("httpapi.tokenize"))
		}
	}
	if chat { // the template says which control tokens there are
		f.flag("add_special_tokens")
	}
	if raw, ok := f.raw("add_generation_prompt"); ok && raw != "true" {
		f.unsupported("add_generation_prompt", fault.Say("httpapi.tokenize"))
	}
	if _, ok := f.raw("rag"); ok { // passages are looked for only where they are used
		f.unsupported("rag", fault.Say("httpapi.leave_out"))
	}
	sluiceOptions(f, c)
	return f.err
}

// detokenize answers POST /v1/detokenize in the form of vLLM: the text of tokens, as the policy lets it through.
func (a *API) detokenize(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	decode := func(f *fields) error { return detokenizeCall(f, call) }
	return a.inOnePiece(c, who, call, decode, func(ctx context.Context) (gateway.Head, any, error) {
		reply, err := a.pipeline.Detokenize(ctx, call)
		if err != nil {
			return gateway.Head{}, nil, err
		}
		return reply.Head, struct {
			Prompt string     `json:"prompt"`
			Sluice *extension `json:"sluice"`
		}{reply.Text, extend(reply.Head, reply.Summary)}, nil
	})
}

// detokenizeCall decodes tokens. Whether the model has them its engine says.
func detokenizeCall(f *fields, c *gateway.Call) error {
	c.Model = model(f)
	items, ok := f.list("tokens")
	if !ok {
		f.fail(fault.CodeMissing, "tokens")
	}
	c.Tokens = make([]int32, 0, len(items))
	for i, raw := range items {
		id, err := strconv.ParseInt(raw, 10, 32)
		switch at := "tokens[" + strconv.Itoa(i) + "]"; {
		case err == nil && id >= 0:
			c.Tokens = append(c.Tokens, int32(id))
		case !isNumber(raw) || errors.Is(err, strconv.ErrSyntax):
			f.wrongType(at, fault.Say("type.integer"))
		default:
			f.invalid(at, fault.Say("value.whole_range", 0, math.MaxInt32))
		}
	}
	sluiceOptions(f, c)
	return f.err
}
