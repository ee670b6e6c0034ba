package address_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
)

// scan finds what is sensitive in a text that arrives in pieces, and writes it as one line that can be compared.
func scan(set *classify.Set, pieces ...string) string {
	var b strings.Builder
	write := func(segments []classify.Segment) {
		for _, s := range segments {
			if s.Class == "" {
				b.WriteString(s.Text)
			} else {
				fmt.Fprintf(&b, "«%s|%s|%s|%d|%g»", s.Class, s.Text, s.Value, s.Start, s.Score)
			}
		}
	}
	sc := set.Scanner()
	for _, p := range pieces {
		write(sc.Write(p))
	}
	write(sc.Close())
	return b.String()
}

// cut cuts a text into pieces of random lengths, also within runes.
func cut(r *rand.Rand, text string) (pieces []string) {
	for most := 1 + r.IntN(12); len(text) > 0; {
		n := min(len(text), 1+r.IntN(most))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

// wantOrdered fails unless findings are in order, inside the text, and of whole runes.
func wantOrdered(t *testing.T, text string, found []classify.Finding) {
	t.Helper()
	last := 0
	for _, f := range found {
		if f.Start < last || f.End <= f.Start || f.End > len(text) || f.Score <= 0 || f.Score > 1 {
			t.Fatalf("finding %+v behind %d of %d", f, last, len(text))
		}
		if utf8.ValidString(text) && (!utf8.ValidString(text[:f.Start]) || !utf8.ValidString(text[f.Start:f.End])) {
			t.Fatalf("finding %+v cuts a rune", f)
		}
		last = f.End
	}
}
