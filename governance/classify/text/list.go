package text

import (
	"slices"
	"unicode/utf8"
)

// List is a list of words that are looked for often.
type List struct {
	Words  []string
	First  []rune     // characters that they begin with
	Begins [][]string // the words of each
	Last   *RuneSet   // characters that they end with
}

// ListOf returns a list of words.
func ListOf(words ...string) *List {
	list, last := &List{Words: words}, ""
	for _, word := range words {
		r, _ := utf8.DecodeRuneInString(word)
		at := slices.Index(list.First, r)
		if at < 0 {
			at = len(list.First)
			list.First, list.Begins = append(list.First, r), append(list.Begins, nil)
		}
		list.Begins[at] = append(list.Begins[at], word)
		r, _ = utf8.DecodeLastRuneInString(word)
		last += string(r)
	}
	list.Last = RunesOf(last)
	return list
}
