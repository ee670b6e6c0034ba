package managecmd

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) breakGlassCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "break-glass", Short: cli.Both("cli.break_glass.short")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	cmd.AddCommand(a.sealCommand(&flags), a.listBreakGlassCommand(&flags), a.openBreakGlassCommand(&flags), a.reviewBreakGlassCommand(&flags), a.endBreakGlassCommand(&flags),
		&cobra.Command{
			Use: "revoke ID", Short: cli.Both("cli.break_glass_revoke.short"), Args: cli.Exactly(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/break-glass/seals/"+url.PathEscape(args[0])+"/revoke", nil, nil); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.break_glass_revoke.done", args[0]))
				return nil
			},
		})
	return cmd
}

func (a *app) sealCommand(flags *cli.RemoteFlags) *cobra.Command {
	var copies int
	var whole bool
	cmd := &cobra.Command{
		Use: "seal", Short: cli.Both("cli.break_glass_seal.short"), Args: cli.Exactly(0),
		Example: "  sluice break-glass seal --copies 2",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.SealedCredentials
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/break-glass/seals", adminapi.NewSeals{Copies: &copies, Whole: &whole}, &out); err != nil {
				return err
			}
			for _, c := range out.Items {
				for i, half := range c.Secrets {
					fmt.Fprintf(a.Stdout, "%s\n\n    %s\n\n", a.Say("cli.break_glass_seal.half", c.Seal.Id, i+1, len(c.Secrets)), half)
				}
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.break_glass_seal.once"))
			return nil
		},
	}
	cmd.Flags().IntVar(&copies, "copies", 1, cli.Both("cli.break_glass_seal.copies"))
	cmd.Flags().BoolVar(&whole, "whole", false, cli.Both("cli.break_glass_seal.whole"))
	return cmd
}

func (a *app) listBreakGlassCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: cli.Both("cli.break_glass_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out adminapi.BreakGlassList
			if err := a.Ask(cmd.Context(), *flags, http.MethodGet, "/break-glass", nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "SEAL\tHALVES\tCREATED\tBY\tSPENT\tREVOKED")
			for _, s := range out.Seals {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", s.Id, s.Halves, timeText(&s.CreatedAt), orDash(valueOr(s.CreatedBy)), timeText(s.SpentAt), timeText(s.RevokedAt))
			}
			fmt.Fprintln(w, "\nUSE\tSEAL\tFROM\tSTARTED\tEXPIRES\tOPEN\tREVIEW DUE\tREVIEWED\tREASON")
			for _, u := range out.Uses {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%t\t%s\t%s\t%s\n", u.Id, u.Seal, u.Source, timeText(&u.StartedAt), timeText(&u.ExpiresAt), u.Open, timeText(&u.ReviewDueAt), timeText(u.ReviewedAt), u.Reason)
			}
			return w.Flush()
		},
	}
}

func (a *app) openBreakGlassCommand(flags *cli.RemoteFlags) *cobra.Command {
	var reason string
	var whole bool
	cmd := &cobra.Command{
		Use: "open", Short: cli.Both("cli.break_glass_open.short"), Args: cli.Exactly(0),
		Example: `  export SLUICE_SESSION=$(sluice break-glass open --reason "nobody can sign in")`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return cli.Misuse("cli.break_glass_open.no_reason")
			}
			halves := 2
			if whole {
				halves = 1
			}
			in := adminapi.BreakGlassOpening{Reason: reason}
			for n := range halves {
				variable := fmt.Sprintf("SLUICE_BREAK_GLASS_%d", n+1)
				half, err := a.Secret(cmd.Context(), variable, a.Say("cli.break_glass_open.half", n+1, halves), cli.Misuse("cli.break_glass_open.no_half", variable))
				if err != nil {
					return err
				}
				in.Halves = append(in.Halves, half)
			}
			var s adminapi.Session
			if err := a.Stranger(*flags).Call(cmd.Context(), http.MethodPost, "/session/break-glass", in, &s); err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.break_glass_open.done", timeText(&s.ExpiresAt)))
			fmt.Fprintln(a.Stdout, s.AccessToken)
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", cli.Both("cli.break_glass_open.reason"))
	cmd.Flags().BoolVar(&whole, "whole", false, cli.Both("cli.break_glass_open.whole"))
	return cmd
}

func (a *app) endBreakGlassCommand(flags *cli.RemoteFlags) *cobra.Command {
	return &cobra.Command{
		Use: "end ID", Short: cli.Both("cli.break_glass_end.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out adminapi.BreakGlassUse
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/break-glass/uses/"+url.PathEscape(args[0])+"/end", nil, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.break_glass_end.done", out.Id))
			return nil
		},
	}
}

func (a *app) reviewBreakGlassCommand(flags *cli.RemoteFlags) *cobra.Command {
	var found string
	cmd := &cobra.Command{
		Use: "review ID", Short: cli.Both("cli.break_glass_review.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if found == "" {
				return cli.Misuse("cli.break_glass_review.no_finding")
			}
			var out adminapi.BreakGlassUse
			err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/break-glass/uses/"+url.PathEscape(args[0])+"/review", adminapi.Reason{Reason: found}, &out)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.break_glass_review.done", out.Id))
			return nil
		},
	}
	cmd.Flags().StringVar(&found, "reason", "", cli.Both("cli.break_glass_review.reason"))
	return cmd
}
