package mask

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
)

// Token is a pseudonym that stands in a text, in bytes. Whether it stands for anything is not known.
type Token struct {
	Start, End int
	Code       string
	Whole      bool // between the right marks: it is meant as a pseudonym, whatever it stands for
}

// Tokens finds what reads as a pseudonym, in every spelling that a [Restorer] accepts, with the tags of set where marks are lost.
func Tokens(set *classify.Set, text string) []Token {
	r, tags := reader{text: text, final: true}, tagsOf(set)
	var out []Token
	for i := 0; i < len(text); {
		m, v := r.pseudonym(i, tags)
		if v == yes {
			out = append(out, Token{Start: i, End: m.end, Code: m.code, Whole: m.exact})
			i = m.end
			continue
		}
		_, size := r.at(i)
		i += size
	}
	return out
}

// Code returns the code of one pseudonym, or s itself if it is a bare code; ok is false for anything else.
func Code(set *classify.Set, s string) (code string, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) == codeSize && strings.Trim(strings.ToUpper(s), alphabet) == "" {
		return strings.ToUpper(s), true
	}
	if found := Tokens(set, s); len(found) == 1 && found[0].Start == 0 && found[0].End == len(s) {
		return found[0].Code, true
	}
	return "", false
}

// Whole returns a masked text that was cut somewhere, without the pseudonym that its end has cut off, if it has.
func Whole(text string) string {
	open := strings.LastIndexAny(text, "⟦〚")
	if open < 0 || strings.ContainsAny(text[open:], "⟧〛") || utf8.RuneCountInString(text[open:]) > 2*maxContent {
		return text
	}
	return text[:open]
}
