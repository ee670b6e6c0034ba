package exec

import "testing"

func TestForkSharesFullPagesAndCopiesTheLast(t *testing.T) {
	p := newPages(1, 1, 2, false)
	a := p.NewCache()
	a.Reserve(pagePositions + 3)
	a.length = pagePositions + 3
	a.pages[0].half[0], a.pages[1].half[0] = 7, 8
	b := a.Fork()
	if b.pages[0] != a.pages[0] || b.pages[1] == a.pages[1] || b.pages[1].half[0] != 8 || b.length != a.length {
		t.Fatal("the fork differs from its origin")
	}
	b.pages[1].half[0] = 9
	if a.pages[1].half[0] != 8 {
		t.Error("what a fork writes is seen by its origin")
	}
	shared := a.pages[0]
	a.Release()
	if shared.half[0] != 7 {
		t.Error("a shared page was cleared while in use")
	}
	b.Release()
	if shared.half[0] != 0 || len(p.free) != 3 {
		t.Errorf("after the last release: %d, %d free pages", shared.half[0], len(p.free))
	}
	full := p.NewCache()
	full.Reserve(pagePositions)
	full.length = pagePositions
	if f := full.Fork(); len(f.pages) != 1 || f.pages[0] != full.pages[0] {
		t.Error("a cache that ends with a full page shares all")
	}
}

func TestPagesAreClearedBeforeReuse(t *testing.T) {
	p := newPages(2, 2, 4, false)
	c := p.NewCache()
	c.Reserve(1)
	pg := c.pages[0]
	for i := range pg.half {
		pg.half[i] = 0xffff
	}
	c.Release()
	again := p.get()
	if again != pg {
		t.Fatal("the page was not reused")
	}
	for _, v := range again.half {
		if v != 0 {
			t.Fatal("a reused page holds old numbers")
		}
	}
}

func TestKeysAndValuesDoNotOverlap(t *testing.T) {
	p := newPages(2, 3, 4, false)
	pg := p.get()
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
