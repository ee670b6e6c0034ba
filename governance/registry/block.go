package registry

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/sluice-project/sluice/governance/registry/fingerprint"
)

const (
	// common is how many entries of one fingerprint a segment names. A wording of more answers tells nobody where a text comes from.
	common = 64
	// oldest is how many of these are the first that there were: whoever repeats an answer very often does not hide where it comes from.
	oldest = 8
	// blockPrints is how many fingerprints a block has, at most on average. One that is looked up costs the reading of its block, which then takes a KiB or less.
	blockPrints = 128
)

var errBlock = errors.New("a block of the registry does not read: it was changed")

// posting are the entries of a fingerprint.
type posting struct {
	print   uint64
	total   int64   // entries that there were
	numbers []int64 // the oldest and the newest of them, ascending
}

// add adds entries with higher numbers.
func (p *posting) add(total int64, numbers []int64) {
	p.total += total
	p.numbers = append(p.numbers, numbers...)
	if over := len(p.numbers) - common; over > 0 {
		p.numbers = slices.Delete(p.numbers, oldest, oldest+over)
	}
}

// bucketBits is by how many bits so many fingerprints are put into blocks.
func bucketBits(prints int64) int64 { return int64(bits.Len64(uint64(prints / blockPrints))) }

// bucketOf is the block of a fingerprint.
func bucketOf(p uint64, bits int64) int64 { return int64(p >> (fingerprint.Bits - bits)) }

// encodeBlock writes postings in the order of their fingerprints, of one bucket, of entries from first on.
func encodeBlock(b []byte, postings []posting, bucket, bits, first int64) []byte {
	last := uint64(bucket) << (fingerprint.Bits - bits)
	for _, p := range postings {
		several := uint64(0)
		if p.total != 1 || len(p.numbers) != 1 {
			several = 1
		}
		b = binary.AppendUvarint(b, (p.print-last)<<1|several)
		last = p.print
		if several != 0 {
			b = binary.AppendUvarint(b, uint64(p.total))
			b = binary.AppendUvarint(b, uint64(len(p.numbers)))
		}
		before := first
		for _, n := range p.numbers {
			b = binary.AppendUvarint(b, uint64(n-before))
			before = n
		}
	}
	return b
}

// decodeBlock calls use with each posting of a block that wanted names, all if it is nil; its numbers are valid until use returns.
func decodeBlock(data []byte, bucket, bits, first int64, wanted func(uint64) bool, use func(posting)) error {
	p := posting{print: uint64(bucket) << (fingerprint.Bits - bits)}
	room := make([]int64, 0, common)
	for len(data) > 0 {
		var d uint64
		var ok bool
		if d, data, ok = cutUvarint(data); !ok {
			return errBlock
		}
		p.print += d >> 1
		total, n := uint64(1), uint64(1)
		if d&1 != 0 {
			if total, data, ok = cutUvarint(data); !ok {
				return errBlock
			}
			if n, data, ok = cutUvarint(data); !ok || n > common {
				return errBlock
			}
		}
		p.total, p.numbers = int64(total), room[:0]
		before := first
		for range n {
			if d, data, ok = cutUvarint(data); !ok {
				return errBlock
			}
			before += int64(d)
			p.numbers = append(p.numbers, before)
		}
		if p.print >= 1<<fingerprint.Bits {
			return errBlock
		}
		if wanted == nil || wanted(p.print) {
			use(p)
		}
	}
	return nil
}

// cutUvarint takes a number off the beginning of b.
func cutUvarint(b []byte) (n uint64, rest []byte, ok bool) {
	for i, c := range b {
		if c < 0x80 {
			return n | uint64(c)<<(7*i), b[i+1:], i < 10
		}
		n |= uint64(c&0x7f) << (7 * i)
	}
	return 0, nil, false
}
