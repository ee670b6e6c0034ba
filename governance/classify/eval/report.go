package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/sluice-project/sluice/governance/classify/corpus"
)

// Format names the form of a report.
const Format = "sluice-masking-report/1"

// Report is what a detector did on a set.
type Report struct {
	Format     string     `json:"format"`
	Set        string     `json:"set"`
	Digest     string     `json:"digest"` // of the set's JSON Lines
	Documents  int        `json:"documents"`
	Overall    Row        `json:"overall"` // of the classes that the default policy masks
	Classes    []Row      `json:"classes"`
	Families   []Row      `json:"families"`
	Noises     []Row      `json:"noises"`
	Negatives  Negatives  `json:"hard_negatives"`
	Throughput Throughput `json:"throughput"`

	Missed  []string `json:"missed"`  // values of which something survives: document#number class
	Wrong   []string `json:"wrong"`   // findings in what is not sensitive: document@start-end class
	Touched []string `json:"touched"` // hard negatives in which something was found
}

// Row are the figures of a class, a family or a noise.
type Row struct {
	Name     string  `json:"name"`
	Default  bool    `json:"default"` // masked by the default policy
	Spans    int     `json:"spans"`
	Hits     int     `json:"hits"`    // nothing of them survives
	Partial  int     `json:"partial"` // something survives
	Recall   float64 `json:"recall"`
	Low      float64 `json:"recall_low"`
	High     float64 `json:"recall_high"`
	Findings int     `json:"findings"`
	Right    int     `json:"right"`

	Precision     float64 `json:"precision"`
	PrecisionLow  float64 `json:"precision_low"`
	PrecisionHigh float64 `json:"precision_high"`
	F2            float64 `json:"f2"`

	WrongClass     int     `json:"wrong_class"` // found, and called otherwise
	WrongClassRate float64 `json:"wrong_class_rate"`
	WellFormed     int     `json:"wellformed"`
	WellFormedHits int     `json:"wellformed_hits"`
}

// Negatives says in how many texts without anything sensitive something was found.
type Negatives struct {
	Documents int     `json:"documents"`
	Touched   int     `json:"touched"`
	Rate      float64 `json:"rate"`
	Low       float64 `json:"rate_low"`
	High      float64 `json:"rate_high"`
}

// Throughput is for information: it depends on the machine and on what else it does.
type Throughput struct {
	Bytes       int     `json:"bytes"`
	Seconds     float64 `json:"seconds"`
	MBPerSecond float64 `json:"mb_per_second"`
}

type row struct {
	spans, hits, partial, wrongClass, wellFormed, wellFormedHits int
	findings, right                                              int
}

func (r row) figures(name string) Row {
	out := Row{
		Name: name, Default: masked(name), Spans: r.spans, Hits: r.hits, Partial: r.partial, Findings: r.findings, Right: r.right,
		WrongClass: r.wrongClass, WellFormed: r.wellFormed, WellFormedHits: r.wellFormedHits,
	}
	out.Recall, out.Low, out.High = Wilson(r.hits, r.spans)
	out.Precision, out.PrecisionLow, out.PrecisionHigh = Wilson(r.right, r.findings)
	if p := 4*out.Precision + out.Recall; p > 0 {
		out.F2 = 5 * out.Precision * out.Recall / p
	}
	if r.hits > 0 {
		out.WrongClassRate = float64(r.wrongClass) / float64(r.hits)
	}
	return out
}

// Wilson returns a share and its bounds at 95 %; of nothing, 0 and everything.
func Wilson(hits, n int) (share, low, high float64) {
	if n == 0 {
		return 0, 0, 1
	}
	const z = 1.959963984540054
	size := float64(n)
	share = float64(hits) / size
	centre := (share + z*z/(2*size)) / (1 + z*z/size)
	half := z / (1 + z*z/size) * math.Sqrt(share*(1-share)/size+z*z/(4*size*size))
	return share, max(0, centre-half), min(1, centre+half)
}

func (t *tally) report(set corpus.Set) Report {
	r := Report{
		Format: Format, Set: set.Name, Digest: set.Digest(), Documents: t.documents, Overall: t.overall.figures("overall"),
		Families: rows(t.families, nil), Noises: rows(t.noises, corpus.Noises()),
		Classes: rows(t.classes, slices.Concat(corpus.DefaultClasses(), corpus.OptionalClasses())),
		Missed:  orEmpty(t.missed), Wrong: orEmpty(t.wrong), Touched: orEmpty(t.hurtCleanly),
	}
	r.Overall.Default = true
	r.Negatives = Negatives{Documents: t.clean, Touched: t.touched}
	r.Negatives.Rate, r.Negatives.Low, r.Negatives.High = Wilson(t.touched, t.clean)
	return r
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// rows lists the figures in the given order, others behind by name.
func rows(of map[string]*row, order []string) []Row {
	place := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order)
	}
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(place(a)-place(b), cmp.Compare(a, b)) })
	out := make([]Row, 0, len(names))
	for _, name := range names {
		out = append(out, of[name].figures(name))
	}
	return out
}

// Class returns the figures of a class.
func (r Report) Class(name string) Row {
	for _, c := range r.Classes {
		if c.Name == name {
			return c
		}
	}
	return row{}.figures(name)
}

// ReadReport reads a report that was written as JSON.
func ReadReport(from io.Reader) (Report, error) {
	var r Report
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return Report{}, fmt.Errorf("read a report: %w; want what sluice eval masking --json prints", err)
	}
	if r.Format != Format {
		return Report{}, fmt.Errorf("the report is of the form %q and should be %s", r.Format, Format)
	}
	return r, nil
}

// Change is what differs from a baseline.
type Change struct {
	NewlyMissed  []string `json:"newly_missed"`
	NoLonger     []string `json:"no_longer_missed"`
	NewlyTouched []string `json:"newly_touched"`
	NewlyWrong   []string `json:"newly_wrong"`
}

// ErrOtherSet says that two reports are about different texts.
var ErrOtherSet = errors.New("the baseline was measured on another set of texts; measure it again")

// Since compares a report with an earlier one on the same texts.
func (r Report) Since(baseline Report) (Change, error) {
	if baseline.Digest != r.Digest {
		return Change{}, ErrOtherSet
	}
	return Change{
		NewlyMissed: without(r.Missed, baseline.Missed), NoLonger: without(baseline.Missed, r.Missed),
		NewlyTouched: without(r.Touched, baseline.Touched), NewlyWrong: without(r.Wrong, baseline.Wrong),
	}, nil
}

// Worse reports whether something was lost.
func (c Change) Worse() bool { return len(c.NewlyMissed)+len(c.NewlyTouched) > 0 }

func without(a, b []string) []string {
	in := map[string]bool{}
	for _, s := range b {
		in[s] = true
	}
	out := []string{}
	for _, s := range a {
		if !in[s] {
			out = append(out, s)
		}
	}
	return out
}
