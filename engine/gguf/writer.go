package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"
)

// Writer collects what a model file shall hold and then writes it in one pass: metadata first, tensors in the order they were
// added, each row asked for when it is its turn, so that a file much larger than memory can be written. It is not safe for
// concurrent use.
type Writer struct {
	keys    []string
	meta    map[string][]byte // type number and value, encoded
	align   int64
	tensors []pending
	names   map[string]bool
}

type pending struct {
	tensorInfo
	rows, rowBytes int
	row            func(i int, dst []byte) error
}

// NewWriter returns an empty Writer.
func NewWriter() *Writer {
	return &Writer{meta: map[string][]byte{}, names: map[string]bool{}, align: defaultAlignment}
}

// Set stores a metadata value, in place of an earlier one of the same key: a number of a fixed width, bool, string, a slice of
// these, or [][]string, [][]int32 or [][]float32. The key general.alignment says what tensors are aligned to, 32 without it.
func (w *Writer) Set(key string, value any) error {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return fmt.Errorf("gguf: the metadata key %.60q is not a valid name", key)
	}
	b, err := appendValue(nil, value)
	if err != nil {
		return fmt.Errorf("gguf: metadata value %q: %w", key, err)
	}
	if key == "general.alignment" {
		n, ok := toInt(value)
		if !ok || !validAlignment(n) {
			return fmt.Errorf("gguf: the alignment %v is not a power of two up to %d", value, maxAlignment)
		}
		w.align = n
	}
	w.set(key, b)
	return nil
}

func (w *Writer) set(key string, encoded []byte) {
	if _, known := w.meta[key]; !known {
		w.keys = append(w.keys, key)
	}
	w.meta[key] = encoded
}

// CopyMeta takes over all metadata of f, byte for byte. The file may be closed afterwards.
func (w *Writer) CopyMeta(f *File) {
	for _, key := range f.keys {
		e := f.meta[key]
		w.set(key, append(binary.LittleEndian.AppendUint32(nil, e.kind), e.raw...))
	}
	w.align = defaultAlignment
	if n, err := f.Int("general.alignment"); err == nil {
		w.align = n
	}
}

// Add announces a tensor whose values row gives, to be converted by [Quantize]. The shape has the innermost dimension first; row i
// counts over all outer dimensions. row is called once for each, in order, during the writing, and fills dst.
func (w *Writer) Add(name string, t Type, shape []int, row func(i int, dst []float32) error) error {
	if !t.writable() {
		return fmt.Errorf("gguf: tensor %.60q: values cannot be converted to %v", name, t)
	}
	var buffer []float32
	return w.AddRaw(name, t, shape, func(i int, dst []byte) error {
		if buffer == nil {
			buffer = make([]float32, shape[0])
		}
		clear(buffer)
		if err := row(i, buffer); err != nil {
			return err
		}
		return Quantize(t, dst, buffer)
	})
}

// AddRaw announces a tensor of any type whose rows are given as they shall be stored.
func (w *Writer) AddRaw(name string, t Type, shape []int, row func(i int, dst []byte) error) error {
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
		return fmt.Errorf("gguf: %.60q is not a valid tensor name", name)
	case w.names[name]:
		return fmt.Errorf("gguf: tensor %.60q was added twice", name)
	case len(w.tensors) == maxTensors:
		return fmt.Errorf("gguf: a file has room for %d tensors", maxTensors)
	case len(shape) == 0 || len(shape) > maxDimensions:
		return fmt.Errorf("gguf: tensor %.60q has %d dimensions, supported are 1 to %d", name, len(shape), maxDimensions)
	}
	for _, d := range shape {
		if d <= 0 || d > math.MaxInt32 {
			return fmt.Errorf("gguf: tensor %.60q has a dimension of %d", name, d)
		}
	}
	size, err := t.size(shape)
	if err != nil {
		return fmt.Errorf("gguf: tensor %.60q: %w", name, err)
	}
	p := pending{tensorInfo: tensorInfo{name: name, shape: slices.Clone(shape), kind: t, end: size}, row: row}
	p.rowBytes = t.rowBytes(shape[0])
	p.rows = int(size / uint64(p.rowBytes))
	w.names[name] = true
	w.tensors = append(w.tensors, p)
	return nil
}

// Copy announces a tensor of another file under its own name, byte for byte. That file must stay open until this one is written.
func (w *Writer) Copy(t *Tensor) error {
	return w.AddRaw(t.Name, t.Type, t.Shape, func(i int, dst []byte) error {
		copy(dst, t.Raw(i))
		return nil
	})
}

// WriteTo writes the file to out and returns how many bytes that were.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	c := &counter{to: out}
	if err := w.write(c); err != nil {
		return c.n, err
	}
	return c.n, nil
}

// WriteFile writes the file at path. It appears there whole or not at all: a failure leaves what was there before.
func (w *Writer) WriteFile(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write model file: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write model file %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	_, err = w.WriteTo(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	// Model files are public, and those who run them may be others than those who make them.
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDirectory(filepath.Dir(path))
	return nil
}

// syncDirectory makes a rename durable where the system allows it; where it does not, the file is whole all the same.
func syncDirectory(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}

func (w *Writer) write(c *counter) error {
	if len(w.keys) > maxPairs {
		return fmt.Errorf("gguf: %d metadata keys, allowed are %d", len(w.keys), maxPairs)
	}
	if _, err := c.Write(w.header()); err != nil {
		return err
	}
	padding := make([]byte, w.align)
	for _, p := range w.tensors {
		if err := pad(c, padding); err != nil {
			return err
		}
		dst := make([]byte, p.rowBytes)
		for i := range p.rows {
			clear(dst)
			if err := p.row(i, dst); err != nil {
				return fmt.Errorf("tensor %.60q, row %d: %w", p.name, i, err)
			}
			if _, err := c.Write(dst); err != nil {
				return err
			}
		}
	}
	return pad(c, padding)
}

func pad(c *counter, zeros []byte) error {
	_, err := c.Write(zeros[:-c.n&int64(len(zeros)-1)])
	return err
}

func (w *Writer) header() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, magic)
	b = le.AppendUint32(b, 3)
	b = le.AppendUint64(b, uint64(len(w.tensors)))
	b = le.AppendUint64(b, uint64(len(w.keys)))
	for _, key := range w.keys {
		b = append(appendString(b, key), w.meta[key]...)
	}
	offset := uint64(0)
	for _, p := range w.tensors {
		b = appendString(b, p.name)
		b = le.AppendUint32(b, uint32(len(p.shape)))
		for _, d := range p.shape {
			b = le.AppendUint64(b, uint64(d))
		}
		b = le.AppendUint32(b, uint32(p.kind))
		b = le.AppendUint64(b, offset)
		offset += (p.end + uint64(w.align) - 1) &^ (uint64(w.align) - 1)
	}
	return b
}
