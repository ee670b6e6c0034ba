//go:build qemu

package kernel

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

// The tests of this package in their short form, built for other processors and run by QEMU's user-mode emulation: arm64 with and
// without dot product, loong64 without vectors. Emulation proves results, not speed.
func TestEmulated(t *testing.T) {
	for _, c := range []struct{ arch, emulator, cpu, tier string }{
		{"arm64", "qemu-aarch64", "max", neonDot},
		{"arm64", "qemu-aarch64", "cortex-a57", neon},
		{"loong64", "qemu-loongarch64", "la464", ""},
	} {
		t.Run(fmt.Sprintf("%s/%s", c.arch, c.cpu), func(t *testing.T) {
			t.Parallel()
			qemu, err := exec.LookPath(c.emulator)
			if err != nil {
				if testmodel.Required("qemu") {
					t.Fatalf("SLUICE_REQUIRE names qemu: %v; on Debian, apt-get install qemu-user", err)
				}
				t.Skipf("%v; on Debian, apt-get install qemu-user", err)
			}
			binary := filepath.Join(t.TempDir(), "kernel.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, ".")
			build.Env = append(build.Environ(), "GOOS=linux", "GOARCH="+c.arch, "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			// Left out: the tiles that only amd64 has, and what no processor changes.
			run := exec.CommandContext(t.Context(), qemu, "-cpu", c.cpu, binary, "-test.short", "-test.skip=Wide|FunctionsAreAccurate")
			run.Env = append(run.Environ(), "SLUICE_REQUIRE="+c.tier, Variable+"=")
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
