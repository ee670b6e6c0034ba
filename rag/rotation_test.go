package rag

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/wrapkey/wrapkeytest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestDocumentsOutliveRotations: more documents than one step takes are found by a new replica when the keys of before are destroyed; one that was
// deleted stays so, and one that was ingested again is the newer.
func TestDocumentsOutliveRotations(t *testing.T) {
	alone(t)
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		ring := keyring.FromBytes(bytes.Repeat([]byte{7}, 32))
		s := service(t, db, newHashed())
		create(t, s, "acme", "kb")
		for i := range 9 {
			ingest(t, s, "kb", fmt.Sprintf("%d.txt", i), fmt.Sprintf("The heating of flat %d costs %d yuan.", i, 1000+i))
		}
		finish := wrapkeytest.Begin(t, db, ring, Wrapped(ring))
		if err := s.DeleteDocument(t.Context(), "acme", "kb", "3.txt"); err != nil {
			t.Fatal(err)
		}
		ingest(t, s, "kb", "4.txt", "Flat 4 heats with coal.")
		finish()
		wrapkeytest.Begin(t, db, ring, Wrapped(ring))()
		var epochs []int64
		if err := db.Model(&versionRow{}).Distinct().Pluck("epoch", &epochs).Error; err != nil || len(epochs) != 1 || epochs[0] != 2 {
			t.Errorf("documents are of epochs %v, %v", epochs, err)
		}
		want := []string{"Flat 4 heats with coal."}
		for _, i := range []int{0, 1, 2, 5, 6, 7, 8} {
			want = append(want, fmt.Sprintf("The heating of flat %d costs %d yuan.", i, 1000+i))
		}
		var found []string
		for _, p := range find(t, service(t, db, newHashed()), "kb", "heating of flat") {
			found = append(found, p.Text)
		}
		if slices.Sort(found); !slices.Equal(found, want) {
			t.Errorf("a new replica finds %q", found)
		}
	})
}
