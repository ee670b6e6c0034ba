package secret

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/text"
)

// prefixTable holds what credentials begin with by the first character, and which three characters of ASCII they begin with.
type prefixTable struct {
	forms       [0x80][]form
	urls        [0x80][]string
	keys, inner [0x80][]keyName // inner are those that may be the end of a word
	han         map[rune][]string
	three       [tripleSorts * tripleSorts * tripleSorts]bool
}

var prefixes = indexPrefixes()

func indexPrefixes() (t prefixTable) {
	for _, f := range forms {
		t.forms[f.head[0]] = append(t.forms[f.head[0]], f)
		t.mark(f.head)
	}
	for _, url := range urls {
		t.urls[url[0]] = append(t.urls[url[0]], url)
		t.mark(url)
	}
	for word := range strings.FieldsSeq(secretKeys + weakSecretKeys) {
		key := keyName{word, strings.Contains(weakSecretKeys, " "+word+" ")}
		t.keys[word[0]] = append(t.keys[word[0]], key)
		if strings.Contains(innerSecretKeys, " "+word+" ") {
			t.inner[word[0]] = append(t.inner[word[0]], key)
		}
		t.mark(word)
	}
	t.han = map[rune][]string{}
	for word := range strings.FieldsSeq(hanSecretWords) {
		first, _ := utf8.DecodeRuneInString(word)
		t.han[first] = append(t.han[first], word)
	}
	for _, word := range slices.Concat(logins, loginNames, []string{"eyj", "bearer", "basic"}) {
		t.mark(word)
	}
	return t
}

// tripleSorts are the sorts of characters that are told apart: letters, digits, and all others.
const tripleSorts = 37

func tripleSort(r rune) int {
	switch {
	case text.IsLetter(r):
		return int(r|0x20) - 'a'
	case text.IsDigit(r):
		return int(r-'0') + 26
	}
	return tripleSorts - 1
}

// mark says that a credential may begin with the first characters of a word.
func (t *prefixTable) mark(word string) {
	at := (tripleSort(rune(word[0]))*tripleSorts + tripleSort(rune(word[1]))) * tripleSorts
	if len(word) > 2 && word[2] != '_' {
		t.three[at+tripleSort(rune(word[2]))] = true
		return
	}
	for sort := range tripleSorts { // the underscore of a key may be missing
		t.three[at+sort] = true
	}
}

// mayBegin reports whether a credential may begin at cell i, which is a letter or a digit. It is when that is not known yet.
func (t *prefixTable) mayBegin(w *Detector, i int) bool {
	second, third := w.At(i+1), w.At(i+2)
	if second == text.Unknown || third == text.Unknown {
		return true
	}
	return t.three[(tripleSort(w.At(i))*tripleSorts+tripleSort(second))*tripleSorts+tripleSort(third)]
}
