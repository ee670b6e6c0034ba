package classify

import "strings"

// number is a row of digits, or of letters and digits, with separators between them. Characters that a scanner of paper takes for
// digits count as such where digits stand around them.
type number struct {
	w     *window
	digit []byte // upper case
	at    []int  // cell of each
	wide  bool   // letters belong to it
	s     string // the digits, made when first asked for
	h     hints
}

func isSeparator(r rune) bool { return separators.has(r) }

var (
	separators     = runesOf(" -._·()") //nolint:gochecknoglobals // a constant table
	codeSeparators = runesOf(" -\n·_/") //nolint:gochecknoglobals // a constant table
)

func isBlank(r rune) bool { return r == ' ' || r == '\n' }

// misread returns the digit that a letter is easily taken for, or 0.
func misread(r rune) byte {
	switch r {
	case 'O', 'o':
		return '0'
	case 'l', 'I':
		return '1'
	}
	return 0
}

// gather reads the number that begins at cell i: digits with up to three of space, dash, dot, underscore, brackets between two of them,
// or one line break in all. It is open until a character shows that it has ended, or maxDigits are read. The number is valid until
// the next call.
func gather(w *window, i int) (n number, v verdict) {
	n.w, n.digit, n.at = w, w.digit[:0], w.digitAt[:0]
	lines := 0
	for gap := 0; len(n.digit) < maxDigits; i++ {
		r := w.at(i)
		switch {
		case isDigit(r):
			n.digit = append(n.digit, byte(r))
			n.at = append(n.at, i)
			gap = 0
		case r == unknown:
			return n, open
		case isSeparator(r) && gap < 3 && len(n.digit) > 0:
			gap++
		case r == '\n' && gap < 2 && lines == 0 && len(n.digit) > 0:
			lines++
			gap++
		case misread(r) > 0 && gap < 2:
			v := w.standsForDigit(i, gap, len(n.digit))
			if v != yes {
				return n, when(v == open, open, yes)
			}
			n.digit = append(n.digit, misread(r))
			n.at = append(n.at, i)
			gap = 0
		default:
			return n, yes
		}
	}
	return n, yes
}

// standsForDigit reports whether the letter at cell i, behind so many digits and a gap, is a misread digit: digits go on behind it, or
// the number is long enough to end with it.
func (w *window) standsForDigit(i, gap, digits int) verdict {
	next, after := w.at(i+1), w.at(i+2)
	apart := gap == 1 && isSeparator(next) && (digits == 1 || isSeparator(w.at(i-3))) // every digit stands for itself
	switch {
	case next == unknown:
		return open
	case isDigit(next), lower(next) == 'x' && gap == 0 && digits >= 16:
		return yes
	case gap > 0 && !apart || isAlnum(next):
		return no
	case digits >= 4:
		return yes
	case !isSeparator(next) && next != '\n':
		return no
	case after == unknown:
		return open
	}
	return when(isDigit(after) || digits >= 2 && misread(after) > 0, yes, no)
}

// gatherCode reads letters and digits with a separator between them, or two. Two words in a row without a digit end it.
func gatherCode(w *window, i int) (n number, v verdict) {
	n.w, n.digit, n.at, n.wide = w, w.digit[:0], w.digitAt[:0], true
	digits, lowerOnly := 0, true
	for len(n.digit) < maxDigits {
		r := w.at(i)
		switch {
		case isAlnum(r):
			if isDigit(r) {
				digits++
			}
			lowerOnly = lowerOnly && r >= 'a' && r <= 'z'
			n.digit = append(n.digit, byte(upper(r)))
			n.at = append(n.at, i)
			i++
			continue
		case r == unknown:
			return n, open
		}
		if !codeSeparators.has(r) || digits == 0 && (len(n.digit) > 3 || lowerOnly && len(n.digit) > 1 && isBlank(r)) { // a word does not wait for the next
			return n, yes
		}
		i++
		if isBlank(w.at(i)) || isBlank(w.at(i-1)) && (w.at(i) == '/' || w.at(i) == '-') {
			i++
		}
		if next := w.at(i); !isAlnum(next) {
			return n, when(next == unknown, open, yes)
		}
	}
	return n, yes
}

// whole reports whether a group ends with digit k-1, so that the first k digits may stand for themselves. What stands behind is
// known for every k below maxDigits, since gather has read on.
func (n *number) whole(k int) bool {
	if k < 1 || k > len(n.digit) || k >= maxDigits {
		return false
	}
	if k < len(n.digit) {
		return n.gap(k)
	}
	next := n.w.at(n.at[k-1] + 1)
	return !isDigit(next) && !(n.wide && isAlnum(next))
}

// ends reports whether the first k digits stand for themselves, or a word such as 一直 makes the only digit behind them.
func (n *number) ends(k int) bool {
	if n.whole(k) {
		return true
	}
	if k != len(n.digit)-1 || n.digit[k] != '1' || n.gap(k) || n.w.cells[n.at[k]].size < 3 {
		return false
	}
	next := n.w.at(n.at[k] + 1)
	return next > 0 && strings.ContainsRune("直个次下共些样般定起边家时旦方位到", next)
}

// gap reports whether a separator stands between digits k-1 and k.
func (n *number) gap(k int) bool { return k > 0 && k < len(n.at) && n.at[k] != n.at[k-1]+1 }

// end is the cell behind the first k digits.
func (n *number) end(k int) int { return n.at[k-1] + 1 }

// gaps counts the gaps between the first k digits.
func (n *number) gaps(k int) int {
	gaps := 0
	for i := 1; i < k; i++ {
		if n.gap(i) {
			gaps++
		}
	}
	return gaps
}

// groups returns the sizes of the groups of digits from..to, as many as there is room for.
func (n *number) groups(from, to int, room []int) []int {
	room = room[:0]
	size := 0
	for k := from; k < to; k++ {
		if k > from && n.gap(k) {
			room = append(room, size)
			size = 0
		}
		size++
	}
	return append(room, size)
}

// shape returns the sizes of the groups of digits from..to.
func (n *number) shape(from, to int) []int { return n.groups(from, to, nil) }

func (n *number) text() string {
	if len(n.s) != len(n.digit) {
		n.s = string(n.digit)
	}
	return n.s
}

// count returns how many of the first k characters are digits.
func (n *number) count(k int) int {
	digits := 0
	for _, c := range n.digit[:k] {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	return digits
}

// numberKinds are found in runs of digits.
const numberKinds = 1<<kResidentID | 1<<kMobile | 1<<kLandline | 1<<kForeignPermit | 1<<kBusinessLicence | 1<<kQQ | labelledKinds

// numbers runs the detectors of digit values at cell i, which is a digit, what looks like one, a plus sign or an opening bracket.
func (d *decision) numbers(w *window, i int) {
	if !d.on.any(numberKinds) {
		return
	}
	first := i
	plus := false
	if w.at(i) == '(' { // (+86) or (010)
		i++
		i, _ = w.while(i, 1, isBlank)
	}
	if w.at(i) == '+' {
		plus = true
		i++
		i, _ = w.while(i, 1, isBlank)
	}
	if w.at(i) == unknown {
		d.open = true
		return
	}
	if !isDigit(w.at(i)) && (misread(w.at(i)) == 0 || !isDigit(w.at(i+1))) {
		d.open = d.open || misread(w.at(i)) > 0 && w.at(i+1) == unknown
		return
	}
	n, v := gather(w, i)
	if v == open {
		d.open = true
		return
	}
	if len(n.digit) < 4 && w.at(first) != '(' {
		return
	}
	n.h = w.hints(first)
	if d.on.has(kMobile) {
		d.ask(mobile(&n, first, plus))
		d.ask(abroad(&n, first, plus))
	}
	if d.on.has(kLandline) {
		d.ask(landline(&n, first, plus))
	}
	if plus || i > first {
		return
	}
	d.identities(&n)
	d.cards(&n)
	d.devices(&n)
	d.labelled(&n)
	if d.on.has(kParcel) {
		d.ask(longParcel(&n))
	}
	if d.on.has(kQQ) {
		d.ask(qq(&n, first))
	}
}

// digest reports whether cells i to end are in the middle of a long row of hexadecimal digits, such as a hash.
func (w *window) digest(i, end int) (bool, verdict) {
	left := i
	for left > max(0, i-labelReach) && isHex(w.cells[left-1].r) {
		left--
	}
	right, v := w.while(end, labelReach, isHex)
	if v == open {
		return false, open
	}
	return i-left+right-end >= 12, yes
}
