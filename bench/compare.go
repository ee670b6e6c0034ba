package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/engine/kernel"
)

// options of the comparison.
type options struct {
	binary, model, cache, out string
	threads                   []int
	tiers, plans              []string
	rounds, generate          int
	rows                      string
	limit                     time.Duration
}

func parseOptions(args []string) (options, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return options{}, err
	}
	o := options{}
	var threads, tiers, plans string
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.StringVar(&o.binary, "sluice", "bin/sluice", "the built binary")
	f.StringVar(&o.model, "model", defaultModel(), "GGUF file that both run")
	f.StringVar(&o.cache, "cache", filepath.Join(cache, "sluice", "bench-engine"), "where the peer is built and results are kept")
	f.StringVar(&o.out, "out", "", "base name of the result files; without it results/<time> in the cache")
	f.StringVar(&threads, "threads", "2,1", "numbers of threads")
	f.StringVar(&tiers, "tiers", "", "tiers of our kernels, such as avx512,avx2; without it the machine's best and AVX2")
	f.StringVar(&plans, "plans", "", "our precision plans, such as ',int8'; the empty one is the default")
	f.IntVar(&o.rounds, "rounds", 5, "rounds, alternating")
	f.IntVar(&o.generate, "gen", 128, "tokens of a generation")
	f.StringVar(&o.rows, "rows", "", "only rows whose name contains this, such as 'prompt 512' or 'Q8_0'; load and memory are 'process'")
	f.DurationVar(&o.limit, "limit", 15*time.Minute, "begin no round that would end later than this")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, v := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-threads %q is not a list of numbers", threads)
		}
		o.threads = append(o.threads, n)
	}
	o.plans = strings.Split(plans, ",")
	if tiers != "" {
		o.tiers = strings.Split(tiers, ",")
	}
	if o.rounds < 1 || o.generate < 1 {
		return o, errors.New("-rounds and -gen begin at 1")
	}
	return o, nil
}

// variant is one way to run our engine: the tier that the environment masks to, and the plan.
type variant struct {
	tier, plan string
	masked     bool
}

func (v variant) name() string {
	if v.plan == "" {
		return v.tier
	}
	return v.tier + ", plan " + v.plan
}

func (v variant) command(binary string) enginebench.Command {
	if v.masked {
		return workerCommand(binary, kernel.Variable+"="+v.tier)
	}
	return workerCommand(binary)
}

// comparison is one under way.
type comparison struct {
	options
	peer     *peer
	variants []variant
	rows     []row
	settings [][]setting // per row: those of the peer that still compete
	theirs   []track     // per row
	ours     map[ourKey]*ourTrack
	limits   map[string]*enginebench.Worker // per tier
	machine  map[limitKey]*limitTrack
	block    int64 // bytes of the weights, the size of what the limits read
	process  []processRow
	rounds   int // completed
}

type ourKey struct {
	threads int
	variant variant
	test    test
}

type ourTrack struct{ rates, shares []float64 }

// ourWorker is a process of ours with the model open.
type ourWorker struct {
	*enginebench.Worker
	work enginebench.Work
}

type limitKey struct {
	threads int
	tier    string
}

type limitTrack struct{ read, multiply, handOver []float64 }

// compare runs the whole comparison.
func compare(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.model); err != nil {
		return fmt.Errorf("%w (run `make pull` first)", err)
	}
	ctx, stop := context.WithCancel(ctx) // ends the workers
	defer stop()
	c := &comparison{options: o, ours: map[ourKey]*ourTrack{}, limits: map[string]*enginebench.Worker{}, machine: map[limitKey]*limitTrack{}}
	if c.peer, err = preparePeer(ctx, o.cache); err != nil {
		return err
	}
	started := time.Now()
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.run(ctx, started); err != nil {
		return err
	}
	return c.write(started)
}

// prepare finds our tiers, lays out the rows and has the peer make its forms of the model.
func (c *comparison) prepare(ctx context.Context) error {
	if err := c.findVariants(ctx); err != nil {
		return err
	}
	for _, t := range c.threads {
		for _, r := range planRows(t, c.generate) {
			if strings.Contains(r.name(), c.options.rows) {
				c.rows = append(c.rows, r)
			}
		}
	}
	for _, r := range c.rows {
		if _, err := c.peer.form(ctx, c.model, r.form); err != nil {
			return err
		}
		c.settings, c.theirs = append(c.settings, c.peer.settings()), append(c.theirs, track{})
	}
	if len(c.rows) == 0 && !strings.Contains("process", c.options.rows) {
		return fmt.Errorf("no row contains %q", c.options.rows)
	}
	for _, v := range c.variants {
		if c.limits[v.tier] != nil {
			continue
		}
		w, err := enginebench.Start(ctx, v.command(c.binary))
		if err != nil {
			return err
		}
		c.limits[v.tier] = w
		for _, t := range c.threads {
			c.machine[limitKey{t, v.tier}] = &limitTrack{}
		}
	}
	return nil
}

// findVariants asks a worker which tier it gets, with and without a mask.
func (c *comparison) findVariants(ctx context.Context) error {
	best, err := c.tier(ctx, variant{})
	if err != nil {
		return err
	}
	tiers := []variant{{tier: best}}
	wanted := c.tiers
	if wanted == nil && runtime.GOARCH == "amd64" {
		wanted = []string{"avx2"}
	}
	for _, t := range wanted {
		v := variant{tier: t, masked: true}
		got, err := c.tier(ctx, v)
		switch {
		case err != nil:
			return err
		case got == t && t != best:
			tiers = append(tiers, v)
		case got != t && c.tiers != nil:
			return fmt.Errorf("this machine has no tier %q, it answers with %q", t, got)
		}
	}
	if c.tiers != nil {
		tiers = slices.DeleteFunc(tiers, func(v variant) bool { return !slices.Contains(c.tiers, v.tier) })
	}
	for _, v := range tiers {
		for _, plan := range c.plans {
			c.variants = append(c.variants, variant{v.tier, plan, v.masked})
		}
	}
	return nil
}

func (c *comparison) tier(ctx context.Context, v variant) (string, error) {
	w, err := enginebench.Start(ctx, v.command(c.binary))
	if err != nil {
		return "", err
	}
	opened, err := w.Open(enginebench.Model{Path: c.model, Threads: 1, Context: 16})
	c.block = opened.Work.WeightBytes
	return opened.ISA, errors.Join(err, w.Close())
}

// run does the rounds.
func (c *comparison) run(ctx context.Context, started time.Time) error {
	workers, err := c.openWorkers(ctx)
	if err != nil {
		return err
	}
	var last time.Duration
	for i := range c.options.rounds {
		if i > 1 && time.Since(started)+last > c.limit { // the first round is longer than the rest
			fmt.Fprintf(os.Stderr, "stopping after %d rounds: the next would pass the limit of %v\n", i, c.limit)
			break
		}
		begin := time.Now()
		if err := c.round(ctx, i, workers); err != nil {
			return err
		}
		last = time.Since(begin)
		c.rounds++
		fmt.Fprintf(os.Stderr, "round %d of %d took %v\n", i+1, c.options.rounds, last.Round(time.Second))
	}
	return nil
}

type workerKey struct {
	threads int
	variant variant
}

func (c *comparison) openWorkers(ctx context.Context) (map[workerKey]ourWorker, error) {
	workers := map[workerKey]ourWorker{}
	if len(c.rows) == 0 {
		return workers, nil
	}
	for _, t := range c.threads {
		for _, v := range c.variants {
			w, err := enginebench.Start(ctx, v.command(c.binary))
			if err != nil {
				return nil, err
			}
			opened, err := w.Open(enginebench.Model{Path: c.model, Plan: v.plan, Threads: t, Context: 1024 + max(c.generate, 512), Packed: filepath.Join(c.cache, "packed")})
			if err != nil {
				return nil, err
			}
			if _, err := w.Prompt(64); err != nil {
				return nil, err
			}
			workers[workerKey{t, v}] = ourWorker{w, opened.Work}
		}
	}
	return workers, nil
}

// round measures every row once. Ours and theirs follow each other directly, and take turns in who is first.
func (c *comparison) round(ctx context.Context, n int, workers map[workerKey]ourWorker) error {
	if strings.Contains("process", c.options.rows) {
		if err := c.processRound(ctx, n); err != nil {
			return err
		}
	}
	for i := 0; i < len(c.rows); {
		end := i + 1 // rows of the same test on our side share its measurement
		for end < len(c.rows) && c.rows[end].test == c.rows[i].test && c.rows[end].threads == c.rows[i].threads {
			end++
		}
		group := []int{}
		for j := i; j < end; j++ {
			group = append(group, j)
		}
		half := (len(group) + n%2) / 2 // ours comes in the middle
		for _, j := range group[:half] {
			if err := c.peerRow(ctx, n, j); err != nil {
				return err
			}
		}
		if err := c.ourTest(c.rows[i], workers); err != nil {
			return err
		}
		for _, j := range group[half:] {
			if err := c.peerRow(ctx, n, j); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}

// hopeless is how long a run of the peer may take at most; other settings get a few times what the fastest took. On a machine whose
// processors are not its own, a build that spins at its barriers can take minutes.
const hopeless = time.Minute

func (c *comparison) peerRow(ctx context.Context, n, i int) error {
	r := c.rows[i]
	model, err := c.peer.form(ctx, c.model, r.form)
	if err != nil {
		return err
	}
	limit := hopeless
	for _, s := range c.settings[i] {
		o, err := c.peer.runWithin(ctx, limit, s, model, r.threads, r.test)
		if err != nil {
			return err
		}
		c.theirs[i][s] = append(c.theirs[i][s], o.rate)
		if o.rate > 0 {
			limit = min(limit, max(10*time.Second, 5*o.elapsed))
		}
	}
	if n == 0 {
		c.settings[i] = c.theirs[i].keep(c.settings[i])
	}
	return nil
}

func (c *comparison) ourTest(r row, workers map[workerKey]ourWorker) error {
	limits := map[string]enginebench.Limits{}
	for tier, w := range c.limits {
		l, err := w.Limits(r.threads, c.block)
		if err != nil {
			return err
		}
		m := c.machine[limitKey{r.threads, tier}]
		m.read, m.multiply, m.handOver = append(m.read, l.ReadGBs), append(m.multiply, l.MultiplyG), append(m.handOver, l.HandOver)
		limits[tier] = l
	}
	for _, v := range c.variants {
		w := workers[workerKey{r.threads, v}]
		rate, err := measure(w.Worker, r.test)
		if err != nil {
			return err
		}
		k := ourKey{r.threads, v, r.test}
		if c.ours[k] == nil {
			c.ours[k] = &ourTrack{}
		}
		t := c.ours[k]
		t.rates = append(t.rates, rate)
		if s := share(r.test, w.work, rate, limits[v.tier]); s > 0 {
			t.shares = append(t.shares, s)
		}
	}
	return nil
}

// share is the part of the limit of the moment that a rate is.
func share(t test, work enginebench.Work, rate float64, l enginebench.Limits) float64 {
	if t.prompt == 0 {
		return rate * float64(work.WeightBytes) / (l.ReadGBs * 1e9)
	}
	if l.MultiplyG == 0 {
		return 0
	}
	return rate * work.PromptMACs(t.prompt) / float64(t.prompt) / (l.MultiplyG * 1e9)
}

// measure returns the tokens per second of a test, over as many repetitions as the peer makes.
func measure(w *enginebench.Worker, t test) (float64, error) {
	var total time.Duration
	for range t.repeat() {
		var d time.Duration
		var err error
		if t.prompt > 0 {
			d, err = w.Prompt(t.prompt)
		} else {
			d, err = w.Generate(t.generate, t.depth)
		}
		if err != nil {
			return 0, err
		}
		total += d
	}
	return float64(t.tokens()*t.repeat()) / total.Seconds(), nil
}
