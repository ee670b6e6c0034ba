package enginebench

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// TestMain lets the test binary be a worker.
func TestMain(m *testing.M) {
	switch os.Getenv("ENGINEBENCH_TEST") {
	case "worker":
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "crash": // reads one question and dies
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(7)
	}
	os.Exit(m.Run())
}

func command(t *testing.T, role string) Command {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Args: []string{exe}, Env: append(os.Environ(), "ENGINEBENCH_TEST="+role)}
}

const (
	dim, hidden, vocab, layers = 64, 128, 260, 2
	heads, kvHeads             = 4, 2
	contextTokens              = 96
)

// tinyModel writes a model of random weights; with a head of its own unless tied.
func tinyModel(t *testing.T, tied bool) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	var tokens []string
	next := rune(256)
	for b := range 256 { // the byte alphabet of GPT-2
		r := rune(b)
		if b < '!' || (b > '~' && b < 0xA1) || b == 0xAD {
			r = next
			next++
		}
		tokens = append(tokens, string(r))
	}
	tokens = append(tokens, "he", "<|im_start|>", "<|im_end|>", "<|pad|>")
	types := make([]int32, vocab)
	for i := range types {
		types[i] = 1
		if i >= 257 {
			types[i] = 3
		}
	}
	meta := []testmodel.Pair{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(layers)},
		{Key: "llama.context_length", Value: uint32(contextTokens)},
		{Key: "llama.embedding_length", Value: uint32(dim)},
		{Key: "llama.feed_forward_length", Value: uint32(hidden)},
		{Key: "llama.attention.head_count", Value: uint32(heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(kvHeads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "smollm"},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(257)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(258)},
		{Key: "tokenizer.ggml.merges", Value: []string{"h e"}},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
	}
	var tensors []testmodel.Tensor
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]byte, 0, 4*n)
		for range n {
			v := math.Float32bits(float32(random.NormFloat64() / 8))
			data = append(data, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		tensors = append(tensors, testmodel.Tensor{Name: name, Shape: shape, Data: data})
	}
	add("token_embd.weight", dim, vocab)
	if !tied {
		add("output.weight", dim, vocab)
	}
	add("output_norm.weight", dim)
	for i := range layers {
		p := fmt.Sprintf("blk.%d.", i)
		add(p+"attn_norm.weight", dim)
		add(p+"ffn_norm.weight", dim)
		add(p+"attn_q.weight", dim, dim)
		add(p+"attn_k.weight", dim, dim*kvHeads/heads)
		add(p+"attn_v.weight", dim, dim*kvHeads/heads)
		add(p+"attn_output.weight", dim, dim)
		add(p+"ffn_gate.weight", dim, hidden)
		add(p+"ffn_up.weight", dim, hidden)
		add(p+"ffn_down.weight", hidden, dim)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, testmodel.GGUF(meta, tensors), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWork: every matrix counts once; a table that is also the head is read for the scores.
func TestWork(t *testing.T) {
	t.Parallel()
	macs := int64(layers*(2*dim*dim+dim*dim*2*kvHeads/heads+3*dim*hidden) + dim*vocab)
	for _, tied := range []bool{true, false} {
		if w := open(t, tinyModel(t, tied)); w.TokenMACs+w.LastMACs != macs || w.LastMACs < dim*vocab || w.WeightBytes < 4*macs || w.WeightBytes > 5*macs {
			t.Errorf("tied %v: %+v; want %d multiply-accumulates in float32", tied, w, macs)
		}
	}
}

// TestWorkOfTheDefaultModel: the figures that the documentation names, with scales that may be packed wider than in the file.
func TestWorkOfTheDefaultModel(t *testing.T) {
	t.Parallel()
	w := open(t, testmodel.Path(t, testmodel.SmolLM2))
	if w.TokenMACs+w.LastMACs != 106_168_320+49152*576 || w.WeightBytes < 96_300_000 || w.WeightBytes > 120_000_000 {
		t.Errorf("%+v", w)
	}
}

func open(t *testing.T, path string) Work {
	t.Helper()
	s := server{}
	t.Cleanup(s.close)
	o, err := s.open(Model{Path: path, Threads: 1, Context: 16})
	if err != nil {
		t.Fatal(err)
	}
	return o.Work
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := Config{
		Worker: command(t, "worker"), Path: tinyModel(t, true), Threads: []int{1, 2}, Prompts: []int{5, 40}, Depths: []int{0, 30},
		Generate: 4, Rounds: 3, Scratch: t.TempDir(),
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != "tiny.gguf" || r.Work.WeightBytes == 0 || r.Rounds != 3 || r.Machine.Processors == 0 || len(r.Runs) != 2 {
		t.Fatalf("%+v", r)
	}
	sane := func(what string, s Spread) {
		t.Helper()
		if !(s.Min > 0 && s.Min <= s.Median && s.Median <= s.Max && !math.IsInf(s.Max, 0)) {
			t.Errorf("%s: %+v", what, s)
		}
	}
	for i, run := range r.Runs {
		if run.Threads != i+1 || run.ISA == "" || len(run.Prompt) != 2 || len(run.Generation) != 2 {
			t.Fatalf("%+v", run)
		}
		sane("load", run.Load)
		sane("first load", Spread{run.FirstLoad, run.FirstLoad, run.FirstLoad})
		sane("reading", run.Limits.Read)
		for _, s := range append(run.Prompt, run.Generation...) {
			sane("speed", s.TokensPerSecond)
		}
		sane("share of generation", run.Generation[0].Share)
		if m := run.Memory; m.Peak < m.Anonymous || m.Anonymous <= 0 || m.Peak > 4<<30 {
			t.Errorf("memory %+v", m)
		}
	}
	if left, err := os.ReadDir(c.Scratch); err != nil || len(left) > 0 {
		t.Errorf("packed weights were left behind: %v, %v", left, err)
	}
	if g := r.Runs[0].Generation[1]; g.Depth != 30 || g.Tokens != 4 {
		t.Errorf("%+v", g)
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tiny.gguf", "prompt of 40", "generation of 4 behind 30", "median (least…most)", "MiB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(raw, &again); err != nil || again.Runs[1].Generation[1].TokensPerSecond != r.Runs[1].Generation[1].TokensPerSecond {
		t.Errorf("JSON does not survive: %v", err)
	}
}

func TestRunRefusesWhatItCannotMeasure(t *testing.T) {
	t.Parallel()
	good := Config{Worker: command(t, "worker"), Path: tinyModel(t, true), Threads: []int{1}, Prompts: []int{5}, Rounds: 1}
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"no rounds":        {func(c *Config) { c.Rounds = 0 }, []string{"rounds is 0", "1 to 1000"}},
		"two faults":       {func(c *Config) { c.Threads, c.Prompts = []int{0}, []int{-1} }, []string{"threads is 0", "prompt is -1"}},
		"no threads":       {func(c *Config) { c.Threads = nil }, []string{"no number of threads"}},
		"nothing":          {func(c *Config) { c.Prompts = nil }, []string{"neither a prompt nor a generation"}},
		"no file":          {func(c *Config) { c.Path += "x" }, []string{"no such file"}},
		"not a model":      {func(c *Config) { c.Path = c.Worker.Args[0] }, []string{"not a usable GGUF file"}},
		"past the context": {func(c *Config) { c.Prompts = []int{contextTokens + 1} }, []string{"97", "96"}},
		"unknown plan":     {func(c *Config) { c.Plan = "q1" }, []string{"q1"}},
		"no such program":  {func(c *Config) { c.Worker.Args = []string{"/nonexistent/sluice"} }, []string{"start the measuring process"}},
		"a worker that dies": {
			func(c *Config) { c.Worker = command(t, "crash") }, []string{"went away", "exit status 7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			c.change(&cfg)
			_, err := Run(t.Context(), cfg)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
}

// TestCancelEndsTheWorkers: nothing is left behind.
func TestCancelEndsTheWorkers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := Start(ctx, command(t, "worker"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Memory(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.cmd.Wait(); err == nil { // its input stays open: only being ended ends it
		t.Error("the worker ended by itself")
	}
}

func TestServeAnswersNonsense(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"do":"dance"}`:                            "before a model was opened",
		`{"do":"prompt","tokens":3}`:                "before a model was opened",
		`{"do":"open","model":{"path":"/nowhere"}}`: "/nowhere",
	} {
		var out strings.Builder
		if err := Serve(strings.NewReader(in), &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %s", in, err, &out)
		}
	}
	if err := Serve(strings.NewReader("not json"), &strings.Builder{}); err == nil {
		t.Error("garbage was taken for the end")
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []float64
		want Spread
		text string
	}{
		{nil, Spread{}, "0.000 (0.000…0.000)"},
		{[]float64{3}, Spread{3, 3, 3}, "3.00 (3.00…3.00)"},
		{[]float64{5, 1, 30}, Spread{5, 1, 30}, "5.00 (1.00…30.00)"},
		{[]float64{400, 100, 300, 200}, Spread{250, 100, 400}, "250 (100…400)"},
	} {
		if got := SpreadOf(c.in); got != c.want || got.String() != c.text {
			t.Errorf("%v: %+v %s", c.in, got, got)
		}
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "status")
	for text, want := range map[string]Memory{
		"Name:\tx\nVmHWM:\t  10 kB\nRssAnon:\t 3 kB\nRssFile:\t 4 kB\n": {10 << 10, 3 << 10, 4 << 10},
		"VmHWM:\t  10 kB\n": {},
		"VmHWM:\tmuch\nRssAnon:\t 3 kB\nRssFile:\t 4 kB\n": {},
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := memory(file); got != want || (err == nil) != (want != Memory{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
