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
	Start   int // its first character in the text as it was asked
	End     int // behind its last one
}

// Ask returns the question for a text.
func (k *Key) Ask(text string) Question {
	w := winnow{key: k}
	m := hmac.New(k.hash, k.whole)
	var q Question
	var from []int // which character each normalised one is of
	piece := make([]byte, 0, utf8.UTFMax)
	at := 0
	for i, r := range text {
		if r == utf8.RuneError && !utf8.FullRuneInString(text[i:]) {
			break // as a Printer leaves it out
		}
		eachForm(r, func(f rune) {
			from = append(from, at)
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
	for i := range q.Asked {
		a := &q.Asked[i]
		a.Start, a.End = from[a.At], from[a.At+Gram-1]+1
	}
	return q
}
