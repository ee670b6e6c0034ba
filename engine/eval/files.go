package eval

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/engine/native"
)

// seed draws the intervals of model files: the same figures whenever the same is measured.
const seed = 1

// Files says which model file to measure under which precision plan, against which baseline, and on which text.
type Files struct {
	Model, Plan                 string
	Calibration                 string // a text file by which int8 weights of Plan are rounded; "" for none
	BaselineModel, BaselinePlan string // BaselineModel "" is Model; BaselinePlan "" measures without a baseline
	Data                        Data
	Context, Stride             int // tokens, as in [Config]
	Limit                       int // tokens, or passages of [Files.Vectors]; 0: all
	Threads                     int // that compute; 0: all processors
	Version                     string
	Progress                    func(done, total int) // may be nil
}

// Predictions measures how the model predicts the text; see [Run]. A report that comes with an error has no figures.
func (f Files) Predictions(ctx context.Context) (Report, error) {
	start := time.Now()
	measured, model, err := f.runner(f.Model, f.Plan, f.Calibration)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = measured.Close() }()
	cfg := Config{Measured: Native(measured), Data: f.Data, Context: f.Context, Stride: f.Stride, Limit: f.Limit, Seed: seed, Progress: f.Progress}
	report := f.report(model, measured.ISA(), start)
	if f.BaselinePlan != "" {
		baseline, subject, err := f.runner(cmp.Or(f.BaselineModel, f.Model), f.BaselinePlan, "")
		if err != nil {
			return Report{}, fmt.Errorf("baseline: %w", err)
		}
		defer func() { _ = baseline.Close() }()
		cfg.Baseline, report.Baseline = Native(baseline), &subject
	}
	result, err := Run(ctx, cfg)
	report.Tokens, report.Context, report.Stride, report.Figures = result.Items, result.Context, result.Stride, result.Figures
	report.Seconds = time.Since(start).Seconds()
	return report, err
}

// Vectors compares the vectors of two encoders; see [Vectors]. It needs a baseline.
func (f Files) Vectors(ctx context.Context) (Report, error) {
	start := time.Now()
	measured, err := f.encoder(ctx, f.Model, f.Plan, f.Calibration)
	if err != nil {
		return Report{}, err
	}
	defer measured.close()
	baseline, err := f.encoder(ctx, cmp.Or(f.BaselineModel, f.Model), f.BaselinePlan, "")
	if err != nil {
		return Report{}, fmt.Errorf("baseline: %w", err)
	}
	defer baseline.close()
	report := f.report(measured.subject, kernel.Detect(slog.New(slog.DiscardHandler)).ISA(), start)
	report.Baseline = &baseline.subject
	result, err := Vectors(ctx, VectorConfig{Measured: measured.embed, Baseline: baseline.embed, Data: f.Data, Limit: f.Limit, Seed: seed, Progress: f.Progress})
	report.Texts, report.Skipped, report.Figures, report.Seconds = result.Items, result.Skipped, result.Figures, time.Since(start).Seconds()
	return report, err
}

func (f Files) runner(path, plan, calibration string) (*native.Runner, Subject, error) {
	r, err := native.OpenRunner(native.RunnerConfig{Path: path, Plan: plan, Threads: f.Threads, Context: f.Context, Calibration: calibration})
	if err != nil {
		return nil, Subject{}, err
	}
	return r, subject(path, plan, r.Info()), nil
}

// encoder is an engine of this process with one model, which makes vectors.
type encoder struct {
	engine  *native.Engine
	subject Subject
}

// encoderID is the name of its model.
const encoderID = engine.ModelID("model")

func (f Files) encoder(ctx context.Context, path, plan, calibration string) (*encoder, error) {
	e, err := native.New(native.Config{Threads: f.Threads, Models: []native.ModelConfig{
		{ID: encoderID, Path: path, Precision: plan, Calibration: calibration},
	}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	infos, err := e.Models(ctx)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return &encoder{e, subject(path, plan, infos[0])}, nil
}

func (e *encoder) close() { _ = e.engine.Close() }

func (e *encoder) embed(ctx context.Context, texts []string) ([][]float32, error) {
	p, err := e.engine.Prepare(ctx, &engine.EmbedRequest{Model: encoderID, Input: texts})
	if err != nil {
		return nil, err
	}
	out, err := e.engine.Embed(ctx, p)
	if err != nil {
		return nil, err
	}
	return out.Vectors, nil
}

func subject(path, plan string, info engine.Model) Subject {
	return Subject{File: filepath.Base(filepath.Clean(path)), Digest: info.Digest, Plan: plan, Precision: info.Precision, Template: info.Template}
}

func (f Files) report(model Subject, isa string, start time.Time) Report {
	return Report{
		Format: Format, Model: model, Engine: Engine{Version: f.Version, ISA: isa, Threads: cmp.Or(f.Threads, runtime.GOMAXPROCS(0))},
		Data: Source{Name: f.Data.Name, Digest: f.Data.Digest, Documents: len(f.Data.Documents)}, Seed: seed, Time: start.UTC().Truncate(time.Second),
	}
}
