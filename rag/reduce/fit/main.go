// Command fit makes the maps of rag/reduce, and measures what they cost. It embeds texts with the native engine, fits a principal component
// analysis to the vectors, writes the file, and prints how well questions find their passages with and without the map:
//
//	go run ./rag/reduce/fit -model FILE -out FILE -eval cmrc=cmrc2018_dev.json,cmrc2018_trial.json TEXTS…
//
// Texts are in the format of SQuAD (.json: its contexts are passages, its questions questions) or of Universal Dependencies (.conllu: each
// sentence a passage). Sets to evaluate are in the format of SQuAD, or folders in that of BEIR (corpus.jsonl, queries.jsonl, qrels/test.tsv).
// A text that is also in a set to evaluate is left out of the fit, and counted. The same model and texts give the same file.
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
	centred           bool
	whiten            float64
	sweep             bool
	sets              []string
}

func run(ctx context.Context) error {
	var o options
	flag.StringVar(&o.model, "model", "", "the model's file")
	flag.StringVar(&o.out, "out", "", "where the map is written; empty: nowhere")
	flag.StringVar(&o.cache, "cache", "", "a folder that keeps the vectors for the next run")
	flag.IntVar(&o.to, "to", 128, "components after")
	flag.BoolVar(&o.centred, "centred", true, "take the mean off")
	flag.Float64Var(&o.whiten, "whiten", 0, "weigh components by their variance to the power of minus half of this, from 0 to 1")
	flag.IntVar(&o.threads, "threads", 0, "threads that embed; 0: all processors")
	flag.BoolVar(&o.sweep, "sweep", false, "measure ways to fit instead of one")
	flag.Func("eval", "NAME=FILE[,FILE…] or NAME=FOLDER: a set to evaluate, as often as wanted", func(s string) error {
		o.sets = append(o.sets, s)
		return nil
	})
	flag.Parse()
	e, err := openEmbedder(o.model, o.cache, o.threads)
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
	samples, err := e.samples(ctx, flag.Args(), known)
	if err != nil {
		return err
	}
	for _, s := range sets {
		if err := e.embedSet(ctx, s); err != nil {
			return err
		}
	}
	p := analyse(samples)
	if o.sweep {
		return sweep(e, p, sets)
	}
	file := p.encode(e.digest, o.to, o.centred, o.whiten)
	r, err := reduce.Parse(file)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d vectors, %d → %d components, %.1f %% of the variance, %d bytes\n", r.ID(), len(samples), r.From(), r.To(), 100*p.kept(o.to), len(file))
	for _, s := range sets {
		before, after := s.measure(nil), s.measure(r)
		fmt.Printf("%-10s %5d passages, %5d questions: %s %.4f with %d, %.4f with %d: %+.4f\n", s.name, len(s.passages), len(s.questions), s.metric(), before, r.From(), after, r.To(), after-before)
	}
	if o.out == "" {
		return nil
	}
	return os.WriteFile(o.out, file, 0o644) //nolint:gosec // public data
}

func sweep(e *embedder, p *components, sets []*set) error {
	fmt.Printf("%-34s", "")
	for _, s := range sets {
		fmt.Printf(" %10s", s.name)
	}
	fmt.Printf("\n%-34s", "as the model makes them")
	for _, s := range sets {
		fmt.Printf(" %10.4f", s.measure(nil))
	}
	fmt.Println()
	for _, to := range []int{64, 96, 128, 192, 256, 384} {
		for _, centred := range []bool{false, true} {
			for _, whiten := range []float64{0, 0.25, 0.5, 0.75, 1} {
				if to != 128 && (!centred || whiten != 0.5) {
					continue
				}
				r, err := reduce.Parse(p.encode(e.digest, to, centred, whiten))
				if err != nil {
					return err
				}
				fmt.Printf("%-34s", fmt.Sprintf("%d, centred %t, whitened %.2f", to, centred, whiten))
				for _, s := range sets {
					fmt.Printf(" %10.4f", s.measure(r))
				}
				fmt.Println()
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

func openEmbedder(path, cache string, threads int) (*embedder, error) {
	e, err := native.New(native.Config{Threads: threads, Models: []native.ModelConfig{{ID: modelID, Path: path}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	models, err := e.Models(context.Background())
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
		for i, x := range parts[1] {
			parts[0][i] += x
		}
		return parts[:1], nil
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

// samples embeds what the map is fitted to. Each file counts in full; texts of a set to evaluate are left out.
func (e *embedder) samples(ctx context.Context, files []string, known map[string]bool) ([][]float32, error) {
	var out [][]float32
	for _, path := range files {
		passages, questions, err := texts(path)
		if err != nil {
			return nil, err
		}
		n := len(passages) + len(questions)
		without := func(s string) bool { return known[s] }
		passages, questions = slices.DeleteFunc(passages, without), slices.DeleteFunc(questions, without)
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%x %s: %d passages, %d questions, %d left out\n", sha256.Sum256(raw), filepath.Base(path), len(passages), len(questions), n-len(passages)-len(questions))
		for _, part := range []struct {
			role  engine.InputRole
			texts []string
		}{{engine.RolePassage, passages}, {engine.RoleQuery, questions}} {
			got, err := e.embed(ctx, part.texts, part.role)
			if err != nil {
				return nil, err
			}
			out = append(out, got...)
		}
	}
	if len(out) < e.dim {
		return nil, fmt.Errorf("%d texts are too few to fit %d components", len(out), e.dim)
	}
	return out, nil
}

// components are the principal components of some vectors, about their mean and about zero.
type components struct {
	mean []float64
	// For both: variances, largest first, and their directions.
	variance  [2][]float64
	direction [2][][]float64
}

func analyse(vectors [][]float32) *components {
	dim := len(vectors[0])
	p := &components{mean: make([]float64, dim)}
	moment := make([][]float64, dim)
	for i := range moment {
		moment[i] = make([]float64, dim)
	}
	for _, v := range vectors {
		for i, x := range v {
			p.mean[i] += float64(x) / float64(len(vectors))
			for j := range i + 1 {
				moment[i][j] += float64(x) * float64(v[j]) / float64(len(vectors))
			}
		}
	}
	for centred := range 2 {
		m := make([][]float64, dim)
		for i := range m {
			m[i] = make([]float64, dim)
		}
		for i := range dim {
			for j := range i + 1 {
				m[i][j] = moment[i][j]
				if centred == 1 {
					m[i][j] -= p.mean[i] * p.mean[j]
				}
				m[j][i] = m[i][j]
			}
		}
		p.variance[centred], p.direction[centred] = eigen(m)
	}
	return p
}

// kept is the share of the variance that the first components have.
func (p *components) kept(to int) float64 {
	sum, all := 0.0, 0.0
	for i, v := range p.variance[1] {
		all += v
		if i < to {
			sum += v
		}
	}
	return sum / all
}

func (p *components) encode(digest [sha256.Size]byte, to int, centred bool, whiten float64) []byte {
	which := 0
	if centred {
		which = 1
	}
	rows, offsets := make([][]float64, to), make([]float64, to)
	for i := range to {
		weight := math.Pow(p.variance[which][i]/p.variance[which][0], -whiten/2)
		rows[i] = make([]float64, len(p.mean))
		for j, x := range p.direction[which][i] {
			rows[i][j] = weight * x
			if centred {
				offsets[i] += weight * x * p.mean[j]
			}
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
