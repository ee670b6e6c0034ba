package fingerprint

import (
	"crypto/hmac"
	"unicode/utf8"
)

// Question is a text that is looked for.
type Question struct {
	Digest     [DigestSize]byte
	Characters int
	Windows    int
	Asked      []Asked // in the order of the text
}

// Asked is a gram that windows of the text have selected.
type Asked struct {
	Print   uint64
	Windows int // how many selected it
	At      int // the normalised character that it begins at
	Start   int // the first character of the text as it was asked that is in its windows
	End     int // behind the last one
}

// Ask returns the question for a text.
func (k *Key) Ask(text string) Question {
	w := winnow{key: k}
	m := hmac.New(k.hash, k.whole)
	var q Question
	var places []int // of the normalised characters
	piece := make([]byte, 0, utf8.UTFMax)
	at := 0
	for i, r := range text {
		if r == utf8.RuneError && !utf8.FullRuneInString(text[i:]) {
			break // as a Printer leaves it out
		}
		eachForm(r, func(f rune) {
			places = append(places, at)
			piece = utf8.AppendRune(piece[:0], f)
			m.Write(piece)
			if w.next(f) {
				q.Asked = append(q.Asked, Asked{Print: w.print(), At: w.least})
			}
			if last := len(q.Asked) - 1; last >= 0 {
				q.Asked[last].Windows++
				q.Windows++
			}
		})
		at++
	}
	q.Characters = w.n
	copy(q.Digest[:], m.Sum(nil))
	first := 0 // window
	for i := range q.Asked {
		a := &q.Asked[i]
		a.Start, a.End = places[first], places[first+a.Windows-1+Shortest-1]+1
		first += a.Windows
	}
	return q
}
