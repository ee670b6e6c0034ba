package lora

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-project/sluice/engine/gguf"
)

// openGGUF reads what convert_lora_to_gguf of llama.cpp writes: for each weight, name.lora_a with a row for each rank and name.lora_b
// with a column for each.
func openGGUF(path string, base Base) (*File, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	factors, err := readGGUF(f, base)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{factors: factors, digest: f.Digest(), close: f.Close}, nil
}

func readGGUF(f *gguf.File, base Base) ([]Factor, error) {
	for _, want := range []struct{ key, value, remedy string }{
		{"general.type", "adapter", "it is no adapter; give the file that convert_lora_to_gguf made"},
		{"adapter.type", "lora", "only adapters of the kind lora are supported"},
		{"general.architecture", base.Arch, "it was made for another model"},
	} {
		got, err := f.String(want.key)
		if err != nil {
			return nil, fmt.Errorf("%w; %s", err, want.remedy)
		}
		if got != want.value {
			return nil, fmt.Errorf("its %s is %.60q, not %q: %s", want.key, got, want.value, want.remedy)
		}
	}
	if f.Has("adapter.alora.invocation_tokens") {
		return nil, errors.New("it acts behind certain tokens only (adapter.alora.invocation_tokens), which is not supported")
	}
	alpha, err := readAlpha(f)
	if err != nil {
		return nil, err
	}
	g := gather{base: base, interleaved: base.Arch == llama, pairs: map[string]*pair{}}
	for t := range f.All() {
		if err := g.putGGUF(t); err != nil {
			return nil, err
		}
	}
	return g.factors(func(_ string, rank int) (float64, error) {
		if alpha == 0 { // as llama.cpp has it
			return 1, nil
		}
		return alpha / float64(rank), nil
	})
}

func readAlpha(f *gguf.File) (float64, error) {
	if !f.Has("adapter.lora.alpha") {
		return 0, nil
	}
	return f.Float("adapter.lora.alpha")
}

func (g *gather) putGGUF(t *gguf.Tensor) error {
	target, first := strings.CutSuffix(t.Name, ".lora_a")
	second := false
	if !first {
		target, second = strings.CutSuffix(t.Name, ".lora_b")
	}
	switch {
	case !first && !second || !strings.HasSuffix(target, ".weight"):
		return fmt.Errorf("it has the tensor %.120q, which is no factor of a product; adapters that replace tensors are not supported", t.Name)
	case len(t.Shape) != 2:
		return fmt.Errorf("the factor %.120q has %d dimensions, not 2", t.Name, len(t.Shape))
	}
	return g.put(target, target, second, t)
}
