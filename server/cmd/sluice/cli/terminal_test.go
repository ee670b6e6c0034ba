package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
)

// TestInterruptedReads: Ctrl-C ends a command that waits for a person to type.
func TestInterruptedReads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, end := io.Pipe() // nobody types
	defer func() { _ = end.Close() }()
	undone := false
	cancel()
	if _, err := UnlessDone(ctx, func() (int, error) { return silent.Read(make([]byte, 1)) }, func() { undone = true }); !errors.Is(err, ErrInterrupted) || !undone {
		t.Errorf("%v, undone %t", err, undone)
	}
	if n, err := UnlessDone(t.Context(), func() (int, error) { return 7, io.EOF }, nil); n != 7 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v", n, err)
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if (&App{Stderr: &out}).Progress("tokens") != nil {
		t.Error("progress in a file")
	}
}
