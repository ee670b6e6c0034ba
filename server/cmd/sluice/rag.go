package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
)

var errNoCollection = usageError{errors.New("name the collection with --collection; sluice rag list shows them")}

func (a *app) ragCommand() *cobra.Command {
	var flags remoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "rag", Short: "Fill and search knowledge bases / 管理知识库"}
	flags.register(cmd, a.env)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", "tenant (default: your own) / 租户")

	var collection string
	var labels []string
	var create bool
	ingest := &cobra.Command{
		Use: "ingest FILE…", Short: "Add text, Markdown or HTML files to a collection / 导入文件", Args: atLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if collection == "" {
				return errNoCollection
			}
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			if create {
				in := adminapi.NewCollection{Name: collection}
				if tenant != "" {
					in.Tenant = &tenant
				}
				if err := r.call(cmd.Context(), http.MethodPost, "/rag/collections", in, nil); err != nil {
					return err
				}
			}
			path := "/rag/collections/" + url.PathEscape(collection) + "/documents" + query("tenant", tenant)
			for i, file := range args {
				content, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				in := adminapi.NewDocument{Name: filepath.Base(file), Content: &content}
				if len(labels) > 0 {
					in.Labels = &labels
				}
				var out adminapi.Document
				if err := r.call(cmd.Context(), http.MethodPost, path, in, &out); err != nil {
					return fmt.Errorf("%s (%d of %d were added): %w", file, i, len(args), err)
				}
				fmt.Fprintf(a.env.stdout, "[%d/%d] %s: %d chunks, version %s\n", i+1, len(args), out.Name, out.Chunks, out.Version)
			}
			return nil
		},
	}
	ingest.Flags().StringVar(&collection, "collection", "", "collection to add to (required) / 目标知识库（必填）")
	ingest.Flags().StringSliceVar(&labels, "label", nil, "access label of the documents (repeatable) / 文档访问标签")
	ingest.Flags().BoolVar(&create, "create", false, "create the collection first / 先创建知识库")

	list := &cobra.Command{
		Use: "list", Short: "List collections / 列出知识库", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			var out adminapi.CollectionList
			if err := r.call(cmd.Context(), http.MethodGet, "/rag/collections"+query("tenant", tenant), nil, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tTITLE\tDOCUMENTS\tLABELS")
			for _, c := range out.Items {
				fmt.Fprintf(w, "%s\t%s\t%d\t%v\n", c.Name, c.Title, c.Documents, c.Labels)
			}
			return w.Flush()
		},
	}

	var topK int
	search := &cobra.Command{
		Use: "search QUERY", Short: "Search a collection / 检索", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if collection == "" {
				return errNoCollection
			}
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			in := adminapi.SearchRequest{Collection: collection, Text: args[0], TopK: &topK}
			if tenant != "" {
				in.Tenant = &tenant
			}
			var out adminapi.PassageList
			if err := r.call(cmd.Context(), http.MethodPost, "/rag/search", in, &out); err != nil {
				return err
			}
			for _, p := range out.Items {
				fmt.Fprintf(a.env.stdout, "%.3f  %s [%d:%d]\n%s\n\n", p.Score, p.Document, p.Start, p.End, p.Text)
			}
			return nil
		},
	}
	search.Flags().StringVar(&collection, "collection", "", "collection to search (required) / 要检索的知识库（必填）")
	search.Flags().IntVar(&topK, "top", 5, "number of passages / 段落数")
	cmd.AddCommand(ingest, list, search)
	return cmd
}
