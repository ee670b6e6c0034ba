package modelcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// Bench returns the commands that measure speed.
func Bench(shared *cli.App) *cobra.Command {
	a := &app{shared}
	cmd := &cobra.Command{Use: "bench", Short: cli.Both("cli.bench.short")}
	cmd.AddCommand(a.benchEngineCommand(), a.benchWorkerCommand())
	return cmd
}

func (a *app) benchEngineCommand() *cobra.Command {
	var asJSON bool
	c := enginebench.Config{}
	cmd := &cobra.Command{
		Use: "engine", Short: cli.Both("cli.bench_engine.short"), Args: cli.Exactly(0),
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
				return cli.PrintJSON(a.Stdout, r)
			}
			return r.Print(a.Stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Path, "model", "", cli.Both("cli.shared.model"))
	f.StringVar(&c.Plan, "plan", "", cli.Both("cli.bench.plan"))
	f.IntSliceVar(&c.Threads, "threads", []int{runtime.NumCPU()}, cli.Both("cli.bench.threads"))
	f.IntSliceVar(&c.Prompts, "prompt", []int{128, 512}, cli.Both("cli.bench.prompt"))
	f.IntVar(&c.Generate, "gen", 128, cli.Both("cli.bench.gen"))
	f.IntSliceVar(&c.Depths, "depth", []int{0, 1024}, cli.Both("cli.bench.depth"))
	f.IntVar(&c.Rounds, "rounds", 5, cli.Both("cli.bench.rounds"))
	f.BoolVar(&asJSON, "json", false, cli.Both("cli.shared.json"))
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
		return cli.Misuse("cli.shared.bad_flags", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	c.Worker = enginebench.Command{Args: []string{self, "bench", "worker"}, Env: a.Environ}
	if cache, err := os.UserCacheDir(); err == nil && os.MkdirAll(cache, 0o700) == nil {
		c.Scratch = cache // large models do not fit where temporary files go
	}
	return nil
}

// benchWorkerCommand is the process that measures. Programs start it.
func (a *app) benchWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: cli.Both("cli.bench_worker.short"), Args: cli.Exactly(0), Hidden: true,
		RunE: func(*cobra.Command, []string) error { return enginebench.Serve(a.Stdin, a.Stdout) },
	}
}

// defaultModel returns the first GGUF file of the configuration.
func (a *app) defaultModel() (string, error) {
	cfg, err := a.Load(nil)
	if err != nil {
		return "", err
	}
	models := cfg.Engines.Native.Models
	i := slices.IndexFunc(models, func(m native.ModelConfig) bool { return filepath.Ext(m.Path) == ".gguf" })
	if i < 0 {
		return "", cli.Misuse("cli.bench.no_model")
	}
	path := cfg.ModelPath(models[i].Path)
	if _, err := os.Stat(path); err != nil {
		return "", cli.Failed("cli.bench.not_here", err)
	}
	return path, nil
}
