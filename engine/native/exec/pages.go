package exec

import "github.com/sluice-project/sluice/engine/kernel"

// pagePositions is the number of positions a page holds.
const pagePositions = kernel.PagePositions

// page holds the keys and values of 64 positions in all layers. In half precision, for each layer and key-value head, first the
// keys of all positions, dimension by dimension, then the values, position by position. In eight bits the same in bytes, with one
// scale for each position, layer, head and kind. Only the owner of the pass touches it.
type page struct {
	half   []uint16
	bytes  []int8
	scales []float32
	refs   int
}

// Pages hands out the pages of one program. Freed ones are cleared and kept for reuse.
type Pages struct {
	layers, heads, dim int
	eight              bool
	used               int
	free               []*page
}

// keptPages bounds the memory that is kept for reuse.
const keptPages = 64

func newPages(layers, heads, dim int, eight bool) *Pages {
	return &Pages{layers: layers, heads: heads, dim: dim, eight: eight}
}

// Bytes is the memory of one page.
func (p *Pages) Bytes() int {
	n := p.layers * p.heads * 2 * pagePositions
	if p.eight {
		return n*p.dim + n*4
	}
	return n * p.dim * 2
}

// Needed is the number of pages that n positions take.
func Needed(n int) int { return (n + pagePositions - 1) / pagePositions }

// Positions is the number of positions that pages hold.
func Positions(pages int) int { return pages * pagePositions }

func (p *Pages) get() *page {
	p.used++
	if n := len(p.free); n > 0 {
		pg := p.free[n-1]
		p.free = p.free[:n-1]
		pg.refs = 1
		return pg
	}
	pg, n := &page{refs: 1}, p.layers*p.heads*2*pagePositions
	if p.eight {
		pg.bytes, pg.scales = make([]int8, n*p.dim), make([]float32, n)
	} else {
		pg.half = make([]uint16, n*p.dim)
	}
	return pg
}

// put drops one reference. The last one clears the page: what a request computed is gone before another one gets the memory.
func (p *Pages) put(pg *page) {
	pg.refs--
	if pg.refs > 0 {
		return
	}
	p.used--
	clear(pg.half)
	clear(pg.bytes)
	clear(pg.scales)
	if len(p.free) < keptPages {
		p.free = append(p.free, pg)
	}
}

// part is the index of the keys (which = 0) or values (1) of a head.
func (p *Pages) part(layer, head, which int) int { return (layer*p.heads+head)*2 + which }

// halves returns the keys or values of a head in half precision.
func (p *Pages) halves(pg *page, layer, head, which int) []uint16 {
	n := pagePositions * p.dim
	at := p.part(layer, head, which) * n
	return pg.half[at : at+n]
}

// eights returns the keys or values of a head in eight bits, and their scales.
func (p *Pages) eights(pg *page, layer, head, which int) ([]int8, []float32) {
	n, at := pagePositions*p.dim, p.part(layer, head, which)
	return pg.bytes[at*n : (at+1)*n], pg.scales[at*pagePositions : (at+1)*pagePositions]
}

// Cache is the keys and values of one sequence.
type Cache struct {
	pool   *Pages
	pages  []*page
	length int // positions that are filled
}

// NewCache returns an empty cache.
func (p *Pages) NewCache() *Cache { return &Cache{pool: p} }

// Len is the number of positions that are filled.
func (c *Cache) Len() int { return c.length }

// Reserve makes room for n more positions.
func (c *Cache) Reserve(n int) {
	for len(c.pages)*pagePositions < c.length+n {
		c.pages = append(c.pages, c.pool.get())
	}
}

// Fork returns a cache with the same content. Full pages are shared, since nobody writes to them again; the last is copied.
func (c *Cache) Fork() *Cache {
	f := &Cache{pool: c.pool, length: c.length}
	full := c.length / pagePositions
	for _, pg := range c.pages[:full] {
		pg.refs++
		f.pages = append(f.pages, pg)
	}
	if c.length%pagePositions > 0 {
		pg, from := c.pool.get(), c.pages[full]
		copy(pg.half, from.half)
		copy(pg.bytes, from.bytes)
		copy(pg.scales, from.scales)
		f.pages = append(f.pages, pg)
	}
	return f
}

// Release gives the pages back; the cache is empty afterwards.
func (c *Cache) Release() {
	for _, pg := range c.pages {
		c.pool.put(pg)
	}
	c.pages, c.length = nil, 0
}

// Advance counts n more positions as filled: those of rows that the next run computes.
func (c *Cache) Advance(n int) { c.length += n }

// InUse is the number of pages that somebody holds.
func (p *Pages) InUse() int { return p.used }
