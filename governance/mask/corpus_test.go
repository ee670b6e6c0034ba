package mask

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/classify/corpus"
)

// shortText is the length in characters up to which a text is cut at every pair of places.
const shortText = 24

// TestCorpusCutAnywhere: for the texts of both sets, and every way of cutting them, what a stream of answers hides is what it hides of the
// whole text, and what was masked is restored byte for byte. With SLUICE_TEST_LONG, which make test-long sets, all texts are cut at every
// byte and at many random places, short ones at every pair of characters, too; else a sample of them is.
func TestCorpusCutAnywhere(t *testing.T) {
	t.Parallel()
	whole := os.Getenv("SLUICE_TEST_LONG") != ""
	for _, name := range []string{"tune", "gate"} {
		set, err := corpus.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		docs := set.Documents
		if !whole {
			r := rand.New(rand.NewPCG(11, 7))
			r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
			docs = docs[:100]
		}
		var next, cuts atomic.Int64
		for worker := range 2 {
			t.Run(fmt.Sprintf("%s/%d", name, worker), func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					i := int(next.Add(1)) - 1
					if i >= len(docs) {
						break
					}
					c := newCutter(docs[i].Text)
					why := c.check(whole || i%10 == 0, uint64(i))
					cuts.Add(int64(c.cuts))
					switch {
					case why == "":
					case name == "tune":
						t.Errorf("%s: %q: %s", docs[i].ID, docs[i].Text, why)
					default: // whoever works on detectors must not read this set
						t.Errorf("%s: %s", docs[i].ID, strings.SplitN(why, ":", 2)[0])
					}
				}
				t.Logf("%d texts in %d cuts", min(int(next.Load()), len(docs)), cuts.Load())
			})
		}
	}
}

// cutter compares ways of cutting one text.
type cutter struct {
	rules               *Rules
	text, masked        string
	pseudonyms, answers *Pseudonyms // of what was masked; of what answers bring
	hidden              string      // the text as an answer shows it
	cuts                int
}

func newCutter(text string) *cutter {
	c := &cutter{rules: NewRules(classify.New(classify.Classes()...), func(classify.Class) Action { return ActionToken }), text: text, pseudonyms: pseudonyms(), answers: pseudonyms()}
	c.masked, _ = c.pseudonyms.Mask(c.rules, text)
	c.hidden = c.answer(text)
	return c
}

// answer is what an answer of these pieces shows. Its pseudonyms depend on class, value and spelling.
func (c *cutter) answer(pieces ...string) string {
	e := NewEgress(c.answers, c.rules, func(classify.Class, Action) {})
	var b strings.Builder
	for _, p := range append(pieces, "") {
		s, err := e.Write(p)
		if b.WriteString(s); err != nil {
			return err.Error()
		}
	}
	s, err := e.Close()
	if b.WriteString(s); err != nil {
		return err.Error()
	}
	return b.String()
}

// check tries cuts and returns what went wrong, "" if nothing did.
func (c *cutter) check(pairs bool, seed uint64) string {
	if why := c.at(); why != "" {
		return why
	}
	for i := 1; i < max(len(c.text), len(c.masked)); i++ {
		if why := c.at(i); why != "" {
			return why
		}
	}
	n := utf8.RuneCountInString(c.text)
	if pairs && n <= shortText {
		for _, i := range boundaries(c.text, c.masked) {
			for _, j := range boundaries(c.text, c.masked) {
				if j <= i {
					continue
				}
				if why := c.at(i, j); why != "" {
					return why
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(seed, 3))
	for range 10 {
		var places []int
		for at := r.IntN(8); at < max(len(c.text), len(c.masked)); at += 1 + r.IntN(1+r.IntN(24)) {
			places = append(places, at)
		}
		if why := c.at(places...); why != "" {
			return why
		}
	}
	return ""
}

// boundaries are the places where a character of either text begins.
func boundaries(texts ...string) []int {
	at := map[int]bool{}
	for _, text := range texts {
		for i := range text {
			at[i] = i > 0
		}
	}
	var out []int
	for i, inside := range at {
		if inside {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return out
}

// at cuts the text, and what it was masked to, at these bytes.
func (c *cutter) at(places ...int) string {
	c.cuts++
	if got := c.answer(split(c.text, places)...); got != c.hidden {
		return fmt.Sprintf("an answer cut at %v shows something else: %q instead of %q", places, got, c.hidden)
	}
	r := c.pseudonyms.Restorer()
	var b strings.Builder
	for _, p := range split(c.masked, places) {
		b.WriteString(r.Write(p))
	}
	b.WriteString(r.Close())
	if b.String() != c.text || r.Unknown() != 0 {
		return fmt.Sprintf("cut at %v, masked text is restored to something else: %q by way of %q", places, b.String(), c.masked)
	}
	return ""
}

// split cuts s at the places inside it.
func split(s string, places []int) []string {
	var out []string
	from := 0
	for _, at := range places {
		if at > from && at < len(s) {
			out, from = append(out, s[from:at]), at
		}
	}
	return append(out, s[from:])
}
