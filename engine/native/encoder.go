package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// encoder is a model that turns texts into vectors of length one, or scores how well documents answer a query. What comes out depends on
// the text alone, or on query and document, never on what else is computed or on the number of threads.
//
// Its methods are safe for concurrent use, but for work: one goroutine at a time calls that.
type encoder struct {
	info                       engine.Model
	tokens                     tokenizer.Encoder
	queryPrefix, passagePrefix string
	prog                       *exec.Program

	queue encoderQueue
	pass  *exec.Pass // for work alone
	batch encoderBatch
}

// encoderOn makes an encoder that computes on the threads of pool when somebody calls work. wake is called, on any goroutine, when
// something has begun to wait.
func (o *opener) encoderOn(c *compiled, pool *exec.Pool, wake func()) (*encoder, error) {
	tokens, err := encoderTokens(c.files)
	if err != nil {
		return nil, err
	}
	cfg := &c.files.Config
	if vocab := cfg.Vocab; tokens.Size() > vocab {
		return nil, fmt.Errorf("the tokenizer has %d tokens, the embedding %d", tokens.Size(), vocab)
	}
	if cfg.Scores {
		if tokens.PairMarks() == 0 {
			return nil, errors.New("the tokenizer joins two texts in a way that this build does not know; it knows that of BERT and RoBERTa")
		}
		c.info.CanScore = true
	} else {
		c.info.CanEmbed, c.info.EmbedDim = true, c.prog.Outputs()
	}
	e := &encoder{info: c.info, tokens: tokens, prog: c.prog, queryPrefix: cfg.QueryPrefix, passagePrefix: cfg.PassagePrefix}
	for _, m := range o.cfg.Models {
		if m.ID != c.info.ID {
			continue
		}
		if m.QueryPrefix != "" {
			e.queryPrefix = m.QueryPrefix
		}
		if m.PassagePrefix != "" {
			e.passagePrefix = m.PassagePrefix
		}
	}
	e.queue.init(string(c.info.ID), wake)
	e.pass = c.prog.NewPass(o.kernels, pool)
	return e, nil
}

// close fails what waits. Nobody calls work any more.
func (e *encoder) close() error {
	e.queue.close()
	return e.prog.Close()
}

// encoderPrompt is what embed and score need of a prompt.
type encoderPrompt struct {
	model *encoder      // whose tokens they are
	texts []encoderText // shared by all who run the prompt: never written
}

func (p *encoderPrompt) tokens() (n int) {
	for _, t := range p.texts {
		n += len(t.ids)
	}
	return n
}

// own returns the texts of p if e has prepared it, else those of p prepared again.
func (e *encoder) own(p *engine.Prompt, again func() (*engine.Prompt, error)) ([]encoderText, error) {
	if own, ok := p.Prepared.(*encoderPrompt); ok && own.model == e {
		return own.texts, nil
	}
	p, err := again()
	if err != nil {
		return nil, err
	}
	return p.Prepared.(*encoderPrompt).texts, nil //nolint:forcetypeassert // e has made it
}

// run computes texts for one tenant and returns a result for each, with the tokens of all.
func (e *encoder) run(ctx context.Context, tenant string, class engine.Class, texts []encoderText) ([][]float32, int, error) {
	call := newEncoderCall(ctx, tenant, class, len(texts))
	for _, t := range texts {
		call.add(t)
	}
	if err := e.queue.run(call); err != nil {
		return nil, 0, err
	}
	return call.results, call.tokens, nil
}

// prepareEmbed tokenises texts. One that is too long is refused with CodeContextLength; nothing is cut off.
func (e *encoder) prepareEmbed(ctx context.Context, req *engine.EmbedRequest) (*engine.Prompt, error) {
	if !e.info.CanEmbed {
		return nil, fault.New(fault.CodeUnsupported, "model", fault.Say("native.vectors_of_scorer")).WithParam("model")
	}
	if dim := e.info.EmbedDim; req.Dimensions < 0 || req.Dimensions > dim {
		return nil, fault.New(fault.CodeInvalidValue, "dimensions", fault.Say("native.vector_range", dim, dim)).WithParam("dimensions")
	}
	prefix := map[engine.InputRole]string{engine.RoleQuery: e.queryPrefix, engine.RolePassage: e.passagePrefix}[req.Role]
	own := &encoderPrompt{e, make([]encoderText, 0, len(req.Input))}
	for i, text := range req.Input {
		if err := ctx.Err(); err != nil {
			return nil, cancelled(err)
		}
		ids, param := e.tokens.Encode(prefix+text), fmt.Sprintf("input[%d]", i)
		if n := len(ids); n > e.info.ContextTokens {
			return nil, fault.New(fault.CodeContextLength, e.info.ContextTokens, n).WithParam(param)
		}
		if len(ids) == 0 {
			return nil, fault.New(fault.CodeInvalidValue, param, fault.Say("native.no_token")).WithParam(param)
		}
		own.texts = append(own.texts, encoderText{index: i, ids: ids, second: len(ids)})
	}
	return &engine.Prompt{Embed: req, Tokens: own.tokens(), Exact: true, Prepared: own}, nil
}

// embed returns the vectors of the texts of a prompt, in order.
func (e *encoder) embed(ctx context.Context, p *engine.Prompt) (*engine.Embeddings, error) {
	req := p.Embed
	texts, err := e.own(p, func() (*engine.Prompt, error) { return e.prepareEmbed(ctx, req) })
	if err != nil {
		return nil, err
	}
	vectors, tokens, err := e.run(ctx, req.Tenant, req.Class, texts)
	if err != nil {
		return nil, err
	}
	for i, v := range vectors {
		vectors[i] = truncate(v, cmp.Or(req.Dimensions, e.info.EmbedDim))
	}
	return &engine.Embeddings{Vectors: vectors, PromptTokens: tokens, Model: engine.ReportedModel(e.info.ID)}, nil
}

// truncate takes the first numbers of a vector and scales them to length one.
func truncate(v []float32, dim int) []float32 {
	if dim == len(v) {
		return v
	}
	v = v[:dim:dim]
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	length := max(math.Sqrt(square), 1e-12)
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
	return v
}

// prepareScore tokenises documents, each with the query. A document that is too long is cut at its end, as such models are trained; the
// query never is.
func (e *encoder) prepareScore(ctx context.Context, req *engine.ScoreRequest) (*engine.Prompt, error) {
	if !e.info.CanScore {
		return nil, fault.New(fault.CodeUnsupported, "model", fault.Say("native.scores_of_embedder")).WithParam("model")
	}
	query := e.tokens.Pieces(req.Query)
	own := &encoderPrompt{e, make([]encoderText, 0, len(req.Documents))}
	for i, document := range req.Documents {
		if err := ctx.Err(); err != nil {
			return nil, cancelled(err)
		}
		pieces, err := e.fit(query, e.tokens.Pieces(document))
		if err != nil {
			return nil, err
		}
		ids, second := e.tokens.Pair(query, pieces)
		own.texts = append(own.texts, encoderText{index: i, ids: ids, second: second})
	}
	return &engine.Prompt{Score: req, Tokens: own.tokens(), Exact: true, Prepared: own}, nil
}

// score says how well each document of a prompt answers the query.
func (e *encoder) score(ctx context.Context, p *engine.Prompt) (*engine.Scores, error) {
	req := p.Score
	texts, err := e.own(p, func() (*engine.Prompt, error) { return e.prepareScore(ctx, req) })
	if err != nil {
		return nil, err
	}
	logits, tokens, err := e.run(ctx, req.Tenant, req.Class, texts)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(logits))
	for i, logit := range logits {
		scores[i] = 1 / (1 + math.Exp(-float64(logit[0])))
	}
	return &engine.Scores{Scores: scores, PromptTokens: tokens, Model: engine.ReportedModel(e.info.ID)}, nil
}

// fit cuts a document that does not go into the context together with the query. It keeps half of the room at least: a query that would
// take more than the other half of it is refused.
func (e *encoder) fit(query, document []int32) ([]int32, error) {
	room := e.info.ContextTokens - e.tokens.PairMarks()
	if len(query)+len(document) <= room {
		return document, nil
	}
	if half := room / 2; len(query) > half {
		return nil, fault.New(fault.CodeContextLength, half, len(query)).WithParam("query")
	}
	return document[:room-len(query)], nil
}
