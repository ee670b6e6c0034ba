package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestInterruptedChat: Ctrl-C ends a chat that waits for a person to type.
func TestInterruptedChat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, end := io.Pipe() // nobody types
	defer func() { _ = end.Close() }()
	cancel()
	var errs bytes.Buffer
	code := run(ctx, []string{"chat", "--model", "m"}, &cli.App{Environ: []string{"SLUICE_API_KEY=k"}, Stdin: silent, Stdout: io.Discard, Stderr: &errs})
	if code != exitFailed || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("chat ended with %d: %s", code, errs.String())
	}
}
