package main

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
)

func (a *app) modelsInspectCommand() *cobra.Command {
	var plan string
	var without []string
	var showGraph, showSteps, asJSON bool
	cmd := &cobra.Command{
		Use: "inspect MODEL", Short: both("cli.models_inspect.short"), Args: exactly(1),
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
				err = m.WriteSteps(a.env.stdout)
			case showGraph && plan == "" && len(without) > 0:
				return usageError{errors.New("--without leaves out passes of a plan; name one with --plan")}
			case showGraph:
				err = m.WriteGraph(a.env.stdout)
			default:
				err = a.summarise(m, asJSON)
			}
			if p := (*inspect.PlanError)(nil); errors.As(err, &p) {
				return usageError{err}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&showGraph, "graph", false, both("cli.models_inspect.graph"))
	f.BoolVar(&showSteps, "steps", false, both("cli.models_inspect.steps"))
	f.StringVar(&plan, "plan", "", both("cli.models_inspect.plan"))
	f.StringSliceVar(&without, "without", nil, both("cli.models_inspect.without"))
	f.BoolVar(&asJSON, "json", false, both("cli.models_inspect.json"))
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

func (a *app) summarise(m *inspect.Model, asJSON bool) error {
	s, err := m.Summary()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(a.env.stdout, s)
	}
	a.printSummary(s)
	return nil
}

func (a *app) printSummary(s inspect.Summary) {
	n := s.Numbers
	rows := [][]string{
		{a.say("cli.models.file"), fmt.Sprintf("%s (%s)", s.Path, s.Format)},
		{a.say("cli.models.digest"), s.Digest},
		{a.say("cli.models.architecture"), strings.TrimSpace(s.Architecture + "  " + s.Name)},
		{a.say("cli.models.parameters"), fmt.Sprintf("%.1f M, %.1f MB", float64(s.Parameters)/1e6, float64(s.Bytes)/1e6)},
		{a.say("cli.models.layers"), a.say("cli.models.layer_sizes", n.Layers, n.Dim, n.Hidden, n.Activation)},
		{a.say("cli.models.attention"), a.say("cli.models.heads", n.Heads, n.HeadDim, n.KVHeads)},
		{a.say("cli.models.context"), a.say("cli.models.token_count", n.Context)},
		{a.say("cli.models.vocabulary"), fmt.Sprintf("%d, %s", n.Vocab, strings.TrimSpace(s.Tokenizer.Kind+" "+s.Tokenizer.Pre))},
	}
	if n.Windowed > 0 {
		rows = append(rows, []string{a.say("cli.models.window"), a.say("cli.models.window_size", n.Window, n.Windowed)})
	}
	if n.KVBytes > 0 {
		rows = append(rows, []string{a.say("cli.models.cache"), a.say("cli.models.cache_size", float64(n.KVBytes)/1e3)})
	}
	if n.Pooling != "" {
		kind := n.Pooling
		if n.Scores {
			kind += a.say("cli.models.scores")
		}
		rows = append(rows, []string{a.say("cli.models.pooling"), kind})
	}
	if t := s.Template; t != nil {
		rows = append(rows, []string{a.say("cli.models.template"), cmp.Or(t.Digest, t.Error)})
	}
	printColumns(a.env.stdout, rows)
	a.printTensors(a.say("cli.models.type_column"), a.say("cli.models.tensors_column"), s.Tensors)
	if s.Plan == nil {
		return
	}
	a.printTensors(a.say("cli.models.format_column", s.Plan.Name), a.say("cli.models.weights_column"), s.Plan.Weights)
	for _, skipped := range s.Plan.Skipped {
		fmt.Fprintln(a.env.stdout, a.say("cli.models.not_applied", skipped))
	}
}

func (a *app) printTensors(format, count string, groups []inspect.TensorGroup) {
	rows := [][]string{{format, count, a.say("cli.models.elements_column"), a.say("cli.models.bytes_column")}}
	for _, g := range groups {
		rows = append(rows, []string{g.Type, strconv.Itoa(g.Count), strconv.FormatInt(g.Elements, 10), strconv.FormatInt(g.Bytes, 10)})
	}
	fmt.Fprintln(a.env.stdout)
	printColumns(a.env.stdout, rows)
}
