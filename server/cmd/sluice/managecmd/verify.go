package managecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/provenance"
)

// leastText is how many characters an argument has that is taken for a text.
const leastText = 40

func (a *app) verifyCommand() *cobra.Command {
	var flags cli.RemoteFlags
	var tenant, signature, out string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify TEXT|FILE|-", Short: cli.Both("cli.verify.short"), Long: message.Both("cli.verify.long", "\n"), Args: cli.Exactly(1),
		Example: "  sluice verify letter.docx\n  sluice verify --signature answer.jws answer.txt --out origin.zip\n  sluice verify - < paragraph.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := a.question(args[0], signature)
			if err != nil {
				return err
			}
			at := "/audit/provenance"
			query := ""
			if tenant != "" {
				query = "?tenant=" + url.QueryEscape(tenant)
			}
			r, err := a.Login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			var v provenance.Verdict
			if err := r.Call(cmd.Context(), http.MethodPost, at+query, q, &v); err != nil {
				return err
			}
			if err := a.showVerdict(v, asJSON); err != nil {
				return err
			}
			if out != "" {
				if err := a.saveEvidence(cmd.Context(), r, at+"/evidence"+query, q, out); err != nil {
					return err
				}
			}
			if !v.LeadsHere() {
				return cli.ErrFindings
			}
			return nil
		},
	}
	flags.Register(cmd, a.App)
	cmd.Flags().StringVar(&tenant, "tenant", "", cli.Both("cli.verify.tenant"))
	cmd.Flags().StringVar(&signature, "signature", "", cli.Both("cli.verify.signature"))
	cmd.Flags().StringVar(&out, "out", "", cli.Both("cli.verify.out"))
	cmd.Flags().BoolVar(&asJSON, "json", false, cli.Both("cli.shared.json"))
	return cmd
}

// question makes one of a file, of what comes in, or of a text.
func (a *app) question(arg, signature string) (adminapi.ProvenanceQuestion, error) {
	var q adminapi.ProvenanceQuestion
	if signature != "" {
		jws, err := os.ReadFile(signature)
		if err != nil {
			return q, cli.Failed("cli.verify.unread", signature, err)
		}
		q.Signature = cli.IfGiven(string(jws))
	}
	if arg == "-" {
		text, err := io.ReadAll(io.LimitReader(a.Stdin, provenance.MaxText+1))
		if err != nil {
			return q, cli.Failed("cli.verify.unread", arg, err)
		}
		said := string(text)
		q.Text = &said
		return q, nil
	}
	f, err := os.Open(arg)
	if errors.Is(err, fs.ErrNotExist) || err != nil && len(arg) > 255 {
		if utf8.RuneCountInString(arg) < leastText || !strings.ContainsFunc(arg, func(r rune) bool { return r == ' ' || r > unicode.MaxASCII }) { // the name of a file that is not there
			return q, cli.Misuse("cli.verify.no_file", arg, leastText)
		}
		q.Text = &arg
		return q, nil
	}
	if err != nil {
		return q, cli.Failed("cli.verify.unread", arg, err)
	}
	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(f, provenance.MaxFile+1))
	if err != nil {
		return q, cli.Failed("cli.verify.unread", arg, err)
	}
	if len(data) > provenance.MaxFile {
		return q, cli.Misuse("cli.verify.too_large", arg, provenance.MaxFile>>20)
	}
	name := filepath.Base(arg)
	q.Name, q.Content = &name, &data
	return q, nil
}

func (a *app) showVerdict(v provenance.Verdict, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(a.Stdout, v)
	}
	return report.Write(a.Stdout, report.Markdown, v.Document(a.Lang(), ""))
}

func (a *app) saveEvidence(ctx context.Context, r *cli.Remote, at string, q adminapi.ProvenanceQuestion, out string) error {
	err := cli.WriteNew(out, func(f *os.File) error { return r.Save(ctx, at, q, f, func(int, int) {}) })
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stderr, a.Say("cli.verify.saved", out))
	return nil
}
