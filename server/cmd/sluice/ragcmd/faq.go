package ragcmd

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/csvcell"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/rag/faq"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// faqColumns are the headings of a table of entries. Several questions, or labels, of a cell stand each on a line of it: none has a line break.
func faqColumns() []string {
	return []string{"question", "similar", "negative", "answer", "labels", "valid_from", "valid_until"}
}

func (a *app) ragFAQCommand(f *ragFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "faq", Short: cli.Both("cli.rag_faq.short"), Long: message.Both("cli.rag_faq.long", "\n\n")}
	cmd.PersistentFlags().StringVar(&f.collection, "collection", "", cli.Both("cli.rag_flags.collection"))
	entries := func(cmd *cobra.Command) (*cli.Remote, []adminapi.FAQEntry, error) {
		r, err := a.collectionLogin(cmd.Context(), f)
		if err != nil {
			return nil, nil, err
		}
		out, err := list[adminapi.FAQEntry](cmd.Context(), r, f, "faq")
		return r, out, err
	}
	put := func(cmd *cobra.Command, r *cli.Remote, e adminapi.NewFAQEntry) error {
		return r.Call(cmd.Context(), http.MethodPost, f.faqPath(), e, nil)
	}
	var similar, negative, labels []string
	add := &cobra.Command{
		Use: "add QUESTION ANSWER", Short: cli.Both("cli.rag_faq.add"), Args: cli.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.collectionLogin(cmd.Context(), f)
			if err != nil {
				return err
			}
			if err := put(cmd, r, adminapi.NewFAQEntry{Question: args[0], Answer: args[1], Similar: some(similar), Negative: some(negative), Labels: some(labels)}); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_faq.added", f.collection, 1))
			return nil
		},
	}
	add.Flags().StringArrayVar(&similar, "similar", nil, cli.Both("cli.rag_faq.similar"))
	add.Flags().StringArrayVar(&negative, "negative", nil, cli.Both("cli.rag_faq.negative"))
	add.Flags().StringSliceVar(&labels, "label", nil, cli.Both("cli.rag_faq.label"))
	cmd.AddCommand(
		add,
		&cobra.Command{
			Use: "list", Short: cli.Both("cli.rag_faq.list"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, all, err := entries(cmd)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "QUESTION\tSIMILAR\tNEGATIVE\tLABELS\tVERSION\tIN EFFECT\tFROM\tUNTIL")
				for _, e := range all {
					name := e.Question
					if e.Damaged != nil && *e.Damaged {
						name = e.Id + " " + a.Say("cli.rag_glossary.damaged")
					}
					fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%t\t%s\t%s\n", name, len(e.Similar), len(e.Negative), dash(e.Labels), e.Version, e.InEffect, cmp.Or(faqTime(e.ValidFrom), "-"), cmp.Or(faqTime(e.ValidUntil), "-"))
				}
				return w.Flush()
			},
		},
		&cobra.Command{
			Use: "remove QUESTION…", Short: cli.Both("cli.rag_faq.remove"), Args: cli.AtLeast(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				r, all, err := entries(cmd)
				if err != nil {
					return err
				}
				for _, name := range args {
					i := slices.IndexFunc(all, func(e adminapi.FAQEntry) bool {
						return e.Id == name || e.Damaged == nil && faq.Key(e.Question) == faq.Key(name)
					})
					if i < 0 {
						return cli.Failed("cli.rag_faq.no_entry", name, f.collection)
					}
					if err := r.Call(cmd.Context(), http.MethodDelete, f.path(all[i].Id), nil, nil); err != nil {
						return err
					}
					fmt.Fprintln(a.Stdout, a.Say("cli.rag_faq.removed", name))
				}
				return nil
			},
		},
		&cobra.Command{
			Use: "import FILE.csv", Short: cli.Both("cli.rag_faq.import"), Args: cli.Exactly(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				raw, err := os.ReadFile(args[0])
				if err != nil {
					return err
				}
				all, err := readFAQ(raw, args[0])
				if err != nil {
					return err
				}
				r, err := a.collectionLogin(cmd.Context(), f)
				if err != nil {
					return err
				}
				for i, e := range all {
					if err := put(cmd, r, e); err != nil {
						return cli.Failed("cli.rag_faq.stopped", err, i, len(all))
					}
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.rag_faq.added", f.collection, len(all)))
				return nil
			},
		},
		&cobra.Command{
			Use: "export", Short: cli.Both("cli.rag_faq.export"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, all, err := entries(cmd)
				if err != nil {
					return err
				}
				return writeFAQ(a.Stdout, all)
			},
		},
	)
	return cmd
}

func (f *ragFlags) faqPath() string {
	return "/rag/collections/" + url.PathEscape(f.collection) + "/faq" + cli.Query("tenant", f.tenant)
}

// some is a list that may be absent.
func some(values []string) *[]string {
	if len(values) == 0 {
		return nil
	}
	return &values
}

// faqTime is a time as tables have it; "" for none.
func faqTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// writeFAQ writes entries as a table, without those that cannot be read. It does not say since when one is in effect that is: what is changed in the table counts from
// when it is imported, and not for what was before.
func writeFAQ(to io.Writer, all []adminapi.FAQEntry) error {
	w := csv.NewWriter(to)
	_ = w.Write(faqColumns()) // Error below
	for _, e := range all {
		if e.Damaged != nil && *e.Damaged {
			continue
		}
		if e.InEffect {
			e.ValidFrom = nil
		}
		line := []string{e.Question, strings.Join(e.Similar, "\n"), strings.Join(e.Negative, "\n"), e.Answer, strings.Join(e.Labels, "\n"), faqTime(e.ValidFrom), faqTime(e.ValidUntil)}
		for i := range line {
			line[i] = csvcell.Plain(line[i])
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}

// readFAQ reads a table as writeFAQ writes it: the first line has the headings, in any order, of which question and answer are needed.
func readFAQ(raw []byte, path string) ([]adminapi.NewFAQEntry, error) {
	if !utf8.Valid(raw) {
		return nil, cli.Misuse("cli.rag_ingest.not_utf8", path)
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	r.FieldsPerRecord = -1
	heads, err := r.Read()
	if err != nil {
		return nil, cli.Misuse("cli.rag_glossary.no_table", path, err)
	}
	column := map[string]int{}
	for i, h := range heads {
		h = strings.ToLower(strings.TrimSpace(h))
		if _, again := column[h]; again || !slices.Contains(faqColumns(), h) {
			return nil, cli.Misuse("cli.rag_faq.columns", path, strings.Join(faqColumns(), ", "))
		}
		column[h] = i
	}
	if _, ok := column["question"]; !ok {
		return nil, cli.Misuse("cli.rag_faq.columns", path, strings.Join(faqColumns(), ", "))
	}
	var out []adminapi.NewFAQEntry
	lines := map[string]int{} // of questions
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, cli.Misuse("cli.rag_glossary.no_table", path, err)
		}
		line, _ := r.FieldPos(0)
		cell := func(name string) string {
			i, ok := column[name]
			if !ok || i >= len(cells) {
				return ""
			}
			return unquoted(strings.TrimSpace(cells[i]))
		}
		several := func(name string) *[]string {
			var out []string
			for s := range strings.SplitSeq(cell(name), "\n") {
				if s = strings.TrimSpace(s); s != "" {
					out = append(out, s)
				}
			}
			return some(out)
		}
		e := adminapi.NewFAQEntry{Question: cell("question"), Answer: cell("answer"), Similar: several("similar"), Negative: several("negative"), Labels: several("labels")}
		if e.Question == "" || e.Answer == "" {
			if e.Question+e.Answer == "" && e.Similar == nil && e.Negative == nil {
				continue
			}
			return nil, cli.Misuse("cli.rag_faq.incomplete", path, line)
		}
		key := faq.Key(e.Question)
		if was, again := lines[key]; again { // the later one would replace it
			return nil, cli.Misuse("cli.rag_faq.twice", path, was, line)
		}
		lines[key] = line
		for name, to := range map[string]**time.Time{"valid_from": &e.ValidFrom, "valid_until": &e.ValidUntil} {
			if text := cell(name); text != "" {
				at, err := time.Parse(time.RFC3339Nano, text)
				if err != nil {
					return nil, cli.Misuse("cli.rag_faq.time", path, line, name)
				}
				*to = &at
			}
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil, cli.Misuse("cli.rag_faq.no_entries", path)
	}
	return out, nil
}

// unquoted is a cell without the sign that keeps a spreadsheet from computing it, as an export has written it.
func unquoted(cell string) string {
	if len(cell) > 1 && csvcell.Plain(cell[1:]) == cell {
		return cell[1:]
	}
	return cell
}
