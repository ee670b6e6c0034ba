// Command bench measures what Sluice adds to a request and how fast the native engine is, against limits measured in the same run.
//
// It starts two processes on loopback: a scripted OpenAI-compatible upstream that answers at once, and the built sluice binary with that
// upstream as its only engine. Rounds alternate between the upstream alone and the governed gateway (key, limits, policy and masking,
// budget, durable audit with fsync), so both see the same machine. What is reported is the difference.
//
//	go run ./bench            everything
//	go run ./bench -only gateway|engine
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "upstream" {
		exit(upstream(os.Stdout))
	}
	var (
		only   = flag.String("only", "", "gateway or engine")
		binary = flag.String("sluice", "bin/sluice", "the built binary")
		rounds = flag.Int("rounds", 5, "rounds, alternating")
		length = flag.Duration("length", 3*time.Second, "length of one measurement")
		model  = flag.String("model", defaultModel(), "GGUF file for the engine")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("machine: %s, %d CPUs, %s\n", cpuName(), runtime.NumCPU(), runtime.Version())
	if *only != "engine" {
		if err := benchGateway(ctx, *binary, *rounds, *length); err != nil {
			exit(fmt.Errorf("gateway: %w", err))
		}
	}
	if *only != "gateway" {
		if err := benchEngine(ctx, *model, *rounds); err != nil {
			exit(fmt.Errorf("engine: %w", err))
		}
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
