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
	b := make([]byte, 0, end-i)
	for _, c := range w.cells[i:end] {
		b = append(b, byte(c.r))
	}
	return string(b)
}
