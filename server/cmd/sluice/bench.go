package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/message"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: both("cli.bench.short")}
	cmd.AddCommand(a.benchEngineCommand(), a.benchWorkerCommand())
	return cmd
}

func (a *app) benchEngineCommand() *cobra.Command {
	var asJSON bool
	c := enginebench.Config{}
	cmd := &cobra.Command{
		Use: "engine", Short: both("cli.bench_engine.short"), Args: exactly(0),
		Long: message.Both("cli.bench_engine.long", "\n"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.prepareBench(&c); err != nil {
				return err
			}
			r, err := enginebench.Run(cmd.Context(), c)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.env.stdout, r)
			}
			return r.Print(a.env.stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Path, "model", "", both("cli.shared.model"))
	f.StringVar(&c.Plan, "plan", "", both("cli.bench.plan"))
	f.IntSliceVar(&c.Threads, "threads", []int{runtime.NumCPU()}, both("cli.bench.threads"))
	f.IntSliceVar(&c.Prompts, "prompt", []int{128, 512}, both("cli.bench.prompt"))
	f.IntVar(&c.Generate, "gen", 128, both("cli.bench.gen"))
	f.IntSliceVar(&c.Depths, "depth", []int{0, 1024}, both("cli.bench.depth"))
	f.IntVar(&c.Rounds, "rounds", 5, both("cli.bench.rounds"))
	f.BoolVar(&asJSON, "json", false, both("cli.shared.json"))
	f.Lookup("threads").DefValue = "[]" // not shown: it differs between machines
	return cmd
}

// prepareBench finds the model file, and this program, which also is what measures.
func (a *app) prepareBench(c *enginebench.Config) error {
	var err error
	if c.Path == "" {
		if c.Path, err = a.defaultModel(); err != nil {
			return err
		}
	}
	if c.Path, err = a.modelPath(c.Path); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	c.Worker = enginebench.Command{Args: []string{self, "bench", "worker"}, Env: a.env.environ}
	if cache, err := os.UserCacheDir(); err == nil && os.MkdirAll(cache, 0o700) == nil {
		c.Scratch = cache // large models do not fit where temporary files go
	}
	return nil
}

// benchWorkerCommand is the process that measures. Programs start it.
func (a *app) benchWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: both("cli.bench_worker.short"), Args: exactly(0), Hidden: true,
		RunE: func(*cobra.Command, []string) error { return enginebench.Serve(a.env.stdin, a.env.stdout) },
	}
}

// defaultModel returns the first GGUF file of the configuration.
func (a *app) defaultModel() (string, error) {
	cfg, err := a.load(nil)
	if err != nil {
		return "", err
	}
	models := cfg.Engines.Native.Models
	i := slices.IndexFunc(models, func(m native.ModelConfig) bool { return filepath.Ext(m.Path) == ".gguf" })
	if i < 0 {
		return "", usageError{errors.New("the configuration has no GGUF file; name one with --model")}
	}
	path := cfg.ModelPath(models[i].Path)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; run `sluice pull`, or name another file with --model", err)
	}
	return path, nil
}
