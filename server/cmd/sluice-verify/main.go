// Command sluice-verify checks an evidence bundle of an audit log, or the proof of one record. It needs that file and the public key of the log, no
// installation, no network and no configuration; `sluice-verify --help` says how.
//
// It has its own few texts, both languages side by side: auditors take it along and read its source, so it stays small and without the
// catalogues.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, term.IsTerminal(int(os.Stderr.Fd())))
	stop()
	os.Exit(code)
}
