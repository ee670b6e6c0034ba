package database_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

type span struct{ From, Until int64 }

type thing struct {
	Name  string `gorm:"column:title"`
	Span  span   `gorm:"embedded"`
	Bytes []byte
}

func (thing) TableName() string { return "things" }

// TestInsert adds more rows than one statement takes, of every type, adds to those that are there, and tells which are new.
func TestInsert(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		kind := "BLOB"
		if !database.IsSQLite(db) {
			kind = "BYTEA"
		}
		if err := db.Exec("CREATE TABLE things (title TEXT PRIMARY KEY, \"from\" BIGINT NOT NULL, until BIGINT NOT NULL, bytes " + kind + " NOT NULL)").Error; err != nil {
			t.Fatal(err)
		}
		var rows []thing
		for i := range int64(1203) {
			rows = append(rows, thing{fmt.Sprintf("%d, 'λ' {\"\\n\n", i), span{-i, 1<<62 + i}, bytes.Repeat([]byte{byte(i), 0, 255}, int(i%7))})
		}
		rows[0].Bytes, rows[1].Name = []byte{}, ""
		rows[2].Bytes = bytes.Repeat([]byte("long "), 100_000)
		err := db.Transaction(func(tx *gorm.DB) error {
			if err := database.Insert(tx, rows[:601], ""); err != nil {
				return err
			}
			added, err := database.InsertMissing(tx, rows, "title")
			if err != nil || len(added) != 602 || added[rows[600].Name] || !added[rows[601].Name] || !added[rows[1202].Name] {
				t.Errorf("%d added, %v", len(added), err)
			}
			var pointers []*thing
			for i := range 10 {
				pointers = append(pointers, &rows[i])
			}
			return database.Insert(tx, pointers, `ON CONFLICT (title) DO UPDATE SET until = things.until - excluded."from"`)
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []thing
		if err := db.Order(`"from" DESC`).Find(&got).Error; err != nil || len(got) != len(rows) {
			t.Fatalf("%d rows, %v", len(got), err)
		}
		for i, r := range rows {
			if i < 10 {
				r.Span.Until += int64(i)
			}
			if g := got[i]; g.Name != r.Name || g.Span != r.Span || !bytes.Equal(g.Bytes, r.Bytes) {
				t.Fatalf("row %d is %.100q %v %q", i, g.Name, g.Span, g.Bytes)
			}
		}
		if err := database.Insert(db, []thing{}, ""); err != nil {
			t.Error(err)
		}
		if err := database.Insert(db, rows[:1], ""); err == nil || !strings.Contains(err.Error(), "insert into things") {
			t.Errorf("a row that is there: %v", err)
		}
	})
}

// TestInsertOfBytes: in SQLite, no bytes are no NULL, and a text ends where it ends.
func TestInsertOfBytes(t *testing.T) {
	db := dbtest.SQLite(t)
	if err := db.Exec(`CREATE TABLE things (title TEXT NOT NULL, "from" BIGINT NOT NULL, until BIGINT NOT NULL, bytes BLOB NOT NULL)`).Error; err != nil {
		t.Fatal(err)
	}
	if err := database.Insert(db, []thing{{Name: "a\x00b"}, {Name: "", Bytes: []byte{0}}}, ""); err != nil {
		t.Fatal(err)
	}
	var sizes []string
	err := db.Raw("SELECT typeof(title) || length(CAST(title AS BLOB)) || typeof(bytes) || length(bytes) FROM things ORDER BY rowid").Scan(&sizes).Error
	if err != nil || fmt.Sprint(sizes) != "[text3blob0 text0blob1]" {
		t.Errorf("%v, %v", sizes, err)
	}
}

// TestInsertCopiesNoValues: SQLite reads rows where they are. What thousands of records allocate on their way is collected beside requests.
func TestInsertCopiesNoValues(t *testing.T) {
	db := dbtest.SQLite(t)
	if err := db.Exec(`CREATE TABLE things (title TEXT NOT NULL, "from" BIGINT NOT NULL, until BIGINT NOT NULL, bytes BLOB NOT NULL)`).Error; err != nil {
		t.Fatal(err)
	}
	rows := make([]thing, 400)
	for i := range rows {
		rows[i] = thing{fmt.Sprint("a long enough title ", i), span{1 << 40, 1 << 41}, []byte("bytes")}
	}
	n := testing.AllocsPerRun(5, func() {
		if err := database.Insert(db, rows, ""); err != nil {
			t.Fatal(err)
		}
	})
	if n > float64(len(rows)) {
		t.Errorf("%.0f allocations for %d rows", n, len(rows))
	}
}

// TestInsertRefusesOtherKinds: a column that neither way knows is an error, with its name, before anything is written.
func TestInsertRefusesOtherKinds(t *testing.T) {
	type odd struct {
		Name  string
		Ready bool
	}
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		if err := database.Insert(db, []odd{{"a", true}}, ""); err == nil || !strings.Contains(err.Error(), "ready") {
			t.Errorf("%v", err)
		}
	})
}
