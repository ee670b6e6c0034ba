package graph

import "math"

// fuseConv multiplies a batch-norm into the convolution before it, and lets the convolution apply the activation that follows.
func fuseConv(g *Graph, r *Report) error {
	rewrite(g, func(e *editor, n *Node) {
		conv := e.made(n.In[0], OpConv2D)
		if conv == nil || conv.Attrs.Text("fn") != "" {
			return
		}
		switch {
		case n.Op == OpAct && n.Attrs.Text("quant") == "":
			conv.Attrs.Set("fn", n.Attrs.Text("fn"))
		case n.Op == OpBatchNorm:
			if !constant(n.In[1:]) || !constant(conv.In[1:]) {
				r.skip("convact", "batch-norm "+n.Out.ref(), "weights are not constants of the graph", "")
				return
			}
			e.foldBatchNorm(conv, n)
		default:
			return
		}
		e.produce(conv, n.Out)
		r.applied("convact")
	})
	return nil
}

func constant(values []*Value) bool {
	for _, v := range values {
		if v.Weight == nil || v.Weight.Data == nil {
			return false
		}
	}
	return true
}

// foldBatchNorm gives the convolution weights w·γ/√(var+eps) and the bias β + (bias−mean)·γ/√(var+eps).
func (e *editor) foldBatchNorm(conv, norm *Node) {
	old := conv.In[1]
	gamma, beta, mean, variance := norm.In[1].Weight.Data, norm.In[2].Weight.Data, norm.In[3].Weight.Data, norm.In[4].Weight.Data
	channels := len(gamma)
	per := len(old.Weight.Data) / channels
	w, b := make([]float32, len(old.Weight.Data)), make([]float32, channels)
	for c := range channels {
		factor := float64(gamma[c]) / math.Sqrt(float64(variance[c])+norm.Attrs.Float("eps", 0))
		for i := c * per; i < (c+1)*per; i++ {
			w[i] = float32(float64(old.Weight.Data[i]) * factor)
		}
		bias := 0.0
		if v := conv.Operand("bias"); v != nil {
			bias = float64(v.Weight.Data[c])
		}
		b[c] = float32(float64(beta[c]) + (bias-float64(mean[c]))*factor)
	}
	conv.Attrs.Set("bias", true)
	e.read(conv, conv.In[0],
		&Value{Name: e.fresh(old.Name + ".bn"), Type: old.Type, Weight: &Weight{Class: old.Weight.Class, Data: w}},
		&Value{Name: e.fresh(old.Name + ".bn.bias"), Type: Type{F32, []Dim{Size(channels)}}, Weight: &Weight{Class: ClassBias, Data: b}})
}
