package managecmd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func offboardingPath(tenant string) string { return level{path: "/tenants"}.of(tenant, "/offboarding") }

func (a *app) offboardTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "offboard ID", Short: cli.Both("cli.tenant_offboard.short"), Args: cli.Exactly(1),
		Example: `  sluice tenant offboard bank --reason "contract ended"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Misuse("cli.tenant_suspend.no_reason")
			}
			var out adminapi.Offboarding
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, offboardingPath(args[0]), adminapi.Reason{Reason: reason}, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.tenant_offboard.done", out.Tenant))
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.tenant_offboard.reason"))
	return cmd
}

func (a *app) exportTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	var out, decline string
	var texts, values bool
	cmd := &cobra.Command{
		Use: "export ID", Short: cli.Both("cli.tenant_export.short"), Args: cli.Exactly(1),
		Example: "  sluice tenant export bank --out bank.zip\n  sluice tenant export bank --decline \"they have taken everything themselves\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (out == "") == (decline == "") {
				return cli.Misuse("cli.tenant_export.out_or_decline")
			}
			if decline != "" {
				var o adminapi.Offboarding
				if err := a.Ask(cmd.Context(), *flags, http.MethodPost, offboardingPath(args[0])+"/decline-export", adminapi.Reason{Reason: decline}, &o); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.tenant_export.declined", o.Tenant))
				return nil
			}
			return a.exportTenant(cmd.Context(), *flags, args[0], out, adminapi.ExportWanted{Texts: &texts, Values: &values})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", cli.Both("cli.tenant_export.out"))
	cmd.Flags().StringVar(&decline, "decline", "", cli.Both("cli.tenant_export.decline"))
	cmd.Flags().BoolVar(&texts, "texts", false, cli.Both("cli.tenant_export.texts"))
	cmd.Flags().BoolVar(&values, "values", false, cli.Both("cli.tenant_export.values"))
	return cmd
}

func (a *app) exportTenant(ctx context.Context, flags cli.RemoteFlags, tenant, out string, want adminapi.ExportWanted) error {
	r, err := a.Login(ctx, flags)
	if err != nil {
		return err
	}
	r.Unhurried()
	show := a.Progress(a.Say("cli.tenant_export.bytes"))
	err = cli.WriteNew(out, func(f *os.File) error { return r.Save(ctx, offboardingPath(tenant)+"/export", want, f, show) })
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.tenant_export.done", tenant, out))
	return nil
}

func (a *app) eraseTenantCommand(flags *cli.RemoteFlags) *cobra.Command {
	var pass, ask string
	cmd := &cobra.Command{
		Use: "erase ID", Short: cli.Both("cli.tenant_erase.short"), Args: cli.Exactly(1),
		Example: "  sluice tenant erase bank --ask \"contract ended\"\n  sluice tenant erase bank --approval 0199…",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			at := offboardingPath(args[0])
			if ask != "" {
				var wait adminapi.ErasureApproval
				if err := r.Call(cmd.Context(), http.MethodPost, at+"/approvals", adminapi.Reason{Reason: ask}, &wait); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.tenant_erase.asked", wait.Id))
				return nil
			}
			var o adminapi.Offboarding
			if err := r.Call(cmd.Context(), http.MethodGet, at, nil, &o); err != nil {
				return err
			}
			if err := r.Call(cmd.Context(), http.MethodPost, at+"/erase", adminapi.TenantErasure{Plan: o.Plan, Approval: cli.IfGiven(pass)}, &o); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.tenant_erase.begun", o.Tenant))
			return nil
		},
	}
	cmd.Flags().StringVar(&pass, "pass-holds", "", cli.Both("cli.tenant_erase.pass_holds"))
	cmd.Flags().StringVar(&ask, "ask-holds", "", cli.Both("cli.tenant_erase.ask_holds"))
	return cmd
}

func (a *app) offboardingCommand(flags *cli.RemoteFlags) *cobra.Command {
	var certificate string
	cmd := &cobra.Command{
		Use: "offboarding [ID]", Short: cli.Both("cli.tenant_offboarding.short"), Args: cli.AtMost(1),
		Example: "  sluice tenant offboarding bank\n  sluice tenant offboarding bank --certificate bank.pdf",
		RunE: func(cmd *cobra.Command, args []string) error {
			if certificate != "" && len(args) == 0 {
				return cli.Misuse("cli.tenant_offboarding.which")
			}
			r, err := a.Login(cmd.Context(), *flags)
			if err != nil {
				return err
			}
			switch {
			case len(args) == 0:
				return a.listOffboardings(cmd.Context(), r)
			case certificate != "":
				return a.saveCertificate(cmd.Context(), r, args[0], certificate)
			}
			var o adminapi.Offboarding
			if err := r.Call(cmd.Context(), http.MethodGet, offboardingPath(args[0]), nil, &o); err != nil {
				return err
			}
			return a.printOffboarding(o)
		},
	}
	cmd.Flags().StringVar(&certificate, "certificate", "", cli.Both("cli.tenant_offboarding.certificate"))
	return cmd
}

func (a *app) listOffboardings(ctx context.Context, r *cli.Remote) error {
	var out adminapi.OffboardingList
	if err := r.Call(ctx, http.MethodGet, "/offboardings", nil, &out); err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tSTATE\tSTEP\tBEGUN\tERASED\tFAILURE\tREASON")
	for _, o := range out.Items {
		step := ""
		if o.Step != nil {
			step = string(*o.Step)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Tenant, o.State, orDash(step), timeText(&o.BegunAt), timeText(o.ErasedAt), orDash(valueOr(o.Failure)), o.Reason)
	}
	return w.Flush()
}

func valueOr(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (a *app) printOffboarding(o adminapi.Offboarding) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "TENANT\t%s\nSTATE\t%s\nREASON\t%s\nSUSPENDED\t%s\n", o.Tenant, o.State, o.Reason, timeText(&o.SuspendedAt))
	if o.ExportDigest != nil {
		fmt.Fprintf(w, "EXPORT\t%s, %s\n", timeText(o.ExportedAt), *o.ExportDigest)
	}
	if o.ExportDeclined != nil {
		fmt.Fprintf(w, "NO EXPORT\t%s\n", *o.ExportDeclined)
	}
	if o.Step != nil {
		fmt.Fprintf(w, "STEP\t%s %s\n", *o.Step, valueOr(o.Failure))
	}
	for _, h := range o.Holds {
		fmt.Fprintf(w, "HOLD\t%s %s\n", h.Id, valueOr(h.Reason))
	}
	fmt.Fprintln(w, "\nTABLE\tBEFORE\tNOW\tSTAYS")
	for _, c := range o.Counts {
		if c.Before+c.Now > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%t\n", c.Table, c.Before, c.Now, c.Stays)
		}
	}
	return w.Flush()
}

// saveCertificate writes the certificate in the format that the name of the file says.
func (a *app) saveCertificate(ctx context.Context, r *cli.Remote, tenant, out string) error {
	format := ""
	for _, f := range []string{"pdf", "docx", "md", "json"} {
		if strings.HasSuffix(out, "."+f) {
			format = f
		}
	}
	if format == "" {
		return cli.Misuse("cli.tenant_offboarding.format")
	}
	raw, err := r.Fetch(ctx, offboardingPath(tenant)+"/certificate"+cli.Query("format", format))
	if err != nil {
		return err
	}
	return cli.WriteNew(out, func(f *os.File) error {
		_, err := f.Write(raw)
		return err
	})
}
