package classify

import "github.com/sluice-project/sluice/governance/classify/lexicon"

// How far the model looks at words.
const (
	wordsLeft  = 4
	wordsRight = 8
)

// lattice is the Chinese text around a start with all words in it, and the cheapest ways through it from either end.
type lattice struct {
	r          [wordsLeft + wordsRight]rune
	n, origin  int
	words      [wordsLeft + wordsRight][4]lexicon.WordCost
	to, from   [wordsLeft + wordsRight + 1]int   // what the words up to here cost, and those from here on
	last, next [wordsLeft + wordsRight + 1]uint8 // length of the last word up to here, and of the first one from here on
}

// fill reads the text around the start. It is ready unless n.open is set.
func (l *lattice) fill(n *namer) {
	left := 0
	for left < wordsLeft && isHan(n.w.at(n.start-left-1)) && n.start-left > n.w.named.end {
		left++
	}
	l.origin, l.n = left, 0
	for k := n.start - left; l.n < left+wordsRight; k++ {
		r := n.cell(k)
		if !isHan(r) {
			break
		}
		l.r[l.n] = r
		l.n++
	}
	if n.open {
		return
	}
	for i := range l.n {
		lexicon.WordCosts(l.r[i:l.n], &l.words[i])
	}
	for i := 1; i <= l.n; i++ {
		l.to[i] = 1 << 20
		for size := 1; size <= min(4, i); size++ {
			w := l.words[i-size][size-1]
			if c := l.to[i-size] + int(w.Cost); w.Part != 0 && c < l.to[i] {
				l.to[i], l.last[i] = c, uint8(size)
			}
		}
	}
	l.from[l.n] = 0
	for i := l.n - 1; i >= 0; i-- {
		l.from[i] = 1 << 20
		for size := 1; size <= min(4, l.n-i); size++ {
			w := l.words[i][size-1]
			if c := l.from[i+size] + int(w.Cost); w.Part != 0 && c < l.from[i] {
				l.from[i], l.next[i] = c, uint8(size)
			}
		}
	}
}
