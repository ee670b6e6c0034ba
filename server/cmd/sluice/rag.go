package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
)

var errNoCollection = usageError{errors.New("name the collection with --collection; sluice rag list shows them")}

// ragFlags are what the commands about knowledge bases share.
type ragFlags struct {
	remoteFlags

	tenant, collection string
	labels             []string
	known              []adminapi.KnownValue
}

func (f *ragFlags) collectionFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.collection, "collection", "", both("cli.rag_flags.collection"))
}

// path returns the path of the documents of the collection, or of one of them.
func (f *ragFlags) path(document string) string {
	p := "/rag/collections/" + url.PathEscape(f.collection) + "/documents"
	if document != "" {
		p += "/" + url.PathEscape(document)
	}
	return p + query("tenant", f.tenant)
}

func (a *app) ragCommand() *cobra.Command {
	f := &ragFlags{}
	cmd := &cobra.Command{Use: "rag", Short: both("cli.rag.short")}
	f.register(cmd, a.env)
	cmd.PersistentFlags().StringVar(&f.tenant, "tenant", "", both("cli.shared.tenant"))
	cmd.AddCommand(a.ragCreateCommand(f), a.ragIngestCommand(f), a.ragListCommand(f), a.ragSearchCommand(f), a.ragDeleteCommand(f))
	return cmd
}

func (a *app) ragCreateCommand(f *ragFlags) *cobra.Command {
	var title string
	cmd := &cobra.Command{
		Use: "create NAME", Short: both("cli.rag_create.short"), Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.collection = args[0]
			if err := a.ask(cmd.Context(), f.remoteFlags, http.MethodPost, "/rag/collections", f.newCollection(title), nil); err != nil {
				return err
			}
			fmt.Fprintln(a.env.stdout, a.say("cli.rag_create.created", args[0], args[0]))
			return nil
		},
	}
	cmd.Flags().StringVar(&title, "title", "", both("cli.rag_create.title"))
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, both("cli.rag_create.label"))
	return cmd
}

func (f *ragFlags) newCollection(title string) adminapi.NewCollection {
	in := adminapi.NewCollection{Name: f.collection, Title: ifGiven(title), Tenant: ifGiven(f.tenant)}
	if len(f.labels) > 0 {
		in.Labels = &f.labels
	}
	return in
}

func (a *app) ragListCommand(f *ragFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: both("cli.rag_list.short"), Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), f.remoteFlags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			if f.collection == "" {
				var out adminapi.CollectionList
				if err := r.call(cmd.Context(), http.MethodGet, "/rag/collections"+query("tenant", f.tenant), nil, &out); err != nil {
					return err
				}
				fmt.Fprintln(w, "NAME\tDOCUMENTS\tLABELS\tTITLE")
				for _, c := range out.Items {
					fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", c.Name, c.Documents, dash(c.Labels), c.Title)
				}
				return w.Flush()
			}
			docs, err := r.documents(cmd.Context(), f)
			if err != nil {
				return err
			}
			fmt.Fprintln(w, "NAME\tVERSION\tCHUNKS\tLABELS\tSINCE")
			for _, d := range docs {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", d.Name, d.Version, d.Chunks, dash(d.Labels), d.CreatedAt.Local().Format("2006-01-02 15:04"))
			}
			return w.Flush()
		},
	}
	f.collectionFlag(cmd)
	return cmd
}

func dash(labels []string) string {
	if len(labels) == 0 {
		return "-"
	}
	return strings.Join(labels, ",")
}

func (a *app) ragSearchCommand(f *ragFlags) *cobra.Command {
	var topK int
	cmd := &cobra.Command{
		Use: "search QUERY", Short: both("cli.rag_search.short"), Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.collection == "" {
				return errNoCollection
			}
			in := adminapi.SearchRequest{Collection: f.collection, Text: args[0], TopK: &topK, Tenant: ifGiven(f.tenant)}
			var out adminapi.PassageList
			err := a.ask(cmd.Context(), f.remoteFlags, http.MethodPost, "/rag/search", in, &out)
			if p := (*problemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeCollectionNotFound) {
				return fmt.Errorf("%w\n%s", err, a.say("cli.rag_search.labels"))
			}
			if err != nil {
				return err
			}
			if len(out.Items) == 0 {
				fmt.Fprintln(a.env.stdout, a.say("cli.rag_search.nothing"))
			}
			for _, p := range out.Items {
				fmt.Fprintf(a.env.stdout, "%.3f  %s %s [%d:%d]\n%s\n\n", p.Score, p.Document, p.Version, p.Start, p.End, p.Text)
			}
			return nil
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().IntVar(&topK, "top", 5, both("cli.rag_search.top"))
	return cmd
}

func (a *app) ragDeleteCommand(f *ragFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete DOCUMENT…", Short: both("cli.rag_delete.short"), Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.collection == "" {
				return errNoCollection
			}
			r, err := a.login(cmd.Context(), f.remoteFlags)
			if err != nil {
				return err
			}
			docs, err := r.documents(cmd.Context(), f)
			if err != nil {
				return err
			}
			for _, name := range args {
				i := slices.IndexFunc(docs, func(d adminapi.Document) bool { return d.Name == name })
				if i < 0 {
					return fmt.Errorf("%s: no such document; sluice rag list --collection %s shows them", name, f.collection)
				}
				if err := r.call(cmd.Context(), http.MethodDelete, f.path(docs[i].Id), nil, nil); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				fmt.Fprintln(a.env.stdout, a.say("cli.rag_delete.deleted", name))
			}
			return nil
		},
	}
	f.collectionFlag(cmd)
	return cmd
}

// say returns the text id in the language of the terminal.
func (a *app) say(id message.ID, args ...any) string {
	return message.Say(id, args...).In(a.env.lang())
}
