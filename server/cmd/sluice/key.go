package main

import (
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
)

func (a *app) keyCommand() *cobra.Command {
	var flags remoteFlags
	var tenant string
	cmd := &cobra.Command{Use: "key", Short: "Create, list and revoke API keys / 管理 API 密钥"}
	flags.register(cmd, a.env)
	cmd.PersistentFlags().StringVar(&tenant, "tenant", "", "tenant (default: your own) / 租户")

	var days int
	var labels []string
	create := &cobra.Command{
		Use: "create NAME", Short: "Create a key; its secret is printed once / 创建密钥，仅显示一次", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			in := adminapi.NewKey{Name: args[0]}
			if tenant != "" {
				in.Tenant = &tenant
			}
			if days > 0 {
				at := time.Now().UTC().AddDate(0, 0, days)
				in.ExpiresAt = &at
			}
			if len(labels) > 0 {
				in.Labels = &labels
			}
			var out adminapi.CreatedKey
			if err := r.call(cmd.Context(), http.MethodPost, "/keys", in, &out); err != nil {
				return err
			}
			fmt.Fprintf(a.env.stderr, "Key %s of tenant %s. It is shown once; store it now.\n", out.Key.Id, out.Key.Tenant)
			fmt.Fprintln(a.env.stdout, out.Secret)
			return nil
		},
	}
	create.Flags().IntVar(&days, "days", 0, "days until it expires (default: the installation's) / 有效天数")
	create.Flags().StringSliceVar(&labels, "label", nil, "access label for knowledge bases (repeatable) / 知识库访问标签")

	list := &cobra.Command{
		Use: "list", Short: "List keys / 列出密钥", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.env.stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tTENANT\tPREFIX\tSTATE\tEXPIRES")
			cursor := ""
			for {
				var out adminapi.KeyPage
				if err := r.call(cmd.Context(), http.MethodGet, "/keys"+query("tenant", tenant, "cursor", cursor), nil, &out); err != nil {
					return err
				}
				for _, k := range out.Items {
					state, expires := "active", "-"
					if k.ExpiresAt != nil {
						expires = k.ExpiresAt.Format(time.RFC3339)
						if k.ExpiresAt.Before(time.Now()) {
							state = "expired"
						}
					}
					if k.RevokedAt != nil {
						state = "revoked"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.Id, k.Name, k.Tenant, k.Prefix, state, expires)
				}
				if out.Next == nil {
					return w.Flush()
				}
				cursor = *out.Next
			}
		},
	}
	revoke := &cobra.Command{
		Use: "revoke ID", Short: "Revoke a key; every replica refuses it within two seconds / 吊销密钥", Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.login(cmd.Context(), flags)
			if err != nil {
				return err
			}
			if err := r.call(cmd.Context(), http.MethodPost, "/keys/"+args[0]+"/revoke"+query("tenant", tenant), nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(a.env.stdout, "revoked %s\n", strings.TrimSpace(args[0]))
			return nil
		},
	}
	cmd.AddCommand(create, list, revoke)
	return cmd
}
