package native

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/fault"
)

// bert is an encoder that turns texts into vectors of length one: the mean of the last layer over all tokens. It computes in
// float32; keys and values of the attention are rounded to half precision, which moves the cosine to the exact vector by less than
// 1e-6. A vector depends on its text alone, not on the other texts of a call or the number of threads.
//
// Its methods are safe for concurrent use. One call computes at a time, on all threads; others wait, and leave when their context ends.
type bert struct {
	kernels kernel.Kernels
	threads int
	tokens  *tokenizer.WordPiece
	sum     string
	bertShape

	words     []float32 // vocabulary × width
	positions []float32 // limit × width, token type included
	norm      layerNorm
	layers    []bertLayer

	gate    chan struct{} // holds the one scratch
	scratch *bertScratch
}

type bertShape struct {
	width, heads, hidden, limit int
	epsilon                     float64
}

type bertLayer struct {
	qkv, out, up, down linear
	attention, output  layerNorm
}

type linear struct {
	w    *kernel.Matrix
	bias []float32
}

type layerNorm struct{ scale, bias []float32 }

// bertScratch is the room for the rows of one batch.
type bertScratch struct {
	x      *kernel.Activations // rows × width: the residual stream
	mix    *kernel.Activations // rows × width: what attention gives
	hidden *kernel.Activations // rows × hidden
	wide   []float32           // rows × max(3·width, hidden): products
	narrow []float32           // rows × width: products
	keys   []uint16            // heads × rows × head width
	values []uint16
	scores []float32 // heads × rows: one row of attention per head
}

// dim returns the length of a vector.
func (b *bert) dim() int { return b.width }

// digest returns "sha256:<hex>" of the weights.
func (b *bert) digest() string { return b.sum }

// contextTokens returns how many tokens one text may have, [CLS] and [SEP] included.
func (b *bert) contextTokens() int { return b.limit }

// embed returns the vectors of texts, in order, and how many tokens it read. A text that is too long is refused with
// CodeContextLength; nothing is cut off silently.
func (b *bert) embed(ctx context.Context, texts []string) ([][]float32, int, error) {
	ids := make([][]int32, len(texts))
	tokens := 0
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, 0, cancelled(err)
		}
		ids[i] = b.tokens.Encode(text)
		if n := len(ids[i]); n > b.limit {
			return nil, 0, fault.New(fault.CodeContextLength, b.limit, n).WithParam(fmt.Sprintf("input[%d]", i))
		}
		tokens += len(ids[i])
	}
	select {
	case b.gate <- struct{}{}:
		defer func() { <-b.gate }()
	case <-ctx.Done():
		return nil, 0, cancelled(ctx.Err())
	}
	vectors := make([][]float32, 0, len(texts))
	for len(ids) > 0 {
		batch := b.take(ids)
		if err := b.forward(ctx, ids[:batch]); err != nil {
			return nil, 0, err
		}
		vectors = b.pool(vectors, ids[:batch])
		ids = ids[batch:]
	}
	return vectors, tokens, nil
}

// take returns how many of the texts fit one batch; at least one does.
func (b *bert) take(ids [][]int32) int {
	rows := 0
	for i := range ids {
		rows += len(ids[i])
		if rows > b.limit {
			return i
		}
	}
	return len(ids)
}

// forward leaves the last layer's rows of the texts in the scratch. It looks at ctx before every layer.
func (b *bert) forward(ctx context.Context, ids [][]int32) error {
	rows := b.lookUp(ids)
	for i := range b.layers {
		if err := ctx.Err(); err != nil {
			return cancelled(err)
		}
		b.layer(&b.layers[i], ids, rows)
	}
	return nil
}

// lookUp writes the embeddings of all tokens to the residual stream and returns the number of rows.
func (b *bert) lookUp(ids [][]int32) int {
	s, row := b.scratch, 0
	for _, text := range ids {
		for at, id := range text {
			x := s.x.Row(row)
			word, place := b.words[int(id)*b.width:], b.positions[at*b.width:]
			for i := range x {
				x[i] = word[i] + place[i]
			}
			row++
		}
	}
	b.parallel(row, func(from, to int) {
		for r := from; r < to; r++ {
			b.norm.apply(s.x.Row(r), b.epsilon)
		}
	})
	return row
}

func (b *bert) layer(l *bertLayer, ids [][]int32, rows int) {
	s := b.scratch
	b.multiply(s.wide, &l.qkv, s.x, rows)
	first := 0
	for _, text := range ids {
		b.attend(first, len(text), l.qkv.bias)
		first += len(text)
	}
	b.multiply(s.narrow, &l.out, s.mix, rows)
	b.join(&l.attention, l.out.bias, rows)

	b.multiply(s.wide, &l.up, s.x, rows)
	stride := l.up.w.Stride()
	b.parallel(rows, func(from, to int) {
		for r := from; r < to; r++ {
			gelu(s.hidden.Row(r), s.wide[r*stride:], l.up.bias)
		}
	})
	b.multiply(s.narrow, &l.down, s.hidden, rows)
	b.join(&l.output, l.down.bias, rows)
}

// join adds the products in narrow and their bias to the residual stream and normalises it.
func (b *bert) join(norm *layerNorm, bias []float32, rows int) {
	s := b.scratch
	b.parallel(rows, func(from, to int) {
		for r := from; r < to; r++ {
			x := s.x.Row(r)
			b.kernels.Add(x, s.narrow[r*b.width:(r+1)*b.width])
			b.kernels.Add(x, bias)
			norm.apply(x, b.epsilon)
		}
	})
}

func (b *bert) multiply(dst []float32, l *linear, a *kernel.Activations, rows int) {
	b.parallel(l.w.Panels(), func(from, to int) { b.kernels.Mul(dst, l.w.Stride(), l.w, from, to, a, rows, false, nil) })
}

// attend mixes the rows of one text: n rows from first on, each head by itself.
func (b *bert) attend(first, n int, bias []float32) {
	s, size := b.scratch, b.width/b.heads
	scale := float32(1 / math.Sqrt(float64(size)))
	stride := 3 * b.width
	part := func(row, which, head int, dst []float32) []float32 {
		at := which*b.width + head*size
		copy(dst, s.wide[row*stride+at:][:size])
		b.kernels.Add(dst, bias[at:at+size])
		return dst
	}
	b.parallel(b.heads, func(from, to int) {
		vector := make([]float32, size)
		for h := from; h < to; h++ {
			at := h * b.limit * size
			keys, values := s.keys[at:at+n*size], s.values[at:at+n*size]
			scores := s.scores[h*b.limit:][:n]
			for i := range n {
				b.kernels.ToHalf(keys[i*size:][:size], part(first+i, 1, h, vector))
				b.kernels.ToHalf(values[i*size:][:size], part(first+i, 2, h, vector))
			}
			for i := range n {
				b.kernels.Scores(scores, part(first+i, 0, h, vector), keys, scale)
				b.mixRow(s.mix.Row(first + i)[h*size:][:size], scores, values)
			}
		}
	})
}

// mixRow writes the mean of values, weighted by the softmax of scores, which it uses up.
func (b *bert) mixRow(dst, scores []float32, values []uint16) {
	top := scores[0]
	for _, v := range scores {
		top = max(top, v)
	}
	inverse := 1 / b.kernels.ExpSum(scores, top)
	clear(dst)
	b.kernels.Combine(dst, scores, values)
	for i := range dst {
		dst[i] *= inverse
	}
}

// pool appends the mean of every text's rows, brought to length one.
func (b *bert) pool(vectors [][]float32, ids [][]int32) [][]float32 {
	row := 0
	for _, text := range ids {
		sum := make([]float64, b.width)
		for range text {
			for i, v := range b.scratch.x.Row(row) {
				sum[i] += float64(v)
			}
			row++
		}
		vectors = append(vectors, unit(sum))
	}
	return vectors
}

func unit(sum []float64) []float32 {
	square := 0.0
	for _, v := range sum {
		square += v * v
	}
	length := max(math.Sqrt(square), 1e-12)
	out := make([]float32, len(sum))
	for i, v := range sum {
		out[i] = float32(v / length)
	}
	return out
}

// parallel calls fn for the parts of 0 to units−1, on as many goroutines as the encoder may use.
func (b *bert) parallel(units int, fn func(from, to int)) {
	threads := min(b.threads, units)
	if threads <= 1 {
		fn(0, units)
		return
	}
	chunk := max(1, units/(4*threads))
	var next atomic.Int64
	work := func() {
		for {
			to := int(next.Add(int64(chunk)))
			from := to - chunk
			if from >= units {
				return
			}
			fn(from, min(to, units))
		}
	}
	var group sync.WaitGroup
	for range threads - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
}

// apply normalises x to mean 0 and variance 1, then scales and shifts it.
func (n *layerNorm) apply(x []float32, epsilon float64) {
	mean := 0.0
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	variance := 0.0
	for _, v := range x {
		d := float64(v) - mean
		variance += d * d
	}
	inverse := 1 / math.Sqrt(variance/float64(len(x))+epsilon)
	for i, v := range x {
		x[i] = float32((float64(v)-mean)*inverse)*n.scale[i] + n.bias[i]
	}
}

// gelu writes the exact Gaussian error linear unit of x + bias.
func gelu(dst, x, bias []float32) {
	for i := range dst {
		v := float64(x[i] + bias[i])
		dst[i] = float32(0.5 * v * (1 + math.Erf(v*(1/math.Sqrt2))))
	}
}

func (b *bert) newScratch() *bertScratch {
	rows, size := b.limit, b.width/b.heads
	return &bertScratch{
		x: kernel.NewActivations(kernel.Dense, rows, b.width, nil), mix: kernel.NewActivations(kernel.Dense, rows, b.width, nil), hidden: kernel.NewActivations(kernel.Dense, rows, b.hidden, nil),
		wide: make([]float32, rows*max(3*b.width, b.hidden)), narrow: make([]float32, rows*b.width),
		keys: make([]uint16, b.heads*rows*size), values: make([]uint16, b.heads*rows*size), scores: make([]float32, b.heads*rows),
	}
}

func defaultThreads(n int) int {
	if n <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return n
}
