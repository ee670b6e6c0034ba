package tokenizer

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
)

// BPE is a byte-level byte-pair encoder. It is safe for concurrent use.
type BPE struct {
	names []string // id → readable text
	bytes []string // id → the bytes it stands for in text; "" for control tokens
	types []int32
	eog   map[int32]bool
	bos   int32
	addBO bool

	words     func(text string) iter.Seq[string]
	wholeWord map[string]int32 // set when a word that is a token is taken whole, before any merge
	byteToken [256]int32
	merges    map[pair]merge
	special   matcher // control, unknown and user-defined tokens

	mu    sync.RWMutex
	cache map[string][]int32 // words seen, short ones only; dropped when full
}

// A word longer than cacheWord bytes is not kept; the cache holds at most cacheWords words, some 4 MB.
const (
	cacheWord  = 48
	cacheWords = 1 << 15
)

type pair struct{ left, right int32 }

type merge struct{ rank, id int32 }

// NewBPE builds an encoder. It refuses a vocabulary that it would tokenise differently from the model's own tokenizer: an unknown
// pre-tokenizer, duplicate tokens, merges of tokens that do not exist, ids out of range.
func NewBPE(v Vocab) (*BPE, error) {
	words, ok := splitters()[v.Pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer: the pre-tokenizer %q is not supported; this build knows gpt-2, llama-bpe, qwen2 and smollm", v.Pre)
	}
	b := &BPE{words: words, bos: v.BOS, addBO: v.AddBOS && v.BOS != None, eog: map[int32]bool{}, cache: map[string][]int32{}}
	if err := b.checkSizes(v); err != nil {
		return nil, err
	}
	ids, err := b.readTokens(v)
	if err != nil {
		return nil, err
	}
	if err := b.readMerges(v.Merges, ids); err != nil {
		return nil, err
	}
	for _, id := range append([]int32{v.EOS}, v.EOG...) {
		if id != None {
			b.eog[id] = true
		}
	}
	return b, nil
}

func (b *BPE) checkSizes(v Vocab) error {
	n := len(v.Tokens)
	if n == 0 || n > 1<<22 {
		return fmt.Errorf("tokenizer: the vocabulary has %d tokens; expected between 1 and %d", n, 1<<22)
	}
	if v.Types != nil && len(v.Types) != n {
		return fmt.Errorf("tokenizer: the vocabulary has %d tokens but %d token types", n, len(v.Types))
	}
	for _, id := range slices.Concat([]int32{v.BOS, v.EOS, v.Pad, v.Unknown}, v.EOG) {
		if id < None || int(id) >= n {
			return fmt.Errorf("tokenizer: a special token has the id %d, but the vocabulary has %d tokens", id, n)
		}
	}
	return nil
}

// readTokens fills the tables by id and returns the ids by the text that merges use.
func (b *BPE) readTokens(v Vocab) (map[string]int32, error) {
	n := len(v.Tokens)
	b.names, b.bytes = make([]string, n), make([]string, n)
	b.types = v.Types
	if b.types == nil {
		b.types = slices.Repeat([]int32{typeNormal}, n)
	}
	ids := make(map[string]int32, n)
	toRune, toByte := alphabet()
	var special []entry
	for i, text := range v.Tokens {
		id := int32(i)
		if other, twice := ids[text]; twice {
			return nil, fmt.Errorf("tokenizer: the tokens %d and %d have the same text", other, id)
		}
		ids[text] = id
		switch b.types[i] {
		case typeControl, typeUnknown:
			b.names[i] = text
			special = append(special, entry{text, id, true})
			if endsGeneration(text) {
				b.eog[id] = true
			}
		case typeUserDefined:
			b.names[i], b.bytes[i] = text, text
			special = append(special, entry{text, id, false})
		case typeNormal, typeUnused, typeByte:
			b.bytes[i] = fromAlphabet(text, toByte)
			b.names[i] = b.bytes[i]
		default:
			return nil, fmt.Errorf("tokenizer: token %d has the unknown type %d", id, b.types[i])
		}
	}
	b.special = newMatcher(special)
	for c := range b.byteToken {
		b.byteToken[c] = None
		if id, ok := ids[string(toRune[c])]; ok {
			b.byteToken[c] = id
		}
	}
	if v.Pre == "llama-bpe" {
		b.wholeWord = make(map[string]int32, n)
		for i, text := range b.bytes {
			if b.types[i] == typeNormal {
				b.wholeWord[text] = int32(i)
			}
		}
	}
	return ids, nil
}

func (b *BPE) readMerges(merges []string, ids map[string]int32) error {
	b.merges = make(map[pair]merge, len(merges))
	for rank, m := range merges {
		left, right, ok := strings.Cut(m, " ")
		l, okL := ids[left]
		r, okR := ids[right]
		id, okM := ids[left+right]
		if !ok || !okL || !okR || !okM {
			return fmt.Errorf("tokenizer: merge %d does not join two tokens of the vocabulary into a third", rank)
		}
		if _, twice := b.merges[pair{l, r}]; !twice {
			b.merges[pair{l, r}] = merge{int32(rank), id}
		}
	}
	return nil
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

// Size returns the number of tokens.
func (b *BPE) Size() int { return len(b.names) }

// BOS returns the token that begins a text and whether plain prompts must start with it ([BPE.Encode] never adds it).
func (b *BPE) BOS() (id int32, add bool) { return b.bos, b.addBO }

// IsEOG reports whether a model that produces id has ended its answer.
func (b *BPE) IsEOG(id int32) bool { return b.eog[id] }

// Bytes returns what a token adds to a text: nothing for control tokens and for ids that do not exist. It need not be whole
// characters; see [Stream].
func (b *BPE) Bytes(id int32) []byte {
	if id < 0 || int(id) >= len(b.bytes) {
		return nil
	}
	return []byte(b.bytes[id])
}

// Name returns the text of a token for people, control tokens included.
func (b *BPE) Name(id int32) string {
	if id < 0 || int(id) >= len(b.names) {
		return ""
	}
	return b.names[id]
}

// Decode returns the text of ids: the joined bytes of the tokens, with U+FFFD for each byte that is not part of valid UTF-8.
func (b *BPE) Decode(ids []int32) string {
	var text strings.Builder
	var s Stream
	for _, id := range ids {
		if id >= 0 && int(id) < len(b.bytes) {
			text.WriteString(s.Write([]byte(b.bytes[id])))
		}
	}
	text.WriteString(s.Close())
	return text.String()
}

// Encode returns the tokens of text, without BOS. With parseSpecial, text such as "<|im_start|>" becomes the control token of that
// name, which is right for chat templates only: text that a caller sent is encoded without it, so that it cannot forge a turn.
//
// Bytes for which the vocabulary has no token are left out, as llama.cpp and the Hugging Face tokenizers do.
func (b *BPE) Encode(text string, parseSpecial bool) []int32 {
	return b.EncodeParts([]Part{{text, parseSpecial}})
}

// EncodeParts returns the tokens of the joined parts. Borders between parts are no borders between words, so the tokens are those of
// the whole text; but a control token is recognised only inside special parts, and never across a border to another kind.
func (b *BPE) EncodeParts(parts []Part) []int32 {
	text, special := join(parts)
	ids := make([]int32, 0, len(text)/4+1)
	for from := 0; from < len(text); {
		start, found := b.special.find(text, from, special.cover)
		for word := range b.words(text[from:start]) {
			ids = b.appendWord(ids, word)
		}
		if found.text == "" {
			break
		}
		ids = append(ids, found.id)
		from = start + len(found.text)
	}
	return ids
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
