package exec

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/sluice-project/sluice/engine/kernel"
)

// PagePositions is the number of positions that a page holds.
const PagePositions = kernel.PagePositions

// Page holds the keys and values of 64 positions in all layers. In half precision, for each layer and key-value head, first the
// keys of all positions, dimension by dimension, then the values, position by position. In eight bits the same in bytes, behind
// which come the scales, one for each position, layer, head and kind. Only the owner of the pass touches it.
type Page struct {
	mem    []byte // all of it; what follows are views of it
	half   []uint16
	bytes  []int8
	scales []float32
	refs   int
	unmap  runtime.Cleanup // of memory outside the heap
	mapped bool
}

// Memory is the whole content of the page, for writing it elsewhere and reading it back. Only who holds the page alone, fresh from
// [Pages.Take], may change it.
func (pg *Page) Memory() []byte { return pg.mem }

// Holders is how many caches and others hold the page.
func (pg *Page) Holders() int { return pg.refs }

// Pages hands out the pages of one program, never more than its limit at a time. Freed ones are cleared and kept for reuse.
type Pages struct {
	layers, heads, dim int
	eight              bool
	used               int
	limit              int
	free               []*Page
}

// maxFreePages bounds the memory that is kept for reuse.
const maxFreePages = 64

// NewPages returns the pages of a model with so many layers, key-value heads and dimensions of a head, in half precision or in eight
// bits. Those of a pass are its own.
func NewPages(layers, heads, dim int, eight bool) *Pages {
	return &Pages{layers: layers, heads: heads, dim: dim, eight: eight, limit: math.MaxInt}
}

// Bytes is the memory of one page.
func (p *Pages) Bytes() int {
	n := p.vectors()
	if p.eight {
		return n*p.dim + n*4
	}
	return n * p.dim * 2
}

// vectors is how many keys and values are in a page.
func (p *Pages) vectors() int { return p.layers * p.heads * 2 * PagePositions }

// PagesFor is the number of pages that n positions take.
func PagesFor(n int) int { return (n + PagePositions - 1) / PagePositions }

// Positions is the number of positions that pages hold.
func Positions(pages int) int { return pages * PagePositions }

// SetLimit bounds the pages that may be held at a time; at first there is no bound. Below what is held already, none is free until
// enough were given back.
func (p *Pages) SetLimit(n int) { p.limit = n }

// Limit is the bound on pages.
func (p *Pages) Limit() int { return p.limit }

// InUse is the number of pages that somebody holds.
func (p *Pages) InUse() int { return p.used }

// Free is the number of pages that may still be taken.
func (p *Pages) Free() int { return max(0, p.limit-p.used) }

// Take returns a cleared page that the caller holds, or nil if none is free.
func (p *Pages) Take() *Page {
	if p.Free() == 0 {
		return nil
	}
	return p.get()
}

// Hold makes the caller one more holder of a page.
func (p *Pages) Hold(pg *Page) { pg.refs++ }

// Drop gives up a hold. The last one clears the page: what a request computed is gone before another one gets the memory.
func (p *Pages) Drop(pg *Page) {
	if pg.refs--; pg.refs > 0 {
		return
	}
	if pg.refs < 0 {
		panic("exec: a page was given back more often than taken")
	}
	p.used--
	if len(p.free) < maxFreePages {
		clear(pg.mem)
		p.free = append(p.free, pg)
		return
	}
	pg.forget()
}

// forget gives the memory of a page back to the system, which clears it.
func (pg *Page) forget() {
	if pg.mapped {
		pg.unmap.Stop()
		unmapPage(pg.mem)
	}
	pg.mem, pg.half, pg.bytes, pg.scales = nil, nil, nil, nil
}

// get takes a page without asking for the limit.
func (p *Pages) get() *Page {
	p.used++
	if n := len(p.free); n > 0 {
		pg := p.free[n-1]
		p.free = p.free[:n-1]
		pg.refs = 1
		return pg
	}
	n := p.vectors()
	pg := newPage(p.Bytes())
	switch {
	case len(pg.mem) == 0: // a model without attention
	case p.eight:
		pg.bytes = unsafe.Slice((*int8)(unsafe.Pointer(&pg.mem[0])), n*p.dim)
		pg.scales = unsafe.Slice((*float32)(unsafe.Pointer(&pg.mem[n*p.dim])), n)
	default:
		pg.half = unsafe.Slice((*uint16)(unsafe.Pointer(&pg.mem[0])), n*p.dim)
	}
	return pg
}

// newPage returns a page with cleared memory. What nobody gave back when its engine ends goes with the garbage.
func newPage(n int) *Page {
	pg := &Page{refs: 1}
	if n >= leastMapped {
		if pg.mem = mapPage(n); pg.mem != nil {
			pg.mapped, pg.unmap = true, runtime.AddCleanup(pg, unmapPage, pg.mem)
			return pg
		}
	}
	pg.mem = alignedFloats(n)
	return pg
}

// leastMapped is from how many bytes on a page is worth a map of its own.
const leastMapped = 64 << 10

// part is the index of the keys (which = 0) or values (1) of a head.
func (p *Pages) part(layer, head, which int) int { return (layer*p.heads+head)*2 + which }

// halves returns the keys or values of a head in half precision.
func (p *Pages) halves(pg *Page, layer, head, which int) []uint16 {
	n := PagePositions * p.dim
	at := p.part(layer, head, which) * n
	return pg.half[at : at+n]
}

// eights returns the keys or values of a head in eight bits, and their scales.
func (p *Pages) eights(pg *Page, layer, head, which int) ([]int8, []float32) {
	n, at := PagePositions*p.dim, p.part(layer, head, which)
	return pg.bytes[at*n : (at+1)*n], pg.scales[at*PagePositions : (at+1)*PagePositions]
}

// Cache is the keys and values of one sequence. Caches share pages; one that is about to write to a shared page copies it first.
type Cache struct {
	pool   *Pages
	pages  []*Page
	length int // positions that are filled
}

// NewCache returns an empty cache.
func (p *Pages) NewCache() *Cache { return &Cache{pool: p} }

// Share returns a cache of the first length positions of pages, each of which it holds in addition to those who hold it already.
func (p *Pages) Share(pages []*Page, length int) *Cache {
	if length < 0 || PagesFor(length) != len(pages) {
		panic(fmt.Sprintf("exec: %d positions in %d pages", length, len(pages)))
	}
	c := &Cache{pool: p, length: length, pages: make([]*Page, len(pages), len(pages)+1)}
	copy(c.pages, pages)
	for _, pg := range pages {
		pg.refs++
	}
	return c
}

// Len is the number of positions that are filled.
func (c *Cache) Len() int { return c.length }

// Page returns the i-th page, whose first position is Positions(i). The cache holds it; who keeps it must hold it too.
func (c *Cache) Page(i int) *Page { return c.pages[i] }

// MissingPages is how many pages Reserve(n) would take.
func (c *Cache) MissingPages(n int) int {
	lacks := max(0, PagesFor(c.length+n)-len(c.pages))
	if n > 0 && c.lastPageShared() {
		lacks++
	}
	return lacks
}

// lastPageShared reports whether others hold the page of the next position too.
func (c *Cache) lastPageShared() bool {
	return c.length < Positions(len(c.pages)) && c.pages[c.length/PagePositions].refs > 1
}

// Reserve makes room for n more positions, in pages that nobody else holds: to be called before their rows are computed. It takes
// nothing and returns false if that many pages are not free.
func (c *Cache) Reserve(n int) bool {
	if c.MissingPages(n) > c.pool.Free() {
		return false
	}
	if n > 0 && c.lastPageShared() {
		at := c.length / PagePositions
		shared, own := c.pages[at], c.pool.get()
		copy(own.mem, shared.mem)
		c.pages[at] = own
		c.pool.Drop(shared)
	}
	for Positions(len(c.pages)) < c.length+n {
		c.pages = append(c.pages, c.pool.get())
	}
	return true
}

// Fork returns a cache with the same content. It takes no page: what both begin to write to is copied then.
func (c *Cache) Fork() *Cache { return c.pool.Share(c.pages[:PagesFor(c.length)], c.length) }

// Advance counts n more positions as filled: those of rows that the next run computes.
func (c *Cache) Advance(n int) { c.length += n }

// Truncate keeps the first n positions and gives back the pages behind them, also those that were reserved. The positions it drops
// from a page that it keeps are overwritten by those that come next.
func (c *Cache) Truncate(n int) {
	if n < 0 || n > c.length {
		panic(fmt.Sprintf("exec: %d of %d positions kept", n, c.length))
	}
	for i := PagesFor(n); i < len(c.pages); i++ {
		c.pool.Drop(c.pages[i])
		c.pages[i] = nil
	}
	c.pages, c.length = c.pages[:PagesFor(n)], n
}

// Release gives the pages back; the cache is empty afterwards.
func (c *Cache) Release() {
	c.Truncate(0)
	c.pages = nil
}
