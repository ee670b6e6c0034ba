package grammar

import (
	"slices"

	"github.com/sluice-project/sluice/internal/fault"
)

// program is a grammar as the parser runs it: points in the bodies of procedures, which are rules and shared parts of rules.
type program struct {
	points  []point
	entry   []int32 // first point of each procedure
	null    []bool  // procedures that match the empty text
	lexemes []*re
	start   int32 // point at which a text begins
}

// pointKind is what happens at a point.
type pointKind uint8

const (
	pointEnd    pointKind = iota // the procedure ends
	pointLexeme                  // lexeme arg, then next
	pointCall                    // procedure arg, then next
	pointSplit                   // on at any of alts
)

type point struct {
	kind pointKind
	arg  int32
	next int32
	alts []int32
}

// endPoint is the end of every procedure: where to go on is the caller's.
const endPoint = 0

// compiler writes a program.
type compiler struct {
	*program
	shape *shape
	low   *lowering
	prod  []bool // by node: its texts can end
	null  []bool // by node: it can be empty
	uses  []int32
	procs map[int32]int32 // body → procedure
	queue []int32         // bodies to be written
	ids   map[*re]int32
}

// compile writes the program of src for the characters that low knows. Strict refuses rules that can never end, instead of leaving
// them out.
func compile(src *source, low *lowering, strict bool) (*program, error) {
	c := &compiler{
		program: &program{points: []point{{kind: pointEnd}}}, shape: newShape(src, low.meter), low: low,
		uses: make([]int32, len(src.nodes)), procs: map[int32]int32{}, ids: map[*re]int32{},
	}
	for _, n := range src.nodes {
		if n.kind == nodeLexeme {
			low.lower(n.re)
		}
		for _, s := range n.sub {
			c.uses[s]++
		}
	}
	low.classify()
	c.prod = src.horn(low.meter, func(t *tree) bool { return low.alive(low.lower(t)) })
	c.null = src.horn(low.meter, func(t *tree) bool { return low.lower(t).null })
	if err := c.checkProductive(strict); err != nil {
		return nil, err
	}
	start, err := c.node(src.start, endPoint)
	for i := 0; err == nil && i < len(c.queue); i++ {
		c.entry[i], err = c.body(c.queue[i], endPoint)
	}
	c.program.start = start
	return c.program, err
}

func (c *compiler) checkProductive(strict bool) error {
	if strict {
		for _, r := range c.shape.rules {
			if !c.prod[r.body] {
				return unproductive(r.name)
			}
		}
	}
	if c.prod[c.shape.start] {
		return nil
	}
	if n := c.shape.nodes[c.shape.start]; n.kind == nodeRule {
		return unproductive(c.shape.rules[n.rule].name)
	}
	return wrong(fault.Say("grammar.no_text"))
}

func (c *compiler) add(p point) (int32, error) {
	limit := c.shape.limits.Nodes
	if len(c.points) >= limit {
		return 0, tooManyNodes(limit)
	}
	c.low.keep(48 + 4*len(p.alts))
	c.points = append(c.points, p)
	return int32(len(c.points) - 1), nil
}

// node writes what matches a node and then goes to next. It returns the point to begin at. Nodes that are used more than once become
// procedures, so that the program is no larger than the grammar.
func (c *compiler) node(id, next int32) (int32, error) {
	if t := c.shape.tree(id); t != nil {
		return c.lexeme(t, next)
	}
	if n := &c.shape.nodes[id]; n.kind == nodeRule {
		return c.call(c.shape.rules[n.rule].body, next)
	}
	if c.uses[id] > 1 {
		return c.call(id, next)
	}
	return c.body(id, next)
}

func (c *compiler) lexeme(t *tree, next int32) (int32, error) {
	n := c.low.lower(t)
	if n == c.low.empty {
		return next, nil
	}
	id, ok := c.ids[n]
	if !ok {
		id = int32(len(c.lexemes))
		c.ids[n] = id
		c.lexemes = append(c.lexemes, n)
	}
	return c.add(point{kind: pointLexeme, arg: id, next: next})
}

func (c *compiler) call(body, next int32) (int32, error) {
	proc, ok := c.procs[body]
	if !ok {
		proc = int32(len(c.queue))
		c.procs[body] = proc
		c.queue = append(c.queue, body)
		c.entry = append(c.entry, endPoint)
		c.program.null = append(c.program.null, c.null[body])
	}
	return c.add(point{kind: pointCall, arg: proc, next: next})
}

// body writes a node itself.
func (c *compiler) body(id, next int32) (int32, error) {
	if t := c.shape.tree(id); t != nil {
		return c.lexeme(t, next)
	}
	n := &c.shape.nodes[id]
	switch n.kind {
	case nodeRule:
		return c.call(c.shape.rules[n.rule].body, next)
	case nodeSeq:
		return c.sequence(n, next)
	case nodeOr:
		return c.alternatives(n, next)
	default:
		return c.repetition(n, next)
	}
}

func (c *compiler) part(p part, next int32) (int32, error) {
	if p.tree != nil {
		return c.lexeme(p.tree, next)
	}
	return c.node(p.node, next)
}

func (c *compiler) sequence(n *node, next int32) (int32, error) {
	var err error
	for _, p := range slices.Backward(c.shape.sequence(n)) {
		if next, err = c.part(p, next); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// alternatives leaves out those that can never end.
func (c *compiler) alternatives(n *node, next int32) (int32, error) {
	var alts []int32
	for _, p := range c.shape.alternatives(n, c.prod) {
		at, err := c.part(p, next)
		if err != nil {
			return 0, err
		}
		alts = append(alts, at)
	}
	if len(alts) == 1 {
		return alts[0], nil
	}
	return c.add(point{kind: pointSplit, alts: alts})
}

func (c *compiler) repetition(n *node, next int32) (int32, error) {
	if n.max == 0 || !c.prod[n.sub[0]] {
		return next, nil // a body that can never end is left out, which min 0 allows: otherwise this node could not end either
	}
	var err error
	lo := n.min
	if n.max < 0 {
		loop, err := c.add(point{kind: pointSplit})
		if err != nil {
			return 0, err
		}
		round, err := c.round(n, loop)
		if err != nil {
			return 0, err
		}
		c.points[loop].alts = []int32{round, next}
		next = loop
	}
	for end, i := next, n.min; i < n.max; i++ { // optional rounds: each may be followed by the next one, or by the end
		if next, err = c.round(n, next); err != nil {
			return 0, err
		}
		if next, err = c.add(point{kind: pointSplit, alts: []int32{next, end}}); err != nil {
			return 0, err
		}
	}
	for range lo {
		if next, err = c.round(n, next); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// round writes one round of a repetition.
func (c *compiler) round(n *node, next int32) (int32, error) {
	body := n.sub[0]
	if c.shape.tree(body) != nil || n.max <= 1 && n.min <= 1 {
		return c.node(body, next)
	}
	return c.call(body, next)
}
