package lexicon

import (
	_ "embed" // the data files
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

// costs is a hash table of words of up to four characters, and what characters cost in names.
type costs struct {
	keys   []uint64
	words  []WordCost
	single [hanCount]WordCost // words of one character, by its place
	places [places][hanCount]uint8
}

const (
	costBits = 18
	keyBits  = 15     // of a character in a key: its index plus one
	begins   = 1 << 7 // in Cost: longer words begin so
)

var loadCosts = sync.OnceValue(func() *costs {
	t := &costs{keys: make([]uint64, 1<<costBits), words: make([]WordCost, 1<<costBits)}
	for line := range strings.Lines(costText) {
		first, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if first == "#" {
			continue
		}
		for w := range strings.SplitSeq(rest, " ") {
			if len(w) < 2 {
				malformed("costs.txt", w)
			}
			t.add([]rune(first+w[:len(w)-2]), WordCost{costOf(w[len(w)-2]), w[len(w)-1]})
		}
	}
	for i := range hanCount {
		place, _ := Place(rune(hanFirst + i))
		t.single[place] = t.words[t.slot(uint64(i+1))]
	}
	for p := range t.places {
		for r := range t.places[p] {
			t.places[p][r] = rarest
		}
	}
	for _, s := range sections(nameCostText) {
		name := s.key[:len(s.key)-1]
		for p, want := range [places]string{"surname", "single", "first", "second"} {
			if name != want {
				continue
			}
			for _, w := range s.words {
				for _, r := range w {
					i, ok := hanIndex(r)
					if !ok {
						malformed("namecosts.txt", string(r))
					}
					t.places[p][i] = costOf(s.key[len(s.key)-1])
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

func (t *costs) add(word []rune, c WordCost) {
	key := uint64(0)
	for n, r := range word {
		i, ok := hanIndex(r)
		if !ok || n > 3 {
			malformed("costs.txt", string(word))
		}
		key = key<<keyBits | uint64(i+1)
		at := t.slot(key)
		t.keys[at] = key
		if n == len(word)-1 {
			t.words[at] = WordCost{c.Cost | t.words[at].Cost&begins, c.Part}
		} else {
			t.words[at].Cost |= begins
		}
	}
}

func (t *costs) slot(key uint64) int {
	at := int(key * 0x9e3779b97f4a7c15 >> (64 - costBits))
	for t.keys[at] != key && t.keys[at] != 0 {
		at = (at + 1) & (1<<costBits - 1)
	}
	return at
}

// WordCosts tells which words of one to four characters text begins with: out[n-1] is the one of n characters. A single character always has
// a cost.
func WordCosts(text []rune, out *[4]WordCost) {
	t := loadCosts()
	*out = [4]WordCost{}
	key := uint64(0)
	for n := 0; n < min(len(text), len(out)); n++ {
		i, ok := hanIndex(text[n])
		if !ok {
			break
		}
		key = key<<keyBits | uint64(i+1)
		var c WordCost
		if n == 0 {
			c = t.single[hanPlaces[i]]
		} else {
			c = t.words[t.slot(key)]
		}
		out[n] = WordCost{c.Cost &^ begins, c.Part}
		if c.Cost&begins == 0 {
			break
		}
	}
	if out[0].Part == 0 {
		out[0] = WordCost{rarest, 'x'}
	}
}

// NameCost says how rare a character is at a place of a name, as costs of words do.
func NameCost(r rune, p NamePlace) int {
	i, ok := hanIndex(r)
	if !ok {
		return rarest
	}
	return int(loadCosts().places[p][i])
}
