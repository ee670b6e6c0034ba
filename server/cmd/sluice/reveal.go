package main

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
)

// maxRevealText bounds a text that is sent to be revealed, as the API does.
const maxRevealText = 256 << 10

// revealWhat are the flags that say what is to be seen.
type revealWhat struct{ tenant, session, request, purpose, file string }

func (w *revealWhat) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.tenant, "tenant", "", both("cli.shared.tenant"))
	cmd.Flags().StringVar(&w.session, "session", "", both("cli.reveal_flags.session"))
	cmd.Flags().StringVar(&w.request, "request", "", both("cli.reveal_flags.request"))
	cmd.Flags().StringVar(&w.file, "file", "-", both("cli.reveal_flags.file"))
	cmd.Flags().StringVar(&w.purpose, "purpose", "", both("cli.reveal_flags.purpose"))
}

// ask builds the request for pseudonyms, or for the text of the file.
func (w *revealWhat) ask(stdin io.Reader, tokens []string) (adminapi.RevealRequest, error) {
	in := adminapi.RevealRequest{Purpose: w.purpose, Tenant: ifGiven(w.tenant), Session: ifGiven(w.session), Request: ifGiven(w.request)}
	if (w.session == "") == (w.request == "") || w.purpose == "" {
		return in, usageError{errors.New("want --purpose, and either --session or --request")}
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
	} else if isTerminal(stdin) {
		return in, usageError{errors.New("give pseudonyms as arguments, or a text with them in --file or on standard input")}
	}
	text, err := io.ReadAll(io.LimitReader(stdin, maxRevealText+1))
	if err != nil {
		return in, fmt.Errorf("read the text: %w", err)
	}
	if len(text) > maxRevealText {
		return in, usageError{fmt.Errorf("the text is larger than %d bytes; send it in parts", maxRevealText)}
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return in, usageError{errors.New("the text is empty: give pseudonyms as arguments, or a text with them in --file or on standard input")}
	}
	s := string(text)
	in.Text = &s
	return in, nil
}

func (a *app) revealCommand() *cobra.Command {
	var flags remoteFlags
	var what revealWhat
	var approval string
	cmd := &cobra.Command{
		Use: "reveal [TOKEN...]", Short: both("cli.reveal.short"),
		Long: message.Both("cli.reveal.long", "\n"),
		Example: `  sluice reveal --session case-17 --purpose complaint < answer.txt
  sluice reveal --request 01a20301-0000-7000-8000-000000000000 --purpose complaint K7Q2F`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := what.ask(a.env.stdin, args)
			if err != nil {
				return err
			}
			in.Approval = ifGiven(approval)
			var out adminapi.RevealAnswer
			err = a.ask(cmd.Context(), flags, http.MethodPost, "/reveal", in, &out)
			if p := (*problemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeApprovalNeeded) {
				fmt.Fprintln(a.env.stderr, a.say("cli.reveal.how_to_ask"))
			}
			if err != nil {
				return err
			}
			return a.printRevealed(out)
		},
	}
	flags.register(cmd, a.env)
	what.register(cmd)
	cmd.Flags().StringVar(&approval, "approval", "", both("cli.shared.approval"))
	return cmd
}

func (a *app) approvalCommand() *cobra.Command {
	var flags remoteFlags
	cmd := &cobra.Command{
		Use: "approval", Short: both("cli.reveal_approval.short"),
	}
	flags.register(cmd, a.env)
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
			fmt.Fprintf(a.env.stdout, "%s\t%s\t%s\n", v.Token, v.Shown, value)
		}
	}
	if out.Text != nil {
		if _, err := io.WriteString(a.env.stdout, *out.Text); err != nil {
			return err
		}
	}
	fmt.Fprintln(a.env.stderr, a.say("cli.reveal.counts",
		counts[adminapi.RevealedValueShownClear], counts[adminapi.RevealedValueShownPartial], counts[adminapi.RevealedValueShownToken], counts[adminapi.RevealedValueShownUnknown]))
	return nil
}

func (a *app) askCommand(flags *remoteFlags) *cobra.Command {
	var what revealWhat
	cmd := &cobra.Command{
		Use: "ask [TOKEN...]", Short: both("cli.reveal_ask.short"), Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := what.ask(a.env.stdin, args)
			if err != nil {
				return err
			}
			var out adminapi.RevealApproval
			if err := a.ask(cmd.Context(), *flags, http.MethodPost, "/reveal/approvals", in, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.env.stderr, a.say("cli.reveal.waits", out.ExpiresAt.Format(time.RFC3339), out.Id))
			fmt.Fprintln(a.env.stdout, out.Id)
			return nil
		},
	}
	what.register(cmd)
	return cmd
}
