package managecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// limitFlags are the limits that can be said of a key, a project, a tenant or an organisation.
type limitFlags struct{ requests, tokens, concurrent int }

func (f *limitFlags) register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.requests, "requests-per-minute", 0, cli.Both("cli.limit_flags.requests_per_minute"))
	cmd.Flags().IntVar(&f.tokens, "tokens-per-minute", 0, cli.Both("cli.limit_flags.tokens_per_minute"))
	cmd.Flags().IntVar(&f.concurrent, "concurrent", 0, cli.Both("cli.limit_flags.concurrent"))
}

// change returns the limits of before with those that were given in their place: they are set together, so those that are not named stay.
func (f *limitFlags) change(cmd *cobra.Command, before adminapi.Limits) *adminapi.Limits {
	given := false
	for _, l := range []struct {
		flag     string
		from, to *int
	}{
		{"requests-per-minute", &f.requests, &before.RequestsPerMinute},
		{"tokens-per-minute", &f.tokens, &before.TokensPerMinute},
		{"concurrent", &f.concurrent, &before.Concurrent},
	} {
		if cmd.Flags().Changed(l.flag) {
			*l.to, given = *l.from, true
		}
	}
	if !given {
		return nil
	}
	return &before
}

// limitText writes a limit; 0 is that of the installation.
func limitText(n int) string {
	if n == 0 {
		return "default"
	}
	return fmt.Sprint(n)
}
