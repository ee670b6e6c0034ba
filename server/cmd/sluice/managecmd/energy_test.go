package managecmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOwnFactorsAreBounded: a file of factors is read from a pipe, too, and of one that does not end no more than is allowed.
func TestOwnFactorsAreBounded(t *testing.T) {
	t.Parallel()
	const own = `[{"id": "our-contract-2026", "region": "our site", "milligrams_per_kwh": 120500, "scope": "contract", "year": 2026, "source": "supplier", "published": "2026-03-01"}]`
	room := strings.Repeat(" ", maxFactorFile-len(own))
	for name, c := range map[string]struct {
		text  string
		whole bool
	}{
		"of some bytes": {own, true}, "of as many as are allowed": {own + room, true}, "of one more": {own + room + " ", false}, "of many more": {own + strings.Repeat(room, 4), false},
	} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "factors.json")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() {
			f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write([]byte(c.text))
				err = errors.Join(err, f.Close())
			}
			written <- err
		}()
		for _, path := range []string{pipe, file} {
			list, err := factors(path)
			if c.whole && (err != nil || list[len(list)-1].ID != "our-contract-2026") || !c.whole && (err == nil || !strings.Contains(err.Error(), "has more than 1048576 bytes")) {
				t.Errorf("%s %s: %d factors, %v", filepath.Base(path), name, len(list), err)
			}
		}
		if err := <-written; name == "of many more" && !errors.Is(err, syscall.EPIPE) || c.whole && err != nil {
			t.Errorf("the pipe %s: %v", name, err)
		}
	}
}
