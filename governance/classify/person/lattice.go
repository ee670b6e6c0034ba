package person

import (
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

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

// knownCosts are the words that begin at a cell.
type knownCosts struct {
	behind text.Place // behind the cell, 0: none
	words  [4]lexicon.WordCost
}

// wordCosts returns the words that begin at cell k, of most characters that follow. Starts of names share them.
func (w *Detector) wordCosts(k, most int, out *[4]lexicon.WordCost) {
	costs := w.nameTables().costs
	known, behind := &w.costs[k%len(w.costs)], w.Place(k+1)
	if known.behind != behind {
		var r [4]rune
		size := 0
		for size < len(r) && text.IsHan(w.At(k+size)) {
			r[size] = w.At(k + size)
			size++
		}
		if size < len(r) && w.At(k+size) == text.Unknown {
			costs.Words(r[:min(size, most)], out)
			return
		}
		known.behind = behind
		costs.Words(r[:size], &known.words)
	}
	*out = known.words
	for size := most; size < len(out); size++ {
		out[size] = lexicon.WordCost{}
	}
}

// fill reads the text around the start. It is ready unless n.open is set.
func (l *lattice) fill(n *namer) {
	left := 0
	for left < wordsLeft && text.IsHan(n.w.At(n.start-left-1)) && n.start-left > n.prior.End {
		left++
	}
	l.origin, l.n = left, 0
	for k := n.start - left; l.n < left+wordsRight; k++ {
		r := n.cell(k)
		if !text.IsHan(r) {
			break
		}
		l.r[l.n] = r
		l.n++
	}
	if n.open {
		return
	}
	for i := range l.n {
		n.w.wordCosts(n.start-left+i, l.n-i, &l.words[i])
	}
	for i := 1; i <= l.n; i++ {
		l.to[i], l.from[i-1] = 1<<20, 1<<20
	}
	l.from[l.n] = 0
	var longest [wordsLeft + wordsRight]uint8 // word from here on
	for i := range l.n {
		for size, w := range l.words[i][:min(4, l.n-i)] {
			if w.Part == 0 {
				continue
			}
			longest[i] = uint8(size + 1)
			if end := i + size + 1; l.to[i]+int(w.Cost) <= l.to[end] { // of equals the shortest
				l.to[end], l.last[end] = l.to[i]+int(w.Cost), uint8(size+1)
			}
		}
	}
	for i := l.n - 1; i >= 0; i-- {
		for size, w := range l.words[i][:longest[i]] {
			if c := l.from[i+size+1] + int(w.Cost); w.Part != 0 && c < l.from[i] {
				l.from[i], l.next[i] = c, uint8(size+1)
			}
		}
	}
}
