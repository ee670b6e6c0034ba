package server

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestAFileWithHalfOfTheModels: a file of an earlier release that names only one of both keys does not start, and is told what to write.
func TestAFileWithHalfOfTheModels(t *testing.T) {
	const before, now = "all-minilm-l6-v2", "multilingual-e5-small"
	for _, c := range []struct{ listed, named engine.ModelID }{{now, before}, {before, now}} {
		models := []engine.Model{{ID: "chat"}, {ID: c.listed, CanEmbed: true}}
		_, err := embeddingModel(models, string(c.named))
		if err == nil {
			t.Fatalf("%s is found among %s", c.named, c.listed)
		}
		for _, want := range []string{"rag.embedding_model", "engines.native.models", "sluice pull", string(c.listed), string(c.named)} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
		if i, err := embeddingModel(models, string(c.listed)); i != 1 || err != nil {
			t.Errorf("%d, %v", i, err)
		}
	}
	if _, err := embeddingModel(nil, now); err == nil {
		t.Error("no models at all are taken")
	}
}

// TestOneReplicaLeadsReembedding: also on a database on which nobody has led yet.
func TestOneReplicaLeadsReembedding(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		take := func(holder string) bool {
			t.Helper()
			leads, err := takeReembedding(db, holder, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return leads
		}
		if !take("a") || take("b") || !take("a") {
			t.Error("not exactly the first one leads")
		}
		if err := reembedLease().Release(db, "a"); err != nil || !take("b") || take("a") {
			t.Errorf("after the first one has stopped: %v", err)
		}
	})
}
