package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/sq8"
	"github.com/sluice-project/sluice/rag/lexical"
)

//go:embed peers.py
var peersScript string

const (
	nearest   = 10   // hits of a search
	reached   = 1e-9 // below what recalls differ
	full      = 0.999
	bm25Lib   = "bm25s"
	faissFlat = "faiss flat"
)

// contender answers the searches of a round. An exact one has no effort; the effort of others is what they look at before they stop.
type contender struct {
	name    string
	efforts []int
	filters bool
	search  func(ctx context.Context, mask string, effort int) ([][]uint32, []time.Duration, error)
}

// contest is what all contenders have in common.
type contest struct {
	folder  string
	vectors [][]float32
	queries [][]float32
	masks   map[string]*roaring.Bitmap
	shares  []string // the names of the masks
	truth   map[string][][]uint32
	scores  map[string][]float64 // of the last of the truth, for equal ones
	near    *sq8.Index
	words   *lexical.Segment
	asked   []string
	peer    *peer
}

// comparePeers holds the exact index and BM25 against other libraries on the same vectors and words, on one thread each, in alternating rounds.
func (c config) comparePeers(ctx context.Context, k kernel.Kernels) (err error) {
	t := &contest{masks: map[string]*roaring.Bitmap{}, truth: map[string][][]uint32{}, scores: map[string][]float64{}}
	if t.folder, err = os.MkdirTemp("", "bench-rag-peers"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.folder)) }()
	if err := t.make(ctx, c, k); err != nil {
		return err
	}
	if t.peer, err = startPeer(ctx, t.folder); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.peer.close()) }()
	graphs := []int{10, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
	near := []*contender{
		{name: "sluice", filters: true, search: t.sluiceNear},
		{name: faissFlat, filters: true},
		{name: "faiss SQ8 + rescore", filters: true, efforts: []int{1, 2, 4, 8, 16}},
		{name: "faiss HNSW", filters: true, efforts: graphs},
		{name: "hnswlib", filters: true, efforts: graphs},
		{name: "usearch", efforts: graphs},
	}
	words := []*contender{{name: "sluice", filters: true, search: t.sluiceWords}, {name: bm25Lib, filters: true}}
	for _, all := range [][]*contender{near, words} {
		for _, x := range all {
			if x.search != nil {
				continue
			}
			x.search = func(ctx context.Context, mask string, effort int) ([][]uint32, []time.Duration, error) {
				return t.peer.search(ctx, x.name, mask, effort)
			}
			seconds, err := t.peer.build(ctx, x.name)
			if err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			fmt.Printf("%s: built in %.1f s\n", x.name, seconds)
		}
	}
	fmt.Printf("\nThe nearest %d, one thread, %d rounds of %d searches in turn: medians (least…most) of the rounds. Ratio: median of Sluice's P50 by the other's; above 1 the other is faster.\n\n", nearest, c.rounds, len(t.queries))
	if err := t.rounds(ctx, near, c.rounds, t.recall); err != nil {
		return err
	}
	fmt.Printf("\nBM25, the best %d, the same words. bm25s counts how often a word occurs among all passages, Sluice among the visible.\n\n", nearest)
	return t.rounds(ctx, words, c.rounds, nil)
}

// make makes vectors, questions, filters, and the right answers.
func (t *contest) make(ctx context.Context, c config, k kernel.Kernels) error {
	var b lexical.Builder
	var passages, asked [][]string
	t.near = sq8.New(dim, k)
	var entries []index.Entry
	for i := range c.n {
		d := entry(i)
		v := unit(d.Passages[0].Vector)
		t.vectors = append(t.vectors, v)
		entries = append(entries, index.Entry{ID: uint32(i), Vector: v})
		if err := b.Add(uint32(i), d.Passages[0].Words); err != nil {
			return err
		}
		passages = append(passages, lexical.Tokens(d.Passages[0].Words))
	}
	began := time.Now()
	if err := t.near.Upsert(ctx, entries); err != nil {
		return err
	}
	fmt.Printf("%d vectors of %d components, one thread\nsluice: vectors indexed in %.1f s\n", c.n, dim, time.Since(began).Seconds())
	for i := range c.queries {
		rng := rand.New(rand.NewPCG(uint64(i), 777)) //nolint:gosec // reproducible
		question := sentence(rng)
		t.asked, asked = append(t.asked, question), append(asked, lexical.Tokens(question))
		t.queries = append(t.queries, unit(vector(rng, rng.IntN(1000))))
	}
	var err error
	if t.words, err = lexical.Open(b.Build()); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	for _, share := range []float64{1, 0.1, 0.01, 0.001} {
		name, set := strconv.FormatFloat(share*100, 'g', -1, 64)+" %", roaring.New()
		mask := make([]byte, c.n)
		for i := range mask {
			if share == 1 || rng.Float64() < share {
				mask[i] = 1
				set.Add(uint32(i))
			}
		}
		t.shares, t.masks[name] = append(t.shares, name), set
		if err := os.WriteFile(filepath.Join(t.folder, "mask--"+name), mask, 0o600); err != nil {
			return err
		}
		t.solve(name)
	}
	words, err := json.Marshal(map[string]any{"passages": passages, "questions": asked})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(t.folder, "words"), words, 0o600), floats(filepath.Join(t.folder, "vectors"), t.vectors), floats(filepath.Join(t.folder, "queries"), t.queries))
}

// solve compares every question with every vector that a mask lets through, in float64.
func (t *contest) solve(mask string) {
	for _, q := range t.queries {
		var all []index.Hit
		for it := t.masks[mask].Iterator(); it.HasNext(); {
			id := it.Next()
			all = append(all, index.Hit{ID: id, Score: float32(dot(q, t.vectors[id]))})
		}
		slices.SortFunc(all, func(a, b index.Hit) int { return cmp.Compare(b.Score, a.Score) })
		all = all[:min(nearest, len(all))]
		var ids []uint32
		last := math.Inf(-1)
		for _, h := range all {
			ids, last = append(ids, h.ID), dot(q, t.vectors[h.ID])
		}
		t.truth[mask], t.scores[mask] = append(t.truth[mask], ids), append(t.scores[mask], last)
	}
}

// recall is the share of the nearest that was found; one as near as the last of them counts. What a filter hides does not.
func (t *contest) recall(mask string, found [][]uint32) (share float64, err error) {
	right, all := 0, 0
	for i, ids := range found {
		all += len(t.truth[mask][i])
		seen := map[uint32]bool{}
		for _, id := range ids {
			if !t.masks[mask].Contains(id) {
				return 0, fmt.Errorf("%d is hidden by the filter", id)
			}
			if !seen[id] && dot(t.queries[i], t.vectors[id]) >= t.scores[mask][i]-1e-6 {
				right++
			}
			seen[id] = true
		}
	}
	return float64(right) / float64(max(1, all)), nil
}

// rounds prints a row for each contender and filter at the recall wanted, and rows of less beside it.
func (t *contest) rounds(ctx context.Context, all []*contender, rounds int, recall func(string, [][]uint32) (float64, error)) error {
	fmt.Println("| visible | library | effort | recall@10 | P50 ms | P95 ms | ratio |\n|-|-|-|-|-|-|-|")
	type entrant struct {
		*contender
		effort   int
		recall   float64
		p50, p95 []float64
	}
	for _, mask := range t.shares {
		var field []*entrant
		for _, x := range all {
			if mask != t.shares[0] && !x.filters {
				fmt.Printf("| %s | %s | | has no filter | | | |\n", mask, x.name)
				continue
			}
			best := math.Inf(-1)
			efforts := x.efforts
			if efforts == nil {
				efforts = []int{0}
			}
			var last *entrant
			for _, effort := range efforts {
				found, _, err := x.search(ctx, mask, effort)
				if err != nil {
					return fmt.Errorf("%s: %w", x.name, err)
				}
				e := &entrant{contender: x, effort: effort, recall: 1} // BM25 has one answer
				if recall != nil {
					if e.recall, err = recall(mask, found); err != nil {
						return fmt.Errorf("%s: %w", x.name, err)
					}
				}
				last = e
				// Of what is below the bar one row for each step: 0.9, 0.95, 0.99.
				for _, step := range []float64{0.9, 0.95, 0.99, full} {
					if best < step && e.recall >= step-reached {
						field = append(field, e)
						break
					}
				}
				if best = max(best, e.recall); best >= full-reached {
					break
				}
			}
			if best < full-reached {
				fmt.Printf("| %s | %s | %d | %.4f, not reached | | | |\n", mask, x.name, last.effort, best)
			}
		}
		for r := range rounds {
			for i := range field {
				e := field[(i+r)%len(field)]
				_, times, err := e.search(ctx, mask, e.effort)
				if err != nil {
					return fmt.Errorf("%s: %w", e.name, err)
				}
				slices.Sort(times)
				at := func(share float64) float64 { return times[int(share*float64(len(times)-1))].Seconds() * 1000 }
				e.p50, e.p95 = append(e.p50, at(0.5)), append(e.p95, at(0.95))
			}
		}
		ours := 0.0
		for _, e := range field {
			if e.name == "sluice" {
				ours = median(e.p50)
			}
		}
		for _, e := range field {
			effort := ""
			if e.effort > 0 {
				effort = strconv.Itoa(e.effort)
			}
			fmt.Printf("| %s | %s | %s | %.4f | %s | %s | %.2f |\n", mask, e.name, effort, e.recall, spread(e.p50), spread(e.p95), ours/median(e.p50))
		}
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func spread(v []float64) string {
	return fmt.Sprintf("%.3f (%.3f…%.3f)", median(v), slices.Min(v), slices.Max(v))
}

func (t *contest) sluiceNear(ctx context.Context, mask string, _ int) (found [][]uint32, times []time.Duration, err error) {
	for _, q := range t.queries {
		began := time.Now()
		hits, err := t.near.Search(ctx, index.Query{Vector: q, Allowed: t.masks[mask], TopK: nearest})
		times = append(times, time.Since(began))
		if err != nil {
			return nil, nil, err
		}
		ids := make([]uint32, len(hits))
		for i, h := range hits {
			ids[i] = h.ID
		}
		found = append(found, ids)
	}
	return found, times, nil
}

func (t *contest) sluiceWords(_ context.Context, mask string, _ int) (found [][]uint32, times []time.Duration, err error) {
	for _, q := range t.asked {
		began := time.Now()
		r, err := lexical.Rank(lexical.Parse(q), []lexical.Part{{Segment: t.words, Allowed: t.masks[mask]}})
		if err != nil {
			return nil, nil, err
		}
		hits, err := r.Best(nearest)
		times = append(times, time.Since(began))
		if err != nil {
			return nil, nil, err
		}
		found = append(found, make([]uint32, len(hits)))
	}
	return found, times, nil
}

func unit(v []float32) []float32 {
	norm := math.Sqrt(dot(v, v))
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / norm)
	}
	return out
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func floats(file string, all [][]float32) error {
	var out bytes.Buffer
	for _, v := range all {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			return err
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// peer is the process with the other libraries.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPeer(ctx context.Context, folder string) (*peer, error) {
	python, err := testpython.Environment(ctx, "ragpeers")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, python, "-c", peersScript, folder, strconv.Itoa(dim))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &peer{cmd, in, bufio.NewReaderSize(out, 1<<20)}, cmd.Start()
}

func (p *peer) close() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

func (p *peer) do(job, answer any) error {
	line, err := json.Marshal(job)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return err
	}
	got, err := p.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the other libraries' process: %w", err)
	}
	return json.NewDecoder(strings.NewReader(got)).Decode(answer)
}

func (p *peer) build(_ context.Context, library string) (seconds float64, err error) {
	var out struct{ Seconds float64 }
	err = p.do(map[string]any{"do": "build", "library": library}, &out)
	return out.Seconds, err
}

func (p *peer) search(_ context.Context, library, mask string, effort int) ([][]uint32, []time.Duration, error) {
	var out struct {
		Found       [][]uint32
		Nanoseconds []time.Duration
	}
	err := p.do(map[string]any{"do": "search", "library": library, "mask": mask, "effort": effort, "k": nearest}, &out)
	return out.Found, out.Nanoseconds, err
}
