package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestInterruptedReads: Ctrl-C ends a command that waits for a person to type.
func TestInterruptedReads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, end := io.Pipe() // nobody types
	defer func() { _ = end.Close() }()
	undone := false
	cancel()
	if _, err := unlessDone(ctx, func() (int, error) { return silent.Read(make([]byte, 1)) }, func() { undone = true }); !errors.Is(err, errInterrupted) || !undone {
		t.Errorf("%v, undone %t", err, undone)
	}
	if n, err := unlessDone(t.Context(), func() (int, error) { return 7, io.EOF }, nil); n != 7 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v", n, err)
	}

	var errs bytes.Buffer
	code := run(ctx, environment{
		args: []string{"chat", "--model", "m"}, environ: []string{"SLUICE_API_KEY=k"}, stdin: silent, stdout: io.Discard, stderr: &errs,
	})
	if code != exitFailed || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("chat ended with %d: %s", code, errs.String())
	}
}
