package lexical

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Builder makes a segment. The zero value is empty. It is not safe for concurrent use.
//
//	var b lexical.Builder
//	for id, text := range texts {
//		err := b.Add(uint32(id), text)
//	}
//	data := b.Build()
type Builder struct {
	first   uint32
	lengths []uint32 // by id from first: terms plus one, 0 for a gap
	docs    int
	terms   map[string]uint32
	lists   []growingList // by number of term
	scratch []uint32
}

// growingList is a list while it grows: for each document the distance to the one before, doubled, plus one if its count follows; varints.
type growingList struct {
	next uint32 // the lowest id that may follow
	docs uint32
	data []byte
}

// Add appends a document. Ids must rise; a gap costs as much as a document's length, one to four bytes. An error says that id does not
// rise, is above [MaxID], lies [MaxSpan] or more above the first, or that the text has 16 million terms; nothing was added then.
func (b *Builder) Add(id uint32, text string) error {
	if b.docs == 0 {
		b.first, b.lengths = id, nil
	}
	if uint64(id) < uint64(b.first)+uint64(len(b.lengths)) || id-b.first >= MaxSpan || id > MaxID {
		return fmt.Errorf("document %d does not follow those from %d", id, b.first)
	}
	if b.terms == nil {
		b.terms = map[string]uint32{}
	}
	found := b.scratch[:0]
	analyze(text, func(term []byte) {
		n, known := b.terms[string(term)]
		if !known {
			n = uint32(len(b.lists))
			b.terms[string(term)] = n
			b.lists = append(b.lists, growingList{})
		}
		found = append(found, n)
	})
	b.scratch = found
	if len(found) >= 1<<maxBits {
		return fmt.Errorf("document %d is too long", id)
	}
	at := id - b.first
	b.lengths = append(b.lengths, make([]uint32, int(at)+1-len(b.lengths))...)
	b.lengths[at] = uint32(len(found)) + 1
	b.docs++
	slices.Sort(found)
	for len(found) > 0 {
		n, count := found[0], 1
		for count < len(found) && found[count] == n {
			count++
		}
		found = found[count:]
		list := &b.lists[n]
		if count == 1 {
			list.data = binary.AppendUvarint(list.data, uint64(at-list.next)<<1)
		} else {
			list.data = binary.AppendUvarint(list.data, uint64(at-list.next)<<1|1)
			list.data = binary.AppendUvarint(list.data, uint64(count))
		}
		list.next = at + 1
		list.docs++
	}
	return nil
}

// Len returns the number of documents added.
func (b *Builder) Len() int { return b.docs }

// Build returns the segment as one slice that [Open] reads. The same documents give the same bytes. The builder is empty then.
func (b *Builder) Build() []byte {
	w := writer{first: b.first, lengths: b.lengths}
	var ids, counts []uint32
	for _, term := range slices.Sorted(maps.Keys(b.terms)) {
		list := &b.lists[b.terms[term]]
		ids, counts = ids[:0], counts[:0]
		next := uint32(0)
		for data := list.data; len(data) > 0; {
			v, n := binary.Uvarint(data)
			data = data[n:]
			count := uint64(1)
			if v&1 == 1 {
				count, n = binary.Uvarint(data)
				data = data[n:]
			}
			ids, counts = append(ids, next+uint32(v>>1)), append(counts, uint32(count))
			next = ids[len(ids)-1] + 1
		}
		list.data = nil
		if len(ids) > 0 {
			w.add([]byte(term), ids, counts)
		}
	}
	*b = Builder{}
	return w.bytes()
}
