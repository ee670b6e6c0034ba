package classify

import (
	"strings"
	"sync"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// begins is what may begin at a cell, judged by its rune and the one before: bits of the detectors that have to be asked there. It may say
// too much and never too little, so it saves time and decides nothing.
type begins uint32

const (
	beginCodes  begins = 1 << iota // numbers and codes, of digits or of letters and digits
	beginSecret                    // credentials by words or what they begin with
	beginLogin                     // credentials that a sign stands in
	beginName
	beginAddress
	beginIPv4
	beginIPv6
	beginEmail
	beginCrypto
	beginWeChat
	beginKey    // a private key
	beginBase64 // a run of base64
	beginCompany
)

// leftSorts are the characters that make a difference before another, one sort a line; the first sort is all others.
var leftSorts = [...]string{"", "0123456789", "abefghijklmpqrsuwyz", "ABEFGHIJKLMPQRSUWYZ", "dnovx", "DNOVX", "t", "T", "c", "C", "_", "-", ".", "+", "%", ":", "/", "@"} //nolint:gochecknoglobals // a constant table

// beginTable says for each sort of character on the left what an ASCII character may begin, and what a Chinese one may.
type beginTable struct {
	sort  [0x80]uint8
	ascii [len(leftSorts)][0x80]begins
	han   [lexicon.Places]begins
}

var beginnings = sync.OnceValue(func() *beginTable { //nolint:gochecknoglobals // a constant table, made when first needed
	t := new(beginTable)
	for sort, runes := range leftSorts {
		left := edge
		for _, left = range runes {
			t.sort[left] = uint8(sort)
		}
		for r := range rune(0x80) {
			t.ascii[sort][r] = asciiBegins(r, left)
		}
	}
	names, towns := nameTables(), places()
	for r := rune(hanFirst); r < hanLast; r++ {
		place, _ := lexicon.Place(r)
		if hanHeads[r-hanFirst] != 0 {
			t.han[place] |= beginCodes
		}
		if names.first(r)&mayBegin != 0 {
			t.han[place] |= beginName
		}
		if f := towns.of(r); f&placeStop == 0 || f&(placeWord|placeExempt) != 0 {
			t.han[place] |= beginAddress
		}
	}
	for r := range secretIndex.han {
		place, _ := lexicon.Place(r)
		t.han[place] |= beginSecret
	}
	return t
})

// asciiBegins says what r, a character of ASCII, may begin behind left.
func asciiBegins(r, left rune) (b begins) {
	alone := !isAlnum(left)
	if isAlnum(r) && alone || isDigit(r) && !isDigit(left) || r == '+' || r == '(' || r == '[' || r == '<' || r == '{' || isHex(r) && lower(left) == 'c' {
		b |= beginCodes
	}
	if (isDigit(r) || misread(r) != 0 && alone) && !isDigit(left) {
		b |= beginIPv4
	}
	if (isHex(r) || r == ':') && alone && left != '.' && left != '_' {
		b |= beginIPv6
	}
	if isAlnum(r) && alone {
		if strings.ContainsRune(cryptoHeads, r) {
			b |= beginCrypto
		}
		if left != '-' && left != '.' && left != '_' && left != '/' {
			b |= beginAddress
		}
		if left != '_' {
			b |= beginEmail
		}
	}
	if isLetter(r) {
		if isLetter(left) && len(wechatLabels.of(lower(left))) > 0 {
			b |= beginWeChat // glued to a label
		}
		if alone && left != '_' && left != '@' && left != '/' {
			b |= beginName
		}
		if !isLetter(left) || innerSecret(r, left) {
			b |= beginSecret
		}
		if alone && left != '_' {
			b |= beginLogin
		}
	}
	if (isLetter(r) || r == '0' || r == '1') && alone && left != '_' {
		b |= beginWeChat
	}
	if isDigit(r) && (alone || lower(left) == 't') {
		b |= beginLogin
		if r == '1' {
			b |= beginSecret
		}
	}
	if r == ':' && !alone || r == '-' && !endsRow.has(left) {
		b |= beginSecret
	}
	if r == '-' {
		b |= beginKey
	}
	if isBase64(r) && (r < 'a' || r > 'z') {
		if !isBase64(left) || left >= 'a' && left <= 'z' {
			b |= beginBase64
		}
	}
	return b
}

// endsRow are what stands behind a name, where a - begins no option.
var endsRow = runesOf("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.+%:/@") //nolint:gochecknoglobals // a constant table

// innerSecret reports whether a word for a credential may begin with r inside of another word: userPassword, PGPASSWORD.
func innerSecret(r, left rune) bool {
	return len(secretIndex.inner[lower(r)]) > 0 && (lower(r) == 'p' || lower(r) == 's' || r < 'a' && left >= 'a')
}

// of returns what may begin with a cell behind left; everything for rare Chinese characters.
func (t *beginTable) of(c *cell, left rune) begins {
	switch r := c.r; {
	case c.han != 0:
		if isHan(left) {
			return t.han[c.han-1]
		}
		return t.han[c.han-1] | beginName
	case uint32(r) < 0x80:
		sort := uint8(0)
		if uint32(left) < 0x80 {
			sort = t.sort[left]
		}
		return t.ascii[sort][r]
	case isHan(r):
		return ^begins(0)
	case caseOpenings.has(r):
		return beginCodes
	}
	return 0
}

var caseOpenings = runesOf(openings) //nolint:gochecknoglobals // a constant table

// refine takes away what does not begin at cell i, where a row of letters and digits begins, because the row is over too soon.
func (w *window) refine(i int, may begins) begins {
	e := w.rowEnd(i)
	next := w.at(e)
	if next == unknown {
		return may
	}
	if may&beginCrypto != 0 && e-i < leastCrypto && !(isBlank(next) && (isAlnum(w.at(e+1)) || w.at(e+1) == unknown)) {
		may &^= beginCrypto
	}
	if local, spelt := w.localEnd(i, e); local-i < maxEmail && !spelt && emailStops.has(w.at(local)) {
		may &^= beginEmail
	}
	if may&beginIPv6 != 0 && !w.groupAhead(i) {
		may &^= beginIPv6
	}
	if may&beginEmail != 0 && isBlank(next) && w.proseAround(i, e) {
		may &^= beginEmail
	}
	if may&beginWeChat != 0 && !w.accountAhead(i, e) {
		may &^= beginWeChat
	}
	if may&beginLogin != 0 && !w.loginAhead(i, e, next) {
		may &^= beginLogin
	}
	switch first, second := w.cells[i].r, w.at(i+1); {
	case isLetter(first) && isLetter(second) && !(misread(first) != 0 && misread(second) != 0):
		may &^= beginAddress // one letter alone names a building
	case isDigit(first) && addressStops.has(next) && !w.any(i, e, isLetter) && (next != '.' || isDigit(w.at(e+1))):
		may &^= beginAddress // a number counts something there
	}
	return may
}

// localEnd returns the end of the letters, digits, dots and dashes from cell i on, at most maxEmail cells further; the first row of letters and
// digits ends before cell end. spelt says that one of the rows is at, as in zhang-at-example.com.
func (w *window) localEnd(i, end int) (local int, spelt bool) {
	last := min(len(w.cells), i+maxEmail)
	for local = end; local < last; local++ {
		r := w.cells[local].r
		if r == 'a' || r == 'A' {
			spelt = spelt || lower(w.at(local+1)) == 't' && !isAlnum(w.cells[local-1].r) && !isAlnum(w.at(local+2))
		} else if !isAlnum(r) && r != '.' && r != '-' {
			break
		}
	}
	return local, spelt
}

// rowEnd returns the end of the row of letters and digits at cell i, at most maxEmail cells further.
func (w *window) rowEnd(i int) int {
	last := min(len(w.cells), i+maxEmail)
	for i < last && isAlnum(w.cells[i].r) {
		i++
	}
	return i
}

// addressStops stand behind a number that counts nothing.
var addressStops = runesOf(",.:;/)]}\"'|=%&*+<>?!@_~`^$(") //nolint:gochecknoglobals // a constant table

// emailStops end a row that is no name of a mailbox: neither part of it nor a sign for what follows it.
var emailStops = runesOf("\t,;:!?)]}>=\"'`|/\\") //nolint:gochecknoglobals // a constant table

// proseAround reports whether the row of letters and digits from cell i to end, behind which a blank stands, is a word behind another one:
// no label is there, and nothing that the sign of an address begins with follows.
func (w *window) proseAround(i, end int) bool {
	before := lower(w.at(i - 2))
	if !isBlank(w.at(i-1)) || !isLetter(before) || len(emailLabels.of(before)) > 0 {
		return false
	}
	after := w.at(end + 1)
	return after != unknown && !beginsSign.has(after) && !w.any(i, end, isDigit)
}

// beginsSign are what the sign of an address of mail, or the rest of its name, begins with behind a blank.
var beginsSign = runesOf("@[({【<艾小圈aA._") //nolint:gochecknoglobals // a constant table

// accountAhead reports whether the row of letters and digits from cell i to end begins the name of an account by its length: six characters, or
// a blank that paper made. One that begins with a digit has a letter.
func (w *window) accountAhead(i, end int) bool {
	for end < len(w.cells) && isWeChat(w.cells[end].r) {
		if end++; end-i >= 24 { // longer than names are: the detector says
			return true
		}
	}
	next := w.at(end)
	return next == unknown || isBlank(next) || end-i >= 6 && (!isDigit(w.cells[i].r) || w.any(i, end, isLetter))
}

// loginAhead reports whether what stands behind a row of letters and digits may stand inside a credential: name:password@tcp(host), the number
// of a bot and its token, two parts of a key.
func (w *window) loginAhead(i, end int, next rune) bool {
	switch next {
	case ':':
		return isLetter(w.cells[i].r) || end-i >= 8 && end-i <= 10
	case '.':
		return isLetter(w.cells[i].r) || end-i == 32
	}
	return (next == '-' || next == '_') && isLetter(w.cells[i].r)
}

// groupAhead reports whether a colon ends up to four hexadecimal digits at cell i, or may. A blank may break them.
func (w *window) groupAhead(i int) bool {
	for k := i; k < i+5; k++ {
		if r := w.at(k); r == ':' || r == unknown {
			return true
		} else if isBlank(r) {
			end, v := w.while(k+1, 4, isHex)
			return v == open || w.at(end) == ':' || w.at(end) == unknown
		} else if !isHex(r) && misread(r) == 0 {
			return false
		}
	}
	return w.at(i+5) == ':' || w.at(i+5) == unknown
}

// pairAhead reports whether the first group of the address of a network card may stand at cell i: two or four hexadecimal digits and a sign.
func (w *window) pairAhead(i int) bool {
	for k := i; k < i+5; k++ {
		r := w.at(k)
		switch {
		case isHex(r) || misread(r) != 0:
			continue
		case r == unknown || isBlank(r):
			return true
		case k == i+2:
			return r == ':' || r == '-'
		case k == i+4:
			return r == '.' || r == '-' || r == '。'
		}
		return false
	}
	return false
}

// degreesAhead reports whether a coordinate may begin at cell i with r: a direction before a number, or up to three digits and what stands
// behind degrees.
func (w *window) degreesAhead(i int, r rune) bool {
	if next := w.at(i + 1); isLetter(r) && misread(r) == 0 {
		return isDigit(next) || misread(next) != 0 || isBlank(next) || next == ':' || next == '约' || next == unknown
	} else if !isDigit(r) && misread(r) == 0 {
		return true
	}
	for k := i + 1; k < i+4; k++ {
		if r = w.at(k); !isDigit(r) && misread(r) == 0 {
			return isBlank(r) || r == '.' || r == '。' || r == '°' || r == '度' || r == 'º' || r == unknown
		}
	}
	return false
}
