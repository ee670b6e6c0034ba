package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Native is the format of a class that keeps what the model file has.
const Native Elem = "native"

// Precision chooses the format of every matrix.
type Precision struct {
	Name    string
	Default Elem           // of the classes that Classes leaves out
	Classes map[Class]Elem // native, f32, f16, i8 or q8
	// Wide names the classes whose weights read activations in two terms: products cost twice as much and lose next to nothing.
	Wide map[Class]bool
}

// NewPrecision returns a plan by name: native (or ""), int8 (attention and feed-forward in int8 with one scale per row, their last matrix with one per 32
// columns, embedding and head in half precision), int8-kv8 (the same for weights), f16 or f32. Overrides give single classes another format: {"head": "i8"}.
func NewPrecision(plan string, overrides map[string]string) (Precision, error) {
	p := Precision{Name: plan, Classes: map[Class]Elem{}, Wide: map[Class]bool{}}
	switch plan {
	case "", "native":
		p.Name, p.Default = "native", Native
		p.Wide[ClassHead], p.Wide[ClassAttention] = true, true
	case "f16", "f32":
		p.Default = Elem(plan)
	case "int8", "int8-kv8":
		p.Default = F16
		for _, class := range []Class{ClassAttention, ClassFFN} {
			p.Classes[class], p.Wide[class] = "i8", true
		}
		// The weights that read what an activation lets through are of very different sizes: one scale for a row of them costs more than
		// all other rounding.
		p.Classes[ClassDown], p.Wide[ClassDown] = "q8", true
	default:
		return p, fmt.Errorf("unknown precision plan %q; there are native, int8, int8-kv8, f16 and f32", plan)
	}
	for _, class := range slices.Sorted(maps.Keys(overrides)) {
		if !knownClass(Class(class)) {
			return p, fmt.Errorf("precision of class %q: there are the classes embed, head, attention, ffn, down and other", class)
		}
		p.Classes[Class(class)] = Elem(overrides[class])
	}
	return p, p.check()
}

func (p Precision) check() error {
	for _, class := range slices.Sorted(maps.Keys(p.Classes)) {
		if !assignable(p.Classes[class]) {
			return fmt.Errorf("precision %q of class %s: weights can be assigned native, f32, f16, i8 or q8", p.Classes[class], class)
		}
	}
	if !assignable(p.Default) {
		return fmt.Errorf("default precision %q: weights can be assigned native, f32, f16, i8 or q8", p.Default)
	}
	return nil
}

func assignable(e Elem) bool {
	switch e {
	case Native, F32, F16, "i8", "q8":
		return true
	default:
		return false
	}
}

// native is the packed format that holds a file's format exactly.
func native(stored string) (Elem, bool) {
	switch strings.ToLower(stored) {
	case "q4_0", "q4_1":
		return "q4", true
	case "q5_0", "q5_1":
		return "q5", true
	case "q8_0", "q2_k", "q3_k": // the last two have no form of their own and are rounded again, to far more bits than they have
		return "q8", true
	case "q4_k":
		return "q4k", true
	case "q5_k":
		return "q5k", true
	case "q6_k":
		return "q6k", true
	case "f16":
		return F16, true
	case "f32", "bf16", "f64", "":
		return F32, true
	}
	return F32, false
}

// Format chooses the format of a matrix. The reason is set when it is not the one that the plan asks for.
func (p Precision) Format(w *Value) (format Elem, reason string) {
	want, ok := p.Classes[w.Weight.Class]
	if !ok {
		want = p.Default
	}
	if want == Native {
		if want, ok = native(w.Weight.Stored); !ok {
			return want, "stored format has no packed form"
		}
	}
	cols := w.Type.last()
	switch {
	case Reads(want) == F32:
		return want, ""
	case cols%32 != 0:
		return F16, "rows are not whole blocks of 32"
	case strings.HasSuffix(string(want), "k") && cols%256 != 0:
		return F16, "rows are not whole blocks of 256"
	}
	return want, ""
}

// assign gives every matrix its format, makes tied weights of one format one weight, and inserts the quantise nodes that the formats need. Weights that already
// have a format keep it; vectors, and whatever no product or embedding reads, stay float32.
func (p Precision) assign(g *Graph, r *Report) error {
	if err := p.check(); err != nil {
		return err
	}
	e := edit(g)
	for _, w := range g.Weights {
		if w.Type.Elem != F32 || len(w.Type.Shape) != 2 || !e.onlyMatrix(w) {
			continue
		}
		format, reason := p.Format(w)
		if reason != "" {
			r.skip("precision", w.ref(), reason, fmt.Sprintf("%s of %s, kept as %s", w.Weight.Stored, w.Type, format))
		}
		if format != F32 {
			r.applied("precision")
		}
		w.Type.Elem = format
	}
	e.mergeTied()
	p.quantise(e)
	e.finish()
	return nil
}

// onlyMatrix reports whether a weight is read only as the matrix of products and as the table of embeddings.
func (e *editor) onlyMatrix(w *Value) bool {
	for _, n := range e.users[w] {
		for i, v := range n.In {
			if v == w && (i != 1 || n.Op != OpMatMul && n.Op != OpEmbed) {
				return false
			}
		}
	}
	return true
}

// mergeTied makes weights with the same content and type one.
func (e *editor) mergeTied() {
	first := map[string]*Value{}
	for _, w := range e.g.Weights {
		if w.Weight.Data != nil {
			continue
		}
		key := fmt.Sprintf("%s %q", w.Type, w.Weight.Parts)
		if first[key] == nil {
			first[key] = w
			continue
		}
		e.replace(w, first[key])
	}
}

// quantise inserts one quantise node for all the products that read the same value as int8.
func (p Precision) quantise(e *editor) {
	made := map[[2]string]*Value{}
	for _, n := range e.g.Nodes {
		if n.Op != OpMatMul || n.In[0].Type.Elem != F32 {
			continue
		}
		want, per := Reads(n.In[1].Type.Elem), "block"
		if want == F32 {
			continue
		}
		if want == Q8R {
			per = "row"
		}
		class := n.In[1].Weight.Class
		if class == ClassEmbed {
			class = ClassHead // an embedding that is multiplied with is a head that the model ties to it
		}
		if p.Wide[class] {
			want, per = want+"2", per+"2"
		}
		x := n.In[0]
		key := [2]string{x.Name, per}
		if made[key] == nil {
			made[key] = &Value{Name: e.fresh(x.Name + "." + string(want)), Type: Type{want, x.Type.Shape}}
			e.insertBefore(n, &Node{Op: OpQuantize, In: []*Value{x}, Attrs: attrsOf(A{"per": per}), Out: made[key]})
		}
		e.read(n, append([]*Value{made[key]}, n.In[1:]...)...)
	}
}
