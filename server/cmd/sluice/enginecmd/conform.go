package enginecmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluice-project/sluice/engine/conform"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

type conformFlags struct {
	profileFlags

	profile, url, management, metrics, model, adapter, hardware string
	key, out, report                                            string
	only                                                        []int
	destructive, unsigned, asJSON                               bool
}

// keyVariable holds the key of an engine, since flags show in process lists.
const keyVariable = "SLUICE_ENGINE_KEY"

func (a *app) conformCommand() *cobra.Command {
	f := &conformFlags{}
	cmd := &cobra.Command{
		Use: "conform", Short: cli.Both("cli.conform.short"), Args: cli.Exactly(0), Long: message.Both("cli.conform.long", "\n\n"),
		Example: `  sluice conform --profile vllm --url http://10.2.0.7:8000 --out vllm.json --report vllm.md
  sluice conform --profile mindie --url http://10.2.0.9:1025 --destructive --key signing.key
  sluice conform verify vllm.json --key "$(cat signing.pub)"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.conform(cmd.Context(), f) },
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.profile, "profile", "", cli.Both("cli.conform.profile"))
	fl.StringVar(&f.url, "url", "", cli.Both("cli.conform.url"))
	fl.StringVar(&f.management, "management-url", "", cli.Both("cli.conform.management"))
	fl.StringVar(&f.metrics, "metrics-url", "", cli.Both("cli.conform.metrics"))
	fl.StringVar(&f.model, "model", "", cli.Both("cli.conform.model"))
	fl.StringVar(&f.adapter, "adapter", "", cli.Both("cli.conform.adapter"))
	fl.StringVar(&f.hardware, "hardware", "", cli.Both("cli.conform.hardware"))
	fl.IntSliceVar(&f.only, "only", nil, cli.Both("cli.conform.only"))
	fl.BoolVar(&f.destructive, "destructive", false, cli.Both("cli.conform.destructive"))
	fl.StringVar(&f.key, "key", "", cli.Both("cli.conform.key"))
	fl.BoolVar(&f.unsigned, "unsigned", false, cli.Both("cli.conform.unsigned"))
	fl.StringVar(&f.out, "out", "", cli.Both("cli.conform.out"))
	fl.StringVar(&f.report, "report", "", cli.Both("cli.conform.report"))
	fl.BoolVar(&f.asJSON, "json", false, cli.Both("cli.shared.json"))
	cmd.MarkFlagsMutuallyExclusive("key", "unsigned")
	cmd.AddCommand(a.conformVerify(), a.conformKeygen())
	return cmd
}

func (a *app) conform(ctx context.Context, f *conformFlags) error {
	if f.profile == "" || f.url == "" {
		return cli.Misuse("cli.conform.need")
	}
	p, err := f.get(f.profile)
	if err != nil {
		return err
	}
	if err := cli.Reportable(f.report); err != nil {
		return err
	}
	key, err := a.signingKey(ctx, f)
	if err != nil {
		return err
	}
	c := conform.Config{
		Peer:  peer.Config{Profile: p, URL: f.url, Management: f.management, Metrics: f.metrics, Key: a.Getenv(keyVariable)},
		Model: f.model, Adapter: f.adapter, Hardware: f.hardware, Destructive: f.destructive, Software: "sluice " + a.Version,
	}
	for _, n := range f.only {
		if n < 1 || n > int(conform.Drain) {
			return cli.Misuse("cli.conform.no_case", n)
		}
		c.Only = append(c.Only, conform.Case(n))
	}
	r, err := conform.Run(ctx, c)
	if err != nil {
		return cli.Interrupted(err)
	}
	return a.handOver(f, r, key)
}

// signingKey is the key that was named, or that of the installation; nil if the report shall not be signed.
func (a *app) signingKey(ctx context.Context, f *conformFlags) (*conform.Key, error) {
	if f.unsigned {
		return nil, nil
	}
	if f.key != "" {
		text, err := os.ReadFile(f.key)
		if err != nil {
			return nil, err
		}
		k, err := conform.ParseKey(string(text))
		if err != nil {
			return nil, cli.Misuse("cli.conform.bad_key", f.key)
		}
		return &k, nil
	}
	cfg, err := a.Load(nil)
	if err != nil {
		return nil, err
	}
	k, err := server.ConformKey(ctx, cfg)
	if err != nil {
		return nil, cli.Misuse("cli.conform.no_key", err)
	}
	return &k, nil
}

// handOver writes the files of a report and prints it.
func (a *app) handOver(f *conformFlags, r conform.Report, key *conform.Key) error {
	file, err := r.Write(key)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := cli.WriteNew(f.out, func(w *os.File) error { _, err := w.Write(append(file, '\n')); return err }); err != nil {
			return err
		}
	}
	if f.report != "" {
		if err := cli.WriteReport(f.report, r.Document(a.Lang())); err != nil {
			return err
		}
	}
	if f.asJSON {
		if _, err := fmt.Fprintf(a.Stdout, "%s\n", file); err != nil {
			return err
		}
	} else {
		a.printReport(r)
		if key != nil {
			fmt.Fprintln(a.Stdout, a.Say("cli.conform.signed", key.Public()))
		}
	}
	if len(r.Failed()) > 0 {
		return cli.ErrFindings
	}
	return nil
}

func (a *app) printReport(r conform.Report) {
	var rows [][]string
	for _, o := range r.Cases {
		rows = append(rows, o.Line(a.Lang()))
	}
	cli.PrintColumns(a.Stdout, rows)
	fmt.Fprintln(a.Stdout, r.Verdict().In(a.Lang()))
}

func (a *app) conformVerify() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: cli.Both("cli.conform_verify.short"), Args: cli.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if key == "" {
				return cli.Misuse("cli.conform_verify.need")
			}
			data, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			r, err := conform.Read(data, key)
			if err != nil {
				return cli.Failed("cli.conform_verify.failed", err)
			}
			a.printReport(r)
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", cli.Both("cli.conform_verify.key"))
	return cmd
}

func (a *app) conformKeygen() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "keygen NAME", Short: cli.Both("cli.conform_keygen.short"), Args: cli.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" || strings.ContainsAny(args[0], " \t\n+") {
				return cli.Misuse("cli.conform_keygen.need")
			}
			private, public, err := note.GenerateKey(rand.Reader, args[0])
			if err != nil {
				return fmt.Errorf("make key: %w", err)
			}
			if err := cli.WriteNew(out, func(w *os.File) error { _, err := w.WriteString(private + "\n"); return err }); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, public)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", cli.Both("cli.conform_keygen.out"))
	return cmd
}
