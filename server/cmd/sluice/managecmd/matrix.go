package managecmd

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/instances"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// allFeatures asks for every column.
const allFeatures = "all"

func (a *app) matrixCommand(flags *cli.RemoteFlags) *cobra.Command {
	var pool, model string
	var features []string
	cmd := &cobra.Command{
		Use: "matrix", Short: cli.Both("cli.engine_matrix.short"), Long: cli.Both("cli.engine_matrix.long"), Args: cli.Exactly(0),
		Example: "  sluice engine matrix --pool chat --feature tools,format.json_schema",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.EngineMatrix
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/engine-matrix", nil, &out); err != nil {
				return err
			}
			columns, err := matrixColumns(features, out.Features)
			if err != nil {
				return err
			}
			rows := slices.DeleteFunc(out.Rows, func(r adminapi.EngineMatrixRow) bool {
				return pool != "" && r.Pool != pool || model != "" && r.Model != model && r.EngineModel != model
			})
			return a.printMatrix(rows, columns)
		},
	}
	f := cmd.Flags()
	f.StringVar(&pool, "pool", "", cli.Both("cli.engine_matrix.pool"))
	f.StringVar(&model, "model", "", cli.Both("cli.engine_matrix.model"))
	f.StringSliceVar(&features, "feature", []string{
		string(capability.Chat), string(capability.Tools), string(capability.FormatSchema), string(capability.Logprobs), string(capability.ImageIn),
		string(capability.Embeddings), string(capability.Rerank),
	}, cli.Both("cli.engine_matrix.feature"))
	return cmd
}

// matrixColumns returns the features that were asked for, all of which the server knows.
func matrixColumns(asked, known []string) ([]string, error) {
	if slices.Equal(asked, []string{allFeatures}) {
		return known, nil
	}
	for _, f := range asked {
		if !slices.Contains(known, f) {
			return nil, cli.Misuse("cli.engine_matrix.unknown", f, strings.Join(known, ", "))
		}
	}
	return asked, nil
}

func (a *app) printMatrix(rows []adminapi.EngineMatrixRow, features []string) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "POOL\tINSTANCE\tMODEL\tENGINE\tDEVICE\tSTATE\t"+strings.ToUpper(strings.Join(features, "\t")))
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s", r.Pool, r.Instance, r.Model, words(valueOr(r.Engine), valueOr(r.Version)), matrixDevice(r.Device), r.State)
		for _, f := range features {
			fmt.Fprint(w, "\t"+matrixSign(r.Cells, f))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// matrixSign is a cell in a word: its grade where the feature may be used, with a question mark where a condition decides, and a dash where it may not.
func matrixSign(cells []adminapi.EngineMatrixCell, feature string) string {
	i := slices.IndexFunc(cells, func(c adminapi.EngineMatrixCell) bool { return c.Feature == feature })
	if i < 0 {
		return "–"
	}
	switch c := cells[i]; pool.Use(c.Usable) {
	case pool.UseYes:
		if c.Status == string(instances.StatusListed) {
			return c.Status
		}
		return c.Grade
	case pool.UseDepends:
		return c.Grade + "?"
	default:
		return "–"
	}
}

func matrixDevice(d *adminapi.EngineDevice) string {
	if d == nil {
		return ""
	}
	return words(valueOr(d.Vendor), valueOr(d.Family), valueOr(d.Generation))
}

// words joins those that are there.
func words(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}
