package parse_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoticeIsOfTheBuild: whoever updates PDFium reads what is said of its build and licences, and changes it.
func TestNoticeIsOfTheBuild(t *testing.T) {
	notice, err := os.ReadFile("PDFIUM-NOTICE.txt")
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Path}} {{.Version}}\n{{.Dir}}", "github.com/klippa-app/go-pdfium").Output()
	if err != nil {
		t.Fatal(err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	wasm, err := os.ReadFile(filepath.Join(dir, "internal", "pdfium_wasm", "pdfium.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(wasm)
	for _, want := range []string{version, hex.EncodeToString(sum[:])} {
		if !strings.Contains(string(notice), want) {
			t.Errorf("PDFIUM-NOTICE.txt does not say %s", want)
		}
	}
}
