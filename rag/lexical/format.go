package lexical

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// The bytes of a segment, numbers little-endian:
//
//	header      64 bytes, see header
//	lengths     for each id from the first: terms of the document plus one, 0 for a gap; 1, 2 or 4 bytes each
//	blocks      for each block of the dictionary: where it begins (u32), where the postings of its first term begin (u64)
//	dictionary  terms in order, 16 to a block; each: bytes shared with the term before, bytes that follow, those bytes, documents,
//	            bytes of postings (varints)
//	postings    of each term in order, see list
//	zeros       8 bytes, so that eight bytes can be read anywhere before
//	checksum    CRC-32C of everything before (u32)
//
// A list is its impact (see impact), then, if it has several blocks, a row for each (last id u32, where the block ends u32, impact), then
// the blocks: 128 postings, the last one fewer. A block is the bits of an id and of a count (one byte each), the ids packed, each as the
// distance to the one before less one, and the counts packed, less one. Ids are relative to the first.
const (
	magic         = "SLUICELX"
	formatVersion = 1
	headerSize    = 64
	blockRow      = 12
	termsPerBlock = 16
	blockLen      = 128
	listRow       = 4 + 4 + impactSize
	impactSize    = 4
	padding       = 8
	checksumSize  = 4
	// maxBits bounds packed numbers. With 128 of them their sum fits 32 bits, so that ids of a hostile block cannot wrap around.
	maxBits = 24
)

type header struct {
	first, span, docs, terms uint32
	width                    uint32 // bytes of a length
	blocks                   uint32 // of the dictionary
	total                    uint64 // lengths of all documents
	dictionary, postings     uint64 // bytes
}

func (h header) bytes() []byte {
	out := make([]byte, 0, headerSize)
	out = append(out, magic...)
	for _, v := range []uint32{formatVersion, AnalyzerVersion, h.first, h.span, h.docs, h.terms, h.width, h.blocks} {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	for _, v := range []uint64{h.total, h.dictionary, h.postings} {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return out
}

// impact bounds what a posting of a list or block can add to a score, whatever the average length: no count is higher, no document
// shorter. Both saturate upwards of 65534 so that the bound still holds.
type impact struct{ count, length uint16 }

const unbounded = 1<<16 - 1

func (m *impact) add(count, length uint32) {
	m.count = max(m.count, uint16(min(count, unbounded)))
	m.length = min(m.length, uint16(min(length, unbounded)))
}

func (m *impact) merge(o impact) { m.count, m.length = max(m.count, o.count), min(m.length, o.length) }

func noImpact() impact { return impact{0, unbounded} }

func appendImpact(out []byte, m impact) []byte {
	return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(out, m.count), m.length)
}

func readImpact(b []byte) impact {
	return impact{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])}
}

// writer makes a segment of terms that come in order.
type writer struct {
	first      uint32
	lengths    []uint32 // by id from first: terms plus one, 0 for a gap
	blocks     []byte
	dictionary []byte
	postings   []byte
	last       []byte // the last term
	terms      uint32
	rows, data []byte // scratch of one list
}

// add appends a term. The ids, relative to the first, rise.
func (w *writer) add(term []byte, ids, counts []uint32) {
	shared := 0
	if w.terms%termsPerBlock == 0 {
		w.blocks = binary.LittleEndian.AppendUint32(w.blocks, uint32(len(w.dictionary)))
		w.blocks = binary.LittleEndian.AppendUint64(w.blocks, uint64(len(w.postings)))
	} else {
		for shared < min(len(term), len(w.last)) && term[shared] == w.last[shared] {
			shared++
		}
	}
	before := len(w.postings)
	w.list(ids, counts)
	w.dictionary = binary.AppendUvarint(w.dictionary, uint64(shared))
	w.dictionary = binary.AppendUvarint(w.dictionary, uint64(len(term)-shared))
	w.dictionary = append(w.dictionary, term[shared:]...)
	w.dictionary = binary.AppendUvarint(w.dictionary, uint64(len(ids)))
	w.dictionary = binary.AppendUvarint(w.dictionary, uint64(len(w.postings)-before))
	w.last = append(w.last[:0], term...)
	w.terms++
}

func (w *writer) list(ids, counts []uint32) {
	w.rows, w.data = w.rows[:0], w.data[:0]
	whole, next := noImpact(), uint32(0)
	for start := 0; start < len(ids); start += blockLen {
		end := min(start+blockLen, len(ids))
		var deltas, less [blockLen]uint32
		var idBits, countBits int
		block := noImpact()
		for i := start; i < end; i++ {
			deltas[i-start], less[i-start] = ids[i]-next, counts[i]-1
			next = ids[i] + 1
			idBits, countBits = max(idBits, bits.Len32(deltas[i-start])), max(countBits, bits.Len32(less[i-start]))
			block.add(counts[i], w.lengths[ids[i]]-1)
		}
		w.data = append(w.data, byte(idBits), byte(countBits))
		w.data = pack(w.data, deltas[:end-start], idBits)
		w.data = pack(w.data, less[:end-start], countBits)
		w.rows = binary.LittleEndian.AppendUint32(w.rows, ids[end-1])
		w.rows = binary.LittleEndian.AppendUint32(w.rows, uint32(len(w.data)))
		w.rows = appendImpact(w.rows, block)
		whole.merge(block)
	}
	w.postings = appendImpact(w.postings, whole)
	if len(ids) > blockLen {
		w.postings = append(w.postings, w.rows...)
	}
	w.postings = append(w.postings, w.data...)
}

// bytes returns the segment.
func (w *writer) bytes() []byte {
	h := header{
		first: w.first, span: uint32(len(w.lengths)), terms: w.terms, width: 1, blocks: uint32(len(w.blocks) / blockRow),
		dictionary: uint64(len(w.dictionary)), postings: uint64(len(w.postings)),
	}
	longest := uint32(0)
	for _, n := range w.lengths {
		longest = max(longest, n)
		if n > 0 {
			h.docs++
			h.total += uint64(n - 1)
		}
	}
	if longest > 1<<16-1 {
		h.width = 4
	} else if longest > 1<<8-1 {
		h.width = 2
	}
	size := headerSize + len(w.lengths)*int(h.width) + len(w.blocks) + len(w.dictionary) + len(w.postings) + padding + checksumSize
	out := append(make([]byte, 0, size), h.bytes()...)
	for _, n := range w.lengths {
		switch h.width {
		case 1:
			out = append(out, byte(n))
		case 2:
			out = binary.LittleEndian.AppendUint16(out, uint16(n))
		default:
			out = binary.LittleEndian.AppendUint32(out, n)
		}
	}
	out = append(out, w.blocks...)
	out = append(out, w.dictionary...)
	out = append(out, w.postings...)
	out = append(out, make([]byte, padding)...)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli()))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// pack appends numbers of so many bits each, the first in the lowest bits.
func pack(out []byte, numbers []uint32, width int) []byte {
	var buffer uint64
	filled := 0
	for _, n := range numbers {
		buffer |= uint64(n) << filled
		filled += width
		for filled >= 8 {
			out = append(out, byte(buffer))
			buffer >>= 8
			filled -= 8
		}
	}
	if filled > 0 {
		out = append(out, byte(buffer))
	}
	return out
}

func packedSize(n, width int) int { return (n*width + 7) / 8 }

// unpack reads len(out) numbers of width ≤ maxBits bits. At least padding bytes must follow the packed ones in src.
func unpack(out []uint32, src []byte, width int) {
	mask := uint32(1)<<width - 1
	for i := range out {
		at := i * width
		out[i] = uint32(binary.LittleEndian.Uint64(src[at>>3:])>>(at&7)) & mask
	}
}
