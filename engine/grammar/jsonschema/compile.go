package jsonschema

import (
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/internal/fault"
)

// Parse returns the grammar of the JSON texts that satisfy the schema.
func Parse(schema json.RawMessage, opt Options, limits grammar.Limits) (*grammar.Grammar, error) {
	b := grammar.NewBuilder(limits)
	n, err := Compile(b, schema, opt)
	if err != nil {
		return nil, err
	}
	g, err := b.Build(n)
	if err != nil {
		return nil, grammarError("#", err)
	}
	return g, nil
}

// Compile adds the JSON texts that satisfy the schema to b. Give each schema that is compiled into one Builder an Options.Name of its
// own. That a schema allows no text at all is found by the Builder's Build.
func Compile(b *grammar.Builder, schema json.RawMessage, opt Options) (grammar.Node, error) {
	opt.Limits = opt.Limits.withDefaults()
	root, err := decode(schema, opt.Limits)
	if err != nil {
		return grammar.Node{}, err
	}
	p, n, err := parse(root, opt.Limits)
	if err != nil {
		return grammar.Node{}, err
	}
	c := newCompiler(p, opt)
	s, err := c.shapeOf("#", []ref{{node: n}})
	if err != nil {
		return grammar.Node{}, err
	}
	return c.emit(b, s)
}

// compiler turns nodes into shapes, and shapes into a grammar.
type compiler struct {
	parser *parser
	opt    Options
	worked int

	always  *node // demands nothing
	anyText *node // demands a string
	nothing *shape

	open     map[ref]bool // demands being expanded at the place at hand
	loose    bool
	holding  int
	verdicts map[verdictKey]bool
	added    map[string][]alternative // results of add
	opposed  map[*node]negation
	shapes   map[string]*shape
	strict   int // shapes that are not loose
	apart    map[question]proof
	tags     map[ref]*tags
	typed    map[types]*node

	expressions map[string]*regexp.Regexp
	patterns    map[string]grammar.Regexp
	spelling    spelling
}

func newCompiler(p *parser, opt Options) *compiler {
	c := &compiler{
		parser: p, opt: opt,
		open: map[ref]bool{}, opposed: map[*node]negation{}, shapes: map[string]*shape{}, verdicts: map[verdictKey]bool{}, tags: map[ref]*tags{}, typed: map[types]*node{}, added: map[string][]alternative{},
		apart:       map[question]proof{},
		expressions: map[string]*regexp.Regexp{}, patterns: map[string]grammar.Regexp{}, spelling: newSpelling(),
	}
	c.always, c.anyText = p.add("#"), p.add("#")
	c.anyText.types = typeString
	c.nothing = &shape{at: "#", built: true}
	return c
}

// work counts steps, so that no schema, however made, takes long.
func (c *compiler) work(steps int, at string) error {
	if c.worked += steps; c.worked <= c.opt.Limits.Work {
		return nil
	}
	return refuse(at, fault.Say("jsonschema.too_much_work", c.opt.Limits.Work))
}

// name returns the name of the rule with the number i.
func (c *compiler) name(i int) string { return c.opt.Name + "#" + strconv.Itoa(i) }
