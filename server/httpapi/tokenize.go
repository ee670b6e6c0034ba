package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// tokenize answers POST /v1/tokenize: how many tokens a prompt has, masked, and how many the model takes. Which they are, engines do not tell.
func (a *API) tokenize(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	decode := func(f *fields) error { return tokenizeCall(f, call) }
	return a.counted(c, who, call, decode, func(reply *gateway.CountReply, x *extension) any {
		return struct {
			Count  int        `json:"count"`
			Most   int        `json:"max_model_len"`
			Sluice *extension `json:"sluice"`
		}{reply.Tokens, reply.Context, x}
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
	}
	for _, field := range []string{"return_token_strs", "continue_final_message", "chat_template"} {
		if raw, ok := f.raw(field); ok && raw != "false" {
			f.unsupported(field, fault.Say("httpapi.tokenize"))
		}
	}
	for _, field := range []string{"add_special_tokens", "add_generation_prompt"} {
		if raw, ok := f.raw(field); ok && raw != "true" {
			f.unsupported(field, fault.Say("httpapi.tokenize"))
		}
	}
	if _, ok := f.raw("rag"); ok { // passages are looked for only where they are used
		f.unsupported("rag", fault.Say("httpapi.leave_out"))
	}
	sluiceOptions(f, c)
	return f.err
}
