package rag

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestOriginalsAreWhole: every document of the tenant. One that is deleted meanwhile is none; one that is there and cannot be read whole is an error, and is not
// left out.
func TestOriginalsAreWhole(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
			ingest(t, s, "kb", name, "words of "+name)
		}
		// read reads them all and calls meanwhile with the first of them.
		read := func(meanwhile func(Original)) (all []Original, err error) {
			err = Originals(t.Context(), db, keyring.FromBytes(bytes.Repeat([]byte{7}, 32)), "acme", func(o Original) error {
				if all = append(all, o); len(all) == 1 {
					meanwhile(o)
				}
				return nil
			})
			return all, err
		}
		names := func(all []Original) (out []string) {
			for _, o := range all {
				if o.Text != "words of "+o.Name {
					t.Errorf("%s: %q", o.Name, o.Text)
				}
				out = append(out, o.Name)
			}
			slices.Sort(out)
			return out
		}
		all, err := read(func(Original) {})
		if err != nil || !slices.Equal(names(all), []string{"a.txt", "b.txt", "c.txt"}) {
			t.Fatalf("%v, %v", names(all), err)
		}
		gone, lost := all[1], all[2]
		all, err = read(func(Original) {
			if err := s.DeleteDocument(t.Context(), "acme", "kb", gone.Name); err != nil {
				t.Error(err)
			}
		})
		if err != nil || len(all) != 2 || slices.Contains(names(all), gone.Name) {
			t.Errorf("%s was deleted meanwhile: %v, %v", gone.Name, names(all), err)
		}
		if err := db.Exec("DELETE FROM rag_chunks WHERE document = ?", lost.ID).Error; err != nil {
			t.Fatal(err)
		}
		if all, err := read(func(Original) {}); !errors.Is(err, errDamaged) {
			t.Errorf("%s has lost its chunks: %v, %v", lost.Name, names(all), err)
		}
	})
}
