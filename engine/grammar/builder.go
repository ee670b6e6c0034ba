package grammar

import (
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/internal/fault"
)

// Builder makes a grammar out of nodes. The first mistake is kept and reported by Build, so that nodes compose without checks. A
// Builder serves one goroutine.
type Builder struct {
	limits Limits
	nodes  []node
	rules  []rule
	names  map[string]int32
	err    error
}

// Node is a part of a grammar: a set of texts. It belongs to the Builder that made it. The zero value is no node.
type Node struct {
	b  *Builder
	id int32
}

type nodeKind uint8

const (
	nodeLexeme nodeKind = iota // a text of re
	nodeSeq                    // sub, one after another
	nodeOr                     // any of sub
	nodeRepeat                 // sub[0], from min to max times
	nodeRule                   // a text of rule
)

type node struct {
	kind     nodeKind
	re       *tree
	sub      []int32
	rule     int32
	min, max int
	depth    int
}

type rule struct {
	name string
	body int32 // -1: not defined
}

// NewBuilder returns an empty builder. Zero fields of limits get their defaults.
func NewBuilder(limits Limits) *Builder {
	return &Builder{limits: limits.withDefaults(), names: map[string]int32{}}
}

// fail keeps the first mistake.
func (b *Builder) fail(err error) Node {
	if b.err == nil {
		b.err = err
	}
	return b.add(node{kind: nodeSeq})
}

func (b *Builder) add(n node) Node {
	for _, s := range n.sub {
		n.depth = max(n.depth, b.nodes[s].depth)
	}
	n.depth++
	if b.err == nil && len(b.nodes) >= b.limits.Nodes {
		b.err = tooManyNodes(b.limits.Nodes)
	}
	if b.err == nil && n.depth > b.limits.Depth {
		b.err = tooDeep(b.limits.Depth)
	}
	if b.err != nil && len(b.nodes) > 0 {
		return Node{b, 0} // nothing is built any more, so nothing need be kept
	}
	b.nodes = append(b.nodes, n)
	return Node{b, int32(len(b.nodes) - 1)}
}

func (b *Builder) ids(ns []Node) ([]int32, error) {
	out := make([]int32, len(ns))
	for i, n := range ns {
		if n.b != b {
			return nil, wrong(fault.Say("grammar.foreign_node"))
		}
		out[i] = n.id
	}
	return out, nil
}

// Literal is exactly s.
func (b *Builder) Literal(s string) Node { return b.Lexeme(Text(s)) }

// Regex is any text that the expression re (RE2 syntax, see [ParseRegexp]) matches as a whole.
func (b *Builder) Regex(re string) (Node, error) {
	if len(re) > b.limits.SourceBytes {
		return Node{}, tooLong(len(re), b.limits.SourceBytes)
	}
	r, err := ParseRegexp(re)
	if err != nil {
		return Node{}, err
	}
	return b.Lexeme(r), nil
}

// Lexeme is any text of re. It is not greedy: where it ends is up to the rest of the grammar. A lexeme is also the unit of sharing:
// masks inside equal lexemes are computed once, so a frequent part such as a JSON string is best one Lexeme of its own.
func (b *Builder) Lexeme(re Regexp) Node {
	t := re.tree()
	if t.err != nil {
		return b.fail(t.err)
	}
	if t.depth > b.limits.Depth {
		return b.fail(tooDeep(b.limits.Depth))
	}
	if t.weight > 8*b.limits.Nodes {
		return b.fail(tooManyNodes(b.limits.Nodes))
	}
	return b.add(node{kind: nodeLexeme, re: t})
}

// Seq is a text of each of ns, one after another; the empty text when there are none.
func (b *Builder) Seq(ns ...Node) Node { return b.list(nodeSeq, ns) }

// Or is a text of any of ns; nothing at all when there are none.
func (b *Builder) Or(ns ...Node) Node { return b.list(nodeOr, ns) }

func (b *Builder) list(kind nodeKind, ns []Node) Node {
	sub, err := b.ids(ns)
	if err != nil {
		return b.fail(err)
	}
	return b.add(node{kind: kind, sub: sub})
}

// Repeat is from least to most texts of n, one after another; a most of -1 sets no upper bound.
func (b *Builder) Repeat(n Node, least, most int) Node {
	sub, err := b.ids([]Node{n})
	if err == nil {
		err = badCounts(least, most)
	}
	if err != nil {
		return b.fail(err)
	}
	return b.add(node{kind: nodeRepeat, sub: sub, min: least, max: most})
}

// Rule is a text of the rule called name, which Define gives a body before or afterwards: so rules may contain themselves. Calls with
// the same name return the same rule.
func (b *Builder) Rule(name string) Node {
	id, ok := b.names[name]
	if !ok {
		if len(b.rules) >= b.limits.Rules {
			return b.fail(tooManyRules(b.limits.Rules))
		}
		id = int32(len(b.rules))
		b.names[name] = id
		b.rules = append(b.rules, rule{name: name, body: -1})
	}
	return b.add(node{kind: nodeRule, rule: id})
}

// Define gives a rule its body, once.
func (b *Builder) Define(r, body Node) {
	sub, err := b.ids([]Node{r, body})
	if err != nil {
		b.fail(err)
		return
	}
	n := b.nodes[sub[0]]
	if b.err != nil {
		return
	}
	if n.kind != nodeRule {
		b.fail(wrong(fault.Say("grammar.not_a_rule")))
		return
	}
	if b.rules[n.rule].body >= 0 {
		b.fail(wrong(fault.Say("grammar.rule_twice", quoted(b.rules[n.rule].name))))
		return
	}
	b.rules[n.rule].body = sub[1]
}

// Build returns the grammar of the texts of start. Parts of the grammar that no text can pass through are left out; a grammar without
// any text is an error. The builder is not to be used afterwards.
func (b *Builder) Build(start Node) (*Grammar, error) {
	return b.build(start, false)
}

func (b *Builder) build(start Node, strict bool) (*Grammar, error) {
	sub, err := b.ids([]Node{start})
	if err == nil {
		err = b.err
	}
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(b.rules, func(r rule) bool { return r.body < 0 }); i >= 0 {
		return nil, wrong(fault.Say("grammar.rule_undefined", quoted(b.rules[i].name)))
	}
	return newGrammar(&source{limits: b.limits, nodes: b.nodes, rules: b.rules, start: sub[0]}, strict)
}

// quoted is a rule's name as errors show it.
func quoted(name string) string {
	const most = 60
	if len(name) > most {
		name = name[:most] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// unproductive says that no text of a rule ever ends.
func unproductive(name string) error {
	return &Error{Reason: fault.Say("grammar.endless_rule", quoted(name))}
}
