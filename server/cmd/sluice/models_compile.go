package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/server/config"
)

func (a *app) modelsCompileCommand() *cobra.Command {
	var plan, calibration string
	var threads int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "compile MODEL", Short: "Pack a model's weights ahead of the first load / 预先编译模型", Args: exactly(1),
		Long: `Compiles a model under a precision plan for the processor of this machine and keeps the packed weights where the server looks for
them, so that its first load only maps them. A server does the same by itself at the first load. Run it again after an update: what
is still good is kept. With --calibration, the weights of plan int8 are rounded so that they suit that text, which takes a minute for
some hundred million of them; name the same file in the server's configuration (engines.native.models, calibration).

按精度方案和本机处理器编译模型，并将打包后的权重存放在服务器查找的位置，使首次加载只需映射文件。服务器首次加载时也会自动完成。
升级后可再次执行：仍然有效的结果会保留。使用 --calibration 时，int8 方案的权重按该文本舍入（每数亿参数约需一分钟）；服务器配置
（engines.native.models 的 calibration）须指定同一文件。`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if base, _, _ := strings.Cut(plan, ","); base != "" && !slices.Contains(native.Plans(), base) {
				return usageError{fmt.Errorf("unknown precision plan %q; there are %s", plan, strings.Join(native.Plans(), ", "))}
			}
			cfg, err := a.load(nil)
			if err != nil {
				return err
			}
			path, err := a.modelPath(args[0])
			if err != nil {
				return err
			}
			if entry, ok := configured(cfg, path); ok && !cmd.Flags().Changed("plan") {
				plan = cmp.Or(entry.Precision, native.PlanNative)
				if !cmd.Flags().Changed("calibration") {
					calibration = entry.Calibration
				}
			}
			r, err := native.Compile(native.CompileConfig{Path: path, Plan: plan, Calibration: calibration, Threads: threads, CacheDir: cfg.Engines.Native.CacheDir})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.env.stdout, map[string]any{
					"digest": r.Digest, "plan": r.Plan, "isa": r.ISA, "cache": r.Cache, "reason": r.Reason, "bytes": r.Bytes, "directory": cfg.Engines.Native.CacheDir,
					"seconds": r.Took.Seconds(), "tuning": r.Tuning,
				})
			}
			result := map[string]string{
				"hit": a.say("was there and is good", "已存在且有效"), "built": a.say("built", "已生成"), "rebuilt": a.say("built again: ", "已重新生成：") + r.Reason,
			}[r.Cache]
			tuning := a.say("nothing to measure", "无需测量")
			if r.Tuning != nil {
				tuning = fmt.Sprintf(a.say("prompts in steps of %d tokens, generation on %d threads (measured)", "提示每步 %d 个 token，生成使用 %d 个线程（实测）"), r.Tuning.PromptRows, r.Tuning.GenerationThreads)
			}
			printColumns(a.env.stdout, [][]string{
				{a.say("model", "模型"), r.Digest},
				{a.say("plan", "精度方案"), r.Plan + ", " + r.ISA},
				{a.say("packed weights", "打包权重"), fmt.Sprintf("%.1f MB, %s, %.2f s", float64(r.Bytes)/1e6, result, r.Took.Seconds())},
				{a.say("fastest", "最快设置"), tuning},
				{a.say("directory", "目录"), cfg.Engines.Native.CacheDir},
			})
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&plan, "plan", "", "precision plan (default: the configuration's for this model, else native) / 精度方案")
	f.StringVar(&calibration, "calibration", "", "text file by which int8 weights are rounded / 校准文本文件")
	f.IntVar(&threads, "threads", 0, "threads that work; 0: all processors / 线程数")
	f.BoolVar(&asJSON, "json", false, "as JSON / 以 JSON 输出")
	return cmd
}

// configured returns the configuration's entry of the model at path.
func configured(cfg *config.Config, path string) (native.ModelConfig, bool) {
	for _, m := range cfg.Engines.Native.Models {
		have := m.Path
		if !filepath.IsAbs(have) {
			have = filepath.Join(cfg.Downloads, "models", have)
		}
		if have == path {
			return m, true
		}
	}
	return native.ModelConfig{}, false
}
