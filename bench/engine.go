package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/native"
)

func defaultModel() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "sluice", "models", "smollm2-135m-instruct-q4_1.gguf")
}

// workerCommand starts a measuring process of the built program; set adds to its environment.
func workerCommand(binary string, set ...string) enginebench.Command {
	return enginebench.Command{Args: []string{binary, "bench", "worker"}, Env: append(os.Environ(), set...)}
}

// benchEngine prints what `sluice bench engine` prints, and how requests fare that run together.
func benchEngine(ctx context.Context, binary, path string, rounds int) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%w (run `make pull` first)", err)
	}
	threads := runtime.NumCPU()
	r, err := enginebench.Run(ctx, enginebench.Config{
		Worker: workerCommand(binary), Path: path, Threads: []int{threads}, Prompts: []int{128, 512}, Depths: []int{0, 1024}, Generate: 128,
		Rounds: rounds,
	})
	if err != nil {
		return err
	}
	fmt.Println("\nengine")
	if err := r.Print(os.Stdout); err != nil {
		return err
	}
	e, err := native.New(native.Config{Models: []native.ModelConfig{{ID: "m", Path: path}}, Threads: threads, Concurrency: 8}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	var eight []float64
	for range rounds {
		rate, err := together(ctx, e, 8)
		if err != nil {
			return err
		}
		eight = append(eight, rate)
	}
	fmt.Printf("\n8 requests at once, 128 tokens in and 64 out, generated in all: %v tokens/s, prompts included in the time\n", enginebench.SpreadOf(eight))
	return nil
}

func generate(ctx context.Context, e engine.Engine, promptTokens, completion int) (*engine.Usage, error) {
	req := &engine.Request{Model: "m", Prompt: strings.Repeat(" word", promptTokens), MaxTokens: completion, Temperature: 1, Logprobs: -1}
	for ev, err := range enginetest.Ask(ctx, e, req) {
		if err != nil {
			return nil, err
		}
		if ev.Usage != nil {
			return ev.Usage, nil
		}
	}
	return nil, fmt.Errorf("no usage came")
}

// together returns the tokens per second of clients generating at the same time.
func together(ctx context.Context, e engine.Engine, clients int) (float64, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
		first error
	)
	started := time.Now()
	for range clients {
		wg.Go(func() {
			u, err := generate(ctx, e, 128, 64)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				first = err
				return
			}
			total += u.CompletionTokens
		})
	}
	wg.Wait()
	return float64(total) / time.Since(started).Seconds(), first
}
