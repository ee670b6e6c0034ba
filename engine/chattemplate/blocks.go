package chattemplate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	control "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// environment is everything a template can reach.
func environment(r *rewriter) *exec.Environment {
	return &exec.Environment{
		Context:           exec.NewContext(functions()),
		Filters:           exec.NewFilterSet(filters()),
		Tests:             tests(),
		ControlStructures: blocks(r),
		// Method calls are rewritten and never get here; empty sets make sure.
		Methods: exec.Methods{
			Bool: exec.NewMethodSet[bool](nil), Int: exec.NewMethodSet[int](nil), Float: exec.NewMethodSet[float64](nil),
			Str: exec.NewMethodSet[string](nil), Dict: exec.NewMethodSet[map[string]any](nil), List: exec.NewMethodSet[[]any](nil),
		},
	}
}

// blocks offers the tags that chat templates need. Import, include, extends and the like are not among them.
func blocks(r *rewriter) *exec.ControlStructureSet {
	gonja := func(name string) parser.ControlStructureParser {
		p, _ := builtins.ControlStructures.Get(name)
		return p
	}
	return exec.NewControlStructureSet(map[string]parser.ControlStructureParser{
		"for":        r.forBlock(gonja("for")),
		"if":         r.ifBlock(gonja("if")),
		"macro":      r.macroBlock(gonja("macro")),
		"set":        r.setBlock,
		"generation": r.generationBlock,
		"break":      gonja("break"),
		"continue":   gonja("continue"),
		"raw":        gonja("raw"),
	})
}

// block is a tag of gonja with the work of running it once.
type block struct {
	nodes.ControlStructure
	weight int
	run    func(r *exec.Renderer, tag *nodes.ControlStructureBlock) error
}

func (b *block) cost() int { return b.weight }

func (b *block) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	return b.run(r, tag)
}

func (r *rewriter) wrapper(w *nodes.Wrapper) int {
	if w == nil {
		return 0
	}
	return r.nodes(w.Nodes)
}

func (r *rewriter) ifBlock(parse parser.ControlStructureParser) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		c, err := parse(p, args)
		if err != nil {
			return nil, err
		}
		n, ok := c.(*control.IfControlStructure)
		if !ok {
			return nil, errors.New("unexpected form of if")
		}
		weight := 1
		for i := range n.Conditions {
			n.Conditions[i] = r.expr(n.Conditions[i], &weight)
		}
		for _, w := range n.Wrappers {
			weight += r.wrapper(w)
		}
		return &block{n, weight, n.Execute}, r.err
	}
}

func (r *rewriter) forBlock(parse parser.ControlStructureParser) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		c, err := parse(p, args)
		if err != nil {
			return nil, err
		}
		n, ok := c.(*control.ForControlStructure)
		if !ok {
			return nil, errors.New("unexpected form of for")
		}
		if n.Recursive {
			return nil, errors.New("recursive loops are not supported")
		}
		var body, once int
		items := r.expr(n.ObjectEvaluator, &once)
		if n.IfCondition != nil {
			n.IfCondition = r.expr(n.IfCondition, &body)
		}
		body += 8 + r.wrapper(n.BodyWrapper)
		once += r.wrapper(n.EmptyWrapper)
		// All rounds are paid for before the first: nothing a template iterates is endless.
		n.ObjectEvaluator = call(items, fnRounds, items, &nodes.Integer{Location: items.Position(), Val: body})
		return &block{n, once, n.Execute}, r.err
	}
}

func (r *rewriter) macroBlock(parse parser.ControlStructureParser) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		c, err := parse(p, args)
		if err != nil {
			return nil, err
		}
		n, ok := c.(*control.MacroControlStructure)
		if !ok {
			return nil, errors.New("unexpected form of macro")
		}
		weight := 8
		for _, pair := range n.Kwargs {
			pair.Value = r.expr(pair.Value, &weight)
		}
		weight += r.wrapper(n.Wrapper)
		define := func(rend *exec.Renderer, _ *nodes.ControlStructureBlock) error {
			run, err := exec.MacroNodeToFunc(n.Macro, rend)
			if err != nil {
				return err
			}
			rend.Environment.Context.Set(n.Name, bounded(run, budgetOf(rend.Evaluator()), weight))
			return nil
		}
		return &block{n, 1, define}, r.err
	}
}

// bounded charges every call of a macro and limits how deep macros call each other.
func bounded(run exec.Macro, b *budget, weight int) exec.Macro {
	return func(va *exec.VarArgs) *exec.Value {
		if b.depth >= maxDepth {
			return b.fail(&limitError{"recursion", fmt.Sprintf("%d macros deep", maxDepth)})
		}
		if err := b.spend(weight); err != nil {
			return b.fail(err)
		}
		b.depth++
		defer func() { b.depth-- }()
		return run(va)
	}
}

// generationBlock passes its content through; templates mark with it what a training run should learn.
func (r *rewriter) generationBlock(p, args *parser.Parser) (nodes.ControlStructure, error) {
	body, end, err := p.WrapUntil("endgeneration")
	if err != nil {
		return nil, err
	}
	if !args.End() || !end.End() {
		return nil, errors.New("generation takes no arguments")
	}
	run := func(rend *exec.Renderer, _ *nodes.ControlStructureBlock) error { return rend.ExecuteIfWrapper(body) }
	return &block{body, r.wrapper(body), run}, r.err
}

// setBlock assigns to a variable or to a field of a namespace. gonja's own keeps its expressions to itself, so they could not be
// rewritten.
type setBlock struct {
	at          *tokens.Token
	name        string
	target      nodes.Expression // the namespace; nil for a variable
	value       nodes.Expression
	condition   nodes.Expression
	alternative nodes.Expression
	body        *nodes.Wrapper
	weight      int
}

// Position implements gonja's node.
func (s *setBlock) Position() *tokens.Token { return s.at }

// String implements gonja's node.
func (s *setBlock) String() string { return "set" }

func (s *setBlock) cost() int { return s.weight }

func (r *rewriter) setBlock(p, args *parser.Parser) (nodes.ControlStructure, error) {
	s := &setBlock{at: p.Current(), weight: 1}
	target, err := args.ParseVariableOrLiteral()
	if err != nil {
		return nil, err
	}
	switch n := target.(type) {
	case *nodes.Name:
		s.name = n.Name.Val
	case *nodes.GetAttribute:
		if n.Attribute == "" {
			return nil, errors.New("set cannot assign to an index")
		}
		s.name, s.target = n.Attribute, r.expr(n.Node, &s.weight)
	default:
		return nil, errors.New("set assigns to variables and fields of a namespace only")
	}
	if args.Match(tokens.Assign) == nil {
		return s, r.setBody(s, p, args)
	}
	if s.value, err = args.ParseExpression(); err != nil {
		return nil, err
	}
	if s.value == nil {
		return nil, errors.New("set has no value")
	}
	s.value = r.expr(s.value, &s.weight)
	if s.condition, s.alternative, err = args.ParseCondition(); err != nil {
		return nil, err
	}
	if s.condition != nil {
		s.condition = r.expr(s.condition, &s.weight)
	}
	if s.alternative != nil {
		s.alternative = r.expr(s.alternative, &s.weight)
	}
	if !args.End() {
		return nil, errors.New("set has more than one value")
	}
	return s, r.err
}

func (r *rewriter) setBody(s *setBlock, p, args *parser.Parser) error {
	if !args.End() {
		return errors.New("set needs '=' or the end of the tag")
	}
	body, end, err := p.WrapUntil("endset")
	if err != nil {
		return err
	}
	if !end.End() {
		return errors.New("endset takes no arguments")
	}
	s.body = body
	s.weight += r.wrapper(body)
	return r.err
}

// Execute implements gonja's control structure.
func (s *setBlock) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	v, err := s.evaluate(r)
	if err != nil {
		return err
	}
	b := budgetOf(r.Evaluator())
	if s.target == nil {
		if err := b.storable(value(v), nil, 0); err != nil {
			return b.fail(err)
		}
		r.Environment.Context.Set(s.name, v)
		return nil
	}
	target := r.Eval(s.target)
	if target.IsError() {
		return target
	}
	ns, ok := target.Interface().(map[string]any)
	if !ok {
		return errors.New("set assigns to fields of a namespace only")
	}
	if err := b.storable(value(v), ns, 0); err != nil {
		return b.fail(err)
	}
	ns[s.name] = v
	return nil
}

func (s *setBlock) evaluate(r *exec.Renderer) (any, error) {
	if s.body != nil {
		var out strings.Builder
		sub := r.Inherit()
		sub.Output = &out
		err := sub.ExecuteWrapper(s.body)
		return out.String(), err
	}
	chosen := s.value
	if s.condition != nil {
		c := r.Eval(s.condition)
		if c.IsError() {
			return nil, c
		}
		if !c.IsTrue() {
			chosen = s.alternative
		}
	}
	if chosen == nil {
		return nil, nil
	}
	v := r.Eval(chosen)
	if v.IsError() {
		return nil, v
	}
	return v.Interface(), nil
}
