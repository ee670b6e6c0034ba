package person

import (
	"github.com/sluice-project/sluice/governance/classify/text"
)

// markRunes are told apart by their places here.
const markRunes = " :,。、;()“”\"/|\t-_.!?·[]【】《》=@→>&~…—"

// What a cell is as a mark; marks follow letters.
const (
	markEdge = 1 + iota
	markLine
	markDigit
	markLetter
	firstMark
	noMark = 39
)

var asciiMarks = func() (t [0x80]uint8) {
	for i := range t {
		switch r := rune(i); {
		case r == '\n':
			t[i] = markLine
		case text.IsDigit(r):
			t[i] = markDigit
		case text.IsLetter(r):
			t[i] = markLetter
		default:
			t[i] = noMark
		}
	}
	for k, r := range []rune(markRunes) {
		if r < 0x80 {
			t[r] = uint8(firstMark + k)
		}
	}
	return t
}()

type wideMark struct {
	r    rune
	mark int
}

// wideMarks are the others, at their last six bits: no two of them share those.
var wideMarks = func() (t [0x40]wideMark) {
	for k, r := range []rune(markRunes) {
		if r >= 0x80 {
			t[r&0x3f] = wideMark{r, firstMark + k}
		}
	}
	return t
}()

// markOf tells what stands at a cell as a mark.
func markOf(r rune) int {
	if uint32(r) < 0x80 {
		return int(asciiMarks[r])
	}
	if r == text.Edge {
		return markEdge
	}
	if m := wideMarks[r&0x3f]; m.r == r {
		return m.mark
	}
	return noMark
}

// rough joins marks into a few.
func rough(m int) int {
	switch m {
	case 1, 2:
		return 0
	case 3:
		return 1
	case 4:
		return 2
	case 5, 18:
		return 3 // blank, tab
	case 6:
		return 4 // colon
	case 7, 8, 10, 22, 23:
		return 5 // comma, full stop
	case 9, 16, 17:
		return 6 // list
	case 11, 12, 25, 26, 27, 28, 13, 14, 15:
		return 7 // brackets, quotes
	}
	return 8
}

func roughPart(p uint8) int {
	switch p {
	case 'v', 'w':
		return 10
	case 'p', 'c', 'd', 'u':
		return 11
	case 'n', 'z', 's', 'N':
		return 12
	case 'm', 'q', 't', 'r', 'f':
		return 13
	}
	return 9
}

const partLetters = "abcdfimnpqrstuvwxyzN"

// partIndexes are the places of letters among partLetters, its length for all others.
var partIndexes = func() (t [0x80]uint8) {
	for p := range t {
		t[p] = uint8(len(partLetters))
	}
	for i := range len(partLetters) {
		t[partLetters[i]] = uint8(i)
	}
	return t
}()

func partIndex(p uint8) int { return int(partIndexes[p&0x7f]) }
