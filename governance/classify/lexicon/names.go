package lexicon

import (
	_ "embed" // the data files
	"slices"
	"strings"
	"sync"
)

// Tier says how usual a surname or a character of a given name is.
type Tier uint8

// The tiers.
const (
	None   Tier = iota // not in the list
	Rare               // seen now and then
	Usual              // in any register of some thousand names
	Common             // surnames: the hundred most borne; given names: typical
)

//go:embed data/surnames.txt
var surnameText string

//go:embed data/given.txt
var givenText string

//go:embed data/givenwords.txt
var givenWordText string

//go:embed data/namesakes.txt
var namesakeText string

// Bits of a character in the table of names.
const (
	surnameBits = 0b11 // a Tier
	wordBit     = 0b100
	givenShift  = 3 // two bits, a Tier
	startsBit   = 0b100000
)

// names is the table of single characters, and the surnames of several.
type names struct {
	chars    [hanCount]uint8
	compound *trie
}

var loadNames = sync.OnceValue(func() *names {
	t := new(names)
	var compounds []entry
	for _, s := range sections(surnameText) {
		switch s.key {
		case "common":
			t.set(s, uint8(Common))
		case "usual", "traditional":
			t.set(s, uint8(Usual))
		case "rare":
			t.set(s, uint8(Rare))
		case "word":
			t.set(s, wordBit)
		case "compound":
			for _, w := range s.words {
				word := []rune(w)
				compounds = append(compounds, entry{word, uint16(Usual)})
				t.add("surnames.txt", word[0], startsBit)
			}
		default:
			malformed("surnames.txt", s.key)
		}
	}
	t.compound = newTrie(compounds)
	for _, s := range sections(givenText) {
		tier := strings.Index("123", s.key) + 1
		if s.key == "" || tier == 0 {
			malformed("given.txt", s.key)
		}
		t.set(s, uint8(tier)<<givenShift)
	}
	return t
})

func (t *names) set(s section, bits uint8) {
	for _, w := range s.words {
		for _, r := range w {
			t.add(s.key, r, bits)
		}
	}
}

func (t *names) add(list string, r rune, bits uint8) {
	i, ok := Place(r)
	if !ok {
		malformed(list, string(r))
	}
	t.chars[i] |= bits
}

// Surname returns the length of the longest surname that text begins with, and how usual it is. A compound surname (欧阳) wins over the
// single one it begins with, and counts as Usual. Simplified and traditional forms are known.
func Surname(text []rune) (n int, tier Tier) {
	if len(text) == 0 {
		return 0, None
	}
	i, ok := Place(text[0])
	if !ok {
		return 0, None
	}
	t := loadNames()
	bits := t.chars[i]
	if bits&startsBit != 0 {
		if n, _ := t.compound.longest(text); n > 0 {
			return n, Usual
		}
	}
	if tier = Tier(bits & surnameBits); tier == None {
		return 0, None
	}
	return 1, tier
}

// BeginsWords reports whether a surname character also begins so many ordinary words (高 时 和 于 方) that alone it says next to nothing.
func BeginsWords(r rune) bool {
	i, ok := Place(r)
	return ok && loadNames().chars[i]&wordBit != 0
}

// Given says how typical a character is of given names.
func Given(r rune) Tier {
	i, ok := Place(r)
	if !ok {
		return None
	}
	return Tier(loadNames().chars[i] >> givenShift & 0b11)
}

var loadGivenWords = sync.OnceValue(func() [2]*trie {
	var entries [2][]entry
	for _, s := range sections(givenWordText) {
		i := slices.Index([]string{"given", "full"}, s.key)
		if i < 0 {
			malformed("givenwords.txt", s.key)
		}
		for _, w := range s.words {
			entries[i] = append(entries[i], entry{[]rune(w), 1})
		}
	}
	return [2]*trie{newTrie(entries[0]), newTrie(entries[1])}
})

// GivenWord returns the length of the longest ordinary word that text begins with and that is also borne as a given name (建国 光明 国庆),
// or 0. Such a word behind a surname is no reason against a name, although Ordinary knows it.
func GivenWord(text []rune) int {
	n, _ := loadGivenWords()[0].longest(text)
	return n
}

// FullNameWord returns the length of the longest ordinary word that text begins with and that people are called by surname and given
// name (高峰 江涛 白雪), or that is the name of a figure of history (李白), or 0. Without a cue it is the word; behind a label or before a
// title it may be the person.
func FullNameWord(text []rune) int {
	n, _ := loadGivenWords()[1].longest(text)
	return n
}

// Namesakes returns the words and fixed terms that begin like a name, surname first, and name no private person: figures of history
// (诸葛亮), plants (白玉兰), brands (周大福), places and words of trades.
func Namesakes() (terms []string) {
	for _, s := range sections(namesakeText) {
		terms = append(terms, s.words...)
	}
	return terms
}
