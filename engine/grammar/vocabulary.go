package grammar

import (
	"slices"
	"unicode/utf8"
)

// Vocabulary is the tokens of a model, laid out for masks. It is immutable and safe for concurrent use.
type Vocabulary struct {
	trie   *trie
	slices []slice // the same tokens
	text   []byte  // bytes of all tokens
	from   []int32 // token → where its bytes begin in text
	ends   []int32 // tokens that end a text, sorted
	units  units
}

// NewVocabulary lays out the tokens 0 to size-1 of a tokenizer. bytes returns what a token adds to a text, nothing for control
// tokens; eog are the tokens that end a text. Make it once per model.
func NewVocabulary(bytes func(id int32) []byte, size int, eog []int32) *Vocabulary {
	v := &Vocabulary{from: make([]int32, 1, size+1)}
	for _, id := range eog {
		if id >= 0 && int(id) < size {
			v.ends = append(v.ends, id)
		}
	}
	slices.Sort(v.ends)
	v.ends = slices.Compact(v.ends)
	for id := range int32(size) {
		if !v.isEnd(id) {
			v.text = append(v.text, bytes(id)...)
		}
		v.from = append(v.from, int32(len(v.text)))
	}
	v.findUnits()
	list := make([]entry, 0, size)
	all := string(v.text) // one copy that all entries are parts of
	for id := range int32(size) {
		text := all[v.from[id]:v.from[id+1]]
		if text == "" || !v.continues() && endsInside(text) {
			continue
		}
		list = append(list, entry{text, id})
	}
	v.cutSlices(list)
	v.trie = newTrie(list)
	return v
}

// Size returns the number of tokens.
func (v *Vocabulary) Size() int { return len(v.from) - 1 }

// Words returns the length of a mask.
func (v *Vocabulary) Words() int { return (v.Size() + 63) / 64 }

func (v *Vocabulary) isEnd(id int32) bool {
	_, ok := slices.BinarySearch(v.ends, id)
	return ok
}

// bytes are what a token adds to a text; nothing for control tokens and those that end it.
func (v *Vocabulary) bytes(id int32) []byte {
	if id < 0 || int(id) >= v.Size() {
		return nil
	}
	return v.text[v.from[id]:v.from[id+1]]
}

// findUnits finds what can be spelt whatever comes before and after.
func (v *Vocabulary) findUnits() {
	for id := range int32(v.Size()) {
		if b := v.bytes(id); len(b) == 1 {
			v.units.bytes.add(b[0])
		}
	}
	if !v.continues() {
		// A token that ends inside a character could not always be continued, so only whole characters count.
		v.units.bytes = v.units.bytes.and(byteRange(0, utf8.RuneSelf-1))
	}
	needed := byteRange(0, utf8.RuneSelf-1).or(byteRange(0xc2, 0xf4)).or(byteRange(0x80, 0xbf))
	if v.units.all = v.units.bytes.and(needed) == needed; v.units.all {
		return
	}
	for id := range int32(v.Size()) {
		b := v.bytes(id)
		if r, n := utf8.DecodeRune(b); n > 1 && n == len(b) && !v.spells(b) {
			v.units.whole = append(v.units.whole, r)
		}
	}
	slices.Sort(v.units.whole)
	v.units.whole = slices.Compact(v.units.whole)
}

func (v *Vocabulary) spells(b []byte) bool {
	return !slices.ContainsFunc(b, func(x byte) bool { return !v.units.bytes.has(x) })
}

// continues reports whether a character that a token has begun can always be ended.
func (v *Vocabulary) continues() bool {
	inner := byteRange(0x80, 0xbf)
	return v.units.bytes.and(inner) == inner
}

// endsInside reports whether a text ends inside a character.
func endsInside(text string) bool {
	for i := len(text) - 1; i >= 0 && len(text)-i <= utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			return !utf8.FullRuneInString(text[i:])
		}
	}
	return false
}
