// Command watermark measures the text watermark: how often it is found where it is not, how surely where it is, and what it changes in texts.
//
//	go run ./bench/watermark null -tokenizer MODEL.gguf -set en/human/peps=DIR -set zh/model/alpaca=DIR …
//	go run ./bench/watermark generate -model MODEL.gguf -out texts.jsonl
//	go run ./bench/watermark detect -model MODEL.gguf -texts texts.jsonl -human DIR
//	go run ./bench/watermark quality -judge MODEL.gguf -texts texts.jsonl
//
// Each prints tables in Markdown, and writes its figures as SVG where -figures names a folder. What is long can be interrupted: generate and
// quality go on where they were stopped. README.md of the folder above says what the texts were and what came out.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/governance/watermark"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "watermark:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say null, generate, detect or quality")
	}
	commands := map[string]func(context.Context, []string) error{"null": null, "generate": generate, "detect": detect, "quality": quality}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("%q is neither null, generate, detect nor quality", args[0])
	}
	if err := command(ctx, args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// key returns a key of the bench's own, which everybody who runs it has.
func key(tenant string, epoch int, p watermark.Params) (*watermark.Key, error) {
	secret := sha256.Sum256([]byte("the bench's watermark"))
	return watermark.NewKey(watermark.KeyConfig{Secret: secret[:], Tenant: tenant, Epoch: uint32(epoch), Params: p})
}

// openTokens reads the tokenizer of a model.
func openTokens(model string) (tokenizer.Tokenizer, error) {
	f, err := gguf.Open(model)
	if err != nil {
		return nil, err
	}
	v, err := tokenizer.FromMetadata(f.Value)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return tokenizer.New(v)
}

// numbers reads a list of numbers with commas between them.
func numbers(name, list string) ([]float64, error) {
	var out []float64
	for part := range strings.SplitSeq(list, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no number", name, part)
		}
		out = append(out, v)
	}
	return out, nil
}
