package exec

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// fill makes a cache of n positions whose pages begin with the numbers of their positions.
func fill(t *testing.T, p *Pages, n int) *Cache {
	t.Helper()
	c := p.NewCache()
	if !c.Reserve(n) {
		t.Fatal("no page is free")
	}
	for i := range n {
		c.pages[i/PagePositions].mem[i%PagePositions] = byte(i)
	}
	c.Advance(n)
	return c
}

func TestForksShareUntilTheyWrite(t *testing.T) {
	p := NewPages(1, 1, 2, false)
	a := fill(t, p, PagePositions+3)
	b := a.Fork()
	if p.InUse() != 2 || b.Len() != a.Len() || !slices.Equal(a.pages, b.pages) {
		t.Fatal("the fork differs from its origin")
	}
	if b.MissingPages(1) != 1 || a.MissingPages(0) != 0 || !b.Reserve(1) || p.InUse() != 3 {
		t.Fatalf("%d pages in use: the page that both would write to is not copied", p.InUse())
	}
	if b.pages[0] != a.pages[0] || b.pages[1] == a.pages[1] || !bytes.Equal(b.pages[1].mem, a.pages[1].mem) {
		t.Fatal("the fork's pages are not those of its origin, or a copy of the last")
	}
	b.pages[1].mem[3] = 99
	if last := a.pages[1]; !a.Reserve(1) || a.pages[1] != last || last.mem[3] == 99 {
		t.Error("the origin, now alone with its page, does not write to it in place or sees what the fork writes")
	}
	shared := a.pages[0]
	a.Release()
	if shared.mem[1] != 1 {
		t.Error("a shared page was cleared while in use")
	}
	b.Release()
	if shared.mem[1] != 0 || len(p.free) != 3 || p.InUse() != 0 {
		t.Errorf("after the last release: %d, %d free pages, %d in use", shared.mem[1], len(p.free), p.InUse())
	}
}

func TestForkOfFullPagesNeedsNoCopy(t *testing.T) {
	p := NewPages(1, 1, 2, false)
	a := fill(t, p, PagePositions)
	b := a.Fork()
	if b.MissingPages(1) != 1 || !b.Reserve(1) || b.pages[0] != a.pages[0] || len(b.pages) != 2 {
		t.Error("a cache that ends with a full page shares it for good")
	}
}

func TestLimit(t *testing.T) {
	p := NewPages(1, 1, 2, false)
	p.SetLimit(3)
	a := fill(t, p, 2*PagePositions)
	b := a.Fork()
	if p.Free() != 1 || b.Reserve(PagePositions+1) || b.Len() != 2*PagePositions || len(b.pages) != 2 || p.InUse() != 2 {
		t.Error("a refused reservation takes pages")
	}
	b.Truncate(PagePositions + 1)
	c := b.Fork()
	if !b.Reserve(1) || p.Free() != 0 || c.Reserve(PagePositions) || c.Reserve(1) || p.Take() != nil {
		t.Error("more pages than the limit")
	}
	p.SetLimit(1)
	if p.Free() != 0 || !a.Reserve(0) {
		t.Error("a limit below what is held")
	}
	for _, x := range []*Cache{a, b, c} {
		x.Release()
	}
	if p.Free() != 1 || p.InUse() != 0 {
		t.Errorf("%d free, %d in use", p.Free(), p.InUse())
	}
}

func TestTruncate(t *testing.T) {
	p := NewPages(1, 1, 2, false)
	a := fill(t, p, 3*PagePositions)
	third := a.pages[2]
	a.Reserve(1)
	a.Truncate(3 * PagePositions)
	if p.InUse() != 3 {
		t.Error("reserved room was kept")
	}
	a.Truncate(PagePositions + 1)
	if p.InUse() != 2 || a.Len() != PagePositions+1 || third.mem[1] != 0 {
		t.Error("a page that is no longer needed was kept, or not cleared")
	}
	for _, n := range []int{-1, a.Len() + 1} {
		mustPanic(t, "Truncate", func() { a.Truncate(n) })
	}
	a.Truncate(0)
	if p.InUse() != 0 {
		t.Error("an empty cache holds pages")
	}
}

func TestHandles(t *testing.T) {
	p := NewPages(2, 1, 4, true)
	a := fill(t, p, 2*PagePositions)
	kept := a.Page(0)
	p.Hold(kept)
	a.Release()
	if p.InUse() != 1 || kept.Holders() != 1 || kept.Memory()[1] != 1 {
		t.Fatal("a page that is held was given back")
	}
	saved := slices.Clone(kept.Memory())
	if len(saved) != p.Bytes() {
		t.Errorf("%d bytes in a page of %d", len(saved), p.Bytes())
	}
	loaded := p.Take()
	copy(loaded.Memory(), saved)
	b := p.Share([]*Page{loaded}, 10)
	p.Drop(loaded)
	if b.Len() != 10 || loaded.Holders() != 1 || b.MissingPages(1) != 0 {
		t.Error("a page that only the cache holds is written in place")
	}
	k, s := p.eights(loaded, 1, 0, 1)
	k[len(k)-1], s[len(s)-1] = -1, 1
	if m := loaded.Memory(); m[len(m)-2] != 0x80 || m[len(m)-1] != 0x3f || m[2*2*PagePositions*4-1] != 0xff {
		t.Error("the memory of a page is not all of it")
	}
	b.Release()
	p.Drop(kept)
	if p.InUse() != 0 {
		t.Error("pages were not given back")
	}
	mustPanic(t, "Drop", func() { p.Drop(kept) })
	mustPanic(t, "Share", func() { p.Share(nil, 1) })
}

func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}

func TestPagesAreClearedBeforeReuse(t *testing.T) {
	for _, eight := range []bool{false, true} {
		p := NewPages(2, 2, 4, eight)
		pg := p.Take()
		for i := range pg.mem {
			pg.mem[i] = 0xff
		}
		p.Drop(pg)
		again := p.Take()
		if again != pg {
			t.Fatal("the page was not reused")
		}
		if slices.Max(again.mem) != 0 {
			t.Fatal("a reused page holds old numbers")
		}
	}
}

func TestKeysAndValuesDoNotOverlap(t *testing.T) {
	p := NewPages(2, 3, 4, false)
	pg := p.Take()
	mark := uint16(0)
	for layer := range 2 {
		for head := range 3 {
			for _, part := range [][]uint16{p.halves(pg, layer, head, 0), p.halves(pg, layer, head, 1)} {
				mark++
				for i := range part {
					if part[i] != 0 {
						t.Fatal("overlap")
					}
					part[i] = mark
				}
			}
		}
	}
	for _, v := range pg.half {
		if v == 0 {
			t.Fatal("a gap")
		}
	}
}

// Whatever caches share, fork, cut and drop, each sees what it wrote, and no page is lost.
func TestCachesAreIsolated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := NewPages(1, 1, 2, false)
	p.SetLimit(12)
	type sequence struct {
		cache *Cache
		want  []byte
	}
	var all []sequence
	refused := 0
	for range 20_000 {
		i := len(all)
		if i > 0 {
			i = r.IntN(i)
		}
		switch op := r.IntN(10); {
		case len(all) == 0 || op == 0 && len(all) < 8:
			all = append(all, sequence{cache: p.NewCache()})
		case op == 1 && len(all) < 8:
			all = append(all, sequence{all[i].cache.Fork(), slices.Clone(all[i].want)})
		case op == 2:
			all[i].cache.Release()
			all = slices.Delete(all, i, i+1)
		case op == 3:
			n := r.IntN(len(all[i].want) + 1)
			all[i].cache.Truncate(n)
			all[i].want = all[i].want[:n]
		case op == 4 && len(all) < 8: // through handles, as the prefix tree does
			n := r.IntN(len(all[i].want) + 1)
			c := p.Share(all[i].cache.pages[:PagesFor(n)], n)
			all = append(all, sequence{c, slices.Clone(all[i].want[:n])})
		default:
			s, n := &all[i], 1+r.IntN(100)
			lacks, free := s.cache.MissingPages(n), p.Free()
			if ok := s.cache.Reserve(n); ok != (lacks <= free) {
				t.Fatalf("%d pages free, %d wanted, reserved: %v", free, lacks, ok)
			} else if !ok {
				refused++
				break
			}
			if p.Free() != free-lacks {
				t.Fatalf("%d pages announced, %d taken", lacks, free-p.Free())
			}
			for range n {
				v := byte(r.IntN(255) + 1)
				s.cache.pages[len(s.want)/PagePositions].mem[len(s.want)%PagePositions] = v
				s.want = append(s.want, v)
			}
			s.cache.Advance(n)
		}
		for _, s := range all {
			for at, v := range s.want {
				if s.cache.pages[at/PagePositions].mem[at%PagePositions] != v {
					t.Fatalf("position %d of %d changed", at, len(s.want))
				}
			}
		}
	}
	if refused == 0 {
		t.Error("the limit was never reached")
	}
	for _, s := range all {
		s.cache.Release()
	}
	if p.InUse() != 0 {
		t.Errorf("%d pages were not given back", p.InUse())
	}
}

// A sequence that goes on from shared pages, cut anywhere, gets the same outputs, bit by bit, as one that is computed from the start.
func TestSharedPrefixesAnswerTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, kv8 := range []bool{false, true} {
		prog := compileFamily(t, "llama", "int8", kv8)
		pool := NewPool(2)
		defer pool.Close()
		p := prog.NewPass(tiers()[0], pool)
		text := make([]int32, 2*PagePositions+20)
		for i := range text {
			text[i] = int32(r.IntN(30))
		}
		other := slices.Clone(text)
		feed := func(c *Cache, text []int32) (out [][]float32) {
			if !c.Reserve(len(text) - c.Len()) {
				t.Fatal("no page is free")
			}
			p.Rows = p.Rows[:0]
			for i := c.Len(); i < len(text); i++ {
				p.Rows = append(p.Rows, Row{Token: text[i], Cache: c, Pos: i, Wanted: true})
			}
			c.Advance(len(p.Rows))
			p.Run()
			for i := range p.Rows {
				out = append(out, slices.Clone(p.Result(i)))
			}
			return out
		}
		first := p.Pages().NewCache()
		want := feed(first, text)
		for _, cut := range []int{1, 63, 64, 65, 100, 128, 147} {
			c := first.Fork()
			c.Truncate(cut)
			for i := cut; i < len(other); i++ { // leave other content behind the cut before the real one comes
				other[i] = int32(r.IntN(30))
			}
			feed(c, other)
			c.Truncate(cut)
			if got := feed(c, text); !slices.EqualFunc(got, want[cut:], slices.Equal[[]float32]) {
				t.Errorf("kv8 %v: other outputs behind %d shared positions", kv8, cut)
			}
			c.Release()
		}
		first.Truncate(0)
		if got := feed(first, text); !slices.EqualFunc(got, want, slices.Equal[[]float32]) {
			t.Errorf("kv8 %v: other outputs the second time", kv8)
		}
		first.Release()
		if p.Pages().InUse() != 0 {
			t.Error("pages were not given back")
		}
	}
}
