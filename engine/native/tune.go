package native

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/cpuname"
)

// Tuning is what was measured to be fastest for a model and plan on a processor. It decides speed alone: results are the same bits.
type Tuning struct {
	PromptRows        int `json:"prompt_rows"`        // prompt tokens of a step that computes nothing else
	GenerationThreads int `json:"generation_threads"` // threads for steps of few rows
}

// tuningFile lies beside the packed weights: processor and model → tuning.
const tuningFile = "tuning.json"

// maxTunings bounds the file.
const maxTunings = 1 << 20

// tuningKey names what a tuning is for.
func tuningKey(c *compiled, isa string, threads int) string {
	return strings.Join([]string{cpuname.Read(), c.info.Digest, c.info.Precision, isa, "threads=" + strconv.Itoa(threads)}, " | ")
}

// readTunings returns all tunings; none when the file is missing or unusable, since they decide speed alone.
func readTunings(dir string) map[string]Tuning {
	all := map[string]Tuning{}
	f, err := os.Open(filepath.Join(dir, tuningFile))
	if err != nil {
		return all
	}
	defer func() { _ = f.Close() }()
	if json.NewDecoder(io.LimitReader(f, maxTunings)).Decode(&all) != nil || all == nil {
		return map[string]Tuning{}
	}
	return all
}

// tuning returns what was measured, within bounds, or the defaults.
func (o *opener) tuning(c *compiled) Tuning {
	t := Tuning{PromptRows: defaultPromptRows}
	if o.cfg.CacheDir == "" {
		return t
	}
	got := readTunings(o.cfg.CacheDir)[tuningKey(c, o.kernels.ISA(), o.cfg.Threads)]
	if got.PromptRows >= 16 && got.PromptRows <= 1024 {
		t.PromptRows = got.PromptRows
	}
	if got.GenerationThreads >= 1 && got.GenerationThreads <= o.cfg.Threads {
		t.GenerationThreads = got.GenerationThreads
	}
	return t
}

// writeTuning adds a tuning to the file. Of two processes that write at the same time, one wins; nothing is lost but speed.
func writeTuning(dir, key string, t Tuning) (err error) {
	all := readTunings(dir)
	all[key] = t
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tuning-*")
	if err != nil {
		return err
	}
	if _, err = f.Write(append(data, '\n')); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, tuningFile))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// tune measures a compiled model and keeps the result. What was measured for the same weights before is kept, unless they were packed
// anew.
func (o *opener) tune(c *compiled, cache string) (*Tuning, error) {
	key := tuningKey(c, o.kernels.ISA(), o.cfg.Threads)
	if have, ok := readTunings(o.cfg.CacheDir)[key]; ok && cache == exec.CacheHit {
		return &have, nil
	}
	pool := exec.NewPool(o.cfg.Threads)
	defer pool.Close()
	t := measure(c, c.prog.NewPass(o.kernels, pool), o.cfg.Threads)
	return &t, writeTuning(o.cfg.CacheDir, key, t)
}

// Bounds of measuring: a big model is not measured for minutes.
const (
	tuneRows   = 256
	tuneTokens = 12
	tuneBudget = 10 * time.Second
	tuneGain   = 1.03 // what a choice must be faster than the one before it
)

// measure finds the tuning of a model that generates. Whatever the budget does not allow to measure stays as it is.
func measure(c *compiled, p *exec.Pass, threads int) Tuning {
	t := Tuning{PromptRows: defaultPromptRows, GenerationThreads: threads}
	until := time.Now().Add(tuneBudget)
	feed(p, c, tuneRows, tuneRows, 0) // brings the weights into memory
	best := 0.0
	for _, rows := range []int{defaultPromptRows, 64, 256} {
		if speed := fastest(until, func() float64 { return feed(p, c, tuneRows, rows, 0) }); speed > best*tuneGain {
			best, t.PromptRows = speed, rows
		}
	}
	best = 0
	for _, n := range candidates(threads) {
		p.FewThreads = n
		if speed := fastest(until, func() float64 { return feed(p, c, tuneTokens, 1, tuneRows) }); speed > best*tuneGain {
			best, t.GenerationThreads = speed, n
		}
	}
	p.FewThreads = 0
	return t
}

// candidates are all threads, and halves of them: fewer are taken only where that is faster.
func candidates(threads int) []int {
	var out []int
	for n := threads; n >= 1; n /= 2 {
		out = append(out, n)
	}
	return out
}

// fastest measures three times, or less when the time is up; 0 if it is up before the first.
func fastest(until time.Time, speed func() float64) float64 {
	best := 0.0
	for range 3 {
		if time.Now().After(until) {
			break
		}
		best = max(best, speed())
	}
	return best
}

// feed computes n tokens, some at a time, behind depth others, and returns tokens per second.
func feed(p *exec.Pass, c *compiled, n, rows, depth int) float64 {
	limit := c.info.ContextTokens
	depth = min(depth, max(0, limit-n))
	n = min(n, limit-depth)
	cache := p.Pages().NewCache()
	defer cache.Release()
	step := func(k int) {
		reserve(cache, k)
		p.Rows = p.Rows[:0]
		for i := range k {
			p.Rows = append(p.Rows, exec.Row{Token: int32((cache.Len() + 1) * 37 % c.prog.Outputs()), Cache: cache, Pos: cache.Len(), Wanted: i == k-1})
			cache.Advance(1)
		}
		p.Run()
	}
	for done := 0; done < depth; done += 64 {
		step(min(64, depth-done))
	}
	begin := time.Now()
	for done := 0; done < n; done += rows {
		step(min(rows, n-done))
	}
	return float64(n) / time.Since(begin).Seconds()
}

// defaultPromptRows is how many prompt tokens a step computes best where nothing was measured.
const defaultPromptRows = 128

// reserve makes room in a cache whose pages are not bounded.
func reserve(c *exec.Cache, n int) {
	if !c.Reserve(n) {
		panic("native: pages without a bound have run out")
	}
}
