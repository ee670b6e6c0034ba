package tokenizer

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"
)

// BPE is a byte-level byte-pair encoder. It is safe for concurrent use.
type BPE struct {
	table
	words     func(text string) iter.Seq[string]
	compose   bool             // text is normalised to NFC first
	wholeWord map[string]int32 // set when a word that is a token is taken whole, before any merge
	byteToken [256]int32
	merges    map[pair]merge

	mu    sync.RWMutex
	cache map[string][]int32 // words seen, short ones only; dropped when full
}

// A word longer than cacheWord bytes is not kept; the cache holds at most cacheWords words, some 4 MB.
const (
	cacheWord  = 48
	cacheWords = 1 << 15
)

// NewBPE builds an encoder. It refuses a vocabulary that it would tokenise differently from the model's own tokenizer: an unknown
// pre-tokenizer, duplicate tokens, merges of tokens that do not exist, ids out of range.
func NewBPE(v Vocab) (*BPE, error) {
	pre, ok := preTokenizers()[v.Pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer: the pre-tokenizer %q is not supported; this build knows %s", v.Pre, strings.Join(preNames(), ", "))
	}
	toRune, toByte := alphabet()
	t, err := newTable(v, func(_ int32, text string) string { return fromAlphabet(text, toByte) })
	if err != nil {
		return nil, err
	}
	b := &BPE{table: t, words: pre.words, compose: v.compose, cache: map[string][]int32{}}
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	for c := range b.byteToken {
		b.byteToken[c] = None
		if id, ok := ids[string(toRune[c])]; ok && !v.isSpecial(id) {
			b.byteToken[c] = id
		}
	}
	if pre.wholeWords || v.wholeWords {
		b.wholeWord = make(map[string]int32, len(v.Tokens))
		for i, text := range b.bytes {
			if v.kind(int32(i)) == typeNormal {
				b.wholeWord[text] = int32(i)
			}
		}
	}
	b.merges, err = readMerges(v, ids)
	return b, err
}

// readMerges reads "left right" lines. Control tokens take no part: no text may turn into one by merging.
func readMerges(v Vocab, ids map[string]int32) (map[pair]merge, error) {
	merges := make(map[pair]merge, len(v.Merges))
	for rank, m := range v.Merges {
		left, right, ok := strings.Cut(m, " ")
		l, okL := ids[left]
		r, okR := ids[right]
		id, okM := ids[left+right]
		if !ok || !okL || !okR || !okM {
			return nil, fmt.Errorf("tokenizer: merge %d does not join two tokens of the vocabulary into a third", rank)
		}
		if _, twice := merges[pair{l, r}]; !twice && !v.isSpecial(id) {
			merges[pair{l, r}] = merge{int32(rank), id}
		}
	}
	return merges, nil
}

// fromAlphabet returns the bytes a normal token stands for. A token that is not written in the alphabet stands for its own text.
func fromAlphabet(text string, toByte map[rune]byte) string {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		c, ok := toByte[r]
		if !ok {
			return text
		}
		out = append(out, c)
	}
	return string(out)
}

// Encode returns the tokens of text, without BOS; see [Tokenizer].
//
// Bytes for which the vocabulary has no token are left out, as llama.cpp and the Hugging Face tokenizers do.
func (b *BPE) Encode(text string, parseSpecial bool) []int32 {
	return b.EncodeParts([]Part{{text, parseSpecial}}, false)
}

// EncodeParts returns the tokens of the joined parts; see [Tokenizer]. Nothing is ever added to a text.
func (b *BPE) EncodeParts(parts []Part, _ bool) []int32 {
	ids := []int32{}
	b.fragments(parts, func(text string, _ int) {
		if b.compose {
			text = composed(text)
		}
		ids = slices.Grow(ids, len(text)/4+1)
		for word := range b.words(text) {
			ids = b.appendWord(ids, word)
		}
	}, func(id int32) { ids = append(ids, id) })
	return ids
}

// joiner is what package norm writes into runs of more than 30 combining marks.
const joiner = "\u034F"

// composed returns the text in NFC.
func composed(text string) string {
	c := norm.NFC.String(text)
	if c != text && !strings.Contains(text, joiner) {
		c = strings.ReplaceAll(c, joiner, "")
	}
	return c
}

func (b *BPE) appendWord(ids []int32, word string) []int32 {
	if len(word) > cacheWord {
		return b.appendMerged(ids, word)
	}
	b.mu.RLock()
	known, ok := b.cache[word]
	b.mu.RUnlock()
	if ok {
		return append(ids, known...)
	}
	n := len(ids)
	ids = b.appendMerged(ids, word)
	b.mu.Lock()
	if len(b.cache) >= cacheWords {
		clear(b.cache)
	}
	// Cloned, so that the cache does not keep a whole prompt alive.
	b.cache[strings.Clone(word)] = slices.Clone(ids[n:])
	b.mu.Unlock()
	return ids
}

// appendMerged encodes one word, starting from single bytes.
func (b *BPE) appendMerged(ids []int32, word string) []int32 {
	if id, ok := b.wholeWord[word]; ok {
		return append(ids, id)
	}
	if len(word) == 1 {
		return appendToken(ids, b.byteToken[word[0]])
	}
	list := newSymbols(len(word))
	for i := range len(word) {
		list = list.add(b.byteToken[word[i]], i)
	}
	list.merge(func(left, right int32) (merge, bool) {
		m, ok := b.merges[pair{list[left].id, list[right].id}]
		return m, ok
	})
	for i := int32(0); i >= 0; i = list[i].next {
		ids = appendToken(ids, list[i].id)
	}
	return ids
}

func appendToken(ids []int32, id int32) []int32 {
	if id == None {
		return ids
	}
	return append(ids, id)
}
