package mapfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := Open(path)
	if err != nil || string(data) != "hello" {
		t.Fatalf("%q, %v", data, err)
	}
	if err := unmap(); err != nil {
		t.Error(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{empty: "is empty", dir: "not a regular file", filepath.Join(dir, "none"): "no such file"} {
		if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// What others may have written, or what a link leads to, is not one's own.
func TestOpenOwn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this build does not know owners on Windows")
	}
	dir := t.TempDir()
	path, link := filepath.Join(dir, "data"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(path, []byte("hello"), 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := OpenOwn(path)
	if err != nil || string(data) != "hello" {
		t.Fatalf("%q, %v", data, err)
	}
	if err := unmap(); err != nil {
		t.Error(err)
	}
	if _, _, err := OpenOwn(link); err == nil {
		t.Error("a link was followed")
	}
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenOwn(path); err == nil || !strings.Contains(err.Error(), "others may write") {
		t.Errorf("a file of a group: %v", err)
	}
}
