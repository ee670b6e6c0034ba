package native

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// encoder is a model that turns texts into vectors of length one. A vector depends on its text alone, not on the other texts of a
// call or the number of threads.
//
// Its methods are safe for concurrent use. One batch is computed at a time, on all threads; calls take turns, and leave when their
// context ends.
type encoder struct {
	info   engine.Model
	tokens tokenizer.Encoder
	prog   *exec.Program
	pool   *exec.Pool

	gate   chan struct{} // holds the one pass, for one batch at a time
	closed chan struct{}
	pass   *exec.Pass
}

// encoderRows bounds the tokens that are computed together, except that a text is never split.
const encoderRows = 256

func (o *opener) encoder(c *compiled) (*encoder, error) {
	tokens, err := encoderTokens(c.files)
	if err != nil {
		return nil, err
	}
	if vocab := c.files.Config.Vocab; tokens.Size() > vocab {
		return nil, fmt.Errorf("the tokenizer has %d tokens, the embedding %d", tokens.Size(), vocab)
	}
	c.info.CanEmbed, c.info.EmbedDim = true, c.prog.Outputs()
	e := &encoder{info: c.info, tokens: tokens, prog: c.prog, pool: exec.NewPool(o.cfg.Threads), gate: make(chan struct{}, 1), closed: make(chan struct{})}
	e.pass = c.prog.NewPass(o.kernels, e.pool)
	return e, nil
}

func (e *encoder) close() error {
	close(e.closed)
	e.gate <- struct{}{} // waits for a batch that is being computed, for good
	e.pool.Close()
	return e.prog.Close()
}

// embed returns the vectors of texts, in order, and how many tokens it read. A text that is too long is refused with
// CodeContextLength; nothing is cut off silently.
func (e *encoder) embed(ctx context.Context, texts []string) ([][]float32, int, error) {
	ids := make([][]int32, len(texts))
	tokens := 0
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, 0, cancelled(err)
		}
		ids[i] = e.tokens.Encode(text)
		if n := len(ids[i]); n > e.info.ContextTokens {
			return nil, 0, fault.New(fault.CodeContextLength, e.info.ContextTokens, n).WithParam(fmt.Sprintf("input[%d]", i))
		}
		if len(ids[i]) == 0 {
			param := fmt.Sprintf("input[%d]", i)
			return nil, 0, fault.New(fault.CodeInvalidValue, param, fault.Say("the model has no token for it", "模型没有与之对应的 token")).WithParam(param)
		}
		tokens += len(ids[i])
	}
	vectors := make([][]float32, 0, len(texts))
	for len(ids) > 0 {
		n := batch(ids)
		var err error
		if vectors, err = e.next(ctx, vectors, ids[:n]); err != nil {
			return nil, 0, err
		}
		ids = ids[n:]
	}
	return vectors, tokens, nil
}

// next computes one batch when its turn has come: a long call does not keep short ones waiting.
func (e *encoder) next(ctx context.Context, vectors [][]float32, ids [][]int32) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	select {
	case <-e.closed:
		return nil, fault.New(fault.CodeEngineUnavailable, string(e.info.ID))
	case <-ctx.Done():
		return nil, cancelled(ctx.Err())
	case e.gate <- struct{}{}:
		defer func() { <-e.gate }()
		return e.compute(vectors, ids), nil
	}
}

// batch returns how many of the texts are computed together; at least one.
func batch(ids [][]int32) int {
	rows := 0
	for i := range ids {
		if rows += len(ids[i]); rows > encoderRows {
			return max(1, i)
		}
	}
	return len(ids)
}

// compute appends the vectors of some texts.
func (e *encoder) compute(vectors [][]float32, ids [][]int32) [][]float32 {
	p := e.pass
	p.Rows = p.Rows[:0]
	caches := make([]*exec.Cache, len(ids))
	for i, text := range ids {
		caches[i] = p.Pages().NewCache()
		reserve(caches[i], len(text))
		for pos, id := range text {
			p.Rows = append(p.Rows, exec.Row{Token: id, Cache: caches[i], Pos: pos})
		}
		caches[i].Advance(len(text))
	}
	p.Run()
	for i := range ids {
		vectors = append(vectors, slices.Clone(p.Result(i)))
		caches[i].Release()
	}
	return vectors
}
