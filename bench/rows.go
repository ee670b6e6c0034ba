package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/engine/enginebench"
)

// test is what one measurement computes: a prompt, or a generation behind a depth.
type test struct {
	prompt, generate, depth int
}

func (t test) String() string {
	if t.prompt > 0 {
		return fmt.Sprintf("prompt %d", t.prompt)
	}
	return fmt.Sprintf("generation at %d", t.depth)
}

func (t test) tokens() int { return t.prompt + t.generate }

// repeat is how often a measurement repeats the test: a short one would be little more than a tick of the clock.
func (t test) repeat() int {
	if t.prompt > 0 && t.prompt <= 128 {
		return 3
	}
	return 1
}

// row is one line of the comparison: a test, the form of the model that the peer runs, and what is asked of the ratio.
type row struct {
	threads int
	test    test
	form    string // "" is the file itself
	floor   float64
	aim     float64
}

func (r row) name() string {
	against := "the same file"
	if r.form != "" {
		against = "its " + r.form + " form"
	}
	return fmt.Sprintf("%v against %s", r.test, against)
}

// planRows returns the rows of a number of threads. What is asked stands for two threads; a single one has an easier bar on every row.
func planRows(threads, generate int) []row {
	prompt := func(n int) test { return test{prompt: n} }
	generation := func(depth int) test { return test{generate: generate, depth: depth} }
	rows := []row{
		{threads, prompt(128), "", 0, 0},
		{threads, prompt(512), "", 2, 3.5},
		{threads, prompt(512), "Q8_0", 1.2, 1.8},
		{threads, prompt(512), "Q4_0", .9, 1.2},
		{threads, generation(0), "", 1.3, 2},
		{threads, generation(0), "Q8_0", 1.3, 2},
		{threads, generation(0), "Q4_0", 1.1, 1.4},
		{threads, generation(1024), "", 1.3, 2},
	}
	if threads == 1 {
		for i := range rows {
			rows[i].floor, rows[i].aim = 1.1, 1.5
		}
	}
	return rows
}

// verdict says how a ratio stands to what is asked of the row.
func (r row) verdict(ratio float64) string {
	switch {
	case r.floor == 0:
		return ""
	case ratio >= r.aim:
		return "aim"
	case ratio >= r.floor:
		return "floor"
	}
	return "**below the floor**"
}

// track is what the peer reached on one row in each round, by setting. A setting that was dropped has fewer rounds.
type track map[setting][]float64

// keep drops the settings that are well behind, and all but the best two: every one of them costs time in every round.
func (t track) keep(settings []setting) []setting {
	out := slices.Clone(settings)
	slices.SortStableFunc(out, func(a, b setting) int { return cmp.Compare(t.median(b), t.median(a)) })
	best := t.median(out[0])
	out = slices.DeleteFunc(out, func(s setting) bool { return t.median(s) < .9*best })
	return out[:min(2, len(out))]
}

func (t track) median(s setting) float64 { return enginebench.SpreadOf(t[s]).Median }

// best is the setting with the highest median among those that stayed to the end.
func (t track) best(settings []setting) setting {
	return slices.MaxFunc(settings, func(a, b setting) int { return cmp.Compare(t.median(a), t.median(b)) })
}

// ratios divides round by round. Both have been measured within seconds of each other, so noise of the machine falls out of most.
func ratios(ours, theirs []float64) []float64 {
	n := min(len(ours), len(theirs))
	out := make([]float64, n)
	for i := range n {
		out[i] = ours[i] / theirs[i]
	}
	return out
}
