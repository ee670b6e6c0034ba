package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The assembly in the repository is what its generator writes.
func TestAssemblyIsCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generator")
	}
	for _, generator := range []string{"./_gen", "./_gen/mul", "./_gen/neon"} {
		t.Run(generator, func(t *testing.T) { isCurrent(t, generator) })
	}
}

func isCurrent(t *testing.T, generator string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "run", generator, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the generator wrote nothing: %v", err)
	}
	for _, f := range files {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Base(f)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what the generator writes (%v); run go generate ./engine/kernel", filepath.Base(f), err)
		}
	}
}
