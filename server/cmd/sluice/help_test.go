package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

var update = flag.Bool("update", false, "write testdata/help.golden anew")

// TestHelpIsGolden: what people read before they type is reviewed like code. After a change: go test ./server/cmd/sluice -update.
func TestHelpIsGolden(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/home/you/.local/share")
	var got bytes.Buffer
	eachCommand(newRoot(&cli.App{Stdout: io.Discard}), func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		r := runCommand(t.Context(), nil, "", args...)
		r.wants(t, exitOK)
		if r.err != "" {
			t.Errorf("%s wrote to stderr: %s", args, r.err)
		}
		fmt.Fprintf(&got, "$ sluice %s\n%s\n", strings.Join(args, " "), r.out)
	})
	golden := filepath.Join("testdata", "help.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got.Bytes()) {
		t.Errorf("the help differs from %s; run with -update and read the difference", golden)
	}
}

// TestHelpSpeaksBothLanguages: every command and every flag of ours is explained in English and in Chinese.
func TestHelpSpeaksBothLanguages(t *testing.T) {
	han := func(s string) bool {
		return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	}
	eachCommand(newRoot(&cli.App{Stdout: io.Discard}), func(cmd *cobra.Command) {
		if cmd.HasParent() && cmd.Parent().Name() == "completion" {
			return // the library's
		}
		if !han(cmd.Short) {
			t.Errorf("%s: no Chinese in %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Long != "" && cmd.Name() != "help" && cmd.Name() != "completion" && !han(cmd.Long) {
			t.Errorf("%s: no Chinese in its long text", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "version" && !han(f.Usage) {
				t.Errorf("%s --%s: no Chinese in %q", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
	})
}

func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, visit)
	}
}

// TestCompletion prints a script for every shell that knows the commands.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := runCommand(t.Context(), nil, "", "completion", shell)
		r.wants(t, exitOK, "sluice")
		if len(r.out) < 1000 {
			t.Errorf("%s: only %d bytes", shell, len(r.out))
		}
	}
	r := runCommand(t.Context(), nil, "", "__complete", "key", "")
	r.wants(t, exitOK, "create", "list", "revoke")
}
