package safetensors

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/internal/mapfile"
)

// The usual names of the files of a model.
const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
)

// File is a set of open weights, from one file or from several. It is immutable and safe for concurrent use until Close.
type File struct {
	name    string
	parts   []part // what the digest covers, in order
	tensors map[string]*Tensor
}

type part struct {
	data  []byte
	unmap func() error
}

// Open opens weights: a .safetensors file, an index (.json) whose files lie beside it, or a directory that holds either under its
// usual name. The caller closes them.
func Open(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		index := filepath.Join(path, indexName)
		if _, err := os.Stat(index); err == nil {
			path = index
		} else {
			path = filepath.Join(path, singleName)
		}
	}
	f := &File{name: path}
	data, err := f.mapPart(path)
	if err == nil {
		if strings.HasSuffix(path, ".json") {
			err = f.readIndex(data, filepath.Dir(path))
		} else {
			f.tensors, err = parse(data)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("safetensors: %s: %w", path, err), f.Close())
	}
	return f, nil
}

func (f *File) mapPart(path string) ([]byte, error) {
	data, unmap, err := mapfile.Open(path)
	if err == nil {
		f.parts = append(f.parts, part{data, unmap})
	}
	return data, err
}

// Close unmaps the files. Their tensors must not be used afterwards.
func (f *File) Close() error {
	var errs []error
	for _, p := range f.parts {
		errs = append(errs, p.unmap())
	}
	f.parts, f.tensors = nil, nil
	return errors.Join(errs...)
}

// Digest returns "sha256:" and the hexadecimal SHA-256 of the file, or, of several, of the index followed by the files in the order
// of their names.
func (f *File) Digest() string {
	h := sha256.New()
	_, _ = f.WriteTo(h) // a hash takes everything
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// WriteTo writes the bytes that [File.Digest] covers, in its order.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for _, p := range f.parts {
		n, err := w.Write(p.data)
		written += int64(n)
		if err != nil {
			return written, fmt.Errorf("safetensors: %w", err)
		}
	}
	return written, nil
}

// Tensors returns the names of all tensors, sorted, those of types that this build does not read among them.
func (f *File) Tensors() []string { return slices.Sorted(maps.Keys(f.tensors)) }

// HasTensor reports whether there is a tensor called name.
func (f *File) HasTensor(name string) bool { return f.tensors[name] != nil }

// Tensor returns the tensor called name. It is an error when there is none or when its type is not one that this build reads.
func (f *File) Tensor(name string) (*Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return nil, fmt.Errorf("safetensors: %s has no tensor %q; it is not a complete model of this architecture", f.name, name)
	}
	if !t.Type.readable() {
		return nil, fmt.Errorf("safetensors: the tensor %q has the type %s; this build reads F32, F16, BF16, I8 and U8", name, t.Type)
	}
	return t, nil
}

// readIndex opens the files that an index in dir names and keeps the tensors that it maps to them.
func (f *File) readIndex(index []byte, dir string) error {
	places, err := parseIndex(index)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Values(places))
	names = slices.Compact(names)
	shards := make(map[string]map[string]*Tensor, len(names))
	for _, name := range names {
		data, err := f.mapPart(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("the index names a file that cannot be opened: %w", err)
		}
		if shards[name], err = parse(data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	f.tensors = make(map[string]*Tensor, len(places))
	for tensor, name := range places {
		t, ok := shards[name][tensor]
		if !ok {
			return fmt.Errorf("the index says that %q has the tensor %.60q, and it has not; fetch both again", name, tensor)
		}
		f.tensors[tensor] = t
	}
	return nil
}
