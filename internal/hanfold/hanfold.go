// Package hanfold writes Chinese in one way: traditional characters become simplified ones, and letters become lower case. Search and content
// safety compare texts by it.
package hanfold

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
)

//go:embed simplified.txt
var simplifiedText string

// folding maps traditional characters to simplified ones. It is made once and never changes.
var folding = sync.OnceValue(func() *Table { //nolint:gochecknoglobals // a table
	t := &Table{basic: make([]rune, 0xa000), rest: map[rune]rune{}}
	for line := range strings.Lines(simplifiedText) {
		pair := []rune(strings.TrimSpace(line))
		if pair[0] < rune(len(t.basic)) {
			t.basic[pair[0]] = pair[1]
		} else {
			t.rest[pair[0]] = pair[1]
		}
	}
	return t
})

// Table is the folding. It never changes, so it is safe for concurrent use.
type Table struct {
	basic []rune // by character; 0: itself
	rest  map[rune]rune
}

// Folding returns the table.
func Folding() *Table { return folding() }

// Fold returns the form under which a character is compared: lower case, simplified.
func (t *Table) Fold(r rune) rune {
	if r < 0x3400 {
		return unicode.ToLower(r)
	}
	if r < rune(len(t.basic)) {
		if s := t.basic[r]; s != 0 {
			return s
		}
		return r
	}
	if s, ok := t.rest[r]; ok {
		return s
	}
	return unicode.ToLower(r)
}
