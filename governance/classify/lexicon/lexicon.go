// Package lexicon holds the lists that Chinese recognisers look things up in: regions and divisions, surnames and given names, ordinary
// words, cue words around names, prefixes of bank cards and area codes. It knows facts, not how much a fact weighs: that is the caller's.
//
// The lists are text files below data (data/README.md says where each comes from). A list is compiled when it is first asked for; from
// then on it never changes, lookups allocate nothing and may run side by side. Text is given as runes, so that a caller who has decoded a
// document once can look at every position of it; a lookup never reads past the end of what it is given, so cutting the slice is how one
// asks for matches of limited length.
package lexicon

import (
	_ "embed" // the data files
	"fmt"
	"strings"
)

// han is the block of common Chinese characters, U+4E00 to U+9FFF; first characters in it are found by index.
const (
	hanFirst = 0x4E00
	hanCount = 0xA000 - hanFirst
)

// hanIndex returns the place of a rune in a table of hanCount entries, or ok false if it lies outside the block.
func hanIndex(r rune) (i int, ok bool) {
	i = int(r) - hanFirst
	return i, uint(i) < hanCount
}

// section is a "key: words" line of a data file, or one without a colon, whose key is empty.
type section struct {
	key   string
	words []string
}

// sections splits a data file, less its comment lines.
func sections(text string) []section {
	var all []section
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, words, found := strings.Cut(line, ":")
		if !found {
			key, words = "", line
		}
		all = append(all, section{key, strings.Fields(words)})
	}
	return all
}

// malformed ends the program: the data is part of the binary and every file of it is read by a test.
func malformed(file, what string) {
	panic(fmt.Sprintf("lexicon: data/%s: unexpected %q; the package was built from a damaged file", file, what))
}
