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
	"github.com/sluice-project/sluice/engine/native"
)

func defaultModel() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "sluice", "models", "smollm2-135m-instruct-q4_1.gguf")
}

// benchEngine prints the speed of the native engine beside a yardstick of the same moment: generation reads every weight once per
// token, as a plain loop over a block of the file's size does.
func benchEngine(ctx context.Context, path string, rounds int) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w (run `make pull` first)", err)
	}
	threads := runtime.NumCPU()
	e, err := native.New(native.Config{Models: []native.ModelConfig{{ID: "m", Kind: native.KindLlama, Path: path}}, Threads: threads, Concurrency: 8}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	var bandwidth, prompt128, prompt512, single, eight []float64
	for range rounds {
		bandwidth = append(bandwidth, readBandwidth(threads, info.Size()))
		for n, out := range map[int]*[]float64{128: &prompt128, 512: &prompt512} {
			u, err := generate(ctx, e, n, 1)
			if err != nil {
				return err
			}
			*out = append(*out, float64(u.PromptTokens)/u.Prefill.Seconds())
		}
		u, err := generate(ctx, e, 16, 128)
		if err != nil {
			return err
		}
		single = append(single, float64(u.CompletionTokens)/u.Decode.Seconds())
		rate, err := together(ctx, e, 8)
		if err != nil {
			return err
		}
		eight = append(eight, rate)
	}
	passes := median(bandwidth) * 1e9 / float64(info.Size())
	fmt.Printf("\nengine, %s, %d threads, medians of %d rounds (min…max), tokens/s\n", filepath.Base(path), threads, rounds)
	fmt.Printf("  prompt of 128      %s\n  prompt of 512      %s\n  generation of 128  %s\n  8 at once, 128 in + 64 out, generated in all  %s\n",
		spread(prompt128), spread(prompt512), spread(single), spread(eight))
	fmt.Printf("  a plain loop that only reads a block of the model's size, in the same rounds: %s GB/s, or %.0f times a second\n", spread(bandwidth), passes)
	return nil
}

func generate(ctx context.Context, e engine.Engine, promptTokens, completion int) (*engine.Usage, error) {
	req := &engine.Request{Model: "m", Prompt: strings.Repeat(" word", promptTokens), MaxTokens: completion, Temperature: 1, Logprobs: -1}
	for ev, err := range e.Generate(ctx, req) {
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

// readBandwidth returns GB/s of a plain loop that reads a block of the model's size over and over on all threads. Caches count, as they do
// for the model. It is no bound: vector loads with prefetching can be faster.
func readBandwidth(threads int, size int64) float64 {
	words := int(size / 8)
	data := make([]uint64, words)
	for i := range data {
		data[i] = uint64(i)
	}
	var wg sync.WaitGroup
	sums := make([]uint64, threads*8) // kept apart by a cache line, and used, so that the reads stay
	passes := 0
	started := time.Now()
	for ; time.Since(started) < 500*time.Millisecond; passes++ {
		for t := range threads {
			part := data[t*words/threads : (t+1)*words/threads]
			wg.Go(func() { sums[t*8] += sum(part) })
		}
		wg.Wait()
	}
	return float64(passes) * float64(words*8) / time.Since(started).Seconds() / 1e9
}

func sum(part []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(part) >= 8; part = part[8:] {
		p := (*[8]uint64)(part)
		a += p[0] + p[1]
		b += p[2] + p[3]
		c += p[4] + p[5]
		d += p[6] + p[7]
	}
	return a + b + c + d
}
