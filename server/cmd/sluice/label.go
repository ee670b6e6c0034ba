package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/cmd/sluice/managecmd"
)

// labelling is what the command is told.
type labelling struct{ tenant, label, out, text string }

func (a *app) labelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "label", Short: cli.Both("cli.label.short")}
	cmd.AddCommand(a.writeLabelCommand(), a.readLabelCommand(), a.checkLabelCommand(), a.certificateCommand(), managecmd.LabelAgreements(a.App))
	return cmd
}

func (a *app) writeLabelCommand() *cobra.Command {
	var in labelling
	cmd := &cobra.Command{
		Use: "write FILE", Short: cli.Both("cli.label_write.short"), Args: cli.Exactly(1),
		Long: message.Both("cli.label_write.long", "\n"),
		Example: `  sluice label write --tenant demo --label "$LABEL" answer.docx
  sluice label write --tenant demo --label "$LABEL" --out marked.pdf answer.pdf`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.writeLabel(cmd.Context(), args[0], in) },
	}
	cmd.Flags().StringVar(&in.tenant, "tenant", "", cli.Both("cli.label.tenant"))
	cmd.Flags().StringVar(&in.label, "label", "", cli.Both("cli.label.label"))
	cmd.Flags().StringVar(&in.out, "out", "", cli.Both("cli.label.out"))
	cmd.Flags().StringVar(&in.text, "text", "", cli.Both("cli.label.text"))
	return cmd
}

// labeler opens the master key: nothing has to run.
func (a *app) labeler(ctx context.Context) (*label.Labeler, error) {
	cfg, err := a.Load(nil)
	if err != nil {
		return nil, err
	}
	l, err := server.Labeler(ctx, cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Failed("cli.label.no_master_key", cfg.MasterKeyFile)
	}
	return l, err
}

// credentials opens what signs and proves content credentials: nothing has to run.
func (a *app) credentials(ctx context.Context) (*c2pa.Authority, labelfile.Writer, error) {
	cfg, err := a.Load(nil)
	if err != nil {
		return nil, labelfile.Writer{}, err
	}
	authority, w, err := server.Credentials(ctx, cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, labelfile.Writer{}, cli.Failed("cli.label.no_master_key", cfg.MasterKeyFile)
	}
	return authority, w, err
}

func (a *app) certificateCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "certificate", Short: cli.Both("cli.label_certificate.short"), Args: cli.Exactly(0),
		Long:    message.Both("cli.label_certificate.long", "\n"),
		Example: `  sluice label certificate --out content-credentials.pem`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			authority, _, err := a.credentials(cmd.Context())
			if err != nil {
				return err
			}
			if out == "" {
				_, err = a.Stdout.Write(authority.CertificatePEM())
				return err
			}
			return cli.WriteNew(out, func(f *os.File) error {
				_, err := f.Write(authority.CertificatePEM())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", cli.Both("cli.label_certificate.out"))
	return cmd
}

// writeLabel writes the labelled file beside the other one, which stays as it is. It takes the label that an answer came with and makes none: whoever could have one made
// for any text could say of any text that it was generated here.
func (a *app) writeLabel(ctx context.Context, path string, in labelling) error {
	if in.tenant == "" {
		return cli.Misuse("cli.label.no_tenant")
	}
	if in.label == "" {
		return cli.Misuse("cli.label.none_given")
	}
	x, err := label.Parse(in.label)
	if err != nil {
		return cli.Misuse("cli.label.no_label", err)
	}
	if in.text == "" {
		in.text = label.Wording(label.ChannelExport, a.Lang() == message.Chinese)
	}
	if !label.Marks(in.text) {
		return cli.Misuse("cli.label.no_marks")
	}
	l, err := a.labeler(ctx)
	if err != nil {
		return err
	}
	if err := l.VerifyWhole(x, in.tenant); err != nil {
		return cli.Failed("cli.label.foreign", in.tenant)
	}
	_, w, err := a.credentials(ctx)
	if err != nil {
		return err
	}
	kind, data, err := a.fileOf(path)
	if err != nil {
		return err
	}
	got, err := w.Write(kind, data, x, in.text)
	if err != nil {
		return err
	}
	out := in.out
	if out == "" {
		ending := filepath.Ext(path)
		out = strings.TrimSuffix(path, ending) + ".labelled" + ending
	}
	if err := cli.WriteNew(out, func(f *os.File) error {
		_, err := f.Write(got.Data)
		return err
	}); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.label.written", out, x.ProduceID))
	if !got.Visible {
		fmt.Fprintln(a.Stdout, a.Say("cli.label.not_visible"))
	}
	if got.Signed {
		fmt.Fprintln(a.Stdout, a.Say("cli.label.was_signed"))
	}
	switch got.Credentials {
	case labelfile.CredentialsWritten:
		fmt.Fprintln(a.Stdout, a.Say("cli.label.credentials_written"))
	case labelfile.CredentialsSuite:
		fmt.Fprintln(a.Stdout, a.Say("cli.label.credentials_suite"))
	case labelfile.CredentialsSigned:
		fmt.Fprintln(a.Stdout, a.Say("cli.label.credentials_signed"))
	case labelfile.CredentialsOff, labelfile.CredentialsNoPlace: // as it was asked for; as it is
	}
	return nil
}

// fileOf reads a file, no more of it than is looked at.
func (a *app) fileOf(path string) (labelfile.Kind, []byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // nobody may ever write into a pipe
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > labelfile.MaxBytes {
		return "", nil, cli.Failed("cli.label.too_large", path, labelfile.MaxBytes>>20)
	}
	data, err := io.ReadAll(io.LimitReader(f, labelfile.MaxBytes+1))
	if err != nil {
		return "", nil, err
	}
	kind, err := labelfile.Detect(filepath.Base(path), data)
	return kind, data, err
}

func (a *app) readLabelCommand() *cobra.Command {
	var tenant, certificate string
	cmd := &cobra.Command{
		Use: "read FILE", Short: cli.Both("cli.label_read.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.label_read.long", "\n"),
		Example: `  sluice label read --tenant demo answer.docx`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.readLabel(cmd.Context(), args[0], tenant, certificate)
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", cli.Both("cli.label_read.tenant"))
	cmd.Flags().StringVar(&certificate, "certificate", "", cli.Both("cli.label_read.certificate"))
	return cmd
}

func (a *app) readLabel(ctx context.Context, path, tenant, certificate string) error {
	kind, data, err := a.fileOf(path)
	if err != nil {
		return err
	}
	found, err := labelfile.Read(kind, data)
	if err != nil {
		return err
	}
	var l *label.Labeler
	if tenant != "" {
		if l, err = a.labeler(ctx); err != nil {
			return err
		}
	}
	foreign := false
	for _, m := range found.Marks {
		here := l != nil && m.MadeHere(l, tenant)
		foreign = foreign || !here
		if !m.Whole {
			fmt.Fprintln(a.Stdout, a.Say("cli.label_read.broken", m.Place))
			continue
		}
		fmt.Fprintln(a.Stdout, a.Say("cli.label_read.found", m.Place, m.Label.HeaderValue()))
		if here {
			fmt.Fprintln(a.Stdout, a.Say("cli.label.ours", tenant, m.Label.ProduceID, l.KeyID(tenant)))
		}
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.label_read.visible", a.visibleText(found.Visible)))
	doubtful, err := a.readCredentials(ctx, kind, data, tenant != "", certificate)
	if err != nil {
		return err
	}
	switch {
	case len(found.Marks) == 0:
		fmt.Fprintln(a.Stdout, a.Say("cli.label_read.none"))
		return cli.ErrFindings
	case l != nil && foreign:
		fmt.Fprintln(a.Stdout, a.Say("cli.label.foreign", tenant))
		return cli.ErrFindings
	case doubtful:
		return cli.ErrFindings
	}
	return nil
}

// anchors are the certificates that prove content credentials: those of a file, else this installation's; none where the key may be missing, and is.
func (a *app) anchors(ctx context.Context, key bool, certificate string) (c2pa.Anchors, error) {
	if certificate != "" {
		text, err := os.ReadFile(certificate)
		if err != nil {
			return c2pa.Anchors{}, err
		}
		out, err := c2pa.ParseCertificates(text)
		if err != nil {
			return c2pa.Anchors{}, cli.Failed("cli.label_read.no_certificate", certificate)
		}
		return c2pa.Anchors{Certificates: out}, nil
	}
	cfg, err := a.Load(nil)
	if err != nil {
		return c2pa.Anchors{}, err
	}
	authority, _, err := server.Credentials(ctx, cfg)
	if errors.Is(err, fs.ErrNotExist) {
		if key {
			return c2pa.Anchors{}, cli.Failed("cli.label.no_master_key", cfg.MasterKeyFile)
		}
		return c2pa.Anchors{}, nil
	}
	if err != nil {
		return c2pa.Anchors{}, err
	}
	return authority.Anchors(), nil
}

// readCredentials says what the content credentials of a file prove. Doubtful are those that do not hold, and, where a tenant or a certificate says who is to have signed, all that do not prove it.
func (a *app) readCredentials(ctx context.Context, kind labelfile.Kind, data []byte, key bool, certificate string) (doubtful bool, err error) {
	if !labelfile.HasCredentials(kind) {
		return false, nil
	}
	anchors, err := a.anchors(ctx, key, certificate)
	if err != nil {
		return false, err
	}
	r := labelfile.CheckCredentials(kind, data, anchors)
	if r == nil {
		fmt.Fprintln(a.Stdout, a.Say("cli.label_read.credentials_none"))
		return false, nil
	}
	signer := cmp.Or(r.Signer, "-")
	switch r.State {
	case c2pa.Trusted:
		fmt.Fprintln(a.Stdout, a.Say("cli.label_read.credentials_trusted", signer))
	case c2pa.UnknownSigner:
		if len(anchors.Certificates) == 0 {
			fmt.Fprintln(a.Stdout, a.Say("cli.label_read.credentials_unheld", signer))
		} else {
			fmt.Fprintln(a.Stdout, a.Say("cli.label_read.credentials_unknown", signer))
		}
	case c2pa.Broken:
		fmt.Fprintln(a.Stdout, a.Say("cli.label_read.credentials_broken", string(r.Code)))
	case c2pa.Unjudged:
		fmt.Fprintln(a.Stdout, a.Say("cli.label_read.credentials_unjudged", string(r.Code)))
	}
	return r.State == c2pa.Broken || r.State != c2pa.Trusted && (key || certificate != ""), nil
}

// visibleText says whether a visible label was seen.
func (a *app) visibleText(v labelfile.Visible) string {
	switch v {
	case labelfile.VisibleYes:
		return a.Say("cli.label_read.yes")
	case labelfile.VisibleNo:
		return a.Say("cli.label_read.no")
	default:
		return a.Say("cli.label_read.undecided")
	}
}

func (a *app) checkLabelCommand() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use: "check LABEL", Short: cli.Both("cli.label_check.short"), Args: cli.Exactly(1),
		Long:    message.Both("cli.label_check.long", "\n"),
		Example: `  sluice label check --tenant demo "$LABEL"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tenant == "" {
				return cli.Misuse("cli.label.no_tenant")
			}
			x, err := label.Parse(args[0])
			if err != nil {
				return cli.Misuse("cli.label.no_label", err)
			}
			l, err := a.labeler(cmd.Context())
			if err != nil {
				return err
			}
			if l.Verify(x, tenant) != nil {
				fmt.Fprintln(a.Stdout, a.Say("cli.label.foreign", tenant))
				return cli.ErrFindings
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.label.ours", tenant, x.ProduceID, l.KeyID(tenant)))
			return nil
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", cli.Both("cli.label.tenant"))
	return cmd
}
