package lexical

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-project/sluice/internal/hanfold"
)

// Unit is the smallest part of a text that terms are compared by: a character of a script that is written without blanks, or the stem of a word. The zero text
// is a break, such as the end of a sentence, that no term runs across.
type Unit struct {
	Text       string
	Start, End int // bytes of the folded text
}

// Units returns a text as [Tokens] fold it, with everything that stands between words, and the units of it in order. Blanks and the joiners of words are neither
// units nor breaks, so "e-mail" and "e mail" have the same ones. The folded text has the tokens of the text.
func Units(text string) (folded string, units []Unit) {
	var b strings.Builder
	b.Grow(len(text))
	folds := hanfold.Folding()
	for _, r := range norm.NFKC.String(strings.ToValidUTF8(text, " ")) {
		b.WriteRune(folds.Fold(r))
	}
	folded = b.String()
	word := -1
	between := false // a joiner was read that only counts as one if a word follows at once
	endWord := func(end int) {
		if word >= 0 {
			units = append(units, Unit{string(stem([]byte(folded[word:end]))), word, end})
			word = -1
		}
	}
	rest := func(at int) { // what is neither word nor blank divides
		if n := len(units); n > 0 && units[n-1].Text != "" {
			units = append(units, Unit{"", at, at})
		}
	}
	for at, r := range folded {
		switch {
		case ideograph(r):
			endWord(at)
			units = append(units, Unit{string(r), at, at + utf8.RuneLen(r)})
			between = false
		case unicode.IsLetter(r), unicode.IsDigit(r), word >= 0 && unicode.Is(unicode.M, r):
			if word < 0 {
				word = at
			}
			between = false
		case word >= 0 && strings.ContainsRune("-_./:'’", r):
			endWord(at)
			between = true
		case unicode.IsSpace(r) && !between:
			endWord(at)
		default:
			endWord(at)
			rest(at)
			between = false
		}
	}
	endWord(len(folded))
	return folded, units
}
