package classify

// markOf tells what stands at a cell as a mark: 0 for none, the edge of the text first.
func markOf(r rune) int {
	switch {
	case r == edge:
		return 1
	case r == '\n':
		return 2
	case isDigit(r):
		return 3
	case isLetter(r):
		return 4
	}
	for k, m := range [...]rune{' ', ':', ',', '。', '、', ';', '(', ')', '“', '”', '"', '/', '|', '\t', '-', '_', '.', '!', '?', '·', '[', ']', '【', '】', '《', '》', '=', '@', '→', '>', '&', '~', '…', '—'} {
		if r == m {
			return 5 + k
		}
	}
	return 39
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
	case 7, 8, 10, 22, 23, 42:
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
var partIndexes = func() (t [0x80]uint8) { //nolint:gochecknoglobals // a constant table
	for p := range t {
		t[p] = uint8(len(partLetters))
	}
	for i := range len(partLetters) {
		t[partLetters[i]] = uint8(i)
	}
	return t
}()

func partIndex(p uint8) int { return int(partIndexes[p&0x7f]) }
