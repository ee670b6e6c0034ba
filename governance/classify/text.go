package classify

import (
	"net/netip"
	"strings"
)

// email finds local@domain with a top-level domain of letters. A run of local characters that reaches the limit without an @ is
// undecided there and therefore masked, if it has letters at all.
func email(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	if isAlnum(left) || left == '_' || isLocal(left) && isAlnum(w.at(i-2)) {
		return match{}, no
	}
	m := match{kind: kEmail, start: i, form: 0.9}
	at, v := w.while(i, maxEmail, isLocal)
	if v == open {
		return match{}, open
	}
	if at-i == maxEmail {
		if !w.any(i, i+64, isLetter) {
			return match{}, no
		}
		m.end, m.form, m.more = at, threshold, &run{kEmail, isLocal}
		return m, yes
	}
	// Behind a plain word a blank decides, or every word would wait for the next.
	if w.at(at) == ' ' && !w.any(i, at, func(r rune) bool { return isLocal(r) && !isLetter(r) }) {
		return match{}, no
	}
	host, v := w.sign(at, '@', "at", "艾特")
	if v != yes {
		return match{}, v
	}
	end, v := w.domain(host)
	if v != yes {
		return match{}, v
	}
	m.end = end
	return m, yes
}

// sign returns the end of a sign, or of what people write for it: its English name in brackets or its Chinese one, with a blank on either
// side.
func (w *window) sign(i int, sign rune, english, chinese string) (end int, v verdict) {
	if w.at(i) == sign {
		return i + 1, yes
	}
	if w.at(i) == ' ' {
		i++
	}
	switch r := w.at(i); r {
	case unknown:
		return 0, open
	case '[', '(', '{', '【', '<':
		if end, v = w.literal(i+1, english); v != yes {
			return 0, v
		}
		closing := w.at(end)
		if closing == unknown {
			return 0, open
		}
		if !strings.ContainsRune("])}】>", closing) || closing < 0 {
			return 0, no
		}
		end++
	default:
		if end, v = w.literal(i, chinese); v != yes {
			return 0, v
		}
	}
	if w.at(end) == unknown {
		return 0, open
	}
	if w.at(end) == ' ' {
		end++
	}
	return end, yes
}

func isLocal(r rune) bool {
	return isAlnum(r) || r == '.' || r == '_' || r == '%' || r == '+' || r == '-'
}

// domain returns the end of the domain name at i: the longest prefix of at least two labels whose last is a top-level domain.
func (w *window) domain(i int) (end int, v verdict) {
	for labels, stop := 1, i+maxEmail; ; labels++ {
		to, v := w.while(i, 64, func(r rune) bool { return isAlnum(r) || r == '-' })
		if v == open {
			return 0, open
		}
		if to == i {
			break
		}
		if labels > 1 && w.topLevel(i, to) {
			end = to
		}
		if w.at(to) == unknown {
			return 0, open
		}
		next, v := w.sign(to, '.', "dot", "点")
		if v == open {
			return 0, open
		}
		if v == no || to >= stop {
			break
		}
		if w.at(next) == unknown {
			return 0, open
		}
		i = next
	}
	if end == 0 {
		return 0, no
	}
	return end, yes
}

func (w *window) topLevel(i, end int) bool {
	if end-i < 2 || end-i > 63 {
		return false
	}
	if _, v := w.literal(i, "xn--"); v == yes && end-i > 4 {
		return true
	}
	return end-i <= 24 && !w.any(i, end, func(r rune) bool { return !isLetter(r) })
}

func (w *window) any(i, end int, in func(rune) bool) bool {
	for ; i < end && i < len(w.cells); i++ {
		if in(w.cells[i].r) {
			return true
		}
	}
	return false
}

// ipv4 finds dotted quads. Version numbers (v1.2.3.4, 版本 1.2.3.4, five parts) and addresses that name nobody are left alone.
func ipv4(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	if isDigit(left) || left == '.' && isDigit(w.at(i-2)) || lower(left) == 'v' && !isLetter(w.at(i-2)) {
		return match{}, no
	}
	first, k := [4]int{}, i
	for octet := range 4 {
		end, v := w.while(k, 4, isDigit)
		if v == open {
			return match{}, open
		}
		value := 0
		for _, c := range w.cells[k:end] {
			value = value*10 + int(c.r-'0')
		}
		if size := end - k; size < 1 || size > 3 || value > 255 || size > 1 && w.at(k) == '0' {
			return match{}, no
		}
		first[octet], k = value, end
		if octet == 3 {
			break
		}
		if r := w.at(k); r != '.' {
			return match{}, no // an unknown one was open above
		}
		k++
	}
	if w.at(k) == '.' {
		if next := w.at(k + 1); next == unknown {
			return match{}, open
		} else if isDigit(next) {
			return match{}, no
		}
	}
	if first[0] == 0 || first[0] == 127 || first == [4]int{255, 255, 255, 255} || w.cued(i, "版本", "version") {
		return match{}, no
	}
	return match{kind: kIPv4, start: i, end: k, form: 0.8}, yes
}

// ipv6 finds addresses the standard library accepts, without those that name nobody and without scope operators of programs.
func ipv6(w *window, i int) (match, verdict) {
	if left := w.at(i - 1); isAlnum(left) || left == ':' || left == '.' || left == '_' {
		return match{}, no
	}
	in := func(r rune) bool { return isHex(r) || r == ':' || r == '.' }
	// A group has four digits at most: without a colon by then it is a word or a number.
	head, v := w.while(i, 5, isHex)
	if v == open {
		return match{}, open
	}
	if r := w.at(head); r == unknown {
		return match{}, open
	} else if r != ':' {
		return match{}, no
	}
	const longest = 46
	end, v := w.while(i, longest, in)
	if v == open {
		return match{}, open
	}
	if next := w.at(end); next == unknown {
		return match{}, open
	} else if end-i == longest || isAlnum(next) || next == '_' {
		return match{}, no
	}
	var b strings.Builder
	for _, c := range w.cells[i:end] {
		b.WriteRune(c.r)
	}
	text := strings.TrimRight(b.String(), ".")
	if !strings.HasSuffix(text, "::") {
		text = strings.TrimRight(text, ":")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.IsUnspecified() || addr.IsLoopback() || !strings.ContainsAny(text, "0123456789") {
		return match{}, no
	}
	if groups := strings.FieldsFunc(text, func(r rune) bool { return r == ':' }); len(groups) < 3 && len(groups[0]) < 4 {
		return match{}, no
	}
	return match{kind: kIPv6, start: i, end: i + len(text), form: 0.85}, yes
}

func (w *window) ascii(i, end int) string {
	b := make([]byte, 0, end-i)
	for _, c := range w.cells[i:end] {
		b = append(b, byte(c.r))
	}
	return string(b)
}
