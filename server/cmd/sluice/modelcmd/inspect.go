package modelcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/inspect"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) modelsInspectCommand() *cobra.Command {
	var plan string
	var without []string
	var showGraph, showSteps, asJSON bool
	cmd := &cobra.Command{
		Use: "inspect MODEL", Short: cli.Both("cli.models_inspect.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.models_inspect.long", "\n\n"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := a.modelPath(args[0])
			if err != nil {
				return err
			}
			m, err := inspect.Open(inspect.Config{Path: path, Plan: plan, Without: without})
			if err != nil {
				return err
			}
			defer func() { _ = m.Close() }()
			switch {
			case showSteps:
				err = m.WriteSteps(a.Stdout)
			case showGraph && plan == "" && len(without) > 0:
				return cli.Misuse("cli.models_inspect.without_plan")
			case showGraph:
				err = m.WriteGraph(a.Stdout)
			default:
				err = a.summarise(m, asJSON)
			}
			if p := (*inspect.PlanError)(nil); errors.As(err, &p) {
				return cli.Misuse("cli.shared.bad_flags", err)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&showGraph, "graph", false, cli.Both("cli.models_inspect.graph"))
	f.BoolVar(&showSteps, "steps", false, cli.Both("cli.models_inspect.steps"))
	f.StringVar(&plan, "plan", "", cli.Both("cli.models_inspect.plan"))
	f.StringSliceVar(&without, "without", nil, cli.Both("cli.models_inspect.without"))
	f.BoolVar(&asJSON, "json", false, cli.Both("cli.models_inspect.json"))
	cmd.MarkFlagsMutuallyExclusive("graph", "steps", "json")
	return cmd
}

// modelPath takes a path, or the name of an artefact that is on this machine.
func (a *app) modelPath(name string) (string, error) {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	cfg, err := a.Load(nil)
	if err != nil {
		return "", err
	}
	path, err := modelstore.Open(cfg.Downloads).Path(name)
	if err != nil {
		return "", cli.Failed("cli.models.not_here", name)
	}
	return path, nil
}

func (a *app) summarise(m *inspect.Model, asJSON bool) error {
	s, err := m.Summary()
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(a.Stdout, s)
	}
	a.printSummary(s)
	return nil
}

func (a *app) printSummary(s inspect.Summary) {
	n := s.Numbers
	rows := [][]string{
		{a.Say("cli.models.file"), fmt.Sprintf("%s (%s)", s.Path, s.Format)},
		{a.Say("cli.models.digest"), s.Digest},
		{a.Say("cli.models.architecture"), strings.TrimSpace(s.Architecture + "  " + s.Name)},
		{a.Say("cli.models.parameters"), fmt.Sprintf("%.1f M, %.1f MB", float64(s.Parameters)/1e6, float64(s.Bytes)/1e6)},
		{a.Say("cli.models.layers"), a.Say("cli.models.layer_sizes", n.Layers, n.Dim, n.Hidden, n.Activation)},
		{a.Say("cli.models.attention"), a.Say("cli.models.heads", n.Heads, n.HeadDim, n.KVHeads)},
		{a.Say("cli.models.context"), a.Say("cli.models.token_count", n.Context)},
		{a.Say("cli.models.vocabulary"), fmt.Sprintf("%d, %s", n.Vocab, strings.TrimSpace(s.Tokenizer.Kind+" "+s.Tokenizer.Pre))},
	}
	if n.Windowed > 0 {
		rows = append(rows, []string{a.Say("cli.models.window"), a.Say("cli.models.window_size", n.Window, n.Windowed)})
	}
	if n.KVBytes > 0 {
		rows = append(rows, []string{a.Say("cli.models.cache"), a.Say("cli.models.cache_size", float64(n.KVBytes)/1e3)})
	}
	if n.Pooling != "" {
		kind := n.Pooling
		if n.Scores {
			kind += a.Say("cli.models.scores")
		}
		rows = append(rows, []string{a.Say("cli.models.pooling"), kind})
	}
	if t := s.Template; t != nil {
		rows = append(rows, []string{a.Say("cli.models.template"), cmp.Or(t.Digest, t.Error)})
	}
	cli.PrintColumns(a.Stdout, rows)
	a.printTensors(a.Say("cli.models.type_column"), a.Say("cli.models.tensors_column"), s.Tensors)
	if s.Plan == nil {
		return
	}
	a.printTensors(a.Say("cli.models.format_column", s.Plan.Name), a.Say("cli.models.weights_column"), s.Plan.Weights)
	for _, skipped := range s.Plan.Skipped {
		fmt.Fprintln(a.Stdout, a.Say("cli.models.not_applied", skipped))
	}
}

func (a *app) printTensors(format, count string, groups []inspect.TensorGroup) {
	rows := [][]string{{format, count, a.Say("cli.models.elements_column"), a.Say("cli.models.bytes_column")}}
	for _, g := range groups {
		rows = append(rows, []string{g.Type, strconv.Itoa(g.Count), strconv.FormatInt(g.Elements, 10), strconv.FormatInt(g.Bytes, 10)})
	}
	fmt.Fprintln(a.Stdout)
	cli.PrintColumns(a.Stdout, rows)
}
