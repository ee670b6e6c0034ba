package rag

import (
	"slices"
	"strings"
)

// withoutDuplicates drops passages with the text of a better one, but for blanks, and counts them there. What the documents of those that are dropped say is
// sensitive is sensitive there, too. Of order, which has something of each passage, what goes with those that stay is returned. The passages are those that one reader may see, best first: nobody's passage stands for one that he may not see.
func withoutDuplicates(passages []Passage, order []int) (out []Passage, kept []int) {
	first := map[string]int{} // by text
	for n, p := range passages {
		text := spaced(p.Text)
		i, again := first[text]
		if !again {
			first[text] = len(out)
			out, kept = append(out, p), append(kept, order[n])
			continue
		}
		out[i].Duplicates++
		out[i].Known = slices.Concat(out[i].Known, p.Known)
	}
	return out, kept
}

// spaced is a text with one blank for each run of them.
func spaced(text string) string { return strings.Join(strings.Fields(text), " ") }
