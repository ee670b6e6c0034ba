package prefix

import (
	"slices"

	"github.com/sluice-project/sluice/engine/native/exec"
)

// Config bounds a tree.
type Config struct {
	Pages      int    // pages in memory; 0: as many as there are
	Quota      int    // pages of one namespace in memory; 0: no less than all. Of the spill file it gets the same share
	SpillDir   string // where evicted pages go, "": nowhere
	SpillBytes int    // size of the file there
	SpillMoves int    // pages that one call may write there, and read from there; 0: 4
}

// Tree is a radix tree of pages.
type Tree struct {
	pages        *exec.Pages
	bound, quota int
	moves        int

	spaces   map[NamespaceID]*space
	edges    map[edge]*node
	ids      uint64
	resident list
	spilled  list

	spill      *spill // nil: none
	spillQuota int
	spillErr   error
	reads      int // left to this call
	writes     int

	stats   Stats
	path    []*node // of the call, kept for the next
	victims []victim
	shared  []*exec.Page
}

// New returns an empty tree over pages. A spill file that cannot be had does not keep the tree from working; [Tree.SpillErr] tells.
func New(cfg Config, pages *exec.Pages) *Tree {
	t := &Tree{
		pages: pages, bound: cfg.Pages, quota: cfg.Quota, moves: cfg.SpillMoves,
		spaces: make(map[NamespaceID]*space), edges: make(map[edge]*node),
		resident: list{by: byTree}, spilled: list{by: byTree},
	}
	if t.bound <= 0 {
		t.bound = pages.Limit()
	}
	if t.quota <= 0 || t.quota > t.bound {
		t.quota = t.bound
	}
	if t.moves <= 0 {
		t.moves = 4
	}
	if cfg.SpillDir != "" {
		if t.spill, t.spillErr = openSpill(cfg.SpillDir, cfg.SpillBytes, pages.Bytes()); t.spill != nil {
			share := float64(t.quota) / float64(t.bound)
			t.spillQuota = max(1, int(share*float64(t.spill.slots)))
		}
	}
	return t
}

// SpillErr says why there is no spill file, or no longer; nil if there is one or none was asked for.
func (t *Tree) SpillErr() error { return t.spillErr }

// begin renews what a call may move from and to the spill file.
func (t *Tree) begin() { t.reads, t.writes = t.moves, t.moves }

// Match returns a cache with the longest known beginning of tokens, and its length, which is less than that of tokens: at least the
// last one has to be computed. Full pages are shared; of one page more the tokens in common are used, and it is copied when the
// cache reserves room behind them. The caller releases the cache.
//
// more says that the beginning goes on in the spill file: the same call will then find more of it. The first cache is best released
// after that second call, so that its pages stay.
func (t *Tree) Match(id NamespaceID, tokens []int32) (c *exec.Cache, n int, more bool) {
	t.begin()
	t.stats.Lookups++
	t.stats.AskedTokens += uint64(len(tokens))
	path, tail := t.find(id, tokens)
	if len(path) == 0 {
		return t.pages.NewCache(), 0, false
	}
	t.touch(path)
	in, more := t.fetch(path)
	n = exec.Positions(in)
	if in == len(path) && tail > 0 {
		n += tail - exec.PagePositions
	} else {
		tail = 0
	}
	t.shared = t.shared[:0]
	for _, v := range path[:in] {
		t.shared = append(t.shared, v.page)
	}
	c = t.pages.Share(t.shared, n)
	if n > 0 {
		t.stats.Hits++
		t.stats.HitPages += uint64(in)
		t.stats.HitTokens += uint64(n)
		t.stats.TailTokens += uint64(tail)
	}
	return c, n, more
}

// MatchLength is how many tokens Match would find in memory: those in the spill file come back a few pages at a time. It counts as no use.
func (t *Tree) MatchLength(id NamespaceID, tokens []int32) int {
	path, tail := t.find(id, tokens)
	in := 0
	for in < len(path) && path[in].page != nil {
		in++
	}
	n := exec.Positions(in)
	if in == len(path) && tail > 0 {
		n += tail - exec.PagePositions
	}
	return n
}

// find returns the nodes whose tokens are the beginning of tokens, without its last one. tail is how many tokens of the last node
// are, 0 if all.
func (t *Tree) find(id NamespaceID, tokens []int32) (path []*node, tail int) {
	s := t.spaces[id]
	if s == nil || len(tokens) < 2 {
		return nil, 0
	}
	path = t.path[:0]
	at, rest := s.root, tokens
	for len(rest) > exec.PagePositions {
		next := t.edges[edge{at.id, chunk(rest[:exec.PagePositions])}]
		if next == nil {
			break
		}
		path = append(path, next)
		at, rest = next, rest[exec.PagePositions:]
	}
	usable := min(len(rest)-1, exec.PagePositions)
	var last *node
	if len(rest) == exec.PagePositions {
		last, tail = t.edges[edge{at.id, chunk(rest)}], usable
	}
	if last == nil {
		last, tail = at.closest(rest[:usable])
	}
	if last != nil {
		path = append(path, last)
	}
	t.path = path
	return path, tail
}

// touch makes the nodes of a path those last used; some may be in the spill file, none is on its way.
func (t *Tree) touch(path []*node) {
	for _, v := range slices.Backward(path) {
		v.parent.children.touch(v)
		if v.page != nil {
			t.resident.touch(v)
			v.space.resident.touch(v)
		} else {
			t.spilled.touch(v)
			v.space.spilled.touch(v)
		}
	}
}

// Insert keeps the full pages of a cache whose positions hold tokens, as far as there is room. The cache stays the caller's.
func (t *Tree) Insert(id NamespaceID, tokens []int32, c *exec.Cache) {
	full := min(len(tokens), c.Len()) / exec.PagePositions
	if full == 0 {
		return
	}
	t.begin()
	s := t.spaces[id]
	if s == nil {
		s = &space{id: id, root: &node{id: t.nextID(), children: list{by: bySibling}}, resident: list{by: bySpace}, spilled: list{by: bySpace}}
	}
	path := t.path[:0] // what is in memory
	at := s.root
	for len(path) < full {
		next := t.edges[edge{at.id, chunkAt(tokens, len(path))}]
		if next == nil || next.page == nil {
			break
		}
		path = append(path, next)
		at = next
	}
	t.touch(path)
	t.stats.Present += uint64(len(path))
	if len(path) < full {
		have := len(path)
		room := t.room(s, at, full-have)
		for i := range full - have {
			if i == room {
				t.stats.Refused += uint64(full - have - room)
				break
			}
			at = t.attach(s, at, chunkAt(tokens, have+i), c.Page(have+i))
			path = append(path, at)
		}
		t.touch(path)
	}
	t.path = path
}

func chunkAt(tokens []int32, i int) chunk {
	return chunk(tokens[exec.Positions(i):exec.Positions(i+1)])
}

func (t *Tree) nextID() uint64 { t.ids++; return t.ids }

// attach makes a page the child of a node. A copy in the spill file is no longer needed.
func (t *Tree) attach(s *space, parent *node, tokens chunk, pg *exec.Page) *node {
	e := edge{parent.id, tokens}
	v := t.edges[e]
	if v == nil {
		v = &node{id: t.nextID(), space: s, parent: parent, tokens: tokens, children: list{by: bySibling}, slot: noSlot()}
		t.edges[e] = v
		parent.children.push(v)
		t.spaces[s.id] = s // it may have been emptied while room was made
	} else {
		t.removeSpilled(v)
	}
	t.pages.Hold(pg)
	t.addResident(v, pg)
	t.stats.Inserted++
	return v
}

// Evict frees n pages, or all that nobody else holds if these are fewer, and returns how many.
func (t *Tree) Evict(n int) int {
	t.begin()
	return t.evict(&t.resident, n)
}

// Evictable is how many pages Evict could free now: those that nobody else holds.
func (t *Tree) Evictable() int {
	n := 0
	for v := t.resident.first; v != nil; v = v.links[byTree].after {
		if v.page.Holders() == 1 {
			n++
		}
	}
	return n
}

// Forget drops all that a namespace has.
func (t *Tree) Forget(id NamespaceID) {
	if s := t.spaces[id]; s != nil {
		for s.root.children.first != nil {
			t.forget(s.root.children.first)
		}
	}
}

// Clear drops everything.
func (t *Tree) Clear() {
	for id := range t.spaces {
		t.Forget(id)
	}
}

// Close drops everything and ends the spill file.
func (t *Tree) Close() error {
	t.Clear()
	if t.spill == nil {
		return nil
	}
	sp := t.spill
	t.spill = nil
	return sp.close()
}
