package enginebench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Config says what to measure.
type Config struct {
	Worker   Command // starts a worker
	Path     string  // of a GGUF file or a model directory
	Plan     string  // precision plan; "" is the engine's own choice
	Threads  []int
	Prompts  []int // lengths of prompts
	Depths   []int // tokens before a generation
	Generate int   // tokens of a generation
	Rounds   int
	Scratch  string // where packed weights are kept during the measurement; "" means the system's directory for temporary files
}

const (
	mostThreads = 256
	mostTokens  = 1 << 20
	mostRounds  = 1000
	mostLoads   = 5
)

// Validate reports every fault of the configuration.
func (c Config) Validate() error {
	var errs []error
	within := func(name string, low, high int, values ...int) {
		for _, v := range values {
			if v < low || v > high {
				errs = append(errs, fmt.Errorf("%s is %d, allowed are %d to %d", name, v, low, high))
			}
		}
	}
	within("threads", 1, mostThreads, c.Threads...)
	within("prompt", 1, mostTokens, c.Prompts...)
	within("depth", 0, mostTokens, c.Depths...)
	within("gen", 0, mostTokens, c.Generate)
	within("rounds", 1, mostRounds, c.Rounds)
	if c.Path == "" {
		errs = append(errs, errors.New("no model file was named"))
	}
	if len(c.Threads) == 0 {
		errs = append(errs, errors.New("no number of threads was named"))
	}
	if len(c.Prompts) == 0 && !c.generates() {
		errs = append(errs, errors.New("there is neither a prompt nor a generation to measure"))
	}
	return errors.Join(errs...)
}

func (c Config) generates() bool { return c.Generate > 0 && len(c.Depths) > 0 }

// context is the length that sequences reach.
func (c Config) context() int {
	n := 1
	for _, p := range c.Prompts {
		n = max(n, p)
	}
	if c.generates() {
		n = max(n, slices.Max(c.Depths)+c.Generate)
	}
	return n
}

// Report is what [Run] found. Its JSON form is for programs.
type Report struct {
	Machine Machine     `json:"machine"`
	Model   string      `json:"model"` // name of the file
	Work    Work        `json:"work"`
	Plan    string      `json:"plan"`
	Rounds  int         `json:"rounds"`
	Runs    []ThreadRun `json:"runs"`
}

// ThreadRun is what one number of threads reached.
type ThreadRun struct {
	Threads    int          `json:"threads"`
	ISA        string       `json:"isa"`
	FirstLoad  float64      `json:"first_load_seconds"` // from opening the file over packing its weights to the first token
	Load       Spread       `json:"load_seconds"`       // the same with what the first load kept, each in a fresh process
	Memory     Memory       `json:"memory"`             // after the first round
	Limits     LimitSpreads `json:"limits"`
	Prompt     []Speed      `json:"prompt"`
	Generation []Speed      `json:"generation"`
}

// LimitSpreads are the limits over the rounds; one that could not be measured is absent.
type LimitSpreads struct {
	Read     Spread `json:"read_gb_per_second"`
	Multiply Spread `json:"int8_gmac_per_second,omitzero"`
	HandOver Spread `json:"hand_over_nanoseconds,omitzero"`
}

// Speed is one row: a prompt, or a generation at a depth.
type Speed struct {
	Tokens          int    `json:"tokens"`
	Depth           int    `json:"depth,omitempty"`
	TokensPerSecond Spread `json:"tokens_per_second"`
	// Share is the part of a limit of the same round that was reached: of the multiply rate by a prompt, of the read rate by a generation,
	// weights alone. It is absent when the limit is unknown.
	Share Spread `json:"share_of_limit,omitzero"`
}

// Run measures: for each number of threads some loads in processes of their own, then rounds in the last of these. Only one model is in
// memory at a time. Each round begins with the limits of the moment.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.Path); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx) // ends the workers whatever happens
	defer stop()
	limits, err := Start(ctx, c.Worker)
	if err != nil {
		return nil, err
	}
	defer func() { _ = limits.Close() }()
	packed, err := os.MkdirTemp(c.Scratch, "sluice-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(packed) }()
	r := &Report{Machine: ThisMachine(), Model: filepath.Base(c.Path), Plan: c.Plan, Rounds: c.Rounds}
	for i, t := range c.Threads {
		s := newSeries(c, t)
		s.model.Packed = filepath.Join(packed, strconv.Itoa(i)) // each begins with nothing
		if err := s.measure(ctx, limits); err != nil {
			return nil, err
		}
		r.Runs, r.Work = append(r.Runs, s.sum()), s.work
	}
	return r, nil
}

// series is the measurement with one number of threads.
type series struct {
	Config
	work                           Work
	model                          Model
	out                            ThreadRun
	load, read, multiply, handOver []float64
	prompts, generations           []points
}

// points are the rounds of one row.
type points struct {
	speed         Speed
	rates, shares []float64
}

func (p *points) add(rate, share float64) {
	p.rates = append(p.rates, rate)
	if share > 0 {
		p.shares = append(p.shares, share)
	}
}

func newSeries(c Config, threads int) *series {
	s := &series{Config: c, model: Model{Path: c.Path, Plan: c.Plan, Threads: threads, Context: c.context()}}
	s.out.Threads = threads
	for _, n := range c.Prompts {
		s.prompts = append(s.prompts, points{speed: Speed{Tokens: n}})
	}
	if c.generates() {
		for _, d := range c.Depths {
			s.generations = append(s.generations, points{speed: Speed{Tokens: c.Generate, Depth: d}})
		}
	}
	return s
}

func (s *series) measure(ctx context.Context, limits *Worker) error {
	w, err := s.loads(ctx)
	if err != nil {
		return err
	}
	if _, err := w.Prompt(min(s.context(), 32)); err != nil { // warms up
		return errors.Join(err, w.Close())
	}
	for i := range s.Rounds {
		if err := s.round(w, limits); err != nil {
			return errors.Join(err, w.Close())
		}
		if i == 0 {
			if s.out.Memory, err = w.Memory(); err != nil {
				return errors.Join(err, w.Close())
			}
		}
	}
	return w.Close()
}

// loads opens the model in one fresh process after another and returns the last.
func (s *series) loads(ctx context.Context) (*Worker, error) {
	for {
		w, err := Start(ctx, s.Worker)
		if err != nil {
			return nil, err
		}
		opened, err := w.Open(s.model)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		if s.out.ISA == "" {
			s.out.FirstLoad, s.out.ISA, s.work = opened.Seconds, opened.ISA, opened.Work
		} else if s.load = append(s.load, opened.Seconds); len(s.load) == min(s.Rounds, mostLoads) {
			return w, nil
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
	}
}

func (s *series) round(w, limits *Worker) error {
	l, err := limits.Limits(s.model.Threads, s.work.WeightBytes)
	if err != nil {
		return err
	}
	s.read, s.multiply, s.handOver = append(s.read, l.ReadGBs), append(s.multiply, l.MultiplyG), append(s.handOver, l.HandOver)
	for i := range s.prompts {
		p := &s.prompts[i]
		d, err := w.Prompt(p.speed.Tokens)
		if err != nil {
			return err
		}
		p.add(float64(p.speed.Tokens)/d.Seconds(), ratio(s.work.PromptMACs(p.speed.Tokens)/d.Seconds(), l.MultiplyG*1e9))
	}
	for i := range s.generations {
		g := &s.generations[i]
		d, err := w.Generate(g.speed.Tokens, g.speed.Depth)
		if err != nil {
			return err
		}
		rate := float64(g.speed.Tokens) / d.Seconds()
		g.add(rate, ratio(rate*float64(s.work.WeightBytes), l.ReadGBs*1e9))
	}
	return nil
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (s *series) sum() ThreadRun {
	s.out.Load = SpreadOf(s.load)
	s.out.Limits = LimitSpreads{Read: SpreadOf(s.read), Multiply: SpreadOf(s.multiply), HandOver: SpreadOf(s.handOver)}
	for _, p := range s.prompts {
		s.out.Prompt = append(s.out.Prompt, p.sum())
	}
	for _, g := range s.generations {
		s.out.Generation = append(s.out.Generation, g.sum())
	}
	return s.out
}

func (p points) sum() Speed {
	p.speed.TokensPerSecond, p.speed.Share = SpreadOf(p.rates), SpreadOf(p.shares)
	return p.speed
}
