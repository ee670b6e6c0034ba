package corpus

import (
	"fmt"
	"io/fs"
	"slices"

	corpusdata "github.com/sluice-project/sluice/governance/classify/testdata/corpus"
)

// Minimums say how large a set has to be. Frames are repeated with other values until it is.
type Minimums struct {
	Spans     int // in all
	PerClass  int // of each class that the default policy masks
	Negatives int // documents in which nothing is sensitive
}

// Published are the minimums of the sets that come with the program.
func Published() Minimums { return Minimums{Spans: 12000, PerClass: 500, Negatives: 4000} }

const (
	seed   = "sluice masking corpus 1"
	rounds = 400 // far more repetitions than a useful corpus needs
)

// Open returns a set that comes with the program: "tune" to work with, "gate" to be measured by.
func Open(set string) (Set, error) {
	source, err := Read(corpusdata.Files, set)
	if err != nil {
		return Set{}, err
	}
	return source.Build(Published())
}

// Load returns the set in a folder of the same layout, once with every noise and without minimums.
func Load(files fs.FS, set string) (Set, error) {
	source, err := Read(files, set)
	if err != nil {
		return Set{}, err
	}
	return source.Build(Minimums{})
}

// Build makes the documents.
func (s *Source) Build(least Minimums) (Set, error) {
	b := builder{source: s, seen: map[string]bool{}, spans: map[string]int{}}
	for _, d := range slices.Concat(s.documents, s.lines) {
		b.add(d)
	}
	for n := range rounds {
		frames := b.wanting(least, n)
		if len(frames) == 0 {
			break
		}
		b.round(frames, n)
	}
	for n := range rounds {
		before := len(b.set.Documents)
		if n > 0 && b.negatives >= least.Negatives {
			break
		}
		b.round(s.negatives, n)
		b.negatives += len(b.set.Documents) - before
	}
	b.set.Name = s.set
	return b.set, b.check(least)
}

type builder struct {
	source           *Source
	set              Set
	seen             map[string]bool // texts
	spans            map[string]int
	total, negatives int
}

// wanting returns the frames of a round: all in the first, then those that hold what is missing.
func (b *builder) wanting(least Minimums, n int) []frame {
	if n == 0 {
		return b.source.frames
	}
	var out []frame
	for _, f := range b.source.frames {
		if slices.ContainsFunc(f.parts, func(p part) bool {
			return slices.Contains(DefaultClasses(), p.class) && b.spans[p.class] < least.PerClass
		}) {
			out = append(out, f)
		}
	}
	if len(out) == 0 && b.total < least.Spans {
		return b.source.frames
	}
	return out
}

func (b *builder) round(frames []frame, n int) {
	for _, f := range frames {
		for _, noise := range Noises() {
			b.add(f.document(b.source.set, seed, noise, n))
		}
	}
}

// add takes a document unless its text is there already, as where a noise changed nothing.
func (b *builder) add(d Document) {
	if b.seen[d.Text] {
		return
	}
	b.seen[d.Text] = true
	b.set.Documents = append(b.set.Documents, d)
	for _, s := range d.Spans {
		b.spans[s.Type]++
		if slices.Contains(DefaultClasses(), s.Type) {
			b.total++
		}
	}
}

func (b *builder) check(least Minimums) error {
	for _, class := range DefaultClasses() {
		if b.spans[class] < least.PerClass {
			return fmt.Errorf("the set %s holds %d values of %s and should hold %d; write more frames with {%s}", b.source.set, b.spans[class], class, least.PerClass, class)
		}
	}
	if b.total < least.Spans {
		return fmt.Errorf("the set %s holds %d values and should hold %d; write more frames", b.source.set, b.total, least.Spans)
	}
	if b.negatives < least.Negatives {
		return fmt.Errorf("the set %s holds %d hard negatives and should hold %d; write more lines in negatives/%s.txt", b.source.set, b.negatives, least.Negatives, b.source.set)
	}
	return nil
}
