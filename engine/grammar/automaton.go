package grammar

import (
	"math/bits"
	"sync"
)

// automaton is a grammar fitted to a vocabulary, with everything that its texts have made known so far.
type automaton struct {
	mu sync.Mutex // guards all of it, the configs that matchers hold included

	*reader
	scanner *scanner
	voc     *Vocabulary
	limits  Limits
	first   *config
	path    []*config // by depth
}

// newAutomaton makes src ready for v; for nil, for a vocabulary that can spell everything.
func newAutomaton(src *source, v *Vocabulary, strict bool) (a *automaton, err error) {
	defer guard(&err)
	u := units{bytes: fullSet, all: true}
	if v != nil {
		u = v.units
	}
	m := &meter{}
	m.limit(src.limits.BuildSteps, buildTooLong())
	t := newTable(m)
	p, err := compile(src, newLowering(t, u), strict)
	if err != nil {
		return nil, err
	}
	t.rebase()
	l := newLexer(t)
	a = &automaton{reader: newReader(newParser(p, l, src.limits.Items)), voc: v, limits: src.limits}
	a.first = a.begin()
	if v != nil {
		a.scanner = newScanner(l, v)
		a.path = make([]*config, v.trie.deep+1)
	}
	m.used = 0 // from here on it is what can be forgotten
	return a, nil
}

// call begins a bounded piece of work.
func (a *automaton) call() {
	if a.used > a.limits.CacheBytes {
		a.forget()
	}
	a.limit(a.limits.MaskSteps, maskTooLong())
}

// forget drops what can be found again. Configs, sets and states that matchers hold stay valid by themselves; whoever moves on from
// them finds new ones.
func (a *automaton) forget() {
	for _, c := range a.configs {
		c.next, c.mask = nil, nil
	}
	for _, s := range a.sets {
		s.next, s.alone = nil, nil
	}
	for _, s := range a.states {
		s.next, s.clamped, s.scan = nil, nil, nil
	}
	for _, n := range a.known {
		n.next, n.clamped, n.scan = nil, nil, nil
	}
	clear(a.configs)
	clear(a.sets)
	clear(a.states)
	clear(a.accepts)
	a.refill()
	a.used = 0
}

// mask adds the tokens that may follow c to dst.
func (a *automaton) mask(c *config, dst []uint64) {
	if c.ends {
		for _, x := range a.voc.ends {
			dst[x>>6] |= 1 << (x & 63)
		}
	}
	if c.mask != nil {
		c.mask.addTo(dst)
		return
	}
	visited := 0
	for _, t := range c.threads {
		visited += a.threadMask(t, dst)
	}
	a.spend(visited / 8)
	if visited > minCachedMask {
		c.mask = newTokens(dst, onesCount(dst))
		a.keep(c.mask.bytes())
	}
}

// minCachedMask is the number of nodes visited from which on a mask is worth remembering.
const minCachedMask = 64

// threadMask adds the tokens that may follow one reading.
func (a *automaton) threadMask(t thread, dst []uint64) (visited int) {
	s := a.scanner.find(t.state)
	if s.wide {
		all := a.voc.trie
		return a.walk(all, 0, len(all.bytes), a.config([]thread{t}, false), dst)
	}
	s.inner.addTo(dst)
	for _, x := range s.exits {
		ended := x.accept
		if ended == nil {
			ended = a.accepted(t.state.lexemes)
		}
		if next := a.alone(a.after(t.set, ended)); len(next.threads) > 0 {
			visited += a.walkExit(&x, next, dst)
		}
	}
	return visited
}

// walkExit adds the tokens that go on beyond the end of a lexeme, behind which is start.
func (a *automaton) walkExit(x *exit, start *config, dst []uint64) (visited int) {
	var from, to int32
	at := start
	for _, w := range x.ranges {
		if w.from != from || w.to != to {
			from, to = w.from, w.to
			at = a.readAll(start, x.bytes[from:to])
		}
		if at != a.reader.dead {
			visited += a.walk(w.trie, int(w.node), int(w.trie.skip[w.node]), at, dst)
		}
	}
	return visited + len(x.ranges)
}

// walk adds the tokens that may follow c, of the nodes of a trie from one on to another behind it; the first is a child of c's.
func (a *automaton) walk(t *trie, from, to int, c *config, dst []uint64) (visited int) {
	if from == to {
		return 0
	}
	top := t.depth[from]
	a.path[0] = c
	for i := from; i < to; {
		visited++
		d := t.depth[i] - top
		at := a.path[d]
		class := a.of[t.bytes[i]]
		var next *config
		if at.next != nil {
			next = at.next[class]
		}
		if next == nil {
			next = a.read(at, class)
		}
		if next == a.reader.dead {
			i = int(t.skip[i])
			continue
		}
		a.path[d+1] = next
		if t.token[i] != noToken {
			t.mark(dst, i)
		}
		i++
	}
	return visited
}

func onesCount(mask []uint64) (n int) {
	for _, w := range mask {
		n += bits.OnesCount64(w)
	}
	return n
}

// eachBit calls f for each bit that is set.
func eachBit(mask []uint64, f func(int32)) {
	for i, w := range mask {
		for ; w != 0; w &= w - 1 {
			f(int32(i*64 + bits.TrailingZeros64(w)))
		}
	}
}
