package cli

import (
	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/message"
)

// Both returns a text in English and in Chinese, for help, whose reader has not named a language.
func Both(id message.ID) string { return message.Both(id, " / ") }

// Exactly returns an argument check for n words.
func Exactly(n int) cobra.PositionalArgs {
	return words(func(given int) bool { return given == n })
}

// AtLeast returns an argument check for n words or more.
func AtLeast(n int) cobra.PositionalArgs {
	return words(func(given int) bool { return given >= n })
}

// AtMost returns an argument check for n words or fewer.
func AtMost(n int) cobra.PositionalArgs {
	return words(func(given int) bool { return given <= n })
}

func words(ok func(given int) bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if !ok(len(args)) {
			return Misuse("cli.shared.word_count", len(args), cmd.UseLine())
		}
		return nil
	}
}
