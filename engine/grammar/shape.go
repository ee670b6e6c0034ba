package grammar

import "slices"

// shape decides which parts of a grammar become lexemes. A part without recursion is a regular expression, and an automaton is faster
// than a parser; but a part in which a text stays for long, such as the inside of a string, is to remain the same lexeme wherever it
// is used, because what is known of its states is then shared. So small parts with at most one such place become lexemes, and parts
// next to a wide lexeme or rule are not drawn into it.
type shape struct {
	*source
	*meter
	recursive []bool  // by rule
	trees     []*tree // by node: the lexeme that it is; nil: none
	unit      []bool  // by node: contains a wide lexeme or rule that is to stay as it is
	state     []visit
	depth     int
}

type visit uint8

const (
	notYet visit = iota
	open
	done
)

const (
	mergeWeight = 4000 // larger parts are not merged
	mergeDepth  = 100
	walkDepth   = 10_000 // nodes below are not merged
)

func newShape(src *source, m *meter) *shape {
	s := &shape{source: src, meter: m, trees: make([]*tree, len(src.nodes)), unit: make([]bool, len(src.nodes)), state: make([]visit, len(src.nodes))}
	m.keep(16 * len(src.nodes))
	s.findRecursion()
	return s
}

// findRecursion marks the rules on a cycle or leading into one: those that can reach a rule that is being visited. It walks nodes by
// an explicit stack, since a chain of rules may be long.
func (s *shape) findRecursion() {
	s.recursive = make([]bool, len(s.rules))
	state := make([]visit, len(s.nodes))
	cyclic := make([]bool, len(s.nodes))
	type frame struct {
		id   int32
		next int
	}
	children := func(id int32) []int32 {
		if n := &s.nodes[id]; n.kind == nodeRule {
			return []int32{s.rules[n.rule].body}
		}
		return s.nodes[id].sub
	}
	stack := []frame{{id: s.start}}
	state[s.start] = open
	for len(stack) > 0 {
		s.spend(1)
		top := &stack[len(stack)-1]
		sub := children(top.id)
		if top.next < len(sub) {
			c := sub[top.next]
			top.next++
			switch state[c] {
			case notYet:
				state[c] = open
				stack = append(stack, frame{id: c})
			case open:
				cyclic[top.id] = true
			case done:
				cyclic[top.id] = cyclic[top.id] || cyclic[c]
			}
			continue
		}
		id := top.id
		state[id] = done
		stack = stack[:len(stack)-1]
		if n := &s.nodes[id]; n.kind == nodeRule && cyclic[id] {
			s.recursive[n.rule] = true
		}
		if len(stack) > 0 && cyclic[id] {
			cyclic[stack[len(stack)-1].id] = true
		}
	}
}

// tree is the lexeme that a node is, or nil.
func (s *shape) tree(id int32) *tree {
	if s.state[id] == notYet && s.depth < walkDepth {
		s.state[id] = open
		s.depth++
		t := s.treeNew(&s.nodes[id])
		s.depth--
		if t != nil && s.nodes[id].kind != nodeLexeme && (t.weight > mergeWeight && !texts(t) || t.depth > mergeDepth) {
			t = nil
		}
		s.trees[id] = t
		s.unit[id] = t != nil && s.isUnit(&s.nodes[id], t)
		s.state[id] = done
	}
	return s.trees[id] // nil while open: the node contains itself
}

func (s *shape) isUnit(n *node, t *tree) bool {
	if n.kind == nodeLexeme || n.kind == nodeRule {
		return t.wide > 0
	}
	return slices.ContainsFunc(n.sub, func(c int32) bool { return s.unit[c] })
}

// texts reports whether t is a list of literal texts, which may be long.
func texts(t *tree) bool {
	return t.op == opAlt && !slices.ContainsFunc(t.sub, func(x *tree) bool { return x.op != opText })
}

func (s *shape) treeNew(n *node) *tree {
	s.spend(1 + len(n.sub))
	switch n.kind {
	case nodeLexeme:
		return n.re
	case nodeRule:
		if s.recursive[n.rule] {
			return nil
		}
		return s.tree(s.rules[n.rule].body)
	case nodeRepeat:
		x := s.tree(n.sub[0])
		if x == nil || x.wide > 0 && x.op != opRepeat && n.max != 0 && n.max != 1 {
			return nil
		}
		return newRepeat(x, n.min, n.max)
	default:
		return s.treeOfMany(n)
	}
}

// treeOfMany is the lexeme that a sequence or alternatives are, or nil.
func (s *shape) treeOfMany(n *node) *tree {
	sub := make([]*tree, len(n.sub))
	wide := 0
	for i, c := range n.sub {
		t := s.tree(c)
		if t == nil || n.kind == nodeSeq && len(n.sub) > 1 && s.unit[c] {
			return nil
		}
		sub[i] = t
		wide += t.wide
	}
	if wide > 1 {
		return nil
	}
	if n.kind == nodeSeq {
		return newConcat(sub...)
	}
	return newAlt(sub...)
}

// part is a member of a sequence or of alternatives, or several of them drawn together: a lexeme or a node.
type part struct {
	tree *tree
	node int32
}

// alternatives are the members of n for which keep holds; narrow lexemes become one.
func (s *shape) alternatives(n *node, keep []bool) []part {
	var out []part
	var narrow []*tree
	for _, c := range n.sub {
		if !keep[c] {
			continue
		}
		switch t := s.tree(c); {
		case t == nil:
			out = append(out, part{node: c})
		case t.wide == 0:
			narrow = append(narrow, t)
		default:
			out = append(out, part{tree: t})
		}
	}
	if len(narrow) > 0 {
		out = append(out, part{tree: newAlt(narrow...)})
	}
	return out
}

func (s *shape) sequence(n *node) []part {
	var out []part
	var run []*tree
	weight := 0
	flush := func() {
		if len(run) > 0 {
			out = append(out, part{tree: newConcat(run...)})
			run, weight = nil, 0
		}
	}
	for _, c := range n.sub {
		t := s.tree(c)
		if t == nil || t.wide > 0 || t.weight > mergeWeight {
			flush()
			out = append(out, part{tree: t, node: c})
			continue
		}
		if weight+t.weight > mergeWeight {
			flush()
		}
		run = append(run, t)
		weight += t.weight
	}
	flush()
	return out
}
