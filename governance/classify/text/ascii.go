package text

// Any reports whether one of the characters from place i up to another one is in the set.
func (w *Window) Any(i, end int, in func(rune) bool) bool {
	for ; i < end && i < w.End(); i++ {
		if in(w.At(i)) {
			return true
		}
	}
	return false
}

// ASCII returns the characters from place i up to another one, which are ASCII.
func (w *Window) ASCII(i, end int) string {
	return string(w.AppendASCII(make([]byte, 0, end-i), i, end))
}

// AppendASCII adds such characters to b.
func (w *Window) AppendASCII(b []byte, i, end int) []byte {
	for _, c := range w.Cells(i, end) {
		b = append(b, byte(c.R))
	}
	return b
}
