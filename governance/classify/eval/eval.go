package eval

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/classify/corpus"
)

// Found says that a detector takes the runes [Start, End) of a text for a value of Class.
type Found struct {
	Start, End int
	Class      string
	Score      float64
}

// Detector returns the findings of a text, in any order; they may overlap.
type Detector func(text string) []Found

// Of returns the detector of the given classes.
func Of(names ...string) Detector {
	classes := make([]classify.Class, len(names))
	for i, n := range names {
		classes[i] = classify.Class(n)
	}
	set := classify.New(classes...)
	return func(text string) []Found {
		found := set.Find(text)
		out := make([]Found, len(found))
		at, runes := 0, 0 // findings are in order, in bytes
		for i, f := range found {
			runes += utf8.RuneCountInString(text[at:f.Start])
			size := utf8.RuneCountInString(text[f.Start:f.End])
			out[i] = Found{Start: runes, End: runes + size, Class: string(f.Class), Score: f.Score}
			at, runes = f.End, runes+size
		}
		return out
	}
}

// Config says what is measured.
type Config struct {
	Set      corpus.Set
	Detector Detector              // of the classes that the default policy masks; this one is timed
	Optional Detector              // of the others; nil: they are not measured
	Progress func(done, total int) // nil: nobody looks
}

// Run measures.
func Run(ctx context.Context, cfg Config) (Report, error) {
	t := newTally()
	var spent time.Duration
	for i, d := range cfg.Set.Documents {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		begun := time.Now()
		found := cfg.Detector(d.Text)
		spent += time.Since(begun)
		if cfg.Optional != nil {
			found = append(found, cfg.Optional(d.Text)...)
		}
		if err := check(found, d); err != nil {
			return Report{}, err
		}
		t.document(d, found)
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(cfg.Set.Documents))
		}
	}
	r := t.report(cfg.Set)
	r.Throughput = Throughput{Bytes: t.bytes, Seconds: spent.Seconds()}
	if spent > 0 {
		r.Throughput.MBPerSecond = float64(t.bytes) / 1e6 / spent.Seconds()
	}
	return r, nil
}

// check reports findings outside of their text, which are a mistake of the detector.
func check(found []Found, d corpus.Document) error {
	length := utf8.RuneCountInString(d.Text)
	for _, f := range found {
		if f.Start < 0 || f.End <= f.Start || f.End > length {
			return fmt.Errorf("the detector found %s at [%d, %d) in %s, which has %d characters", f.Class, f.Start, f.End, d.ID, length)
		}
	}
	return nil
}

// tally counts.
type tally struct {
	overall                    row
	classes, families, noises  map[string]*row
	documents, clean, touched  int
	bytes                      int
	missed, wrong, hurtCleanly []string
}

func newTally() *tally {
	return &tally{classes: map[string]*row{}, families: map[string]*row{}, noises: map[string]*row{}}
}

func at(rows map[string]*row, name string) *row {
	r, ok := rows[name]
	if !ok {
		r = &row{}
		rows[name] = r
	}
	return r
}

func masked(class string) bool { return slices.Contains(corpus.DefaultClasses(), class) }

func (t *tally) document(d corpus.Document, found []Found) {
	t.documents++
	t.bytes += len(d.Text)
	length := utf8.RuneCountInString(d.Text)
	bySet, covered, coveredByAny := make([]bool, length), make([]bool, length), make([]bool, length)
	for _, s := range d.Spans {
		fill(bySet[s.Start:s.End])
	}
	for _, f := range found {
		fill(coveredByAny[f.Start:f.End])
		if masked(f.Class) {
			fill(covered[f.Start:f.End])
		}
	}
	for i, s := range d.Spans {
		cover := covered
		if !masked(s.Type) {
			cover = coveredByAny
		}
		t.span(d, i, s, count(cover[s.Start:s.End]), found)
	}
	hurt := false
	for _, f := range found {
		right := 2*count(bySet[f.Start:f.End]) >= f.End-f.Start
		t.finding(d, f, right)
		hurt = hurt || masked(f.Class)
	}
	if d.Family() == corpus.Negatives {
		t.clean++
		if hurt {
			t.touched++
			t.hurtCleanly = append(t.hurtCleanly, d.ID)
		}
	}
}

func fill(b []bool) {
	for i := range b {
		b[i] = true
	}
}

func count(b []bool) int {
	n := 0
	for _, v := range b {
		if v {
			n++
		}
	}
	return n
}

// span counts a value of the set, of which so many runes are covered.
func (t *tally) span(d corpus.Document, i int, s corpus.Span, covered int, found []Found) {
	rows := []*row{at(t.classes, s.Type)}
	if masked(s.Type) {
		rows = append(rows, &t.overall, at(t.families, d.Family()), at(t.noises, d.Noise()))
	}
	hit := covered == s.End-s.Start
	wrong := hit && named(s, found) != s.Type
	for _, r := range rows {
		r.spans++
		if s.WellFormed {
			r.wellFormed++
		}
		switch {
		case hit:
			r.hits++
			if s.WellFormed {
				r.wellFormedHits++
			}
		case covered > 0:
			r.partial++
		}
		if wrong {
			r.wrongClass++
		}
	}
	if !hit {
		t.missed = append(t.missed, fmt.Sprintf("%s#%d %s", d.ID, i, s.Type))
	}
}

// named returns the class of the finding that covers most of a span; of two alike, the surer one's.
func named(s corpus.Span, found []Found) string {
	best, bestScore, class := 0, 0.0, ""
	for _, f := range found {
		n := min(f.End, s.End) - max(f.Start, s.Start)
		if n > best || n == best && n > 0 && f.Score > bestScore {
			best, bestScore, class = n, f.Score, f.Class
		}
	}
	return class
}

// finding counts what the detector found; it is right if at least half of it is sensitive.
func (t *tally) finding(d corpus.Document, f Found, right bool) {
	rows := []*row{at(t.classes, f.Class)}
	if masked(f.Class) {
		rows = append(rows, &t.overall, at(t.families, d.Family()), at(t.noises, d.Noise()))
	}
	for _, r := range rows {
		r.findings++
		if right {
			r.right++
		}
	}
	if !right {
		t.wrong = append(t.wrong, fmt.Sprintf("%s@%d-%d %s", d.ID, f.Start, f.End, f.Class))
	}
}
