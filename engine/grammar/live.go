package grammar

// alive reports whether n matches anything.
func (t *table) alive(n *re) bool {
	if n.simple {
		return n != t.none
	}
	if n.live != unknown {
		return n.live == yes
	}
	ok := t.aliveNew(n)
	n.live = no
	if ok {
		n.live = yes
	}
	return ok
}

func (t *table) aliveNew(n *re) bool {
	t.spend(1 + len(n.sub))
	switch {
	case n.null:
		return true
	case n.kind == reConcat:
		return t.alive(n.sub[0]) && t.alive(n.sub[1])
	case n.kind == reRepeat:
		return t.alive(n.sub[0])
	case n.kind == reOr:
		for _, s := range n.sub {
			if t.alive(s) {
				return true
			}
		}
		return false
	}
	return t.search(n)
}

// search looks for a match of an intersection or a complement, which no rule of simplification decides: depth first through its
// states, until one of them matches the empty text or is known. Every state on the way there is alive; if there is no way, every
// visited state is dead.
func (t *table) search(start *re) bool {
	type step struct {
		n *re
		c int
	}
	seen := map[*re]bool{start: true}
	path := []step{{n: start}}
	for len(path) > 0 {
		top := &path[len(path)-1]
		if top.c == t.count {
			path = path[:len(path)-1]
			continue
		}
		d := t.derive(top.n, uint8(top.c))
		top.c++
		t.spend(1)
		if d == t.none || seen[d] || d.live == no {
			continue
		}
		if d.null || d.live == yes || d.kind != reAnd && d.kind != reNot && t.alive(d) {
			for _, s := range path {
				s.n.live = yes
			}
			return true
		}
		seen[d] = true
		if d.kind == reAnd || d.kind == reNot {
			path = append(path, step{n: d})
		}
	}
	for n := range seen {
		n.live = no
	}
	return false
}

// more reports whether n matches a text that is not empty.
func (t *table) more(n *re) bool {
	if n.simple {
		return n != t.none && n != t.empty
	}
	for c := range t.count {
		if t.alive(t.derive(n, uint8(c))) {
			return true
		}
	}
	return false
}

// clamp is an expression that treats the first long bytes of any text as n does, and has no larger counts than that needs. So the
// places inside "up to 1000 characters" are one place for tokens of at most long bytes, until the end comes close.
func (t *table) clamp(n *re, long int32) *re {
	if n.clamped == nil {
		n.clamped = t.clampNew(n, long)
	}
	return n.clamped
}

func (t *table) clampNew(n *re, long int32) *re {
	t.spend(1 + len(n.sub))
	switch n.kind {
	case reConcat:
		return t.concat(t.clamp(n.sub[0], long), t.clamp(n.sub[1], long))
	case reRepeat:
		hi := n.max
		if hi > long+1 {
			hi = long + 1
		}
		return t.repeat(t.clamp(n.sub[0], long), min(n.min, long+1), hi)
	case reOr:
		sub := make([]*re, len(n.sub))
		for i, s := range n.sub {
			sub[i] = t.clamp(s, long)
		}
		return t.or(sub...)
	default: // inside intersections and complements, lengths far ahead decide what may come now
		return n
	}
}
