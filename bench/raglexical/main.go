// Command raglexical measures BM25 at the size of a citizens' hotline: short Chinese entries, cut from the passages of a set, in one segment,
// searched by one goroutine for the questions of the set.
//
//	go run ./bench/raglexical -set DIR/cmrc        2.1 million entries
//
// It prints how long building and opening took, bytes, resident memory, and times of searches, for everything and through filters.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/bench/ragsets"
	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/rag/lexical"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "raglexical:", err)
		os.Exit(1)
	}
}

func run() error {
	var (
		dir     = flag.String("set", "", "folder of a set whose passages are cut and whose questions are asked")
		entries = flag.Int("entries", 2_100_000, "how many entries")
		asked   = flag.Int("questions", 1000, "how many questions")
		top     = flag.Int("top", 200, "how many hits of each")
	)
	flag.Parse()
	set, err := ragsets.LoadSet(*dir)
	if err != nil {
		return err
	}
	m := enginebench.ThisMachine()
	fmt.Printf("machine: %s, %d CPUs, %s\n", m.CPU, m.Processors, m.Go)
	start := time.Now()
	data, err := build(set, *entries)
	if err != nil {
		return err
	}
	fmt.Printf("%d entries: built in %.1f s, %.1f MiB\n", *entries, time.Since(start).Seconds(), float64(len(data))/(1<<20))
	start = time.Now()
	s, err := lexical.Open(data)
	if err != nil {
		return err
	}
	fmt.Printf("opened, every posting checked, in %.2f s\n", time.Since(start).Seconds())
	debug.FreeOSMemory()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Printf("heap, with the set itself: %.1f MiB\n", float64(memory.HeapInuse)/(1<<20))
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in every run
	rng.Shuffle(len(set.Questions), func(i, j int) { set.Questions[i], set.Questions[j] = set.Questions[j], set.Questions[i] })
	questions := set.Questions[:min(*asked, len(set.Questions))]
	runtime.LockOSThread() // its time on a processor is what a search costs, whatever else runs
	fmt.Printf("\n| visible | processor p50 | p95 | p99 | clock p50 | p95 | p99 |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, share := range []float64{1, 0.999, 0.5, 0.1, 0.01, 0.0001} {
		allowed := s.Docs()
		if share < 1 {
			allowed = roaring.New()
			for id := range uint32(*entries) {
				if rng.Float64() < share {
					allowed.Add(id)
				}
			}
			allowed.RunOptimize()
		}
		var took, busy []time.Duration
		for _, q := range questions {
			start, used := time.Now(), threadTime()
			ranking, err := lexical.Rank(lexical.Parse(q.Text), []lexical.Part{{Segment: s, Allowed: allowed}})
			if err != nil {
				return err
			}
			if _, err := ranking.Best(*top); err != nil {
				return err
			}
			busy = append(busy, threadTime()-used)
			took = append(took, time.Since(start))
		}
		fmt.Printf("| %g %% |", 100*share)
		for _, times := range [][]time.Duration{busy, took} {
			slices.Sort(times)
			for _, p := range []float64{.5, .95, .99} {
				fmt.Printf(" %.1f ms |", float64(times[min(len(times)-1, int(p*float64(len(times))))].Microseconds())/1000)
			}
		}
		fmt.Println()
	}
	return nil
}

// build cuts entries of 30 to 90 characters out of the passages.
func build(set ragsets.Set, entries int) ([]byte, error) {
	rng := rand.New(rand.NewPCG(12345, 2)) //nolint:gosec // the same in every run
	var passages [][]rune
	for _, p := range set.Passages {
		if r := []rune(strings.TrimSpace(p.Text)); len(r) >= 90 {
			passages = append(passages, r)
		}
	}
	var b lexical.Builder
	for id := range uint32(entries) {
		p := passages[rng.IntN(len(passages))]
		n := 30 + rng.IntN(61)
		at := rng.IntN(len(p) - n + 1)
		if err := b.Add(id, string(p[at:at+n])); err != nil {
			return nil, err
		}
	}
	return b.Build(), nil
}
