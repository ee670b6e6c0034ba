package prefix

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine/native/exec"
)

// newPages returns small pages: sixteen bytes for each position.
func newPages() *exec.Pages { return exec.NewPages(1, 1, 4, false) }

const positionBytes = 16

// contents is what the tests write for tokens: like real keys and values it depends on all tokens up to the position and on the
// namespace.
func contents(id NamespaceID, tokens []int32) [][]byte {
	state, out, all := binary.LittleEndian.Uint64(id[:])+1, make([][]byte, len(tokens)), make([]byte, 0, len(tokens)*positionBytes)
	for i, v := range tokens {
		state = mix(state ^ mix(uint64(v)))
		all = binary.LittleEndian.AppendUint64(all, state)
		all = binary.LittleEndian.AppendUint64(all, mix(state))
		out[i] = all[i*positionBytes:]
	}
	return out
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func position(c *exec.Cache, i int) []byte {
	return c.Page(i / exec.PagePositions).Memory()[i%exec.PagePositions*positionBytes:][:positionBytes]
}

// compute writes the positions of tokens that a cache does not have yet. It wants fresh pages to be clear.
func compute(t testing.TB, id NamespaceID, tokens []int32, c *exec.Cache) {
	t.Helper()
	from := c.Len()
	if !c.Reserve(len(tokens) - from) {
		t.Fatal("no page is free")
	}
	for i := exec.PagesFor(from); i < exec.PagesFor(len(tokens)); i++ {
		if slices.Max(c.Page(i).Memory()) != 0 {
			t.Fatal("a fresh page holds what others computed")
		}
	}
	want := contents(id, tokens)
	for i := from; i < len(tokens); i++ {
		copy(position(c, i), want[i])
	}
	c.Advance(len(tokens) - from)
}

// verify checks every position of a cache.
func verify(t testing.TB, id NamespaceID, tokens []int32, c *exec.Cache) {
	t.Helper()
	for i, want := range contents(id, tokens[:c.Len()]) {
		if !bytes.Equal(position(c, i), want[:positionBytes]) {
			t.Fatalf("position %d of %d is not that of these tokens", i, c.Len())
		}
	}
}

// check verifies what must always be true of a tree.
func check(t testing.TB, tree *Tree) {
	t.Helper()
	resident, spilled, slots := 0, 0, map[int32]bool{}
	for e, v := range tree.edges {
		switch {
		case v.parent == nil || v.parent.id != e.parent || v.tokens != e.tokens || tree.edges[e] != v:
			t.Fatal("an edge leads to a node that is not there")
		case v.page != nil && v.slot != noSlot(), v.page == nil && v.slot == noSlot():
			t.Fatal("a node is in both tiers or in none")
		case v.page != nil && v.parent != v.space.root && v.parent.page == nil:
			t.Fatal("a node in memory has a parent on disk")
		}
		warm := 0
		for c := v.children.first; c != nil; c = c.links[bySibling].after {
			if c.page != nil {
				warm++
			}
		}
		if warm != v.warm {
			t.Fatalf("%d children in memory, counted as %d", warm, v.warm)
		}
		if v.page != nil {
			resident++
		} else {
			spilled++
			slots[v.slot.at] = true
		}
	}
	if len(slots) != spilled || resident != tree.resident.len || spilled != tree.spilled.len || resident > tree.bound {
		t.Fatalf("%d nodes in memory, listed %d, at most %d; %d on disk in %d slots, listed %d",
			resident, tree.resident.len, tree.bound, spilled, len(slots), tree.spilled.len)
	}
	if sp := tree.spill; sp != nil {
		if len(sp.unused)+spilled != sp.slots {
			t.Fatalf("%d slots used, %d not, of %d", spilled, len(sp.unused), sp.slots)
		}
		for _, at := range sp.unused {
			if slots[at] {
				t.Fatal("a slot is used and unused")
			}
		}
	}
	inSpaces := 0
	for id, s := range tree.spaces {
		inSpaces += s.resident.len + s.spilled.len
		if s.id != id || s.root.children.len == 0 || s.resident.len > tree.quota || s.spilled.len > max(1, tree.spillQuota) {
			t.Fatalf("a namespace with %d branches, %d pages of %d in memory, %d of %d on disk",
				s.root.children.len, s.resident.len, tree.quota, s.spilled.len, tree.spillQuota)
		}
		ordered(t, &s.resident)
		ordered(t, &s.spilled)
	}
	if inSpaces != resident+spilled {
		t.Fatalf("%d nodes in namespaces, %d in all", inSpaces, resident+spilled)
	}
	ordered(t, &tree.resident)
	ordered(t, &tree.spilled)
}

// ordered checks the links of a list, and that no node comes after its child.
func ordered(t testing.TB, l *list) {
	t.Helper()
	seen, n := map[*node]bool{}, 0
	for v := l.first; v != nil; v = v.links[l.by].after {
		for c := v.children.first; c != nil; c = c.links[bySibling].after {
			if seen[c] {
				t.Fatal("a child was used after its parent")
			}
		}
		seen[v] = true
		if n++; v.links[l.by].after == nil && l.last != v {
			t.Fatal("the end of a list is not its end")
		}
	}
	if n != l.len {
		t.Fatalf("%d nodes in a list of %d", n, l.len)
	}
}

// texts makes prompts that share beginnings.
type texts struct {
	r     *rand.Rand
	known [][]int32
}

func (x *texts) next() []int32 {
	var text []int32
	if len(x.known) > 0 && x.r.IntN(5) > 0 {
		text = x.known[x.r.IntN(len(x.known))]
		text = slices.Clone(text[:x.r.IntN(len(text)+1)])
	}
	for range x.r.IntN(200) + 1 {
		text = append(text, int32(x.r.IntN(3)))
	}
	text = text[:min(len(text), 400)]
	if len(x.known) < 40 {
		x.known = append(x.known, text)
	} else {
		x.known[x.r.IntN(len(x.known))] = text
	}
	return text
}

// oracle is the naive tree: every beginning of whole pages that was ever put in.
type oracle map[NamespaceID]map[string]bool

func text(tokens []int32) string {
	b := make([]byte, len(tokens))
	for i, v := range tokens {
		b[i] = byte(v)
	}
	return string(b)
}

func (o oracle) insert(id NamespaceID, tokens []int32) {
	if o[id] == nil {
		o[id] = map[string]bool{}
	}
	for n := 1; n <= len(tokens); n++ {
		if n <= len(tokens)/exec.PagePositions*exec.PagePositions {
			o[id][text(tokens[:n])] = true
		}
	}
}

// longest is the most that a look-up may find.
func (o oracle) longest(id NamespaceID, tokens []int32) int {
	n := 0
	for n+1 < len(tokens) && o[id][text(tokens[:n+1])] {
		n++
	}
	return n
}

// Random prompts come, are computed behind what the tree knows of them, stay for a while and go, while pages are evicted, written to
// disk, damaged there and read back. Whatever the tree hands out must be exactly what was computed for these tokens in this
// namespace, and in the end every page must be back.
func TestRandomUse(t *testing.T) {
	type setup struct {
		name   string
		cfg    Config
		limit  int
		spill  bool
		damage bool
		exact  bool // nothing is ever evicted: look-ups must find all there is
	}
	const slotBytes = 4096 // of our small pages
	for _, s := range []setup{
		{name: "all fits", limit: 1 << 20, exact: true},
		{name: "few pages", limit: 60, cfg: Config{Pages: 40}},
		{name: "pool smaller than the tree", limit: 50},
		{name: "quota", limit: 100, cfg: Config{Pages: 60, Quota: 25}},
		{name: "spill", limit: 50, spill: true, cfg: Config{Pages: 20, SpillBytes: 200 * slotBytes}},
		{name: "everything on disk", limit: 60, spill: true, cfg: Config{Pages: 30, SpillBytes: 4000 * slotBytes, SpillMoves: 100}},
		{name: "few slots", limit: 50, spill: true, cfg: Config{Pages: 20, SpillBytes: 3 * slotBytes, SpillMoves: 50}},
		{name: "one page, one slot", limit: 40, spill: true, cfg: Config{Pages: 1, SpillBytes: slotBytes}},
		{name: "quota and spill", limit: 60, spill: true, cfg: Config{Pages: 30, Quota: 10, SpillBytes: 50 * slotBytes, SpillMoves: 2}},
		{name: "damage", limit: 50, spill: true, damage: true, cfg: Config{Pages: 20, SpillBytes: 100 * slotBytes, SpillMoves: 9}},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.spill {
				s.cfg.SpillDir = t.TempDir()
				if got := (newPages().Bytes() + sealOverhead + slotBytes - 1) / slotBytes; got != 1 {
					t.Fatalf("a page takes %d slots", got)
				}
			}
			for seed := range uint64(4) {
				randomUse(t, rand.New(rand.NewPCG(seed, 7)), s.cfg, s.limit, s.damage, s.exact)
			}
		})
	}
}

// crowded reports whether the last full page of tokens has more children than a look-up compares.
func crowded(tree *Tree, id NamespaceID, tokens []int32) bool {
	at := tree.spaces[id].root
	for ; len(tokens) >= exec.PagePositions; tokens = tokens[exec.PagePositions:] {
		at = tree.edges[edge{at.id, chunk(tokens[:exec.PagePositions])}]
	}
	return at.children.len > comparedChildren
}

func randomUse(t *testing.T, r *rand.Rand, cfg Config, limit int, damage, exact bool) {
	pages := newPages()
	pages.SetLimit(limit)
	tree := New(cfg, pages)
	if (tree.spill != nil) != (cfg.SpillDir != "") {
		t.Fatal(tree.SpillErr())
	}
	spaces := []NamespaceID{{1}, {2}, {3}}
	source := texts{r: r}
	type sequence struct {
		id     NamespaceID
		tokens []int32
		cache  *exec.Cache
	}
	var running []sequence
	known := oracle{}
	hits := 0
	for range 700 {
		switch op := r.IntN(20); {
		case op < 10: // a prompt comes
			id, tokens := spaces[r.IntN(len(spaces))], source.next()
			if r.IntN(5) == 0 && exec.PagesFor(len(tokens)) <= pages.Free() { // at the same time as another that begins so
				c := pages.NewCache()
				compute(t, id, tokens, c)
				running = append(running, sequence{id, tokens, c})
				break
			}
			told := tree.MatchLength(id, tokens)
			c, n, more := tree.Match(id, tokens)
			if n < told {
				t.Fatalf("%d tokens are said to be known, and %d found", told, n)
			}
			for more { // at most as often as there are pages
				again, m, moreStill := tree.Match(id, tokens)
				if m < n {
					t.Fatalf("a second look-up found %d of %d tokens", m, n)
				}
				c.Release()
				c, n, more = again, m, moreStill
			}
			if n != c.Len() || n >= len(tokens) {
				t.Fatalf("%d of %d tokens, a cache of %d", n, len(tokens), c.Len())
			}
			if most := known.longest(id, tokens); n > most || exact && n < most && (n < most&^(exec.PagePositions-1) || !crowded(tree, id, tokens[:most])) {
				t.Fatalf("%d tokens found, %d known", n, most)
			}
			verify(t, id, tokens, c)
			if n > 0 {
				hits++
			}
			check(t, tree)
			if lacks := c.MissingPages(len(tokens) - n); lacks > pages.Free() {
				tree.Evict(lacks - pages.Free())
				if lacks > pages.Free() {
					c.Release()
					break
				}
			}
			compute(t, id, tokens, c)
			running = append(running, sequence{id, tokens, c})
		case op < 14 && len(running) > 0: // it goes into the tree
			s := running[r.IntN(len(running))]
			part := s.tokens[:r.IntN(len(s.tokens)+1)]
			tree.Insert(s.id, part, s.cache)
			known.insert(s.id, part)
		case op < 17 && len(running) > 0: // and ends
			i := r.IntN(len(running))
			s := running[i]
			verify(t, s.id, s.tokens, s.cache)
			tree.Insert(s.id, s.tokens, s.cache)
			known.insert(s.id, s.tokens)
			s.cache.Release()
			running = slices.Delete(running, i, i+1)
		case exact:
		case op == 17:
			n, before := r.IntN(12), pages.InUse()
			if got := tree.Evict(n); got > n || before-pages.InUse() != got {
				t.Fatalf("%d pages wanted, %d said to be free, %d are", n, got, before-pages.InUse())
			}
		case op == 18 && r.IntN(5) == 0:
			tree.Forget(spaces[r.IntN(len(spaces))])
		case op == 19 && damage && tree.spilled.len > 0:
			// Somebody writes into a slot.
			v := tree.spilled.first
			for range r.IntN(tree.spilled.len) {
				v = v.links[byTree].after
			}
			at := int64(v.slot.at)*int64(tree.spill.stride) + int64(r.IntN(tree.spill.sealed))
			if _, err := tree.spill.file.WriteAt([]byte{byte(r.IntN(256))}, at); err != nil {
				t.Fatal(err)
			}
		}
		check(t, tree)
		held := map[*exec.Page]bool{}
		for v := range maps.Values(tree.edges) {
			if v.page != nil {
				held[v.page] = true
			}
		}
		for _, s := range running {
			for i := range exec.PagesFor(s.cache.Len()) {
				held[s.cache.Page(i)] = true
			}
		}
		if pages.InUse() != len(held) || pages.InUse() > limit {
			t.Fatalf("%d pages in use, %d held, at most %d", pages.InUse(), len(held), limit)
		}
	}
	for _, s := range running {
		verify(t, s.id, s.tokens, s.cache)
		s.cache.Release()
	}
	st := tree.Stats()
	if pages.InUse() != st.Pages || hits == 0 {
		t.Errorf("%d pages in use, %d in the tree, %d hits", pages.InUse(), st.Pages, hits)
	}
	if evicts := !exact; evicts != (st.Evicted > 0) || (tree.spill != nil) != (st.Spilled > 0) || damage != (st.SpillDamaged > 0) {
		t.Errorf("not what the test is for: %+v", st)
	}
	if tree.spill != nil && cfg.Pages > 1 && st.Promoted == 0 {
		t.Errorf("nothing came back: %+v", st)
	}
	if tree.SpillErr() != nil {
		t.Error(tree.SpillErr())
	}
	tree.Clear()
	check(t, tree)
	if pages.InUse() != 0 || len(tree.edges) != 0 || tree.Stats().Namespaces != 0 {
		t.Errorf("cleared: %d pages in use, %d nodes", pages.InUse(), len(tree.edges))
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}
