package ragcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// below returns the path of something of a document.
func (f *ragFlags) below(document string, parts ...string) string {
	p := "/rag/collections/" + url.PathEscape(f.collection) + "/documents/" + url.PathEscape(document)
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p + cli.Query("tenant", f.tenant)
}

// document signs in and finds a document of the collection by its name.
func (a *app) document(ctx context.Context, f *ragFlags, name string) (*cli.Remote, adminapi.Document, error) {
	if f.collection == "" {
		return nil, adminapi.Document{}, cli.Misuse("cli.rag.no_collection")
	}
	r, err := a.Login(ctx, f.RemoteFlags)
	if err != nil {
		return nil, adminapi.Document{}, err
	}
	docs, err := documents(ctx, r, f)
	if err != nil {
		return nil, adminapi.Document{}, err
	}
	i := slices.IndexFunc(docs, func(d adminapi.Document) bool { return d.Name == name })
	if i < 0 {
		return nil, adminapi.Document{}, cli.Failed("cli.rag_delete.no_document", name, f.collection)
	}
	return r, docs[i], nil
}

func (a *app) ragAccessCommand(f *ragFlags) *cobra.Command {
	var set string
	cmd := &cobra.Command{
		Use: "access DOCUMENT", Short: cli.Both("cli.rag_access.short"), Long: cli.Both("cli.rag_access.long"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			r, d, err := a.document(ctx, f, args[0])
			if err != nil {
				return err
			}
			var out adminapi.DocumentAccess
			if set == "" {
				if err := r.Call(ctx, http.MethodGet, f.below(d.Id, "access"), nil, &out); err != nil {
					return err
				}
				return a.show(out)
			}
			raw, err := os.ReadFile(set)
			if err != nil {
				return err
			}
			var in adminapi.DocumentAccess
			if err := json.Unmarshal(raw, &in); err != nil {
				return cli.Misuse("cli.rag_access.no_json", set)
			}
			change := adminapi.NewDocumentAccess{Labels: append([]string{}, in.Labels...), Rule: in.Rule, Revision: in.Revision}
			if err := r.Call(ctx, http.MethodPut, f.below(d.Id, "access"), change, &out); err != nil {
				return err
			}
			return a.show(out)
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().StringVar(&set, "set", "", cli.Both("cli.rag_access.set"))
	return cmd
}

func (a *app) show(x any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(x)
}

func (a *app) ragExplainCommand(f *ragFlags) *cobra.Command {
	var in adminapi.Reader
	var principals, roles, labels []string
	var purpose string
	cmd := &cobra.Command{
		Use: "explain DOCUMENT", Short: cli.Both("cli.rag_explain.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, d, err := a.document(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			for _, v := range []struct {
				to   **[]string
				from []string
			}{{&in.Principals, principals}, {&in.Roles, roles}, {&in.Labels, labels}} {
				if len(v.from) > 0 {
					*v.to = &v.from
				}
			}
			in.Purpose = cli.IfGiven(purpose)
			var out adminapi.DocumentExplanation
			if err := r.Call(cmd.Context(), http.MethodPost, f.below(d.Id, "explain"), in, &out); err != nil {
				return err
			}
			return a.show(out)
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().StringSliceVar(&principals, "principal", nil, cli.Both("cli.rag_explain.principal"))
	cmd.Flags().StringSliceVar(&roles, "role", nil, cli.Both("cli.rag_explain.role"))
	cmd.Flags().StringSliceVar(&labels, "label", nil, cli.Both("cli.rag_explain.label"))
	cmd.Flags().StringVar(&purpose, "purpose", "", cli.Both("cli.rag_explain.purpose"))
	return cmd
}

func (a *app) ragVersionsCommand(f *ragFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "versions DOCUMENT", Short: cli.Both("cli.rag_versions.short"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, d, err := a.document(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "VERSION\tFROM\tUNTIL\tIN EFFECT\tCHUNKS\tADDED")
			for cursor := ""; ; {
				path := f.below(d.Id, "versions")
				if cursor != "" {
					path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "cursor=" + url.QueryEscape(cursor)
				}
				var out adminapi.DocumentVersionPage
				if err := r.Call(cmd.Context(), http.MethodGet, path, nil, &out); err != nil {
					return err
				}
				for _, v := range out.Items {
					until := "-"
					if v.ValidUntil != nil {
						until = v.ValidUntil.Local().Format(time.DateTime)
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%t\t%d\t%s\n", v.Version, v.ValidFrom.Local().Format(time.DateTime), until, v.InEffect, v.Chunks, v.CreatedAt.Local().Format(time.DateTime))
				}
				if out.Next == nil {
					return w.Flush()
				}
				cursor = *out.Next
			}
		},
	}
	f.collectionFlag(cmd)
	return cmd
}

func (a *app) ragDateCommand(f *ragFlags) *cobra.Command {
	var from, until string
	var noEnd bool
	cmd := &cobra.Command{
		Use: "date DOCUMENT VERSION", Short: cli.Both("cli.rag_date.short"), Args: cli.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.Validity{}
			if noEnd {
				in.NoEnd = &noEnd
			}
			var err error
			if in.ValidFrom, err = instant("from", from); err != nil {
				return err
			}
			if in.ValidUntil, err = instant("until", until); err != nil {
				return err
			}
			r, d, err := a.document(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			if d.Revision != nil {
				in.Revision = *d.Revision
			}
			var out adminapi.DocumentVersion
			if err := r.Call(cmd.Context(), http.MethodPatch, f.below(d.Id, "versions", args[1]), in, &out); err != nil {
				return err
			}
			return a.show(out)
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", cli.Both("cli.rag_date.from"))
	cmd.Flags().StringVar(&until, "until", "", cli.Both("cli.rag_date.until"))
	cmd.Flags().BoolVar(&noEnd, "no-end", false, cli.Both("cli.rag_date.no_end"))
	return cmd
}

// instant reads a time of a flag, nil for none.
func instant(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, cli.Misuse("cli.rag_date.no_time", flag)
	}
	return &at, nil
}
