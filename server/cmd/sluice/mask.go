package main

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
)

func (a *app) maskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mask", Short: both("cli.mask.short"),
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
		Use: "scan [FILE…]", Short: both("cli.mask_scan.short"),
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
	cmd.Flags().StringSliceVar(&f.types, "types", nil, both("cli.mask_scan.types"))
	cmd.Flags().StringVar(&f.format, "format", "auto", both("cli.mask_scan.format"))
	cmd.Flags().BoolVar(&f.onlyCounts, "only-counts", false, both("cli.mask_scan.only_counts"))
	cmd.Flags().BoolVar(&f.explain, "explain", false, both("cli.mask_scan.explain"))
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
			return nil, usageError{fmt.Errorf("--types: there is no type %q; the types are %s", name, strings.Join(names, ", "))}
		}
		classes = append(classes, c)
	}
	if !slices.Contains([]scan.Format{scan.Auto, scan.JSONLines, scan.PlainText}, scan.Format(f.format)) {
		return nil, usageError{fmt.Errorf("--format is %q; want auto, jsonl or text", f.format)}
	}
	if f.onlyCounts && f.explain {
		return nil, usageError{errors.New("--only-counts prints no values to --explain; leave one of them out")}
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
		cfg.Out = a.env.stdout
	}
	var show func(done, total int)
	if total > 0 {
		show = a.progress("MB")
	}
	if show != nil {
		cfg.Progress = func(read int64) {
			if read < total {
				show(int(read/1e6), int(total/1e6)+1)
			}
		}
	}
	s := scan.New(cfg)
	err = errors.Join(readAll(ctx, s, paths, a.env.stdin), s.Close()) // what was found before a failure is printed, too
	if show != nil {
		show(1, 1)
	}
	if err != nil {
		return interrupted(err)
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
			return 0, usageError{fmt.Errorf("%s is a folder; name the files in it", p)}
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
	rows := [][]string{{a.say("cli.shared.type"), a.say("cli.mask.values"), a.say("cli.mask.texts")}}
	for _, class := range classify.Classes() {
		if n := c.Findings[class]; n > 0 {
			rows = append(rows, []string{string(class), fmt.Sprint(n), fmt.Sprint(c.In[class])})
		}
	}
	rows = append(rows, []string{a.say("cli.mask.all_texts"), "", fmt.Sprint(c.Texts)})
	printColumns(a.env.stdout, rows)
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
		more = "\n" + a.say("cli.mask.more", n)
	}
	return errors.New(a.say("cli.mask.unread", c.UnreadTotal, strings.Join(places, "\n"), more))
}

func (a *app) unreadText(p scan.Problem) string {
	switch p {
	case scan.TextTooLong:
		return a.say("cli.mask.too_long")
	case scan.LineTooLong:
		return a.say("cli.mask.line_too_long")
	case scan.NoObject:
		return a.say("cli.mask.not_json")
	default:
		return a.say("cli.mask.not_utf8")
	}
}
