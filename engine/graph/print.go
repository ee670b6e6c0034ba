package graph

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// String is the text form of the graph; Parse reads it back exactly.
func (g *Graph) String() string {
	var b strings.Builder
	_ = g.WriteText(&b) // a Builder does not fail
	return b.String()
}

// WriteText writes the text form: one line for each symbol, input, weight and operation.
func (g *Graph) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "graph %s {\n", nameText(g.Name))
	for _, s := range g.Symbols {
		fmt.Fprintf(out, "  symbol %s in %d..%d\n", nameText(s.Name), s.Min, s.Max)
	}
	for _, v := range g.Inputs {
		fmt.Fprintf(out, "  input %s : %s\n", v.ref(), v.Type)
	}
	for _, v := range g.Weights {
		fmt.Fprintf(out, "  weight %s : %s%s\n", v.ref(), v.Type, weightText(v))
	}
	for _, n := range g.Nodes {
		fmt.Fprintf(out, "  %s\n", n)
	}
	fmt.Fprintf(out, "  return %s\n}\n", refs(g.Outputs))
	return out.Flush()
}

// String is the node's line of the text form.
func (n *Node) String() string {
	return fmt.Sprintf("%s = %s(%s)%s : %s", n.Out.ref(), n.Op, refs(n.In), n.Attrs, n.Out.Type)
}

func refs(values []*Value) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.ref()
	}
	return strings.Join(names, ", ")
}

// String prints the attributes as the text form has them, with a space in front; nothing if there are none.
func (a Attrs) String() string {
	if len(a) == 0 {
		return ""
	}
	parts := make([]string, len(a))
	for i, x := range a {
		parts[i] = x.Key + "=" + attrText(x.Val)
	}
	return " {" + strings.Join(parts, ", ") + "}"
}

func attrText(val any) string {
	switch v := val.(type) {
	case string:
		return strconv.Quote(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(val)
}

// weightText prints what follows a weight's type. Parts that are the weight's own name go without saying.
func weightText(v *Value) string {
	w := v.Weight
	var b strings.Builder
	fmt.Fprintf(&b, " class=%s", w.Class)
	if w.Stored != "" {
		fmt.Fprintf(&b, " stored=%s", nameText(w.Stored))
	}
	if w.Data == nil && (len(w.Parts) != 1 || w.Parts[0] != v.Name) {
		names := make([]string, len(w.Parts))
		for i, p := range w.Parts {
			names[i] = nameText(p)
		}
		fmt.Fprintf(&b, " parts=[%s]", strings.Join(names, ", "))
	}
	if w.Data != nil {
		b.WriteString(" data=[")
		for i, x := range w.Data {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		b.WriteString("]")
	}
	return b.String()
}
