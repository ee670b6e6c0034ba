package person

import (
	_ "embed" // the weights
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-project/sluice/governance/classify/text"
)

// The model judges a surname and a given name by what is general about names: how usual their characters are in names, how well ordinary words
// explain the same characters together with their neighbours, and what kinds of words and marks stand on either side. Each of these
// observations is one of a few values, and each value has a weight that was fitted (see TestFitNames); the sum is the logarithm of the odds.

// observation is one value of a feature, as the index of its weight.
type observation uint16

// feature is a group of observations.
type feature uint8

// The features. Widths are how many values each has. Those before firstNeighbour are told by the characters alone, those before firstContext
// without the words around.
const (
	fName    feature = iota // how usual the name is, by length
	fPrev                   // the character before
	fNext                   // the character behind
	fFirst                  // the surname
	fLast                   // the last character
	fSurname                // what the surname is as a word
	fExact                  // the name is a word
	fGiven                  // the given name is a word
	fCueLeft
	fTier   // the rarest character of the given name
	fCross  // a word crosses the left end
	fHead   // the beginning of the name is a word
	fFixed  // a fixed term or a label begins with it
	fTitle  // the title, and what stands behind it
	fSpaced // blanks in the name: where, what words its parts are and whether one goes on behind it
	fPart   // what part of speech the name is as a word, and whether people are known to be called so
	fRatio  // the words of the place against the name, by length of the given name and by what bounds it
	fLeft   // mark or word before
	fRight  // mark or word behind
	fBoth   // both, roughly
	fCueRight
	fNear   // numbers, sex and the like behind
	fSizes  // lengths of the words on either side
	fOver   // a word crosses the right end
	fWord   // how long the word at the start is
	fAround // who was named and what numbers stood before
	features

	firstNeighbour = fSurname
	firstContext   = fRatio
)

var widths = [features]int{16 * 5, text.HanLast - text.HanFirst + 1, text.HanLast - text.HanFirst + 1, text.HanLast - text.HanFirst + 1, text.HanLast - text.HanFirst + 1, 32, 8, 8, 24, 32, 8, 8, 8, 64, 256, 96, 24 * 4 * 4, 64, 64, 196, 16, 16, 16, 4, 4, 32}

// observed is what was seen of one candidate.
type observed struct {
	ids [features]observation
}

// clamp bounds a value to [0, high].
func clamp(v, high int) int { return min(max(v, 0), high) }

// enough is from which odds on a candidate is a name, in hundredths of a logit.
const enough = -10

// Below these odds nothing becomes a name. Of the names that cross-validation finds without a cue, 7 of 5,136 are unlikely by their characters and 12
// hopeless at a glance; of those behind a cue, 1 of 11,319 is unheard of and 5 are hopeless.
const (
	unlikely     = -150
	unheard      = -200
	hopeless     = -250
	hopelessCued = -200
)

// model holds the weights of all observations in hundredths of a logit.
type model struct {
	at      [features]int
	weights []int16
}

// odds sums the weights of the features from one on up to another.
func (m *model) odds(o *observed, from, to feature) (sum int) {
	for f := from; f < to; f++ {
		sum += int(m.weights[m.at[f]+int(o.ids[f])])
	}
	return sum
}

//go:embed nameweights.txt
var weightText string

var nameWeights = sync.OnceValue(func() *model { return newModel(weightText) })

// newModel reads weights: a line for each feature, its name, then observation:weight for all that is not 0.
func newModel(text string) *model {
	m := &model{}
	all := 0
	for f, n := range widths {
		m.at[f] = all
		all += n
	}
	m.weights = make([]int16, all)
	f := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, field := range strings.Fields(line)[1:] {
			id, weight, _ := strings.Cut(field, ":")
			i, err := strconv.Atoi(id)
			w, err2 := strconv.ParseInt(weight, 10, 16)
			if err != nil || err2 != nil || f >= len(widths) || i >= widths[f] {
				panic("classify: nameweights.txt is damaged at " + field) // part of the binary, read by every test
			}
			m.weights[m.at[f]+i] = int16(w)
		}
		f++
	}
	return m
}
