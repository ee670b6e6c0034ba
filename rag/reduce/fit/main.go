// Command fit makes the maps of rag/reduce, and measures what they cost. It embeds texts with the native engine, finds the directions in which the
// vectors are longest, writes the file, and prints how well questions find their passages with and without the map:
//
//	go run ./rag/reduce/fit -model FILE -out FILE -eval cmrc=cmrc2018_trial.json TEXTS…
//
// Texts are files in the format of SQuAD (.json: contexts are passages, questions questions; traditional Chinese characters are written as simplified
// ones) or of Universal Dependencies (.conllu: each sentence a passage), or several with commas between. Each counts the same, and so do its passages and
// its questions. Sets to evaluate are in the format of SQuAD, or folders in that of BEIR (corpus.jsonl, queries.jsonl, qrels/test.tsv). A file with a text
// of a set to evaluate is refused. The same model and texts give the same file.
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
	every, ask        int
	whiten            float64
	sweep             bool
	sets              []string
}

func run(ctx context.Context) error {
	var o options
	flag.StringVar(&o.model, "model", "", "the model's file")
	flag.StringVar(&o.out, "out", "", "where the map is written; empty: nowhere")
	flag.StringVar(&o.cache, "cache", "", "a folder that keeps the vectors for the next run")
	flag.IntVar(&o.to, "to", 256, "components after")
	flag.IntVar(&o.every, "every", 1, "of texts in the format of SQuAD, take every so many-th passage")
	flag.IntVar(&o.ask, "ask", 0, "and so many questions of each; 0: all")
	flag.Float64Var(&o.whiten, "whiten", 0.25, "weigh components by their mean square to the power of minus half of this, from 0 to 1")
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
	if o.every < 1 || o.ask < 0 {
		return errors.New("-every: from 1; -ask: from 0")
	}
	fitted, err := e.samples(ctx, flag.Args(), o.every, o.ask, known)
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
	p := analyse(fitted)
	if o.to < 1 || o.to > len(p.direction) {
		return fmt.Errorf("-to: from 1 to %d", len(p.direction))
	}
	file := p.encode(e.digest, o.to, o.whiten)
	r, err := reduce.Parse(file)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d → %d components, %.1f %% of the square, %d bytes\n", r.ID(), r.From(), r.To(), 100*p.kept(o.to), len(file))
	for _, s := range sets {
		before, after := s.measure(nil), s.measure(r)
		fmt.Printf("%-10s %5d passages, %5d questions: %s %.4f with %d, %.4f with %d: %+.4f\n", s.name, len(s.passages), len(s.questions), s.metric(), before, r.From(), after, r.To(), after-before)
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, file, 0o644) //nolint:gosec // public data
}

func sweep(e *embedder, fitted [][][]float32, sets []*set) error {
	row := func(name string, r *reduce.Reduction) {
		fmt.Printf("%-32s", name)
		for _, s := range sets {
			fmt.Printf(" %s %s %.4f", s.name, s.metric(), s.measure(r))
		}
		fmt.Println()
	}
	row("as the model makes them", nil)
	p := analyse(fitted)
	for _, to := range []int{128, 192, 256, 320} {
		for _, whiten := range []float64{0, 0.15, 0.25, 0.35, 0.5} {
			r, err := reduce.Parse(p.encode(e.digest, to, whiten))
			if err != nil {
				return err
			}
			row(fmt.Sprintf("%d components, whitened by %.2f", to, whiten), r)
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

// samples embeds what the map is fitted to: the passages of each file, and its questions.
func (e *embedder) samples(ctx context.Context, files []string, every, ask int, known map[string]bool) (groups [][][]float32, err error) {
	for _, names := range files {
		var passages, questions []string
		n := 0
		for path := range strings.SplitSeq(names, ",") {
			p, q, err := texts(path, every, ask, &n)
			if err != nil {
				return nil, err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			fmt.Printf("%x %s: %d passages, %d questions\n", sha256.Sum256(raw), filepath.Base(path), len(p), len(q))
			if slices.ContainsFunc(slices.Concat(p, q), func(text string) bool { return known[text] }) {
				return nil, fmt.Errorf("%s has texts of a set to evaluate", path)
			}
			passages, questions = append(passages, p...), append(questions, q...)
		}
		pv, err := e.embed(ctx, passages, engine.RolePassage)
		if err != nil {
			return nil, err
		}
		groups = append(groups, units(pv))
		if len(questions) == 0 {
			continue
		}
		qv, err := e.embed(ctx, questions, engine.RoleQuery)
		if err != nil {
			return nil, err
		}
		groups = append(groups, units(qv))
	}
	if len(groups) == 0 {
		return nil, errors.New("there are no texts to fit to")
	}
	return groups, nil
}

func units(list [][]float32) [][]float32 {
	out := make([][]float32, len(list))
	for i, v := range list {
		out[i] = unit(v)
	}
	return out
}

// components are the directions of a map, the one in which vectors are longest first. Nothing is taken off before: it was measured, and the mean of all
// texts tells little of them apart, but what is left without it is compared by other angles than the model was trained for.
type components struct {
	square    []float64 // mean of the groups' mean squares, of each direction
	direction [][]float64
	all       float64 // of all directions
}

func analyse(groups [][][]float32) *components {
	dim := len(groups[0][0])
	mean := make([][]float64, dim)
	for i := range mean {
		mean[i] = make([]float64, dim)
	}
	for _, g := range groups {
		weight := 1 / float64(len(g)*len(groups))
		for _, v := range g {
			for i, x := range v {
				row, x := mean[i], weight*float64(x)
				for j, y := range v {
					row[j] += float64(x * float64(y))
				}
			}
		}
	}
	p := &components{}
	p.square, p.direction = eigen(mean)
	for _, x := range p.square {
		p.all += x
	}
	return p
}

// kept is the share of the square that the first components have.
func (p *components) kept(to int) (sum float64) {
	for _, v := range p.square[:to] {
		sum += v / p.all
	}
	return sum
}

func (p *components) encode(digest [sha256.Size]byte, to int, whiten float64) []byte {
	rows := make([][]float64, to)
	for i := range to {
		weight := math.Pow(p.square[i]/p.square[0], -whiten/2)
		for _, x := range p.direction[i] {
			rows[i] = append(rows[i], weight*x)
		}
	}
	return reduce.Encode(digest, rows)
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
