package exec

import (
	"unsafe"

	"github.com/sluice-project/sluice/engine/kernel"
)

// After a product, rows with an adapter get what it adds. They are grouped by adapter and cut into blocks, so that a block reads
// the factors once; the rows of a block need not be neighbours. Every number is computed as if its row were alone: x as the product read
// it, A·x and B·u with one accumulator each, and one addition to what the product left.

// adaptRows is how many rows of one adapter are computed together at most.
const adaptRows = 32

// A piece of work that a thread takes should be worth the way: about so many multiplications, or numbers read back.
const (
	leastProducts = 32 << 10
	leastNumbers  = 4 << 10
)

// adapting is what a pass needs for rows with adapters. It is empty until there are some.
type adapting struct {
	adapters []*Adapter // of the batch, each once
	of       []int      // by row: index into adapters, or −1
	rows     [arenas][]int
	groups   [arenas][]adaptedRows

	// The work of one step.
	blocks     []adaptedBlock
	jobs       []adaptedJob
	downs, ups int // units of both products
	x, u       []byte
	temp       [][]float32 // per worker: a block of one tile

	fnGather, fnDown, fnUp func(worker, from, to int)
}

// adaptedRows are the rows of one adapter in an arena: some of adapting.rows.
type adaptedRows struct{ adapter, first, count int }

// adaptedBlock is some of these rows and what the product read of them.
type adaptedBlock struct {
	arena, first, count, x int
	view                   kernel.Activations
}

// adaptedJob is both products of a block with one pair of factors.
type adaptedJob struct {
	part     *lowRank
	block    int
	u        int // place of A·x
	down, up int // first units
	view     kernel.Activations
}

// bindAdapters sorts the rows of every arena by adapter.
func (p *Pass) bindAdapters() {
	p.forgetAdapters() // of a run that nobody finished
	l := &p.low
	l.of = l.of[:0]
	for i := range p.Rows {
		a := p.Rows[i].Adapter
		if a == nil && len(l.adapters) == 0 {
			continue
		}
		for len(l.of) < i { // the rows before the first one with an adapter
			l.of = append(l.of, -1)
		}
		l.of = append(l.of, p.adapterIndex(a))
	}
	if len(l.adapters) == 0 {
		return
	}
	if l.fnGather == nil {
		l.fnGather, l.fnDown, l.fnUp = p.readBack, p.multiplyDown, p.multiplyUp
		l.temp = make([][]float32, p.pool.threads)
		for i := range l.temp {
			l.temp[i] = make([]float32, adaptRows*tileRows)
		}
	}
	for arena := range arenas {
		l.rows[arena], l.groups[arena] = l.rows[arena][:0], l.groups[arena][:0]
		for a := range l.adapters {
			first := len(l.rows[arena])
			for i := range p.count[arena] {
				if l.of[p.source(arena, i)] == a {
					l.rows[arena] = append(l.rows[arena], i)
				}
			}
			if n := len(l.rows[arena]) - first; n > 0 {
				l.groups[arena] = append(l.groups[arena], adaptedRows{a, first, n})
			}
		}
	}
}

func (p *Pass) adapterIndex(a *Adapter) int {
	if a == nil {
		return -1
	}
	l := &p.low
	for i, have := range l.adapters {
		if have == a {
			return i
		}
	}
	if a.prog != p.prog {
		panic("exec: the adapter of a row was made for another program")
	}
	l.adapters = append(l.adapters, a)
	return len(l.adapters) - 1
}

// source is the row of the batch that row i of an arena comes from.
func (p *Pass) source(arena, i int) int {
	switch arena {
	case arenaWanted:
		return p.wanted[i]
	case arenaSequences:
		return p.groups[i].first
	}
	return i
}

// forgetAdapters lets go of the adapters of a run that is done: who unloads one gets its memory back.
func (p *Pass) forgetAdapters() {
	l := &p.low
	if len(l.adapters) == 0 {
		return
	}
	clear(l.adapters)
	clear(l.jobs[:cap(l.jobs)])
	l.adapters = l.adapters[:0]
}

// adapt adds to the product that the step has just made.
func (p *Pass) adapt(s *step) {
	l := &p.low
	if len(l.adapters) == 0 || !p.layAdapters(s) {
		return
	}
	rows, products := 0, 0
	for i := range l.jobs {
		j := &l.jobs[i]
		products += l.blocks[j.block].count * j.part.a.Rows()
	}
	for i := range l.blocks {
		rows += l.blocks[i].count
	}
	p.pool.run(len(l.blocks), p.grainSize(len(l.blocks), rows*s.in[0].cols, leastNumbers), l.fnGather)
	p.pool.run(l.downs, p.grainSize(l.downs, products*s.in[0].cols, leastProducts), l.fnDown)
	p.pool.run(l.ups, p.grainSize(l.ups, products*s.out.cols, leastProducts), l.fnUp)
}

// grainSize is how many units make a piece of work that is worth a thread, work being that of all units.
func (p *Pass) grainSize(units, work, least int) int {
	return max(1, units/(4*p.pool.inUse()), min(units, units*least/max(1, work)))
}

// layAdapters finds the work of a step and makes room for it; it reports whether there is any.
func (p *Pass) layAdapters(s *step) bool {
	l := &p.low
	l.blocks, l.jobs, l.downs, l.ups = l.blocks[:0], l.jobs[:0], 0, 0
	xBytes, uBytes, stride := 0, 0, denseRow(s.in[0].cols)
	for _, g := range l.groups[s.out.arena] {
		parts := l.adapters[g.adapter].steps[s.index]
		if len(parts) == 0 {
			continue
		}
		for at := 0; at < g.count; at += adaptRows {
			n := min(adaptRows, g.count-at)
			l.blocks = append(l.blocks, adaptedBlock{arena: s.out.arena, first: g.first + at, count: n, x: xBytes})
			xBytes += n * stride
			for i := range parts {
				part := &parts[i]
				l.jobs = append(l.jobs, adaptedJob{part: part, block: len(l.blocks) - 1, u: uBytes, down: l.downs, up: l.ups})
				uBytes, l.downs, l.ups = uBytes+n*4*part.a.Stride(), l.downs+part.a.Panels(), l.ups+len(part.b)
			}
		}
	}
	l.x, l.u = atLeast(l.x, xBytes), atLeast(l.u, uBytes)
	for i := range l.blocks {
		b := &l.blocks[i]
		b.view.View(b.count, s.in[0].cols, l.x[b.x:b.x+b.count*stride])
	}
	for i := range l.jobs {
		j := &l.jobs[i]
		j.view.View(l.blocks[j.block].count, j.part.a.Rows(), l.product(j))
	}
	return len(l.jobs) > 0
}

// product is the memory of a job's A·x.
func (l *adapting) product(j *adaptedJob) []byte {
	return l.u[j.u : j.u+l.blocks[j.block].count*4*j.part.a.Stride()]
}

// denseRow is the size of a row of so many float32 numbers: an odd multiple of 64 bytes, as [kernel.ActivationsBytes] explains.
func denseRow(cols int) int { return (4*cols+63)&^63 | 64 }

// atLeast returns memory of n bytes or more, mem if it is enough.
func atLeast(mem []byte, n int) []byte {
	if len(mem) >= n {
		return mem
	}
	return alignedFloats(max(n, 2*len(mem)))
}

// readBack gets what the product read of the rows of some blocks.
func (p *Pass) readBack(_, from, to int) {
	l, a := &p.low, &p.acts[p.step.in[0].act]
	for i := from; i < to; i++ {
		b := &l.blocks[i]
		for t, row := range l.rows[b.arena][b.first : b.first+b.count] {
			p.k.Dequantize(b.view.Row(t), a.high, a.low, row)
		}
	}
}

// multiplyDown computes panels of scale·A·x.
func (p *Pass) multiplyDown(_, from, to int) {
	l := &p.low
	for i := 0; from < to; i++ {
		j := &l.jobs[i]
		panels := j.part.a.Panels()
		if from >= j.down+panels {
			continue
		}
		first, end := from-j.down, min(to-j.down, panels)
		mem := l.product(j)
		u, stride := unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), len(mem)/4), j.part.a.Stride()
		b := &l.blocks[j.block]
		p.k.Mul(u, stride, j.part.a, first, end, &b.view, b.count, false, nil)
		if j.part.scale != 1 {
			for t := range b.count {
				some := u[t*stride+first*stride/panels : t*stride+end*stride/panels]
				p.k.Scale(some, some, j.part.scale)
			}
		}
		from = j.down + end
	}
}

// multiplyUp adds tiles of B·u to what the product left.
func (p *Pass) multiplyUp(worker, from, to int) {
	l, s := &p.low, p.step
	dst, width, temp := floats(p.mem[s.out.arena], &s.out, p.n), s.out.rowBytes/4, l.temp[worker]
	for i := 0; from < to; i++ {
		j := &l.jobs[i]
		end := min(to, j.up+len(j.part.b))
		b := &l.blocks[j.block]
		for ; from < end; from++ {
			m := j.part.b[from-j.up]
			p.k.Mul(temp, tileRows, m, 0, m.Panels(), &j.view, b.count, false, nil)
			for t, row := range l.rows[b.arena][b.first : b.first+b.count] {
				at := row*width + j.part.from + (from-j.up)*tileRows
				p.k.Add(dst[at:at+m.Rows()], temp[t*tileRows:][:m.Rows()])
			}
		}
	}
}
