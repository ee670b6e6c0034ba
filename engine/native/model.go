package native

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native/exec"
)

// opener loads models.
type opener struct {
	cfg     Config
	kernels kernel.Kernels
	log     *slog.Logger
	metrics *metrics
	place   cpuSet
	budget  budget
}

// compiled is a model that is ready to run, and the files its tokenizer comes from.
type compiled struct {
	files *arch.Model
	prog  *exec.Program
	info  engine.Model
	took  time.Duration
}

// close gives back what a model has taken that is not used.
func (c *compiled) close() error { return errors.Join(c.files.Close(), c.prog.Close()) }

// open loads a model and says how it went.
func (o *opener) open(mc ModelConfig) (*compiled, error) {
	begin := time.Now()
	c, report, err := o.load(mc)
	if err != nil {
		return nil, err
	}
	c.took = time.Since(begin)
	if err := o.budget.take("model "+string(mc.ID), report.Bytes); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if err := o.place.fetch(c.prog.Mapped()); err != nil {
		o.log.Warn("the packed weights stay in the memory of the NUMA node that they are in", slog.String("model", string(mc.ID)), slog.Any("error", err))
	}
	o.metrics.compiled(mc.ID, report)
	if report.Cache == exec.CacheOff && o.cfg.CacheDir != "" {
		o.log.Warn("the packed weights cannot be kept, so that every start packs them again; look at engines.native.cache_dir and the space on its disk",
			slog.String("model", string(mc.ID)), slog.String("directory", o.cfg.CacheDir), slog.String("reason", report.Reason))
	}
	o.log.Info("model compiled", slog.String("model", string(mc.ID)), slog.String("plan", c.info.Precision), slog.String("isa", o.kernels.ISA()),
		slog.String("packed_weights", report.Cache), slog.String("reason", report.Reason), slog.Int("weight_bytes", report.Bytes),
		slog.Float64("seconds", c.took.Seconds()))
	return c, nil
}

// load reads a model and compiles it, or maps what was compiled before. The caller closes files when it has read the tokenizer.
func (o *opener) load(mc ModelConfig) (*compiled, exec.Report, error) {
	pl, err := parsePlan(mc.Precision)
	if err != nil {
		return nil, exec.Report{}, err
	}
	text, err := readCalibration(mc.Calibration)
	if err == nil && text != nil && !pl.calibrates() {
		err = pl.notCalibrated()
	}
	if err != nil {
		return nil, exec.Report{}, err
	}
	files, err := arch.Open(mc.Path)
	if err != nil {
		return nil, exec.Report{}, err
	}
	c, report, err := o.compile(files, pl.calibrated(text), o.options(text, mc.Path))
	if err != nil {
		return nil, report, errors.Join(err, files.Close())
	}
	c.info.ID = mc.ID
	return c, report, nil
}

func (o *opener) compile(files *arch.Model, pl plan, calibration *exec.Calibration) (*compiled, exec.Report, error) {
	digest := files.Digest()
	g := files.Graph
	passes, err := graph.Optimize(g, pl.policy)
	if err != nil {
		return nil, exec.Report{}, err
	}
	o.metrics.optimized(passes)
	context := files.Config.Context
	if o.cfg.ContextTokens > 0 {
		context = min(context, o.cfg.ContextTokens)
	}
	prog, report, err := exec.Compile(g, func(name string) (exec.Tensor, error) { return files.Tensor(name) }, exec.Options{
		Model: digest, Plan: pl.packed, KV8: pl.kv8, Context: context, ISA: o.kernels.ISA(), Threads: o.cfg.Threads, CacheDir: o.cfg.CacheDir,
		Calibration: calibration,
	})
	if err != nil {
		return nil, report, err
	}
	return &compiled{files: files, prog: prog, info: engine.Model{
		Digest: digest, Precision: pl.name, EngineVersion: strconv.Itoa(replayProfile), ContextTokens: context, Deterministic: true, Local: true,
	}}, report, nil
}

// CompileConfig says what to compile.
type CompileConfig struct {
	Path string
	Plan string // precision plan; "" is native
	// Calibration is a file of text for which weights of eight bits are rounded; "": none.
	Calibration string
	Threads     int    // 0 means all processors
	CacheDir    string // where the packed weights go
	Log         *slog.Logger
}

// CompileReport says what Compile made.
type CompileReport struct {
	Digest string
	Plan   string
	ISA    string
	Cache  string  // "hit", "built" or "rebuilt"
	Reason string  // why a file that was there could not be used
	Bytes  int     // of packed weights
	Tuning *Tuning // what was measured to be fastest, of a model that generates
	Took   time.Duration
}

// Compile packs the weights of a model ahead of time, so that its first load maps them.
func Compile(cfg CompileConfig) (CompileReport, error) {
	begin := time.Now()
	if cfg.CacheDir == "" {
		return CompileReport{}, errors.New("compile: there is no directory for packed weights")
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o := &opener{cfg: Config{Threads: cfg.Threads, CacheDir: cfg.CacheDir}.withDefaults(), kernels: kernel.Detect(log), log: log, metrics: newMetrics(nil)}
	c, report, err := o.load(ModelConfig{Path: cfg.Path, Precision: cfg.Plan, Calibration: cfg.Calibration})
	if err != nil {
		return CompileReport{}, fmt.Errorf("compile %s: %w", cfg.Path, err)
	}
	out := CompileReport{
		Digest: c.info.Digest, Plan: c.info.Precision, ISA: o.kernels.ISA(), Cache: report.Cache, Reason: report.Reason, Bytes: report.Bytes,
	}
	if err = c.files.Close(); err == nil && report.Cache != exec.CacheOff && !c.files.Config.Encoder() {
		out.Tuning, err = o.tune(c, report.Cache)
	}
	err = errors.Join(err, c.prog.Close())
	if err == nil && report.Cache == exec.CacheOff {
		err = fmt.Errorf("compile %s: the packed weights cannot be kept: %s", cfg.Path, report.Reason)
	}
	out.Took = time.Since(begin)
	return out, err
}
