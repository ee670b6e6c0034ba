package classify

func (w *window) any(i, end int, in func(rune) bool) bool {
	for ; i < end && i < len(w.cells); i++ {
		if in(w.cells[i].r) {
			return true
		}
	}
	return false
}

func (w *window) ascii(i, end int) string {
	return string(w.appendASCII(make([]byte, 0, end-i), i, end))
}

// spell is ascii for at most maxSpelled cells; the text lasts until the next one is spelled.
func (w *window) spell(i, end int) []byte { return w.appendASCII(w.spelt[:0], i, end) }

func (w *window) appendASCII(b []byte, i, end int) []byte {
	for _, c := range w.cells[i:end] {
		b = append(b, byte(c.r))
	}
	return b
}
