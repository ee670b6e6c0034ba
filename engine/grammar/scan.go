package grammar

import "slices"

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

// exit is the remainders of tokens beyond the end of a lexeme.
type exit struct {
	accept *accept // lexemes that may have ended; nil: the only one
	rest   *trie
}

// maxRemainders bounds the exits of a state.
const maxRemainders = 30_000

// scanner finds scans by walking the vocabulary's trie.
type scanner struct {
	*lexer
	trie  *trie
	long  int32
	path  []*state // by depth
	spell []byte
	marks []uint64
}

func newScanner(l *lexer, v *Vocabulary) *scanner {
	return &scanner{
		lexer: l, trie: v.trie, long: v.trie.deep, path: make([]*state, v.trie.deep+1), spell: make([]byte, v.trie.deep+1),
		marks: make([]uint64, v.Words()),
	}
}

// of is the scan of a state. States of one lexeme share it if what remains of the lexeme is the same.
func (sc *scanner) of(s *state) *scan {
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
	t := sc.trie
	clear(sc.marks)
	sc.path[0] = start
	rests := map[*accept][]entry{}
	var ended []int32 // depths on the path at which a lexeme may have ended
	remainders, visited, count := 0, 0, 0
	for i := int32(0); int(i) < len(t.bytes); {
		visited++
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
		sc.spell[d] = b
		for len(ended) > 0 && ended[len(ended)-1] >= d {
			ended = ended[:len(ended)-1]
		}
		if next == sc.dead {
			for _, e := range ended {
				a := sc.path[e].accept
				before := len(rests[a])
				rests[a] = sc.remainders(rests[a], i, e)
				remainders += len(rests[a]) - before
			}
			if remainders > maxRemainders {
				return &scan{wide: true}
			}
			i = t.skip[i]
			continue
		}
		sc.path[d] = next
		if next.accept != nil {
			ended = append(ended, d)
		}
		if t.token[i] != noToken {
			t.mark(sc.marks, int(i))
			count++
		}
		i++
	}
	sc.spend(visited/8 + 4*remainders)
	return sc.result(start, newTokens(sc.marks, count), rests)
}

// remainders adds the tokens at and below node i, of each what comes after depth e.
func (sc *scanner) remainders(list []entry, i, e int32) []entry {
	t := sc.trie
	spell := append([]byte(nil), sc.spell[e+1:t.depth[i]]...)
	base := int(t.depth[i]) - 1 - len(spell) // depth of the remainders' beginning
	for j := i; j < t.skip[i]; j++ {
		spell = append(spell[:int(t.depth[j])-1-base], t.bytes[j])
		switch x := t.token[j]; {
		case x >= 0:
			list = append(list, entry{string(spell), x})
		case x < noToken:
			for _, y := range t.more[-2-x] {
				list = append(list, entry{string(spell), y})
			}
		}
		if len(list) > maxRemainders {
			break
		}
	}
	return list
}

func (sc *scanner) result(start *state, inner *tokens, rests map[*accept][]entry) *scan {
	out := &scan{inner: inner}
	for a, list := range rests {
		e := exit{accept: a, rest: newTrie(list)}
		if len(start.rest) == 1 {
			e.accept = nil
		}
		out.exits = append(out.exits, e)
		sc.keep(64 + e.rest.size())
	}
	slices.SortFunc(out.exits, func(a, b exit) int {
		if a.accept == nil {
			return 0
		}
		return int(a.accept.id - b.accept.id)
	})
	sc.keep(inner.bytes() + 64)
	return out
}
