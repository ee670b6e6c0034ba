package exec

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/engine/kernel"
)

// What rounding the weights of a product costs depends on its inputs x: with H = Σ x·xᵀ, the error of a row of weights that is off by
// e is eᵀ·H·e. Where inputs go together, the error of one column can be made good by others. With H = U·D·Uᵀ, U upper triangular with
// ones on its diagonal, the error is Σ D[k]·(e[k] + Σ_{j<k} e[j]·U[j,k])². So column after column is rounded not to the nearest of
// itself, but of itself less what the columns before it have left over. (This is what is known as GPTQ or LDLQ.)

// damping is added to the diagonal of H in proportion: it stands for all texts that the calibration did not see.
const damping = 0.1

// maxCompensated bounds the columns of matrices whose errors are compensated: the factor takes 8 bytes for each pair of them. Beyond
// it only the energy of each column counts.
const maxCompensated = 8192

// factor is H taken apart, its columns in the order in which they are rounded.
type factor struct {
	n      int
	order  []int
	d      []float64
	blocks []factorBlock
}

// factorBlock is U of blockColumns columns. What the columns before the block have left over comes through a product in float32, what
// those inside it have, column by column.
type factorBlock struct {
	from, to int
	far      *kernel.Matrix // a row for each column of the block, a column for each one before it; nil where there is none
	near     []float64      // of column k and j < k of the block, at k·blockColumns + j
}

const blockColumns = 64

// inputs are the inputs of a product: rows of one calibration text.
type inputs struct {
	rows, cols int
	x          []float32
}

// energies are the mean squares of the columns, 1 on average.
func (in *inputs) energies() []float32 {
	sums, all := make([]float64, in.cols), 0.0
	for r := range in.rows {
		for c, v := range in.x[r*in.cols : (r+1)*in.cols] {
			sums[c] += float64(v) * float64(v)
		}
	}
	for _, v := range sums {
		all += v
	}
	return normalized(sums, all)
}

// normalized divides by the mean and keeps every column above zero.
func normalized(sums []float64, all float64) []float32 {
	out := make([]float32, len(sums))
	for c, v := range sums {
		out[c] = 1
		if all > 0 {
			out[c] = float32(max(v*float64(len(sums))/all, 1e-6))
		}
	}
	return out
}

// gram computes Σ x·xᵀ with the kernels, which give the same bits everywhere.
func (in *inputs) gram(k kernel.Kernels, threads int) ([]float32, int, error) {
	w := kernel.NewMatrix(kernel.F32, in.cols, in.rows, nil)
	a := kernel.NewActivations(kernel.Dense, in.cols, in.rows, nil)
	for c := range in.cols {
		row := a.Row(c)
		for r := range row {
			row[r] = in.x[r*in.cols+c]
		}
		w.SetRow(c, row)
	}
	out := make([]float32, in.cols*w.Stride())
	return out, w.Stride(), parallel(w.Panels(), threads, func(from, to int) error {
		k.Mul(out, w.Stride(), w, from, to, a, in.cols, false, nil)
		return nil
	})
}

// parallel cuts n units into pieces for threads.
func parallel(n, threads int, do func(from, to int) error) error {
	var group errgroup.Group
	group.SetLimit(max(1, threads))
	piece := max(1, n/(4*max(1, threads)))
	for from := 0; from < n; from += piece {
		group.Go(func() error { return do(from, min(from+piece, n)) })
	}
	return group.Wait()
}

// newFactor takes H apart.
func newFactor(k kernel.Kernels, in *inputs, threads int) (*factor, error) {
	n := in.cols
	gram, stride, err := in.gram(k, threads)
	if err != nil {
		return nil, err
	}
	mean := 0.0
	f := &factor{n: n, order: make([]int, n), d: make([]float64, n)}
	for c := range n {
		f.order[c] = c
		mean += float64(gram[c*stride+c]) / float64(n)
	}
	if !(mean > 0) || math.IsInf(mean, 0) {
		mean = 1
	}
	// The largest first: what is left over from them, all others can take on.
	slices.SortStableFunc(f.order, func(a, b int) int { return cmp.Compare(gram[b*stride+b], gram[a*stride+a]) })
	// Backwards, U·D·Uᵀ is the Cholesky decomposition.
	h := make([]float64, n*n)
	for i := range n {
		from := gram[f.order[n-1-i]*stride:]
		for j := range i + 1 {
			h[i*n+j] = float64(from[f.order[n-1-j]])
		}
		h[i*n+i] += damping*h[i*n+i] + 1e-6*mean
	}
	if err := cholesky(h, n, threads); err != nil {
		return nil, err
	}
	for i := range n {
		f.d[n-1-i] = float64(h[i*n+i] * h[i*n+i])
	}
	f.blocks = make([]factorBlock, (n+blockColumns-1)/blockColumns)
	return f, parallel(len(f.blocks), threads, func(from, to int) error {
		row := make([]float32, n)
		for i := from; i < to; i++ {
			f.blocks[i] = newFactorBlock(h, n, i*blockColumns, row)
		}
		return nil
	})
}

// newFactorBlock takes columns from the decomposition of H, which has them backwards.
func newFactorBlock(h []float64, n, from int, row []float32) factorBlock {
	b := factorBlock{from: from, to: min(from+blockColumns, n), near: make([]float64, blockColumns*blockColumns)}
	if from > 0 {
		b.far = kernel.NewMatrix(kernel.F32, b.to-from, from, nil)
	}
	for k := from; k < b.to; k++ {
		own := n - 1 - k
		u := func(j int) float64 { return h[(n-1-j)*n+own] / h[own*n+own] }
		for j := range from {
			row[j] = float32(u(j))
		}
		if from > 0 {
			b.far.SetRow(k-from, row[:from])
		}
		for j := from; j < k; j++ {
			b.near[(k-from)*blockColumns+j-from] = u(j)
		}
	}
	return b
}

// panel is how many columns of the decomposition are made together.
const panel = 32

// cholesky replaces the lower triangle of h, n×n, by L with L·Lᵀ = h.
func cholesky(h []float64, n, threads int) error {
	for from := 0; from < n; from += panel {
		to := min(from+panel, n)
		// All earlier columns, then those of the panel itself, whose rows come first.
		rows := func(a, b int) {
			for i := a; i < b; i++ {
				row := h[i*n : i*n+n]
				for j := from; j < min(to, i+1); j++ {
					row[j] -= dot(row[:from], h[j*n:j*n+from])
				}
			}
		}
		solve := func(a, b int) {
			for i := a; i < b; i++ {
				row := h[i*n : i*n+n]
				for j := from; j < min(to, i+1); j++ {
					v := row[j] - dot(row[from:j], h[j*n+from:j*n+j])
					if i == j {
						row[j] = math.Sqrt(max(v, math.SmallestNonzeroFloat32))
					} else {
						row[j] = v / h[j*n+j]
					}
				}
			}
		}
		rows(from, to)
		solve(from, to)
		if err := parallel(n-to, threads, func(a, b int) error {
			rows(to+a, to+b)
			solve(to+a, to+b)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// dot sums in a fixed order, without fusing.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	for len(a) >= 4 && len(b) >= 4 {
		s0 += float64(a[0] * b[0])
		s1 += float64(a[1] * b[1])
		s2 += float64(a[2] * b[2])
		s3 += float64(a[3] * b[3])
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s0 += float64(a[i] * b[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// together is how many rows of weights are rounded together, lanes how many of them side by side.
const (
	together = panelRows
	lanes    = 8
)

// compensator rounds rows of weights.
type compensator struct {
	f       *factor
	k       kernel.Kernels
	format  kernel.Format
	width   int // columns that share a scale
	fitter  fitter
	energy  []float32           // what the fitter weighs the columns with
	rows    [together][]float32 // to be filled before round
	codes   [together][]int8    // the result: integers
	scales  [together][]float32 // and the scales of each row
	zero    []float32           // the offsets of blocks
	half    []uint16
	carried []float32 // what is carried into a block, blockColumns for each row
	left    []byte    // what each column has left over: activations in the order of the factor
	near    [blockColumns][lanes]float64
}

func newCompensator(f *factor, k kernel.Kernels, format kernel.Format) *compensator {
	sums, all := make([]float64, f.n), 0.0
	for i, c := range f.order {
		sums[c] = f.d[i]
		all += f.d[i]
	}
	c := &compensator{
		f: f, k: k, format: format, width: f.n, energy: normalized(sums, all), carried: make([]float32, together*blockColumns),
		left: alignedFloats(kernel.ActivationsBytes(kernel.Dense, together, f.n)),
	}
	if format == kernel.Q8 {
		c.width = 32
	}
	n := f.n / c.width
	c.zero, c.half = make([]float32, n), make([]uint16, n)
	for r := range c.rows {
		c.rows[r], c.codes[r], c.scales[r] = make([]float32, f.n), make([]int8, f.n), make([]float32, n)
	}
	return c
}

// round quantises the first n rows.
func (c *compensator) round(n int) {
	for r := range n {
		c.fit(r)
	}
	left := kernel.NewActivations(kernel.Dense, together, c.f.n, c.left)
	for i := range c.f.blocks {
		b := &c.f.blocks[i]
		clear(c.carried)
		if b.far != nil {
			before := kernel.NewActivations(kernel.Dense, together, b.from, c.left)
			c.k.Mul(c.carried, blockColumns, b.far, 0, b.far.Panels(), before, n, false, nil)
		}
		for r := 0; r < n; r += lanes {
			c.block(b, left, r, min(r+lanes, n))
		}
	}
}

// fit finds the scales of a row.
func (c *compensator) fit(r int) {
	for i := range c.scales[r] {
		from, to := i*c.width, (i+1)*c.width
		c.fitter.energy = c.energy[from:to]
		c.scales[r][i] = c.fitter.fit(c.codes[r][from:to], c.rows[r][from:to])
	}
	if c.format == kernel.Q8 {
		roundToHalf(c.scales[r], c.half)
	}
}

// store writes a row that was rounded.
func (c *compensator) store(m *kernel.Matrix, row, r int) {
	if c.format == kernel.Q8 {
		m.SetBlocks(row, c.codes[r], c.scales[r], c.zero)
		return
	}
	m.SetScaledRow(row, c.codes[r], c.scales[r][0])
}

// block rounds the columns of a block of some rows.
func (c *compensator) block(b *factorBlock, left *kernel.Activations, from, to int) {
	for k := b.from; k < b.to; k++ {
		column, at := c.f.order[k], k-b.from
		var want [lanes]float64
		for r := from; r < to; r++ {
			want[r-from] = float64(c.rows[r][column]) + float64(c.carried[r*blockColumns+at])
		}
		carry(&want, c.near[:at], b.near[at*blockColumns:])
		for r := from; r < to; r++ {
			v, d := 0.0, float64(c.scales[r][column/c.width])
			if d > 0 {
				v = max(-127, min(127, math.RoundToEven(want[r-from]/d)))
			}
			e := float64(c.rows[r][column]) - float64(d*v)
			c.codes[r][column], c.near[at][r-from], left.Row(r)[k] = int8(v), e, float32(e)
		}
	}
}

// carry adds Σ left[j]·u[j].
func carry(sum *[lanes]float64, left [][lanes]float64, u []float64) {
	u = u[:len(left)]
	s := *sum
	for j := range left {
		e, v := &left[j], u[j]
		s[0] += float64(e[0] * v)
		s[1] += float64(e[1] * v)
		s[2] += float64(e[2] * v)
		s[3] += float64(e[3] * v)
		s[4] += float64(e[4] * v)
		s[5] += float64(e[5] * v)
		s[6] += float64(e[6] * v)
		s[7] += float64(e[7] * v)
	}
	*sum = s
}
