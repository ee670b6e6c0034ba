// Command sluice runs and administers a Sluice installation. `sluice help` lists the commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// version is set by the linker.
var version = "dev"

// Exit codes, for scripts.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitFindings = 3 // a verification ran and found problems
)

func main() {
	syscall.Umask(0o077) // what an installation writes is for its own user
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal asks to end, a second one ends at once
	code := run(ctx, os.Args[1:], &cli.App{Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: version})
	stop()
	os.Exit(code)
}

// run executes one command and returns the exit code. Errors are printed once, here.
func run(ctx context.Context, args []string, a *cli.App) int {
	root := newRoot(a) //nolint:contextcheck // the context travels inside cobra's command
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, cli.ErrFindings):
		return exitFindings
	}
	fmt.Fprintln(a.Stderr, "sluice: "+cli.Text(err, a.Lang()))
	if cli.IsMisuse(err) {
		return exitUsage
	}
	return exitFailed
}
