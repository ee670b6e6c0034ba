package exec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/internal/mapfile"

	"github.com/sluice-project/sluice/engine/kernel"
)

// The file that keeps packed weights: the magic, the length of the header and its SHA-256, the header in JSON, then each constant at
// a multiple of 64 bytes. The header holds the key under which the file was made and the SHA-256 of every constant: a file that was
// made for something else, cut off or altered is not used but made again.
const (
	storeMagic   = "SLUICEPACK\x00\x01"
	storeAlign   = 64
	maxHeader    = 64 << 20
	storeVersion = 2 // changes with the layout of any packed format, and with how weights are rounded
)

// Key says what a packed file was made from.
type Key struct {
	Version int    `json:"version"`
	Model   string `json:"model"` // digest of the model's weights
	Plan    string `json:"plan"`
	ISA     string `json:"isa"`
	Graph   string `json:"graph"` // digest of the compiled graph
	// Calibration is the digest of the text for which weights were rounded.
	Calibration string `json:"calibration,omitempty"`
}

// name is the file's name: whoever looks into the directory should see what is what.
func (k Key) name() string {
	data, _ := json.Marshal(k)
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%s-%s-%s.pack", strings.ReplaceAll(k.Plan, ":", "-"), k.ISA, hex.EncodeToString(sum[:12]))
}

type storeHeader struct {
	Key       Key             `json:"key"`
	Constants []storeConstant `json:"constants"`
}

type storeConstant struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"` // from the end of the header
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// errStale means that a file was made for something else.
var errStale = errors.New("it was made for another model, plan or version")

// store is an open packed file.
type store struct {
	mem  []byte
	data map[string][]byte
	free func() error
}

// openStore maps the file of a key and verifies it: a missing file is fs.ErrNotExist, anything else that is wrong another error. It
// must hold the constants that are wanted, each of its size, and nothing else.
func openStore(dir string, key Key, wanted []constant, threads int) (*store, error) {
	mem, free, err := mapfile.OpenOwn(filepath.Join(dir, key.name()))
	if err != nil {
		return nil, err
	}
	s := &store{mem: mem, data: map[string][]byte{}, free: free}
	if err := s.read(key, wanted, threads); err != nil {
		return nil, errors.Join(err, free())
	}
	return s, nil
}

func (s *store) read(key Key, wanted []constant, threads int) error {
	header, body, err := splitStore(s.mem)
	if err != nil {
		return err
	}
	if header.Key != key {
		return errStale
	}
	if len(header.Constants) != len(wanted) {
		return fmt.Errorf("it holds %d constants, not %d", len(header.Constants), len(wanted))
	}
	for i, c := range header.Constants {
		if c.Name != wanted[i].name || c.Bytes != int64(wanted[i].bytes) {
			return fmt.Errorf("it holds %q with %d bytes in the place of %q with %d", c.Name, c.Bytes, wanted[i].name, wanted[i].bytes)
		}
		if c.Offset < 0 || c.Bytes < 0 || c.Offset%storeAlign != 0 || c.Offset > int64(len(body)) || c.Bytes > int64(len(body))-c.Offset {
			return fmt.Errorf("the constant %q lies outside the file", c.Name)
		}
		s.data[c.Name] = body[c.Offset : c.Offset+c.Bytes : c.Offset+c.Bytes]
	}
	var group errgroup.Group // nothing returns before all of it is done: the caller unmaps the memory
	group.SetLimit(max(1, threads))
	for _, c := range header.Constants {
		group.Go(func() error {
			if sum := sha256.Sum256(s.data[c.Name]); hex.EncodeToString(sum[:]) != c.SHA256 {
				return fmt.Errorf("the constant %q was altered", c.Name)
			}
			return nil
		})
	}
	return group.Wait()
}

// splitStore checks the frame and returns the header and what follows it.
func splitStore(mem []byte) (*storeHeader, []byte, error) {
	const fixed = len(storeMagic) + 8 + sha256.Size
	if len(mem) < fixed || string(mem[:len(storeMagic)]) != storeMagic {
		return nil, nil, errors.New("it is not a packed file")
	}
	n := binary.LittleEndian.Uint64(mem[len(storeMagic):])
	if n > maxHeader || n > uint64(len(mem)-fixed) {
		return nil, nil, errors.New("its header is cut off")
	}
	raw := mem[fixed : fixed+int(n)]
	if sum := sha256.Sum256(raw); !bytes.Equal(sum[:], mem[len(storeMagic)+8:fixed]) {
		return nil, nil, errors.New("its header was altered")
	}
	var h storeHeader
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, nil, fmt.Errorf("its header cannot be read: %w", err)
	}
	at := align(fixed + int(n))
	if at > len(mem) {
		return nil, nil, errors.New("it is cut off")
	}
	return &h, mem[at:], nil
}

func align(n int) int { return (n + storeAlign - 1) &^ (storeAlign - 1) }

// constant is something to be packed.
type constant struct {
	name   string
	bytes  int
	fill   func(mem []byte) error // mem is zero
	format kernel.Format
	stack  *stack // of a matrix: what it is packed from
}

// writeStore packs constants one after the other into the file of a key, so that only one of them is in memory at a time. The file
// appears under its name when it is whole and on the disk.
func writeStore(dir string, key Key, constants []constant) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	removeStale(dir)
	f, err := os.CreateTemp(dir, ".pack-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	header := storeHeader{Key: key}
	offset := 0
	for _, c := range constants {
		header.Constants = append(header.Constants, storeConstant{
			Name: c.name, Offset: int64(offset), Bytes: int64(c.bytes), SHA256: hex.EncodeToString(make([]byte, sha256.Size)),
		})
		offset = align(offset + c.bytes)
	}
	// The header has the same length with and without the sums, so that the constants can be written before it.
	frame, err := frameOf(header)
	if err != nil {
		return err
	}
	if _, err := f.Seek(int64(len(frame)), io.SeekStart); err != nil {
		return err
	}
	for i, c := range constants {
		mem := alignedFloats(align(c.bytes))
		if err := c.fill(mem[:c.bytes]); err != nil {
			return fmt.Errorf("pack %q: %w", c.name, err)
		}
		sum := sha256.Sum256(mem[:c.bytes])
		header.Constants[i].SHA256 = hex.EncodeToString(sum[:])
		if _, err := f.Write(mem); err != nil {
			return err
		}
	}
	if frame, err = frameOf(header); err != nil {
		return err
	}
	if _, err := f.WriteAt(frame, 0); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, key.name()))
}

// removeStale removes what processes left that ended while they packed.
func removeStale(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, ".pack-*"))
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.Remove(path) // somebody else may have been faster
		}
	}
}

func frameOf(h storeHeader) ([]byte, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	frame := []byte(storeMagic)
	frame = binary.LittleEndian.AppendUint64(frame, uint64(len(raw)))
	sum := sha256.Sum256(raw)
	frame = append(append(frame, sum[:]...), raw...)
	return append(frame, make([]byte, align(len(frame))-len(frame))...), nil
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
