// Package reduce is a leaf: it makes the vectors of a model shorter, by a linear map fitted once to the vectors of that model.
//
// A shorter vector takes less memory and is compared faster: 256 components in place of 384 are two thirds of both. What that costs in what is
// found is measured and printed by the program that fits the maps, rag/reduce/fit; README.md has the figures and where the text came from.
//
// # The map
//
// The map projects a vector on the directions in which the fitted vectors are longest, weighs each by a power of that, and scales the result to length
// one.
//
// # Files
//
// A map is one file, little-endian: the magic, the SHA-256 of the model's weights, the number of components before and after as uint16, then
// for each component after: a float32 scale, and int16 weights. Component i of the result is scale·Σ weight·x, before the scaling to length one.
package reduce

import (
	"crypto/sha256"
	_ "embed" // for the map that is shipped
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// Reduction is a map for the vectors of one model. It is immutable.
type Reduction struct {
	id, model string
	from, to  int
	weights   []float32 // to rows of from, scaled
}

const (
	magic  = "sluice reduction 1\n"
	header = len(magic) + sha256.Size + 4
)

// most bounds what a damaged file may make us allocate.
const most = 8192

//go:embed multilingual-e5-small-256.bin
var e5 []byte

// For returns the map that is shipped for the model whose weights have this digest ("sha256:" and hexadecimal); nil if there is none. A map that
// cannot be read is an error: without it vectors of another length would be stored, and all of them made anew once it is mended.
func For(digest string) (*Reduction, error) { return from(e5, digest) }

func from(file []byte, digest string) (*Reduction, error) {
	r, err := Parse(file)
	if err != nil {
		return nil, fmt.Errorf("the map that is shipped: %w", err)
	}
	if r.model != digest {
		return nil, nil //nolint:nilnil // no map is no failure
	}
	return r, nil
}

// Parse reads a file.
func Parse(file []byte) (*Reduction, error) {
	if len(file) < header || string(file[:len(magic)]) != magic {
		return nil, errors.New("reduce: not a file with a reduction")
	}
	sum := sha256.Sum256(file)
	digest, rest := file[len(magic):][:sha256.Size], file[len(magic)+sha256.Size:]
	r := &Reduction{
		model: "sha256:" + hex.EncodeToString(digest),
		from:  int(binary.LittleEndian.Uint16(rest)), to: int(binary.LittleEndian.Uint16(rest[2:])),
	}
	r.id = fmt.Sprintf("pca%d-%s", r.to, hex.EncodeToString(sum[:6]))
	rest = rest[4:]
	if r.to < 1 || r.to > r.from || r.from > most || len(rest) != r.to*(4+2*r.from) {
		return nil, fmt.Errorf("reduce: a reduction from %d to %d components does not have %d bytes", r.from, r.to, len(file))
	}
	r.weights = make([]float32, r.to*r.from)
	for i := range r.to {
		row := rest[i*(4+2*r.from):]
		scale := math.Float32frombits(binary.LittleEndian.Uint32(row))
		if !finite(scale) {
			return nil, fmt.Errorf("reduce: component %d is not finite", i)
		}
		for j := range r.from {
			r.weights[i*r.from+j] = scale * float32(int16(binary.LittleEndian.Uint16(row[4+2*j:])))
		}
	}
	return r, nil
}

// Encode writes the file of a map: rows are its components. model is the digest of the weights.
func Encode(model [sha256.Size]byte, rows [][]float64) []byte {
	out := append([]byte(magic), model[:]...)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(rows[0])))
	out = binary.LittleEndian.AppendUint16(out, uint16(len(rows)))
	for _, row := range rows {
		largest := 0.0
		for _, w := range row {
			largest = max(largest, math.Abs(w))
		}
		scale := float32(largest / math.MaxInt16)
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(scale))
		for _, w := range row {
			q := 0.0
			if scale > 0 {
				q = max(-math.MaxInt16, min(math.MaxInt16, math.Round(w/float64(scale))))
			}
			out = binary.LittleEndian.AppendUint16(out, uint16(int16(q)))
		}
	}
	return out
}

// ID names the map: another file has another one. Vectors made with different maps cannot be compared.
func (r *Reduction) ID() string { return r.id }

// From and To are the numbers of components before and after.
func (r *Reduction) From() int { return r.from }

// To is the number of components after.
func (r *Reduction) To() int { return r.to }

// Apply returns v made shorter, of length one, or zeros if nothing is left of it or v has no direction. v must have From components; its length
// does not count, and it is not changed.
func (r *Reduction) Apply(v []float32) ([]float32, error) {
	if len(v) != r.from {
		return nil, fmt.Errorf("reduce: a vector has %d components instead of %d", len(v), r.from)
	}
	out := make([]float32, r.to)
	square := 0.0
	for i := range out {
		row, sum := r.weights[i*r.from:(i+1)*r.from], 0.0
		for j, w := range row {
			sum += float64(float64(w) * float64(v[j]))
		}
		out[i] = float32(sum)
		square += float64(sum * sum) // rounded before it is added, on every processor
	}
	if square == 0 || math.IsInf(square, 0) || math.IsNaN(square) {
		clear(out)
		return out, nil
	}
	square = math.Sqrt(square)
	for i, x := range out {
		out[i] = float32(float64(x) / square)
	}
	return out, nil
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
