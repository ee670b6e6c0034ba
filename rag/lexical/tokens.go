package lexical

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"

	"github.com/sluice-project/sluice/internal/hanfold"
)

// maxToken bounds the bytes of one term; what is longer is no word and is left out.
const maxToken = 64

// Tokens returns the terms of a text, in order, on the side of documents and of queries alike.
//
// The text is normalised (NFKC, which also folds full-width forms), lower-cased, and traditional characters become simplified ones. Runs
// of Han, kana and Hangul give every character and every pair of neighbours. Other runs of letters and digits give the word, English
// words their stem. Runs joined by one of - _ . / : or by an apostrophe, such as model numbers, versions and times, are also kept whole,
// so that "A-12" and "Q235B" match as written.
func Tokens(text string) []string {
	var out []string
	analyze(text, func(term []byte) { out = append(out, string(term)) })
	return out
}

// EachTerm hands the terms of a text to each, in order, as [Tokens] has them. The bytes are only valid during the call.
func EachTerm(text string, each func(term []byte)) { analyze(text, each) }

// Fold returns the letters and digits of a text as terms have them, without anything between them: texts that differ in case, width,
// script, blanks or punctuation only are equal then.
func Fold(text string) string {
	folds := hanfold.Folding()
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) {
			return -1
		}
		return folds.Fold(r)
	}, norm.NFKC.String(strings.ToValidUTF8(text, " ")))
}

// analyze hands the terms of a text to emit, which must not keep them.
func analyze(text string, emit func(term []byte)) {
	t, folds := tokenizer{emit: emit}, hanfold.Folding()
	for _, r := range norm.NFKC.String(strings.ToValidUTF8(text, " ")) {
		t.rune(folds.Fold(r))
	}
	t.endWord()
	t.endHan()
}

type tokenizer struct {
	emit  func([]byte)
	pair  [2 * utf8.UTFMax]byte // the last character of a run of ideographs, and room for the next
	first int                   // bytes of the last character; 0 outside a run
	word  []byte                // the word being read
	joint rune                  // a joiner after the word, not known to continue it
	whole []byte                // the words before, with their joiners
	words []span                // of whole
}

// span is a word in tokenizer.whole.
type span struct{ start, end int }

func (t *tokenizer) rune(r rune) {
	switch {
	case ideograph(r):
		t.endWord()
		n := utf8.EncodeRune(t.pair[t.first:], r)
		t.emit(t.pair[t.first : t.first+n])
		if t.first > 0 {
			t.emit(t.pair[:t.first+n])
			copy(t.pair[:], t.pair[t.first:t.first+n])
		}
		t.first = n
	case unicode.IsLetter(r), unicode.IsDigit(r), len(t.word) > 0 && unicode.Is(unicode.M, r):
		t.endHan()
		if t.joint != 0 {
			t.whole = utf8.AppendRune(t.whole, t.joint)
			t.joint = 0
		}
		t.word = utf8.AppendRune(t.word, r)
	case len(t.word) > 0 && t.joint == 0 && strings.ContainsRune("-_./:'’", r):
		t.keepWord()
		t.joint = r
	case t.joint != 0 || len(t.word) > 0:
		t.endWord()
	default:
		t.endHan()
	}
}

func (t *tokenizer) endHan() { t.first = 0 }

// keepWord appends the word to whole.
func (t *tokenizer) keepWord() {
	t.words = append(t.words, span{len(t.whole), len(t.whole) + len(t.word)})
	t.whole = append(t.whole, t.word...)
	t.word = t.word[:0]
}

// endWord emits what was read since the last break.
func (t *tokenizer) endWord() {
	if len(t.word) > 0 {
		t.keepWord()
	}
	if len(t.words) > 1 && len(t.whole) <= maxToken {
		t.emit(t.whole)
	}
	for _, w := range t.words {
		if w.end-w.start <= maxToken {
			t.emit(stem(t.whole[w.start:w.end]))
		}
	}
	t.whole, t.words, t.joint = t.whole[:0], t.words[:0], 0
}

// stem returns the stem of an English word; words with other characters are their own.
func stem(w []byte) []byte {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return w
		}
	}
	return []byte(english.Stem(string(w), true))
}

// ideograph reports whether words are written without blanks in r's script.
func ideograph(r rune) bool {
	if r < 0x1100 {
		return false
	}
	return 0x4e00 <= r && r <= 0x9fff || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r == '々' || r == 'ー'
}
