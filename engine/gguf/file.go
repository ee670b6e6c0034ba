package gguf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/sluice-project/sluice/internal/mapfile"
)

// File is an open model file. It is immutable and safe for concurrent use until Close.
type File struct {
	name    string
	data    []byte
	unmap   func() error
	keys    []string // in file order
	meta    map[string]entry
	list    []*Tensor // in file order
	tensors map[string]*Tensor
}

// FormatError says why a file cannot be used and where in the file that was found.
type FormatError struct {
	File   string
	Offset int64
	Cause  string
}

// Error names the file, the cause, the place and the remedy.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s is not a usable GGUF file: %s (at byte %d); fetch the file again and check its SHA-256",
		e.File, e.Cause, e.Offset)
}

// Open maps the file at path and reads its header. The caller closes it.
func Open(path string) (*File, error) {
	data, unmap, err := mapfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open model file: %w", err)
	}
	f, err := parse(path, data)
	if err != nil {
		_ = unmap()
		return nil, err
	}
	f.unmap = unmap
	return f, nil
}

// Close unmaps the file. Neither its tensors nor its metadata may be used afterwards; what was read before stays valid.
func (f *File) Close() error {
	if f.unmap == nil {
		return nil
	}
	unmap := f.unmap
	f.unmap, f.data, f.tensors, f.list, f.meta, f.keys = nil, nil, nil, nil, nil, nil
	return unmap()
}

// Digest returns "sha256:" and the hexadecimal SHA-256 of the whole file.
func (f *File) Digest() string {
	sum := sha256.Sum256(f.data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Tensor returns the tensor called name, or an error that names what is missing.
func (f *File) Tensor(name string) (*Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return nil, fmt.Errorf("%s has no tensor %q; it is not a complete model of this architecture", f.name, name)
	}
	return t, nil
}

// HasTensor reports whether the file has a tensor called name.
func (f *File) HasTensor(name string) bool {
	_, ok := f.tensors[name]
	return ok
}

// Tensors returns the names of all tensors, sorted.
func (f *File) Tensors() []string { return slices.Sorted(maps.Keys(f.tensors)) }

// All yields the tensors in the order of the file.
func (f *File) All() iter.Seq[*Tensor] { return slices.Values(f.list) }

// Keys returns the metadata keys in the order of the file.
func (f *File) Keys() []string { return slices.Clone(f.keys) }
