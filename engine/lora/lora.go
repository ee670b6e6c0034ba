package lora

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// Base is what reading an adapter takes to know of the model it is for.
type Base struct {
	// Arch is the architecture as GGUF files name it.
	Arch string
	// Name translates a weight's name in Hugging Face files to the one that the graph uses, "" where the architecture has no such
	// weight; unused ones are there, but nothing is computed with them.
	Name func(name string) (to string, unused bool)
	// Heads and KVHeads are those of the attention. Interleaved: the rows of queries and keys are in the order of GGUF files of the
	// llama architecture, where the two numbers that a rotation turns are neighbours.
	Heads, KVHeads int
	Interleaved    bool
}

// Matrix is one factor, read row by row.
type Matrix interface {
	Rows() int
	Cols() int
	// Row writes row i to dst, which has Cols elements.
	Row(i int, dst []float32)
}

// Factor is what an adapter adds to the product with one weight: Scale·B·(A·x). A has as many rows as B has columns: the rank.
type Factor struct {
	Target string
	A, B   Matrix
	Scale  float32
}

// File is an open adapter. It is immutable and safe for concurrent use until Close.
type File struct {
	factors []Factor
	digest  string
	close   func() error
}

// The bounds of an adapter. Sizes are also bound by the bytes of its file; these bound what a hostile one may make others reserve.
const (
	maxRank     = 1024
	maxFactors  = 1 << 14
	maxElements = 1 << 30 // of all factors
	maxScale    = 1e6
	maxNumber   = 1e6 // of a factor
)

// Open reads the adapter at path, a GGUF file or a directory of peft, for a model. The caller closes it when it took the factors.
func Open(path string, base Base) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open adapter: %w", err)
	}
	var f *File
	switch {
	case info.IsDir():
		f, err = openPEFT(path, base)
	case strings.HasSuffix(path, ".safetensors"), strings.HasSuffix(path, ".json"):
		err = errors.New("give the directory that holds adapter_config.json and adapter_model.safetensors, or a GGUF file")
	default:
		f, err = openGGUF(path, base)
	}
	if err != nil {
		return nil, fmt.Errorf("adapter %s: %w", path, err)
	}
	return f, nil
}

// Factors returns what the adapter adds, in the order of the targets' names. The factors may be read until Close.
func (f *File) Factors() []Factor { return slices.Clone(f.factors) }

// Digest is "sha256:" and the SHA-256 in hexadecimal digits of all that decides what the adapter computes: of a GGUF file, or of
// adapter_config.json followed by adapter_model.safetensors.
func (f *File) Digest() string { return f.digest }

// Close ends the use of the file.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	c := f.close
	f.factors, f.close = nil, nil
	return c()
}

// pair is the two factors of one target as they are found.
type pair struct {
	module string // what the file calls the weight
	a, b   Matrix
}

// gather collects factors by target.
type gather struct {
	base        Base
	interleaved bool // order of the file's rows
	pairs       map[string]*pair
}

// put adds one factor under its target.
func (g *gather) put(target, module string, second bool, m Matrix) error {
	if notProducts(target) {
		return fmt.Errorf("it changes %.120q, which is looked up and not multiplied with; adapters of embeddings are not supported", module)
	}
	p := g.pairs[target]
	if p == nil {
		if len(g.pairs) == maxFactors {
			return fmt.Errorf("it changes more than %d weights", maxFactors)
		}
		p = &pair{module: module}
		g.pairs[target] = p
	}
	place := &p.a
	if second {
		place = &p.b
	}
	if *place != nil || p.module != module {
		return fmt.Errorf("it has factors for %.120q twice (also as %.120q)", module, p.module)
	}
	*place = m
	return nil
}

// notProducts are the weights that the graph looks up.
func notProducts(target string) bool {
	switch target {
	case "token_embd.weight", "position_embd.weight", "token_types.weight":
		return true
	}
	return false
}

// factors checks everything and returns it in order. scale is asked once for each pair, with its rank.
func (g *gather) factors(scale func(module string, rank int) (float64, error)) ([]Factor, error) {
	if len(g.pairs) == 0 {
		return nil, errors.New("it has no factors for this model")
	}
	out, elements := make([]Factor, 0, len(g.pairs)), 0
	for target, p := range g.pairs {
		f, err := g.factor(target, p)
		if err != nil {
			return nil, fmt.Errorf("weight %.120q: %w", p.module, err)
		}
		elements += f.A.Rows() * (f.A.Cols() + f.B.Rows())
		if elements > maxElements {
			return nil, fmt.Errorf("its factors have more than %d numbers", maxElements)
		}
		by, err := scale(p.module, f.A.Rows())
		if err != nil {
			return nil, fmt.Errorf("weight %.120q: %w", p.module, err)
		}
		if math.IsNaN(by) || math.Abs(by) > maxScale {
			return nil, fmt.Errorf("weight %.120q: its scale %v is not a number up to %v", p.module, by, maxScale)
		}
		f.Scale = float32(by)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Factor) int { return cmp.Compare(a.Target, b.Target) })
	return out, finite(out)
}

// factor checks the shapes of a pair and brings its rows into the model's order.
func (g *gather) factor(target string, p *pair) (Factor, error) {
	f := Factor{Target: target, A: p.a, B: p.b}
	switch {
	case p.a == nil || p.b == nil:
		return f, errors.New("one of its two factors is missing")
	case p.a.Rows() != p.b.Cols():
		return f, fmt.Errorf("factors of [%d %d] and [%d %d] do not share a rank", p.a.Rows(), p.a.Cols(), p.b.Rows(), p.b.Cols())
	case p.a.Rows() < 1 || p.a.Rows() > maxRank:
		return f, fmt.Errorf("its rank is %d, outside 1 to %d", p.a.Rows(), maxRank)
	}
	heads := g.rotatedHeads(target)
	if heads == 0 || g.interleaved == g.base.Interleaved {
		return f, nil
	}
	if p.b.Rows()%(2*heads) != 0 {
		return f, fmt.Errorf("its %d rows are not %d heads of pairs; it was made for another model", p.b.Rows(), heads)
	}
	f.B = reordered{Matrix: p.b, head: p.b.Rows() / heads, interleave: g.base.Interleaved}
	return f, nil
}

// rotatedHeads is how many heads the rows of a target make that positions rotate, 0 where they do not.
func (g *gather) rotatedHeads(target string) int {
	switch {
	case g.base.Arch != llama || !strings.HasPrefix(target, "blk."):
		return 0
	case strings.HasSuffix(target, ".attn_q.weight"):
		return g.base.Heads
	case strings.HasSuffix(target, ".attn_k.weight"):
		return g.base.KVHeads
	}
	return 0
}

// llama is the architecture whose GGUF files have queries and keys in another order than Hugging Face files.
const llama = "llama"

// reordered has the rows of each head in the other order: with interleave, those of the first and of the second half take turns;
// without, those that took turns make halves.
type reordered struct {
	Matrix
	head       int // rows of a head
	interleave bool
}

// Row returns the row that comes to place i.
func (m reordered) Row(i int, dst []float32) {
	begin, at, half := i-i%m.head, i%m.head, m.head/2
	if m.interleave {
		at = at%2*half + at/2
	} else {
		at = at%half*2 + at/half
	}
	m.Matrix.Row(begin+at, dst)
}

// finite refuses numbers that would spoil whatever they are added to.
func finite(factors []Factor) error {
	var row []float32
	for _, f := range factors {
		for _, m := range []Matrix{f.A, f.B} {
			row = slices.Grow(row[:0], m.Cols())[:m.Cols()]
			for i := range m.Rows() {
				m.Row(i, row)
				for _, v := range row {
					if !(v >= -maxNumber && v <= maxNumber) {
						return fmt.Errorf("weight %.120q: its factors have numbers that are not finite, or beyond %v", f.Target, maxNumber)
					}
				}
			}
		}
	}
	return nil
}
