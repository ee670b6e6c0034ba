// Command rag measures retrieval over passages that it makes: taking in, opening, memory, and the time of each stage of a search, by how much of the
// store a principal may see and by how many search at once.
//
//	go run ./bench/rag -n 100000
//	go run ./bench/rag -n 2100000 -dir /var/tmp/passages    keeps the store for the next run
//	go run ./bench/rag -peers                               against faiss, hnswlib, usearch and bm25s (needs python3)
//
// Texts are entries of a citizen hotline from templates, of 30 to 90 characters. Vectors are random with clusters: as hard to tell apart as real
// ones of a narrow subject, and no model is part of what is measured.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
	"github.com/sluice-project/sluice/rag/segment"
)

const (
	dim        = 128
	candidates = 200 // of each ranking
)

// shares are the parts of the store that a principal may see; each entry is in the group of the smallest that it belongs to.
var shares = []float64{1, 0.5, 0.1, 0.01, 0.001, 0.0001} //nolint:gochecknoglobals // a constant table

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var c config
	flag.IntVar(&c.n, "n", 100_000, "passages")
	flag.IntVar(&c.queries, "queries", 100, "searches per row")
	flag.StringVar(&c.dir, "dir", "", "where the store is, and stays; a temporary directory if empty")
	flag.StringVar(&c.suite, "suite", string(seal.Intl), "intl (AES-256-GCM) or gm (SM4-GCM)")
	flag.BoolVar(&c.peers, "peers", false, "hold vectors and words against other libraries in place of the stages")
	flag.IntVar(&c.rounds, "rounds", 5, "rounds against other libraries")
	flag.Parse()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type config struct {
	n, queries, rounds int
	dir, suite         string
	peers              bool
}

func (c config) run(ctx context.Context) (err error) {
	if c.peers {
		return c.comparePeers(ctx, kernel.Detect(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "bench-rag"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	}
	suite := seal.Suite(c.suite)
	key, err := seal.NewKey(suite, make([]byte, suite.KeySize())) // nothing here is secret
	if err != nil {
		return err
	}
	k := kernel.Detect(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	cfg := segment.Config{Dir: c.dir, Key: key, Model: "bench", Dim: dim, Kernels: k}
	fmt.Printf("%d passages of %d components, kernels %s, suite %s, %d processors, Go %s\n\n", c.n, dim, k.ISA(), suite, runtime.GOMAXPROCS(0), runtime.Version())
	if err := c.fill(ctx, cfg); err != nil {
		return err
	}
	debug.FreeOSMemory()
	before := resident()
	began := time.Now()
	s, err := segment.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	opened := time.Since(began)
	debug.FreeOSMemory()
	fmt.Printf("open %.2f s, resident %d MB (%d MB before), on disk %d MB, %d segments of words\n\n", opened.Seconds(), resident()>>20, before>>20, size(c.dir)>>20,
		len(s.View().Filter(everyone(), 0).Words()))
	return c.measure(ctx, s.View())
}

// fill takes in what is missing.
func (c config) fill(ctx context.Context, cfg segment.Config) (err error) {
	s, err := segment.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-done) }()
	began, have := time.Now(), s.View().Len()
	var slowest time.Duration
	for i := have; i < c.n; {
		change := segment.Change{Revision: int64(i + 1)}
		for range min(500, c.n-i) {
			change.Put = append(change.Put, entry(i))
			i++
		}
		at := time.Now()
		if err := s.Apply(ctx, change); err != nil {
			return err
		}
		slowest = max(slowest, time.Since(at))
	}
	if have < c.n {
		took := time.Since(began)
		fmt.Printf("take in %d passages: %.1f s, %.0f a second; slowest change of 500: %.0f ms\n", c.n-have, took.Seconds(), float64(c.n-have)/took.Seconds(), slowest.Seconds()*1000)
		at := time.Now()
		if err := s.Purge(ctx); err != nil {
			return err
		}
		fmt.Printf("write the rest: %.1f s\n", time.Since(at).Seconds())
	}
	return nil
}

// entry makes a document of one passage.
func entry(i int) segment.Document {
	rng := rand.New(rand.NewPCG(uint64(i), 12345)) //nolint:gosec // reproducible
	text := sentence(rng)
	group := 0
	for rank := rng.Float64(); group+1 < len(shares) && rank < shares[group+1]; {
		group++
	}
	return segment.Document{
		Name: segment.Name{ID: fmt.Sprintf("entry-%08d", i), Version: 1}, Rule: segment.Rule{Group: []byte{byte(group)}},
		Passages: []segment.Passage{{End: len(text), Text: text, Words: text, Vector: vector(rng, i%1000)}},
	}
}

// vector lies about one of a thousand centres.
func vector(rng *rand.Rand, centre int) []float32 {
	c := rand.New(rand.NewPCG(uint64(centre), 999)) //nolint:gosec // reproducible
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(c.NormFloat64() + rng.NormFloat64())
	}
	return v
}

//nolint:gochecknoglobals // constant tables
var (
	places  = strings.Fields("东城区 西城区 朝阳区 海淀区 丰台区 通州区 顺义区 昌平区 大兴区 房山区 建国路 中山路 人民路 解放路 和平里 望京 亦庄 回龙观 天通苑 五棵松")
	offices = strings.Fields("社保局 公积金中心 不动产登记中心 派出所 街道办 居委会 供热公司 自来水公司 燃气集团 城管局 交通委 教育局 卫生局 税务局 市场监管局 住建委")
	matters = strings.Fields("暖气不热 水管漏水 路灯不亮 噪音扰民 占道经营 垃圾清运 停车收费 公交改线 医保报销 养老金发放 户口迁移 居住证办理 公积金提取 学区划分 房产过户 违章建筑 电梯故障 井盖缺失 积水严重 宽带安装 营业执照 食品安全 退款纠纷 工资拖欠")
	forms   = strings.Fields("市民来电反映 群众投诉 居民咨询 来电人询问 网友留言建议 企业申请了解")
	ends    = strings.Fields("请尽快处理并回复 需要哪些材料 办理时限是多久 收费标准如何规定 已多次反映未解决 希望相关部门现场核实 请告知办理地点和电话 何时能够恢复")
)

func pick(rng *rand.Rand, of []string) string { return of[rng.IntN(len(of))] }

func sentence(rng *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s%d号院%d号楼，%s，", pick(rng, forms), pick(rng, places), pick(rng, places), 1+rng.IntN(200), 1+rng.IntN(30), pick(rng, matters))
	for range rng.IntN(3) {
		// Rare words, as names and terms are: two of some six thousand characters.
		fmt.Fprintf(&b, "涉及%c%c%s的%s，", rune(0x4e00+rng.IntN(6000)), rune(0x4e00+rng.IntN(6000)), pick(rng, offices), pick(rng, matters))
	}
	b.WriteString(pick(rng, ends))
	return b.String()
}

func everyone() *roaring.Bitmap {
	all := roaring.New()
	all.AddRange(0, 256)
	return all
}

// stages are the times of one search.
type stages struct{ filter, near, words, fuse, texts, all time.Duration }

// measure prints a row for each share and number of searches at once.
func (c config) measure(ctx context.Context, v *segment.View) error {
	fmt.Println("| visible | passages | at once | filter | vectors P50/P95 | words P50/P95 | fuse | texts of 10 | all P50/P95 | searches/s |")
	fmt.Println("|-|-|-|-|-|-|-|-|-|-|")
	for i, share := range shares {
		groups := roaring.New()
		for number, g := range v.Groups() {
			if int(g[0]) >= i {
				groups.Add(uint32(number))
			}
		}
		for _, clients := range []int{1, 8} {
			began := time.Now()
			all, err := c.searches(ctx, v, groups, clients)
			if err != nil {
				return err
			}
			took := time.Since(began)
			at := func(of func(stages) time.Duration, share float64) string {
				slices.SortFunc(all, func(a, b stages) int { return cmp.Compare(of(a), of(b)) })
				return fmt.Sprintf("%.1f", of(all[int(share*float64(len(all)-1))]).Seconds()*1000)
			}
			both := func(of func(stages) time.Duration) string { return at(of, 0.5) + "/" + at(of, 0.95) }
			fmt.Printf("| %g %% | %d | %d | %s | %s | %s | %s | %s | %s | %.0f |\n", share*100, v.Filter(groups, 0).Len(), clients,
				at(func(s stages) time.Duration { return s.filter }, 0.5), both(func(s stages) time.Duration { return s.near }),
				both(func(s stages) time.Duration { return s.words }), at(func(s stages) time.Duration { return s.fuse }, 0.5),
				at(func(s stages) time.Duration { return s.texts }, 0.5), both(func(s stages) time.Duration { return s.all }),
				float64(len(all))/took.Seconds())
		}
	}
	fmt.Println("\nTimes in ms. Filter: from groups to sets of passages. Vectors: exact, the best 200. Words: BM25, the best 200. No model is asked.")
	return nil
}

func (c config) searches(ctx context.Context, v *segment.View, groups *roaring.Bitmap, clients int) ([]stages, error) {
	all, failures := make([]stages, max(c.queries, clients)), make([]error, clients)
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for q := client; q < len(all) && failures[client] == nil; q += clients {
				all[q], failures[client] = search(ctx, v, groups, q)
			}
		})
	}
	wg.Wait()
	return all, errors.Join(failures...)
}

func search(ctx context.Context, v *segment.View, groups *roaring.Bitmap, query int) (stages, error) {
	rng := rand.New(rand.NewPCG(uint64(query), 777)) //nolint:gosec // reproducible
	question, of := sentence(rng), vector(rng, rng.IntN(1000))
	var s stages
	began := time.Now()
	last := began
	lap := func(d *time.Duration) {
		now := time.Now()
		*d, last = now.Sub(last), now
	}
	f := v.Filter(groups, began.UnixMicro())
	lap(&s.filter)
	near, err := f.Near(ctx, of, candidates)
	if err != nil {
		return s, err
	}
	lap(&s.near)
	ranking, err := lexical.Rank(lexical.Parse(question), f.Words())
	if err != nil {
		return s, err
	}
	best, err := ranking.Best(candidates)
	if err != nil {
		return s, err
	}
	lap(&s.words)
	byVector, byWords := make([]uint32, len(near)), make([]uint32, len(best))
	for i, h := range near {
		byVector[i] = h.ID
	}
	for i, h := range best {
		byWords[i] = h.ID
	}
	chosen := rank.Fuse(100, cmp.Compare[uint32], byWords, byVector)
	// Both scores of what only one of the two found.
	if _, err := f.Only(chosen).Near(ctx, of, len(chosen)); err != nil {
		return s, err
	}
	if _, err := ranking.Scores(chosen); err != nil {
		return s, err
	}
	lap(&s.fuse)
	if _, err := f.Passages(chosen[:min(10, len(chosen))]); err != nil {
		return s, err
	}
	lap(&s.texts)
	s.all = time.Since(began)
	return s, nil
}

// resident is how much memory the process has, as the operating system counts it; 0 where it does not say.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	var pages, in int64
	if err == nil {
		_, err = fmt.Sscan(string(b), &pages, &in)
	}
	if err != nil {
		return 0
	}
	return in * int64(os.Getpagesize())
}

func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
