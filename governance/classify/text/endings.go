package text

import "unicode/utf8"

// Endings are words in lower case by their last characters.
type Endings struct {
	ascii  [0x80][]string
	before [0x80]*RuneSet // what stands before the last character in those, nil where one of them is one character alone
	last   *RuneSet       // of the others
	others map[rune][]string
}

// EndingsOf returns the words, to be found by their last characters.
func EndingsOf(words ...string) *Endings {
	e := &Endings{others: map[rune][]string{}}
	all := ""
	for _, word := range words {
		last, _ := utf8.DecodeLastRuneInString(word)
		if last < 0x80 {
			e.ascii[last] = append(e.ascii[last], word)
			continue
		}
		e.others[last] = append(e.others[last], word)
		all += string(last)
	}
	e.last = RunesOf(all)
	for r, words := range e.ascii {
		before := ""
		for _, word := range words {
			if len(word) == 1 {
				before = ""
				break
			}
			r, _ := utf8.DecodeLastRuneInString(word[:len(word)-1])
			before += string(r)
		}
		if before != "" {
			e.before[r] = RunesOf(before)
		}
	}
	return e
}

// Of returns the words that end with a character.
func (e *Endings) Of(r rune) []string {
	switch {
	case uint32(r) < 0x80:
		return e.ascii[r]
	case e.last.Has(r):
		return e.others[r]
	}
	return nil
}

// Adjacent reports whether one of the labels, in lower case, stands directly before cell i, apart from at most six characters that join a
// label and its value.
func (w *Window) Adjacent(i int, labels *Endings) bool { return w.LabelledBy(i, 6, joiners, labels) }

var joiners = RunesOf(":=是为号码([【「『\"'“” ,><-_\n")

// LabelledBy reports whether one of the labels stands before cell i, with at most so many of the joining characters between.
func (w *Window) LabelledBy(i, most int, joining *RuneSet, labels *Endings) bool {
	for k := i - 1; k >= 0; k-- {
		if w.EndsWith(k, labels) {
			return true
		}
		if i-1-k >= most || !joining.Has(w.At(k)) {
			return false
		}
	}
	return false
}

// EndsWith reports whether one of the labels ends with cell k.
func (w *Window) EndsWith(k int, labels *Endings) bool {
	if k < 0 {
		return false
	}
	r := Lower(w.At(k))
	words := labels.Of(r)
	if len(words) == 0 || r < 0x80 && labels.before[r] != nil && !labels.before[r].Has(Lower(w.At(k-1))) {
		return false
	}
	for _, label := range words {
		if w.EndsIn(k, label) {
			return true
		}
	}
	return false
}

// EndsIn reports whether a label ends with cell k. One stray blank between its Chinese characters does not matter.
func (w *Window) EndsIn(k int, label string) bool {
	first, blanks := rune(0), 0
	for rest := label; rest != ""; k-- {
		r, size := rune(rest[len(rest)-1]), 1
		if r >= 0x80 {
			r, size = utf8.DecodeLastRuneInString(rest)
		}
		if k >= 0 && IsBlank(w.At(k)) && blanks == 0 && first >= 0x80 && r >= 0x80 {
			blanks++
			continue
		}
		if k < 0 || Lower(w.At(k)) != r {
			return false
		}
		rest, first = rest[:len(rest)-size], r
	}
	camel := k >= 0 && k+1 < w.End() && w.At(k) >= 'a' && w.At(k+1) <= 'Z' // contactWechat
	return k < 0 || !IsAlnum(first) || !IsLetter(w.At(k)) || camel
}
