package classify

import "strings"

// pem finds private keys from their begin mark to their end mark; without an end mark everything that follows belongs to it.
func pem(w *window, i int) (match, verdict) {
	k, v := w.literal(i, "-----begin ")
	if v != yes {
		return match{}, v
	}
	label, v := w.while(k, 40, func(r rune) bool { return isAlnum(r) || r == ' ' })
	if v == open {
		return match{}, open
	}
	name := strings.TrimSuffix(strings.ToUpper(w.ascii(k, label)), " BLOCK") // as PGP has it
	if !strings.HasSuffix(name, "PRIVATE KEY") {
		return match{}, no
	}
	m := match{kind: kSecret, start: i, form: 1, block: true}
	end, last, v := w.pemPiece(i + 5)
	if v == open {
		return match{}, open
	}
	m.end = end
	if !last {
		m.more = &run{kind: kSecret}
	}
	return m, yes
}

// pemPiece looks for the end mark from i on.
func (w *window) pemPiece(i int) (end int, last bool, v verdict) {
	for k := i; k < i+maxPEM; k++ {
		switch w.at(k) {
		case unknown:
			return 0, false, open
		case edge:
			return k, true, yes
		case '-':
			mark, v := w.literal(k, "-----end ")
			if v == open {
				return 0, false, open
			}
			if v == no {
				continue
			}
			if end, v = w.while(mark, 40, func(r rune) bool { return isAlnum(r) || r == ' ' }); v == yes {
				end, v = w.while(end, 5, func(r rune) bool { return r == '-' })
			}
			return end, true, v
		}
	}
	return i + maxPEM, false, yes
}
