package chattemplate

import (
	"fmt"
	"slices"

	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// rewriter replaces what the sandbox does not trust in parsed expressions by calls of its own functions, whose names no template
// can write. It keeps the first error.
type rewriter struct {
	err   error
	depth int
}

func (r *rewriter) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// nodes rewrites the output expressions among the children of a block and returns the work of running them once. The expressions
// of nested blocks were rewritten when those were parsed.
func (r *rewriter) nodes(list []nodes.Node) int {
	weight := 1
	for _, n := range list {
		switch n := n.(type) {
		case *nodes.Data:
			weight += 1 + len(n.Data.Val)
		case *nodes.Output:
			weight += r.output(n)
		case *nodes.ControlStructureBlock:
			if b, ok := n.ControlStructure.(interface{ cost() int }); ok {
				weight += b.cost()
			}
		}
	}
	return weight
}

func (r *rewriter) output(n *nodes.Output) int {
	var w int
	n.Expression = r.deep(r.expr(n.Expression, &w))
	if n.Condition != nil {
		n.Condition = r.expr(n.Condition, &w)
	}
	if n.Alternative != nil {
		n.Alternative = r.deep(r.expr(n.Alternative, &w))
	}
	return w
}

// call is an invocation of one of our functions.
func call(at nodes.Node, function string, args ...nodes.Expression) *nodes.Call {
	where := at.Position()
	name := &nodes.Name{Name: &tokens.Token{Type: tokens.Name, Val: function, Line: where.Line, Col: where.Col}}
	return &nodes.Call{Location: where, Func: name, Args: args, Kwargs: map[string]nodes.Expression{}}
}

// deep makes the use of a value cost its size.
func (r *rewriter) deep(e nodes.Expression) nodes.Expression {
	if isLiteral(e) {
		return e
	}
	return call(e, fnCharge, e)
}

func isLiteral(e nodes.Expression) bool {
	switch e.(type) {
	case *nodes.String, *nodes.Integer, *nodes.Float, *nodes.Bool, *nodes.None:
		return true
	}
	return false
}

// expr rewrites e and adds the number of its nodes to weight.
func (r *rewriter) expr(e nodes.Expression, weight *int) nodes.Expression {
	*weight++
	r.depth++
	defer func() { r.depth-- }()
	if r.depth > 4*maxNesting {
		r.fail("an expression of the template nests too deeply")
	}
	if r.err != nil || e == nil {
		return e
	}
	switch n := e.(type) {
	case *nodes.String:
		*weight += len(n.Val)
	case *nodes.Integer, *nodes.Float, *nodes.Bool, *nodes.None, *nodes.Name:
	case *nodes.List:
		r.list(n.Val, weight)
	case *nodes.Tuple:
		r.list(n.Val, weight)
	case *nodes.Dict:
		for _, p := range n.Pairs {
			p.Key, p.Value = r.expr(p.Key, weight), r.expr(p.Value, weight)
		}
	case *nodes.Negation:
		n.Term = r.expr(n.Term, weight)
	case *nodes.UnaryExpression:
		n.Term = r.expr(n.Term, weight)
	case *nodes.BinaryExpression:
		return r.binary(n, weight)
	case *nodes.GetAttribute:
		return r.attribute(n, weight)
	case *nodes.GetItem:
		return call(n, fnItem, r.expr(n.Node, weight), r.expr(n.Arg, weight))
	case *nodes.GetSlice:
		return call(n, fnSlice, r.expr(n.Node, weight), r.bound(n, n.Start, weight), r.bound(n, n.End, weight), r.bound(n, n.Step, weight))
	case *nodes.Call:
		return r.call(n, weight)
	case *nodes.FilteredExpression:
		n.Expression = r.expr(n.Expression, weight)
		for _, f := range n.Filters {
			if _, ok := filters()[f.Name]; !ok {
				r.fail("the template uses the filter %q, which is not supported", f.Name)
			}
			r.arguments(f.Args, f.Kwargs, weight)
		}
	case *nodes.TestExpression:
		if c := r.presence(n, weight); c != nil {
			return c
		}
		n.Expression = r.expr(n.Expression, weight)
		if !isTest(n.Test.Name) {
			r.fail("the template uses the test %q, which is not supported", n.Test.Name)
		}
		r.arguments(n.Test.Args, n.Test.Kwargs, weight)
	default:
		r.fail("the template uses a construct that is not supported (line %d)", e.Position().Line)
	}
	return e
}

// presence replaces tests that tell none from undefined, which are one to gonja. It returns nil for all others.
func (r *rewriter) presence(n *nodes.TestExpression, weight *int) nodes.Expression {
	if !slices.Contains([]string{"none", "defined", "undefined", "iterable", "sequence"}, n.Test.Name) {
		return nil
	}
	text := func(s string) nodes.Expression { return &nodes.String{Location: n.Position(), Val: s} }
	switch x := n.Expression.(type) {
	case *nodes.Name:
		return call(n, fnVariable, x, text(x.Name.Val), text(n.Test.Name))
	case *nodes.GetAttribute:
		if x.Attribute != "" {
			return call(n, fnPresence, r.expr(x.Node, weight), text(x.Attribute), text(n.Test.Name))
		}
	case *nodes.GetItem:
		return call(n, fnPresence, r.expr(x.Node, weight), r.expr(x.Arg, weight), text(n.Test.Name))
	}
	return nil
}

func (r *rewriter) list(list []nodes.Expression, weight *int) {
	for i := range list {
		list[i] = r.expr(list[i], weight)
	}
}

func (r *rewriter) arguments(args []nodes.Expression, kwargs map[string]nodes.Expression, weight *int) {
	r.list(args, weight)
	for name := range kwargs {
		kwargs[name] = r.expr(kwargs[name], weight)
	}
}

func (r *rewriter) bound(at nodes.Node, n nodes.Node, weight *int) nodes.Expression {
	if n == nil {
		return &nodes.None{Location: at.Position()}
	}
	return r.expr(n, weight)
}

func (r *rewriter) binary(n *nodes.BinaryExpression, weight *int) nodes.Expression {
	n.Left, n.Right = r.expr(n.Left, weight), r.expr(n.Right, weight)
	kind := n.Operator.Token.Type
	if kind == tokens.And || kind == tokens.Or {
		return n
	}
	if kind == tokens.Multiply || kind == tokens.Power {
		return call(n, fnNumbers+n.Operator.Token.Val, n.Left, n.Right)
	}
	if equals(kind) {
		return call(n, fnEquality, n.Left, n.Right, &nodes.Bool{Location: n.Position(), Val: kind == tokens.Equals})
	}
	if comparisons[kind] {
		n.Left, n.Right = call(n.Left, fnCompared, n.Left), call(n.Right, fnCompared, n.Right)
		return n
	}
	n.Left, n.Right = r.deep(n.Left), r.deep(n.Right)
	return n
}

// comparisons are the operators whose result depends on a text without its marks.
//
//nolint:gochecknoglobals // a constant table
var comparisons = map[tokens.Type]bool{
	tokens.LowerThan: true, tokens.LowerThanOrEqual: true, tokens.GreaterThan: true, tokens.GreaterThanOrEqual: true,
}

func (r *rewriter) attribute(n *nodes.GetAttribute, weight *int) nodes.Expression {
	target := r.expr(n.Node, weight)
	if n.Attribute == "" {
		return call(n, fnItem, target, &nodes.Integer{Location: n.Position(), Val: n.Index})
	}
	return call(n, fnAttribute, target, &nodes.String{Location: n.Position(), Val: n.Attribute})
}

// call sends method calls to our own methods: gonja would evaluate the receiver twice, so a chain of calls would take exponential
// time, and reach methods of Go values.
func (r *rewriter) call(n *nodes.Call, weight *int) nodes.Expression {
	r.arguments(n.Args, n.Kwargs, weight)
	switch f := n.Func.(type) {
	case *nodes.Name:
		return n
	case *nodes.GetAttribute:
		if f.Attribute == "" {
			break
		}
		c := call(n, fnMethod, r.expr(f.Node, weight), &nodes.String{Location: n.Position(), Val: f.Attribute})
		c.Args = append(c.Args, n.Args...)
		c.Kwargs = n.Kwargs
		return c
	}
	r.fail("the template calls a value that is no function or method (line %d)", n.Position().Line)
	return n
}
