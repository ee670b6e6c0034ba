package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
)

func (a *app) modelsInspectCommand() *cobra.Command {
	var plan string
	var without []string
	var showGraph, showSteps, asJSON bool
	cmd := &cobra.Command{
		Use: "inspect MODEL", Short: "Show what a model file is and how it is computed / 查看模型文件及其计算图", Args: exactly(1),
		Long: `MODEL is a GGUF file, a directory with config.json and safetensors, or a name of sluice models list. Nothing is computed.
With --graph it prints the model's graph: as the file describes it, or, with --plan, after the passes for that precision plan
(native, int8, f16, f32; "int8,head=i8" for single classes). --steps prints the flat steps that remain and where their results lie.

MODEL 可以是 GGUF 文件、含 config.json 与 safetensors 的目录，或 sluice models list 中的名称。不做任何计算。
--graph 打印计算图；再加 --plan 则打印该精度方案优化之后的图。--steps 打印最终步骤及其结果在内存中的位置。`,
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.modelPath(args[0])
			if err != nil {
				return err
			}
			m, err := arch.Open(path)
			if err != nil {
				return err
			}
			defer func() { _ = m.Close() }()
			in := inspection{model: m, path: path, plan: plan, without: without}
			switch {
			case showSteps:
				return in.steps(a.env.stdout)
			case showGraph:
				return in.graph(a.env.stdout)
			}
			s, err := in.summary()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.env.stdout, s)
			}
			return a.printSummary(s)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&showGraph, "graph", false, "print the graph / 打印计算图")
	f.BoolVar(&showSteps, "steps", false, "print the steps and the memory they use / 打印步骤与内存安排")
	f.StringVar(&plan, "plan", "", "precision plan whose passes to apply / 应用该精度方案的优化")
	f.StringSliceVar(&without, "without", nil, "passes to leave out, for debugging (repeatable) / 跳过的优化步骤")
	f.BoolVar(&asJSON, "json", false, "the summary as JSON / 以 JSON 输出概要")
	cmd.MarkFlagsMutuallyExclusive("graph", "steps", "json")
	return cmd
}

// modelPath takes a path, or the name of an artefact that is on this machine.
func (a *app) modelPath(name string) (string, error) {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	cfg, err := a.load(nil)
	if err != nil {
		return "", err
	}
	path, err := modelstore.Open(cfg.Downloads).Path(name)
	if err != nil {
		return "", fmt.Errorf("%s is no file or directory, and no model that is here; sluice models list shows those", name)
	}
	return path, nil
}

// inspection is what is shown of one model.
type inspection struct {
	model   *arch.Model
	path    string
	plan    string
	without []string
}

// optimised runs the passes, if a plan was asked for.
func (in inspection) optimised(plan string) (*graph.Graph, *graph.Report, error) {
	p, err := native.Precision(plan)
	if err != nil {
		return nil, nil, usageError{err}
	}
	r, err := graph.Optimize(in.model.Graph, p, in.without...)
	if err != nil && r == nil { // no pass ran: one to leave out does not exist
		err = usageError{err}
	}
	return in.model.Graph, r, err
}

func (in inspection) graph(w io.Writer) error {
	if in.plan == "" {
		if len(in.without) > 0 {
			return usageError{errors.New("--without leaves out passes of a plan; name one with --plan")}
		}
		return in.model.Graph.WriteText(w)
	}
	g, r, err := in.optimised(in.plan)
	if err != nil {
		return err
	}
	if err := g.WriteText(w); err != nil {
		return err
	}
	for _, s := range r.Skipped {
		if _, err := fmt.Fprintf(w, "# %s: %s\n", s.Pass, s); err != nil {
			return err
		}
	}
	return nil
}

func (in inspection) steps(w io.Writer) error {
	g, _, err := in.optimised(in.plan)
	if err != nil {
		return err
	}
	plan, err := graph.NewPlan(g)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, plan.String())
	return err
}
