// Package text is a leaf: text as detectors of sensitive values see it. Text that arrives in pieces becomes cells, one for each character of the
// normalised text, each of which knows where it stands in the original. A question about text that has not arrived yet has the answer [Open];
// every other answer stays right, whatever follows.
package text

import "strings"

// Verdict is a detector's answer on what it has seen. yes and no are final: more text does not change them.
type Verdict uint8

// The verdicts.
const (
	No Verdict = iota
	Yes
	Open // more text could change the answer
)

// What window.at says where there is no cell.
const (
	Edge    rune = -1 // before the beginning or behind the end of the text
	Unknown rune = -2 // not arrived yet
)

// Window is the text a detector sees.
type Window struct {
	cells []Cell
	base  Place // of the first of them
	final bool  // nothing will follow
}

// At returns the character at place i.
func (w *Window) At(i int) rune {
	if uint(i) < uint(len(w.cells)) {
		return w.cells[i].R
	}
	return w.outside(i)
}

// End is the index behind the last cell that has arrived.
func (w *Window) End() int { return len(w.cells) }

// Has reports whether there is a cell i.
func (w *Window) Has(i int) bool { return uint(i) < uint(len(w.cells)) }

// Cell returns cell i, which has to be there.
func (w *Window) Cell(i int) *Cell { return &w.cells[i] }

// Cells returns the cells from one up to another.
func (w *Window) Cells(i, end int) []Cell { return w.cells[i:end] }

// Place is a cell counted from the beginning of the text: it stays what it is when cells that nobody looks at any more are dropped. Whatever is
// remembered from one window to the next is a place; an index is good for one window.
type Place int

// Place is where cell i is in the text.
func (w *Window) Place(i int) Place { return w.base + Place(i) }

// Index is the cell at a place, below 0 if it was dropped.
func (w *Window) Index(p Place) int { return int(p - w.base) }

// Stretch is a stretch of cells by their places.
type Stretch struct{ Start, End Place }

// Stretch is where the cells from one up to another are in the text.
func (w *Window) Stretch(i, end int) Stretch { return Stretch{w.Place(i), w.Place(end)} }

// Span returns the indexes of a stretch.
func (w *Window) Span(s Stretch) Span { return Span{w.Index(s.Start), w.Index(s.End)} }

// outside is what stands where no cell is.
func (w *Window) outside(i int) rune {
	if i < 0 || w.final {
		return Edge
	}
	return Unknown
}

// Literal compares the cells at i with a lower-case text, without regard to ASCII case.
func (w *Window) Literal(i int, text string) (end int, v Verdict) {
	for _, want := range text {
		got := w.At(i)
		if got == Unknown {
			return i, Open
		}
		if Lower(got) != want {
			return i, No
		}
		i++
	}
	return i, Yes
}

// While returns the first index from i on whose rune is not in the set, at most limit cells further. v is open if the text ended
// before that was known.
func (w *Window) While(i, limit int, in func(rune) bool) (end int, v Verdict) {
	for n := 0; n < limit; n++ {
		r := w.At(i)
		if r == Unknown {
			return i, Open
		}
		if r == Edge || !in(r) {
			return i, Yes
		}
		i++
	}
	return i, Yes
}

// Letters is while for letters.
func (w *Window) Letters(i, limit int) (end int, v Verdict) {
	for end = i; end < i+limit; end++ {
		if r := w.At(end); !IsLetter(r) {
			return end, When(r == Unknown, Open, Yes)
		}
	}
	return end, Yes
}

// PrecededBy reports whether one of the words, in lower case, ends within 16 cells left of i.
func (w *Window) PrecededBy(i int, words ...string) bool {
	var b strings.Builder
	for k := max(0, i-16); k < i; k++ {
		b.WriteRune(Lower(w.At(k)))
	}
	for _, word := range words {
		if strings.Contains(b.String(), word) {
			return true
		}
	}
	return false
}

// FollowedBy reports whether one of the words, in lower case, begins within 12 cells from i on, in the same sentence.
func (w *Window) FollowedBy(i int, words ...string) (bool, Verdict) {
	var b strings.Builder
	v := Yes
	for k := i; k < i+12; k++ {
		r := w.At(k)
		if r == Unknown {
			v = Open
			break
		}
		if r == Edge || strings.ContainsRune("\n。；;！!？?", r) {
			break
		}
		b.WriteRune(Lower(r))
	}
	for _, word := range words {
		if strings.Contains(b.String(), word) {
			return true, Yes
		}
	}
	return false, v
}

// RowEnd returns the end of the row of letters and digits at cell i, at most maxEmail cells further.
func (w *Window) RowEnd(i int) int {
	last := min(w.End(), i+MaxRow)
	for i < last && IsAlnum(w.At(i)) {
		i++
	}
	return i
}

// When is one verdict where a condition holds, and the other one where it does not.
func When(holds bool, then, otherwise Verdict) Verdict {
	if holds {
		return then
	}
	return otherwise
}

// OneOf returns the end of the first of some words that stands at cell i, and behind which no letter goes on.
func (w *Window) OneOf(i int, words []string) (end int, v Verdict) {
	for _, word := range words {
		end, v := w.Literal(i, word)
		if v == Open {
			return 0, Open
		}
		if v == No {
			continue
		}
		if letter := IsLetter(rune(word[len(word)-1])); letter && w.At(end) == Unknown {
			return 0, Open
		} else if !letter || !IsLetter(w.At(end)) {
			return end, Yes
		}
	}
	return 0, No
}

// Span is a stretch of cells.
type Span struct{ Start, End int }

// How far detectors look, in cells.
const (
	MaxRow      = 254 // characters of an address of mail: no row of letters and digits is followed further
	LeftContext = 32  // to the left, for neighbours and the words that point at a value
)
