package grammar

import (
	"cmp"
	"slices"
)

// or is any of sub. Alternatives that begin alike are joined, which is what keeps states small where a text may be read in many ways:
// s·T | s'·T = (s∪s')·T for bytes, x{a,b}·T | x{c,d}·T = x{a,d}·T for touching counts, and x·T | x·U = x·(T|U).
func (t *table) or(sub ...*re) *re {
	flat := make([]*re, 0, len(sub)+2)
	null := false
	for _, s := range sub {
		switch {
		case s == t.all:
			return t.all
		case s == t.none:
		case s == t.empty:
			null = true
		case s.kind == reOr:
			flat = append(flat, s.sub...)
		default:
			flat = append(flat, s)
		}
	}
	t.spend(len(flat))
	flat = distinct(flat)
	if len(flat) > 1 {
		flat = t.joinBytes(flat)
		flat = t.joinCounts(flat)
		flat = t.joinHeads(flat)
	}
	return t.orOf(flat, null)
}

func distinct(list []*re) []*re {
	slices.SortFunc(list, byID)
	return slices.Compact(list)
}

// orOf interns the alternatives, of which null says that the empty text is one too.
func (t *table) orOf(flat []*re, null bool) *re {
	n := re{kind: reOr, simple: true}
	out := flat[:0]
	for _, s := range flat {
		if s == t.empty {
			null = true
			continue
		}
		out = append(out, s)
		n.null = n.null || s.null
		n.simple = n.simple && s.simple
		n.first = n.first.or(s.first)
	}
	if null && !n.null {
		out = append(out, t.empty)
		n.null = true
	}
	switch len(out) {
	case 0:
		return t.none
	case 1:
		return out[0]
	}
	slices.SortFunc(out, byID)
	n.sub = out
	return t.intern(n)
}

// cut takes the first part off.
func (t *table) cut(n *re) (head, tail *re) {
	if n.kind == reConcat {
		return n.sub[0], n.sub[1]
	}
	return n, t.empty
}

// regroup splits list into the alternatives that pick takes, sorted by order, and the others.
func (t *table) regroup(list []*re, pick func(head *re) bool, order func(a, b *re) int) (picked, others []*re) {
	n := 0
	for _, s := range list {
		if h, _ := t.cut(s); pick(h) {
			n++
		}
	}
	if n < 2 {
		return nil, list
	}
	for _, s := range list {
		if h, _ := t.cut(s); pick(h) {
			picked = append(picked, s)
		} else {
			others = append(others, s)
		}
	}
	slices.SortFunc(picked, order)
	return picked, others
}

// joinBytes joins alternatives of one byte with the same tail.
func (t *table) joinBytes(list []*re) []*re {
	tailOrder := func(a, b *re) int {
		_, x := t.cut(a)
		_, y := t.cut(b)
		return byID(x, y)
	}
	picked, out := t.regroup(list, func(h *re) bool { return h.kind == reSet }, tailOrder)
	for i := 0; i < len(picked); {
		head, tail := t.cut(picked[i])
		set, j := head.set, i+1
		for ; j < len(picked) && tailOrder(picked[i], picked[j]) == 0; j++ {
			h, _ := t.cut(picked[j])
			set = set.or(h.set)
		}
		if j == i+1 {
			out = append(out, picked[i])
		} else {
			out = append(out, t.concat(t.bytes(set), tail))
		}
		i = j
	}
	return out
}

// joinCounts joins repetitions of the same thing with the same tail and counts that touch.
func (t *table) joinCounts(list []*re) []*re {
	same := func(a, b *re) int {
		h, x := t.cut(a)
		g, y := t.cut(b)
		return cmp.Or(byID(h.sub[0], g.sub[0]), byID(x, y))
	}
	order := func(a, b *re) int {
		h, _ := t.cut(a)
		g, _ := t.cut(b)
		return cmp.Or(same(a, b), int(h.min-g.min))
	}
	picked, out := t.regroup(list, func(h *re) bool { return h.kind == reRepeat }, order)
	for i := 0; i < len(picked); {
		head, tail := t.cut(picked[i])
		hi, j := head.max, i+1
		for ; j < len(picked) && same(picked[i], picked[j]) == 0; j++ {
			h, _ := t.cut(picked[j])
			if hi != unlimited && h.min > hi+1 {
				break
			}
			if hi != unlimited && (h.max == unlimited || h.max > hi) {
				hi = h.max
			}
		}
		if j == i+1 {
			out = append(out, picked[i])
		} else {
			out = append(out, t.concat(t.repeat(head.sub[0], head.min, hi), tail))
		}
		i = j
	}
	return out
}

// joinHeads joins alternatives with the same first part.
func (t *table) joinHeads(list []*re) []*re {
	headOrder := func(a, b *re) int {
		h, _ := t.cut(a)
		g, _ := t.cut(b)
		return byID(h, g)
	}
	slices.SortFunc(list, func(a, b *re) int { return cmp.Or(headOrder(a, b), byID(a, b)) })
	out := make([]*re, 0, len(list))
	joined := false
	for i := 0; i < len(list); {
		head, tail := t.cut(list[i])
		tails, j := []*re{tail}, i+1
		for ; j < len(list) && headOrder(list[i], list[j]) == 0; j++ {
			_, tl := t.cut(list[j])
			tails = append(tails, tl)
		}
		if j == i+1 {
			out = append(out, list[i])
		} else {
			joined = true
			out = append(out, t.concat(head, t.or(tails...)))
		}
		i = j
	}
	if joined {
		out = flatten(out)
	}
	return distinct(out)
}

// flatten opens alternatives that a join has made of an alternative.
func flatten(list []*re) []*re {
	var out []*re
	for _, s := range list {
		if s.kind == reOr {
			out = append(out, s.sub...)
		} else {
			out = append(out, s)
		}
	}
	return out
}
