package text

// Buffer makes a window of text that arrives in pieces.
type Buffer struct {
	Window
	norm normaliser
}

// Read takes text that stands at an offset of the original, and returns how many bytes of it have become cells. What is left, fewer than
// maxEscape bytes, is to be read again with what follows; with final set nothing is left, and nothing follows.
func (b *Buffer) Read(text string, offset int, final bool) (used int) {
	b.cells, used = b.norm.add(b.cells, text, offset, final)
	b.final = final
	return used
}

// Staged returns where in the original the first character stands that has become no cell yet because more text may change it.
func (b *Buffer) Staged() (offset int, ok bool) { return b.norm.stagedAt() }

// Reset goes to the beginning of another text. It keeps room that was made, unless that is large.
func (b *Buffer) Reset() {
	const most = 16 << 10
	kept := b.cells[:0]
	if cap(kept) > most {
		kept = nil
	}
	clear(b.cells)
	*b = Buffer{Window: Window{cells: kept}}
}

// Forget drops the cells before cell i if they are at least half of all.
func (b *Buffer) Forget(i int) {
	if i <= 0 || i < len(b.cells)/2 {
		return
	}
	kept := append(b.cells[:0], b.cells[i:]...)
	clear(b.cells[len(kept):])
	b.cells, b.base = kept, b.Place(i)
}
