package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SentencePiece is the tokenizer of Llama 2, Mistral and Gemma: pieces of characters, in which U+2581 stands for a space, are merged
// by score, and characters without a piece are written as bytes. It is immutable and safe for concurrent use.
type SentencePiece struct {
	table
	ids     map[string]int32 // pieces by text
	longest int              // bytes of the longest piece
	ranks   []int32          // id → how early a merge into it is done
	merges  map[pair]merge   // decide instead of ranks if not nil
	byteID  [256]int32       // tokens of bytes; the unknown token where there is none

	prefix, oneSpace, firstOnly bool // see Vocab
}

// spaceMark is how pieces write U+0020.
const spaceMark = "\u2581"

// NewSentencePiece builds a tokenizer from the vocabulary of a GGUF file of the model "llama". It merges as llama.cpp does, but never
// makes a control token out of plain text.
func NewSentencePiece(v Vocab) (*SentencePiece, error) {
	t, err := newTable(v, func(id int32, text string) string {
		if v.kind(id) == typeByte {
			if c, ok := byteOf(text); ok {
				return string([]byte{c})
			}
		}
		return strings.ReplaceAll(text, spaceMark, " ")
	})
	if err != nil {
		return nil, err
	}
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	s := &SentencePiece{table: t, ids: ids, prefix: v.SpacePrefix, oneSpace: v.oneSpace, firstOnly: v.firstOnly}
	if err := s.readBytes(v); err != nil {
		return nil, err
	}
	if v.ranked {
		s.merges, err = readMerges(v, ids)
	} else if err = v.checkScores(); err == nil {
		s.ranks = ranksOf(v.Scores)
	}
	for text, id := range ids {
		if v.isSpecial(id) || v.kind(id) == typeByte {
			delete(ids, text)
		} else {
			s.longest = max(s.longest, len(text))
		}
	}
	return s, err
}

// readBytes finds the tokens "<0x00>" to "<0xFF>".
func (s *SentencePiece) readBytes(v Vocab) error {
	for c := range s.byteID {
		s.byteID[c] = v.Unknown
	}
	for i, text := range v.Tokens {
		if v.kind(int32(i)) != typeByte {
			continue
		}
		c, ok := byteOf(text)
		if !ok {
			return fmt.Errorf("tokenizer: token %d is a byte token, but its text is not one such as <0x0A>", i)
		}
		s.byteID[c] = int32(i)
	}
	return nil
}

// byteOf reads a byte token's text, such as <0x0A>.
func byteOf(text string) (byte, bool) {
	if len(text) != len("<0x00>") || !strings.HasPrefix(text, "<0x") || text[5] != '>' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(n), err == nil
}

// Encode returns the tokens of text, without BOS; see [Tokenizer].
func (s *SentencePiece) Encode(text string, parseSpecial bool) []int32 {
	return s.EncodeParts([]Part{{text, parseSpecial}}, false)
}

// EncodeParts returns the tokens of the joined parts; see [Tokenizer].
func (s *SentencePiece) EncodeParts(parts []Part, follows bool) []int32 {
	ids := []int32{}
	s.fragments(parts, func(text string, start int) {
		first := start == 0 && !follows
		if s.prefix && (first || start > 0 && !s.firstOnly) && !(s.oneSpace && startsWithSpace(text)) {
			text = " " + text
		}
		ids = s.appendMerged(ids, strings.ReplaceAll(text, " ", spaceMark))
	}, func(id int32) { ids = append(ids, id) })
	return ids
}

func startsWithSpace(text string) bool {
	return strings.HasPrefix(text, " ") || strings.HasPrefix(text, spaceMark)
}

// Decode returns the text of ids; see [Tokenizer].
func (s *SentencePiece) Decode(ids []int32) string { return s.decode(ids, s.prefix) }

// appendMerged encodes a text in which spaces are marked already.
func (s *SentencePiece) appendMerged(ids []int32, text string) []int32 {
	list := newSymbols(utf8.RuneCountInString(text))
	for i := 0; i < len(text); {
		n := min(charLength(text[i]), len(text)-i)
		list = list.add(s.piece(text[i:i+n]), i)
		i += n
	}
	end := func(i int32) int {
		if next := list[i].next; next >= 0 {
			return int(list[next].at)
		}
		return len(text)
	}
	list.merge(func(left, right int32) (merge, bool) {
		if s.merges != nil {
			m, ok := s.merges[pair{list[left].id, list[right].id}]
			return m, ok
		}
		from, to := int(list[left].at), end(right)
		if to-from > s.longest {
			return merge{}, false
		}
		id, ok := s.ids[text[from:to]]
		if !ok {
			return merge{}, false
		}
		return merge{s.ranks[id], id}, true
	})
	for i := int32(0); i >= 0; i = list[i].next {
		if list[i].id != None {
			ids = append(ids, list[i].id)
			continue
		}
		for _, c := range []byte(text[list[i].at:end(i)]) {
			ids = appendToken(ids, s.byteID[c])
		}
	}
	return ids
}

func (s *SentencePiece) piece(text string) int32 {
	if id, ok := s.ids[text]; ok {
		return id
	}
	return None
}

// charLength returns how many bytes a character has by its first one; a byte that begins none counts as one.
func charLength(first byte) int {
	switch {
	case first < 0xC0:
		return 1
	case first < 0xE0:
		return 2
	case first < 0xF0:
		return 3
	}
	return 4
}
