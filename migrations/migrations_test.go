package migrations_test

import (
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func TestBothDialectsHaveTheSameFiles(t *testing.T) {
	if s, p := names(t, "sqlite"), names(t, "postgres"); !slices.Equal(s, p) {
		t.Errorf("sqlite has %v, postgres has %v", s, p)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestBothDialectsHaveTheSameColumns(t *testing.T) {
	s, p := columns(t, dbtest.SQLite(t)), columns(t, dbtest.Postgres(t))
	if !slices.Equal(s, p) {
		t.Errorf("the schemas differ:\nsqlite   %s\npostgres %s", strings.Join(s, " "), strings.Join(p, " "))
	}
	if len(s) < 2 {
		t.Errorf("only %d columns found", len(s))
	}
}

func columns(t *testing.T, db *gorm.DB) []string {
	t.Helper()
	tables, err := db.Migrator().GetTables()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string // of partitioned tables: PostgreSQL only
	if !database.IsSQLite(db) {
		if err := db.Raw("SELECT relname FROM pg_class WHERE relispartition").Scan(&parts).Error; err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for _, table := range tables {
		if strings.HasPrefix(table, "goose_") || strings.HasPrefix(table, "sqlite_") || slices.Contains(parts, table) {
			continue
		}
		rows, err := db.Raw("SELECT * FROM " + table + " WHERE 1=0").Rows()
		if err != nil {
			t.Fatal(err)
		}
		cols, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range cols {
			out = append(out, table+"."+c)
		}
	}
	sort.Strings(out)
	return out
}

func TestApplyTwiceAndConcurrently(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		errs := make(chan error)
		for range 4 {
			go func() {
				_, err := migrations.Apply(t.Context(), db)
				errs <- err
			}()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		st, err := migrations.Check(t.Context(), db)
		if err != nil || st.Current != st.Latest || st.Latest == 0 || st.Floor == 0 || st.Usable() != nil {
			t.Errorf("status %+v, %v", st, err)
		}
	})
}

// TestNewerSchema: a schema of a later release is used as long as its floor allows, and is never touched.
func TestNewerSchema(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		st, err := migrations.Check(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		newer := st.Latest + 3
		if err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, ?)", newer, true).Error; err != nil {
			t.Fatal(err)
		}
		for _, floor := range []int64{st.Latest, st.Latest + 1} {
			if err := db.Exec("UPDATE installation_compatibility SET floor = ?", floor).Error; err != nil {
				t.Fatal(err)
			}
			got, err := migrations.Apply(t.Context(), db)
			if err != nil || got.Current != newer || got.Latest != st.Latest || got.Floor != floor {
				t.Fatalf("%+v, %v", got, err)
			}
			err = got.Usable()
			if floor == st.Latest && err != nil {
				t.Errorf("the release before must run on: %v", err)
			}
			if floor > st.Latest && (err == nil || !strings.Contains(err.Error(), "newer release")) {
				t.Errorf("a schema that breaks this binary is used: %v", err)
			}
		}
	})
}
