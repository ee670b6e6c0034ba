package lexical

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// maxToken bounds the bytes of one term; what is longer is no word and is left out.
const maxToken = 64

// Tokens returns the terms of a text, in order, on the side of documents and of queries alike.
//
// The text is normalised (NFKC, which also folds full-width forms) and lower-cased. Runs of Han, kana and Hangul give every
// character and every pair of neighbours. Other runs of letters and digits give the word, English words their stem. Runs joined by
// one of - _ . / : or by an apostrophe, such as model numbers, versions and times, are also kept whole, so that "A-12" and "Q235B"
// match as written.
func Tokens(text string) []string {
	var t tokenizer
	for _, r := range norm.NFKC.String(strings.ToValidUTF8(text, " ")) {
		t.rune(unicode.ToLower(r))
	}
	t.endWord()
	t.endHan()
	return t.out
}

type tokenizer struct {
	out   []string
	han   rune     // the last character of a run of ideographs, 0 outside
	word  []byte   // the word being read
	joint rune     // a joiner after the word, not known to continue it
	whole []byte   // the words before, with their joiners
	words []string // the words in whole
}

func (t *tokenizer) rune(r rune) {
	switch {
	case ideograph(r):
		t.endWord()
		t.out = append(t.out, string(r))
		if t.han != 0 {
			t.out = append(t.out, string([]rune{t.han, r}))
		}
		t.han = r
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.Is(unicode.M, r) && len(t.word) > 0:
		t.endHan()
		if t.joint != 0 {
			t.whole = utf8.AppendRune(t.whole, t.joint)
			t.joint = 0
		}
		t.word = utf8.AppendRune(t.word, r)
	case len(t.word) > 0 && t.joint == 0 && strings.ContainsRune("-_./:'’", r):
		t.whole = append(t.whole, t.word...)
		t.words = append(t.words, string(t.word))
		t.word = t.word[:0]
		t.joint = r
	case t.joint != 0 || len(t.word) > 0:
		t.endWord()
	default:
		t.endHan()
	}
}

func (t *tokenizer) endHan() { t.han = 0 }

// endWord emits what was read since the last break.
func (t *tokenizer) endWord() {
	if len(t.word) > 0 {
		t.words = append(t.words, string(t.word))
		t.whole = append(t.whole, t.word...)
	}
	if len(t.words) > 1 && len(t.whole) <= maxToken {
		t.out = append(t.out, string(t.whole))
	}
	for _, p := range t.words {
		if len(p) <= maxToken {
			t.out = append(t.out, stem(p))
		}
	}
	t.word, t.whole, t.words, t.joint = t.word[:0], t.whole[:0], t.words[:0], 0
}

// stem returns the stem of an English word; words with other characters are their own.
func stem(w string) string {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return w
		}
	}
	return english.Stem(w, true)
}

// ideograph reports whether words are written without blanks in r's script.
func ideograph(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r == '々' || r == 'ー'
}
