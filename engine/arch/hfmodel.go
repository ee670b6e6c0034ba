package arch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	m.digest = sync.OnceValues(func() (string, error) { return digestDirectory(dir, f) })
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
	names := namesOf(m.Config.Arch)
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

// settingsFiles decide, with the weights, what a model answers. They stand in the order of their names.
func settingsFiles() []string {
	return []string{
		"1_Pooling/config.json", "chat_template.jinja", "config.json", "generation_config.json", "modules.json", "sentence_bert_config.json", "special_tokens_map.json",
		"tokenizer.json", "tokenizer_config.json",
	}
}

// digestDirectory is the SHA-256 of a list of digests and names, as sha256sum prints it: the weights, then the settings that are there.
func digestDirectory(dir string, weights *safetensors.File) (string, error) {
	list := sha256.New()
	fmt.Fprintf(list, "%s  model.safetensors\n", strings.TrimPrefix(weights.Digest(), "sha256:"))
	for _, name := range settingsFiles() {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("digest of the model: %w", err)
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(list, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	return "sha256:" + hex.EncodeToString(list.Sum(nil)), nil
}
