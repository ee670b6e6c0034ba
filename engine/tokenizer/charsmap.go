package tokenizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// charsmap is SentencePiece's precompiled normalisation: a double array that maps beginnings of a text to replacements. Its bytes come
// from a file and are trusted in nothing: every index is checked where it is used, and a search ends with the text.
//
// A node packs, in one word: in bits 0 to 7 and 31 the label that leads to it (bit 31 is set in nodes that hold a value, so that none
// leads there), in bit 8 that a value hangs below, in bits 10 to 30 the offset to its children, which bit 9 multiplies by 256.
type charsmap struct {
	nodes        []uint32
	replacements []byte // zero-terminated, found by the values
}

const maxCharsmap = 1 << 26

// readCharsmap reads: the length of the double array in bytes, the double array, the replacements.
func readCharsmap(data []byte) (*charsmap, error) {
	if len(data) == 0 {
		return nil, nil //nolint:nilnil // a vocabulary without a map
	}
	if len(data) < 4 || len(data) > maxCharsmap {
		return nil, fmt.Errorf("tokenizer: the precompiled charsmap has %d bytes; expected between 4 and %d", len(data), maxCharsmap)
	}
	size, rest := uint64(binary.LittleEndian.Uint32(data)), data[4:]
	if size == 0 || size%4 != 0 || size > uint64(len(rest)) {
		return nil, fmt.Errorf("tokenizer: the precompiled charsmap says that its trie has %d bytes, of %d that follow", size, len(rest))
	}
	m := &charsmap{nodes: make([]uint32, size/4), replacements: rest[size:]}
	for i := range m.nodes {
		m.nodes[i] = binary.LittleEndian.Uint32(rest[4*i:])
	}
	if n := len(m.replacements); n > 0 && m.replacements[n-1] != 0 {
		return nil, errors.New("tokenizer: the last replacement of the precompiled charsmap has no end; the file is damaged")
	}
	return m, nil
}

func children(node uint32) uint32 { return (node >> 10) << ((node & (1 << 9)) >> 6) }

// find returns the replacement of the longest beginning of text that has one, and that beginning's length; 0 if none has.
func (m *charsmap) find(text string) (replacement []byte, length int) {
	at := children(m.nodes[0])
	value := uint32(0)
	for i := range len(text) {
		at ^= uint32(text[i])
		if text[i] == 0 || uint64(at) >= uint64(len(m.nodes)) || m.nodes[at]&(1<<31|0xFF) != uint32(text[i]) {
			break
		}
		node := m.nodes[at]
		at ^= children(node)
		if node&(1<<8) != 0 && uint64(at) < uint64(len(m.nodes)) {
			length, value = i+1, m.nodes[at]&(1<<31-1)
		}
	}
	if length == 0 || uint64(value) >= uint64(len(m.replacements)) {
		return nil, 0
	}
	replacement = m.replacements[value:]
	return replacement[:bytes.IndexByte(replacement, 0)], length
}

// normalize appends the normalised text to out. Bytes that are no character become U+FFFD.
func (m *charsmap) normalize(out []byte, text string) []byte {
	for i := 0; i < len(text); {
		if m != nil {
			if replacement, n := m.find(text[i:]); n > 0 {
				out = append(out, replacement...)
				i += n
				continue
			}
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out
}
