package fingerprint

import (
	"slices"
	"unicode/utf8"
)

const (
	// Gram is how many characters one fingerprint is of. It is longer than Window: so the grams that are selected of a text overlap, and have all of it but its ends.
	Gram = 24
	// Window is of how many grams in a row one is selected.
	Window = 17
	// Shortest is how many characters two texts must share to share a fingerprint for certain.
	Shortest = Gram + Window - 1
)

// Prints is what is kept of a text.
type Prints struct {
	Digest     [DigestSize]byte // of the text as it is read
	Characters int
	Selected   []uint64 // ascending, each once
}

// Printer takes in a text in pieces.
type Printer struct {
	winnow
	limit  int // fingerprints
	out    []uint64
	newest uint64 // hash of the gram that was selected last
	exact  *exact
	torn   []byte // the beginning of a character that a piece ended in
}

// NewPrinter returns the printer of an empty text. Behind limit fingerprints no more are selected; the digest goes on.
func (k *Key) NewPrinter(limit int) *Printer {
	return &Printer{winnow: winnow{key: k}, limit: limit, exact: k.newExact()}
}

// WriteString takes in a piece. It never fails.
func (p *Printer) WriteString(s string) (int, error) {
	n := len(s)
	for len(p.torn) > 0 && len(s) > 0 {
		p.torn = append(p.torn, s[0])
		s = s[1:]
		if utf8.FullRune(p.torn) {
			torn := string(p.torn)
			p.torn = p.torn[:0]
			p.take(torn)
		}
	}
	p.take(s)
	return n, nil
}

func (p *Printer) take(s string) {
	for i := 0; i < len(s); {
		if b := s[i]; b < utf8.RuneSelf {
			i++
			p.exact.add(rune(b))
			if f := asciiForms[b]; f != none {
				p.add(f)
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && !utf8.FullRuneInString(s[i:]) {
			p.torn = append(p.torn, s[i:]...)
			return
		}
		i += n
		if r != utf8.RuneError || n > 1 {
			p.exact.add(r)
		}
		if r >= hanFirst && r <= hanLast { // most of a Chinese text
			p.add(r)
			continue
		}
		eachForm(r, p.add)
	}
}

// add takes in a character that is left.
func (p *Printer) add(r rune) {
	if !p.next(r) || len(p.out) == p.limit {
		return
	}
	if gram := p.selected(); len(p.out) == 0 || gram != p.newest { // of a run of one character every gram is selected, and all are the same
		p.newest = gram
		p.out = append(p.out, p.print())
	}
}

// Prints returns what is kept of all that was taken in. Nothing may be written behind it.
func (p *Printer) Prints() Prints {
	out := Prints{Characters: p.n, Selected: p.out}
	p.exact.sum(out.Digest[:])
	slices.Sort(out.Selected)
	out.Selected = slices.Compact(out.Selected)
	return out
}

// places is how many hashes of grams are held: a power of two, for speed, that is no less than Window.
const places = 32

// winnow selects grams of a stream of characters.
type winnow struct {
	key     *Key
	n       int    // characters so far
	hash    uint64 // of the last Gram of them
	last    [Gram]uint64
	grams   [places]uint64 // the hashes of the last grams, by place
	least   int            // place of the selected one among all grams, from 0
	scratch [16]byte
}

// next takes in a character. It reports whether a window has ended that selects another gram than the one before it.
func (w *winnow) next(r rune) bool {
	c := uint64(r) + 1
	slot := &w.last[uint(w.n)%Gram]
	gone := *slot // 0 while there is none
	*slot = c
	w.n++
	w.hash = reduce(mul(w.hash, w.key.base) + c + prime - mul(gone, w.key.top))
	at := w.n - Gram
	if at < 0 {
		return false
	}
	w.grams[uint(at)%places] = w.hash
	if at < Window-1 {
		return false
	}
	if at >= Window && at-w.least < Window {
		if w.hash > w.grams[uint(w.least)%places] {
			return false
		}
		w.least = at
		return true
	}
	w.least = w.leastOf(at)
	return true
}

// leastOf returns the place of the least hash of the window that ends at a place. Of equal ones the last is selected.
func (w *winnow) leastOf(at int) int {
	least := at - Window + 1
	hash := w.grams[uint(least)%places]
	for i := least + 1; i <= at; i++ {
		if h := w.grams[uint(i)%places]; h <= hash {
			least, hash = i, h
		}
	}
	return least
}

// selected is the hash of the gram that was selected last.
func (w *winnow) selected() uint64 { return w.grams[uint(w.least)%places] }

// print is the fingerprint of the gram that was selected last.
func (w *winnow) print() uint64 { return w.key.print(w.selected(), &w.scratch) }
