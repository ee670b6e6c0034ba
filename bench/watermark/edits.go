package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
)

// pieces cuts a text into what a person edits: words with the space in front of them, and each Chinese character by itself.
func pieces(text string) (out []string) {
	from, word := 0, false
	for i, r := range text {
		han := unicode.Is(unicode.Han, r)
		if i > from && (han || word && unicode.IsSpace(r)) {
			out, from, word = append(out, text[from:i]), i, false
		}
		word = word || han || !unicode.IsSpace(r)
	}
	if from < len(text) {
		out = append(out, text[from:])
	}
	return out
}

// sentences cuts a text behind full stops, question and exclamation marks and line breaks.
func sentences(text string) (out []string) {
	from, ended := 0, false
	for i, r := range text {
		end := strings.ContainsRune(".!?\n。！？", r)
		if ended && !end && !unicode.IsSpace(r) {
			out, from = append(out, text[from:i]), i
		}
		ended = end || ended && unicode.IsSpace(r)
	}
	return append(out, text[from:])
}

// An edit changes a share of a text.
type edit struct {
	name string
	do   func(r *rand.Rand, text string, share float64) string
}

// edits are those of a person who hides where a text comes from. What is put in is a word of the same text: there is no table of synonyms here.
func edits() []edit {
	return []edit{
		{"insert", func(r *rand.Rand, text string, share float64) string {
			return eachPiece(r, text, share, func(piece, other string) string { return other + piece })
		}},
		{"delete", func(r *rand.Rand, text string, share float64) string {
			return eachPiece(r, text, share, func(string, string) string { return "" })
		}},
		{"substitute", func(r *rand.Rand, text string, share float64) string {
			return eachPiece(r, text, share, func(_, other string) string { return other })
		}},
		{"re-order sentences", reorder},
	}
}

func eachPiece(r *rand.Rand, text string, share float64, change func(piece, other string) string) string {
	all := pieces(text)
	var b strings.Builder
	for _, p := range all {
		if r.Float64() < share {
			p = change(p, all[r.IntN(len(all))])
		}
		b.WriteString(p)
	}
	return b.String()
}

// reorder moves a share of the sentences to other places.
func reorder(r *rand.Rand, text string, share float64) string {
	all := sentences(text)
	var stay, moved []string
	for _, s := range all {
		if r.Float64() < share {
			moved = append(moved, s)
		} else {
			stay = append(stay, s)
		}
	}
	for _, s := range moved {
		stay = slices.Insert(stay, r.IntN(len(stay)+1), s)
	}
	return strings.Join(stay, "")
}
