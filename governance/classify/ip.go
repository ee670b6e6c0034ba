package classify

import (
	"bytes"
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

// spelledOver reads as spelled does, where the first blank is known to stand at a cell; 0: it is not.
func (w *window) spelledOver(i, blank, limit int, as func(rune) byte) (spelling, verdict) {
	if blank == 0 {
		return w.spelled(i, limit, as)
	}
	s := spelling{w.spelt[:0], w.speltAt[:0], blank - i}
	for k := i; len(s.text) < limit; k++ {
		r := w.at(k)
		if r == unknown {
			return s, open
		}
		c := as(r)
		if c == 0 && k != blank {
			break
		}
		if c != 0 {
			s.text, s.at = append(s.text, c), append(s.at, k)
		}
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
	} else if r == '.' && isDigit(next) || !plain && end < 10 && !w.cued(i, addressWords...) {
		return match{}, no
	}
	if octets[0] == 0 || octets[0] == 127 || octets[0] == 255 {
		return match{}, no
	}
	m := match{kind: kIPv4, start: i, end: last + 1, form: 0.8}
	if isVersion, v := w.versionLike(i, m.end, octets); v == open || isVersion {
		return match{}, v & open
	}
	if end == s.gap && end < len(s.text) {
		m.end = w.restOfOctet(s, end, octets[3])
	}
	return m, yes
}

// restOfOctet returns the end of an address whose last octet paper broke: the digits behind the blank stand before Chinese text or a mark,
// and not before what is counted.
func (w *window) restOfOctet(s spelling, end, octet int) int {
	k := end
	for k < len(s.text) && isDigit(rune(s.text[k])) {
		octet = octet*10 + int(s.text[k]-'0')
		k++
	}
	size := 1
	for size < end && isDigit(rune(s.text[end-1-size])) {
		size++
	}
	next := w.at(s.at[k-1] + 1)
	if k == end || k-end+size > 3 || octet > 255 || k < len(s.text) && s.text[k] == '.' || w.at(s.at[end-1]+1) != ' ' {
		return s.at[end-1] + 1
	}
	if next == edge || next > 0 && strings.ContainsRune(",。、;)（(", next) || isHan(next) && !strings.ContainsRune(units+"端口毫", next) {
		return s.at[k-1] + 1
	}
	return s.at[end-1] + 1
}

// versionLike reports whether a dotted quad is rather a version, or the number of a section: a word says so, or its numbers are small and
// nothing speaks of an address.
func (w *window) versionLike(i, end int, octets [4]int) (bool, verdict) {
	if w.at(i-1) == '/' && isLetter(w.at(i-2)) && octets[0] < 200 && !w.cued(i, "://") && w.at(end) != ':' && w.at(end) != '/' && w.cued(i, "mozilla", "chrome", "safari", "agent", "nginx", "client", "sdk", "lib", "app", "edge") {
		return true, yes
	}
	if w.cued(i, "版本", "version", "ver.", "build", "release", "固件", "firmware", "升级到", "升级至", "补丁", "patch", "章节", "条款", "oid") && !w.cued(i, addressWords...) || w.at(i-1) == '第' {
		return true, yes
	}
	k, v := w.while(end, 1, isBlank)
	if v == open || w.at(k) == unknown {
		return false, open
	}
	if r := w.at(k); r > 0 && strings.ContainsRune("版节条款章", r) {
		return true, yes
	}
	small := octets[0] < 10 && octets != [4]int{8, 8, 4, 4} && octets != [4]int{1, 2, 4, 8} && octets != [4]int{1, 0, 0, 1}
	for _, octet := range octets {
		small = small && octet < 32
	}
	if !small || octets == [4]int{octets[0], octets[0], octets[0], octets[0]} || w.cued(i, addressWords...) {
		return false, yes
	}
	if r := w.at(end); r != ':' && r != '/' {
		return true, yes
	}
	next := w.at(end + 1) // a port, a mask
	return !isDigit(next), when(next == unknown, open, yes)
}

var addressWords = []string{"ip", "地址", "服务器", "主机", "网关", "ping", "host", "server", "from", "src", "dst", "client", "登录", "dns", "内网", "外网", "访问", "节点", "gateway", "telnet", "ssh", "addr", "代理", "网段"} //nolint:gochecknoglobals // a constant table

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
	broken := 0
	if r := w.at(head); r == unknown {
		return match{}, open
	} else if r != ':' {
		if broken, v = w.brokenHead(i); v != yes {
			return match{}, v
		}
	}
	s, v := w.spelledOver(i, broken, 48, asGroup)
	if v == open {
		return match{}, open
	}
	if len(s.text) == 48 {
		return match{}, no
	}
	for _, part := range [][]byte{s.text, s.text[:s.gap]} {
		if colons := bytes.Count(part, []byte{':'}); colons < 6 && !bytes.Contains(part, []byte("::")) {
			continue // too few groups
		}
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
		end, v := w.zone(last+1, text)
		return match{kind: kIPv6, start: i, end: end, form: 0.85}, when(v == open, open, yes)
	}
	return match{}, no
}

// zone returns the end of an address that ends before cell i, with the interface that a local one names: %eth0.
func (w *window) zone(i int, address string) (int, verdict) {
	if w.at(i) != '%' || !strings.HasPrefix(strings.ToLower(address), "fe80") {
		return i, yes
	}
	end, v := w.while(i+1, 16, isToken)
	return end, v
}

// brokenHead returns where a group goes on that paper broke before its first colon: 2 40e::1 for 240e::1.
func (w *window) brokenHead(i int) (int, verdict) {
	head, v := w.while(i, 4, isHex)
	if v == open || head == i || head-i > 4 || !isBlank(w.at(head)) {
		return 0, v & open
	}
	rest, v := w.while(head+1, 4, isHex)
	if v == open {
		return 0, open
	}
	if r := w.at(rest); r != ':' || rest-head-1+head-i != 4 {
		return 0, when(r == unknown, open, no)
	}
	return head, yes
}

func isIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.IsUnspecified() || addr.IsLoopback() || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	groups := strings.FieldsFunc(text, func(r rune) bool { return r == ':' })
	return len(groups) >= 3 || len(groups[0]) >= 4
}
