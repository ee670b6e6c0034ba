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
	if visited > keptMask {
		c.mask = newTokens(dst, onesCount(dst))
		a.keep(c.mask.bytes())
	}
}

// keptMask is the number of nodes visited from which on a mask is worth remembering.
const keptMask = 64

// threadMask adds the tokens that may follow one reading.
func (a *automaton) threadMask(t thread, dst []uint64) (visited int) {
	s := a.scanner.find(t.state)
	if s.wide {
		return a.walk(a.voc.trie, a.config([]thread{t}, false), dst)
	}
	s.inner.addTo(dst)
	for _, e := range s.exits {
		ended := e.accept
		if ended == nil {
			ended = a.accepted(t.state.lexemes)
		}
		next := a.alone(a.after(t.set, ended))
		if len(next.threads) > 0 {
			visited += a.walk(e.rest, next, dst)
		}
	}
	return visited
}

// walk adds the tokens of a trie that may follow c.
func (a *automaton) walk(t *trie, c *config, dst []uint64) (visited int) {
	path := make([]*config, t.deep+1)
	path[0] = c
	for i := 0; i < len(t.bytes); {
		visited++
		d := t.depth[i]
		at := path[d-1]
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
		path[d] = next
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
