package graph

// Elem is how the elements of a value or weight are stored.
type Elem string

// Elements of values. The packed formats of weights are the names of package kernel.
const (
	F32 Elem = "f32"
	F16 Elem = "f16"
	I32 Elem = "i32"
	Q8B Elem = "q8b" // signed bytes, one scale per 32 columns
	Q8R Elem = "q8r" // signed bytes, one scale per row
	// The same in two terms: the second is what the first leaves over, in as many bytes and scales of its own. Products cost twice
	// as much and see nearly sixteen bits.
	Q8B2 Elem = "q8b2"
	Q8R2 Elem = "q8r2"
)

// The symbols that the engine binds at every step.
const (
	Tokens    = "T" // rows of a step
	Wanted    = "R" // rows whose output is wanted
	Sequences = "S" // sequences of a step
)

// Dim is one dimension: N, or N·Symbol.
type Dim struct {
	Symbol string // "" for a constant
	N      int
}

// Range bounds a symbol, both ends included.
type Range struct{ Min, Max int }

// Symbol is a dimension that is known only when a step runs.
type Symbol struct {
	Name string
	Range
}

// Type is the type of a value: its elements and its shape, outermost dimension first.
type Type struct {
	Elem  Elem
	Shape []Dim
}

// Class groups weights for precision plans.
type Class string

// The classes.
const (
	ClassEmbed     Class = "embed"
	ClassHead      Class = "head"
	ClassNorm      Class = "norm"
	ClassBias      Class = "bias"
	ClassAttention Class = "attention"
	ClassFFN       Class = "ffn"
	ClassDown      Class = "down" // what leads out of a feed-forward; its input has the largest outliers
	ClassOther     Class = "other"
)

// Weight says where a constant comes from: tensors of the model file stacked along the first dimension, or data made by a pass.
type Weight struct {
	Class Class
	// Parts are tensor names of the model file; with several, their rows follow one another.
	Parts []string
	// Stored is the format of the parts in the file, such as "q4_1"; "mixed" when they differ.
	Stored string
	// Data is the content of a constant that a pass or builder made, row by row; nil when it comes from Parts.
	Data []float32
}

// Value is what a node produces, an input of the graph, or, when Weight is set, a constant.
type Value struct {
	Name   string // unique in the graph, without the % or @ of the text form
	Type   Type
	Weight *Weight
}

// Node computes one value from others.
type Node struct {
	Op    Op
	In    []*Value
	Attrs Attrs
	Out   *Value
}

// Graph is a computation: nodes in an order in which every operand comes before its use.
type Graph struct {
	Name    string
	Symbols []Symbol
	Inputs  []*Value
	Weights []*Value // in the order of first use
	Nodes   []*Node
	Outputs []*Value
}

// Attr is one attribute. Val is int, float64, string or bool.
type Attr struct {
	Key string
	Val any
}

// Attrs are attributes in order of their keys.
type Attrs []Attr

// Op names an operation; see ops.go for operands, attributes and meaning.
type Op string

// The operations.
const (
	OpEmbed         Op = "embed"
	OpMatMul        Op = "matmul"
	OpRMSNorm       Op = "rmsnorm"
	OpLayerNorm     Op = "layernorm"
	OpRope          Op = "rope"
	OpAttention     Op = "attention"
	OpAct           Op = "act"
	OpGLU           Op = "glu"
	OpAdd           Op = "add"
	OpMul           Op = "mul"
	OpScale         Op = "scale"
	OpSoftcap       Op = "softcap"
	OpSlice         Op = "slice"
	OpSelect        Op = "select"
	OpPool          Op = "pool"
	OpNormalize     Op = "normalize"
	OpSoftmax       Op = "softmax"
	OpQuantize      Op = "quantize"
	OpConv2D        Op = "conv2d"
	OpBatchNorm     Op = "batchnorm"
	OpMaxPool2D     Op = "maxpool2d"
	OpAvgPool2D     Op = "avgpool2d"
	OpGlobalAvgPool Op = "globalavgpool"
)
