package exec

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/kernel"
)

// Tensor is a weight as a model file stores it: rows of numbers that are converted when they are asked for.
type Tensor interface {
	Rows() int
	Cols() int
	Row(i int, dst []float32)
}

// newConstant says how a weight of the graph is packed: its parts one below the other.
func newConstant(w *graph.Value, tensors func(name string) (Tensor, error), threads int) (constant, error) {
	rows, cols := 1, w.Type.Cols()
	if isMatrix(w) {
		rows = w.Type.Shape[0].N
	} else {
		cols = w.Type.Shape[0].N
	}
	s := &stack{rows: rows, cols: cols}
	if w.Weight.Data != nil {
		s.parts = []Tensor{data{cols: cols, x: w.Weight.Data}}
	}
	for _, name := range w.Weight.Parts {
		t, err := tensors(name)
		if err != nil {
			return constant{}, fmt.Errorf("weight %q: %w", w.Name, err)
		}
		s.parts = append(s.parts, t)
	}
	if err := s.check(); err != nil {
		return constant{}, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	if !isMatrix(w) {
		return constant{name: w.Name, bytes: 4 * cols, fill: func(mem []byte) error { s.vector(mem); return nil }}, nil
	}
	f, err := kernelFormat(w)
	if err != nil {
		return constant{}, err
	}
	return constant{name: w.Name, bytes: kernel.MatrixBytes(f, rows, cols), format: f, stack: s, fill: func(mem []byte) error {
		return s.pack(kernel.NewMatrix(f, rows, cols, mem), nil, threads)
	}}, nil
}

// view makes a weight of packed bytes.
func view(w *graph.Value, mem []byte) (packed, error) {
	if !isMatrix(w) {
		return packed{vector: unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), len(mem)/4)}, nil
	}
	f, err := kernelFormat(w)
	if err != nil {
		return packed{}, err
	}
	return packed{matrix: kernel.NewMatrix(f, w.Type.Shape[0].N, w.Type.Cols(), mem)}, nil
}

// data is a tensor whose numbers the graph holds itself.
type data struct {
	cols int
	x    []float32
}

func (d data) Rows() int                { return len(d.x) / d.cols }
func (d data) Cols() int                { return d.cols }
func (d data) Row(i int, dst []float32) { copy(dst, d.x[i*d.cols:(i+1)*d.cols]) }

// stack is tensors one below the other. A vector may be made of several parts, too: they follow one another.
type stack struct {
	rows, cols int
	parts      []Tensor
}

func (s *stack) check() error {
	rows, cells := 0, 0
	for _, t := range s.parts {
		rows, cells = rows+t.Rows(), cells+t.Rows()*t.Cols()
		if s.rows > 1 && t.Cols() != s.cols {
			return fmt.Errorf("a part has rows of %d, not %d", t.Cols(), s.cols)
		}
	}
	if cells != s.rows*s.cols {
		return fmt.Errorf("its parts have %d elements, not %d", cells, s.rows*s.cols)
	}
	return nil
}

// heights are the rows of the parts.
func (s *stack) heights() []int {
	if s == nil {
		return nil
	}
	rows := make([]int, len(s.parts))
	for i, t := range s.parts {
		rows[i] = t.Rows()
	}
	return rows
}

// vector writes all parts one after the other.
func (s *stack) vector(mem []byte) {
	dst := unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), len(mem)/4)
	for _, t := range s.parts {
		for r := range t.Rows() {
			t.Row(r, dst[:t.Cols()])
			dst = dst[t.Cols():]
		}
	}
}

// panelRows is the number of rows that one goroutine packs at a time: a panel must not be written by two.
const panelRows = 64

// pack fills a matrix, several panels at a time. energy weighs the errors of the columns of eight-bit weights; nil: all alike.
func (s *stack) pack(m *kernel.Matrix, energy []float32, threads int) error {
	var group errgroup.Group
	group.SetLimit(max(1, threads))
	for from := 0; from < s.rows; from += panelRows {
		group.Go(func() error {
			p := packer{m: m, cols: s.cols, fitter: fitter{energy: energy}}
			for r := from; r < min(from+panelRows, s.rows); r++ {
				t, i := s.find(r)
				if err := p.row(r, t, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// find returns the tensor that holds a row of the stack, and which of its rows that is.
func (s *stack) find(r int) (Tensor, int) {
	for _, t := range s.parts {
		if n := t.Rows(); r >= n {
			r -= n
			continue
		}
		return t, r
	}
	panic("exec: row outside the stack")
}

// packer converts rows with scratch memory of its own.
type packer struct {
	m      *kernel.Matrix
	cols   int
	fitter fitter
	x      []float32
	q      []int8
	d, o   []float32
}

// plain returns a row in float32.
func (p *packer) plain(t Tensor, i int) []float32 {
	if p.x == nil {
		p.x = make([]float32, p.cols)
	}
	t.Row(i, p.x)
	return p.x
}

func (p *packer) row(r int, t Tensor, i int) error {
	blocks, ok := t.(*gguf.Tensor)
	switch f := p.m.Format(); {
	case f == kernel.F32 || f == kernel.F16:
		p.m.SetRow(r, p.plain(t, i))
	case f == kernel.I8:
		x := p.plain(t, i)
		if p.q == nil {
			p.q = make([]int8, p.cols)
		}
		p.m.SetScaledRow(r, p.q, p.fitter.fit(p.q, x))
	case f == kernel.Q8 && (!ok || !blocks.Type.HasBlocks()):
		p.requantize(r, p.plain(t, i))
	case !ok:
		return errors.New("it is not stored in blocks")
	default:
		return p.stored(r, blocks, i)
	}
	return nil
}

// stored packs a row whose integers the file has.
func (p *packer) stored(r int, t *gguf.Tensor, i int) error {
	switch p.m.Format() {
	case kernel.Q4K, kernel.Q5K:
		var k gguf.KBlock
		raw := t.Raw(i)
		for b := range p.cols / 256 {
			k.Decode(t.Type, raw[b*len(raw)/(p.cols/256):])
			p.m.SetK(r, b, k.D, k.DMin, &k.Scales, &k.Offsets, &k.Q)
		}
		return nil
	case kernel.Q6K:
		var k gguf.Q6KBlock
		raw := t.Raw(i)
		for b := range p.cols / 256 {
			k.Decode(raw[b*len(raw)/(p.cols/256):])
			p.m.SetQ6K(r, b, k.D, &k.Scales, &k.Q)
		}
		return nil
	default:
	}
	p.growBlocks()
	t.Blocks(i, p.q, p.d, p.o)
	switch {
	case kernel.Fits(p.m.Format(), p.q, p.d, p.o):
		p.m.SetBlocks(r, p.q, p.d, p.o)
	case p.m.Format() == kernel.Q8:
		p.requantize(r, p.plain(t, i))
	default:
		return fmt.Errorf("row %d of tensor %q has scales that %v weights cannot hold; use the plan f16", i, t.Name, p.m.Format())
	}
	return nil
}

func (p *packer) growBlocks() {
	if p.d == nil {
		p.q, p.d, p.o = make([]int8, p.cols), make([]float32, p.cols/32), make([]float32, p.cols/32)
	}
}

// maxHalf is the largest number of half precision.
const maxHalf = 65504

// roundToHalf makes scales what half precision can store; half is room for them.
func roundToHalf(d []float32, half []uint16) {
	for i, v := range d {
		d[i] = min(v, maxHalf)
	}
	k := kernel.Generic()
	k.ToHalf(half, d)
	k.FromHalf(d, half)
}

// requantize stores a row in Q8 that the file has in another format: each block under the scale max|x|/127 in half precision.
func (p *packer) requantize(r int, x []float32) {
	p.growBlocks()
	clear(p.o)
	half := make([]uint16, len(p.d))
	for b := range p.d {
		top := float32(0)
		for _, v := range x[b*32 : b*32+32] {
			top = max(top, magnitude(v))
		}
		p.d[b] = top / 127
	}
	roundToHalf(p.d, half)
	for i, v := range x {
		p.q[i] = 0
		if d := p.d[i/32]; d > 0 {
			p.q[i] = int8(code(v / d))
		}
	}
	p.m.SetBlocks(r, p.q, p.d, p.o)
}
