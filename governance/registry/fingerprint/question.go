package fingerprint

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// Question is a text that is looked for.
type Question struct {
	Characters int // of the normalised text
	Length     int // of the text as it was asked, in characters
	Windows    int
	Asked      []Asked // in the order of the text
	// Thinned: there are more grams that windows have selected than were to be asked for.
	Thinned bool
}

// Asked is a gram of the text. Those that windows have selected are in the fingerprints of every text that shares a window; any other is there if a
// window of that text has selected it.
type Asked struct {
	Print   uint64
	Windows int // how many selected it; 0 for one that none has
	At      int // the normalised character that it begins at
	Start   int // its first character in the text as it was asked
	End     int // behind its last one
}

// Ask returns the question for a text, with at most so many grams: all of them, else those that windows have selected and some others, else some of those; always
// spread over all of the text.
func (k *Key) Ask(text string, most int) Question {
	r := asking{winnow: winnow{key: k}}
	for i, c := range text {
		if c == utf8.RuneError && !utf8.FullRuneInString(text[i:]) {
			break // as a Printer leaves it out
		}
		eachForm(c, r.take)
		r.length++
	}
	q := Question{Characters: r.n, Length: r.length, Windows: r.windows, Thinned: len(r.selected) > most}
	q.Asked = r.choose(most)
	return q
}

// asking takes in a text that is asked.
type asking struct {
	winnow
	length   int
	from     []int    // which character each normalised one is of
	hashes   []uint64 // of all grams
	selected []Asked
	windows  int
}

func (r *asking) take(f rune) {
	r.from = append(r.from, r.length)
	fresh := r.next(f)
	if r.n >= Gram {
		r.hashes = append(r.hashes, r.hash)
	}
	if last := len(r.selected) - 1; fresh && (last < 0 || r.hashes[r.selected[last].At] != r.winnow.selected()) {
		r.selected = append(r.selected, Asked{At: r.least})
	}
	if last := len(r.selected) - 1; last >= 0 {
		r.selected[last].Windows++
		r.windows++
	}
}

// choose returns at most so many grams.
func (r *asking) choose(most int) []Asked {
	out := slices.Clone(evenly(r.selected, most))
	if room := most - len(r.selected); room > 0 && len(r.selected) > 0 {
		taken := map[int]bool{}
		for _, a := range r.selected {
			taken[a.At] = true
		}
		var others []Asked
		for at := range r.hashes {
			if !taken[at] {
				others = append(others, Asked{At: at})
			}
		}
		out = append(out, evenly(others, room)...)
		slices.SortFunc(out, func(a, b Asked) int { return cmp.Compare(a.At, b.At) })
	}
	for i := range out {
		a := &out[i]
		a.Print = r.key.print(r.hashes[a.At], &r.scratch)
		a.Start, a.End = r.from[a.At], r.from[a.At+Gram-1]+1
	}
	return out
}

// evenly returns at most n of what there is, spread over all.
func evenly(all []Asked, n int) []Asked {
	if len(all) <= n {
		return all
	}
	out := make([]Asked, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}
