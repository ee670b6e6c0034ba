package lexicon

import (
	_ "embed" // the data file
	"slices"
	"sync"
)

// Cue is a set of the ways in which a word points at a person's name beside it.
type Cue uint16

// The kinds of cues.
const (
	Label       Cue = 1 << iota // before a name, a form's field or a role: 姓名 联系人 患者 被告人
	TitleAfter                  // behind a name or surname: 先生 主任 法官 师傅
	TitleBefore                 // before a name: 院长 律师 村民 尊敬的
	Relation                    // before or behind a name: 爱人 儿子 其妻
	Verb                        // before a name, verbs and prepositions: 我叫 联系 请 给
	Next                        // behind a name, words that usually go on: 说 表示 来电 的
)

// Kinds of cues that stand before a name, and behind one.
const (
	before = Label | TitleBefore | Relation | Verb
	behind = TitleAfter | Relation | Next
)

//go:embed data/cues.txt
var cueText string

// cues are the lists of data/cues.txt and two tries of them, that of the words before a name reversed.
type cues struct {
	lists  []cueList
	before *trie
	behind *trie
}

type cueList struct {
	cue   Cue
	words []string
}

var loadCues = sync.OnceValue(func() *cues {
	t := new(cues)
	var left, right []entry
	for _, s := range sections(cueText) {
		i := slices.Index([]string{"label", "after", "before", "relation", "verb", "next"}, s.key)
		if i < 0 {
			malformed("cues.txt", s.key)
		}
		cue := Cue(1) << i
		t.lists = append(t.lists, cueList{cue, s.words})
		for _, w := range s.words {
			if cue&behind != 0 {
				right = append(right, entry{[]rune(w), uint16(cue)})
			}
			if cue&before != 0 {
				word := []rune(w)
				slices.Reverse(word)
				left = append(left, entry{word, uint16(cue)})
			}
		}
	}
	t.before, t.behind = newTrie(left), newTrie(right)
	return t
})

// CueBefore returns the length of the longest cue before names that text ends with, and what it is: give it the text up to a name. A
// label's colon is the caller's to skip.
func CueBefore(text []rune) (n int, cue Cue) {
	n, value := loadCues().before.longestBack(text)
	return n, Cue(value)
}

// CueBehind returns the length of the longest cue behind names that text begins with, and what it is: give it the text from a name's end.
func CueBehind(text []rune) (n int, cue Cue) {
	n, value := loadCues().behind.longest(text)
	return n, Cue(value)
}

// Cues returns a copy of the words of one kind, in the order of how much they say.
func Cues(cue Cue) []string {
	for _, l := range loadCues().lists {
		if l.cue == cue {
			return slices.Clone(l.words)
		}
	}
	return nil
}
