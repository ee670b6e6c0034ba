package lexical

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
)

// AnalyzerVersion names how [Tokens] makes terms of a text. A segment keeps the version that its terms were made by, and [Open] refuses
// another one: terms of two versions do not meet.
const AnalyzerVersion = 2

// MaxID is the highest id of a document.
const MaxID = 1<<32 - 2

// MaxSpan is the highest difference of two ids in one segment, plus one.
const MaxSpan = 1 << maxBits

// ErrSegment is in the chain of every error about the bytes of a segment: they are torn, changed, or of another format or analyzer.
var ErrSegment = errors.New("bad segment")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSegment}, args...)...)
}

func errChanged() error { return bad("its postings have changed since it was opened") }

// Segment is an immutable index of documents, each known by an id. It reads from the bytes it was opened from and copies next to nothing
// of them. It is safe for concurrent use.
type Segment struct {
	header

	ids        *roaring.Bitmap
	data       []byte
	lengths    []byte
	blocks     []byte
	dictionary []byte
	postings   []byte // with the padding behind it
}

// Open reads a segment that Build or Merge made. It reads all of data once and checks everything: the checksum, every offset, every posting.
// Torn, changed or hostile bytes give an error with [ErrSegment] in its chain, never a panic, and never memory beyond a small share of
// len(data).
//
// The segment keeps data, which may be a mapped file: it must stay readable and unchanged. Bytes that change after Open give an error from
// [Ranking] or other hits, but no panic.
func Open(data []byte) (*Segment, error) {
	if len(data) < headerSize+padding+checksumSize {
		return nil, bad("%d bytes are too few", len(data))
	}
	body := data[:len(data)-checksumSize]
	if string(data[:len(magic)]) != magic {
		return nil, bad("it does not begin as one")
	}
	if v := binary.LittleEndian.Uint32(data[8:]); v != formatVersion {
		return nil, bad("format %d, not %d", v, formatVersion)
	}
	if v := binary.LittleEndian.Uint32(data[12:]); v != AnalyzerVersion {
		return nil, bad("analyzer %d, not %d", v, AnalyzerVersion)
	}
	if crc32.Checksum(body, castagnoli()) != binary.LittleEndian.Uint32(data[len(body):]) {
		return nil, bad("the checksum does not match")
	}
	s, err := layOut(data)
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

// layOut finds the sections. It trusts nothing of the header.
func layOut(data []byte) (*Segment, error) {
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(data[at:]) }
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(data[at:]) }
	s := &Segment{data: data, header: header{
		first: u32(16), span: u32(20), docs: u32(24), terms: u32(28), width: u32(32), blocks: u32(36), total: u64(40), dictionary: u64(48), postings: u64(56),
	}}
	h := s.header
	switch {
	case h.width != 1 && h.width != 2 && h.width != 4, h.span > MaxSpan, h.docs > h.span, uint64(h.first)+uint64(h.span) > MaxID+1:
		return nil, bad("impossible documents")
	case uint64(h.blocks) != (uint64(h.terms)+termsPerBlock-1)/termsPerBlock, h.dictionary > uint64(len(data)), h.postings > uint64(len(data)):
		return nil, bad("impossible sections")
	}
	sizes := []uint64{headerSize, uint64(h.span) * uint64(h.width), uint64(h.blocks) * blockRow, h.dictionary, h.postings, padding, checksumSize}
	sum := uint64(0)
	for _, n := range sizes {
		sum += n
	}
	if sum != uint64(len(data)) {
		return nil, bad("%d bytes instead of %d", len(data), sum)
	}
	rest := data[headerSize:]
	cut := func(n uint64) []byte {
		out := rest[:n:n]
		rest = rest[n:]
		return out
	}
	s.lengths, s.blocks, s.dictionary = cut(sizes[1]), cut(sizes[2]), cut(sizes[3])
	s.postings = cut(h.postings + padding)
	s.ids = s.readIDs()
	return s, nil
}

// check reads everything.
func (s *Segment) check() error {
	docs, total, terms, summed := uint32(0), uint64(0), uint32(0), uint64(0)
	for at := range s.span {
		if n := s.stored(at); n > 0 {
			docs++
			total += uint64(n - 1)
		}
	}
	if docs != s.docs || total != s.total || s.span > 0 && (s.stored(0) == 0 || s.stored(s.span-1) == 0) {
		return bad("its documents do not add up")
	}
	t := s.readTerms()
	var last []byte
	for t.next() {
		if terms > 0 && bytes.Compare(last, t.term) >= 0 {
			return bad("its terms are out of order")
		}
		last = append(last[:0], t.term...)
		terms++
		n, err := s.checkList(t.list)
		if err != nil {
			return err
		}
		summed += n
	}
	switch {
	case t.err != nil:
		return t.err
	case terms != s.terms || summed != total || t.at != len(s.dictionary) || t.offset != s.header.postings:
		return bad("its terms do not add up")
	}
	return nil
}

// checkList reads a list and returns the sum of its counts.
func (s *Segment) checkList(l list) (uint64, error) {
	c, sum, whole, next := s.cursor(l), uint64(0), noImpact(), uint32(0)
	if c.bad {
		return 0, bad("a list is cut short")
	}
	for c.open() {
		block := noImpact()
		for i, id := range c.ids[:c.n] {
			n := s.stored(id)
			if n == 0 || id < next {
				return 0, bad("a posting of a document that is not there")
			}
			next = id + 1
			count := c.count(i)
			if count >= n {
				return 0, bad("a posting counts more than its document has")
			}
			sum += uint64(count)
			block.add(count, n-1)
		}
		if c.bad || len(c.rows) > 0 && block != c.rowImpact(c.block) {
			return 0, bad("the bounds of a block do not hold")
		}
		whole.merge(block)
		c.block++
	}
	if c.bad || whole != c.impact || c.used != c.size {
		return 0, bad("a list is damaged")
	}
	return sum, nil
}

// Docs returns the ids of all documents. The caller may change the bitmap.
func (s *Segment) Docs() *roaring.Bitmap { return s.ids.Clone() }

func (s *Segment) readIDs() *roaring.Bitmap {
	out := roaring.New()
	for at := uint32(0); at < s.span; {
		from := at
		for at < s.span && s.stored(at) != 0 {
			at++
		}
		out.AddRange(uint64(s.first)+uint64(from), uint64(s.first)+uint64(at))
		for at < s.span && s.stored(at) == 0 {
			at++
		}
	}
	return out
}

// Len returns the number of documents.
func (s *Segment) Len() int { return int(s.docs) }

// Size returns the length of the bytes that the segment was opened from.
func (s *Segment) Size() int { return len(s.data) }

// stored returns the terms of the document at an id from the first, plus one; 0 if there is none.
func (s *Segment) stored(at uint32) uint32 {
	switch s.width {
	case 1:
		return uint32(s.lengths[at])
	case 2:
		return uint32(binary.LittleEndian.Uint16(s.lengths[2*at:]))
	}
	return binary.LittleEndian.Uint32(s.lengths[4*at:])
}

// list is where the postings of a term are.
type list struct {
	docs       uint32
	start, end uint64
}

// termReader reads the dictionary in order.
type termReader struct {
	segment *Segment
	at      int    // in the dictionary
	number  uint32 // of the next term
	offset  uint64 // of the next list
	term    []byte
	list    list
	ok      bool
	err     error
}

func (s *Segment) readTerms() *termReader { return &termReader{segment: s} }

// block returns a reader of one block of the dictionary, or false if the block is not where it should be.
func (s *Segment) block(n uint32) (termReader, bool) {
	row := s.blocks[int(n)*blockRow:]
	t := termReader{segment: s, at: int(binary.LittleEndian.Uint32(row)), number: n * termsPerBlock, offset: binary.LittleEndian.Uint64(row[4:])}
	return t, t.at <= len(s.dictionary) && t.offset <= s.header.postings
}

// next reads a term. It returns false at the end and when there is an error.
func (t *termReader) next() bool {
	s := t.segment
	if t.ok = false; t.err != nil || t.number >= s.terms {
		return false
	}
	if t.number%termsPerBlock == 0 {
		if b, _ := s.block(t.number / termsPerBlock); b.at != t.at || b.offset != t.offset {
			t.err = bad("a block of its dictionary is not where it should be")
			return false
		}
		t.term = t.term[:0]
	}
	rest := s.dictionary[t.at:]
	var n [2]uint64
	read := func(i int) bool {
		v, used := binary.Uvarint(rest)
		if used <= 0 {
			return false
		}
		n[i], rest = v, rest[used:]
		return true
	}
	if !read(0) || !read(1) || n[0] > uint64(len(t.term)) || n[1] > uint64(len(rest)) || n[0]+n[1] > maxToken {
		t.err = bad("a term is damaged")
		return false
	}
	t.term = append(t.term[:n[0]], rest[:n[1]]...)
	rest = rest[n[1]:]
	if !read(0) || !read(1) || n[0] == 0 || n[0] > uint64(s.docs) || n[1] > s.header.postings-t.offset {
		t.err = bad("the list of a term is damaged")
		return false
	}
	t.list = list{docs: uint32(n[0]), start: t.offset, end: t.offset + n[1]}
	t.at, t.offset, t.ok = len(s.dictionary)-len(rest), t.offset+n[1], true
	t.number++
	return true
}

// finder finds lists of terms that come in order.
type finder struct {
	segment *Segment
	from    int // no term that is still to come lies in a block before
}

// next returns the list of a term, which is none before the last one asked for.
func (f *finder) next(term string) (list, bool, error) {
	s := f.segment
	damaged := false
	after := f.from + sort.Search(int(s.header.blocks)-f.from, func(i int) bool { // the first block that begins above the term
		head, ok := s.head(uint32(f.from + i))
		damaged = damaged || !ok
		return string(head) > term
	})
	if damaged {
		return list{}, false, errChanged()
	}
	if after == 0 {
		return list{}, false, nil
	}
	f.from = after - 1
	t, ok := s.block(uint32(f.from))
	if !ok {
		return list{}, false, errChanged()
	}
	for range termsPerBlock {
		if !t.next() || string(t.term) > term {
			break
		}
		if string(t.term) == term {
			return t.list, true, nil
		}
	}
	return list{}, false, t.err
}

// head returns the first term of a block of the dictionary in place.
func (s *Segment) head(n uint32) ([]byte, bool) {
	t, ok := s.block(n)
	if !ok {
		return nil, false
	}
	rest := s.dictionary[t.at:]
	if len(rest) < 2 || rest[0] != 0 || rest[1] > maxToken || int(rest[1]) > len(rest)-2 {
		return nil, false
	}
	return rest[2 : 2+rest[1]], true
}
