package person

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// namesake makes up names: as usual as people's, but rarer ones are likelier than in life.
type namesake struct {
	r                               *rand.Rand
	surnames, single, first, second []rune
	words                           []string // that people are called
}

func newNamesake(tb testing.TB) *namesake {
	n := &namesake{r: rand.New(rand.NewPCG(3, 4))}
	fill := func(p lexicon.NamePlace) (out []rune) {
		for r := rune(text.HanFirst); r < text.HanLast; r++ {
			for range int(200 * math.Exp(-float64(lexicon.Costs().Name(r, p)-6)*0.3)) {
				out = append(out, r)
			}
		}
		return out
	}
	n.surnames, n.single, n.first, n.second = fill(lexicon.AsSurname), fill(lexicon.AsSingle), fill(lexicon.AsFirst), fill(lexicon.AsSecond)
	for line := range strings.Lines(read(tb, "../lexicon/data/givenwords.txt")) {
		if rest, ok := strings.CutPrefix(line, "full: "); ok {
			for _, w := range strings.Fields(rest) {
				if len([]rune(w)) == 2 {
					n.words = append(n.words, w)
				}
			}
		}
	}
	return n
}

func read(tb testing.TB, file string) string {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func (n *namesake) of(from []rune) string { return string(from[n.r.IntN(len(from))]) }

func (n *namesake) name() string {
	switch x := n.r.IntN(100); {
	case x < 3:
		return n.words[n.r.IntN(len(n.words))]
	case x < 36:
		return n.of(n.surnames) + n.of(n.single)
	}
	return n.of(n.surnames) + n.of(n.first) + n.of(n.second)
}

// contexts fills each line of testdata/contexts.txt with so many names.
func contexts(tb testing.TB, copies int) (out []corpus.Document) {
	n := newNamesake(tb)
	line := 0
	for frame := range strings.Lines(read(tb, "testdata/contexts.txt")) {
		if strings.HasPrefix(frame, "#") {
			continue
		}
		line++
		for range copies {
			d := n.fill(strings.TrimSuffix(frame, "\n"))
			d.ID = fmt.Sprintf("tune/contexts/%05d/clean", line)
			out = append(out, d)
		}
	}
	return out
}

func (n *namesake) fill(frame string) (d corpus.Document) {
	for {
		before, after, ok := strings.Cut(frame, "{")
		d.Text += before
		if !ok {
			return d
		}
		kind, rest, _ := strings.Cut(after, "}")
		value := n.name()
		switch kind {
		case "n":
			value = n.of([]rune("小老小老阿")) + n.of(n.surnames)
		case "t":
			value = n.of(n.surnames)
		}
		start := len([]rune(d.Text))
		d.Text += value
		d.Spans = append(d.Spans, corpus.Span{Start: start, End: start + len([]rune(value)), Type: "person"})
		frame = rest
	}
}

// wordTexts are texts of one ordinary word that begins like a name, a quarter of those we know.
func wordTexts(tb testing.TB) (out []corpus.Document) {
	t := nameTables()
	r := rand.New(rand.NewPCG(5, 6))
	for line := range strings.Lines(read(tb, "../lexicon/data/words.txt")) {
		f := strings.Fields(line)
		if line[0] == '#' || t.first([]rune(line)[0])&isSurname == 0 {
			continue
		}
		for _, rest := range f[1:] {
			w := []rune(f[0] + rest)
			if len(w) > 3 || lexicon.FullNameWord(w) == len(w) || r.IntN(4) > 0 {
				continue
			}
			frame := [...]string{"，%s，", "我们的%s", "%s的问题", "，%s", "或者%s应当", "%s"}[r.IntN(6)]
			out = append(out, corpus.Document{ID: fmt.Sprintf("tune/words/%05d/clean", len(out)), Text: fmt.Sprintf(frame, string(w))})
		}
	}
	return out
}
