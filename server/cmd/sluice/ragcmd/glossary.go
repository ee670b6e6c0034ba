package ragcmd

import (
	"bytes"
	"context"
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
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/csvcell"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/rag"
	"github.com/sluice-project/sluice/rag/glossary"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) ragGlossaryCommand(f *ragFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "glossary", Short: cli.Both("cli.rag_glossary.short"), Long: message.Both("cli.rag_glossary.long", "\n\n")}
	cmd.PersistentFlags().StringVar(&f.collection, "collection", "", cli.Both("cli.rag_flags.collection"))
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: cli.Both("cli.rag_glossary.list"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, terms, err := a.glossary(cmd.Context(), f)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "TERM\tSYNONYMS")
				for _, t := range terms {
					if t.Damaged != nil && *t.Damaged {
						fmt.Fprintf(w, "%s\t%s\n", t.Id, a.Say("cli.rag_glossary.damaged"))
						continue
					}
					fmt.Fprintf(w, "%s\t%s\n", t.Term, strings.Join(t.Synonyms, " | "))
				}
				return w.Flush()
			},
		},
		&cobra.Command{
			Use: "add TERM SYNONYM…", Short: cli.Both("cli.rag_glossary.add"), Args: cli.AtLeast(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				r, err := a.collectionLogin(cmd.Context(), f)
				if err != nil {
					return err
				}
				if err := f.addTerms(cmd.Context(), r, []adminapi.NewGlossaryTerm{{Term: args[0], Synonyms: args[1:]}}); err != nil {
					return err
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.rag_glossary.added", f.collection, 1))
				return nil
			},
		},
		&cobra.Command{
			Use: "remove TERM…", Short: cli.Both("cli.rag_glossary.remove"), Args: cli.AtLeast(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				r, terms, err := a.glossary(cmd.Context(), f)
				if err != nil {
					return err
				}
				for _, name := range args {
					i := slices.IndexFunc(terms, func(t adminapi.GlossaryTerm) bool {
						return t.Id == name || t.Damaged == nil && glossary.Key(t.Term) == glossary.Key(name)
					})
					if i < 0 {
						return cli.Failed("cli.rag_glossary.no_term", name, f.collection)
					}
					if err := r.Call(cmd.Context(), http.MethodDelete, f.glossaryPath("/"+url.PathEscape(terms[i].Id)), nil, nil); err != nil {
						return err
					}
					fmt.Fprintln(a.Stdout, a.Say("cli.rag_glossary.removed", name))
				}
				return nil
			},
		},
		&cobra.Command{
			Use: "import FILE.csv", Short: cli.Both("cli.rag_glossary.import"), Args: cli.Exactly(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				raw, err := os.ReadFile(args[0])
				if err != nil {
					return err
				}
				terms, err := readTerms(raw, args[0])
				if err != nil {
					return err
				}
				r, err := a.collectionLogin(cmd.Context(), f)
				if err != nil {
					return err
				}
				done := 0
				for part := range slices.Chunk(terms, rag.MaxGlossaryChange) {
					if err := f.addTerms(cmd.Context(), r, part); err != nil {
						return cli.Failed("cli.rag_glossary.stopped", err, done, len(terms))
					}
					done += len(part)
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.rag_glossary.added", f.collection, done))
				return nil
			},
		},
		&cobra.Command{
			Use: "export", Short: cli.Both("cli.rag_glossary.export"), Args: cli.Exactly(0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, terms, err := a.glossary(cmd.Context(), f)
				if err != nil {
					return err
				}
				w := csv.NewWriter(a.Stdout)
				_ = w.Write([]string{"term", "synonyms"})
				for _, t := range terms {
					if t.Damaged != nil && *t.Damaged {
						continue
					}
					line := []string{csvcell.Plain(t.Term)}
					for _, s := range t.Synonyms {
						line = append(line, csvcell.Plain(s))
					}
					_ = w.Write(line) // Error below
				}
				w.Flush()
				return w.Error()
			},
		},
	)
	return cmd
}

func (f *ragFlags) glossaryPath(below string) string {
	return "/rag/collections/" + url.PathEscape(f.collection) + "/glossary" + below + cli.Query("tenant", f.tenant)
}

// collectionLogin signs in for a command about a collection.
func (a *app) collectionLogin(ctx context.Context, f *ragFlags) (*cli.Remote, error) {
	if f.collection == "" {
		return nil, cli.Misuse("cli.rag.no_collection")
	}
	return a.Login(ctx, f.RemoteFlags)
}

// glossary signs in and lists the glossary of the collection.
func (a *app) glossary(ctx context.Context, f *ragFlags) (*cli.Remote, []adminapi.GlossaryTerm, error) {
	r, err := a.collectionLogin(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	out, err := list[adminapi.GlossaryTerm](ctx, r, f, "glossary")
	return r, out, err
}

func (f *ragFlags) addTerms(ctx context.Context, r *cli.Remote, terms []adminapi.NewGlossaryTerm) error {
	return r.Call(ctx, http.MethodPost, f.glossaryPath(""), adminapi.NewGlossaryTerms{Terms: terms}, nil)
}

// readTerms reads a table with a term a line, its synonyms in the cells behind it. A first line with the headings of an export is none.
func readTerms(raw []byte, path string) ([]adminapi.NewGlossaryTerm, error) {
	if !utf8.Valid(raw) {
		return nil, cli.Misuse("cli.rag_ingest.not_utf8", path)
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	r.FieldsPerRecord = -1
	var out []adminapi.NewGlossaryTerm
	for n := 0; ; n++ {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, cli.Misuse("cli.rag_glossary.no_table", path, err)
		}
		line, _ := r.FieldPos(0)
		var names []string
		for _, cell := range cells {
			if cell = unquoted(strings.TrimSpace(cell)); cell != "" {
				names = append(names, cell)
			}
		}
		switch {
		case len(names) == 0, n == 0 && strings.EqualFold(strings.Join(names, ","), "term,synonyms"):
			continue
		case strings.Contains(strings.Join(names, "\n"), " | "):
			return nil, cli.Misuse("cli.rag_glossary.bar", path, line)
		case strings.TrimSpace(cells[0]) == "" || len(names) < 2:
			return nil, cli.Misuse("cli.rag_glossary.no_synonym", path, line)
		}
		out = append(out, adminapi.NewGlossaryTerm{Term: names[0], Synonyms: names[1:]})
	}
	if len(out) == 0 {
		return nil, cli.Misuse("cli.rag_glossary.no_terms", path)
	}
	return out, nil
}
