package httpapi

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// chat answers POST /v1/chat/completions, and the frames of a WebSocket.
func (a *API) chat(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	decode := chatCall
	if a.dialect(c) == a.dialects.socket {
		decode = socketCall
	}
	return a.generate(c, who, call, decode, chatShape{})
}

// completion answers POST /v1/completions.
func (a *API) completion(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	return a.generate(c, who, call, completionCall, completionShape{})
}

// inOnePiece answers a request whose answer is no stream: decode reads its body, and run has it answered and renders the answer.
func (a *API) inOnePiece(c *gin.Context, who identity.Principal, call *gateway.Call, decode func(*fields) error, run func(context.Context) (gateway.Head, any, error)) error {
	f, done, err := a.body(c, who)
	defer done()
	if err != nil {
		return err
	}
	if err := decode(f); err != nil {
		return err
	}
	ctx, err := a.once(c, who, call)
	if err != nil {
		return err
	}
	head, answer, err := run(ctx)
	if err != nil {
		return err
	}
	a.headHeaders(c, head)
	a.writeJSON(c, http.StatusOK, answer)
	return nil
}

// counted answers a question for the length of a prompt; render makes the answer of it.
func (a *API) counted(c *gin.Context, who identity.Principal, call *gateway.Call, decode func(*fields) error, render func(*gateway.CountReply, *extension) any) error {
	return a.inOnePiece(c, who, call, decode, func(ctx context.Context) (gateway.Head, any, error) {
		reply, err := a.pipeline.Count(ctx, call)
		if err != nil {
			return gateway.Head{}, nil, err
		}
		x := extend(reply.Head, reply.Summary)
		x.Estimated = !reply.Exact
		return reply.Head, render(reply, x), nil
	})
}

// scored answers a question for scores; render makes the answer of them.
func (a *API) scored(c *gin.Context, who identity.Principal, call *gateway.Call, decode func(*fields) error, render func(*gateway.ScoreReply, *extension) (any, error)) error {
	return a.inOnePiece(c, who, call, decode, func(ctx context.Context) (gateway.Head, any, error) {
		reply, err := a.pipeline.Score(ctx, call)
		if err != nil {
			return gateway.Head{}, nil, err
		}
		answer, err := render(reply, extend(reply.Head, reply.Summary))
		return reply.Head, answer, err
	})
}

// embedded answers a question for vectors; render makes the answer of them.
func (a *API) embedded(c *gin.Context, who identity.Principal, call *gateway.Call, decode func(*fields) error, render func(*gateway.EmbedReply, *extension) any) error {
	return a.inOnePiece(c, who, call, decode, func(ctx context.Context) (gateway.Head, any, error) {
		reply, err := a.pipeline.Embed(ctx, call)
		if err != nil {
			return gateway.Head{}, nil, err
		}
		return reply.Head, render(reply, extend(reply.Head, reply.Summary)), nil
	})
}

type decoder func(f *fields, choices int, c *gateway.Call) (options, error)

func (a *API) generate(c *gin.Context, who identity.Principal, call *gateway.Call, decode decoder, s shape) error {
	f, done, err := a.body(c, who)
	defer done()
	if err != nil {
		return err
	}
	opt, err := decode(f, a.cfg.MaxChoices, call)
	if err != nil {
		return err
	}
	return a.answered(c, who, call, s, opt)
}

// answered has a decoded call answered, in the form of its endpoint.
func (a *API) answered(c *gin.Context, who identity.Principal, call *gateway.Call, s shape, opt options) error {
	if opt.stream && a.keyed(c, call) {
		return fault.New(fault.CodeUnsupported, headerIdempotencyKey, fault.Say("httpapi.idempotent_stream")).WithParam(headerIdempotencyKey)
	}
	call.Blocking = !opt.stream
	ctx, err := a.once(c, who, call)
	if err != nil {
		return err
	}
	reply, err := a.pipeline.Chat(ctx, call)
	if err != nil {
		return err
	}
	defer reply.Close()
	setCache(c, reply)
	if opt.stream {
		return a.streamed(c, reply, s, opt)
	}
	c.Set(keySubject, reply.Subject)
	answer, err := reply.Collect()
	if err != nil {
		return &withHead{reply.Head, err}
	}
	setCache(c, reply) // now it stands
	a.headHeaders(c, reply.Head)
	a.writeJSON(c, http.StatusOK, s.whole(reply, answer, opt))
	return nil
}

// streamed writes the events as they come, in the form of their endpoint.
func (a *API) streamed(c *gin.Context, reply *gateway.Reply, s shape, opt options) error {
	out := a.stream(c, reply.Head)
	defer out.close()
	w := s.writer(reply, opt)
	first := true
	for ev, err := range reply.Events() {
		if err != nil {
			return out.fail(&withHead{reply.Head, err}, w)
		}
		if first { // now it stands
			first = false
			out.setCache(reply)
		}
		if !w.event(out, ev) {
			return nil
		}
		if ev.Usage == nil && !out.flush(ev.More) { // the end marker follows the last
			return nil
		}
	}
	_ = w.end(out) && out.flush(false)
	return nil
}

// withHead is a failure of an admitted call: it carries the receipt and the limits to the error's headers.
type withHead struct {
	head gateway.Head
	err  error
}

func (w *withHead) Error() string { return w.err.Error() }
func (w *withHead) Unwrap() error { return w.err }

// embedding answers POST /v1/embeddings.
func (a *API) embedding(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	var opt options
	decode := func(f *fields) (err error) {
		opt, err = embeddingCall(f, call)
		return err
	}
	return a.embedded(c, who, call, decode, func(reply *gateway.EmbedReply, x *extension) any {
		n := int(reply.Usage.PromptTokens)
		out := openai.EmbeddingList{
			Object: openai.ObjectList, Model: string(call.Model), Usage: openai.EmbeddingUsage{PromptTokens: n, TotalTokens: n},
			Data: make([]openai.Embedding, len(reply.Vectors)), Sluice: x,
		}
		for i, v := range reply.Vectors {
			out.Data[i] = openai.Embedding{Object: openai.ObjectEmbedding, Index: i, Embedding: vector(v, opt.base64)}
		}
		return out
	})
}

// hit is one passage of a search reply.
type hit struct {
	gateway.Citation

	Text string `json:"text"`
}

// passage answers POST /v1/rag/passages: a passage that was cited, and those around it.
func (a *API) passage(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	f, done, err := a.body(c, who)
	defer done()
	if err != nil {
		return err
	}
	if err := passageCall(f, call); err != nil {
		return err
	}
	reply, err := a.pipeline.Passage(c.Request.Context(), call)
	if err != nil {
		return err
	}
	type piece struct {
		Section string `json:"section,omitempty"`
		Chunk   int    `json:"chunk"`
		Start   int    `json:"start"`
		End     int    `json:"end"`
		Text    string `json:"text"`
		Quoted  bool   `json:"quoted"` // it is the passage that was asked for
	}
	pieces := make([]piece, len(reply.Passages))
	for i, p := range reply.Passages {
		pieces[i] = piece{Section: p.Section, Chunk: p.Chunk, Start: p.Start, End: p.End, Text: p.Text, Quoted: p.Chunk == call.Passage.Chunk}
	}
	of := reply.Passages[0]
	reply.Citations = nil // the pieces say it
	a.headHeaders(c, reply.Head)
	a.writeJSON(c, http.StatusOK, struct {
		Object     string     `json:"object"`
		Collection string     `json:"collection"`
		Document   string     `json:"document"`
		Title      string     `json:"title,omitempty"`
		DocumentID string     `json:"document_id"`
		Version    string     `json:"version"`
		Data       []piece    `json:"data"`
		Sluice     *extension `json:"sluice"`
	}{openai.ObjectList, of.Collection, of.Document, of.Title, of.DocumentID, of.Version, pieces, extend(reply.Head, reply.Summary)})
	return nil
}

// search answers POST /v1/rag/search.
func (a *API) search(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	f, done, err := a.body(c, who)
	defer done()
	if err != nil {
		return err
	}
	if err := searchCall(f, call); err != nil {
		return err
	}
	reply, err := a.pipeline.Search(c.Request.Context(), call)
	if err != nil {
		return err
	}
	hits := make([]hit, len(reply.Passages))
	for i, p := range reply.Passages {
		hits[i] = hit{Citation: reply.Citations[i], Text: p.Text}
	}
	reply.Citations = nil // the hits carry them
	a.headHeaders(c, reply.Head)
	a.writeJSON(c, http.StatusOK, struct {
		Object string     `json:"object"`
		Data   []hit      `json:"data"`
		Sluice *extension `json:"sluice"`
	}{openai.ObjectList, hits, extend(reply.Head, reply.Summary)})
	return nil
}
