package grammar

import "github.com/sluice-project/sluice/internal/fault"

// The places ^ and $ (without (?m)) depend on what stands around them. withoutAnchors rewrites an expression that must match a whole
// text into one without them: first ^, reading from the left, then $, reading from the right. Each is true at the text's border, any
// number of times, and nowhere else.

//nolint:gochecknoglobals // constant leaves
var (
	beginTree = &tree{op: opBegin, weight: 1, depth: 1, begins: true}
	endTree   = &tree{op: opEnd, weight: 1, depth: 1, finishes: true}
)

// anchorSteps bounds the rewriting, which copies what stands beside an anchor.
const anchorSteps = 100_000

func withoutAnchors(t *tree) *tree {
	steps := anchorSteps
	t = anchors{opBegin, &steps}.border(t)
	t = anchors{opEnd, &steps}.border(t)
	if steps <= 0 && t.err == nil {
		t = &tree{op: opAlt, depth: 1, err: exceeded("BuildSteps", fault.Say("grammar.anchors"))}
	}
	return t
}

// anchors rewrites one kind of anchor. In the comments "first" is the side of the text where the anchor holds.
type anchors struct {
	op    op
	steps *int // left; below zero, results mean nothing
}

func (a anchors) has(t *tree) bool {
	if a.op == opBegin {
		return t.begins
	}
	return t.finishes
}

// spent counts a step and reports whether there are none left.
func (a anchors) spent() bool {
	*a.steps--
	return *a.steps <= 0
}

// border is t where the text's border is at its first side.
func (a anchors) border(t *tree) *tree {
	if !a.has(t) || a.spent() {
		return t
	}
	switch t.op {
	case opAlt:
		return newAlt(each(t.sub, a.border)...)
	case opConcat:
		first, rest := a.split(t.sub)
		if !a.has(rest) {
			return a.join(a.border(first), rest)
		}
		// Either the first part takes nothing, and the rest is at the border too, or it takes something.
		return newAlt(a.join(a.nothing(first), a.border(rest)), a.join(a.something(a.border(first)), a.inside(rest)))
	case opRepeat:
		return a.borderRepeat(t)
	default: // the anchor itself
		return emptyTree
	}
}

// borderRepeat: any number of rounds may take nothing while at the border; the first that takes something leaves it.
func (a anchors) borderRepeat(t *tree) *tree {
	s := t.sub[0]
	rest := func(lo int) *tree {
		if t.max < 0 {
			return newRepeat(a.inside(s), lo, -1)
		}
		return newRepeat(a.inside(s), lo, t.max-1)
	}
	if t.max == 0 {
		return emptyTree
	}
	out := []*tree{}
	if t.min == 0 {
		out = append(out, emptyTree)
	}
	if empty := a.nothing(s); empty != noneTree {
		return newAlt(append(out, empty, a.join(a.something(a.border(s)), rest(0)))...)
	}
	return newAlt(append(out, a.join(a.border(s), rest(max(0, t.min-1))))...)
}

// inside is t where something stands at its first side: the anchor never holds.
func (a anchors) inside(t *tree) *tree {
	if !a.has(t) || a.spent() {
		return t
	}
	switch t.op {
	case opAlt:
		return newAlt(each(t.sub, a.inside)...)
	case opConcat:
		return newConcat(each(t.sub, a.inside)...)
	case opRepeat:
		return newRepeat(a.inside(t.sub[0]), t.min, t.max)
	default:
		return noneTree
	}
}

// nothing is how t matches the empty text at the border: not at all, unconditionally, or where the other anchor holds.
func (a anchors) nothing(t *tree) *tree {
	if a.spent() {
		return noneTree
	}
	switch t.op {
	case opText, opChars:
		if t.null {
			return emptyTree
		}
		return noneTree
	case opAlt:
		return a.weakest(each(t.sub, a.nothing))
	case opConcat:
		other := emptyTree
		for _, s := range t.sub {
			switch n := a.nothing(s); n {
			case noneTree:
				return noneTree
			case emptyTree:
			default:
				other = n
			}
		}
		return other
	case opRepeat:
		if t.min == 0 {
			return emptyTree
		}
		return a.nothing(t.sub[0])
	default:
		if t.op == a.op {
			return emptyTree
		}
		return t
	}
}

func (a anchors) weakest(ts []*tree) *tree {
	out := noneTree
	for _, t := range ts {
		if t == emptyTree {
			return emptyTree
		}
		if t != noneTree {
			out = t
		}
	}
	return out
}

// something is t without the empty text; t has no anchor of this kind left.
func (a anchors) something(t *tree) *tree {
	if !t.null && !a.mirror().has(t) || a.spent() {
		return t
	}
	switch t.op {
	case opText:
		if t.text == "" {
			return noneTree
		}
		return t
	case opChars:
		return t
	case opAlt:
		return newAlt(each(t.sub, a.something)...)
	case opConcat:
		first, rest := a.split(t.sub)
		return newAlt(a.join(a.something(first), rest), a.join(a.nothing(first), a.something(rest)))
	case opRepeat:
		s, lo, hi := t.sub[0], max(0, t.min-1), t.max
		if a.nothing(s) != noneTree {
			lo = 0
		}
		if hi > 0 {
			hi--
		}
		if t.max == 0 {
			return noneTree
		}
		return a.join(a.something(s), newRepeat(s, lo, hi))
	default: // the other anchor takes nothing
		return noneTree
	}
}

func (a anchors) mirror() anchors {
	if a.op == opBegin {
		return anchors{opEnd, a.steps}
	}
	return anchors{opBegin, a.steps}
}

// split takes the first of the parts off.
func (a anchors) split(sub []*tree) (first, rest *tree) {
	if a.op == opBegin {
		return sub[0], newConcat(sub[1:]...)
	}
	n := len(sub) - 1
	return sub[n], newConcat(sub[:n]...)
}

func (a anchors) join(first, rest *tree) *tree {
	if a.op == opBegin {
		return newConcat(first, rest)
	}
	return newConcat(rest, first)
}

func each(sub []*tree, f func(*tree) *tree) []*tree {
	out := make([]*tree, len(sub))
	for i, s := range sub {
		out[i] = f(s)
	}
	return out
}
