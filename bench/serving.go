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
	"syscall"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
)

// servingOptions of the comparison.
type servingOptions struct {
	binary, model, cache, out string
	threads                   int
	clients, prompts          []int
	rounds, requests, output  int
	openSlots                 int
	rate                      float64
	forms                     []string
	setting, rows, profile    string
	governed, noSpeculation   bool
	noTargets                 bool
	limit                     time.Duration
}

func parseServing(args []string) (servingOptions, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return servingOptions{}, err
	}
	o := servingOptions{}
	var clients, prompts, forms string
	f := flag.NewFlagSet("serving", flag.ContinueOnError)
	f.StringVar(&o.binary, "sluice", "bin/sluice", "the built binary")
	f.StringVar(&o.model, "model", defaultModel(), "GGUF file that both serve")
	f.StringVar(&o.cache, "cache", filepath.Join(cache, "sluice", "bench-engine"), "where the peer is built and results are kept")
	f.StringVar(&o.out, "out", "", "base name of the result files; without it results/serving-<time> in the cache")
	f.IntVar(&o.threads, "threads", runtime.NumCPU(), "threads that compute, on both sides")
	f.StringVar(&clients, "clients", "1,4,8,16", "numbers of clients, and of the peer's slots")
	f.StringVar(&prompts, "prompt", "128,512", "tokens of a prompt")
	f.IntVar(&o.rounds, "rounds", 3, "rounds, alternating")
	f.IntVar(&o.requests, "requests", 2, "requests of each client in a round; six in all at least")
	f.IntVar(&o.output, "output", 64, "tokens of an answer")
	f.IntVar(&o.openSlots, "open", 8, "slots of the open loop; 0 leaves it out")
	f.Float64Var(&o.rate, "rate", 0, "requests per second of the open loop; 0: three quarters of what the slowest side answers in a closed one")
	f.StringVar(&forms, "forms", ",Q4_0", "forms of the model that the peer serves; the empty one is the file itself")
	f.StringVar(&o.setting, "setting", "", "of the peer, such as 'native'; without it the fastest is found first")
	f.StringVar(&o.rows, "rows", "", "only rows whose name contains this, such as 'shared'; 'mixed' and 'fairness' are rows, too")
	f.StringVar(&o.profile, "profile", "", "directory for CPU profiles of our server, one per row and round")
	f.BoolVar(&o.governed, "governed", false, "measure the whole product as well: keys, policy, masking, budget, durable audit")
	f.BoolVar(&o.noSpeculation, "no-speculation", false, "our engine guesses no tokens")
	f.BoolVar(&o.noTargets, "no-targets", false, "our engine has no latency targets: it computes all clients at once")
	f.DurationVar(&o.limit, "limit", time.Hour, "begin no round that would end later than this")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.clients, err = numbers("-clients", clients); err != nil {
		return o, err
	}
	if o.prompts, err = numbers("-prompt", prompts); err != nil {
		return o, err
	}
	o.forms = strings.Split(forms, ",")
	if forms == "none" {
		o.forms = nil
	}
	if o.rounds < 1 || o.requests < 1 || o.output < 2 || o.threads < 1 || o.rate < 0 {
		return o, errors.New("-rounds, -requests and -threads begin at 1, -output at 2, -rate at 0")
	}
	return o, nil
}

func numbers(name, list string) ([]int, error) {
	var out []int
	for _, v := range strings.Split(list, ",") {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s %q is not a list of numbers", name, list)
		}
		out = append(out, n)
	}
	return out, nil
}

// side is one of those that are compared.
type side struct {
	name string
	form string // of the model that the peer serves
	peer bool
	full bool // the whole product
}

// servingRun is a comparison under way.
type servingRun struct {
	servingOptions

	peer     *peer
	prompts  *prompts
	limits   *enginebench.Worker
	block    int64
	isa      string
	plan     []servingRow
	sides    []side
	settings map[settingKey]peerSetting
	results  map[resultKey][]figures
	rates    map[servingRow]float64 // of open loops
	machine  limitTrack
	mixed    mixedTrack
	fair     fairTrack
	rounds   int // completed
}

type settingKey struct {
	form  string
	slots int
}

type resultKey struct {
	row  int
	side int
}

// serving runs the whole comparison.
func serving(ctx context.Context, args []string) error {
	o, err := parseServing(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.model); err != nil {
		return fmt.Errorf("%w (run `make pull` first)", err)
	}
	ctx, stop := context.WithCancel(ctx) // ends the servers
	defer stop()
	c := &servingRun{servingOptions: o, settings: map[settingKey]peerSetting{}, results: map[resultKey][]figures{}, rates: map[servingRow]float64{}}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	started := time.Now()
	if err := c.findSettings(ctx); err != nil {
		return err
	}
	if err := c.run(ctx, started); err != nil {
		return err
	}
	return c.write(started)
}

// prepare builds what is missing and lays out rows and sides.
func (c *servingRun) prepare(ctx context.Context) error {
	for _, r := range planServing(c.clients, c.servingOptions.prompts, c.openSlots) {
		if strings.Contains(r.name(), c.servingOptions.rows) {
			c.plan = append(c.plan, r)
		}
	}
	c.sides = []side{{name: "Sluice"}}
	if c.governed {
		c.sides = append(c.sides, side{name: "Sluice, governed", full: true})
	}
	for _, form := range c.forms {
		name := "llama.cpp, the same file"
		if form != "" {
			name = "llama.cpp, its " + form + " form"
		}
		c.sides = append(c.sides, side{name: name, form: form, peer: true})
	}
	var err error
	if len(c.forms) > 0 {
		if c.peer, err = preparePeer(ctx, c.cache); err != nil {
			return err
		}
		if err := c.peer.makeServer(ctx); err != nil {
			return fmt.Errorf("build the peer's server: %w", err)
		}
	}
	for _, form := range c.forms {
		if _, err := c.peer.form(ctx, c.model, form); err != nil {
			return err
		}
	}
	if c.prompts, err = openPrompts(c.model); err != nil {
		return err
	}
	if c.limits, err = enginebench.Start(ctx, workerCommand(c.binary)); err != nil {
		return err
	}
	w, err := enginebench.Start(ctx, workerCommand(c.binary))
	if err != nil {
		return err
	}
	opened, err := w.Open(enginebench.Model{Path: c.model, Threads: 1, Context: 16, Packed: c.packed()})
	c.block, c.isa = opened.Work.WeightBytes, opened.ISA
	return errors.Join(err, w.Close())
}

func (c *servingRun) packed() string { return filepath.Join(c.cache, "packed") }

// findSettings has the peer try its builds and ways to keep keys and values with a short load, for each form and number of slots.
func (c *servingRun) findSettings(ctx context.Context) error {
	for _, s := range c.sides {
		for _, r := range c.plan {
			k := settingKey{s.form, r.clients}
			if _, known := c.settings[k]; known || !s.peer {
				continue
			}
			best, err := c.fastest(ctx, s, r)
			if err != nil {
				return err
			}
			c.settings[k] = best
		}
	}
	return nil
}

func (c *servingRun) fastest(ctx context.Context, s side, r servingRow) (peerSetting, error) {
	var best peerSetting
	top := -1.0
	for build := range c.peer.builds {
		for _, unified := range []bool{false, true} {
			setting := peerSetting{build, unified}
			if c.setting != "" && c.peer.serverName(setting) != c.setting || unified && r.clients == 1 {
				continue
			}
			c.settings[settingKey{s.form, r.clients}] = setting
			server, err := c.start(ctx, s, r, "")
			if err != nil {
				return best, err
			}
			asks, err := c.prompts.asks(r.clients, r.prompt, max(2, c.output/2), false, 99)
			if err == nil {
				var got seen
				limited, cancel := context.WithTimeout(ctx, hopeless)
				got, err = closed(limited, &server.endpoint, r.clients, asks)
				cancel()
				if limited.Err() != nil && ctx.Err() == nil { // a build that spins at its barriers
					got, err = seen{took: hopeless}, nil
				}
				if f := got.figures(0); err == nil && f.rate > top {
					best, top = setting, f.rate
				}
			}
			server.stop()
			if err != nil {
				return best, err
			}
		}
	}
	if top < 0 {
		return best, fmt.Errorf("the peer has no setting %q", c.setting)
	}
	fmt.Fprintf(os.Stderr, "%s, %d slots: fastest is %s\n", s.name, r.clients, c.peer.serverName(best))
	return best, nil
}

// start starts the server of a side for a row.
func (c *servingRun) start(ctx context.Context, s side, r servingRow, profile string) (*running, error) {
	own := openConfig{
		Model: c.model, Threads: c.threads, Slots: r.clients, Packed: c.packed(), NoSpeculation: c.noSpeculation, NoTargets: c.noTargets,
		Profile: profile,
	}
	switch {
	case s.peer:
		model, err := c.peer.form(ctx, c.model, s.form)
		if err != nil {
			return nil, err
		}
		return c.peer.startServer(ctx, c.settings[settingKey{s.form, r.clients}], model, c.threads, r.clients, r.perSlot(c.output))
	case s.full:
		return startGoverned(ctx, c.binary, own)
	}
	return startOpen(ctx, own)
}

// run does the rounds.
func (c *servingRun) run(ctx context.Context, started time.Time) error {
	var last time.Duration
	for n := range c.servingOptions.rounds {
		if n > 0 && time.Since(started)+last > c.limit {
			fmt.Fprintf(os.Stderr, "stopping after %d rounds: the next would pass the limit of %v\n", n, c.limit)
			break
		}
		begin := time.Now()
		for i := range c.plan {
			if err := c.row(ctx, n, i); err != nil {
				return err
			}
		}
		if err := c.special(ctx, n); err != nil {
			return err
		}
		last = time.Since(begin)
		c.rounds++
		fmt.Fprintf(os.Stderr, "round %d of %d took %v\n", n+1, c.servingOptions.rounds, last.Round(time.Second))
	}
	return nil
}

// row measures all sides of a row, one right after the other; who is first changes from round to round.
func (c *servingRun) row(ctx context.Context, n, i int) error {
	if err := c.measureLimits(); err != nil {
		return err
	}
	r := c.plan[i]
	if r.open && c.rates[r] == 0 {
		if err := c.findRate(i); err != nil {
			return err
		}
	}
	for turn := range c.sides {
		j := (turn + n + i) % len(c.sides)
		f, err := c.measure(ctx, n, r, c.sides[j])
		if err != nil {
			return fmt.Errorf("%s, %s: %w", r.name(), c.sides[j].name, err)
		}
		c.results[resultKey{i, j}] = append(c.results[resultKey{i, j}], f)
		fmt.Fprintf(os.Stderr, "%s, %s: %.0f tokens/s, first token %.0f/%.0f ms, gap %.1f/%.1f ms\n", r.name(), c.sides[j].name, f.rate, f.first50, f.first99, f.gap50, f.gap99)
	}
	return nil
}

func (c *servingRun) measureLimits() error {
	l, err := c.limits.Limits(c.threads, c.block)
	if err != nil {
		return err
	}
	m := &c.machine
	m.read, m.multiply, m.handOver = append(m.read, l.ReadGBs), append(m.multiply, l.MultiplyG), append(m.handOver, l.HandOver)
	return nil
}

// findRate is at what rate requests of an open loop come: one that every side can answer.
func (c *servingRun) findRate(i int) error {
	r := c.plan[i]
	rate := c.rate
	if rate == 0 {
		twin := slices.Index(c.plan, servingRow{r.clients, r.prompt, false, false})
		if twin < 0 {
			return errors.New("the rate of the open loop comes from the closed one, which -rows leaves out; say it with -rate")
		}
		for j := range c.sides {
			if v := spreadOf(c.results[resultKey{twin, j}], func(f figures) float64 { return f.perSecond }).Median; rate == 0 || v < rate {
				rate = v
			}
		}
		rate *= 0.75
	}
	c.rates[r] = rate
	return nil
}

// measure starts a server, warms it up with other texts, and puts the load of the row on it.
func (c *servingRun) measure(ctx context.Context, n int, r servingRow, s side) (figures, error) {
	profile := ""
	if c.profile != "" && !s.peer {
		profile = filepath.Join(c.profile, strings.NewReplacer(" ", "-", ",", "").Replace(fmt.Sprintf("%s-%d.pprof", r.name(), n)))
	}
	server, err := c.start(ctx, s, r, profile)
	if err != nil {
		return figures{}, err
	}
	defer server.stop()
	warm, err := c.prompts.asks(r.clients, r.prompt, max(2, c.output/4), false, 7)
	if err != nil {
		return figures{}, err
	}
	if _, err := closed(ctx, &server.endpoint, r.clients, warm); err != nil {
		return figures{}, err
	}
	seed := uint64(1000 + n)
	asks, err := c.prompts.asks(max(6, r.clients*c.requests), r.prompt, c.output, r.shared, seed)
	if err != nil {
		return figures{}, err
	}
	before := ownTime()
	var got seen
	if r.open {
		got, err = open(ctx, &server.endpoint, arrivals(len(asks), c.rates[r], seed), asks)
	} else {
		got, err = closed(ctx, &server.endpoint, r.clients, asks)
	}
	return got.figures(ownTime() - before), err
}

// ownTime is the processor time of this process, which is the load generator.
func ownTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
