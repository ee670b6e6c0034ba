package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// attrKind is the type of an attribute's value.
type attrKind uint8

const (
	kindInt attrKind = iota
	kindFloat
	kindText
	kindFlag
)

// attrSpec says what one attribute may be. An attribute that is not needed has the default that its op's comment names.
type attrSpec struct {
	key      string
	kind     attrKind
	need     bool
	min, max float64  // numbers: both ends included
	values   []string // texts
}

// opSpec documents an operation.
type opSpec struct {
	doc string
	// operands in order; "@w" must be a weight.
	operands []string
	// optional operands follow in this order, each when the flag attribute of the same name is true.
	optional []string
	attrs    []attrSpec
	infer    func(n *Node) (Type, error)
}

func countAttr(key string) attrSpec {
	return attrSpec{key: key, kind: kindInt, need: true, min: 1, max: maxDim}
}

func indexAttr(key string) attrSpec {
	return attrSpec{key: key, kind: kindInt, need: true, min: 0, max: maxDim}
}

func numberAttr(key string, lo, hi float64) attrSpec {
	return attrSpec{key: key, kind: kindFloat, need: true, min: lo, max: hi}
}

func textAttr(key string, values ...string) attrSpec {
	return attrSpec{key: key, kind: kindText, need: true, values: values}
}

func flagAttr(key string) attrSpec { return attrSpec{key: key, kind: kindFlag} }

func (a attrSpec) optional() attrSpec {
	a.need = false
	return a
}

// quantAttr asks an op to write its result as int8: "block" (q8b) or "row" (q8r), in two terms "block2" (q8b2) or "row2" (q8r2).
func quantAttr() attrSpec { return textAttr("quant", "block", "row", "block2", "row2").optional() }

func fnAttr() attrSpec {
	return textAttr("fn", "silu", "gelu", "gelu_tanh", "relu", "tanh", "sigmoid")
}

func epsAttr() attrSpec { return numberAttr("eps", 0, 1) }

// ropeAttrs are shared by rope and by attention that has absorbed it: the rotation of the first `rotated` columns of every head.
func ropeAttrs() []attrSpec {
	return []attrSpec{
		textAttr("rope", "interleaved", "neox"), countAttr("rotated"), numberAttr("rope_base", math.SmallestNonzeroFloat64, math.MaxFloat64),
		numberAttr("rope_factor", math.SmallestNonzeroFloat64, math.MaxFloat64).optional(),
	}
}

func optionalAll(specs []attrSpec) []attrSpec {
	out := slices.Clone(specs)
	for i := range out {
		out[i] = out[i].optional()
	}
	return out
}

const anyNumber = math.MaxFloat64

// specOf returns the description of an operation.
func specOf(op Op) (opSpec, bool) {
	switch op {
	case OpEmbed:
		return opSpec{
			doc: "row ids+offset (0) of the table, times scale (1)", operands: []string{"ids", "@table"},
			attrs: []attrSpec{numberAttr("scale", -anyNumber, anyNumber).optional(), indexAttr("offset").optional()}, infer: inferEmbed,
		}, true
	case OpMatMul:
		return opSpec{
			doc: "x·wᵀ + bias + residual", operands: []string{"x", "@w"}, optional: []string{"@bias", "residual"}, infer: inferMatMul,
		}, true
	case OpRMSNorm:
		return opSpec{
			doc: "w·x/√(mean x² + eps) in each of groups (1) equal parts of a row, + residual", operands: []string{"x", "@w"}, optional: []string{"residual"},
			attrs: []attrSpec{epsAttr(), countAttr("groups").optional(), quantAttr()}, infer: inferRMSNorm,
		}, true
	case OpLayerNorm:
		return opSpec{
			doc: "w·(x−mean)/√(variance + eps) + b per row", operands: []string{"x", "@w", "@b"},
			attrs: []attrSpec{epsAttr(), quantAttr()}, infer: inferLayerNorm,
		}, true
	case OpRope:
		return opSpec{
			doc:      "rotates each head by the token's position / rope_factor (1); freqs divides the frequencies",
			operands: []string{"x"}, optional: []string{"@freqs"}, attrs: append(ropeAttrs(), countAttr("heads"), countAttr("dim")), infer: inferRope,
		}, true
	case OpAttention:
		return attentionSpec(), true
	default:
		return specOfSimple(op)
	}
}

func attentionSpec() opSpec {
	return opSpec{
		doc: "softmax(scale·q·kᵀ)·v over the tokens of the same sequence; q, k and v are one operand qkv when packed; with qnorm and knorm each head is rms-normed " +
			"first, with rope then rotated; causal: only earlier positions, k and v of layer are kept; window (0: all) positions back; softcap (0: none) of the scores",
		operands: []string{"q", "k", "v"}, optional: []string{"@qnorm", "@knorm", "@freqs"},
		attrs: append(optionalAll(ropeAttrs()), indexAttr("layer"), countAttr("heads"), countAttr("kv"), countAttr("dim"), numberAttr("scale", -anyNumber, anyNumber), flagAttr("causal"),
			indexAttr("window").optional(), numberAttr("softcap", 0, anyNumber).optional(), flagAttr("packed"), epsAttr().optional(), quantAttr()),
		infer: inferAttention,
	}
}

// specOfSimple holds the elementwise, row-wise and gathering operations.
func specOfSimple(op Op) (opSpec, bool) {
	switch op {
	case OpAct:
		return opSpec{doc: "fn of every element", operands: []string{"x"}, attrs: []attrSpec{fnAttr(), quantAttr()}, infer: inferSame}, true
	case OpGLU:
		return opSpec{doc: "fn(first half of the row)·second half", operands: []string{"gateup"}, attrs: []attrSpec{fnAttr(), quantAttr()}, infer: inferGLU}, true
	case OpAdd, OpMul:
		return opSpec{
			doc: "a+b or a·b; b has a's shape, or is one row used for all", operands: []string{"a", "b"}, attrs: []attrSpec{quantAttr()}, infer: inferBinary,
		}, true
	case OpScale:
		return opSpec{doc: "x·by", operands: []string{"x"}, attrs: []attrSpec{numberAttr("by", -anyNumber, anyNumber)}, infer: inferSame}, true
	case OpSoftcap:
		return opSpec{
			doc: "by·tanh(x/by)", operands: []string{"x"}, attrs: []attrSpec{numberAttr("by", math.SmallestNonzeroFloat64, anyNumber)}, infer: inferSame,
		}, true
	case OpSlice:
		return opSpec{doc: "columns from..to (to excluded)", operands: []string{"x"}, attrs: []attrSpec{indexAttr("from"), countAttr("to")}, infer: inferSlice}, true
	case OpSelect:
		return opSpec{doc: "the rows of x with these numbers", operands: []string{"x", "rows"}, infer: inferSelect}, true
	case OpPool:
		return opSpec{
			doc: "one row for each sequence: the mean, the first (cls) or the last of its tokens' rows", operands: []string{"x"},
			attrs: []attrSpec{textAttr("kind", "mean", "cls", "last")}, infer: inferPool,
		}, true
	case OpNormalize:
		return opSpec{doc: "row / its Euclidean length", operands: []string{"x"}, infer: inferSame}, true
	case OpSoftmax:
		return opSpec{doc: "softmax of each row", operands: []string{"x"}, infer: inferSame}, true
	case OpQuantize:
		return opSpec{
			doc: "int8 with one scale for 32 columns (block) or for a row; block2, row2: in two terms", operands: []string{"x"}, attrs: []attrSpec{textAttr("per", "block", "row", "block2", "row2")},
			infer: inferQuantize,
		}, true
	default:
		return specOfImage(op)
	}
}

// specOfImage holds the operations on images: batch, channels, height, width.
func specOfImage(op Op) (opSpec, bool) {
	window := []attrSpec{countAttr("kernel"), countAttr("stride"), indexAttr("pad").optional()}
	switch op {
	case OpConv2D:
		return opSpec{
			doc:      "fn(x∗w + bias) with w [out, in/groups, height, width]; stride (1), pad (0, zeros on all sides), dilation (1), groups (1)",
			operands: []string{"x", "@w"}, optional: []string{"@bias"},
			attrs: []attrSpec{
				countAttr("stride").optional(), indexAttr("pad").optional(), countAttr("dilation").optional(), countAttr("groups").optional(), fnAttr().optional(),
			},
			infer: inferConv2D,
		}, true
	case OpBatchNorm:
		return opSpec{
			doc: "w·(x−mean)/√(var + eps) + b for each channel", operands: []string{"x", "@w", "@b", "@mean", "@var"}, attrs: []attrSpec{epsAttr()},
			infer: inferBatchNorm,
		}, true
	case OpMaxPool2D:
		return opSpec{doc: "the greatest value of each window; cells outside the image never win", operands: []string{"x"}, attrs: window, infer: inferPool2D}, true
	case OpAvgPool2D:
		return opSpec{
			doc: "the mean of each window: of the cells inside the image, or with include_pad of all", operands: []string{"x"},
			attrs: append(window, flagAttr("include_pad")), infer: inferPool2D,
		}, true
	case OpGlobalAvgPool:
		return opSpec{doc: "the mean of each channel", operands: []string{"x"}, infer: inferGlobalPool}, true
	default:
		return opSpec{}, false
	}
}

// Operands names the operands that the node's attributes call for, in order.
func (n *Node) Operands() []string {
	spec, ok := specOf(n.Op)
	if !ok {
		return nil
	}
	names := n.operandSpecs(spec)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "@")
	}
	return names
}

func (n *Node) operandSpecs(spec opSpec) []string {
	names := slices.Clone(spec.operands)
	if n.Op == OpAttention && n.Attrs.Flag("packed") {
		names = []string{"qkv"}
	}
	for _, o := range spec.optional {
		if n.Attrs.Flag(strings.TrimPrefix(o, "@")) {
			names = append(names, o)
		}
	}
	return names
}

// Operand returns the operand of this name ("x", "residual", "freqs"); nil if the node has none.
func (n *Node) Operand(name string) *Value {
	if i := slices.Index(n.Operands(), name); i >= 0 && i < len(n.In) {
		return n.In[i]
	}
	return nil
}

// attrs lists the attributes an op knows, the flags of its optional operands included.
func (s opSpec) spec(key string) (attrSpec, bool) {
	for _, a := range s.attrs {
		if a.key == key {
			return a, true
		}
	}
	if slices.Contains(s.optional, key) || slices.Contains(s.optional, "@"+key) {
		return flagAttr(key), true
	}
	return attrSpec{}, false
}

func (s opSpec) keys() []string {
	var keys []string
	for _, a := range s.attrs {
		keys = append(keys, a.key)
	}
	for _, o := range s.optional {
		keys = append(keys, strings.TrimPrefix(o, "@"))
	}
	slices.Sort(keys)
	return keys
}

// checkAttrs compares the attributes of a node with the op's table.
func (n *Node) checkAttrs(s opSpec) error {
	for i, a := range n.Attrs {
		if i > 0 && n.Attrs[i-1].Key >= a.Key {
			return fmt.Errorf("attribute %s is not in order of the keys; set attributes with Attrs.Set", a.Key)
		}
		want, ok := s.spec(a.Key)
		if !ok {
			return fmt.Errorf("unknown attribute %s; %s has: %s", a.Key, n.Op, strings.Join(s.keys(), ", "))
		}
		if err := want.check(a.Val); err != nil {
			return err
		}
	}
	for _, a := range s.attrs {
		if a.need && n.Attrs.Get(a.key) == nil {
			return fmt.Errorf("attribute %s is missing", a.key)
		}
	}
	return nil
}

func (a attrSpec) check(val any) error {
	switch a.kind {
	case kindInt:
		v, ok := val.(int)
		if !ok {
			return fmt.Errorf("attribute %s must be an integer, not %v", a.key, val)
		}
		return a.checkRange(float64(v))
	case kindFloat:
		v, ok := val.(float64)
		if !ok {
			return fmt.Errorf("attribute %s must be a float64, not %T %v", a.key, val, val)
		}
		return a.checkRange(v)
	case kindFlag:
		if _, ok := val.(bool); !ok {
			return fmt.Errorf("attribute %s must be true or false, not %v", a.key, val)
		}
	case kindText:
		v, ok := val.(string)
		if !ok || !slices.Contains(a.values, v) {
			return fmt.Errorf("attribute %s is %v, not one of: %s", a.key, val, strings.Join(a.values, ", "))
		}
	}
	return nil
}

func (a attrSpec) checkRange(v float64) error {
	if !(v >= a.min && v <= a.max) { // also rejects NaN
		return fmt.Errorf("attribute %s is %v, outside %v..%v", a.key, v, a.min, a.max)
	}
	return nil
}
