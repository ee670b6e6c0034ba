package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/config"
)

// environment is everything a command takes from the operating system, so that tests can run commands.
type environment struct {
	args, environ  []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// get returns an environment variable.
func (e environment) get(name string) string {
	for _, kv := range e.environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// app is the state the commands share.
type app struct {
	env        environment
	configPath string
	data       string
}

func newRoot(env environment) *cobra.Command {
	a := &app{env: env}
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A governed inference platform / 受治理的推理平台",
		Long: `Sluice runs models behind a gateway with roles, masking, labels, audit and budgets.
Sluice 在具备权限、脱敏、标识、审计和预算的网关之后运行模型。

Start with: sluice pull && sluice up`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
	}
	root.PersistentFlags().StringVar(&a.configPath, "config", env.get("SLUICE_CONFIG"), "configuration file (YAML) / 配置文件")
	root.PersistentFlags().StringVar(&a.data, "data", "", "data directory / 数据目录 (default "+config.DefaultData()+")")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(
		a.upCommand(), a.serveCommand(), a.pullCommand(), a.modelsCommand(), a.chatCommand(), a.keyCommand(), a.ragCommand(),
		a.auditCommand(), a.migrateCommand(), a.configCommand(), a.rolloutCommand(), a.versionCommand(), a.doctorCommand(),
	)
	return root
}

// load reads the configuration with the command-line overrides.
func (a *app) load(overrides map[string]any) (*config.Config, error) {
	all := map[string]any{}
	for k, v := range overrides {
		all[k] = v
	}
	if a.data != "" {
		abs, err := filepath.Abs(a.data)
		if err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
		all["data"] = abs
	}
	return config.Load(a.configPath, a.env.environ, all)
}

// exactly returns an argument check whose error is a usage error.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// atLeast returns an argument check whose error is a usage error.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.MinimumNArgs(n)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
