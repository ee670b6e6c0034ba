package lexical

import "encoding/binary"

// cursor reads a list block by block. It never reads outside the list, whatever the bytes are: what cannot be is bad, and ends it.
type cursor struct {
	data   []byte // the list's, to the end of the postings
	rows   []byte // one for each block; none if there is only one
	impact impact
	docs   uint32
	blocks int
	span   uint32

	block  int  // that is wanted
	opened int  // whose ids are in ids; -1: none
	used   int  // bytes up to the end of the opened block
	bad    bool // the bytes are no list
	n      int  // ids in the opened block
	pos    int  // in ids
	size   int  // of data without what follows the list
	ids    [blockLen]uint32
	counts [blockLen]uint32 // less one
	unread []byte           // counts, until they are wanted
	bits   int              // of a count
}

func (s *Segment) cursor(l list) *cursor {
	c := &cursor{docs: l.docs, span: s.span, opened: -1, blocks: int((l.docs + blockLen - 1) / blockLen)}
	data := s.postings[l.start:l.end]
	head := impactSize
	if c.blocks > 1 {
		head += c.blocks * listRow
	}
	if c.bad = len(data) < head; c.bad {
		c.blocks = 0
		return c
	}
	c.impact = readImpact(data)
	c.rows = data[impactSize:head]
	c.size = len(data) - head
	c.data = s.postings[int(l.start)+head : int(l.end)+padding]
	return c
}

// row returns the last id of a block and where it ends.
func (c *cursor) row(i int) (last uint32, end int) {
	if len(c.rows) == 0 {
		return c.span - 1, c.size
	}
	row := c.rows[i*listRow:]
	return binary.LittleEndian.Uint32(row), int(binary.LittleEndian.Uint32(row[4:]))
}

func (c *cursor) rowImpact(i int) impact {
	if len(c.rows) == 0 {
		return c.impact
	}
	return readImpact(c.rows[i*listRow+8:])
}

// open reads the ids of the wanted block and stands on its first; false after the last block and when the list is bad.
func (c *cursor) open() bool {
	if c.bad || c.block >= c.blocks {
		return false
	}
	if c.opened == c.block {
		return true
	}
	next, start := uint32(0), 0
	if c.block > 0 {
		var last uint32
		last, start = c.row(c.block - 1)
		next = last + 1
	}
	last, end := c.row(c.block)
	n := blockLen
	if c.block == c.blocks-1 {
		n = int(c.docs) - c.block*blockLen
	}
	if start < 0 || end > c.size || end-start < 2 || next > c.span {
		return c.fail()
	}
	data := c.data[start : end+padding]
	idBits, countBits := int(data[0]), int(data[1])
	ids := packedSize(n, idBits)
	if idBits > maxBits || countBits > maxBits || 2+ids+packedSize(n, countBits) != end-start {
		return c.fail()
	}
	unpack(c.ids[:n], data[2:], idBits)
	for i, d := range c.ids[:n] {
		next += d
		c.ids[i] = next
		next++
	}
	// Neither a distance nor their sum can wrap around, so this bounds all ids.
	if last >= c.span || next > last+1 || len(c.rows) > 0 && next != last+1 {
		return c.fail()
	}
	c.n, c.pos, c.opened, c.used = n, 0, c.block, end
	c.unread, c.bits = data[2+ids:], countBits
	return true
}

func (c *cursor) fail() bool {
	c.bad = true
	return false
}

// readCounts makes counts valid for the opened block.
func (c *cursor) readCounts() {
	if c.unread != nil {
		if c.bits == 0 {
			clear(c.counts[:c.n])
		} else {
			unpack(c.counts[:c.n], c.unread, c.bits)
		}
		c.unread = nil
	}
}

// count returns how often the document at a position of the opened block has the term.
func (c *cursor) count(i int) uint32 {
	c.readCounts()
	return c.counts[i] + 1
}

// reach moves to the block that would hold id, without opening it; false if the list ends before.
func (c *cursor) reach(id uint32) bool {
	if len(c.rows) == 0 {
		return !c.bad && c.block < c.blocks
	}
	for step := 1; ; step *= 2 { // gallop, then halve
		to := c.block + step
		if to >= c.blocks {
			return c.halve(id, c.blocks)
		}
		if last, _ := c.row(to - 1); last >= id {
			return c.halve(id, to)
		}
		c.block = to
	}
}

// halve moves to the first block before end whose last id is id or higher.
func (c *cursor) halve(id uint32, end int) bool {
	for c.block < end {
		middle := (c.block + end) / 2
		if last, _ := c.row(middle); last >= id {
			end = middle
		} else {
			c.block = middle + 1
		}
	}
	return c.block < c.blocks
}

// seek moves to the first posting with id or a higher one; false if there is none.
func (c *cursor) seek(id uint32) bool {
	if !c.reach(id) || !c.open() {
		return false
	}
	if c.ids[c.n-1] < id { // only where there is a single block, whose last id no row tells
		c.block++
		return false
	}
	low, high := c.pos, c.n
	if low >= high || c.ids[low] >= id {
		return low < high
	}
	for low < high {
		middle := int(uint(low+high) / 2)
		if c.ids[middle] < id {
			low = middle + 1
		} else {
			high = middle
		}
	}
	c.pos = low
	return true
}
