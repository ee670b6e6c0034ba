package managecmd

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/compliance"
)

const matrixPath = "/compliance/matrix"

func (a *app) complianceCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "compliance", Short: cli.Both("cli.compliance.short"), Long: message.Both("cli.compliance.long", "\n")}
	flags.Register(cmd, a.App)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", cli.Both("cli.compliance.tenant"))
	var out string
	file := &cobra.Command{
		Use: "report", Short: cli.Both("cli.compliance_report.short"), Args: cli.Exactly(0), Example: "  sluice compliance report --out compliance.pdf",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := report.FormatOf(out); err != nil {
				return cli.Misuse("cli.shared.report_format", out)
			}
			format := strings.TrimPrefix(strings.ToLower(filepath.Ext(out)), ".")
			return a.download(cmd.Context(), flags, matrixPath+cli.Query("tenant", tenant, "format", format), out)
		},
	}
	file.Flags().StringVar(&out, "out", "", cli.Both("cli.compliance_report.out"))
	cmd.AddCommand(file, &cobra.Command{
		Use: "matrix", Short: cli.Both("cli.compliance_matrix.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var m adminapi.ComplianceMatrix
			if err := a.Ask(cmd.Context(), flags, http.MethodGet, matrixPath+cli.Query("tenant", tenant), nil, &m); err != nil {
				return err
			}
			return a.printClauses(m)
		},
	})
	return cmd
}

// printClauses prints the clauses, then what does not hold and its remedy. A broken control is a finding.
func (a *app) printClauses(m adminapi.ComplianceMatrix) error {
	state := func(s adminapi.ComplianceState) string { return compliance.StateName(compliance.State(s)).In(a.Lang()) }
	rows := [][]string{{"SOURCE", "CLAUSE", "STATE", "DUTY"}}
	for _, s := range m.Sources {
		for _, c := range s.Clauses {
			rows = append(rows, []string{s.Id, c.At, state(c.State), c.Duty})
		}
	}
	cli.PrintColumns(a.Stdout, rows)
	broken := 0
	rows = [][]string{{"CONTROL", "STATE", "REMEDY"}}
	for _, c := range m.Controls {
		if c.State == adminapi.ControlBroken {
			broken++
		}
		if c.Remedy != nil {
			rows = append(rows, []string{c.Name, state(c.State), *c.Remedy})
		}
	}
	fmt.Fprintln(a.Stdout)
	cli.PrintColumns(a.Stdout, rows)
	if broken > 0 {
		return cli.ErrFindings
	}
	return nil
}
