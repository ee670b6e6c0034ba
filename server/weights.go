package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
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
