package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/server"
)

func (a *app) migrateCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "migrate", Short: both("cli.migrate.short"), Args: exactly(0),
		Long: message.Both("cli.migrate.long", " "),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg, err := a.load(nil)
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
			fmt.Fprintf(a.env.stdout, "schema version %d of %d\n", st.Current, st.Latest)
			if check && st.Current < st.Latest {
				return errFindings
			}
			return st.Usable()
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, both("cli.migrate.check"))
	return cmd
}
