package maskcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/scan"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// app has the commands of this package.
type app struct{ *cli.App }

// Mask returns the commands that mask files.
func Mask(shared *cli.App) *cobra.Command {
	a := &app{shared}
	cmd := &cobra.Command{
		Use: "mask", Short: cli.Both("cli.mask.short"),
	}
	cmd.AddCommand(a.maskScan())
	return cmd
}

type scanFlags struct {
	types      []string
	format     string
	onlyCounts bool
	explain    bool
}

func (a *app) maskScan() *cobra.Command {
	f := &scanFlags{}
	cmd := &cobra.Command{
		Use: "scan [FILE…]", Short: cli.Both("cli.mask_scan.short"),
		Long: message.Both("cli.mask_scan.long", "\n\n"),
		Example: `  sluice mask scan calls.jsonl > found.jsonl
  sluice mask scan --only-counts *.txt
  sluice mask scan --explain note.txt
  cat note.txt | sluice mask scan --types person,cn_mobile`,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := f.check()
			if err != nil {
				return err
			}
			return a.scan(cmd.Context(), f, set, args)
		},
	}
	cmd.Flags().StringSliceVar(&f.types, "types", nil, cli.Both("cli.mask_scan.types"))
	cmd.Flags().StringVar(&f.format, "format", "auto", cli.Both("cli.mask_scan.format"))
	cmd.Flags().BoolVar(&f.onlyCounts, "only-counts", false, cli.Both("cli.mask_scan.only_counts"))
	cmd.Flags().BoolVar(&f.explain, "explain", false, cli.Both("cli.mask_scan.explain"))
	return cmd
}

// check refuses what does not go together, and returns the detectors of the types.
func (f *scanFlags) check() (*classify.Set, error) {
	known, classes := classify.Classes(), []classify.Class{}
	for _, name := range f.types {
		c := classify.Class(strings.TrimSpace(name))
		if !slices.Contains(known, c) {
			names := make([]string, len(known))
			for i, k := range known {
				names[i] = string(k)
			}
			return nil, cli.Misuse("cli.mask.no_type", name, strings.Join(names, ", "))
		}
		classes = append(classes, c)
	}
	if !slices.Contains([]scan.Format{scan.Auto, scan.JSONLines, scan.PlainText}, scan.Format(f.format)) {
		return nil, cli.Misuse("cli.mask.no_format", f.format)
	}
	if f.onlyCounts && f.explain {
		return nil, cli.Misuse("cli.mask.counts_or_explain")
	}
	return classify.New(classes...), nil
}

func (a *app) scan(ctx context.Context, f *scanFlags, set *classify.Set, paths []string) error {
	total, err := sizeOf(paths)
	if err != nil {
		return err
	}
	cfg := scan.Config{Set: set, Format: scan.Format(f.format), Explain: f.explain}
	if !f.onlyCounts {
		cfg.Out = a.Stdout
	}
	var show func(done, total int)
	if total > 0 {
		show = a.Progress("MB")
	}
	if show != nil {
		cfg.Progress = func(read int64) {
			if read < total {
				show(int(read/1e6), int(total/1e6)+1)
			}
		}
	}
	s := scan.New(cfg)
	err = errors.Join(readAll(ctx, s, paths, a.Stdin), s.Close()) // what was found before a failure is printed, too
	if show != nil {
		show(1, 1)
	}
	if err != nil {
		return cli.Interrupted(err)
	}
	if f.onlyCounts {
		a.printCounts(s.Counts())
	}
	return a.unread(s.Counts())
}

// sizeOf is how many bytes the files have together.
func sizeOf(paths []string) (total int64, err error) {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return 0, err
		}
		if info.IsDir() {
			return 0, cli.Misuse("cli.mask.folder", p)
		}
		total += info.Size()
	}
	return total, nil
}

func readAll(ctx context.Context, s *scan.Scanner, paths []string, stdin io.Reader) error {
	if len(paths) == 0 {
		return s.Read(ctx, "stdin", stdin)
	}
	for _, p := range paths {
		if err := s.File(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// printCounts prints how much was found of each type.
func (a *app) printCounts(c scan.Counts) {
	rows := [][]string{{a.Say("cli.shared.type"), a.Say("cli.mask.values"), a.Say("cli.mask.texts")}}
	for _, class := range classify.Classes() {
		if n := c.Findings[class]; n > 0 {
			rows = append(rows, []string{string(class), fmt.Sprint(n), fmt.Sprint(c.In[class])})
		}
	}
	rows = append(rows, []string{a.Say("cli.mask.all_texts"), "", fmt.Sprint(c.Texts)})
	cli.PrintColumns(a.Stdout, rows)
}

// unread names what could not be read; nil if all could.
func (a *app) unread(c scan.Counts) error {
	if c.UnreadTotal == 0 {
		return nil
	}
	var places []string
	for _, u := range c.Unread {
		places = append(places, "  "+u.Place+": "+a.unreadText(u.Why))
	}
	more := ""
	if n := c.UnreadTotal - len(c.Unread); n > 0 {
		more = "\n" + a.Say("cli.mask.more", n)
	}
	return errors.New(a.Say("cli.mask.unread", c.UnreadTotal, strings.Join(places, "\n"), more))
}

func (a *app) unreadText(p scan.Problem) string {
	switch p {
	case scan.TextTooLong:
		return a.Say("cli.mask.too_long")
	case scan.LineTooLong:
		return a.Say("cli.mask.line_too_long")
	case scan.NoObject:
		return a.Say("cli.mask.not_json")
	default:
		return a.Say("cli.mask.not_utf8")
	}
}
