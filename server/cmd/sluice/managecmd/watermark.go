package managecmd

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) watermarkCommand() *cobra.Command {
	var flags cli.RemoteFlags
	cmd := &cobra.Command{Use: "watermark", Short: cli.Both("cli.watermark.short"), Long: cli.Both("cli.watermark.long")}
	flags.Register(cmd, a.App)
	flags.Act.Register(cmd)
	var only string
	detect := &cobra.Command{
		Use: "detect [FILE|-]", Short: cli.Both("cli.watermark_detect.short"), Long: cli.Both("cli.watermark_detect.long"), Args: cli.AtMost(1),
		Example: "  sluice watermark detect letter.txt\n  sluice watermark detect < letter.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.readText(args)
			if err != nil {
				return err
			}
			q := adminapi.WatermarkQuestion{Text: text}
			if only != "" {
				q.Key = &only
			}
			var out adminapi.WatermarkFinding
			if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/watermark/detect", q, &out); err != nil {
				return err
			}
			a.printFinding(text, out)
			return nil
		},
	}
	detect.Flags().StringVar(&only, "key", "", cli.Both("cli.watermark_detect.key"))
	cmd.AddCommand(
		detect,
		&cobra.Command{
			Use: "keys", Short: cli.Both("cli.watermark_keys.short"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				var out adminapi.WatermarkKeyList
				if err := a.Ask(cmd.Context(), flags, http.MethodGet, "/watermark/keys", nil, &out); err != nil {
					return err
				}
				return a.printWatermarkKeys(out.Items)
			},
		},
		&cobra.Command{
			Use: "rotate", Short: cli.Both("cli.watermark_rotate.short"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				var out adminapi.WatermarkKeyList
				if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/watermark/keys/rotate", nil, &out); err != nil {
					return err
				}
				if len(out.Items) == 0 {
					return cli.Failed("cli.watermark_rotate.none")
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.watermark_rotate.done", out.Items[0].Id))
				return nil
			},
		},
		&cobra.Command{
			Use: "revoke ID", Short: cli.Both("cli.watermark_revoke.short"), Args: cli.Exactly(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				var out adminapi.WatermarkKey
				if err := a.Ask(cmd.Context(), flags, http.MethodPost, "/watermark/keys/"+url.PathEscape(args[0])+"/revoke", nil, &out); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.watermark_revoke.done", out.Id))
				return nil
			},
		},
	)
	return cmd
}

// readText reads a file, or what stands on the standard input, as a model would have written it: without a byte order mark, and with plain line feeds.
func (a *app) readText(args []string) (string, error) {
	in := a.Stdin
	if len(args) > 0 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return "", fmt.Errorf("read the text: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, 2*tenantmark.MaxText+3))
	text = bytes.ReplaceAll(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("\r\n"), []byte("\n"))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the text: %w", err)
	case len(text) == 0 || len(text) > tenantmark.MaxText:
		return "", cli.Misuse("cli.watermark_detect.size", tenantmark.MaxText)
	case !utf8.Valid(text):
		return "", cli.Misuse("cli.watermark_detect.encoding")
	}
	return string(text), nil
}

// printFinding says what there is to say of a text. p is rounded up: it is never said to be smaller than it is.
func (a *app) printFinding(text string, f adminapi.WatermarkFinding) {
	say := func(id message.ID, args ...any) { fmt.Fprintln(a.Stdout, a.Say(id, args...)) }
	switch f.Verdict {
	case adminapi.Found:
		say("cli.watermark_detect.found", math.Ceil(f.Log10P), f.Key.Id, f.Key.Number)
	case adminapi.Indication:
		if f.Key.RevokedAt != nil {
			say("cli.watermark_detect.revoked", f.Key.Id, f.Key.Number, timeText(f.Key.RevokedAt))
			break
		}
		say("cli.watermark_detect.indication", math.Ceil(f.Log10P*10)/10, f.Key.Id, f.Key.Number)
	case adminapi.NotFound:
		say("cli.watermark_detect.not_found", f.P)
	case adminapi.CannotSay:
		switch *f.Reason {
		case adminapi.WatermarkFindingReasonShort:
			say("cli.watermark_detect.reason_short", f.CountedTokens, f.LeastTokens)
		case adminapi.WatermarkFindingReasonKey:
			say("cli.watermark_detect.reason_key")
		case adminapi.WatermarkFindingReasonTokenizer:
			say("cli.watermark_detect.reason_tokenizer")
		}
	}
	if f.BeginByte != nil && f.EndByte != nil && *f.BeginByte >= 0 && *f.BeginByte < *f.EndByte && *f.EndByte <= len(text) {
		passage := text[*f.BeginByte:*f.EndByte]
		say("cli.watermark_detect.passage", *f.BeginByte, *f.EndByte, 100*len(passage)/len(text), opening(passage))
	}
	say("cli.watermark_detect.tried", f.Tokens, f.CountedTokens, f.Keys, f.Readings)
	if f.UntriedKeys > 0 {
		say("cli.watermark_detect.untried", f.UntriedKeys)
	}
	if f.UnreadableKeys != nil {
		say("cli.watermark_detect.unreadable", strings.Join(*f.UnreadableKeys, ", "))
	}
}

// opening is how a passage begins.
func opening(passage string) string {
	const most = 60
	if r := []rune(passage); len(r) > most {
		return string(r[:most]) + "…"
	}
	return passage
}

func (a *app) printWatermarkKeys(keys []adminapi.WatermarkKey) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tEPOCH\tSCHEME\tCREATED\tRETIRED\tREVOKED")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", k.Id, k.Number, k.Scheme, timeText(&k.CreatedAt), timeText(k.RetiredAt), timeText(k.RevokedAt))
	}
	return w.Flush()
}
