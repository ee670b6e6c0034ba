// Package number finds values that are mainly digits: identity and other document numbers, telephones, cards and accounts of banks, devices,
// vehicles, cases, coordinates, dates. Where a number has check digits they are checked; where it has no form of its own, a label has to name it.
package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/online"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const maxDigits = 40 // of one number with its separators

// Detector finds numbers and codes.
type Detector struct {
	finding.Window
	accounts *online.Accounts
	digit    [maxDigits]byte // of the number being looked at
	digitAt  [maxDigits]int
	row      number // of letters and digits being looked at
}

// New returns a detector that asks accounts about numbers that may be those of QQ.
func New(accounts *online.Accounts) Detector { return Detector{accounts: accounts} }

// Detect looks for the numbers and codes that begin at place i.
func (w *Detector) Detect(d *finding.Decision, i int) {
	switch r := w.At(i); {
	case r < 0x80:
		w.codesAt(d, i, r, w.At(i-1))
	case text.IsHan(r):
		w.hanCodes(d, i)
	case d.On.Has(finding.CourtCase):
		d.Ask(courtCase(w, i))
	}
}

// Triggers says what may begin with r behind left.
func Triggers(r, left rune) finding.Triggers {
	var holds bool
	switch {
	case r < 0x80:
		holds = text.IsAlnum(r) && !text.IsAlnum(left) || text.IsDigit(r) && !text.IsDigit(left) || r == '+' || r == '(' || r == '[' || r == '<' || r == '{' || text.IsHex(r) && text.Lower(left) == 'c'
	case text.IsCommonHan(r):
		holds = hanHeads[r-text.HanFirst] != 0
	default:
		holds = caseOpenings.Has(r)
	}
	if holds {
		return finding.TriggerCode
	}
	return 0
}

// number is a row of digits, or of letters and digits, with separators between them. Characters that a scanner of paper takes for
// digits count as such where digits stand around them.
type number struct {
	w     *Detector
	digit []byte // upper case
	at    []int  // cell of each
	wide  bool   // letters belong to it
	s     string // the digits, made when first asked for
	h     finding.Hints
}

func isSeparator(r rune) bool { return separators.Has(r) }

var (
	separators     = text.RunesOf(" -._·()")
	codeSeparators = text.RunesOf(" -\n·_/")
)

// gather reads the number that begins at cell i: digits with up to three of space, dash, dot, underscore, brackets between two of them,
// or one line break in all. It is open until a character shows that it has ended, or maxDigits are read. The number is valid until
// the next call.
func gather(w *Detector, i int) (n number, v text.Verdict) {
	n.w, n.digit, n.at = w, w.digit[:0], w.digitAt[:0]
	lines := 0
	for gap := 0; len(n.digit) < maxDigits; i++ {
		r := w.At(i)
		switch {
		case text.IsDigit(r):
			n.digit = append(n.digit, byte(r))
			n.at = append(n.at, i)
			gap = 0
		case r == text.Unknown:
			return n, text.Open
		case isSeparator(r) && gap < 3 && len(n.digit) > 0:
			gap++
		case r == '\n' && gap < 2 && lines == 0 && len(n.digit) > 0:
			lines++
			gap++
		case text.Misread(r) > 0 && gap < 2:
			v := w.standsForDigit(i, gap, len(n.digit))
			if v != text.Yes {
				return n, text.When(v == text.Open, text.Open, text.Yes)
			}
			n.digit = append(n.digit, text.Misread(r))
			n.at = append(n.at, i)
			gap = 0
		default:
			return n, text.Yes
		}
	}
	return n, text.Yes
}

// standsForDigit reports whether the letter at cell i, behind so many digits and a gap, is a misread digit: digits go on behind it, or
// the number is long enough to end with it.
func (w *Detector) standsForDigit(i, gap, digits int) text.Verdict {
	next, after := w.At(i+1), w.At(i+2)
	apart := gap == 1 && isSeparator(next) && (digits == 1 || isSeparator(w.At(i-3))) // every digit stands for itself
	switch {
	case next == text.Unknown:
		return text.Open
	case text.IsDigit(next), text.Lower(next) == 'x' && gap == 0 && digits >= 16:
		return text.Yes
	case gap > 0 && !apart || text.IsAlnum(next):
		return text.No
	case digits >= 4:
		return text.Yes
	case !isSeparator(next) && next != '\n':
		return text.No
	case after == text.Unknown:
		return text.Open
	}
	return text.When(text.IsDigit(after) || digits >= 2 && text.Misread(after) > 0, text.Yes, text.No)
}

// gatherCode reads letters and digits with a separator between them, or two. Two words in a row without a digit end it.
func gatherCode(w *Detector, i int) (n number, v text.Verdict) {
	n.w, n.digit, n.at, n.wide = w, w.digit[:0], w.digitAt[:0], true
	digits, lowerOnly := 0, true
	for len(n.digit) < maxDigits {
		r := w.At(i)
		switch {
		case text.IsAlnum(r):
			if text.IsDigit(r) {
				digits++
			}
			lowerOnly = lowerOnly && r >= 'a' && r <= 'z'
			n.digit = append(n.digit, byte(text.Upper(r)))
			n.at = append(n.at, i)
			i++
			continue
		case r == text.Unknown:
			return n, text.Open
		}
		if !codeSeparators.Has(r) || digits == 0 && (len(n.digit) > 3 || lowerOnly && len(n.digit) > 1 && text.IsBlank(r)) { // a word does not wait for the next
			return n, text.Yes
		}
		i++
		if text.IsBlank(w.At(i)) || text.IsBlank(w.At(i-1)) && (w.At(i) == '/' || w.At(i) == '-') {
			i++
		}
		if next := w.At(i); !text.IsAlnum(next) {
			return n, text.When(next == text.Unknown, text.Open, text.Yes)
		}
	}
	return n, text.Yes
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
	next := n.w.At(n.at[k-1] + 1)
	return !text.IsDigit(next) && !(n.wide && text.IsAlnum(next))
}

// ends reports whether the first k digits stand for themselves, or a word such as 一直 makes the only digit behind them.
func (n *number) ends(k int) bool {
	if n.whole(k) {
		return true
	}
	if k != len(n.digit)-1 || n.digit[k] != '1' || n.gap(k) || n.w.Cell(n.at[k]).Size < 3 {
		return false
	}
	next := n.w.At(n.at[k] + 1)
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
const numberKinds = 1<<finding.ResidentID | 1<<finding.Mobile | 1<<finding.Landline | 1<<finding.ForeignPermit | 1<<finding.BusinessLicence | 1<<finding.QQ | labelledKinds

// numbers runs the detectors of digit values at cell i, which is a digit, what looks like one, a plus sign or an opening bracket.
func (w *Detector) numbers(d *finding.Decision, i int) {
	if !d.On.Any(numberKinds) {
		return
	}
	first := i
	plus := false
	if w.At(i) == '(' { // (+86) or (010)
		i++
		i, _ = w.While(i, 1, text.IsBlank)
	}
	if w.At(i) == '+' {
		plus = true
		i++
		i, _ = w.While(i, 1, text.IsBlank)
	}
	if w.At(i) == text.Unknown {
		d.Open = true
		return
	}
	if !text.IsDigit(w.At(i)) && (text.Misread(w.At(i)) == 0 || !text.IsDigit(w.At(i+1))) {
		d.Open = d.Open || text.Misread(w.At(i)) > 0 && w.At(i+1) == text.Unknown
		return
	}
	n, v := gather(w, i)
	if v == text.Open {
		d.Open = true
		return
	}
	if len(n.digit) < 4 && w.At(first) != '(' {
		return
	}
	n.h = w.Hints(first)
	if d.On.Has(finding.Mobile) {
		d.Ask(mobile(&n, first, plus))
		d.Ask(abroad(&n, first, plus))
	}
	if d.On.Has(finding.Landline) {
		d.Ask(landline(&n, first, plus))
	}
	if plus || i > first {
		return
	}
	n.identities(d)
	n.cards(d)
	n.devices(d)
	n.labelled(d)
	if d.On.Has(finding.Parcel) {
		d.Ask(longParcel(&n))
	}
	if d.On.Has(finding.QQ) {
		d.Ask(qq(&n, first))
	}
}

// digest reports whether cells i to end are in the middle of a long row of hexadecimal digits, such as a hash.
func (w *Detector) digest(i, end int) (bool, text.Verdict) {
	left := i
	for left > max(0, i-finding.LabelReach) && text.IsHex(w.At(left-1)) {
		left--
	}
	right, v := w.While(end, finding.LabelReach, text.IsHex)
	if v == text.Open {
		return false, text.Open
	}
	return i-left+right-end >= 12, text.Yes
}

var caseOpenings = text.RunesOf(openings)

// qq finds numbers of QQ accounts and groups behind a label, or where the talk is about QQ: 5 to 11 digits that do not begin with zero.
func qq(n *number, first int) (finding.Candidate, text.Verdict) {
	size := len(n.digit)
	if size > 11 { // what follows may be another number
		size = 11
	}
	for ; size >= 5; size-- {
		if n.whole(size) {
			break
		}
	}
	if size < 5 || n.digit[0] == '0' || n.w.At(n.end(size)) == '@' {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.QQ, Start: first, End: n.end(size), Form: 0.3, Evidence: finding.LabelBefore}
	return n.w.accounts.QQ(m, n.h, size, n.date(size))
}
