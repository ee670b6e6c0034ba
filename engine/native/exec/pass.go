package exec

import (
	"math"

	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/kernel"
)

// Row is one token to be computed: the token, the cache it belongs to and its position there. Rows of one cache follow one another
// in the order of their positions, and the cache has room for them.
type Row struct {
	Token  int32
	Cache  *Cache
	Pos    int
	Wanted bool // whether the output of this row is wanted
	// Segment says which of two texts the token belongs to, for models that are told.
	Segment int32
	// Adapter is what the rows of the sequence, all of them, add to products; nil: nothing.
	Adapter *Adapter
}

// Pass runs a program for batches of rows. It owns the arena; one goroutine uses it.
type Pass struct {
	prog  *Program
	k     kernel.Kernels
	pool  *Pool
	pages *Pages

	// Rows is the batch: the caller fills it before Run.
	Rows []Row
	// FewThreads is how many threads compute steps of few rows, 0 for all: what they read has to come from memory, which a part of the
	// threads may keep busy already.
	FewThreads int
	// Observe, where set, sees each input of every product that reads float32, with the name of the matrix: for calibration.
	Observe func(matrix string, input []float32)

	layouts int
	wanted  []int // rows whose output is wanted
	groups  []group
	blocks  []block
	count   [arenas]int
	room    [arenas]int
	mem     [arenas][]byte
	acts    []activations
	tables  [][]float32 // cosine and sine by position
	both    []float32   // products of both terms of few rows
	work    []scratch   // per worker
	step    *step
	n       int
	next    int // step of the run that Continue goes on with
	unit    int // and of an attention step, the unit
	low     adapting

	fnMul, fnNorm, fnRows, fnPrepare, fnAttend, fnQuantize func(worker, from, to int)
}

// activations is what a product reads: one term, or two, of which both sees the rows one after the other.
type activations struct{ high, low, both *kernel.Activations }

// group is the rows of one sequence in a batch.
type group struct {
	first, count int
	cache        *Cache
}

// block is some neighbouring rows of one group: what one unit of attention computes.
type block struct {
	first, count int
	cache        *Cache
}

// scratch is the memory of one worker.
type scratch struct {
	scores  []float32
	inverse [blockRows]float32
	row     []float32
	q       []int8 // queries in eight bits
	qs      [blockRows]float32
	qsum    [blockRows]int32
}

// togetherRows is up to how many rows both terms are multiplied in one go, which reads and unpacks the weights once: products of few
// rows wait for the weights.
const togetherRows = 4

// cachedBytes of weights stay in the second-level cache of every processor that is worth running on.
const cachedBytes = 128 << 10

// blockRows is how many rows of a sequence share the pages they read.
const blockRows = 16

// NewPass returns a pass of the program on the threads of pool.
func (p *Program) NewPass(k kernel.Kernels, pool *Pool) *Pass {
	pass := &Pass{
		prog: p, k: k, pool: pool, pages: NewPages(p.cacheLayers, p.kvHeads, p.headDim, p.kv8),
		acts: make([]activations, len(p.acts)), tables: make([][]float32, len(p.rotations)), work: make([]scratch, pool.threads),
	}
	widest := 0
	for i := range p.steps {
		if s := &p.steps[i]; s.op == graph.OpMatMul && s.in[0].wide {
			widest = max(widest, s.out.rowBytes/4)
		}
	}
	pass.both = make([]float32, 2*togetherRows*widest)
	pass.fnMul, pass.fnNorm, pass.fnRows = pass.mul, pass.norm, pass.rowwise
	pass.fnPrepare, pass.fnAttend, pass.fnQuantize = pass.prepare, pass.attend, pass.quantizeHeads
	return pass
}

// Kernels returns what the pass computes with.
func (p *Pass) Kernels() kernel.Kernels { return p.k }

// Pages returns the pages of the pass.
func (p *Pass) Pages() *Pages { return p.pages }

// Layouts counts how often the plan was laid out for other numbers of rows, tokens or sequences than the run before had.
func (p *Pass) Layouts() int { return p.layouts }

// Wanted returns the indices of the rows whose output was wanted in the last run.
func (p *Pass) Wanted() []int { return p.wanted }

// Run computes Rows. Afterwards the i-th row that wants output finds it in Result(i).
func (p *Pass) Run() {
	p.Begin()
	p.Continue(nil)
}

// Begin takes Rows for a run that Continue computes. Rows and their caches stay as they are until it is done.
func (p *Pass) Begin() {
	p.bind()
	p.next, p.unit = 0, 0
}

// Continue computes the steps of the run that Begin began, and reports whether all are done. It stops early, after one step or a part of
// a long one, when pause says so; nil: never. In between, other passes may run on the same threads. Where it stops does not change a
// result.
func (p *Pass) Continue(pause func() bool) (done bool) {
	threads := p.pool.threads
	if p.FewThreads > 0 && len(p.Rows) <= togetherRows {
		threads = p.FewThreads
	}
	p.pool.use(threads)
	for p.next < len(p.prog.steps) {
		s := &p.prog.steps[p.next]
		p.step, p.n = s, p.count[s.out.arena]
		if p.n == 0 {
			p.next++
			continue
		}
		if p.run(s, pause != nil) {
			p.next++
		}
		if pause != nil && p.next < len(p.prog.steps) && pause() {
			return false
		}
	}
	p.forgetAdapters()
	return true
}

// Result returns the output of the i-th wanted row, or, of an encoder, of the i-th sequence. It is valid until the next run.
func (p *Pass) Result(i int) []float32 {
	o := &p.prog.output
	x := floats(p.mem[o.arena], o, p.count[o.arena])
	s := o.rowBytes / 4
	return x[i*s : i*s+o.cols]
}

// bind counts rows, finds sequences, and makes room.
func (p *Pass) bind() {
	p.wanted, p.groups, p.blocks = p.wanted[:0], p.groups[:0], p.blocks[:0]
	longest := 0
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.Wanted {
			p.wanted = append(p.wanted, i)
		}
		longest = max(longest, r.Pos+1)
		if n := len(p.groups); n > 0 && p.groups[n-1].cache == r.Cache {
			p.groups[n-1].count++
		} else {
			p.groups = append(p.groups, group{first: i, count: 1, cache: r.Cache})
		}
	}
	for _, g := range p.groups {
		for at := 0; at < g.count; at += blockRows {
			p.blocks = append(p.blocks, block{first: g.first + at, count: min(blockRows, g.count-at), cache: g.cache})
		}
	}
	counts := [arenas]int{len(p.Rows), len(p.wanted), len(p.groups)}
	changed := counts != p.count
	p.count = counts
	for a, n := range counts {
		if n > p.room[a] {
			p.room[a] = max(n, 2*p.room[a])
			p.mem[a] = alignedFloats(p.room[a] * p.prog.arena[a])
			changed = true
		}
	}
	if changed {
		p.layouts++
		for i, o := range p.prog.acts {
			n := p.count[o.arena]
			if n == 0 {
				continue
			}
			mem := p.mem[o.arena][o.offset*n:][:o.rowBytes*n]
			if o.wide {
				p.acts[i].low = kernel.NewActivations(o.input, n, o.cols, mem[len(mem)/2:])
				p.acts[i].both = kernel.NewActivations(o.input, 2*n, o.cols, mem)
				mem = mem[:len(mem)/2]
			}
			p.acts[i].high = kernel.NewActivations(o.input, n, o.cols, mem)
		}
	}
	p.bindAdapters()
	p.growScratch(longest)
	for i := range p.tables {
		p.growTable(i, longest)
	}
}

func (p *Pass) growScratch(longest int) {
	n := PagesFor(longest) * PagePositions * blockRows
	if len(p.work[0].scores) >= n {
		return
	}
	n = max(n, 2*len(p.work[0].scores))
	for i := range p.work {
		p.work[i].scores = make([]float32, n)
		if p.prog.kv8 {
			p.work[i].q = make([]int8, blockRows*p.prog.headDim)
		}
	}
}

// growTable makes the rotations of the first positions: pair i of a head turns by position·base^(−2i/rotated).
func (p *Pass) growTable(i, positions int) {
	r := p.prog.rotations[i]
	have := len(p.tables[i]) / r.rotated
	if positions <= have {
		return
	}
	positions = min(max(positions, 2*have, 256), max(positions, p.prog.context))
	table := make([]float32, positions*r.rotated)
	copy(table, p.tables[i])
	for pair := range r.rotated / 2 {
		freq := math.Pow(r.base, -2*float64(pair)/float64(r.rotated)) / r.factor
		if r.divisors != nil {
			freq /= float64(r.divisors[pair])
		}
		// Processors differ in the last bits of a power, and the sine of a large angle in float32 with them: 41 bits are the same
		// on all of them.
		freq = math.Float64frombits((math.Float64bits(freq) + 1<<11) &^ (1<<12 - 1))
		for pos := have; pos < positions; pos++ {
			sin, cos := math.Sincos(float64(pos) * freq)
			table[pos*r.rotated+2*pair], table[pos*r.rotated+2*pair+1] = float32(cos), float32(sin)
		}
	}
	p.tables[i] = table
}

// run does one step, or with inParts a part of a long one, and reports whether it is done.
func (p *Pass) run(s *step, inParts bool) (done bool) {
	switch s.op {
	case graph.OpMatMul:
		p.observe(s)
		p.copyResidual(s)
		units := s.w.Panels()
		p.pool.run(units, max(1, units/(4*p.pool.inUse())), p.fnMul)
		p.adapt(s)
	case graph.OpAttention:
		return p.runAttention(s, inParts)
	case graph.OpRMSNorm, graph.OpLayerNorm:
		p.each(p.fnNorm)
	default:
		p.each(p.fnRows)
	}
	return true
}

// partProducts is about how many multiplications a part of an attention step takes: a millisecond of them.
const partProducts = 1 << 25

// runAttention computes attention, whose time grows with the square of a text's length: all of it, or about as much as a part may take.
func (p *Pass) runAttention(s *step, inParts bool) (done bool) {
	if p.unit == 0 {
		p.each(p.fnPrepare)
	}
	units := len(p.blocks) * s.att.heads
	left := units - p.unit
	if inParts {
		length := p.blocks[p.unit/s.att.heads].cache.length
		left = min(left, max(p.pool.inUse(), partProducts/(2*blockRows*s.att.dim*max(1, length))))
	}
	p.pool.run(left, p.attendChunk(s.att, left), p.fnAttend)
	if p.unit += left; p.unit < units {
		return false
	}
	p.unit = 0
	if s.quant && !s.att.quantizeInPlace {
		p.each(p.fnQuantize)
	}
	return true
}

// attendChunk keeps heads that share keys together where that leaves every worker its share.
func (p *Pass) attendChunk(a *attention, units int) int {
	share := a.heads / a.kv
	if units < 4*p.pool.inUse()*share {
		return (units + p.pool.inUse() - 1) / p.pool.inUse()
	}
	return units / (4 * p.pool.inUse() * share) * share
}

// each runs fn over the rows. A single row is done in place, without waking anybody.
func (p *Pass) each(fn func(worker, from, to int)) {
	p.pool.run(p.n, max(1, p.n/(2*p.pool.inUse())), fn)
}

// row returns row i of an operand in float32, without padding.
func (p *Pass) row(o *operand, i int) []float32 {
	s := o.rowBytes / 4
	return floats(p.mem[o.arena], o, p.count[o.arena])[i*s : i*s+o.cols]
}

// copyResidual brings what is added to a product to where the product goes; the plan usually has put it there already.
func (p *Pass) copyResidual(s *step) {
	if s.residual < 0 {
		return
	}
	from := &s.in[s.residual]
	if from.arena == s.out.arena && from.offset == s.out.offset {
		return
	}
	for i := range p.n {
		copy(p.row(&s.out, i), p.row(from, i))
	}
}

// mul computes panels of a product.
func (p *Pass) mul(_, from, to int) {
	s := p.step
	dst, stride := floats(p.mem[s.out.arena], &s.out, p.n), s.out.rowBytes/4
	a := &p.acts[s.in[0].act]
	if a.low == nil {
		p.k.Mul(dst, stride, s.w, from, to, a.high, p.n, s.residual >= 0, s.bias)
		return
	}
	if p.n <= togetherRows {
		p.mulTogether(s, dst, stride, from, to)
		return
	}
	some := max(1, cachedBytes*s.w.Panels()/len(s.w.Bytes())) // panels that are still in the cache for the second term
	for ; from < to; from += some {
		end := min(from+some, to)
		p.k.Mul(dst, stride, s.w, from, end, a.high, p.n, s.residual >= 0, s.bias)
		p.k.Mul(dst, stride, s.w, from, end, a.low, p.n, true, nil)
	}
}

// mulTogether multiplies both terms as if they were rows of their own, and adds the products as two multiplications would: what is
// there, the first term with its bias, the second term.
func (p *Pass) mulTogether(s *step, dst []float32, stride, from, to int) {
	a, n := &p.acts[s.in[0].act], p.n
	both := p.both[:2*n*stride]
	p.k.Mul(both, stride, s.w, from, to, a.both, 2*n, false, nil)
	panel := s.w.Stride() / s.w.Panels()
	first, last := from*panel, to*panel
	for i := range n {
		out, high, low := dst[i*stride:][first:last], both[i*stride:][first:last], both[(n+i)*stride:][first:last]
		if s.bias != nil {
			p.k.Add(high, s.bias[first:last])
		}
		if s.residual >= 0 {
			p.k.Add(out, high)
		} else {
			copy(out, high)
		}
		p.k.Add(out, low)
	}
}
