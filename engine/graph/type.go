package graph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits that keep every product of dimensions far from overflow, whatever a text or a model file claims.
const (
	maxDim      = 1 << 31
	maxElements = 1 << 44
)

// Size is a constant dimension.
func Size(n int) Dim { return Dim{N: n} }

// String prints 576, T or 2*T.
func (d Dim) String() string {
	switch {
	case d.Symbol == "":
		return strconv.Itoa(d.N)
	case d.N == 1:
		return nameText(d.Symbol)
	}
	return strconv.Itoa(d.N) + "*" + nameText(d.Symbol)
}

// String prints f32[T, 576].
func (t Type) String() string {
	dims := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = d.String()
	}
	return string(t.Elem) + "[" + strings.Join(dims, ", ") + "]"
}

// Equal reports whether two types have the same elements and shape.
func (t Type) Equal(o Type) bool { return t.Elem == o.Elem && slices.Equal(t.Shape, o.Shape) }

// Cols is the number of elements of one row: the product of all dimensions but the first. It is 0 when one of them is symbolic.
func (t Type) Cols() int {
	n := 1
	for _, d := range t.Shape[min(1, len(t.Shape)):] {
		if d.Symbol != "" {
			return 0
		}
		n *= d.N
	}
	return n
}

// last is the innermost dimension if it is constant, else 0.
func (t Type) last() int {
	if len(t.Shape) == 0 || t.Shape[len(t.Shape)-1].Symbol != "" {
		return 0
	}
	return t.Shape[len(t.Shape)-1].N
}

// elements is the number of elements of a constant shape, or 0.
func (t Type) elements() int {
	if len(t.Shape) == 0 || t.Shape[0].Symbol != "" {
		return 0
	}
	return t.Shape[0].N * t.Cols()
}

// check rejects element types and shapes that nothing can work with.
func (t Type) check() error {
	if !knownElem(t.Elem) {
		return fmt.Errorf("unknown element type %q", t.Elem)
	}
	if len(t.Shape) == 0 {
		return fmt.Errorf("type %s has no dimensions", t)
	}
	total := 1
	for i, d := range t.Shape {
		if d.N < 1 || d.N > maxDim {
			return fmt.Errorf("dimension %d of %s is not in 1..%d", i, t, maxDim)
		}
		if total > maxElements/d.N {
			return fmt.Errorf("%s has more than %d elements", t, maxElements)
		}
		total *= d.N
	}
	return nil
}

// knownElem reports whether e is an element type of values or a packed format of weights.
func knownElem(e Elem) bool {
	switch e {
	case F32, F16, I32, Q8B, Q8R, Q8B2, Q8R2, "q4", "q4k", "q5", "q5k", "q6k", "q8", "i8":
		return true
	default:
		return false
	}
}

// knownClass reports whether c is one of the weight classes.
func knownClass(c Class) bool {
	switch c {
	case ClassEmbed, ClassHead, ClassNorm, ClassBias, ClassAttention, ClassFFN, ClassDown, ClassOther:
		return true
	}
	return false
}

// ref is how the text form names a value: %x, or @w for a weight.
func (v *Value) ref() string {
	if v.Weight != nil {
		return "@" + nameText(v.Name)
	}
	return "%" + nameText(v.Name)
}

// nameText prints a name bare if the parser would read it back so, else quoted.
func nameText(s string) string {
	if s == "" || !nameStart(s[0]) {
		return strconv.Quote(s)
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return strconv.Quote(s)
		}
	}
	return s
}

func nameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func nameByte(c byte) bool {
	return nameStart(c) || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '/' || c == ':'
}
