// Command fit makes the maps of rag/reduce, and measures what they cost. It embeds texts with the native engine, fits a principal component
// analysis to the vectors, writes the file, and prints how well questions find their passages with and without the map:
//
//	go run ./rag/reduce/fit -model FILE -out FILE -eval cmrc=cmrc2018_dev.json,cmrc2018_trial.json TEXTS…
//
// Texts are in the format of SQuAD (.json: its contexts are passages, its questions questions) or of Universal Dependencies (.conllu: each
// sentence a passage). Sets to evaluate are in the format of SQuAD, or folders in that of BEIR (corpus.jsonl, queries.jsonl, qrels/test.tsv).
// A file with a text of a set to evaluate is refused. The same model and texts give the same file.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/reduce"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

type options struct {
	model, out, cache string
	to, threads       int
	pairs, whiten     float64
	sweep             bool
	sets              []string
}

func run(ctx context.Context) error {
	var o options
	flag.StringVar(&o.model, "model", "", "the model's file")
	flag.StringVar(&o.out, "out", "", "where the map is written; empty: nowhere")
	flag.StringVar(&o.cache, "cache", "", "a folder that keeps the vectors for the next run")
	flag.IntVar(&o.to, "to", 128, "components after")
	flag.Float64Var(&o.pairs, "pairs", 0, "share of the covariance of questions with their answers, from 0 to 1; the rest is that within groups")
	flag.Float64Var(&o.whiten, "whiten", 0.5, "weigh components by their variance to the power of minus half of this, from 0 to 1")
	flag.IntVar(&o.threads, "threads", 0, "threads that embed; 0: all processors")
	flag.BoolVar(&o.sweep, "sweep", false, "measure ways to fit instead of one")
	flag.Func("eval", "NAME=FILE[,FILE…] or NAME=FOLDER: a set to evaluate, as often as wanted", func(s string) error {
		o.sets = append(o.sets, s)
		return nil
	})
	flag.Parse()
	e, err := openEmbedder(ctx, o.model, o.cache, o.threads)
	if err != nil {
		return err
	}
	defer func() { _ = e.engine.Close() }()
	var sets []*set
	known := map[string]bool{}
	for _, s := range o.sets {
		one, err := openSet(s)
		if err != nil {
			return err
		}
		sets = append(sets, one)
		for _, text := range slices.Concat(one.passages, one.questions) {
			known[text] = true
		}
	}
	fitted, err := e.samples(ctx, flag.Args(), known)
	if err != nil {
		return err
	}
	for _, s := range sets {
		if err := e.embedSet(ctx, s); err != nil {
			return err
		}
	}
	if o.sweep {
		return sweep(e, fitted, sets)
	}
	if o.pairs < 0 || o.pairs > 1 || o.pairs > 0 && len(fitted.pairs) == 0 {
		return errors.New("-pairs: from 0 to 1, and above 0 only with questions among the texts")
	}
	p := analyse(fitted, o.pairs)
	if o.to < 1 || o.to > len(p.direction) {
		return fmt.Errorf("-to: from 1 to %d", len(p.direction))
	}
	file := p.encode(e.digest, o.to, o.whiten)
	r, err := reduce.Parse(file)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d → %d components, %.1f %% of the variance within groups, %d bytes\n", r.ID(), r.From(), r.To(), 100*p.kept(o.to), len(file))
	for _, s := range sets {
		before, after := s.measure(nil), s.measure(r)
		fmt.Printf("%-10s %5d passages, %5d questions: %s %.4f with %d, %.4f with %d: %+.4f\n", s.name, len(s.passages), len(s.questions), s.metric(), before, r.From(), after, r.To(), after-before)
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, file, 0o644) //nolint:gosec // public data
}

func sweep(e *embedder, fitted *samples, sets []*set) error {
	row := func(name string, r *reduce.Reduction) {
		fmt.Printf("%-40s", name)
		for _, s := range sets {
			fmt.Printf(" %s %s %.4f", s.name, s.metric(), s.measure(r))
		}
		fmt.Println()
	}
	row("as the model makes them", nil)
	shares := []float64{0, 0.2, 0.4, 0.7, 1}
	if len(fitted.pairs) == 0 {
		shares = shares[:1]
	}
	for _, share := range shares {
		p := analyse(fitted, share)
		for _, to := range []int{96, 128, 160, 192, 256} {
			for _, whiten := range []float64{0, 0.25, 0.5, 0.75, 1} {
				if to != 128 && whiten != 0.5 {
					continue
				}
				r, err := reduce.Parse(p.encode(e.digest, to, whiten))
				if err != nil {
					return err
				}
				row(fmt.Sprintf("%d components, pairs %.1f, whitened %.2f", to, share, whiten), r)
			}
		}
	}
	return nil
}

// embedder embeds with the native engine, and keeps what it made.
type embedder struct {
	engine *native.Engine
	digest [sha256.Size]byte
	cache  string
	dim    int
}

const modelID = "embedder"

func openEmbedder(ctx context.Context, path, cache string, threads int) (*embedder, error) {
	e, err := native.New(native.Config{Threads: threads, Models: []native.ModelConfig{{ID: modelID, Path: path}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	models, err := e.Models(ctx)
	if err != nil {
		return nil, err
	}
	out := &embedder{engine: e, cache: cache, dim: models[0].EmbedDim}
	raw, err := hex.DecodeString(strings.TrimPrefix(models[0].Digest, "sha256:"))
	if err != nil || len(raw) != sha256.Size || !models[0].CanEmbed {
		return nil, fmt.Errorf("%s does not embed, or has no digest", path)
	}
	copy(out.digest[:], raw)
	return out, nil
}

// embed returns the vectors of texts, out of the cache if that has them.
func (e *embedder) embed(ctx context.Context, texts []string, role engine.InputRole) ([][]float32, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%x %s %q", e.digest, role, texts)
	path := filepath.Join(e.cache, hex.EncodeToString(h.Sum(nil)[:8])+".vectors")
	if e.cache != "" {
		if raw, err := os.ReadFile(path); err == nil {
			var out [][]float32
			return out, gob.NewDecoder(bytes.NewReader(raw)).Decode(&out)
		}
	}
	out := make([][]float32, 0, len(texts))
	for some := range slices.Chunk(texts, 64) {
		got, err := e.embedSome(ctx, some, role)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
		if len(out)%1024 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d\n", len(out), len(texts))
		}
	}
	if e.cache == "" {
		return out, nil
	}
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(out); err != nil {
		return nil, err
	}
	return out, os.WriteFile(path, buf.Bytes(), 0o600)
}

// embedSome halves what is too long, as rag does: the vector of a text is the mean of its parts'.
func (e *embedder) embedSome(ctx context.Context, texts []string, role engine.InputRole) ([][]float32, error) {
	p, err := e.engine.Prepare(ctx, &engine.EmbedRequest{Model: modelID, Input: texts, Role: role, Class: engine.ClassBatch})
	if err == nil {
		got, err := e.engine.Embed(ctx, p)
		if err != nil {
			return nil, err
		}
		return got.Vectors, nil
	}
	if !fault.Is(err, fault.CodeContextLength) {
		return nil, err
	}
	if len(texts) == 1 {
		runes := []rune(texts[0])
		parts, err := e.embedSome(ctx, []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}, role)
		if err != nil {
			return nil, err
		}
		sum := unit(parts[0]) // of directions, as rag does: a half that was halved itself counts once
		for i, x := range unit(parts[1]) {
			sum[i] += x
		}
		return [][]float32{unit(sum)}, nil
	}
	var out [][]float32
	for _, half := range [][]string{texts[:len(texts)/2], texts[len(texts)/2:]} {
		got, err := e.embedSome(ctx, half, role)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// samples is what a map is fitted to.
type samples struct {
	groups [][][]float32 // texts of one file and one role; each counts the same
	pairs  []pairs
}

// pairs are questions of a file and the passages that answer them.
type pairs struct{ questions, passages [][]float32 }

// samples embeds what the map is fitted to. Texts of a set to evaluate are left out.
func (e *embedder) samples(ctx context.Context, files []string, known map[string]bool) (*samples, error) {
	out := &samples{}
	for _, path := range files {
		passages, questions, answers, err := texts(path)
		if err != nil {
			return nil, err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		left := 0
		for _, text := range slices.Concat(passages, questions) {
			if known[text] {
				left++
			}
		}
		fmt.Printf("%x %s: %d passages, %d questions, %d of them in a set to evaluate\n", sha256.Sum256(raw), filepath.Base(path), len(passages), len(questions), left)
		if left > 0 {
			return nil, fmt.Errorf("%s has texts of a set to evaluate", path)
		}
		pv, err := e.embed(ctx, passages, engine.RolePassage)
		if err != nil {
			return nil, err
		}
		out.groups = append(out.groups, units(pv))
		if len(questions) == 0 {
			continue
		}
		qv, err := e.embed(ctx, questions, engine.RoleQuery)
		if err != nil {
			return nil, err
		}
		out.groups = append(out.groups, units(qv))
		p := pairs{questions: units(qv)}
		for _, a := range answers {
			p.passages = append(p.passages, unit(pv[a]))
		}
		out.pairs = append(out.pairs, p)
	}
	if len(out.groups) == 0 {
		return nil, errors.New("there are no texts to fit to")
	}
	return out, nil
}

func units(list [][]float32) [][]float32 {
	out := make([][]float32, len(list))
	for i, v := range list {
		out[i] = unit(v)
	}
	return out
}

// components are the directions of a map: those of the largest variance within groups, or in which questions vary as their answers do, or of
// both by a share. What tells a question from a passage, or Chinese from English, finds nothing, so means of groups are taken off before.
type components struct {
	mean      []float64 // of the means of the groups
	variance  []float64 // within groups, of each direction
	direction [][]float64
	all       float64 // the variance of all directions
}

// analyse takes share of the covariance of questions with answers, and the rest of that within groups.
func analyse(s *samples, share float64) *components {
	dim := len(s.groups[0][0])
	p := &components{mean: make([]float64, dim)}
	within, pair := square(dim), square(dim)
	for _, g := range s.groups {
		m := mean(g)
		for i, x := range m {
			p.mean[i] += x / float64(len(s.groups))
		}
		add(within, g, m, g, m, 1/float64(len(s.groups)))
	}
	for _, x := range s.pairs {
		add(pair, x.questions, mean(x.questions), x.passages, mean(x.passages), 1/float64(len(s.pairs)))
	}
	mixed := square(dim)
	for i := range mixed {
		for j := range mixed {
			mixed[i][j] = (1-share)*within[i][j] + share*(pair[i][j]+pair[j][i])/2
		}
		p.all += within[i][i]
	}
	_, p.direction = eigen(mixed)
	for _, d := range p.direction {
		v := 0.0
		for i, x := range d {
			for j, y := range d {
				v += x * within[i][j] * y
			}
		}
		p.variance = append(p.variance, max(v, 1e-12))
	}
	return p
}

func square(n int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, n)
	}
	return out
}

func mean(list [][]float32) []float64 {
	out := make([]float64, len(list[0]))
	for _, v := range list {
		for i, x := range v {
			out[i] += float64(x) / float64(len(list))
		}
	}
	return out
}

// add adds weight times the covariance of a with b, in pairs.
func add(to [][]float64, a [][]float32, ma []float64, b [][]float32, mb []float64, weight float64) {
	weight /= float64(len(a))
	y := make([]float64, len(mb))
	for k := range a {
		for j, x := range b[k] {
			y[j] = float64(x) - mb[j]
		}
		for i, x := range a[k] {
			row, x := to[i], weight*(float64(x)-ma[i])
			for j := range row {
				row[j] += x * y[j]
			}
		}
	}
}

// kept is the share of the variance within groups that the first components have.
func (p *components) kept(to int) (sum float64) {
	for _, v := range p.variance[:to] {
		sum += v / p.all
	}
	return sum
}

func (p *components) encode(digest [sha256.Size]byte, to int, whiten float64) []byte {
	most := slices.Max(p.variance)
	rows, offsets := make([][]float64, to), make([]float64, to)
	for i := range to {
		weight := math.Pow(p.variance[i]/most, -whiten/2)
		rows[i] = make([]float64, len(p.mean))
		for j, x := range p.direction[i] {
			rows[i][j] = weight * x
			offsets[i] += weight * x * p.mean[j]
		}
	}
	return reduce.Encode(digest, rows, offsets)
}

// eigen returns the eigenvalues of a symmetric matrix, largest first, and the vectors that belong to them, by Jacobi's rotations. The sign of
// a vector is that of its largest component, so that the result is one.
func eigen(a [][]float64) (values []float64, vectors [][]float64) {
	n := len(a)
	v := make([][]float64, n) // rows
	for i := range v {
		v[i] = make([]float64, n)
		v[i][i] = 1
	}
	for range 60 {
		off := 0.0
		for i := range n {
			for j := range i {
				off += a[i][j] * a[i][j]
			}
		}
		if off < 1e-26 {
			break
		}
		for p := range n {
			for q := p + 1; q < n; q++ {
				rotate(a, v, p, q)
			}
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(a[y][y], a[x][x]) })
	for _, i := range order {
		largest := 0.0
		for _, x := range v[i] {
			if math.Abs(x) > math.Abs(largest) {
				largest = x
			}
		}
		if largest < 0 {
			for j := range v[i] {
				v[i][j] = -v[i][j]
			}
		}
		values, vectors = append(values, max(a[i][i], 1e-12)), append(vectors, v[i])
	}
	return values, vectors
}

// rotate makes a[p][q] zero.
func rotate(a, v [][]float64, p, q int) {
	if math.Abs(a[p][q]) < 1e-300 {
		return
	}
	theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
	t := 1 / (math.Abs(theta) + math.Sqrt(theta*theta+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(t*t+1)
	s := t * c
	ap, aq := a[p], a[q]
	for i := range ap { // rows
		ap[i], aq[i] = c*ap[i]-s*aq[i], s*ap[i]+c*aq[i]
	}
	for i := range a { // columns
		x, y := a[i][p], a[i][q]
		a[i][p], a[i][q] = c*x-s*y, s*x+c*y
	}
	vp, vq := v[p], v[q]
	for i := range vp {
		vp[i], vq[i] = c*vp[i]-s*vq[i], s*vp[i]+c*vq[i]
	}
}

var errFormat = errors.New("not in a known format")
