package auditcmd

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) traceCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "trace [FILE]", Short: cli.Both("cli.audit_trace.short"), Args: cli.AtMost(1),
		Long:    message.Both("cli.audit_trace.long", "\n"),
		Example: "  sluice audit trace quoted.txt\n  xclip -o | sluice audit trace - --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.textToTrace(args)
			if err != nil {
				return err
			}
			in := adminapi.TraceQuestion{Text: text}
			if tenant != "" {
				in.Tenant = &tenant
			}
			var out adminapi.TraceResult
			if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/trace", in, &out); err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(a.Stdout, out)
			}
			a.printTrace(out)
			return nil
		},
	}
	flags.Register(cmd, a.App)
	cmd.Flags().StringVar(&tenant, "tenant", "", cli.Both("cli.audit_trace.tenant"))
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.audit_trace.json"))
	return cmd
}

// textToTrace reads the file that is named, else what is piped in, and no more than can be traced.
func (a *app) textToTrace(args []string) (string, error) {
	in := a.Stdin
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return "", err
		}
		defer f.Close() //nolint:errcheck // read only
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, registry.MaxText+1))
	if err != nil {
		return "", fmt.Errorf("read the text: %w", err)
	}
	return string(raw), nil
}

func (a *app) printTrace(t adminapi.TraceResult) {
	if len(t.Matches) == 0 {
		if t.Since == nil {
			fmt.Fprintln(a.Stdout, a.Say("cli.audit_trace.none_yet", t.Characters))
		} else {
			fmt.Fprintln(a.Stdout, a.Say("cli.audit_trace.none", t.Characters, t.Since.Format(time.RFC3339)))
		}
		if !t.Enabled {
			fmt.Fprintln(a.Stdout, a.Say("cli.audit_trace.off"))
		}
		return
	}
	for _, m := range t.Matches {
		fmt.Fprintln(a.Stdout, a.Say("cli.audit_trace.line", m.Time.Format(time.RFC3339), m.Request, m.Choice, a.evidence(m, t.Characters), m.Record))
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.audit_trace.no_proof"))
	if t.More {
		fmt.Fprintln(a.Stdout, a.Say("cli.audit_trace.more"))
	}
}

// evidence says what a match proves.
func (a *app) evidence(m adminapi.TraceMatch, of int) string {
	switch registry.Evidence(m.Evidence) {
	case registry.Exact:
		return a.Say("cli.audit_trace.exact")
	case registry.Strong:
		return a.Say("cli.audit_trace.strong", m.Verified, of)
	case registry.Moderate:
		return a.Say("cli.audit_trace.moderate", m.Verified, of)
	default:
		if m.OnlyCommon {
			return a.Say("cli.audit_trace.only_common", m.Verified, of)
		}
		return a.Say("cli.audit_trace.weak", m.Verified, of)
	}
}
