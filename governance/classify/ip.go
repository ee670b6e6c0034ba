package classify

import (
	"net/netip"
	"strings"
)

// spelling is what stands from a cell on, in characters of ASCII, with at most one blank or line break left out.
type spelling struct {
	text []byte
	at   []int // cell of each character
	gap  int   // how many characters stand before the blank; all without one
}

// maxSpelled is the longest limit of spelled.
const maxSpelled = 96

// spelled reads at most limit characters that as turns into one of ASCII; as returns 0 for others. What it returns is valid until the next
// call.
func (w *window) spelled(i, limit int, as func(rune) byte) (s spelling, v verdict) {
	s.text, s.at, s.gap = w.spelt[:0], w.speltAt[:0], -1
	for ; len(s.text) < limit; i++ {
		r := w.at(i)
		if r == unknown {
			return s, open
		}
		if c := as(r); c != 0 {
			s.text, s.at = append(s.text, c), append(s.at, i)
			continue
		}
		if !isBlank(r) || s.gap >= 0 || isWord(s.text) {
			break
		}
		next := w.at(i + 1)
		if next == unknown {
			return s, open
		}
		if as(next) == 0 {
			break
		}
		s.gap = len(s.text)
	}
	if s.gap < 0 {
		s.gap = len(s.text)
	}
	return s, yes
}

// isWord reports whether s is a word as it stands in prose, or nothing: that does not wait for what follows.
func isWord(s []byte) bool {
	for n, c := range s {
		if !isLetter(rune(c)) || n > 0 && c <= 'Z' {
			return false
		}
	}
	return true
}

func asQuad(r rune) byte {
	switch {
	case isDigit(r) || r == '.':
		return byte(r)
	case r == '。':
		return ','
	}
	return misread(r)
}

// quad reads a dotted quad: where it ends, and whether it is written as such quads are.
func quad(s []byte) (end int, octets [4]int, plain bool) {
	plain = true
	for n := range octets {
		size := 0
		for ; end < len(s) && isDigit(rune(s[end])) && size < 4; end++ {
			octets[n] = octets[n]*10 + int(s[end]-'0')
			size++
		}
		if size < 1 || size > 3 || octets[n] > 255 || size > 1 && s[end-size] == '0' {
			return 0, octets, false
		}
		if n == 3 {
			break
		}
		if end == len(s) || s[end] != '.' && s[end] != ',' {
			return 0, octets, false
		}
		plain = plain && s[end] == '.'
		end++
	}
	return end, octets, plain
}

// ipv4 finds dotted quads, also with one blank inside and a full stop for a dot. Version numbers (v1.2.3.4, 版本 1.2.3.4, five parts) and
// addresses that name nobody are left alone.
func ipv4(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	if isDigit(left) || left == '.' && isDigit(w.at(i-2)) || lower(left) == 'v' && !isLetter(w.at(i-2)) {
		return match{}, no
	}
	switch size, v := w.while(i, 4, isDigit); { // no other number waits for what follows it
	case v == open:
		return match{}, open
	case size-i == 4:
		return match{}, no
	case asQuad(w.at(size)) == 0 && w.at(size) != unknown && !(isBlank(w.at(size)) && (asQuad(w.at(size+1)) != 0 || w.at(size+1) == unknown)):
		return match{}, no // a number alone
	}
	s, v := w.spelled(i, 24, asQuad)
	if v == open {
		return match{}, open
	}
	end, octets, plain := quad(s.text[:s.gap])
	if end == 0 {
		end, octets, plain = quad(s.text)
		plain = plain && end <= s.gap
	}
	if end == 0 {
		return match{}, no
	}
	for _, at := range s.at[:end] {
		plain = plain && misread(w.at(at)) == 0
	}
	last := s.at[end-1]
	if r, next := w.at(last+1), w.at(last+2); r == '.' && next == unknown {
		return match{}, open
	} else if r == '.' && isDigit(next) || !plain && end < 10 {
		return match{}, no
	}
	if octets[0] == 0 || octets[0] == 127 || octets == [4]int{255, 255, 255, 255} || w.cued(i, "版本", "version") {
		return match{}, no
	}
	return match{kind: kIPv4, start: i, end: last + 1, form: 0.8}, yes
}

func asGroup(r rune) byte {
	if isHex(r) || r == ':' || r == '.' {
		return byte(r)
	}
	return misread(r)
}

// ipv6 finds addresses the standard library accepts, also with one blank inside, without those that name nobody and without scope operators
// of programs.
func ipv6(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	if isAlnum(left) || left == '.' || left == '_' || left == ':' && (isAlnum(w.at(i-2)) || w.at(i-2) == ':') {
		return match{}, no
	}
	// A group has four digits at most: without a colon by then it is a word or a number.
	head, v := w.while(i, 5, func(r rune) bool { return asGroup(r) != 0 && r != ':' && r != '.' })
	if v == open {
		return match{}, open
	}
	if r := w.at(head); r == unknown {
		return match{}, open
	} else if r != ':' {
		return match{}, no
	}
	s, v := w.spelled(i, 48, asGroup)
	if v == open {
		return match{}, open
	}
	if len(s.text) == 48 {
		return match{}, no
	}
	for _, part := range [][]byte{s.text, s.text[:s.gap]} {
		text := strings.TrimRight(string(part), ".")
		if !strings.HasSuffix(text, "::") {
			text = strings.TrimRight(text, ":")
		}
		if !isIPv6(text) {
			continue
		}
		last := s.at[len(text)-1]
		switch next := w.at(last + 1); {
		case next == unknown:
			return match{}, open
		case isAlnum(next) || next == '_':
			continue
		}
		return match{kind: kIPv6, start: i, end: last + 1, form: 0.85}, yes
	}
	return match{}, no
}

func isIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.IsUnspecified() || addr.IsLoopback() || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	groups := strings.FieldsFunc(text, func(r rune) bool { return r == ':' })
	return len(groups) >= 3 || len(groups[0]) >= 4
}
