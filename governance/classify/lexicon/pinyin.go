package lexicon

import (
	"strings"
	"sync"
)

// What the syllables of pinyin are made of.
const (
	initials = "b p m f d t n l g k h j q x zh ch sh r z c s y w"
	finals   = "a o e i u v ai ei ui ao ou iu ie ue ve er an en in un vn ang eng ing ong ia iao ian iang iong ua uo uai uan uang"
)

// Pinyin returns the syllables of pinyin, without tones.
var Pinyin = sync.OnceValue(func() *Syllables {
	s := new(Syllables)
	for _, f := range strings.Fields(finals) {
		if strings.ContainsAny(f[:1], "aoe") {
			s.add(f)
		}
		for _, i := range strings.Fields(initials) {
			if syllable(i, f) {
				s.add(i + f)
			}
		}
	}
	return s
})

// syllable reports whether an initial and a final go together, near enough.
func syllable(initial, final string) bool {
	palatal := strings.Contains("jqx", initial)
	switch {
	case palatal:
		return strings.HasPrefix(final, "i") || final == "u" || final == "un" || final == "uan" || final == "ue"
	case strings.Contains("zh ch sh r z c s", initial) && initial != "c s":
		return !strings.HasPrefix(final, "ia") && !strings.HasPrefix(final, "v") && final != "ie" && final != "in" && final != "ing" && final != "iu" && final != "iong" && final != "ue"
	case initial == "y":
		return strings.Contains(" a ao an ang e i in ing o ong ou u uan ue un ", " "+final+" ")
	case initial == "w":
		return strings.Contains(" a ai an ang ei en eng o u ", " "+final+" ")
	case strings.Contains("g k h", initial):
		return !strings.HasPrefix(final, "i") && !strings.HasPrefix(final, "v") && final != "ue" && final != "o"
	case strings.Contains("b p m f", initial):
		return !strings.HasPrefix(final, "v") && (!strings.HasPrefix(final, "u") || final == "u") && final != "ong" && final != "iong" && final != "ia" && final != "iang" && final != "e" && (initial != "f" || !strings.HasPrefix(final, "i"))
	}
	return final != "iong" && final != "ue" && final != "ua" && final != "uai" && final != "uang" && !(final == "o" && initial != "l")
}

// Spell reports whether a word is one to most syllables. It has small letters only.
func (s *Syllables) Spell(word []byte, most int) bool {
	if len(word) == 0 {
		return true
	}
	for size := min(6, len(word)); size >= 1 && most > 0; size-- {
		if s.has(word[:size]) && s.Spell(word[size:], most-1) {
			return true
		}
	}
	return false
}

// Syllables is a set of up to six small letters each: a table with open addressing.
type Syllables [2048]uint32

func (s *Syllables) add(syllable string) {
	*s.slot(packed([]byte(syllable))) = packed([]byte(syllable))
}

func (s *Syllables) has(syllable []byte) bool { return *s.slot(packed(syllable)) != 0 }

// slot returns the place of a syllable, which is empty if it is not in the set.
func (s *Syllables) slot(key uint32) *uint32 {
	i := key * 0x9e3779b1 >> 21
	for s[i] != 0 && s[i] != key {
		i = (i + 1) % uint32(len(s))
	}
	return &s[i]
}

// packed holds letters in five bits each.
func packed(letters []byte) (key uint32) {
	for _, c := range letters {
		key = key<<5 | uint32(c-'a'+1)
	}
	return key
}
