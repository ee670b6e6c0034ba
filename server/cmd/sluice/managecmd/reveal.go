package managecmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// maxRevealText bounds a text that is sent to be revealed, as the API does.
const maxRevealText = 256 << 10

// revealWhat are the flags that say what is to be seen.
type revealWhat struct{ tenant, session, request, purpose, file string }

func (w *revealWhat) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.Flags().StringVar(&w.session, "session", "", cli.Both("cli.reveal_flags.session"))
	cmd.Flags().StringVar(&w.request, "request", "", cli.Both("cli.reveal_flags.request"))
	cmd.Flags().StringVar(&w.file, "file", "-", cli.Both("cli.reveal_flags.file"))
	cmd.Flags().StringVar(&w.purpose, "purpose", "", cli.Both("cli.reveal_flags.purpose"))
}

// ask builds the request for pseudonyms, or for the text of the file.
func (w *revealWhat) ask(stdin io.Reader, tokens []string) (adminapi.RevealRequest, error) {
	in := adminapi.RevealRequest{Purpose: w.purpose, Tenant: cli.IfGiven(w.tenant), Session: cli.IfGiven(w.session), Request: cli.IfGiven(w.request)}
	if (w.session == "") == (w.request == "") || w.purpose == "" {
		return in, cli.Misuse("cli.reveal.incomplete")
	}
	if len(tokens) > 0 {
		in.Tokens = &tokens
		return in, nil
	}
	if w.file != "-" {
		f, err := os.Open(w.file)
		if err != nil {
			return in, err
		}
		defer func() { _ = f.Close() }()
		stdin = f
	} else if cli.IsTerminal(stdin) {
		return in, cli.Misuse("cli.reveal.no_text")
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxRevealText+1))
	if err != nil {
		return in, fmt.Errorf("read the text: %w", err)
	}
	if len(text) > maxRevealText {
		return in, cli.Misuse("cli.reveal.too_large", maxRevealText)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return in, cli.Misuse("cli.reveal.empty")
	}
	s := string(text)
	in.Text = &s
	return in, nil
}

func (a *app) revealCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var what revealWhat
	var approval string
	cmd := &cobra.Command{
		Use: "reveal [TOKEN...]", Short: cli.Both("cli.reveal.short"),
		Long: message.Both("cli.reveal.long", "\n"),
		Example: `  sluice reveal --session case-17 --purpose complaint < answer.txt
  sluice reveal --request 01a20301-0000-7000-8000-000000000000 --purpose complaint K7Q2F`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := what.ask(a.Stdin, args)
			if err != nil {
				return err
			}
			in.Approval = cli.IfGiven(approval)
			var out adminapi.RevealAnswer
			err = a.Ask(cmd.Context(), flags, http.MethodPost, "/reveal", in, &out)
			if p := (*cli.ProblemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeApprovalNeeded) {
				fmt.Fprintln(a.Stderr, a.Say("cli.reveal.how_to_ask"))
			}
			if err != nil {
				return err
			}
			return a.printRevealed(out)
		},
	}
	flags.Register(cmd, a.App)
	what.register(cmd)
	cmd.Flags().StringVar(&approval, "approval", "", cli.Both("cli.shared.approval"))
	return cmd
}

func (a *app) approvalCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{
		Use: "approval", Short: cli.Both("cli.reveal_approval.short"),
	}
	flags.Register(cmd, a.App)
	cmd.AddCommand(a.askCommand(&flags), a.giveCommand(&flags), a.declineCommand(&flags), a.approvalsCommand(&flags))
	return cmd
}

// printRevealed prints the text, and how much of what was shown to stderr; without a text, a line for each pseudonym.
func (a *app) printRevealed(out adminapi.RevealAnswer) error {
	counts := map[adminapi.RevealedValueShown]int{}
	for _, v := range out.Values {
		counts[v.Shown]++
		if out.Text == nil {
			value := "-"
			if v.Value != nil {
				value = *v.Value
			}
			fmt.Fprintf(a.Stdout, "%s\t%s\t%s\n", v.Token, v.Shown, value)
		}
	}
	if out.Text != nil {
		if _, err := io.WriteString(a.Stdout, *out.Text); err != nil {
			return err
		}
	}
	fmt.Fprintln(a.Stderr, a.Say("cli.reveal.counts",
		counts[adminapi.RevealedValueShownClear], counts[adminapi.RevealedValueShownPartial], counts[adminapi.RevealedValueShownToken], counts[adminapi.RevealedValueShownUnknown]))
	return nil
}

func (a *app) askCommand(flags *cli.RemoteFlags) *cobra.Command {
	var what revealWhat
	cmd := &cobra.Command{
		Use: "ask [TOKEN...]", Short: cli.Both("cli.reveal_ask.short"), Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := what.ask(a.Stdin, args)
			if err != nil {
				return err
			}
			var out adminapi.RevealApproval
			if err := a.Ask(cmd.Context(), *flags, http.MethodPost, "/reveal/approvals", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stderr, a.Say("cli.reveal.waits", out.ExpiresAt.Format(time.RFC3339), out.Id))
			fmt.Fprintln(a.Stdout, out.Id)
			return nil
		},
	}
	what.register(cmd)
	return cmd
}
