package classify

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

var offFeature = func() (off [features]bool) {
	for _, f := range strings.Fields(os.Getenv("OFF")) {
		var i int
		fmt.Sscan(f, &i)
		off[i] = true
	}
	return off
}()

// sample is a candidate of a text whose names are known.
type sample struct {
	ids    [features]uint32
	name   bool
	weight float64
	group  int // of its frame or line
	family string
	doc    int
	start  int
	text   string
	copy   bool
}

type namesake struct {
	r                               *rand.Rand
	surnames, single, first, second []rune
	words                           []string
}

var wordNames = 3

func newNamesake() *namesake {
	fmt.Sscan(os.Getenv("WN"), &wordNames)
	n := &namesake{r: rand.New(rand.NewPCG(3, 4))}
	fill := func(p lexicon.NamePlace) (out []rune) {
		for r := rune(hanFirst); r < hanLast; r++ {
			for range int(200 * math.Exp(-float64(lexicon.NameCost(r, p)-6)*0.3)) {
				out = append(out, r)
			}
		}
		return out
	}
	n.surnames, n.single, n.first, n.second = fill(lexicon.AsSurname), fill(lexicon.AsSingle), fill(lexicon.AsFirst), fill(lexicon.AsSecond)
	b, err := os.ReadFile("lexicon/data/givenwords.txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "full: "); ok {
			for _, w := range strings.Fields(rest) {
				if len(w) == 6 {
					n.words = append(n.words, w)
				}
			}
		}
	}
	return n
}

func (n *namesake) name() string {
	pick := func(from []rune) string { return string(from[n.r.IntN(len(from))]) }
	switch x := n.r.IntN(100); {
	case x < wordNames:
		return n.words[n.r.IntN(len(n.words))]
	case x < 45:
		return pick(n.surnames) + pick(n.single)
	}
	return pick(n.surnames) + pick(n.first) + pick(n.second)
}

// contexts fills each context with so many names.
func (n *namesake) contexts(copies int) (out []corpus.Document) {
	b, err := os.ReadFile("testdata/names/contexts.txt")
	if err != nil {
		panic(err)
	}
	line := 0
	for text := range strings.Lines(string(b)) {
		if strings.HasPrefix(text, "#") {
			continue
		}
		line++
		for range copies {
			rest := strings.TrimSuffix(text, "\n")
			d := corpus.Document{ID: fmt.Sprintf("tune/contexts/%05d/clean", line)}
			for {
				before, after, ok := strings.Cut(rest, "{")
				d.Text += before
				if !ok {
					break
				}
				var value string
				switch after[0] {
				case '}':
					value, rest = n.name(), after[1:]
				case 'n':
					value, rest = string([]rune("小老小老阿")[n.r.IntN(5)])+n.surname(), after[2:]
				case 't':
					value, rest = n.surname(), after[2:]
				}
				start := len([]rune(d.Text))
				d.Text += value
				d.Spans = append(d.Spans, corpus.Span{Start: start, End: start + len([]rune(value)), Type: "person"})
			}
			out = append(out, d)
		}
	}
	return out
}

func (n *namesake) surname() string { return string(n.surnames[n.r.IntN(len(n.surnames))]) }

// rename gives the people of a text other names.
func (n *namesake) rename(d corpus.Document) corpus.Document {
	rs := []rune(d.Text)
	var text []rune
	at := 0
	out := d
	out.Spans = nil
	given := map[string]string{}
	for _, s := range d.Spans {
		text = append(text, rs[at:s.Start]...)
		value := string(rs[s.Start:s.End])
		if s.Type == "person" && renameable(value) {
			if given[value] == "" {
				given[value] = n.name()
			}
			value = given[value]
		}
		out.Spans = append(out.Spans, corpus.Span{Start: len(text), End: len(text) + len([]rune(value)), Type: s.Type})
		text = append(text, []rune(value)...)
		at = s.End
	}
	out.Text = string(append(text, rs[at:]...))
	return out
}

func renameable(v string) bool {
	rs := []rune(v)
	if len(rs) < 2 || len(rs) > 3 {
		return false
	}
	for _, r := range rs {
		if !isHan(r) || strings.ContainsRune("某先女士小老阿", r) {
			return false
		}
	}
	t := nameTables()
	return t.first(rs[0])&isSurname != 0
}

type gold struct {
	span
	kind string
}

func samplesOf(d corpus.Document, doc int, at [features]int) (out []sample, people int) {
	w := &window{final: true}
	w.cells, _ = new(normaliser).add(nil, d.Text, 0, true)
	var bytes []int
	for k := range d.Text {
		bytes = append(bytes, k)
	}
	bytes = append(bytes, len(d.Text))
	var golds []gold
	for _, s := range d.Spans {
		from, to := bytes[s.Start], bytes[s.End]
		g := gold{span{-1, -1}, s.Type}
		for k, c := range w.cells {
			if c.start >= from && g.start < 0 {
				g.start = k
			}
			if c.start < to {
				g.end = k + 1
			}
		}
		if g.kind == "person" && g.end > g.start && g.start >= 0 {
			g.end = trimTitle(w, g.span)
		}
		if g.start >= 0 && g.end > g.start {
			golds = append(golds, g)
		}
	}
	h := fnv.New32a()
	parts := strings.Split(d.ID, "/")
	fmt.Fprint(h, parts[1], parts[2])
	group := int(h.Sum32() % 1000)
	t := nameTables()
	for i := range w.cells {
		for _, g := range golds {
			if g.kind == "person" && g.end <= i {
				if w.named != g.span {
					w.meet(w.cells[g.start:g.end])
				}
				w.named = g.span
			}
		}
		if t.first(w.cells[i].r)&(isSurname|mayCompound|mayNick) == 0 || !isHan(w.cells[i].r) {
			continue
		}
		n := namer{w: w, t: t, start: i}
		var h hanRun
		var l lattice
		l.fill(&n)
		for _, c := range n.shapes(&h, nil) {
			end := c.end(&h)
			name, skip := false, false
			for _, g := range golds {
				switch {
				case g.start == i && g.end == end && g.kind == "person":
					name = true
				case g.start >= end || g.end <= i:
				case g.kind != "person" && g.kind != "company", g.kind == "person" && !plainName(w, g.span):
					skip = true
				}
			}
			if skip {
				continue
			}
			var o observed
			n.observe(&l, &h, &c, &o)
			s := sample{name: name, weight: 1, group: group, family: d.Family(), doc: doc, start: i}
			for f, id := range o.ids {
				s.ids[f] = uint32(at[f] + int(id))
				if offFeature[f] {
					s.ids[f] = uint32(at[f])
				}
			}
			for _, g := range golds {
				if g.start < i && i < g.end {
					s.weight = 0.2 // not looked at where the name is found
				}
			}
			var b strings.Builder
			for k := max(0, i-8); k < min(end+8, len(w.cells)); k++ {
				if k == i {
					b.WriteString("«")
				}
				b.WriteRune(w.cells[k].r)
				if k == end-1 {
					b.WriteString("»")
				}
			}
			s.text = b.String()
			out = append(out, s)
		}
	}
	for _, g := range golds {
		if g.kind == "person" && plainName(w, g.span) {
			people++
		}
	}
	return out, people
}

func trimTitle(w *window, s span) int {
	var b strings.Builder
	for _, c := range w.cells[s.start:s.end] {
		b.WriteRune(c.r)
	}
	for _, t := range strings.Fields("先生 女士 小姐 老师 师傅 医生 经理 主任 工 总 阿姨 大爷") {
		if strings.HasSuffix(b.String(), t) && len([]rune(b.String())) <= len([]rune(t))+2 {
			return s.end - len([]rune(t))
		}
	}
	return s.end
}

// plainName reports whether a name is of the kind that the model judges.
func plainName(w *window, s span) bool {
	var r []rune
	for _, c := range w.cells[s.start:s.end] {
		if c.r == ' ' || c.r == '\n' {
			continue
		}
		if !isHan(c.r) || c.r == '某' {
			return false
		}
		r = append(r, c.r)
	}
	t := nameTables()
	return len(r) <= 4 && (t.first(r[0])&isSurname != 0 || len(r) == 2 && t.first(r[0])&mayNick != 0 || len(r) >= 2 && t.compound(r[0], r[1]) != 0)
}

// fit finds weights under which, at each start, the name is likelier than the other candidates and than none, whose odds are 0. It goes
// over the samples in an order of its own that is always the same.
func fit(samples []sample, all int, rounds int, l2 float64, use func(sample) bool) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	var order []span // candidates of one start
	for i := 0; i < len(samples); {
		j := i + 1
		for j < len(samples) && samples[j].doc == samples[i].doc && samples[j].start == samples[i].start && samples[j].copy == samples[i].copy {
			j++
		}
		if use(samples[i]) {
			order = append(order, span{i, j})
		}
		i = j
	}
	var p [16]float64
	mean := make([]float64, all)
	turns := 4
	fmt.Sscan(os.Getenv("TURNS"), &turns)
	var w, g2 []float64
	for turn := range turns * rounds {
		round := turn % rounds
		if round == 0 {
			w, g2 = make([]float64, all), make([]float64, all)
		}
		r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		for _, o := range order {
			sum := 1.0
			for k := o.start; k < o.end; k++ {
				p[k-o.start] = math.Exp(min(score1(w, &samples[k]), 30))
				sum += p[k-o.start]
			}
			for k := o.start; k < o.end; k++ {
				s := &samples[k]
				d := p[k-o.start] / sum
				if s.name {
					d--
				}
				d *= s.weight
				for _, id := range s.ids {
					g := d + l2*s.weight*w[id]
					g2[id] += g * g
					w[id] -= 0.3 * g / (math.Sqrt(g2[id]) + 1e-3)
				}
			}
		}
		if 2*round >= rounds {
			for i := range w {
				mean[i] += w[i] / float64(turns*(rounds-(rounds+1)/2))
			}
		}
	}
	return mean
}

func score1(w []float64, s *sample) float64 {
	z := 0.0
	for _, id := range s.ids {
		z += w[id]
	}
	return z
}

// wordTexts are texts of one ordinary word that begins like a name.
func wordTexts() (out []corpus.Document) {
	b, err := os.ReadFile("lexicon/data/words.txt")
	if err != nil {
		panic(err)
	}
	t := nameTables()
	r := rand.New(rand.NewPCG(5, 6))
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		first := []rune(line)[0]
		if line[0] == '#' || t.first(first)&isSurname == 0 {
			continue
		}
		for _, rest := range f[1:] {
			w := []rune(f[0] + rest)
			if len(w) > 3 || lexicon.FullNameWord(w) == len(w) || r.IntN(4) > 0 {
				continue
			}
			text := [...]string{"，%s，", "我们的%s", "%s的问题", "，%s", "或者%s应当", "%s"}[r.IntN(6)]
			out = append(out, corpus.Document{ID: fmt.Sprintf("tune/words/%05d/clean", len(out)), Text: fmt.Sprintf(text, string(w))})
		}
	}
	return out
}

// TestFitNames fits the model.
func TestFitNames(t *testing.T) {
	if os.Getenv("FIT") == "" {
		t.Skip()
	}
	set, err := corpus.Open("tune")
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("ALSO"); dir != "" {
		more, err := corpus.Load(os.DirFS(dir), "news")
		if err != nil {
			t.Fatal(err)
		}
		set.Documents = append(set.Documents, more.Documents...)
	}
	nm := newNamesake()
	set.Documents = append(set.Documents, wordTexts()...)
	set.Documents = append(set.Documents, nm.contexts(12)...)
	negWeight, lineWeight := 3.0, 0.5
	fmt.Sscan(os.Getenv("NW"), &negWeight, &lineWeight)
	ctxScale := 10.0
	fmt.Sscan(os.Getenv("CS"), &ctxScale)
	wordWeight := 0.15
	fmt.Sscan(os.Getenv("WW"), &wordWeight)
	rounds, l2 := 4, 1e-2
	fmt.Sscan(os.Getenv("HYPER"), &rounds, &l2)
	md := newModel("")
	at, all := md.at, len(md.weights)
	var samples []sample
	docs := 0
	peopleBy := map[string]int{}
	perGroup := map[string]float64{}
	frameOf := map[int]string{}
	copies := 0
	fmt.Sscan(os.Getenv("COPIES"), &copies)
	for doc, d := range set.Documents {
		s, people := samplesOf(d, doc, at)
		samples = append(samples, s...)
		parts1 := strings.Split(d.ID, "/")
		if (d.Family() == "lines" || d.Noise() == "clean" && len(parts1) == 4) && len(d.Spans) > 0 {
			for range copies {
				s, _ := samplesOf(nm.rename(d), doc, at)
				for i := range s {
					s[i].copy = true
				}
				samples = append(samples, s...)
			}
		}
		peopleBy[d.Family()] += people
		docs++
		parts := strings.Split(d.ID, "/")
		frameOf[doc] = parts[1] + "/" + parts[2]
		perGroup[frameOf[doc]]++
	}
	for i := range samples {
		if samples[i].family == "contexts" {
			perGroup[frameOf[samples[i].doc]] = 12 * ctxScale
		}
		inside := samples[i].weight
		samples[i].weight = 4 / perGroup[frameOf[samples[i].doc]]
		if samples[i].family == "words" {
			samples[i].weight = wordWeight
		}
		if copies > 0 && (samples[i].family == "lines" || samples[i].copy) {
			samples[i].weight = 0.6 / float64(copies+1)
		}
		if samples[i].weight > 1 {
			samples[i].weight = 1
		}
		switch samples[i].family {
		case "negatives":
			samples[i].weight *= negWeight
		case "lines":
			samples[i].weight *= lineWeight
		}
		samples[i].weight *= inside
	}
	if out := os.Getenv("OUT"); out != "" {
		w := fit(samples, all, rounds, l2, func(sample) bool { return true })
		var b strings.Builder
		b.WriteString("# Weights of the model of names, made by TestFitNames from the tuning corpus: feature, then observation:weight in hundredths of a logit.\n")
		for f, n := range widths {
			fmt.Fprintf(&b, "%d", f)
			for i := range n {
				if v := int(math.Round(100 * w[at[f]+i])); v != 0 {
					fmt.Fprintf(&b, " %d:%d", i, v)
				}
			}
			b.WriteString("\n")
		}
		if err := os.WriteFile(out, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("samples", len(samples), "people", peopleBy)
	folds := 5
	fmt.Sscan(os.Getenv("FOLDS"), &folds)
	type hit struct {
		z    float64
		name bool
		fam  string
		text string
	}
	zs := make([]float64, len(samples))
	for f := range folds {
		w := fit(samples, all, rounds, l2, func(s sample) bool { return s.group%folds != f })
		for i := range samples {
			if samples[i].group%folds == f {
				zs[i] = score1(w, &samples[i])
			}
		}
	}
	// best of each start
	best := map[[2]int]int{}
	for i, s := range samples {
		k := [2]int{s.doc, s.start}
		if s.copy {
			continue
		}
		if j, ok := best[k]; !ok || zs[i] > zs[j] {
			best[k] = i
		}
	}
	for _, dir := range strings.Fields(os.Getenv("BLIND")) {
		w := fit(samples, all, rounds, l2, func(s sample) bool { return true })
		name := "tune"
		if strings.Contains(dir, "news") {
			name = "news"
		}
		bs, err := corpus.Load(os.DirFS(dir), name)
		if err != nil {
			t.Fatal(err)
		}
		var bsam []sample
		people, neg := 0, 0
		for doc, d := range bs.Documents {
			s, p := samplesOf(d, doc, at)
			bsam = append(bsam, s...)
			people += p
			if d.Family() == "negatives" {
				neg++
			}
		}
		bz := make([]float64, len(bsam))
		best := map[[2]int]int{}
		for i := range bsam {
			bz[i] = score1(w, &bsam[i])
			k := [2]int{bsam[i].doc, bsam[i].start}
			if j, ok := best[k]; !ok || bz[i] > bz[j] {
				best[k] = i
			}
		}
		for _, thr := range []float64{-2, -1, 0, 1, 2, 3} {
			h, fp := 0, 0
			touched := map[int]bool{}
			for _, i := range best {
				if bz[i] < thr {
					continue
				}
				if bsam[i].name {
					h++
				} else {
					fp++
					if bsam[i].family == "negatives" {
						touched[bsam[i].doc] = true
					}
				}
			}
			fmt.Printf("BLIND %s thr %v: recall %.4f (%d of %d) fp %d touched %.4f of %d\n", dir, thr, float64(h)/float64(people), h, people, fp, float64(len(touched))/float64(neg), neg)
		}
		for _, i := range best {
			if x := rand.IntN(len(best)); x > len(best)/3 && len(best) > 8000 {
				continue
			}
			if bsam[i].name && bz[i] < 0 {
				fmt.Printf("BMISS %.1f %s %s\n", bz[i], dir, strings.ReplaceAll(bsam[i].text, "\n", "⏎"))
			}
			if !bsam[i].name && bz[i] > 0 {
				fmt.Printf("BFALSE %.1f %s %s\n", bz[i], dir, strings.ReplaceAll(bsam[i].text, "\n", "⏎"))
			}
		}
	}
	for _, thr := range []float64{-1, 0, 1, 2, 3} {
		hits, false1 := map[string]int{}, map[string]int{}
		touched := map[int]bool{}
		for _, i := range best {
			if zs[i] < thr {
				continue
			}
			s := samples[i]
			if s.name {
				hits[s.family]++
			} else {
				false1[s.family]++
				if s.family == "negatives" {
					touched[s.doc] = true
				}
			}
		}
		fmt.Printf("thr %v:", thr)
		for _, fam := range []string{"lines", "bank", "court", "hospital", "hotline", "industry"} {
			fmt.Printf(" %s %.4f (fp %d)", fam, float64(hits[fam])/float64(peopleBy[fam]), false1[fam])
		}
		fmt.Printf(" negatives touched %d fp %d\n", len(touched), false1["negatives"])
	}
	{
		var nz []float64
		docBest := map[int]float64{}
		for _, i := range best {
			if s := samples[i]; s.family == "negatives" {
				if z, ok := docBest[s.doc]; !ok || zs[i] > z {
					docBest[s.doc] = zs[i]
				}
			}
		}
		for _, z := range docBest {
			nz = append(nz, z)
		}
		sort.Float64s(nz)
		for _, quota := range []int{15, 30, 60} {
			thr := nz[len(nz)-quota]
			hits, all, fp := map[string]int{}, 0, 0
			for _, i := range best {
				if zs[i] >= thr {
					if samples[i].name {
						hits[samples[i].family]++
					} else {
						fp++
					}
				}
			}
			frames, fp0 := 0, 0
			for f, n := range hits {
				if f != "lines" && f != "contexts" {
					frames += n
					fp0 += peopleBy[f]
				}
			}
			all = fp0
			fmt.Printf("AT %d touched (thr %.2f): lines %.4f frames %.4f fp %d\n", quota, thr, float64(hits["lines"])/float64(peopleBy["lines"]), float64(frames)/float64(all), fp)
		}
	}
	var worst []int
	for _, i := range best {
		worst = append(worst, i)
	}
	sort.Slice(worst, func(a, b int) bool {
		x, y := worst[a], worst[b]
		if samples[x].name != samples[y].name {
			return samples[x].name
		}
		if samples[x].name {
			return zs[x] < zs[y]
		}
		return zs[x] > zs[y]
	})
	seen := map[string]int{}
	n := 0
	for _, i := range worst {
		if samples[i].name && zs[i] < 0.35 && n < 400 && seen[frameOf[samples[i].doc]] < 2 {
			seen[frameOf[samples[i].doc]]++
			n++
			fmt.Printf("MISS %.1f %s %s\n", zs[i], frameOf[samples[i].doc], strings.ReplaceAll(samples[i].text, "\n", "⏎"))
		}
	}
	n = 0
	for _, i := range worst {
		if !samples[i].name && n < 400 && seen[frameOf[samples[i].doc]] < 2 {
			seen[frameOf[samples[i].doc]]++
			n++
			fmt.Printf("FALSE %.1f %s %s\n", zs[i], frameOf[samples[i].doc], strings.ReplaceAll(samples[i].text, "\n", "⏎"))
		}
	}
}
