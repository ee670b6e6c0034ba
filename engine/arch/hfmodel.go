package arch

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/sluice-project/sluice/engine/safetensors"
)

// openDirectory opens a model as Hugging Face lays it out.
func (m *Model) openDirectory(dir string) error {
	c, divisors, err := readHF(dir)
	if err != nil {
		return err
	}
	f, err := safetensors.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; weights are read in the safetensors format only", err)
	}
	if err != nil {
		return err
	}
	m.Config, m.Dir = *c, dir
	m.closers = append(m.closers, f.Close)
	m.digest = sync.OnceValue(f.Digest)
	m.tensors = map[string]Tensor{}
	if len(divisors) > 0 {
		m.tensors[ropeFreqs] = computed(divisors)
	}
	if err := m.takeTensors(f); err != nil {
		return err
	}
	m.single()
	if c.Tied { // some files repeat the embedding
		delete(m.tensors, "output.weight")
	}
	return nil
}

// takeTensors puts the tensors of f under their canonical names.
func (m *Model) takeTensors(f *safetensors.File) error {
	names := m.Config.names()
	for _, name := range f.Tensors() {
		if names.ignores(name) {
			continue
		}
		t, err := f.Tensor(name)
		if err != nil {
			return err
		}
		to := names.canonical(name)
		switch {
		case to == "":
			return fmt.Errorf("the file has the tensor %q, which the architecture %s, as supported here, does not use", name, m.Config.Arch)
		case m.tensors[to] != nil:
			return fmt.Errorf("the file has the tensor %q under two names", name)
		case t.Type == safetensors.I8 || t.Type == safetensors.U8:
			return fmt.Errorf("the tensor %q has the type %s, whose scale nothing tells; use the original weights or a GGUF file", name, t.Type)
		}
		m.tensors[to] = m.level(to, t)
	}
	return nil
}

// level makes a tensor of a Hugging Face file mean what GGUF means by the name.
func (m *Model) level(name string, t Tensor) Tensor {
	if m.Config.Arch == Gemma3 && strings.HasSuffix(name, "norm.weight") {
		return plusOne{t}
	}
	return t
}
