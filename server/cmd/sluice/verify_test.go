package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/server/config"
)

// TestModelsVerify: a file of the right size and the wrong content is a finding, and the artefacts after it are still looked at.
func TestModelsVerify(t *testing.T) {
	s := newSite(t, nil, "")
	cfg, err := config.Load(s.config, s.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range modelstore.Catalogue() {
		for _, f := range e.Files {
			path := filepath.Join(cfg.Downloads, f.Path)
			if e.Name == modelstore.SmolLM2 {
				continue // would be read for long
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.run("models", "verify", modelstore.MiniLM, modelstore.Temporal).wants(t, exitFindings,
		modelstore.MiniLM+": FAILED: ", "wrong checksum", modelstore.Temporal+": FAILED: ")
}
