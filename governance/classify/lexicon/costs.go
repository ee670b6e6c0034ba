package lexicon

import (
	_ "embed" // the data files
	"math/bits"
	"strings"
	"sync"
)

//go:embed data/costs.txt
var costText string

//go:embed data/namecosts.txt
var nameCostText string

// rarest is what a word costs that is in no list: costs are -ln of the share of a word among all words, in halves.
const rarest = 45

// WordCost says how rare a word is and what part of speech, as a letter: a adjective, c conjunction, d adverb, i idiom, m number, n noun, p
// preposition, q measure, r pronoun, s place, t time, u particle, N the name of a person or what looks like one, v verb, w verb as a noun, y interjection, x unknown and others. Part 0: no word.
type WordCost struct{ Cost, Part uint8 }

// Usual reports whether the word is one of those that a text of some sixty thousand words has.
func (w WordCost) Usual() bool { return w.Part != 0 && w.Cost <= 27 }

// NamePlace is a place of a character in a name.
type NamePlace uint8

// The places.
const (
	AsSurname NamePlace = iota
	AsSingle            // the one character of a given name
	AsFirst             // the first of two
	AsSecond
	places
)

// CostTable holds what the words of up to four characters cost, and characters in names. The words that begin with one character lie close
// together: a text is looked at character by character, and what a lookup costs is mostly the way to memory.
type CostTable struct {
	first  [hanCount]firstOf            // by place
	pairs  []uint32                     // a hash table for each first character, of the second ones
	longer []uint64                     // one of third and fourth characters
	names  [hanCount][places]uint8      // by place
	usual  [1 << (usualBits - 6)]uint64 // bits of the usual words of two characters
}

// firstOf is a character as a word, and where its table of pairs lies.
type firstOf struct {
	at   uint32
	bits uint8 // its length is 1<<bits; 0: no word begins so
	word WordCost
}

// A slot of a table holds, from the lowest bits on, a WordCost, whether longer words begin so, and its key: in pairs the second character,
// in longer a character and the slot of what stands before it, those of pairs first. 0 is empty.
const (
	costBits   = 6
	partBits   = 6
	goesOn     = 1 << (costBits + partBits)
	keyShift   = costBits + partBits + 1
	charBits   = 15 // of a character in a key: its index plus one
	longerBits = 17
	usualBits  = 18 // some thirty times as many as there are usual words
)

func (w WordCost) packed() uint32 {
	if w.Part == 0 {
		return 0
	}
	return uint32(w.Cost) | uint32(w.Part-'@')<<costBits
}

func unpack(slot uint32) (w WordCost) {
	if part := slot >> costBits & (1<<partBits - 1); part != 0 {
		w = WordCost{uint8(slot & (1<<costBits - 1)), uint8(part) + '@'}
	}
	return w
}

// pair returns where a second character is, or may be put, behind a first one that has pairs.
func (t *CostTable) pair(f *firstOf, second uint32) uint32 {
	mask := uint32(1)<<f.bits - 1
	for i := second * 0x9e3779b1 >> (32 - f.bits); ; i = (i + 1) & mask {
		if key := t.pairs[f.at+i] >> keyShift; key == second || key == 0 {
			return f.at + i
		}
	}
}

// further is pair for a character behind the word of a slot.
func (t *CostTable) further(before, char uint32) uint32 {
	want := uint64(before)<<charBits | uint64(char)
	for i := want * 0x9e3779b97f4a7c15 >> (64 - longerBits); ; i = (i + 1) & (1<<longerBits - 1) {
		if key := t.longer[i] >> keyShift; key == want || key == 0 {
			return uint32(i)
		}
	}
}

// Costs returns the table, which is made when it is first asked for.
func Costs() *CostTable { return loadCosts() }

var loadCosts = sync.OnceValue(func() *CostTable {
	t := &CostTable{longer: make([]uint64, 1<<longerBits)}
	type entry struct {
		word []rune
		cost WordCost
	}
	var entries []entry
	for line := range strings.Lines(costText) {
		first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if first == "#" {
			continue
		}
		for w := range strings.SplitSeq(rest, " ") {
			if len(w) < 2 {
				malformed("costs.txt", w)
			}
			entries = append(entries, entry{[]rune(first + w[:len(w)-2]), WordCost{costOf(w[len(w)-2]), w[len(w)-1]}})
		}
	}
	seconds := map[rune]map[rune]bool{}
	for _, e := range entries {
		if f := e.word[0]; len(e.word) > 1 {
			if seconds[f] == nil {
				seconds[f] = map[rune]bool{}
			}
			seconds[f][e.word[1]] = true
		}
	}
	for r := rune(hanFirst); r < hanFirst+hanCount; r++ {
		if n := len(seconds[r]); n > 0 {
			place, _ := Place(r)
			f := &t.first[place]
			f.at, f.bits = uint32(len(t.pairs)), uint8(bits.Len(uint(n+n/2)))
			t.pairs = append(t.pairs, make([]uint32, 1<<f.bits)...)
		}
	}
	for _, e := range entries {
		t.add(e.word, e.cost)
	}
	for place := range t.names {
		t.names[place] = [places]uint8{rarest, rarest, rarest, rarest}
	}
	for _, s := range sections(nameCostText) {
		name := s.key[:len(s.key)-1]
		for p, want := range [places]string{"surname", "single", "first", "second"} {
			if name != want {
				continue
			}
			for _, w := range s.words {
				for _, r := range w {
					place, ok := Place(r)
					if !ok {
						malformed("namecosts.txt", string(r))
					}
					t.names[place][p] = costOf(s.key[len(s.key)-1])
				}
			}
		}
	}
	return t
})

func costOf(c byte) uint8 {
	n := strings.IndexByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ!$%&()*+,-", c)
	if n < 0 {
		malformed("costs", string(c))
	}
	return uint8(n)
}

// add adds a word of up to four characters to tables that have room for it.
func (t *CostTable) add(word []rune, c WordCost) {
	var char [4]uint32
	for n, r := range word {
		i, ok := hanIndex(r)
		if !ok || n >= len(char) {
			malformed("costs.txt", string(word))
		}
		char[n] = uint32(i + 1)
	}
	place, _ := Place(word[0])
	f := &t.first[place]
	if len(word) == 1 {
		f.word = c
		return
	}
	before := t.pair(f, char[1])
	slot := &t.pairs[before]
	*slot |= char[1] << keyShift
	if len(word) == 2 {
		*slot |= c.packed()
		if c.Usual() {
			h := usualHash(place, word[1])
			t.usual[h>>6] |= 1 << (h & 63)
		}
		return
	}
	*slot |= goesOn
	for n, char := range char[2:len(word)] {
		at := t.further(before, char)
		slot := &t.longer[at]
		*slot |= (uint64(before)<<charBits | uint64(char)) << keyShift
		if n+3 == len(word) {
			*slot |= uint64(c.packed())
		} else {
			*slot |= goesOn
		}
		before = uint32(len(t.pairs)) + at
	}
}

// Words tells which words of one to four characters text begins with: out[n-1] is the one of n characters. A single character always has
// a cost.
func (t *CostTable) Words(text []rune, out *[4]WordCost) {
	*out = [4]WordCost{{rarest, 'x'}}
	if len(text) == 0 {
		return
	}
	place, ok := Place(text[0])
	if !ok {
		return
	}
	f := &t.first[place]
	if f.word.Part != 0 {
		out[0] = f.word
	}
	if len(text) == 1 || f.bits == 0 {
		return
	}
	second, ok := hanIndex(text[1])
	if !ok {
		return
	}
	before := t.pair(f, uint32(second+1))
	slot := t.pairs[before]
	out[1] = unpack(slot)
	for n := 2; n < min(len(text), len(out)) && slot&goesOn != 0; n++ {
		i, ok := hanIndex(text[n])
		if !ok {
			return
		}
		at := t.further(before, uint32(i+1))
		slot = uint32(t.longer[at] & (1<<keyShift - 1))
		out[n] = unpack(slot)
		before = uint32(len(t.pairs)) + at
	}
}

// Pair is the word of two characters, if they are one: of that at a [Place], and second.
func (t *CostTable) Pair(first int, second rune) WordCost {
	f := &t.first[first]
	i, common := hanIndex(second)
	if !common || f.bits == 0 {
		return WordCost{}
	}
	return unpack(t.pairs[t.pair(f, uint32(i+1))])
}

// UsualPair reports whether two characters are a usual word, sooner than [CostTable.Pair]: a small filter knows of most that they are none.
func (t *CostTable) UsualPair(first int, second rune) bool {
	h := usualHash(first, second)
	return t.usual[h>>6]>>(h&63)&1 != 0 && t.Pair(first, second).Usual()
}

func usualHash(first int, second rune) uint32 {
	return (uint32(first)<<15 ^ uint32(second)) * 0x9e3779b1 >> (32 - usualBits)
}

// Name says how rare a character is at a place of a name, as costs of words do.
func (t *CostTable) Name(r rune, p NamePlace) int {
	place, ok := Place(r)
	if !ok {
		return rarest
	}
	return int(t.names[place][p])
}
