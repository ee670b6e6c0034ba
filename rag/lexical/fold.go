package lexical

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
)

//go:embed folding/simplified.txt
var simplifiedText string

// folding maps traditional characters to simplified ones. It is made once and never changes.
var folding = sync.OnceValue(func() *foldTable { //nolint:gochecknoglobals // a table
	t := &foldTable{basic: make([]rune, 0xa000), rest: map[rune]rune{}}
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

type foldTable struct {
	basic []rune // by character; 0: itself
	rest  map[rune]rune
}

// fold returns the form under which a character is indexed: lower case, simplified.
func (t *foldTable) fold(r rune) rune {
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
