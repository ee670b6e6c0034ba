package eval

import (
	"context"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/prune"
)

// importanceTokens bounds what [Importance] reads. The sums settle long before.
const importanceTokens = 4096

// Importance measures what the heads and channels of a model file do on a text, for pruning. threads 0 means all processors; progress may be nil.
func Importance(ctx context.Context, path string, threads int, text Data, progress func(done, total int)) (*prune.Importance, error) {
	files, err := arch.Open(path)
	if err != nil {
		return nil, err
	}
	seen := prune.NewImportance(files.Config.Layers)
	if err := files.Close(); err != nil {
		return nil, err
	}
	r, err := native.OpenRunner(native.RunnerConfig{Path: path, Plan: native.PlanF32, Threads: threads})
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	r.Observe(func(matrix string, input []float32) {
		layer, part, _ := strings.Cut(strings.TrimPrefix(matrix, "blk."), ".")
		n, err := strconv.Atoi(layer)
		switch {
		case err != nil:
		case part == "attn_output.weight":
			seen.Observe(n, input, nil)
		case part == "ffn_down.weight":
			seen.Observe(n, nil, input)
		}
	})
	return seen, Read(ctx, Native(r), text, importanceTokens, progress)
}

// PerplexityOf measures the perplexity of a model file, under the engine's own plan, on at most limit tokens of a text.
func PerplexityOf(ctx context.Context, path string, threads int, text Data, limit int, progress func(done, total int)) (float64, error) {
	r, err := native.OpenRunner(native.RunnerConfig{Path: path, Threads: threads})
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	result, err := Run(ctx, Config{Measured: Native(r), Data: text, Limit: limit, Seed: seed, Progress: progress})
	perplexity, _ := result.Get(Perplexity)
	return perplexity.Value, err
}
