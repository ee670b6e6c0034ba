package eval_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/eval"
)

// TestDetectorsReachTheGates measures the detectors of the default policy on the gate set. It prints totals only: those who tune
// detectors look at the tuning set (sluice eval masking --set tune --show-misses).
func TestDetectorsReachTheGates(t *testing.T) {
	if testing.Short() {
		t.Skip("measures the whole gate set")
	}
	set, err := corpus.Open("gate")
	if err != nil {
		t.Fatal(err)
	}
	report, err := eval.Run(t.Context(), eval.Config{Set: set, Detector: eval.Of(corpus.DefaultClasses()...), Optional: eval.Of(corpus.OptionalClasses()...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("recall %.4f [%.4f, %.4f] on %d values, precision %.4f, %d of %d hard negatives touched", report.Overall.Recall, report.Overall.Low,
		report.Overall.High, report.Overall.Spans, report.Overall.Precision, report.Negatives.Touched, report.Negatives.Documents)
	for _, f := range eval.Published().Check(report) {
		t.Error(f.English)
	}
	compareWithBaseline(t, report)
}

// compareWithBaseline names what was found when the baseline was stored and is missed now. To store it: SLUICE_UPDATE=1.
func compareWithBaseline(t *testing.T, report eval.Report) {
	t.Helper()
	const path = "testdata/gate.json"
	if os.Getenv("SLUICE_UPDATE") != "" {
		report.Throughput = eval.Throughput{} // differs from run to run
		text, err := json.MarshalIndent(report, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, append(text, '\n'), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path) // SLUICE_UPDATE=1 writes it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	baseline, err := eval.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	change, err := report.Since(baseline)
	if err != nil {
		t.Fatal(err)
	}
	if change.Worse() {
		t.Errorf("missed now, found before: %q\nhard negatives touched now: %q", change.NewlyMissed, change.NewlyTouched)
	}
}

// TestCorpusKnowsEveryClass: the corpus names classes by itself; it names those that there are, optional ones apart.
func TestCorpusKnowsEveryClass(t *testing.T) {
	var byDefault, optional []string
	for _, c := range classify.Types() {
		if c.Optional {
			optional = append(optional, string(c.Class))
		} else {
			byDefault = append(byDefault, string(c.Class))
		}
	}
	for _, c := range [][2][]string{{byDefault, corpus.DefaultClasses()}, {optional, corpus.OptionalClasses()}} {
		slices.Sort(c[0])
		slices.Sort(c[1])
		if !slices.Equal(c[0], c[1]) {
			t.Errorf("the detectors have %q, the corpus %q", c[0], c[1])
		}
	}
}

// TestGateSetHasTheSizePromised holds without looking at detectors.
func TestGateSetHasTheSizePromised(t *testing.T) {
	set, err := corpus.Open("gate")
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) []eval.Found { return nil }
	report, err := eval.Run(t.Context(), eval.Config{Set: set, Detector: none})
	if err != nil {
		t.Fatal(err)
	}
	gates := eval.Gates{Size: corpus.Published()}
	for _, f := range gates.Check(report) {
		t.Error(f.English)
	}
}

func TestHundredsOfLinesWereWrittenOneByOne(t *testing.T) {
	lines := 0
	for _, name := range []string{"gate", "tune"} {
		set, err := corpus.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range set.Documents {
			if d.Family() == corpus.Lines {
				lines++
			}
		}
	}
	if lines < 500 {
		t.Errorf("only %d", lines)
	}
}
