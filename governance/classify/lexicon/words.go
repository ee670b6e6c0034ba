package lexicon

import (
	_ "embed" // the data file
	"sync"
)

//go:embed data/words.txt
var wordText string

var loadWords = sync.OnceValue(func() *trie {
	var entries []entry
	for _, s := range sections(wordText) {
		for _, rest := range s.words[1:] {
			entries = append(entries, entry{[]rune(s.words[0] + rest), 1})
		}
	}
	return newTrie(entries)
})

// Ordinary returns the length of the longest ordinary word of at least two characters that text begins with, or 0. The list is richest
// in words that begin with a surname character (高兴 方法 时间) and could be read as a name; to ask whether a whole slice is one word,
// compare the answer with its length.
func Ordinary(text []rune) int {
	n, _ := loadWords().longest(text)
	return n
}
