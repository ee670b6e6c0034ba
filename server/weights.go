package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/server/config"
)

// checkWeights holds the models that lie where `sluice pull` puts them against the catalogue: a file that was damaged or replaced
// must not answer under a name that everybody trusts. The engine has read the weights already, so this costs nothing.
func checkWeights(ctx context.Context, e engine.Engine, models []native.ModelConfig) error {
	loaded, err := e.Models(ctx)
	if err != nil {
		return err
	}
	digests := map[engine.ModelID]string{}
	for _, m := range loaded {
		digests[m.ID] = strings.TrimPrefix(m.Digest, "sha256:")
	}
	for _, entry := range modelstore.Catalogue() {
		for _, m := range models {
			got := digests[m.ID]
			known := func(f modelstore.File) bool { return f.SHA256 == got }
			if entry.Path == modelstore.Models+"/"+m.Path && !slices.ContainsFunc(entry.Files, known) {
				return fmt.Errorf("the weights of model %s have the wrong checksum (SHA-256 %s): they are damaged or were replaced; fetch them again with `sluice pull %s`, or give weights of your own a path of their own",
					m.ID, got, entry.Name)
			}
		}
	}
	return nil
}

// CheckModels finds missing and cut-off model files before anything is started, with the remedy.
func CheckModels(cfg *config.Config) error {
	store := modelstore.Open(cfg.Downloads)
	for _, m := range cfg.Engines.Native.Models {
		for _, e := range modelstore.Catalogue() {
			if e.Path != modelstore.Models+"/"+m.Path {
				continue
			}
			if _, err := store.Path(e.Name); err != nil {
				return fmt.Errorf("model %s: %w", m.ID, err)
			}
		}
		path := cfg.ModelPath(m.Path)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("model %s is not at %s; put the file there, or correct engines.native.models", m.ID, path)
		}
	}
	return nil
}

// Artefacts lists the entries of the catalogue that a configuration uses: those whose path a native model has, and the Temporal CLI when
// it is to be supervised and is not on PATH.
func Artefacts(cfg *config.Config) []string {
	var out []string
	for _, e := range modelstore.Catalogue() {
		used := slices.ContainsFunc(cfg.Engines.Native.Models, func(m native.ModelConfig) bool { return modelstore.Models+"/"+m.Path == e.Path })
		if e.Name == modelstore.Temporal {
			_, err := exec.LookPath(modelstore.Temporal)
			used = cfg.Workflows.Enabled && cfg.Workflows.Address == "" && cfg.Workflows.Embedded.Binary == "" && err != nil
		}
		if used {
			out = append(out, e.Name)
		}
	}
	return out
}
