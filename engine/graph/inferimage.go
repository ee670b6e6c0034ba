package graph

import "fmt"

// image checks that operand 0 is a batch of images and returns its channels, height and width.
func (n *Node) image() (c, h, w int, err error) {
	t, err := n.operand(0, F32, 4)
	if err != nil {
		return 0, 0, 0, err
	}
	for _, d := range t.Shape[1:] {
		if d.Symbol != "" {
			return 0, 0, 0, fmt.Errorf("operand x (%s) is %s: only the batch may be symbolic", n.In[0].ref(), t)
		}
	}
	return t.Shape[1].N, t.Shape[2].N, t.Shape[3].N, nil
}

// windows is the number of positions of a window along one axis.
func (n *Node) windows(size, kernel int) (int, error) {
	stride, pad, dilation := n.Attrs.Int("stride", 1), n.Attrs.Int("pad", 0), n.Attrs.Int("dilation", 1)
	if kernel > maxDim/dilation {
		return 0, fmt.Errorf("a window of %d with dilation %d is too large", kernel, dilation)
	}
	reach := dilation*(kernel-1) + 1
	if size+2*pad < reach {
		return 0, fmt.Errorf("a window of %d does not fit %d cells with pad %d", reach, size, pad)
	}
	if pad >= reach {
		return 0, fmt.Errorf("pad %d is not smaller than the window of %d", pad, reach)
	}
	return (size+2*pad-reach)/stride + 1, nil
}

func inferConv2D(n *Node) (Type, error) {
	c, h, w, err := n.image()
	if err != nil {
		return Type{}, err
	}
	k, groups := n.In[1].Type, n.Attrs.Int("groups", 1)
	if k.Elem != F32 || len(k.Shape) != 4 || k.elements() == 0 {
		return Type{}, fmt.Errorf("operand w (%s) is %s, not f32[out, in, height, width]", n.In[1].ref(), k)
	}
	out := k.Shape[0].N
	if c%groups != 0 || out%groups != 0 || k.Shape[1].N != c/groups {
		return Type{}, fmt.Errorf("operand w (%s) is %s, which does not fit %d channels in %d groups", n.In[1].ref(), k, c, groups)
	}
	if err := n.vectors(2, out); err != nil {
		return Type{}, err
	}
	oh, err := n.windows(h, k.Shape[2].N)
	if err != nil {
		return Type{}, err
	}
	ow, err := n.windows(w, k.Shape[3].N)
	return Type{F32, []Dim{n.In[0].Type.Shape[0], Size(out), Size(oh), Size(ow)}}, err
}

func inferBatchNorm(n *Node) (Type, error) {
	c, _, _, err := n.image()
	if err != nil {
		return Type{}, err
	}
	return n.In[0].Type, n.vectors(1, c)
}

func inferPool2D(n *Node) (Type, error) {
	c, h, w, err := n.image()
	if err != nil {
		return Type{}, err
	}
	kernel := n.Attrs.Int("kernel", 0)
	oh, err := n.windows(h, kernel)
	if err != nil {
		return Type{}, err
	}
	ow, err := n.windows(w, kernel)
	return Type{F32, []Dim{n.In[0].Type.Shape[0], Size(c), Size(oh), Size(ow)}}, err
}

func inferGlobalPool(n *Node) (Type, error) {
	c, _, _, err := n.image()
	if err != nil {
		return Type{}, err
	}
	return Type{F32, []Dim{n.In[0].Type.Shape[0], Size(c)}}, nil
}
