package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestPapersShowCommandsThatExist walks the command tree with every `sluice …` that a paper, a message of the catalogues or a
// file of deploy shows, and holds that each word is a command and each flag one of it.
func TestPapersShowCommandsThatExist(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{
		"*.md", "deploy/*.md", "bench/*.md", "docs/*/*.md", "server/config/sluice.example.yaml", "server/*.go", "server/cmd/sluice/*.go", "server/cmd/sluice/*/*.go", "internal/message/*.txt", "Makefile",
	} {
		found, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil || len(found) == 0 && !strings.HasPrefix(pattern, "bench") {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	// In a code span, or at the start of a shell line, perhaps behind sudo or make's bin/.
	use := regexp.MustCompile("(?m)(?:`|^\\t?(?:exec )?(?:sudo -E -H -u sluice )?|: |docker compose -f deploy/compose.yaml run --rm )(?:bin/)?sluice( [^`\n#>]+)")
	n := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range use.FindAllStringSubmatch(string(raw), -1) {
			words := strings.Fields(m[1])
			if !regexp.MustCompile(`^[a-z-]+$`).MatchString(words[0]) && !strings.Contains(words[0], "|") {
				continue // prose, or a placeholder
			}
			n++
			if problem := walk(words); problem != "" {
				t.Errorf("%s: sluice%s: %s", file, m[1], problem)
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d commands were found", n)
	}
}

// walk follows words into the command tree; "a|b" stands for both. It returns what is wrong.
func walk(words []string) string {
	cmd := newRoot(&cli.App{Stdout: io.Discard, Stderr: io.Discard})
	for i, w := range words {
		w = strings.TrimRight(w, `.,;)"'`)
		switch {
		case w == "--": // words follow, whatever they begin with
			return ""
		case strings.HasPrefix(w, "--"):
			name, _, _ := strings.Cut(w[2:], "=")
			if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && cmd.PersistentFlags().Lookup(name) == nil {
				return "no flag " + w
			}
		case cmd.HasSubCommands():
			for _, name := range strings.Split(w, "|") {
				if !has(cmd, name) {
					return "no command " + name
				}
			}
			if strings.Contains(w, "|") {
				return ""
			}
			cmd, _, _ = cmd.Find([]string{w})
		case i == 0:
			return "no command " + w
		}
	}
	return ""
}

func has(cmd *cobra.Command, name string) bool {
	for _, c := range cmd.Commands() {
		if c.Name() == name {
			return true
		}
	}
	return name == "help" || name == "completion"
}
