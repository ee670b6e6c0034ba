package classify

import "strings"

// verdict is a detector's answer on what it has seen. yes and no are final: more text does not change them.
type verdict uint8

const (
	no verdict = iota
	yes
	open // more text could change the answer
)

// What window.at says where there is no cell.
const (
	edge    rune = -1 // before the beginning or behind the end of the text
	unknown rune = -2 // not arrived yet
)

// window is the text a detector sees.
type window struct {
	cells  []cell
	final  bool // nothing will follow
	named  span // the last name found
	people      // the last names found in full

	account   span // the last account of a service found
	accountOf kind

	digit   [maxDigits]byte // of the number being looked at
	digitAt [maxDigits]int
	spelt   [maxSpelled]byte // of the characters of ASCII being looked at
	speltAt [maxSpelled]int
	words   [8]knownWord // ordinary words that names were held against
	costs   [16]knownCosts
	around  lattice // of the start being looked at; its n is 0 until it is filled
	row     number  // of letters and digits being looked at
	hint    knownHints

	begin  *beginTable // these are set when first asked for
	names  *tables
	places *placeTable

	route   route // of the address being looked at
	head    head  // the same
	quiet   span  // inside, no address begins; its first cell found that out
	scouted int   // an address may begin before this cell

	companyless int // no company begins before this cell
	companyEnd  int // no end of one begins before this cell
}

func (w *window) at(i int) rune {
	if uint(i) < uint(len(w.cells)) {
		return w.cells[i].r
	}
	return w.outside(i)
}

// outside is what stands where no cell is.
func (w *window) outside(i int) rune {
	if i < 0 || w.final {
		return edge
	}
	return unknown
}

// beginTable returns the table of what characters begin.
func (w *window) beginTable() *beginTable {
	if w.begin == nil {
		w.begin = beginnings()
	}
	return w.begin
}

// nameTables returns the tables of names.
func (w *window) nameTables() *tables {
	if w.names == nil {
		w.names = nameTables()
	}
	return w.names
}

// placeTable returns the table of places.
func (w *window) placeTable() *placeTable {
	if w.places == nil {
		w.places = places()
	}
	return w.places
}

// literal compares the cells at i with a lower-case text, without regard to ASCII case.
func (w *window) literal(i int, text string) (end int, v verdict) {
	for _, want := range text {
		got := w.at(i)
		if got == unknown {
			return i, open
		}
		if lower(got) != want {
			return i, no
		}
		i++
	}
	return i, yes
}

// while returns the first index from i on whose rune is not in the set, at most limit cells further. v is open if the text ended
// before that was known.
func (w *window) while(i, limit int, in func(rune) bool) (end int, v verdict) {
	for n := 0; n < limit; n++ {
		r := w.at(i)
		if r == unknown {
			return i, open
		}
		if r == edge || !in(r) {
			return i, yes
		}
		i++
	}
	return i, yes
}

// letters is while for letters.
func (w *window) letters(i, limit int) (end int, v verdict) {
	for end = i; end < i+limit; end++ {
		if r := w.at(end); !isLetter(r) {
			return end, when(r == unknown, open, yes)
		}
	}
	return end, yes
}

// cued reports whether one of the words, in lower case, ends within 16 cells left of i.
func (w *window) cued(i int, words ...string) bool {
	var b strings.Builder
	for k := max(0, i-16); k < i; k++ {
		b.WriteRune(lower(w.cells[k].r))
	}
	for _, word := range words {
		if strings.Contains(b.String(), word) {
			return true
		}
	}
	return false
}

// cuedBehind reports whether one of the words, in lower case, begins within 12 cells from i on, in the same sentence.
func (w *window) cuedBehind(i int, words ...string) (bool, verdict) {
	var b strings.Builder
	v := yes
	for k := i; k < i+12; k++ {
		r := w.at(k)
		if r == unknown {
			v = open
			break
		}
		if r == edge || strings.ContainsRune("\n。；;！!？?", r) {
			break
		}
		b.WriteRune(lower(r))
	}
	for _, word := range words {
		if strings.Contains(b.String(), word) {
			return true, yes
		}
	}
	return false, v
}

// piece returns the end of the next piece of an over-long value that goes on at i, and whether it is the last one.
func (w *window) piece(i int, r *run) (end int, last bool, v verdict) {
	if r.in == nil {
		return w.pemPiece(i)
	}
	end, v = w.while(i, maxSecret, r.in)
	return end, end-i < maxSecret, v
}

func lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

func upper(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

func isHan(r rune) bool {
	if uint32(r-0x3400) <= 0x9fff-0x3400 {
		return true
	}
	return r >= 0x3007 && (r == '〇' || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x323af)
}

// These take one comparison each: a letter in either case is one with the bit of lower case set.
func isDigit(r rune) bool  { return uint32(r-'0') < 10 }
func isLetter(r rune) bool { return uint32((r|0x20)-'a') < 26 }
func isAlnum(r rune) bool  { return isDigit(r) || isLetter(r) }
func isHex(r rune) bool    { return isDigit(r) || uint32((r|0x20)-'a') < 6 }

// canonical returns the one form of a value that all its spellings share.
func canonical(k kind, cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		switch k {
		case kMobile, kLandline, kBankCard, kBankAccount, kQQ, kIMEI, kICCID, kIMSI, kBusinessLicence:
			if digit := misread(c.r); isDigit(c.r) {
				b.WriteRune(c.r)
			} else if digit > 0 {
				b.WriteByte(digit)
			}
		case kMedicalRecord, kUtilityAccount, kSocialSecurity, kOfficerID:
			if value := numeral(c.r); value >= 0 {
				b.WriteRune('0' + value)
			} else if isAlnum(c.r) || c.r >= 0x3400 {
				b.WriteRune(upper(c.r))
			}
		case kMAC:
			if isHex(c.r) {
				b.WriteRune(lower(c.r))
			}
		case kCourtCase, kDocument:
			if isAlnum(c.r) || isHan(c.r) {
				b.WriteRune(c.r)
			}
		case kResidentID, kUSCC, kPlate, kVIN, kPassport, kTravelPermit, kForeignPermit, kHongKongID, kMacauID, kTaiwanID:
			if isAlnum(c.r) || c.r >= 0x3400 {
				b.WriteRune(upper(c.r))
			}
		case kEmail, kIPv4, kIPv6, kWeChat:
			b.WriteRune(lower(c.r))
		default:
			b.WriteRune(c.r)
		}
	}
	switch s := b.String(); k {
	case kMobile, kLandline:
		return national(k, s)
	default:
		return s
	}
}
