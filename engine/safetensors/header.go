package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a header. Lengths are also checked against the bytes that are there; these bound what a large hostile file can make of
// small entries.
const (
	maxHeader   = 100_000_000 // the format's own
	maxRank     = 8
	maxElements = math.MaxInt32 * 64
	maxTensors  = 1 << 17
	maxName     = 1024
	maxShards   = 1024
)

// parse reads the header of a file and finds its tensors.
func parse(data []byte) (map[string]*Tensor, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("the file has %d bytes, too few for a header; fetch it again", len(data))
	}
	length, rest := binary.LittleEndian.Uint64(data), data[8:]
	if length > maxHeader || length > uint64(len(rest)) {
		return nil, fmt.Errorf("the header claims %d bytes, the file has %d and the limit is %d; fetch it again", length, len(rest), maxHeader)
	}
	header, body := rest[:length], rest[length:]
	if !utf8.Valid(header) {
		return nil, errors.New("the header is not valid UTF-8")
	}
	entries, err := parseHeader(header)
	if err != nil {
		return nil, err
	}
	if err := checkLayout(entries, int64(len(body))); err != nil {
		return nil, err
	}
	tensors := make(map[string]*Tensor, len(entries))
	for _, e := range entries {
		if tensors[e.Name] != nil {
			return nil, fmt.Errorf("the tensor %.60q occurs twice", e.Name)
		}
		e.data = body[e.begin:e.end:e.end]
		tensors[e.Name] = &e.Tensor
	}
	return tensors, nil
}

type entry struct {
	Tensor
	begin, end int64
}

// parseHeader reads the entries, their order kept.
func parseHeader(header []byte) ([]*entry, error) {
	s := &scanner{b: header}
	var entries []*entry
	metadata := false
	s.object(func(name string) {
		switch {
		case name == "__metadata__" && metadata:
			s.fail("__metadata__ occurs twice")
		case name == "__metadata__":
			metadata = true
			s.object(func(string) { s.text() })
		case len(entries) == maxTensors:
			s.fail("there are more than %d tensors", maxTensors)
		case name == "" || len(name) > maxName:
			s.fail("a tensor name has %d bytes, allowed are 1 to %d", len(name), maxName)
		default:
			entries = append(entries, s.entry(name))
		}
		s.explain(name)
	})
	s.end()
	return entries, s.err
}

// entry reads what the header says of one tensor.
func (s *scanner) entry(name string) *entry {
	e := &entry{Tensor: Tensor{Name: name}}
	var offsets []int64
	types, shapes, places := 0, 0, 0
	s.object(func(key string) {
		switch key {
		case "dtype":
			e.Type = Type(s.text())
			types++
		case "shape":
			e.Shape = s.shape()
			shapes++
		case "data_offsets":
			offsets = s.integers(2)
			places++
		default:
			s.fail("the key %.60q is unknown", key)
		}
	})
	if s.err != nil {
		return e
	}
	if types != 1 || shapes != 1 || places != 1 || len(offsets) != 2 {
		s.fail("it needs dtype, shape and two data_offsets, each once")
		return e
	}
	e.begin, e.end = offsets[0], offsets[1]
	s.err = e.check()
	return e
}

// shape reads dimensions.
func (s *scanner) shape() []int {
	dims := s.integers(maxRank)
	shape := make([]int, len(dims))
	for i, n := range dims {
		if n > math.MaxInt32 {
			s.fail("the shape %v is out of range", dims)
		}
		shape[i] = int(n)
	}
	return shape
}

// check tells whether type, shape and offsets agree.
func (e *entry) check() error {
	if e.Type == "" || len(e.Type) > 32 {
		return fmt.Errorf("the type %.60q is not one of the format", e.Type)
	}
	elements := int64(1)
	for _, d := range e.Shape {
		n := int64(d)
		if n > 0 && elements > maxElements/n {
			return fmt.Errorf("the shape %v is out of range", e.Shape)
		}
		elements *= n
	}
	size := int64(e.Type.size())
	if e.end < e.begin || (size > 0 && e.end-e.begin != elements*size) {
		return fmt.Errorf("the offsets %d and %d do not fit the shape %v of %s", e.begin, e.end, e.Shape, e.Type)
	}
	return nil
}

// checkLayout sorts the entries by place and makes sure that they fill the data exactly, without gaps and overlaps, as the format
// demands.
func checkLayout(entries []*entry, size int64) error {
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	at := int64(0)
	for _, e := range entries {
		if e.begin != at {
			return fmt.Errorf("the tensors leave a gap or overlap at byte %d, where %.60q begins at %d", at, e.Name, e.begin)
		}
		at = e.end
	}
	if at != size {
		return fmt.Errorf("the tensors end at byte %d, the data at %d: the file is truncated or has bytes that belong to no tensor; fetch it again", at, size)
	}
	return nil
}

// parseIndex reads which file each tensor is in.
func parseIndex(index []byte) (map[string]string, error) {
	if len(index) > maxHeader || !utf8.Valid(index) {
		return nil, fmt.Errorf("the index is longer than %d bytes or not valid UTF-8", maxHeader)
	}
	s := &scanner{b: index}
	places, files := map[string]string{}, map[string]string{}
	mapped := false
	s.object(func(key string) {
		switch {
		case key != "weight_map":
			s.skip(0)
		case mapped:
			s.fail("weight_map occurs twice")
		default:
			mapped = true
			s.object(func(tensor string) { s.place(places, files, tensor) })
		}
	})
	s.end()
	if s.err == nil && len(places) == 0 {
		s.fail("the index has no weight_map, or an empty one")
	}
	return places, s.err
}

// place reads the file name of a tensor. files holds each name once, however many tensors it has.
func (s *scanner) place(places, files map[string]string, tensor string) {
	file := s.text()
	_, twice := places[tensor]
	switch {
	case s.err != nil:
	case twice:
		s.fail("the tensor %.60q occurs twice", tensor)
	case tensor == "" || len(tensor) > maxName || len(places) == maxTensors:
		s.fail("the name of a tensor has %d bytes, allowed are 1 to %d, of at most %d tensors", len(tensor), maxName, maxTensors)
	case !filepath.IsLocal(file) || filepath.Base(file) != file || strings.ContainsAny(file, `/\`) || !strings.HasSuffix(file, ".safetensors"):
		s.fail("%.60q is not the plain name of a .safetensors file", file)
	case files[file] == "" && len(files) == maxShards:
		s.fail("the index names more than %d files", maxShards)
	default:
		if files[file] == "" {
			files[file] = file
		}
		places[tensor] = files[file]
	}
}
