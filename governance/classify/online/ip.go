package online

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// Hosts finds the addresses of machines.
type Hosts struct{ speller }

// Detect looks for the addresses that begin at place i.
func (w *Hosts) Detect(d *finding.Decision, i int) {
	if d.Asks(finding.IPv4, finding.TriggerIPv4) {
		d.Ask(ipv4(w, i))
	}
	if d.Asks(finding.IPv6, finding.TriggerIPv6) {
		d.Ask(ipv6(w, i))
	}
}

// HostTriggers says what may begin with r behind left.
func HostTriggers(r, left rune) (b finding.Triggers) {
	boundary := !text.IsAlnum(left)
	if (text.IsDigit(r) || text.Misread(r) != 0 && boundary) && !text.IsDigit(left) {
		b |= finding.TriggerIPv4
	}
	if (text.IsHex(r) || r == ':') && boundary && left != '.' && left != '_' {
		b |= finding.TriggerIPv6
	}
	return b
}

// Refine takes away what does not begin at place i.
func (w *Hosts) Refine(i int, may finding.Triggers) finding.Triggers {
	if may&finding.TriggerIPv6 != 0 && !w.groupAhead(i) {
		may &^= finding.TriggerIPv6
	}
	return may
}

func asQuad(r rune) byte {
	switch {
	case text.IsDigit(r) || r == '.':
		return byte(r)
	case r == '。':
		return ','
	}
	return text.Misread(r)
}

// quad reads a dotted quad: where it ends, and whether it is written as such quads are.
func quad(s []byte) (end int, octets [4]int, plain bool) {
	plain = true
	for n := range octets {
		size := 0
		for ; end < len(s) && text.IsDigit(rune(s[end])) && size < 4; end++ {
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
func ipv4(w *Hosts, i int) (finding.Candidate, text.Verdict) {
	left := w.At(i - 1)
	if text.IsDigit(left) || left == '.' && text.IsDigit(w.At(i-2)) || text.Lower(left) == 'v' && !text.IsLetter(w.At(i-2)) {
		return finding.Candidate{}, text.No
	}
	switch size, v := w.While(i, 4, text.IsDigit); { // no other number waits for what follows it
	case v == text.Open:
		return finding.Candidate{}, text.Open
	case size-i == 4:
		return finding.Candidate{}, text.No
	case asQuad(w.At(size)) == 0 && w.At(size) != text.Unknown && !(text.IsBlank(w.At(size)) && (asQuad(w.At(size+1)) != 0 || w.At(size+1) == text.Unknown)):
		return finding.Candidate{}, text.No // a number boundary
	}
	s, v := w.spelled(i, 24, asQuad)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	end, octets, plain := quad(s.text[:s.gap])
	if end == 0 {
		end, octets, plain = quad(s.text)
		plain = plain && end <= s.gap
	}
	if end == 0 {
		return finding.Candidate{}, text.No
	}
	for _, at := range s.at[:end] {
		plain = plain && text.Misread(w.At(at)) == 0
	}
	last := s.at[end-1]
	if r, next := w.At(last+1), w.At(last+2); r == '.' && next == text.Unknown {
		return finding.Candidate{}, text.Open
	} else if r == '.' && text.IsDigit(next) || !plain && end < 10 && !w.PrecededBy(i, addressWords...) {
		return finding.Candidate{}, text.No
	}
	if octets[0] == 0 || octets[0] == 127 || octets[0] == 255 {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.IPv4, Start: i, End: last + 1, Form: 0.8}
	if isVersion, v := w.versionLike(i, m.End, octets); v == text.Open || isVersion {
		return finding.Candidate{}, v & text.Open
	}
	if end == s.gap && end < len(s.text) {
		m.End = w.restOfOctet(s, end, octets[3])
	}
	return m, text.Yes
}

// restOfOctet returns the end of an address whose last octet paper broke: the digits behind the blank stand before Chinese text or a mark,
// and not before what is counted.
func (w *Hosts) restOfOctet(s spelling, end, octet int) int {
	k := end
	for k < len(s.text) && text.IsDigit(rune(s.text[k])) {
		octet = octet*10 + int(s.text[k]-'0')
		k++
	}
	size := 1
	for size < end && text.IsDigit(rune(s.text[end-1-size])) {
		size++
	}
	next := w.At(s.at[k-1] + 1)
	if k == end || k-end+size > 3 || octet > 255 || k < len(s.text) && s.text[k] == '.' || w.At(s.at[end-1]+1) != ' ' {
		return s.at[end-1] + 1
	}
	if next == text.Edge || next > 0 && strings.ContainsRune(",。、;)（(", next) || text.IsHan(next) && !strings.ContainsRune(text.Units+"端口毫", next) {
		return s.at[k-1] + 1
	}
	return s.at[end-1] + 1
}

// versionLike reports whether a dotted quad is rather a version, or the number of a section: a word says so, or its numbers are small and
// nothing speaks of an address.
func (w *Hosts) versionLike(i, end int, octets [4]int) (bool, text.Verdict) {
	if w.At(i-1) == '/' && text.IsLetter(w.At(i-2)) && octets[0] < 200 && !w.PrecededBy(i, "://") && w.At(end) != ':' && w.At(end) != '/' && w.PrecededBy(i, "mozilla", "chrome", "safari", "agent", "nginx", "client", "sdk", "lib", "app", "edge") {
		return true, text.Yes
	}
	if w.PrecededBy(i, "版本", "version", "ver.", "build", "release", "固件", "firmware", "升级到", "升级至", "补丁", "patch", "章节", "条款", "oid") && !w.PrecededBy(i, addressWords...) || w.At(i-1) == '第' {
		return true, text.Yes
	}
	k, v := w.While(end, 1, text.IsBlank)
	if v == text.Open || w.At(k) == text.Unknown {
		return false, text.Open
	}
	if r := w.At(k); r > 0 && strings.ContainsRune("版节条款章", r) {
		return true, text.Yes
	}
	small := octets[0] < 10 && octets != [4]int{8, 8, 4, 4} && octets != [4]int{1, 2, 4, 8} && octets != [4]int{1, 0, 0, 1}
	for _, octet := range octets {
		small = small && octet < 32
	}
	if !small || octets == [4]int{octets[0], octets[0], octets[0], octets[0]} || w.PrecededBy(i, addressWords...) {
		return false, text.Yes
	}
	if r := w.At(end); r != ':' && r != '/' {
		return true, text.Yes
	}
	next := w.At(end + 1) // a port, a mask
	return !text.IsDigit(next), text.When(next == text.Unknown, text.Open, text.Yes)
}

var addressWords = []string{"ip", "地址", "服务器", "主机", "网关", "ping", "host", "server", "from", "src", "dst", "client", "登录", "dns", "内网", "外网", "访问", "节点", "gateway", "telnet", "ssh", "addr", "代理", "网段"}

func asGroup(r rune) byte {
	if text.IsHex(r) || r == ':' || r == '.' {
		return byte(r)
	}
	return text.Misread(r)
}

// ipv6 finds addresses the standard library accepts, also with one blank inside, without those that name nobody and without scope operators
// of programs.
func ipv6(w *Hosts, i int) (finding.Candidate, text.Verdict) {
	left := w.At(i - 1)
	if text.IsAlnum(left) || left == '.' || left == '_' || left == ':' && (text.IsAlnum(w.At(i-2)) || w.At(i-2) == ':') {
		return finding.Candidate{}, text.No
	}
	// A group has four digits at most: without a colon by then it is a word or a number.
	head, v := w.While(i, 5, func(r rune) bool { return asGroup(r) != 0 && r != ':' && r != '.' })
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	broken := 0
	if r := w.At(head); r == text.Unknown {
		return finding.Candidate{}, text.Open
	} else if r != ':' {
		if broken, v = w.brokenHead(i); v != text.Yes {
			return finding.Candidate{}, v
		}
	}
	s, v := w.spelledOver(i, broken, 48, asGroup)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if len(s.text) == 48 {
		return finding.Candidate{}, text.No
	}
	for _, part := range [][]byte{s.text, s.text[:s.gap]} {
		if colons := bytes.Count(part, []byte{':'}); colons < 6 && !bytes.Contains(part, []byte("::")) {
			continue // too few groups
		}
		str := strings.TrimRight(string(part), ".")
		if !strings.HasSuffix(str, "::") {
			str = strings.TrimRight(str, ":")
		}
		if !isIPv6(str) {
			continue
		}
		last := s.at[len(str)-1]
		switch next := w.At(last + 1); {
		case next == text.Unknown:
			return finding.Candidate{}, text.Open
		case text.IsAlnum(next) || next == '_':
			continue
		}
		end, v := w.zone(last+1, str)
		return finding.Candidate{Kind: finding.IPv6, Start: i, End: end, Form: 0.85}, text.When(v == text.Open, text.Open, text.Yes)
	}
	return finding.Candidate{}, text.No
}

// zone returns the end of an address that ends before cell i, with the interface that a local one names: %eth0.
func (w *Hosts) zone(i int, address string) (int, text.Verdict) {
	if w.At(i) != '%' || !strings.HasPrefix(strings.ToLower(address), "fe80") {
		return i, text.Yes
	}
	end, v := w.While(i+1, 16, text.IsToken)
	return end, v
}

// brokenHead returns where a group goes on that paper broke before its first colon: 2 40e::1 for 240e::1.
func (w *Hosts) brokenHead(i int) (int, text.Verdict) {
	head, v := w.While(i, 4, text.IsHex)
	if v == text.Open || head == i || head-i > 4 || !text.IsBlank(w.At(head)) {
		return 0, v & text.Open
	}
	rest, v := w.While(head+1, 4, text.IsHex)
	if v == text.Open {
		return 0, text.Open
	}
	if r := w.At(rest); r != ':' || rest-head-1+head-i != 4 {
		return 0, text.When(r == text.Unknown, text.Open, text.No)
	}
	return head, text.Yes
}

func isIPv6(text string) bool {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.IsUnspecified() || addr.IsLoopback() || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	groups := strings.FieldsFunc(text, func(r rune) bool { return r == ':' })
	return len(groups) >= 3 || len(groups[0]) >= 4
}

// groupAhead reports whether a colon ends up to four hexadecimal digits at cell i, or may. A blank may break them.
func (w *Hosts) groupAhead(i int) bool {
	for k := i; k < i+5; k++ {
		if r := w.At(k); r == ':' || r == text.Unknown {
			return true
		} else if text.IsBlank(r) {
			end, v := w.While(k+1, 4, text.IsHex)
			return v == text.Open || w.At(end) == ':' || w.At(end) == text.Unknown
		} else if !text.IsHex(r) && text.Misread(r) == 0 {
			return false
		}
	}
	return w.At(i+5) == ':' || w.At(i+5) == text.Unknown
}
