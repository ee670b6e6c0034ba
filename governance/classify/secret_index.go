package classify

// secretTable holds what credentials begin with by the first character, and which three characters they begin with.
type secretTable struct {
	forms                [0x80][]secretForm
	urls, schemes, words [0x80][]string
	hanWords             []string
	three                [tripleSorts * tripleSorts * tripleSorts]bool
}

var secretIndex = indexSecrets() //nolint:gochecknoglobals // computed from constant tables

func indexSecrets() (t secretTable) {
	for _, f := range secretForms {
		t.forms[f.head[0]] = append(t.forms[f.head[0]], f)
		t.mark(f.head)
	}
	for _, list := range []struct {
		into  *[0x80][]string
		words []string
	}{{&t.urls, secretURLs}, {&t.schemes, schemes}, {&t.words, secretWords}} {
		for _, word := range list.words {
			if word[0] >= 0x80 {
				t.hanWords = append(t.hanWords, word)
				continue
			}
			list.into[word[0]] = append(list.into[word[0]], word)
			t.mark(word)
		}
	}
	for _, word := range []string{"eyj", "bearer", "basic"} {
		t.mark(word)
	}
	return t
}

// tripleSorts are the sorts of characters that are told apart: letters, digits, and all others.
const tripleSorts = 37

func tripleSort(r rune) int {
	switch {
	case isLetter(r):
		return int(r|0x20) - 'a'
	case isDigit(r):
		return int(r-'0') + 26
	}
	return 36
}

// mark says that a credential may begin with the first characters of a word.
func (t *secretTable) mark(word string) {
	at := (tripleSort(rune(word[0]))*tripleSorts + tripleSort(rune(word[1]))) * tripleSorts
	if len(word) > 2 {
		t.three[at+tripleSort(rune(word[2]))] = true
		return
	}
	for sort := range tripleSorts {
		t.three[at+sort] = true
	}
}

// begin reports whether a credential may begin at cell i, which is a letter. It is when that is not known yet.
func (t *secretTable) begin(w *window, i int) bool {
	second, third := w.at(i+1), w.at(i+2)
	if second == unknown || third == unknown {
		return true
	}
	return t.three[(tripleSort(w.at(i))*tripleSorts+tripleSort(second))*tripleSorts+tripleSort(third)]
}
