package parse_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/rag/parse"
)

// TestReadersAtOnce: one reader reads several files at a time, each as if it were alone.
func TestReadersAtOnce(t *testing.T) {
	names := []string{"word.docx", "numbered.docx", "sheet.xlsx", "merged.xlsx", "slides.pptx", "mail.eml"}
	r := parse.NewReader(parse.Config{})
	if !testing.Short() {
		r, names = pdfReader(t, parse.Config{}), append(names, "fpdf.pdf", "table.pdf", "owner.pdf")
	}
	read := func(name string) string {
		body, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			return err.Error()
		}
		d, err := r.Read(t.Context(), parse.File{Name: name, Body: body})
		if err != nil {
			return err.Error()
		}
		return outline(d)
	}
	alone := map[string]string{}
	for _, name := range names {
		if alone[name] = read(name); !strings.Contains(alone[name], "\n") {
			t.Fatalf("%s: %s", name, alone[name])
		}
	}
	var wait sync.WaitGroup
	for range 3 {
		for _, name := range names {
			wait.Go(func() {
				if got := read(name); got != alone[name] {
					t.Errorf("%s among others:\n%s\nalone:\n%s", name, got, alone[name])
				}
			})
		}
	}
	wait.Wait()
}
