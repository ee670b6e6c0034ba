package server

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/testmodel"
)

// The default models, as the engine reads them, are those of the catalogue: otherwise no fresh installation would start. Other
// weights under their names are refused.
func TestDefaultModelsAreThoseOfTheCatalogue(t *testing.T) {
	models := []native.ModelConfig{
		{ID: "chat", Path: testmodel.Path(t, testmodel.SmolLM2)}, {ID: "vectors", Path: testmodel.Path(t, testmodel.MiniLM)},
	}
	e, err := native.New(native.Config{Models: models, Threads: 2, ContextTokens: 64}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	names := []native.ModelConfig{{ID: "chat", Path: testmodel.SmolLM2}, {ID: "vectors", Path: testmodel.MiniLM}} // as the configuration has them
	if err := checkWeights(t.Context(), e, names); err != nil {
		t.Error(err)
	}
	names[0].ID, names[1].ID = names[1].ID, names[0].ID
	if err := checkWeights(t.Context(), e, names); err == nil || !strings.Contains(err.Error(), "wrong checksum") {
		t.Errorf("swapped models: %v", err)
	}
}
