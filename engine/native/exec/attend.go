package exec

// prepare normalises and turns queries and keys by their positions, and stores keys and values.
func (p *Pass) prepare(_, from, to int) {
	s := p.step
	a := s.att
	for i := from; i < to; i++ {
		r := &p.Rows[i]
		q := p.row(&s.in[a.qIn], i)[a.q:][:a.heads*a.dim]
		keys := p.row(&s.in[a.kIn], i)[a.k:][:a.kv*a.dim]
		values := p.row(&s.in[a.vIn], i)[a.v:][:a.kv*a.dim]
		if a.qnorm != nil {
			for h := range a.heads {
				v := q[h*a.dim : (h+1)*a.dim]
				p.k.RMSNorm(v, v, a.qnorm, a.eps)
			}
		}
		if a.knorm != nil {
			for h := range a.kv {
				v := keys[h*a.dim : (h+1)*a.dim]
				p.k.RMSNorm(v, v, a.knorm, a.eps)
			}
		}
		if a.rope != nil {
			turn := p.rotateHeads(a.rope, r.Pos)
			p.k.Rope(q, a.heads, a.dim, a.rope.rotated, turn, a.rope.neox)
			p.k.Rope(keys, a.kv, a.dim, a.rope.rotated, turn, a.rope.neox)
		}
		pg, at := r.Cache.pages[r.Pos/PagePositions], r.Pos%PagePositions
		for h := range a.kv {
			key, value := keys[h*a.dim:(h+1)*a.dim], values[h*a.dim:(h+1)*a.dim]
			if p.prog.kv8 {
				kb, ks := p.pages.eights(pg, a.layer, h, 0)
				p.k.StoreKey8(kb, ks, at, key)
				vb, vs := p.pages.eights(pg, a.layer, h, 1)
				p.k.StoreValue8(vb, vs, at, value)
			} else {
				p.k.StoreKey(p.pages.halves(pg, a.layer, h, 0), at, key)
				p.k.StoreValue(p.pages.halves(pg, a.layer, h, 1), at, value)
			}
		}
	}
}

// attend computes heads counted through all blocks from the pass's unit on: softmax(scale·q·k)·v. The result takes the place of the queries, and goes from
// there to the output. A block of one row takes the heads that share keys together; a longer one takes its rows together.
func (p *Pass) attend(worker, from, to int) {
	a := p.step.att
	share := a.heads / a.kv
	from, to = from+p.unit, to+p.unit
	for u := from; u < to; {
		b, h := &p.blocks[u/a.heads], u%a.heads
		heads := 1
		if b.count == 1 {
			heads = min(share-h%share, to-u, blockRows)
		}
		p.attendBlock(worker, b, h, heads)
		u += heads
	}
}

// attendBlock computes either one head of several rows, or several heads of one row.
func (p *Pass) attendBlock(worker int, b *block, head, heads int) {
	s := p.step
	a, w := s.att, &p.work[worker]
	o := &s.in[a.qIn]
	stride := o.rowBytes / 4
	q := floats(p.mem[o.arena], o, p.count[o.arena])[b.first*stride+a.q+head*a.dim:]
	rows, step := b.count, stride
	if heads > 1 {
		rows, step = heads, a.dim
	}
	last := p.Rows[b.first+b.count-1].Pos
	if !a.causal {
		last = b.cache.length - 1
	}
	first := 0 // the first position that any row looks at
	if a.window > 0 {
		first = max(0, p.Rows[b.first].Pos+1-a.window)
	}
	from, to := first/PagePositions, last/PagePositions+1
	width := (to - from) * PagePositions
	group := head / (a.heads / a.kv)
	if p.prog.kv8 {
		p.quantizeQueries(w, q, step, rows, a.dim)
	}
	for pg := from; pg < to; pg++ {
		count := min(PagePositions, last+1-pg*PagePositions)
		at := w.scores[(pg-from)*PagePositions:]
		if p.prog.kv8 {
			keys, scales := p.pages.eights(b.cache.pages[pg], a.layer, group, 0)
			p.k.PageScores8(at, width, w.q, w.qs[:], w.qsum[:], rows, a.dim, keys, scales, count, a.scale)
		} else {
			p.k.PageScores(at, width, q, step, rows, a.dim, p.pages.halves(b.cache.pages[pg], a.layer, group, 0), count, a.scale)
		}
	}
	for i := range rows {
		row := b.first
		if heads == 1 {
			row += i
		}
		w.inverse[i] = p.weigh(w.scores[i*width:(i+1)*width], p.Rows[row].Pos, last, from*PagePositions, a)
		clear(q[i*step : i*step+a.dim])
	}
	for pg := from; pg < to; pg++ {
		count := min(PagePositions, last+1-pg*PagePositions)
		at := w.scores[(pg-from)*PagePositions:]
		if p.prog.kv8 {
			values, scales := p.pages.eights(b.cache.pages[pg], a.layer, group, 1)
			p.k.PageCombine8(q, step, at, width, rows, a.dim, values, scales, count)
		} else {
			p.k.PageCombine(q, step, at, width, rows, a.dim, p.pages.halves(b.cache.pages[pg], a.layer, group, 1), count)
		}
	}
	for i := range rows {
		row, h := b.first, head+i
		if heads == 1 {
			row, h = b.first+i, head
		}
		x := q[i*step : i*step+a.dim]
		p.k.Scale(x, x, w.inverse[i])
		p.emitHead(row, h, x)
	}
}

// weigh turns the scores of a row into weights and returns what to multiply their sum by; positions that the row does not look at
// get the weight zero. base is the position of the first score.
func (p *Pass) weigh(scores []float32, pos, last, base int, a *attention) float32 {
	end := last + 1
	if a.causal {
		end = pos + 1
	}
	begin := base
	if a.window > 0 {
		begin = max(base, pos+1-a.window)
	}
	x := scores[begin-base : end-base]
	if a.softcap > 0 {
		p.k.SoftCap(x, a.softcap)
	}
	sum := p.k.ExpSum(x, p.k.Max(x))
	clear(scores[:begin-base])
	clear(scores[end-base : last+1-base])
	return 1 / sum
}

// emitHead stores one head of a row.
func (p *Pass) emitHead(row, head int, x []float32) {
	s := p.step
	a := s.att
	switch {
	case s.quant && a.quantizeInPlace:
		if out := &p.acts[s.out.act]; out.low != nil {
			p.k.QuantizeBlocksWide(out.high, out.low, row, head*a.dim, x)
		} else {
			p.k.QuantizeBlocks(out.high, row, head*a.dim, x)
		}
	case !s.quant:
		copy(p.row(&s.out, row)[head*a.dim:], x)
	}
}

// quantizeHeads quantises whole rows, where the heads could not be by themselves.
func (p *Pass) quantizeHeads(_, from, to int) {
	s := p.step
	a := s.att
	for i := from; i < to; i++ {
		p.quantize(i, p.row(&s.in[a.qIn], i)[a.q:][:a.heads*a.dim])
	}
}

func (p *Pass) quantizeQueries(w *scratch, q []float32, step, rows, dim int) {
	for i := range rows {
		w.qs[i], w.qsum[i] = p.k.QuantizeRow(w.q[i*dim:(i+1)*dim], q[i*step:i*step+dim])
	}
}
