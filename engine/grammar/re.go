package grammar

import (
	"encoding/binary"
	"maps"
	"slices"
)

// reKind is a kind of byte-level expression.
type reKind uint8

const (
	reSet    reKind = iota // one byte of set; nothing when that is empty
	reEmpty                // the empty text
	reConcat               // sub[0], which is no concatenation, then sub[1]
	reOr                   // any of sub, sorted by id
	reRepeat               // sub[0], from min to max times
	reAnd                  // all of sub, sorted by id
	reNot                  // not sub[0]
)

// re is an expression over bytes: a state of a lexeme's automaton. Equal expressions (after simplification) are the same pointer.
type re struct {
	id       int64
	kind     reKind
	null     bool // matches the empty text
	simple   bool // contains neither reAnd nor reNot, so it matches something unless it is none
	live     verdict
	min, max int32
	set      byteSet
	first    byteSet // a match that is not empty begins with one of these; other bytes need not be tried
	sub      []*re

	// What is known so far, to be forgotten and computed anew.
	next    []*re // by byte class
	clamped *re
	scan    *scan
}

type verdict uint8

const (
	unknown verdict = iota
	yes
	no
)

// unlimited is the max of a repetition without upper bound.
const unlimited = -1

// table makes expressions, so that equal ones are made once.
type table struct {
	*meter
	known map[string]*re
	base  []*re // made with the grammar; the others are states that texts have reached
	key   []byte
	ids   int64

	none, empty, all *re
	classes
}

func newTable(m *meter) *table {
	t := &table{meter: m, known: map[string]*re{}}
	t.none = t.intern(re{kind: reSet, simple: true})
	t.empty = t.intern(re{kind: reEmpty, simple: true, null: true})
	t.all = t.intern(re{kind: reNot, null: true, first: fullSet, sub: []*re{t.none}, live: yes})
	return t
}

// reBytes is about the memory of an expression without its parts.
const reBytes = 240

func (t *table) intern(n re) *re {
	k := t.keyOf(&n)
	if old := t.known[string(k)]; old != nil {
		return old
	}
	t.keep(reBytes + len(k) + 8*len(n.sub))
	n.id = t.ids
	t.ids++
	n.sub = slices.Clone(n.sub)
	made := &n
	t.known[string(k)] = made
	return made
}

// keyOf is what makes an expression the same as another. It is valid until the next call.
func (t *table) keyOf(n *re) []byte {
	k := append(t.key[:0], byte(n.kind))
	switch n.kind {
	case reSet:
		for _, w := range n.set {
			k = binary.LittleEndian.AppendUint64(k, w)
		}
	case reRepeat:
		k = binary.LittleEndian.AppendUint32(k, uint32(n.min))
		k = binary.LittleEndian.AppendUint32(k, uint32(n.max))
	default: // the parts say all
	}
	for _, s := range n.sub {
		k = binary.LittleEndian.AppendUint64(k, uint64(s.id))
	}
	t.key = k
	return k
}

// rebase makes the expressions of this moment the grammar's own.
func (t *table) rebase() { t.base = slices.Collect(maps.Values(t.known)) }

// refill forgets all expressions but the grammar's own.
func (t *table) refill() {
	clear(t.known)
	for _, n := range t.base {
		t.known[string(t.keyOf(n))] = n
	}
}

// classify finds the byte classes, once all sets are known: derivatives use these sets and their unions only.
func (t *table) classify() {
	var sets []byteSet
	for _, n := range t.known {
		if n.kind == reSet {
			sets = append(sets, n.set)
		}
	}
	t.spend(50 * len(sets))
	t.classes = newClasses(sets)
}

func (t *table) bytes(s byteSet) *re {
	return t.intern(re{kind: reSet, set: s, first: s, simple: true})
}

func (t *table) concat(a, b *re) *re {
	switch {
	case a == t.none || b == t.none:
		return t.none
	case a == t.empty:
		return b
	case b == t.empty:
		return a
	case a.kind == reConcat:
		t.spend(1)
		return t.concat(a.sub[0], t.concat(a.sub[1], b))
	}
	if joined := t.joinRepeats(a, b); joined != nil {
		return joined
	}
	n := re{kind: reConcat, null: a.null && b.null, simple: a.simple && b.simple, first: a.first, sub: []*re{a, b}}
	if a.null {
		n.first = n.first.or(b.first)
	}
	return t.intern(n)
}

// joinRepeats is x{a,b}x{c,d} = x{a+c,b+d}, where the second may have something behind it; nil when there is nothing to join.
func (t *table) joinRepeats(a, b *re) *re {
	head, tail := b, t.empty
	if b.kind == reConcat {
		head, tail = b.sub[0], b.sub[1]
	}
	if a.kind != reRepeat || head.kind != reRepeat || a.sub[0] != head.sub[0] {
		return nil
	}
	hi := int32(unlimited)
	if a.max != unlimited && head.max != unlimited {
		hi = min(a.max+head.max, maxCount)
	}
	return t.concat(t.repeat(a.sub[0], min(a.min+head.min, maxCount), hi), tail)
}

func (t *table) repeat(x *re, lo, hi int32) *re {
	if x.null {
		lo = 0
	}
	switch {
	case hi == 0 || x == t.empty:
		return t.empty
	case x == t.none && lo == 0:
		return t.empty
	case x == t.none:
		return t.none
	case lo == 1 && hi == 1:
		return x
	}
	if x.kind == reRepeat {
		if joined := t.nestRepeats(x, lo, hi); joined != nil {
			return joined
		}
	}
	return t.intern(re{kind: reRepeat, min: lo, max: hi, null: lo == 0, simple: x.simple, first: x.first, sub: []*re{x}})
}

// nestRepeats is (y{a,b}){lo,hi} as one repetition of y, when the possible counts have no gaps; else nil.
func (t *table) nestRepeats(x *re, lo, hi int32) *re {
	a, b := int64(x.min), int64(x.max)
	l, h := int64(lo), int64(hi)
	if l != h && (l == 0 && a > 1 || l > 0 && b >= 0 && (l+1)*a > l*b+1) {
		return nil // from none, or from l rounds, to the next count there is a gap
	}
	lo2, hi2 := l*a, int64(unlimited)
	if h >= 0 && b >= 0 {
		hi2 = h * b
	}
	if max(lo2, hi2) > maxCount {
		return nil
	}
	return t.repeat(x.sub[0], int32(lo2), int32(hi2))
}

func (t *table) and(sub []*re) *re {
	var flat []*re
	for _, s := range sub {
		if s.kind == reAnd {
			flat = append(flat, s.sub...)
		} else if s != t.all {
			flat = append(flat, s)
		}
	}
	slices.SortFunc(flat, byID)
	flat = slices.Compact(flat)
	t.spend(len(flat))
	if len(flat) == 0 {
		return t.all
	}
	if len(flat) == 1 {
		return flat[0]
	}
	n := re{kind: reAnd, null: true, first: fullSet, sub: flat}
	for _, s := range flat {
		n.null = n.null && s.null
		n.first = n.first.and(s.first)
	}
	switch {
	case !n.first.empty() && !slices.Contains(flat, t.none):
		return t.intern(n)
	case n.null:
		return t.empty
	default:
		return t.none
	}
}

func (t *table) not(x *re) *re {
	switch {
	case x == t.none:
		return t.all
	case x.kind == reNot:
		return x.sub[0]
	}
	return t.intern(re{kind: reNot, null: !x.null, first: fullSet, sub: []*re{x}})
}

func byID(a, b *re) int { return int(a.id - b.id) }

// derive is what may follow a byte of class c: the derivative of n.
func (t *table) derive(n *re, c uint8) *re {
	b := t.member[c]
	if !n.first.has(b) {
		return t.none
	}
	if n.kind == reSet {
		return t.empty
	}
	if n.kind == reConcat && n.sub[0].kind == reSet {
		return n.sub[1]
	}
	if n.next != nil && n.next[c] != nil {
		return n.next[c]
	}
	d := t.deriveNew(n, c)
	if n.next == nil {
		n.next = make([]*re, t.count)
		t.keep(8 * t.count)
	}
	n.next[c] = d
	return d
}

func (t *table) deriveNew(n *re, c uint8) *re {
	t.spend(1 + len(n.sub))
	switch n.kind {
	case reSet, reEmpty: // a set's is in derive
		return t.none
	case reConcat:
		d := t.concat(t.derive(n.sub[0], c), n.sub[1])
		if !n.sub[0].null {
			return d
		}
		return t.or(d, t.derive(n.sub[1], c))
	case reRepeat:
		hi := n.max
		if hi != unlimited {
			hi--
		}
		return t.concat(t.derive(n.sub[0], c), t.repeat(n.sub[0], max(0, n.min-1), hi))
	case reNot:
		return t.not(t.derive(n.sub[0], c))
	default:
		return t.deriveAll(n, c)
	}
}

// deriveAll is the derivative of alternatives or an intersection.
func (t *table) deriveAll(n *re, c uint8) *re {
	ds := make([]*re, 0, min(len(n.sub), 16))
	for _, s := range n.sub {
		d := t.derive(s, c)
		if d != t.none {
			ds = append(ds, d)
		} else if n.kind == reAnd {
			return t.none
		}
	}
	if n.kind == reAnd {
		return t.and(ds)
	}
	return t.or(ds...)
}
