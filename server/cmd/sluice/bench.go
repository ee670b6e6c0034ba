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
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure this machine / 测量本机性能"}
	cmd.AddCommand(a.benchEngineCommand(), a.benchWorkerCommand())
	return cmd
}

func (a *app) benchEngineCommand() *cobra.Command {
	var asJSON bool
	c := enginebench.Config{}
	cmd := &cobra.Command{
		Use: "engine", Short: "Measure the native engine with a model file, and the machine's limits / 测量原生引擎与硬件上限", Args: exactly(0),
		Long: `Prints prompt and generation speed, load time and peak memory of a GGUF file, and how much of the machine's limits
is reached; the limits are measured in the same minutes. Each number of threads gets a process of its own. Run it on a machine
with nothing else to do. SLUICE_ISA masks a tier of kernels.
输出 GGUF 模型的提示与生成速度、加载时间、峰值内存，以及达到硬件上限的比例；上限在同一时段内测得。请在空闲机器上运行。
可用 SLUICE_ISA 限定指令集。`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Path == "" {
				path, err := a.defaultModel()
				if err != nil {
					return err
				}
				c.Path = path
			}
			path, err := a.modelPath(c.Path)
			if err != nil {
				return err
			}
			c.Path = path
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
	f.StringVar(&c.Path, "model", "", "model file, or its name in sluice models list; without it the model of the configuration / 模型文件或名称，默认取配置中的模型")
	f.StringVar(&c.Plan, "plan", "", "precision plan; without it the engine's own choice / 精度方案，默认由引擎决定")
	f.IntSliceVar(&c.Threads, "threads", []int{runtime.NumCPU()}, "numbers of threads; without it all processors / 线程数，可用逗号分隔多个，默认取全部处理器")
	f.IntSliceVar(&c.Prompts, "prompt", []int{128, 512}, "lengths of prompts / 提示的长度，可用逗号分隔多个")
	f.IntVar(&c.Generate, "gen", 128, "tokens of a generation; 0 measures none / 生成的词元数，0 表示不测")
	f.IntSliceVar(&c.Depths, "depth", []int{0, 1024}, "tokens before a generation / 生成前已有的词元数，可用逗号分隔多个")
	f.IntVar(&c.Rounds, "rounds", 5, "rounds / 轮数")
	f.BoolVar(&asJSON, "json", false, "as JSON / 以 JSON 输出")
	f.Lookup("threads").DefValue = "[]" // not shown: it differs between machines
	return cmd
}

// benchWorkerCommand is the process that measures. Programs start it.
func (a *app) benchWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Measure on request of another program / 供其他程序调用的测量进程", Args: exactly(0), Hidden: true,
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
	path := models[i].Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(cfg.Downloads, "models", path)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; run `sluice pull`, or name another file with --model", err)
	}
	return path, nil
}
