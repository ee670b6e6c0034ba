package grammar

import (
	"bytes"
	"slices"
)

// tokens is a set of tokens: a list while there are few, else a mask.
type tokens struct {
	few  []int32
	mask []uint64
}

func newTokens(mask []uint64, count int) *tokens {
	if count > 2*len(mask) {
		return &tokens{mask: slices.Clone(mask)}
	}
	t := &tokens{few: make([]int32, 0, count)}
	eachBit(mask, func(i int32) { t.few = append(t.few, i) })
	return t
}

func (t *tokens) bytes() int { return 48 + 4*len(t.few) + 8*len(t.mask) }

func (t *tokens) addTo(dst []uint64) {
	for _, x := range t.few {
		dst[x>>6] |= 1 << (x & 63)
	}
	for i, w := range t.mask {
		dst[i] |= w
	}
}

// scan is what the lexer's state alone says of the vocabulary: tokens that stay inside the lexemes, and those that go beyond the end
// of some, of which the parser has to be asked what follows that end.
type scan struct {
	inner *tokens
	exits []exit
	wide  bool // there are too many exits: the parser has to be asked about every token
}

// exit is where tokens go on beyond the end of a lexeme.
type exit struct {
	accept *accept // lexemes that may have ended; nil: the only one
	ranges []tokenRange
	bytes  []byte // the bytes that led there
}

// tokenRange is the tokens at and below a node of a trie. Between the end of the lexeme and that node are bytes of spell.
type tokenRange struct {
	trie     *trie
	node     int32
	from, to int32
}

// maxExits bounds the exits of a state.
const maxExits = 20_000

// scanner finds scans by walking the vocabulary's tries.
type scanner struct {
	*lexer
	voc        *Vocabulary
	long       int32
	plain      [sliceRest][][][]uint8 // the characters of each kind of slice
	path       []*state               // by depth
	spelled    []byte                 // the bytes that led there
	marks      []uint64
	ended      []int32 // depths on the path at which a lexeme may have ended
	exits      []exit
	visited    int
	rangeCount int // of all exits
}

func newScanner(l *lexer, v *Vocabulary) *scanner {
	long := v.trie.deep
	sc := &scanner{
		lexer: l, voc: v, long: long, path: make([]*state, long+1), spelled: make([]byte, long+1),
		marks: make([]uint64, v.Words()),
	}
	sc.plain = sc.plainSeqs()
	return sc
}

// find is the scan of a state. States of one lexeme share it if what remains of the lexeme is the same.
func (sc *scanner) find(s *state) *scan {
	if s.scan != nil {
		return s.scan
	}
	c := sc.clampState(s, sc.long)
	if len(c.rest) == 1 {
		if c.rest[0].scan == nil {
			c.rest[0].scan = sc.walk(c)
		}
		s.scan = c.rest[0].scan
	} else {
		if c.scan == nil {
			c.scan = sc.walk(c)
		}
		s.scan = c.scan
	}
	return s.scan
}

func (sc *scanner) walk(start *state) *scan {
	clear(sc.marks)
	sc.path[0] = start
	sc.exits, sc.visited, sc.rangeCount = nil, 0, 0
	count := 0
	for i := range sc.voc.slices {
		sl := &sc.voc.slices[i]
		switch {
		case sl.kind == sliceRest:
		case sc.holds(start, sl.kind, sl.chars):
			sl.tokens.addTo(sc.marks)
			count += sl.count
			continue
		case sc.excludes(start, sl.kind, sl.chars):
			continue
		}
		n, ok := sc.walkTrie(sl.trie)
		if !ok {
			return &scan{wide: true}
		}
		count += n
	}
	sc.spend(sc.visited/8 + sc.rangeCount)
	return sc.result(start, newTokens(sc.marks, count))
}

// walkTrie marks the tokens of t that stay inside the lexemes and collects the ways of the others. It gives up when there are too many.
func (sc *scanner) walkTrie(t *trie) (count int, ok bool) {
	ended := sc.ended[:0]
	for i := int32(0); int(i) < len(t.bytes); {
		sc.visited++
		d := t.depth[i]
		b := t.bytes[i]
		at := sc.path[d-1]
		class := sc.classes.of[b]
		var next *state
		if at.next != nil {
			next = at.next[class]
		}
		if next == nil {
			next = sc.step(at, class)
		}
		sc.spelled[d] = b
		for len(ended) > 0 && ended[len(ended)-1] >= d {
			ended = ended[:len(ended)-1]
		}
		if next == sc.dead {
			for _, e := range ended {
				sc.addTokenRange(t, i, e)
			}
			if sc.rangeCount > maxExits {
				return 0, false
			}
			i = t.skip[i]
			continue
		}
		sc.path[d] = next
		if next.accept != nil {
			ended = append(ended, d)
		}
		if t.token[i] != noToken {
			count += t.mark(sc.marks, int(i))
		}
		i++
	}
	sc.ended = ended
	return count, true
}

// addTokenRange adds the tokens at and below node i, of which a lexeme may have ended at depth e.
func (sc *scanner) addTokenRange(t *trie, i, e int32) {
	ended := sc.path[e].accept
	k := slices.IndexFunc(sc.exits, func(x exit) bool { return x.accept == ended })
	if k < 0 {
		k = len(sc.exits)
		sc.exits = append(sc.exits, exit{accept: ended})
	}
	x := &sc.exits[k]
	between := sc.spelled[e+1 : t.depth[i]]
	w := tokenRange{trie: t, node: i}
	if n := len(x.ranges); n > 0 && bytes.Equal(x.bytes[x.ranges[n-1].from:x.ranges[n-1].to], between) {
		w.from, w.to = x.ranges[n-1].from, x.ranges[n-1].to
	} else {
		w.from = int32(len(x.bytes))
		x.bytes = append(x.bytes, between...)
		w.to = int32(len(x.bytes))
	}
	x.ranges = append(x.ranges, w)
	sc.rangeCount++
}

func (sc *scanner) result(start *state, inner *tokens) *scan {
	out := &scan{inner: inner, exits: sc.exits}
	for i := range out.exits {
		x := &out.exits[i]
		if len(start.rest) == 1 {
			x.accept = nil // so that other lexemes can share it
		}
		x.ranges, x.bytes = slices.Clip(x.ranges), slices.Clip(x.bytes)
		sc.keep(64 + 24*len(x.ranges) + len(x.bytes))
	}
	sc.keep(inner.bytes() + 64)
	return out
}
