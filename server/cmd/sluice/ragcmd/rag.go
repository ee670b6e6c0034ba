package ragcmd

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// ragFlags are what the commands about knowledge bases share.
type ragFlags struct {
	cli.RemoteFlags

	tenant, collection string
	labels             []string
	known              []adminapi.KnownValue
	from, until        *time.Time
}

func (f *ragFlags) collectionFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.collection, "collection", "", cli.Both("cli.rag_flags.collection"))
}

// path returns the path of the documents of the collection, or of one of them.
func (f *ragFlags) path(document string) string {
	p := "/rag/collections/" + url.PathEscape(f.collection) + "/documents"
	if document != "" {
		p += "/" + url.PathEscape(document)
	}
	return p + cli.Query("tenant", f.tenant)
}

// app has the commands of this package.
type app struct{ *cli.App }

// RAG returns the commands about knowledge bases.
func RAG(shared *cli.App) *cobra.Command {
	a := &app{shared}
	f := &ragFlags{}
	cmd := &cobra.Command{Use: "rag", Short: cli.Both("cli.rag.short")}
	f.Register(cmd, a.App)
	cmd.PersistentFlags().StringVar(&f.tenant, "tenant", "", cli.Both("cli.shared.tenant"))
	cmd.AddCommand(a.ragCreateCommand(f), a.ragIngestCommand(f), a.ragListCommand(f), a.ragSearchCommand(f), a.ragDeleteCommand(f),
		a.ragAccessCommand(f), a.ragExplainCommand(f), a.ragVersionsCommand(f), a.ragDateCommand(f), a.ragKeepCommand(f), a.ragFAQCommand(f), a.ragGlossaryCommand(f), a.ragSyncCommand(f), a.ragEvalCommand(f))
	return cmd
}

func (a *app) ragCreateCommand(f *ragFlags) *cobra.Command {
	var title string
	cmd := &cobra.Command{
		Use: "create NAME", Short: cli.Both("cli.rag_create.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.collection = args[0]
			if err := a.Ask(cmd.Context(), f.RemoteFlags, http.MethodPost, "/rag/collections", f.newCollection(title), nil); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_create.created", args[0], args[0]))
			return nil
		},
	}
	cmd.Flags().StringVar(&title, "title", "", cli.Both("cli.rag_create.title"))
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, cli.Both("cli.rag_create.label"))
	return cmd
}

func (f *ragFlags) newCollection(title string) adminapi.NewCollection {
	in := adminapi.NewCollection{Name: f.collection, Title: cli.IfGiven(title), Tenant: cli.IfGiven(f.tenant)}
	if len(f.labels) > 0 {
		in.Labels = &f.labels
	}
	return in
}

// ragKeepCommand changes one setting or both, if nobody else does at the same time.
func (a *app) ragKeepCommand(f *ragFlags) *cobra.Command {
	var versions, days int
	cmd := &cobra.Command{
		Use: "keep COLLECTION", Short: cli.Both("cli.rag_keep.short"), Long: message.Both("cli.rag_keep.long", "\n\n"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			r, err := a.Login(ctx, f.RemoteFlags)
			if err != nil {
				return err
			}
			var all adminapi.CollectionList
			if err := r.Call(ctx, http.MethodGet, "/rag/collections"+cli.Query("tenant", f.tenant), nil, &all); err != nil {
				return err
			}
			i := slices.IndexFunc(all.Items, func(c adminapi.Collection) bool { return c.Name == args[0] })
			if i < 0 {
				return cli.Failed("cli.rag_keep.no_collection", args[0])
			}
			is := all.Items[i].Retention
			if cmd.Flags().Changed("versions") {
				is.KeepVersions = versions
			}
			if cmd.Flags().Changed("days") {
				is.KeepDays = days
			}
			var out adminapi.Collection
			if err := r.Call(ctx, http.MethodPut, "/rag/collections/"+url.PathEscape(args[0])+cli.Query("tenant", f.tenant), is, &out); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_keep.kept", out.Name, out.Retention.KeepVersions, out.Retention.KeepDays))
			return nil
		},
	}
	cmd.Flags().IntVar(&versions, "versions", 0, cli.Both("cli.rag_keep.versions"))
	cmd.Flags().IntVar(&days, "days", 0, cli.Both("cli.rag_keep.days"))
	return cmd
}

func (a *app) ragListCommand(f *ragFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: cli.Both("cli.rag_list.short"), Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.Login(cmd.Context(), f.RemoteFlags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			if f.collection == "" {
				var out adminapi.CollectionList
				if err := r.Call(cmd.Context(), http.MethodGet, "/rag/collections"+cli.Query("tenant", f.tenant), nil, &out); err != nil {
					return err
				}
				fmt.Fprintln(w, "NAME\tDOCUMENTS\tLABELS\tTITLE")
				for _, c := range out.Items {
					fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", c.Name, c.Documents, dash(c.Labels), c.Title)
				}
				return w.Flush()
			}
			docs, err := documents(cmd.Context(), r, f)
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
	var asOf string
	cmd := &cobra.Command{
		Use: "search QUERY", Short: cli.Both("cli.rag_search.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.collection == "" {
				return cli.Misuse("cli.rag.no_collection")
			}
			in := adminapi.SearchRequest{Collection: f.collection, Text: args[0], TopK: &topK, Tenant: cli.IfGiven(f.tenant)}
			var err error
			if in.AsOf, err = instant("as-of", asOf); err != nil {
				return err
			}
			var out adminapi.PassageList
			err = a.Ask(cmd.Context(), f.RemoteFlags, http.MethodPost, "/rag/search", in, &out)
			if p := (*cli.ProblemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeCollectionNotFound) {
				return cli.Failed("cli.shared.and_remedy", err, message.Say("cli.rag_search.labels"))
			}
			if err != nil {
				return err
			}
			if len(out.Items) == 0 {
				fmt.Fprintln(a.Stdout, a.Say("cli.rag_search.nothing"))
			}
			if out.AnsweredBy != nil {
				fmt.Fprintln(a.Stdout, a.Say("cli.rag_search.answered_by"))
			}
			if out.Expanded != nil {
				for _, e := range *out.Expanded {
					fmt.Fprintln(a.Stdout, a.Say("cli.rag_search.expanded", e.Found, strings.Join(e.Added, " | ")))
				}
				fmt.Fprintln(a.Stdout)
			}
			for _, p := range out.Items {
				match := ""
				if p.FaqScore != nil {
					match = fmt.Sprintf("  FAQ %.3f", *p.FaqScore)
				}
				if p.FaqVetoed != nil {
					match += ", " + a.Say("cli.rag_search.vetoed")
				}
				fmt.Fprintf(a.Stdout, "%.3f  %s %s [%d:%d]%s\n%s\n\n", p.Score, p.Document, p.Version, p.Start, p.End, match, p.Text)
			}
			return nil
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().IntVar(&topK, "top", 5, cli.Both("cli.rag_search.top"))
	cmd.Flags().StringVar(&asOf, "as-of", "", cli.Both("cli.rag_search.as_of"))
	return cmd
}

func (a *app) ragDeleteCommand(f *ragFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete DOCUMENT…", Short: cli.Both("cli.rag_delete.short"), Args: cli.AtLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.collection == "" {
				return cli.Misuse("cli.rag.no_collection")
			}
			r, err := a.Login(cmd.Context(), f.RemoteFlags)
			if err != nil {
				return err
			}
			docs, err := documents(cmd.Context(), r, f)
			if err != nil {
				return err
			}
			for _, name := range args {
				i := slices.IndexFunc(docs, func(d adminapi.Document) bool { return d.Name == name })
				if i < 0 {
					return cli.Failed("cli.rag_delete.no_document", name, f.collection)
				}
				if err := r.Call(cmd.Context(), http.MethodDelete, f.path(docs[i].Id), nil, nil); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				fmt.Fprintln(a.Stdout, a.Say("cli.rag_delete.deleted", name))
			}
			return nil
		},
	}
	f.collectionFlag(cmd)
	return cmd
}
