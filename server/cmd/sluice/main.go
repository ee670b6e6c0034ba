// Command sluice runs and administers a Sluice installation. `sluice help` lists the commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
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

// errFindings ends a command that worked and has bad news.
var errFindings = errors.New("problems were found")

// usageError marks mistakes in how a command was called.
type usageError struct{ error }

func main() {
	syscall.Umask(0o077) // what an installation writes is for its own user
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal asks to end, a second one ends at once
	code := run(ctx, environment{
		args: os.Args[1:], environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
	})
	stop()
	os.Exit(code)
}

// run executes one command and returns the exit code. Errors are printed once, here.
func run(ctx context.Context, env environment) int {
	root := newRoot(env) //nolint:contextcheck // the context travels inside cobra's command
	root.SetArgs(env.args)
	err := root.ExecuteContext(ctx)
	switch usage := (usageError{}); {
	case err == nil:
		return exitOK
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.As(err, &usage):
		fmt.Fprintf(env.stderr, "sluice: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(env.stderr, "sluice: %v\n", err)
		return exitFailed
	}
}
