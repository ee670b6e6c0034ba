package draft

import "math"

// Drafter guesses for one sequence. Its guesses depend on the tokens, on what came of earlier guesses and on the index, and on
// nothing else.
type Drafter struct {
	index       *Index
	namespace   string
	own         *window
	rate        float64 // share of the guessed tokens that were right, lately
	pausedSteps int     // calls of Propose to let pass before the next attempt; long matches shorten it
	waitSteps   int     // the pause after the next attempt that fails
}

const (
	startRate    = 0.7
	learningRate = 0.2  // weight of the newest token in the rate
	leastRate    = 0.12 // below it guessing stops for a while
	probeRate    = 0.14 // the rate after a pause: the next attempt is one token, and the only one if it is wrong
	firstPace    = 8    // the first pause
	lastPace     = 128  // the longest
	strongMatch  = 4    // what a match of full length takes off a pause
	ownLimit     = 1 << 17
)

// NewDrafter returns a Drafter for a sequence whose texts may come from the namespace of index; without an index, from the sequence
// alone.
func NewDrafter(index *Index, namespace string) *Drafter {
	return &Drafter{index: index, namespace: namespace, own: newWindow(ownGram, ownLimit), rate: startRate, waitSteps: firstPace}
}

// Propose appends to dst up to most tokens that may follow tokens: the whole sequence so far, which only ever grows at its end.
func (d *Drafter) Propose(dst, tokens []int32, most int) []int32 {
	for _, t := range tokens[min(d.own.end, len(tokens)):] {
		d.own.add(t)
	}
	if most <= 0 {
		return dst
	}
	m := d.own.find(tokens, minOwnMatch)
	if d.pausedSteps > 0 {
		d.pausedSteps--
		if m.length == minOwnMatch {
			d.pausedSteps = max(0, d.pausedSteps+1-strongMatch)
		}
		return dst
	}
	most = min(most, d.length())
	if d.index != nil && m.length < minOwnMatch {
		if out := d.index.propose(dst, d.namespace, tokens, m.length, most); len(out) > len(dst) {
			return out
		}
	}
	if m.length == 0 {
		return dst
	}
	return d.repeat(dst, m.place, most)
}

// repeat continues the sequence as it went on at place. When that reaches the end of the sequence, what has been guessed goes on
// repeating: the text has a period.
func (d *Drafter) repeat(dst []int32, place, most int) []int32 {
	from := len(dst)
	dst = d.own.follow(dst, place, most)
	for period := d.own.end - place; len(dst)-from < most; {
		dst = append(dst, dst[len(dst)-period])
	}
	return dst
}

// length returns how many tokens are worth guessing: about twice as many as are expected to be right.
func (d *Drafter) length() int {
	return 1 + int(math.Round(2*d.rate/(1-min(d.rate, 0.97))))
}

// Accept says how many of the proposed tokens, from the first on, were right. Tokens that were proposed but never checked do not
// count as proposed.
func (d *Drafter) Accept(proposed, accepted int) {
	if proposed <= 0 {
		return
	}
	for range min(accepted, proposed) {
		d.rate += learningRate * (1 - d.rate)
	}
	if accepted >= proposed {
		d.waitSteps = firstPace
		return
	}
	if accepted > 0 {
		d.waitSteps = firstPace
	}
	d.rate -= learningRate * d.rate
	if d.rate < leastRate {
		d.rate, d.pausedSteps = probeRate, d.waitSteps
		d.waitSteps = min(2*d.waitSteps, lastPace)
	}
}

// Rate returns the share of the guessed tokens that were right lately, from 0 to 1.
func (d *Drafter) Rate() float64 { return d.rate }
