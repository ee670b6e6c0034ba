package modelcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/config"
)

func (a *app) modelsCompileCommand() *cobra.Command {
	var plan, calibration string
	var threads int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "compile MODEL", Short: cli.Both("cli.models_compile.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.models_compile.long", "\n\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if base, _, _ := strings.Cut(plan, ","); base != "" && !slices.Contains(native.Plans(), base) {
				return cli.Misuse("cli.models_compile.no_plan", plan, strings.Join(native.Plans(), ", "))
			}
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			path, err := a.modelPath(args[0])
			if err != nil {
				return err
			}
			c := native.CompileConfig{Path: path, Plan: plan, Calibration: calibration, Threads: threads, CacheDir: cfg.Engines.Native.CacheDir}
			asConfigured(cmd, cfg, &c)
			r, err := native.Compile(c)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(a.Stdout, map[string]any{
					"digest": r.Digest, "plan": r.Plan, "isa": r.ISA, "cache": r.Cache, "reason": r.Reason, "bytes": r.Bytes, "directory": cfg.Engines.Native.CacheDir,
					"seconds": r.Took.Seconds(), "tuning": r.Tuning,
				})
			}
			a.printCompiled(r, cfg.Engines.Native.CacheDir)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&plan, "plan", "", cli.Both("cli.models_compile.plan"))
	f.StringVar(&calibration, "calibration", "", cli.Both("cli.models_compile.calibration"))
	f.IntVar(&threads, "threads", 0, cli.Both("cli.models_compile.threads"))
	f.BoolVar(&asJSON, "json", false, cli.Both("cli.shared.json"))
	return cmd
}

func (a *app) printCompiled(r native.CompileReport, dir string) {
	result := map[string]string{
		"hit": a.Say("cli.models_compile.kept"), "built": a.Say("cli.models_compile.built"), "rebuilt": a.Say("cli.models_compile.built_again", r.Reason),
	}[r.Cache]
	tuning := a.Say("cli.models_compile.not_tuned")
	if r.Tuning != nil {
		tuning = a.Say("cli.models_compile.tuned", r.Tuning.PromptRows, r.Tuning.GenerationThreads)
	}
	cli.PrintColumns(a.Stdout, [][]string{
		{a.Say("cli.shared.of_model"), r.Digest},
		{a.Say("cli.models_compile.of_plan"), r.Plan + ", " + r.ISA},
		{a.Say("cli.models_compile.packed"), fmt.Sprintf("%.1f MB, %s, %.2f s", float64(r.Bytes)/1e6, result, r.Took.Seconds())},
		{a.Say("cli.models_compile.fastest"), tuning},
		{a.Say("cli.models_compile.directory"), dir},
	})
}

// asConfigured takes the plan, and the calibration that goes with it, from the configuration's entry of the model unless a flag says otherwise.
func asConfigured(cmd *cobra.Command, cfg *config.Config, c *native.CompileConfig) {
	models := cfg.Engines.Native.Models
	i := slices.IndexFunc(models, func(m native.ModelConfig) bool { return cfg.ModelPath(m.Path) == c.Path })
	if i < 0 || cmd.Flags().Changed("plan") {
		return
	}
	c.Plan = cmp.Or(models[i].Precision, native.PlanNative)
	if !cmd.Flags().Changed("calibration") {
		c.Calibration = models[i].Calibration
	}
}
