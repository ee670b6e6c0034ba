package native

// pagePositions is the number of positions a page holds.
const pagePositions = 64

// page holds the keys and values of 64 positions in all layers, as half-precision numbers: for each layer and each key-value head
// first the keys of all positions, then the values. Only the loop touches it.
type page struct {
	data []uint16
	refs int
}

// pages hands out pages of one model. Freed ones are cleared and kept for reuse, up to a bound.
type pages struct {
	heads, headDim int
	size           int
	free           []*page
}

// keptPages bounds the memory that is kept for reuse.
const keptPages = 64

func newPages(layers, heads, headDim int) *pages {
	return &pages{heads: heads, headDim: headDim, size: layers * heads * 2 * pagePositions * headDim}
}

func (p *pages) get() *page {
	if n := len(p.free); n > 0 {
		pg := p.free[n-1]
		p.free = p.free[:n-1]
		pg.refs = 1
		return pg
	}
	return &page{data: make([]uint16, p.size), refs: 1}
}

// put drops one reference. The last one clears the page: what a request computed is gone before another one gets the memory.
func (p *pages) put(pg *page) {
	pg.refs--
	if pg.refs > 0 {
		return
	}
	clear(pg.data)
	if len(p.free) < keptPages {
		p.free = append(p.free, pg)
	}
}

// keys returns the keys of a head in a layer: one row of headDim numbers for each position of the page.
func (p *pages) keys(pg *page, layer, head int) []uint16 {
	n := pagePositions * p.headDim
	at := (layer*p.heads + head) * 2 * n
	return pg.data[at : at+n]
}

func (p *pages) values(pg *page, layer, head int) []uint16 {
	n := pagePositions * p.headDim
	at := ((layer*p.heads+head)*2 + 1) * n
	return pg.data[at : at+n]
}

// cache is the keys and values of one sequence.
type cache struct {
	pool   *pages
	pages  []*page
	length int // positions that are filled
}

// reserve makes room for positions up to n.
func (c *cache) reserve(n int) {
	for len(c.pages)*pagePositions < n {
		c.pages = append(c.pages, c.pool.get())
	}
}

// fork returns a cache with the same content. Full pages are shared, since nobody writes to them again; the last is copied.
func (c *cache) fork() *cache {
	f := &cache{pool: c.pool, length: c.length}
	full := c.length / pagePositions
	for _, pg := range c.pages[:full] {
		pg.refs++
		f.pages = append(f.pages, pg)
	}
	if c.length%pagePositions > 0 {
		pg := c.pool.get()
		copy(pg.data, c.pages[full].data)
		f.pages = append(f.pages, pg)
	}
	return f
}

func (c *cache) release() {
	for _, pg := range c.pages {
		c.pool.put(pg)
	}
	c.pages, c.length = nil, 0
}
