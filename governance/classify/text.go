package classify

import (
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
	if isBlank(w.at(at)) && at-i < maxEmail && w.adjacent(i, emailEndings) { // a line break of paper
		more, v := w.while(at+1, maxEmail, isLocal)
		if v == open {
			return match{}, open
		}
		if w.at(more) == '@' && more > at+1 {
			at = more
		}
	}
	if at-i == maxEmail {
		if !w.any(i, i+64, isLetter) {
			return match{}, no
		}
		m.end, m.form, m.more = at, threshold, &run{kEmail, isLocal}
		return m, yes
	}
	// Behind a plain word a blank decides, or every word would wait for the next.
	if isBlank(w.at(at)) && !w.any(i, at, func(r rune) bool { return isLocal(r) && !isLetter(r) }) {
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
	if w.at(i) == sign && sign == '.' || w.at(i) == '。' && sign == '.' {
		return i + 1, yes
	}
	if isBlank(w.at(i)) {
		i++
	}
	switch r := w.at(i); r {
	case unknown:
		return 0, open
	case sign:
		end = i + 1
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

var emailLabels = []string{"邮箱", "邮件", "邮址", "email", "e-mail", "mail", "to", "from", "cc", "contact"} //nolint:gochecknoglobals // a constant table

func isLocal(r rune) bool {
	return isAlnum(r) || r == '.' || r == '_' || r == '%' || r == '+' || r == '-'
}

// domain returns the end of the domain name at i: the longest prefix of at least two labels whose last is a top-level domain.
func (w *window) domain(i int) (end int, v verdict) {
	inLabel := func(r rune) bool { return isAlnum(r) || r == '-' }
	for labels, stop := 1, i+maxEmail; ; labels++ {
		to, v := w.while(i, 64, inLabel)
		if v == open {
			return 0, open
		}
		if to == i {
			break
		}
		if isBlank(w.at(to)) && (labels == 1 || !w.topLevel(i, to)) { // broken by paper, if the rest goes on as a name does
			rest, v := w.while(to+1, 64, inLabel)
			if v == open {
				return 0, open
			}
			if r := w.at(rest); rest > to+1 && (r == '.' || r == '。') {
				to = rest
			}
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

func (w *window) ascii(i, end int) string {
	b := make([]byte, 0, end-i)
	for _, c := range w.cells[i:end] {
		b = append(b, byte(c.r))
	}
	return string(b)
}
