package remote

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/fault"
)

// tokensReply bounds the reply to a question for the tokens of a prompt of so many bytes, each of which may be a token of its own.
func tokensReply(size int) int64 { return 256<<10 + 64*int64(size) }

// tellsTokens reports whether the upstream says which tokens a prompt has, in a form that is known.
func (m model) tellsTokens() bool {
	return m.task() == generates && m.profile.Claims(capability.Tokens) && m.profile.Endpoints.Tokenize != ""
}

// Tokens implements engine.Engine by the upstream's own question for them. Their texts are as the upstream writes them.
func (e *Engine) Tokens(ctx context.Context, p *engine.Prompt) (*engine.TokenList, error) {
	req := p.Request
	if req == nil {
		return nil, engine.ErrOtherWork
	}
	m, err := e.model(ctx, req.Model, generates)
	if err != nil {
		return nil, err
	}
	if !m.tellsTokens() {
		return nil, unsupported("model", fault.Say("model.no_tokens"))
	}
	var out *engine.TokenList
	if m.profile.Tokenizer.Form == profile.TokensOfLlama {
		out, err = e.tokensOfLlama(ctx, m, req)
	} else {
		out, err = e.tokensOfVLLM(ctx, m, req)
	}
	if err != nil {
		return nil, err
	}
	for _, id := range out.IDs {
		if id < 0 {
			return nil, fault.Wrap(errors.New("a token below 0"), fault.CodeUpstreamFailed, m.ID)
		}
	}
	if len(out.IDs) == 0 || out.Texts != nil && len(out.Texts) != len(out.IDs) {
		return nil, fault.Wrap(errors.New("the tokens of the prompt are not complete"), fault.CodeUpstreamFailed, m.ID)
	}
	return out, nil
}

// Detokenize implements engine.Engine. An upstream gets no text that the policy has not masked, and tokens are such a text.
func (e *Engine) Detokenize(ctx context.Context, q *engine.DetokenizeRequest) (string, error) {
	if _, err := e.model(ctx, q.Model, generates); err != nil {
		return "", err
	}
	return "", unsupported("model", fault.Say("model.no_detokenize"))
}

func (e *Engine) tokensOfVLLM(ctx context.Context, m model, req *engine.Request) (*engine.TokenList, error) {
	body := struct {
		Model    string               `json:"model"`
		Prompt   *string              `json:"prompt,omitempty"`
		Messages []openai.ChatMessage `json:"messages,omitempty"`
		Tools    []openai.Tool        `json:"tools,omitempty"`
		Special  *bool                `json:"add_special_tokens,omitempty"`
		Texts    bool                 `json:"return_token_strs"`
	}{Model: m.Upstream, Texts: true}
	if req.Messages == nil {
		special := !req.OmitBegin
		body.Prompt, body.Special = &req.Prompt, &special
	} else {
		var err error
		if body.Messages, body.Tools, err = turns(m, req); err != nil {
			return nil, err
		}
	}
	var reply struct {
		Tokens []int32  `json:"tokens"`
		Texts  []string `json:"token_strs"`
	}
	if err := e.askRoot(ctx, m, m.profile.Endpoints.Tokenize, body, promptBytes(req), &reply); err != nil {
		return nil, err
	}
	return &engine.TokenList{IDs: reply.Tokens, Texts: reply.Texts}, nil
}

// tokensOfLlama has the server of llama.cpp render a chat before it is asked for the tokens of the text.
func (e *Engine) tokensOfLlama(ctx context.Context, m model, req *engine.Request) (*engine.TokenList, error) {
	text := req.Prompt
	if req.Messages != nil {
		messages, tools, err := turns(m, req)
		if err != nil {
			return nil, err
		}
		var rendered struct {
			Prompt string `json:"prompt"`
		}
		body := struct {
			Messages []openai.ChatMessage `json:"messages"`
			Tools    []openai.Tool        `json:"tools,omitempty"`
		}{messages, tools}
		if err := e.askRoot(ctx, m, "/apply-template", body, promptBytes(req), &rendered); err != nil {
			return nil, err
		}
		text = rendered.Prompt
	}
	var reply struct {
		Tokens []struct {
			ID    int32           `json:"id"`
			Piece json.RawMessage `json:"piece"` // a text, or the bytes of one that is none
		} `json:"tokens"`
	}
	body := struct {
		Content string `json:"content"`
		Special bool   `json:"add_special"`
		Parse   bool   `json:"parse_special"`
		Pieces  bool   `json:"with_pieces"`
	}{text, !req.OmitBegin, true, true}
	if err := e.askRoot(ctx, m, m.profile.Endpoints.Tokenize, body, len(text), &reply); err != nil {
		return nil, err
	}
	out := &engine.TokenList{IDs: make([]int32, len(reply.Tokens)), Texts: make([]string, len(reply.Tokens))}
	for i, t := range reply.Tokens {
		out.IDs[i] = t.ID
		if json.Unmarshal(t.Piece, &out.Texts[i]) != nil {
			out.Texts[i] = "\uFFFD"
		}
	}
	return out, nil
}

// turns are the messages and the tools of a chat as the dialect has them.
func turns(m model, req *engine.Request) ([]openai.ChatMessage, []openai.Tool, error) {
	c := openai.ChatRequest{Messages: make([]openai.ChatMessage, len(req.Messages))}
	for i := range req.Messages {
		c.Messages[i] = message(&req.Messages[i])
	}
	err := offer(m, req, &c)
	return c.Messages, c.Tools, err
}

func (e *Engine) askRoot(ctx context.Context, m model, path string, body any, size int, reply any) error {
	return e.ask(ctx, m, path, body, apiCall{needs: size / 4, root: true}, tokensReply(size), reply)
}
