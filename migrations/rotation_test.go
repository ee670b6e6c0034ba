package migrations_test

import (
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestRotationAcrossAnUpgrade: a rotation of the wrapping keys that is under way takes in every kind that has come since it began, waits for its grace
// anew, and keeps releases off that know less kinds; without one, nothing is noted.
func TestRotationAcrossAnUpgrade(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *gorm.DB{
		"sqlite":   func(t *testing.T) *gorm.DB { return empty(t, "sqlite:"+t.TempDir()+"/test.db") },
		"postgres": func(t *testing.T) *gorm.DB { return empty(t, dbtest.PostgresURL(t)) },
	} {
		for _, running := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rotationAcross(t, open(t), running)
			})
		}
	}
}

func rotationAcross(t *testing.T, db *gorm.DB, running bool) {
	if err := migrations.ApplyTo(t.Context(), db, 46); err != nil {
		t.Fatal(err)
	}
	finished := 9
	if running {
		finished = 0
	}
	for statement, args := range map[string][]any{ // signing_keys: of a release that had them when it began
		"UPDATE wrapping_rotation SET active = 2, begun = 5, emptied = 7, finished = ?":                                                                                                    {finished},
		"INSERT INTO wrapping_progress (kind, position, total, done, unreadable, complete) VALUES ('documents', '', 4, 4, 0, 1), ('signing_keys', '', 3, 3, 0, 1)":                         nil,
		"INSERT INTO file_blobs (id, tenant, digest, size, chunks, suite, epoch, wrapped, touched_at) VALUES ('a', 't', '', 0, 0, 'gm', 1, 'x', 0), ('b', 't', '', 0, 0, 'gm', 2, 'x', 0)": nil,
	} {
		if err := db.Exec(statement, args...).Error; err != nil {
			t.Fatal(err)
		}
	}
	st, err := migrations.Apply(t.Context(), db)
	if err != nil || st.Floor < 48 {
		t.Fatalf("%+v, %v", st, err)
	}
	var kinds []string
	var files struct{ Total, Complete, Emptied int64 }
	if err := db.Raw("SELECT kind FROM wrapping_progress").Scan(&kinds).Error; err != nil {
		t.Fatal(err)
	}
	if err := db.Raw("SELECT COALESCE(SUM(total), 0) AS total, COALESCE(SUM(complete), 0) AS complete, (SELECT emptied FROM wrapping_rotation) AS emptied FROM wrapping_progress WHERE kind = 'files'").Scan(&files).Error; err != nil {
		t.Fatal(err)
	}
	want := []string{"documents", "signing_keys"}
	if running {
		want = []string{"batches", "documents", "files", "registry_keys", "replies", "signing_keys", "watermark_keys"}
	}
	if slices.Sort(kinds); !slices.Equal(kinds, want) || (files.Emptied == 0) != running || files.Complete != 0 || running != (files.Total == 1) {
		t.Errorf("running %v: %v, %+v", running, kinds, files)
	}
}

// empty opens a database without a schema.
func empty(t *testing.T, url string) *gorm.DB {
	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(url), MaxConnections: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close(db) })
	return db
}
