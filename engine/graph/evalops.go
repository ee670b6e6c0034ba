package graph

import (
	"fmt"
	"math"
)

func (e *evaluator) embed(n *Node, out []float32) error {
	row, err := e.rows(n.In[1])
	if err != nil {
		return err
	}
	d, vocab := n.Out.Type.last(), n.In[1].Type.Shape[0].N
	scale, offset := n.Attrs.Float("scale", 1), n.Attrs.Int("offset", 0)
	for t, id := range e.values[n.In[0]].Ints {
		r := int(id) + offset
		if r < 0 || r >= vocab {
			return fmt.Errorf("row %d of token %d is not in a table of %d rows", r, t, vocab)
		}
		dst := out[t*d : (t+1)*d]
		row(r, dst)
		for i := range dst {
			dst[i] = float32(float64(dst[i]) * scale)
		}
	}
	return nil
}

func (e *evaluator) matmul(n *Node, out []float32) error {
	x, err := e.in(n, 0)
	if err != nil {
		return err
	}
	row, err := e.rows(n.In[1])
	if err != nil {
		return err
	}
	width, k := n.In[1].Type.Shape[0].N, n.In[1].Type.last()
	w := make([]float32, k)
	for c := range width {
		row(c, w)
		for t := range len(x) / k {
			out[t*width+c] = float32(dot(w, x[t*k:(t+1)*k]))
		}
	}
	for i := 2; i < len(n.In); i++ { // a bias is one row, a residual has all
		add, err := e.in(n, i)
		if err != nil {
			return err
		}
		for j := range out {
			out[j] += add[j%len(add)]
		}
	}
	return nil
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func (e *evaluator) selectRows(n *Node, x, out []float32) error {
	d := n.Out.Type.last()
	for i, r := range e.values[n.In[1]].Ints {
		if r < 0 || int(r) >= len(x)/d {
			return fmt.Errorf("row %d is not one of %d", r, len(x)/d)
		}
		copy(out[i*d:(i+1)*d], x[int(r)*d:])
	}
	return nil
}

func (e *evaluator) pool(n *Node, x, out []float32) error {
	d := n.Out.Type.last()
	for s := range e.dims[Sequences] {
		var members []int
		for t, of := range e.env.Sequence {
			if of == s {
				members = append(members, t)
			}
		}
		if len(members) == 0 {
			return fmt.Errorf("sequence %d has no tokens", s)
		}
		switch n.Attrs.Text("kind") {
		case "cls":
			members = members[:1]
		case "last":
			members = members[len(members)-1:]
		}
		for c := range d {
			sum := 0.0
			for _, t := range members {
				sum += float64(x[t*d+c])
			}
			out[s*d+c] = float32(sum / float64(len(members)))
		}
	}
	return nil
}

// computePlain is for operations that need nothing but their operands.
func computePlain(n *Node, in [][]float32, out []float32) error {
	d := n.Out.Type.last()
	switch n.Op {
	case OpRMSNorm:
		group := d / n.Attrs.Int("groups", 1)
		for i := 0; i < len(out); i += group {
			rmsNorm(out[i:i+group], in[0][i:i+group], in[1], n.Attrs.Float("eps", 0))
		}
		if n.Attrs.Flag("residual") {
			for i, r := range in[2] {
				out[i] += r
			}
		}
	case OpLayerNorm:
		for i := 0; i < len(out); i += d {
			layerNorm(out[i:i+d], in[0][i:i+d], in[1], in[2], n.Attrs.Float("eps", 0))
		}
	case OpGLU:
		fn := n.Attrs.Text("fn")
		for i := range out {
			t, c := i/d, i%d
			out[i] = activate(fn, in[0][2*t*d+c]) * in[0][2*t*d+d+c]
		}
	case OpSlice:
		from, width := n.Attrs.Int("from", 0), n.In[0].Type.last()
		for i := range out {
			out[i] = in[0][i/d*width+from+i%d]
		}
	case OpNormalize, OpSoftmax:
		for i := 0; i < len(out); i += d {
			if n.Op == OpSoftmax {
				softmax(out[i:i+d], in[0][i:i+d])
			} else {
				normalize(out[i:i+d], in[0][i:i+d])
			}
		}
	case OpBatchNorm:
		batchNorm(n, in, out)
	case OpGlobalAvgPool:
		globalAvgPool(in[0], out)
	default:
		return computeElements(n, in, out)
	}
	return nil
}

// computeElements is for operations that look at one element at a time.
func computeElements(n *Node, in [][]float32, out []float32) error {
	by := n.Attrs.Float("by", 1)
	fn := n.Attrs.Text("fn")
	for i, x := range in[0] {
		switch n.Op {
		case OpAct:
			out[i] = activate(fn, x)
		case OpAdd:
			out[i] = x + in[1][i%len(in[1])]
		case OpMul:
			out[i] = x * in[1][i%len(in[1])]
		case OpScale:
			out[i] = float32(float64(x) * by)
		case OpSoftcap:
			out[i] = float32(by * math.Tanh(float64(x)/by))
		case OpQuantize:
			out[i] = x
		default:
			return fmt.Errorf("unknown operation %q", n.Op)
		}
	}
	return nil
}

func rmsNorm(dst, x, w []float32, eps float64) {
	inv := 1 / math.Sqrt(dot(x, x)/float64(len(x))+eps)
	for i := range dst {
		dst[i] = float32(float64(w[i]) * float64(x[i]) * inv)
	}
}

func layerNorm(dst, x, w, b []float32, eps float64) {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		square += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	inv := 1 / math.Sqrt(square+eps)
	for i := range dst {
		dst[i] = float32(float64(w[i])*(float64(x[i])-mean)*inv + float64(b[i]))
	}
}

func softmax(dst, x []float32) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	for i, v := range x {
		dst[i] = float32(math.Exp(float64(v)-top) / sum)
	}
}

// normalize leaves a row of zeros as it is.
func normalize(dst, x []float32) {
	length := max(math.Sqrt(dot(x, x)), 1e-12)
	for i, v := range x {
		dst[i] = float32(float64(v) / length)
	}
}

// activate is the function that the attribute fn names; no name means none.
func activate(fn string, x float32) float32 {
	v := float64(x)
	switch fn {
	case "silu":
		v /= 1 + math.Exp(-v)
	case "gelu":
		v *= 0.5 * (1 + math.Erf(v/math.Sqrt2))
	case "gelu_tanh":
		v *= 0.5 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
	case "relu":
		v = max(v, 0)
	case "tanh":
		v = math.Tanh(v)
	case "sigmoid":
		v = 1 / (1 + math.Exp(-v))
	}
	return float32(v)
}
