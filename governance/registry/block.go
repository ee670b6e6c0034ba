package registry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/sluice-project/sluice/governance/registry/fingerprint"
)

const (
	// common is how many entries of one fingerprint a segment names. A wording of more answers tells nobody where a text comes from.
	common = 64
	// blockPrints is how many fingerprints a block has, at most on average: it then takes some four KiB.
	blockPrints = 512
)

var errBlock = errors.New("a block of the registry does not read: it was changed")

// posting are the entries of a fingerprint.
type posting struct {
	print   uint64
	total   int64   // entries that there were
	numbers []int64 // the newest of them, ascending
}

// add adds entries with higher numbers.
func (p *posting) add(total int64, numbers []int64) {
	p.total += total
	p.numbers = append(p.numbers, numbers...)
	if over := len(p.numbers) - common; over > 0 {
		p.numbers = slices.Delete(p.numbers, 0, over)
	}
}

// bucketBits is by how many bits so many fingerprints are put into blocks.
func bucketBits(prints int64) int64 { return int64(bits.Len64(uint64(prints / blockPrints))) }

// bucketOf is the block of a fingerprint.
func bucketOf(print uint64, bits int64) int64 { return int64(print >> (fingerprint.Bits - bits)) }

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

// decodeBlock calls use with each posting of a block; its numbers are valid until use returns.
func decodeBlock(data []byte, bucket, bits, first int64, use func(posting)) error {
	p := posting{print: uint64(bucket) << (fingerprint.Bits - bits)}
	numbers := make([]int64, 0, common)
	for r := bytes.NewReader(data); r.Len() > 0; {
		d, err := binary.ReadUvarint(r)
		if err != nil {
			return errBlock
		}
		p.print += d >> 1
		total, n := uint64(1), uint64(1)
		if d&1 != 0 {
			if total, err = binary.ReadUvarint(r); err != nil {
				return errBlock
			}
			if n, err = binary.ReadUvarint(r); err != nil || n > common {
				return errBlock
			}
		}
		before := first
		numbers = numbers[:0]
		for range n {
			d, err := binary.ReadUvarint(r)
			if err != nil {
				return errBlock
			}
			before += int64(d)
			numbers = append(numbers, before)
		}
		p.total, p.numbers = int64(total), numbers
		if p.print >= 1<<fingerprint.Bits {
			return errBlock
		}
		use(p)
	}
	return nil
}
