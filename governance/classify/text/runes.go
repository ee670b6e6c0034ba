package text

import (
	"strings"
)

// RuneSet is a set of characters that is asked for often: those of ASCII and common Chinese ones are bits, the others are looked for behind a
// filter.
type RuneSet struct {
	ascii  [2]uint64
	han    *[(HanLast - HanFirst) / 64]uint64 // nil: none
	filter [4]uint64
	Others string
}

// RunesOf returns the set of the characters of a string.
func RunesOf(runes string) *RuneSet {
	s := new(RuneSet)
	for _, r := range runes {
		s.add(r)
	}
	return s
}

func (s *RuneSet) add(r rune) {
	switch {
	case r < 0x80:
		s.ascii[r/64] |= 1 << (r % 64)
		return
	case IsCommonHan(r):
		if s.han == nil {
			s.han = new([len(s.han)]uint64)
		}
		s.han[(r-HanFirst)/64] |= 1 << ((r - HanFirst) % 64)
	default:
		s.filter[r/64%4] |= 1 << (r % 64)
	}
	s.Others += string(r)
}

// Has reports whether r is in the set, which no end of a text is.
func (s *RuneSet) Has(r rune) bool {
	if uint32(r) < 0x80 {
		return s.ascii[r>>6]>>(r&63)&1 != 0
	}
	return s.other(r)
}

func (s *RuneSet) other(r rune) bool {
	if IsCommonHan(r) {
		return s.han != nil && s.han[uint32(r-HanFirst)>>6]>>(uint32(r-HanFirst)&63)&1 != 0
	}
	return r > 0 && s.filter[r>>6&3]>>(r&63)&1 != 0 && strings.ContainsRune(s.Others, r)
}

// And returns a set with the characters that some words end with, too.
func (s *RuneSet) And(words ...*Endings) *RuneSet {
	out := RunesOf(s.Others)
	out.ascii = s.ascii
	for _, e := range words {
		for r := range e.ascii {
			if len(e.ascii[r]) > 0 {
				out.add(rune(r))
			}
		}
		for r := range e.others {
			out.add(r)
		}
	}
	return out
}

// IsBlank reports whether r is a blank or the end of a line.
func IsBlank(r rune) bool { return r == ' ' || r == '\n' }

// Misread returns the digit that a letter is easily taken for, or 0.
func Misread(r rune) byte {
	switch r {
	case 'O', 'o':
		return '0'
	case 'l', 'I':
		return '1'
	}
	return 0
}

// Lower makes letters of ASCII small.
func Lower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

// Upper makes letters of ASCII capital.
func Upper(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

// IsHan reports whether r is a Chinese character.
func IsHan(r rune) bool {
	if uint32(r-0x3400) <= 0x9fff-0x3400 {
		return true
	}
	return r >= 0x3007 && (r == '〇' || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x323af)
}

// IsDigit reports whether r is a digit of ASCII. This and the next ones take one comparison each: a letter in either case is one with the bit of
// lower case set.
func IsDigit(r rune) bool { return uint32(r-'0') < 10 }

// IsLetter reports whether r is a letter of ASCII.
func IsLetter(r rune) bool { return uint32((r|0x20)-'a') < 26 }

// IsAlnum reports whether r is a letter or a digit of ASCII.
func IsAlnum(r rune) bool { return IsDigit(r) || IsLetter(r) }

// IsHex reports whether r is a hexadecimal digit.
func IsHex(r rune) bool { return IsDigit(r) || uint32((r|0x20)-'a') < 6 }

// IsToken reports whether r stands in identifiers and keys: letters, digits, dash and underscore.
func IsToken(r rune) bool { return IsAlnum(r) || r == '-' || r == '_' }

// IsUserinfo reports whether r may stand in the part of a URL before the host.
func IsUserinfo(r rune) bool { return r > ' ' && r < 0x7f && !strings.ContainsRune("/@\"'`<>", r) }

// IsBase64 reports whether r is a character of either alphabet of base64.
func IsBase64(r rune) bool { return uint32(r) < 0x80 && base64Table[r] }

var base64Table = func() (t [0x80]bool) {
	for r := range t {
		t[r] = IsAlnum(rune(r)) || r == '+' || r == '/' || r == '-' || r == '_'
	}
	return t
}()

// Units stand behind what is counted.
const Units = "元块万亿千百年月日时分秒点岁个人次条件台户天周℃%度米公吨斤克升瓦伏安页张份辆套名位家间层栋楼号室床笔股倍瓶盒粒"
