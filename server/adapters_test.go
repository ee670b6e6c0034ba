package server

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
)

// TestCopiedAdapters: what is copied lies below the folder, whatever links there are and whoever swaps them meanwhile.
func TestCopiedAdapters(t *testing.T) {
	base := t.TempDir()
	folder, outside := filepath.Join(base, "adapters"), filepath.Join(base, "outside")
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{filepath.Join(folder, "law"), outside} {
		put(filepath.Join(at, "adapter_config.json"), filepath.Base(at))
		put(filepath.Join(at, "adapter_model.safetensors"), filepath.Base(at))
	}
	put(filepath.Join(folder, "law.gguf"), "gguf")
	link("law", filepath.Join(folder, "inner"))
	link(outside, filepath.Join(folder, "link"))
	link("../outside", filepath.Join(folder, "relative"))
	put(filepath.Join(folder, "mixed", "adapter_config.json"), "mixed")
	link(filepath.Join(outside, "adapter_model.safetensors"), filepath.Join(folder, "mixed", "adapter_model.safetensors"))
	if err := os.MkdirAll(filepath.Join(folder, "pipe"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe", "adapter_config.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(path string) (string, error) {
		t.Helper()
		to, err := copyAdapter(folder, path, t.TempDir())
		if err != nil {
			return "", err
		}
		if filepath.Base(to) != filepath.Base(path) {
			t.Errorf("%s becomes %s", path, to)
		}
		var all strings.Builder
		for _, name := range []string{to, filepath.Join(to, "adapter_config.json"), filepath.Join(to, "adapter_model.safetensors")} {
			raw, _ := os.ReadFile(name)
			all.Write(raw)
		}
		return all.String(), nil
	}
	for path, want := range map[string]string{"law": "lawlaw", "law.gguf": "gguf", "inner": "lawlaw"} {
		if got, err := read(path); got != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for path, why := range map[string]string{
		"link": "leads out", "relative": "leads out", "mixed": "leads out", "pipe": "leads out", "none": "no such file", "../outside": "relative to it", outside: "relative to it", "": "relative to it",
	} {
		got, err := read(path)
		if !fault.Is(err, fault.CodeInvalidValue) || got != "" || !strings.Contains(fault.Public(err).Message(fault.English), why) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}

	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			to, next := []string{"law", outside}[i%2], filepath.Join(folder, "next")
			if err := os.Symlink(to, next); err != nil {
				t.Error(err)
				return
			}
			if err := os.Rename(next, filepath.Join(folder, "swapped")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 2000 {
		if got, err := read("swapped"); err == nil && got != "lawlaw" {
			t.Fatalf("the copy has %q", got)
		}
	}
	close(done)
	swapping.Wait()
}
