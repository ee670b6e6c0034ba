package graph

import "math"

// conv2D sums over the window and the input channels of the output channel's group.
func conv2D(n *Node, in [][]float32, out []float32, xs, os []int) {
	k := n.In[1].Type.Shape
	per, kh, kw := k[1].N, k[2].N, k[3].N
	stride, pad, dilation := n.Attrs.Int("stride", 1), n.Attrs.Int("pad", 0), n.Attrs.Int("dilation", 1)
	perGroup := os[1] / n.Attrs.Int("groups", 1)
	fn := n.Attrs.Text("fn")
	each(os, func(i, b, o, y, x int) {
		sum := 0.0
		for c := range per {
			for dy := range kh {
				for dx := range kw {
					iy, ix := y*stride-pad+dy*dilation, x*stride-pad+dx*dilation
					if iy >= 0 && iy < xs[2] && ix >= 0 && ix < xs[3] {
						from := ((b*xs[1]+o/perGroup*per+c)*xs[2]+iy)*xs[3] + ix
						sum += float64(in[0][from]) * float64(in[1][((o*per+c)*kh+dy)*kw+dx])
					}
				}
			}
		}
		if n.Attrs.Flag("bias") {
			sum += float64(in[2][o])
		}
		out[i] = activate(fn, float32(sum))
	})
}

// each visits the cells of a batch of images: i is the index, then image, channel, row and column.
func each(shape []int, visit func(i, b, c, y, x int)) {
	i := 0
	for b := range shape[0] {
		for c := range shape[1] {
			for y := range shape[2] {
				for x := range shape[3] {
					visit(i, b, c, y, x)
					i++
				}
			}
		}
	}
}

func pool2D(n *Node, in, out []float32, xs, os []int) {
	kernel, stride, pad := n.Attrs.Int("kernel", 1), n.Attrs.Int("stride", 1), n.Attrs.Int("pad", 0)
	each(os, func(i, b, c, y, x int) {
		top, sum, cells := math.Inf(-1), 0.0, 0
		for dy := range kernel {
			for dx := range kernel {
				iy, ix := y*stride-pad+dy, x*stride-pad+dx
				if iy >= 0 && iy < xs[2] && ix >= 0 && ix < xs[3] {
					v := float64(in[((b*xs[1]+c)*xs[2]+iy)*xs[3]+ix])
					top, sum, cells = max(top, v), sum+v, cells+1
				}
			}
		}
		if n.Attrs.Flag("include_pad") {
			cells = kernel * kernel
		}
		if out[i] = float32(sum / float64(cells)); n.Op == OpMaxPool2D {
			out[i] = float32(top)
		}
	})
}

// batchNorm finds an element's channel from the image size: the elements between two channels.
func batchNorm(n *Node, in [][]float32, out []float32) {
	t := n.Out.Type
	size, channels := t.Shape[2].N*t.Shape[3].N, t.Shape[1].N
	w, b, mean, variance := in[1], in[2], in[3], in[4]
	eps := n.Attrs.Float("eps", 0)
	for i, x := range in[0] {
		c := i / size % channels
		out[i] = float32(float64(w[c])*(float64(x)-float64(mean[c]))/math.Sqrt(float64(variance[c])+eps) + float64(b[c]))
	}
}

func globalAvgPool(in, out []float32) {
	size := len(in) / max(len(out), 1)
	for i := range out {
		sum := 0.0
		for _, v := range in[i*size : (i+1)*size] {
			sum += float64(v)
		}
		out[i] = float32(sum / float64(size))
	}
}
