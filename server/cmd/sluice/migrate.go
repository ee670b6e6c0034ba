package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) migrateCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "migrate", Short: cli.Both("cli.migrate.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.migrate.long", " "),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg, err := a.Load(nil)
			if err != nil {
				return err
			}
			if err := server.DatabaseExists(cfg); err != nil {
				return err
			}
			db, err := database.Open(cmd.Context(), cfg.Database)
			if err != nil {
				return err
			}
			defer func() { _ = database.Close(db) }()
			var st migrations.Status
			if check {
				st, err = migrations.Check(cmd.Context(), db)
			} else {
				st, err = migrations.Apply(cmd.Context(), db)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.migrate.version", st.Current, st.Latest))
			if check && st.Current < st.Latest {
				return cli.ErrFindings
			}
			return st.Usable()
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, cli.Both("cli.migrate.check"))
	return cmd
}
