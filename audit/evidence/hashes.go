package evidence

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"slices"
	"sort"

	"golang.org/x/mod/sumdb/tlog"
)

// The tree of a bundle is a file of stored hashes: each its index, as package tlog counts, in 8 bytes and then the hash. Ascending.
const (
	hashBytes  = 8 + tlog.HashSize
	hashBatch  = 1000
	blockOf    = 128 // hashes that are read together
	cacheLimit = 1024
)

// needed yields the stored indexes, ascending and each once, that the proofs of records under a tree of size records read. records ascend.
// It is what package tlog would ask for record by record, without remembering all of it.
func needed(size int64, records []int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		rest := records
		for lo := int64(0); lo < size; { // the tree is a row of complete subtrees, the largest first
			level := bits.Len64(uint64(size-lo)) - 1
			hi := lo + int64(1)<<level
			in, _ := slices.BinarySearch(rest, hi)
			if !neededBelow(level, lo>>level, rest[:in], in < len(records), yield) {
				return
			}
			lo, rest = hi, rest[in:]
		}
	}
}

// neededBelow yields what is needed of the complete subtree n of level, which holds records. outside says that its own root is: that a
// proof of a record outside of it passes by.
func neededBelow(level int, n int64, records []int64, outside bool, yield func(int64) bool) bool {
	if len(records) > 0 && level > 0 {
		middle, _ := slices.BinarySearch(records, (2*n+1)<<(level-1))
		left, right := records[:middle], records[middle:]
		if !neededBelow(level-1, 2*n, left, len(right) > 0, yield) || !neededBelow(level-1, 2*n+1, right, len(left) > 0, yield) {
			return false
		}
	}
	return !outside || yield(tlog.StoredHashIndex(level, n))
}

func writeHashes(w io.Writer, size int64, records []int64, hashes tlog.HashReader) error {
	out := bufio.NewWriter(w)
	for batch := range chunks(needed(size, records), hashBatch) {
		found, err := hashes.ReadHashes(batch)
		if err != nil {
			return fmt.Errorf("read tree: %w", err)
		}
		if len(found) != len(batch) {
			return fmt.Errorf("read tree: %d hashes, want %d", len(found), len(batch))
		}
		for i, h := range found {
			_, _ = out.Write(binary.BigEndian.AppendUint64(nil, uint64(batch[i])))
			_, _ = out.Write(h[:]) // Flush returns the error
		}
	}
	return out.Flush()
}

func chunks(seq iter.Seq[int64], size int) iter.Seq[[]int64] {
	return func(yield func([]int64) bool) {
		batch := make([]int64, 0, size)
		for v := range seq {
			if batch = append(batch, v); len(batch) == size {
				if !yield(batch) {
					return
				}
				batch = batch[:0]
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// hashFile reads the hashes of a bundle where they lie: a bundle of many records has more of them than should be in memory.
type hashFile struct {
	r      io.ReaderAt
	size   int64   // bytes
	first  []int64 // index of the first hash of each block
	blocks map[int][]byte
}

// openHashes reads the file once through all, to see that it is in order. at gives the same bytes at any place.
func openHashes(all io.Reader, at io.ReaderAt, size, tree int64) (*hashFile, error) {
	f := &hashFile{r: at, size: size, blocks: map[int][]byte{}}
	if size%hashBytes != 0 {
		return nil, errors.New("it ends in the middle of a hash")
	}
	in, count, last := bufio.NewReader(all), tlog.StoredHashCount(tree), int64(-1)
	var b [hashBytes]byte
	for i := range size / hashBytes {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, fmt.Errorf("hash %d: %w", i, err)
		}
		index := int64(binary.BigEndian.Uint64(b[:]))
		if index <= last || index >= count {
			return nil, fmt.Errorf("hash %d has the index %d, behind %d and of a tree with %d hashes", i, index, last, count)
		}
		if last = index; i%blockOf == 0 {
			f.first = append(f.first, index)
		}
	}
	return f, nil
}

// ReadHashes implements tlog.HashReader.
func (f *hashFile) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		n, exact := slices.BinarySearch(f.first, index)
		if !exact {
			n--
		}
		if n < 0 {
			return nil, fmt.Errorf("the bundle lacks the tree hash %d", index)
		}
		b, err := f.block(n)
		if err != nil {
			return nil, err
		}
		at := sort.Search(len(b)/hashBytes, func(k int) bool { return int64(binary.BigEndian.Uint64(b[k*hashBytes:])) >= index }) * hashBytes
		if at == len(b) || int64(binary.BigEndian.Uint64(b[at:])) != index {
			return nil, fmt.Errorf("the bundle lacks the tree hash %d", index)
		}
		out[i] = tlog.Hash(b[at+8 : at+hashBytes])
	}
	return out, nil
}

func (f *hashFile) block(n int) ([]byte, error) {
	if b := f.blocks[n]; b != nil {
		return b, nil
	}
	if len(f.blocks) == cacheLimit {
		clear(f.blocks)
	}
	from := int64(n) * blockOf * hashBytes
	b := make([]byte, min(blockOf*hashBytes, f.size-from))
	if _, err := f.r.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read tree hashes: %w", err)
	}
	f.blocks[n] = b
	return b, nil
}
