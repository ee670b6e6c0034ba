package main

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/governance/watermark"
)

// prompts are questions for models that answer (LANGUAGE.txt), and openings for models that go on (LANGUAGE-raw.txt), one a line.
//
//go:embed prompts
var prompts embed.FS

// A sample is a text that a model wrote, and how.
type sample struct {
	Model       string  `json:"model"`
	Scheme      string  `json:"scheme"` // "none": without a mark
	SubKeys     int     `json:"sub_keys"`
	Temperature float64 `json:"temperature"`
	Language    string  `json:"language"`
	Free        bool    `json:"free"` // it ends where the model ends it; otherwise after so many tokens and not before
	Index       int     `json:"index"`

	Prompt string `json:"prompt"`
	Text   string `json:"text"`
	Tokens int    `json:"tokens"`
	Marked int    `json:"marked"`
	Finish string `json:"finish"`
}

const unmarked = "none"

// name tells a sample from others of the same file.
func (s *sample) name() string {
	return fmt.Sprint(s.Model, " ", s.Scheme, " ", s.SubKeys, " ", s.Temperature, " ", s.Language, " ", s.Free, " ", s.Index)
}

type generateOptions struct {
	model, out, schemes, temperatures string
	language                          string
	texts, first, tokens, subKeys     int
	threads, together                 int
	free, raw                         bool
}

// generate has a model write texts and appends them to a file, but for those that are in it.
func generate(ctx context.Context, args []string) error {
	var o generateOptions
	set := flag.NewFlagSet("generate", flag.ContinueOnError)
	set.StringVar(&o.model, "model", "", "GGUF file")
	set.StringVar(&o.out, "out", "texts.jsonl", "file that texts are appended to")
	set.StringVar(&o.schemes, "schemes", "gumbel,kgw", "gumbel, kgw, none")
	set.StringVar(&o.temperatures, "temperatures", "0.5,0.7,1,1.2", "")
	set.StringVar(&o.language, "language", "en", "of the prompts: en or zh")
	set.IntVar(&o.first, "first", 0, "number of the first text")
	set.IntVar(&o.texts, "texts", 32, "number of texts of each scheme and temperature")
	set.IntVar(&o.tokens, "tokens", 800, "tokens of a text")
	set.BoolVar(&o.free, "free", false, "let the model end its texts before")
	set.BoolVar(&o.raw, "raw", false, "the model goes on with openings and answers no questions")
	set.IntVar(&o.subKeys, "sub-keys", 0, "sub-keys; 0: the default")
	set.IntVar(&o.threads, "threads", 0, "0: all processors")
	set.IntVar(&o.together, "together", 16, "texts at a time")
	if err := set.Parse(args); err != nil {
		return err
	}
	o.subKeys = cmp.Or(o.subKeys, watermark.Params{}.WithDefaults().SubKeys)
	temperatures, err := numbers("-temperatures", o.temperatures)
	if err != nil {
		return err
	}
	asked, err := o.plan(temperatures)
	if err != nil {
		return err
	}
	e, err := native.New(native.Config{
		Models: []native.ModelConfig{{ID: "m", Path: o.model}}, Threads: o.threads, Concurrency: o.together, ContextTokens: 2048,
		Latency: native.Latency{Interactive: time.Minute, Standard: time.Minute, Batch: time.Minute}, // as many at a time as there are
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return fmt.Errorf("open the model: %w", err)
	}
	return errors.Join(o.write(ctx, e, asked), e.Close())
}

// plan lists the samples that the file lacks: all schemes and temperatures of a number before the next number, so that what there is so far is even.
func (o *generateOptions) plan(temperatures []float64) ([]*sample, error) {
	file := o.language + ".txt"
	if o.raw {
		file = o.language + "-raw.txt"
	}
	text, err := prompts.ReadFile("prompts/" + file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	have, err := readSamples(o.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	done := map[string]bool{}
	for i := range have {
		done[have[i].name()] = true
	}
	var out []*sample
	for i := o.first; i < o.first+o.texts; i++ {
		for scheme := range strings.SplitSeq(o.schemes, ",") {
			for _, t := range temperatures {
				s := &sample{
					Model: filepath.Base(o.model), Scheme: scheme, SubKeys: o.subKeys, Temperature: t, Language: o.language, Free: o.free, Index: i,
					Prompt: strings.ReplaceAll(lines[i%len(lines)], `\n`, "\n"),
				}
				if !done[s.name()] {
					out = append(out, s)
				}
			}
		}
	}
	return out, nil
}

// write has the samples written, some at a time.
func (o *generateOptions) write(ctx context.Context, e engine.Engine, asked []*sample) error {
	f, err := os.OpenFile(o.out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var mu sync.Mutex
	begun, tokens := time.Now(), 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.together)
	for n, s := range asked {
		g.Go(func() error {
			if err := o.ask(ctx, e, s); err != nil {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
			line, err := json.Marshal(s)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			tokens += s.Tokens
			fmt.Fprintf(os.Stderr, "%d of %d, %.0f tokens/s\n", n+1, len(asked), float64(tokens)/time.Since(begun).Seconds())
			_, err = f.Write(append(line, '\n'))
			return err
		})
	}
	return g.Wait()
}

// ask fills a sample.
func (o *generateOptions) ask(ctx context.Context, e engine.Engine, s *sample) error {
	seed := uint64(s.Index)
	req := &engine.Request{Model: "m", Temperature: s.Temperature, Seed: &seed, MaxTokens: o.tokens, Logprobs: -1, NonStreaming: true}
	if !s.Free {
		req.MinTokens = o.tokens
	}
	if req.Prompt = s.Prompt; !o.raw {
		req.Prompt, req.Messages = "", []engine.Message{{Role: "user", Content: s.Prompt}}
	}
	if s.Scheme != unmarked {
		k, err := key("a", 1, watermark.Params{Scheme: watermark.Scheme(s.Scheme), SubKeys: s.SubKeys})
		if err != nil {
			return err
		}
		req.Watermark = &engine.Watermark{
			Scheme: s.Scheme, Key: k.ID(), Epoch: k.Epoch(), Greedy: k.Greedy(),
			Begin: func(seed uint64, choice int) engine.Marker { return k.Begin(seed, choice).Mark },
		}
	}
	var text strings.Builder
	for ev, err := range enginetest.Ask(ctx, e, req) {
		if err != nil {
			return err
		}
		text.WriteString(ev.Text)
		if ev.Finish != "" {
			s.Finish = string(ev.Finish)
		}
		if ev.Usage != nil {
			s.Tokens = ev.Usage.CompletionTokens
		}
		if ev.Marking != nil {
			s.Marked = ev.Marking.Tokens
		}
	}
	s.Text = text.String()
	return nil
}

// readSamples reads a file of samples.
func readSamples(name string) ([]sample, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var out []sample
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, s)
	}
	return out, lines.Err()
}
