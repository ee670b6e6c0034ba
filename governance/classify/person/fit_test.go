package person

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// How the weights are fitted.
const (
	fitRounds = 4    // through all samples
	fitTurns  = 4    // from the beginning; the weights are the mean
	fitStep   = 0.15 // of AdaGrad
	fitShrink = 3e-3 // towards 0
	fitFolds  = 5    // of the cross-validation
)

// start is a place where a name may begin, with the candidates there.
type start struct {
	ids    [][features]uint32 // of each candidate, into the weights
	texts  []string
	name   int // the candidate that is a name, or -1
	weight float64
	frame  string // it comes from: set/family/number
	doc    int
}

func (s *start) family() string { return strings.Split(s.frame, "/")[1] }

// trainer collects the starts of texts whose names are known.
type trainer struct {
	m      *model
	starts []start
	people map[string]int // that the model may find, by family
	docs   map[string]int // by frame
	count  int
}

// add takes the starts of a text.
func (t *trainer) add(d corpus.Document) {
	w, golds := annotated(d)
	frame := strings.Join(strings.Split(d.ID, "/")[:3], "/")
	t.docs[frame]++
	t.count++
	for _, g := range golds {
		if g.person && ordinaryName(w, g.Span) {
			t.people[strings.Split(frame, "/")[1]]++
		}
	}
	table := nameTables()
	for i := range w.End() {
		s := start{name: -1, weight: 1, frame: frame, doc: t.count}
		for _, g := range golds {
			if g.person && g.End <= i && w.prior().End < g.End {
				w.recent.add(w.Cells(g.Start, g.End))
				w.named = w.Stretch(g.Start, g.End)
			}
			if g.Start < i && i < g.End {
				s.weight = 0.2 // not looked at where the name is found
			}
		}
		if table.first(w.At(i))&(isSurname|mayCompound|mayNick) == 0 {
			continue
		}
		n := namer{w: w, t: table, start: i, prior: w.prior()}
		var h hanRun
		if n.plain() {
			continue
		}
		w.around.fill(&n)
		for _, c := range n.shapes(&h, nil) {
			where := text.Span{Start: i, End: c.end(&h)}
			name, counts := judgement(w, golds, where)
			if !counts || n.isTerm(&c) {
				continue
			}
			if name {
				s.name = len(s.ids)
			}
			v := n.observe(&h, &c)
			v.contextBefore = n.preceding()
			v.observeNeighbours()
			v.observeContext()
			var ids [features]uint32
			for f, id := range v.o.ids {
				ids[f] = uint32(t.m.at[f] + int(id))
			}
			s.ids = append(s.ids, ids)
			s.texts = append(s.texts, around(w, where))
		}
		if len(s.ids) > 0 {
			t.starts = append(t.starts, s)
		}
	}
}

// newDetector returns a detector of a whole text.
func newDetector(s string) *Detector {
	w := new(finding.Buffer)
	w.Read(s, 0, true)
	return &Detector{Window: w.View()}
}

// gold is a value of a text in cells.
type gold struct {
	text.Span
	person, company bool
}

// annotated returns the text as a detector sees it, and its values.
func annotated(d corpus.Document) (*Detector, []gold) {
	w := newDetector(d.Text)
	offsets := make([]int, 0, len(d.Text)+1)
	for k := range d.Text {
		offsets = append(offsets, k)
	}
	offsets = append(offsets, len(d.Text))
	var golds []gold
	for _, s := range d.Spans {
		g := gold{text.Span{Start: -1, End: -1}, s.Type == "person", s.Type == "company"}
		for k, c := range w.Cells(0, w.End()) {
			if c.Start >= offsets[s.Start] && g.Start < 0 {
				g.Start = k
			}
			if c.Start < offsets[s.End] {
				g.End = k + 1
			}
		}
		if g.Start >= 0 && g.End > g.Start {
			golds = append(golds, g)
		}
	}
	return w, golds
}

// judgement tells whether a candidate is a name, and whether it says anything: one that overlaps a value of another kind does not.
func judgement(w *Detector, golds []gold, where text.Span) (name, counts bool) {
	counts = true
	for _, g := range golds {
		switch {
		case g.Start >= where.End || g.End <= where.Start || g.company:
		case g.person && g.Span == where:
			name = true
		case !g.person || !ordinaryName(w, g.Span):
			counts = false
		}
	}
	return name, counts
}

// ordinaryName reports whether a name is of the kind that the model judges.
func ordinaryName(w *Detector, s text.Span) bool {
	var r []rune
	for _, c := range w.Cells(s.Start, s.End) {
		if c.R == ' ' || c.R == '\n' {
			continue
		}
		if !text.IsHan(c.R) || c.R == '某' {
			return false
		}
		r = append(r, c.R)
	}
	t := nameTables()
	return len(r) <= 4 && (t.first(r[0])&isSurname != 0 || len(r) == 2 && t.first(r[0])&mayNick != 0 || len(r) >= 2 && t.compound(r[0], r[1]) != 0)
}

func around(w *Detector, s text.Span) string {
	part := func(from, to int) string {
		var b strings.Builder
		for _, c := range w.Cells(max(from, 0), min(to, w.End())) {
			b.WriteRune(c.R)
		}
		return strings.ReplaceAll(b.String(), "\n", "⏎")
	}
	return part(s.Start-8, s.Start) + "«" + part(s.Start, s.End) + "»" + part(s.End, s.End+8)
}

// weigh gives the starts their weights: a frame counts alike however often it was rendered, hard negatives more, and the lines, which hold
// many names that are words, less.
func (t *trainer) weigh() {
	for i := range t.starts {
		s := &t.starts[i]
		weight := min(10/float64(t.docs[s.frame]), 1)
		switch s.family() {
		case corpus.Negatives:
			weight *= 3
		case corpus.Lines:
			weight *= 0.5
		case "contexts":
			weight = 0.03
		case "words":
			weight = 0.15
		}
		s.weight *= weight
	}
}

func odds(w []float64, ids *[features]uint32) (z float64) {
	for _, id := range ids {
		z += w[id]
	}
	return z
}

// best returns the likeliest candidate of a start.
func (s *start) best(w []float64) (candidate int, z float64) {
	for i := range s.ids {
		if x := odds(w, &s.ids[i]); i == 0 || x > z {
			candidate, z = i, x
		}
	}
	return candidate, z
}

// fit finds weights under which at each start the name is likelier than the other candidates and than none, whose odds are 0. It goes over
// the starts in an order of its own that is always the same.
func (t *trainer) fit(use func(s *start) bool) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	var order []*start
	for i := range t.starts {
		if use(&t.starts[i]) {
			order = append(order, &t.starts[i])
		}
	}
	mean := make([]float64, len(t.m.weights))
	for range fitTurns {
		w, steps := make([]float64, len(mean)), make([]float64, len(mean))
		for round := range fitRounds {
			r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
			for _, s := range order {
				learn(w, steps, s)
			}
			if 2*round >= fitRounds {
				for i := range w {
					mean[i] += w[i] / (fitTurns * fitRounds / 2)
				}
			}
		}
	}
	return mean
}

func learn(w, steps []float64, s *start) {
	p := make([]float64, len(s.ids))
	sum := 1.0
	for k := range s.ids {
		p[k] = math.Exp(min(odds(w, &s.ids[k]), 30))
		sum += p[k]
	}
	for k := range s.ids {
		d := p[k] / sum
		if k == s.name {
			d--
		}
		for _, id := range s.ids[k] {
			g := s.weight * (d + fitShrink*w[id])
			steps[id] += g * g
			w[id] -= fitStep * g / (math.Sqrt(steps[id]) + 1e-3)
		}
	}
}

// TestFitNames fits the model of names to the tuning corpus, and says how well it does on frames and lines it has not seen. With
// SLUICE_UPDATE=1 it writes the weights; with SLUICE_TEST_LONG=1 it only says.
func TestFitNames(t *testing.T) {
	update := os.Getenv("SLUICE_UPDATE") != ""
	if !update && os.Getenv("SLUICE_TEST_LONG") == "" {
		t.Skip("set SLUICE_UPDATE=1 to fit the model anew")
	}
	set, err := corpus.Open("tune")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trainer{m: newModel(""), people: map[string]int{}, docs: map[string]int{}}
	for _, d := range slices.Concat(set.Documents, wordTexts(t), contexts(t, 12)) {
		tr.add(d)
	}
	tr.weigh()
	tr.crossValidate(t)
	if update {
		w := tr.fit(func(*start) bool { return true })
		if err := os.WriteFile("nameweights.txt", []byte(tr.m.format(w)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// format writes weights as newModel reads them.
func (m *model) format(w []float64) string {
	var b strings.Builder
	b.WriteString("# Weights of the model of names, made by TestFitNames: for each feature its number, then observation:weight in hundredths of a logit.\n")
	for f, n := range widths {
		fmt.Fprintf(&b, "%d", f)
		for i := range n {
			if v := int(math.Round(100 * w[m.at[f]+i])); v != 0 {
				fmt.Fprintf(&b, " %d:%d", i, v)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// crossValidate fits to all frames and lines but a fifth and judges those, in turn.
func (t *trainer) crossValidate(tb testing.TB) {
	type verdict struct {
		s    *start
		best int
		z    float64
	}
	var all []verdict
	for fold := range fitFolds {
		in := func(s *start) bool { return int(fnv(s.frame)%fitFolds) == fold }
		w := t.fit(func(s *start) bool { return !in(s) })
		for i := range t.starts {
			if s := &t.starts[i]; in(s) {
				best, z := s.best(w)
				all = append(all, verdict{s, best, z})
			}
		}
	}
	for _, least := range []float64{-0.5, 0, 0.1, 0.3, 0.6, 1, 1.5} {
		found, people, wrong, touched := map[string]int{}, map[string]int{}, 0, map[int]bool{}
		for f, n := range t.people {
			people[sortOf(f)] += n
		}
		for _, v := range all {
			switch f := v.s.family(); {
			case v.z < least:
			case v.best == v.s.name:
				found[sortOf(f)]++
			case f == corpus.Negatives:
				touched[v.s.doc] = true
			default:
				wrong++
			}
		}
		tb.Logf("from odds of %4.1f on: of the names in frames %.4f, in lines %.4f; %d hard negatives touched, %d wrong elsewhere", least,
			float64(found["frames"])/float64(people["frames"]), float64(found[corpus.Lines])/float64(people[corpus.Lines]), len(touched), wrong)
	}
}

// sortOf joins the families of frames.
func sortOf(family string) string {
	if family == corpus.Lines || family == "contexts" || family == "words" || family == corpus.Negatives {
		return family
	}
	return "frames"
}

func fnv(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h >> 20
}
