package export_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/audittest"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestExportTiles: the directory holds what the checkpoint covers, hash by hash and entry by entry, and grows with the log.
func TestExportTiles(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		dir := t.TempDir()
		reads, err := checkpoint.NewVerifier(l.VerifierKey())
		must(t, err)
		if _, err := l.ExportTiles(t.Context(), dir); err == nil {
			t.Error("an empty log was exported")
		}
		for _, n := range []int{200, 400} {
			l.Append(n, n)
			l.Flush()
			tree, err := l.ExportTiles(t.Context(), dir)
			must(t, err)
			text, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
			must(t, err)
			if got, err := reads.Open(string(text)); err != nil || got != tree {
				t.Errorf("%s\n%v, %v", text, got, err)
			}
		}
		// The first 512 of 600 are in full tiles: their leaves are those of the entries, and their root leads to the signed one.
		for n, name := range []string{"000", "001"} {
			leaves, err := os.ReadFile(filepath.Join(dir, "tile/0", name))
			must(t, err)
			entries, err := os.ReadFile(filepath.Join(dir, "tile/entries", name))
			must(t, err)
			for i := range 256 {
				size := int(binary.BigEndian.Uint16(entries))
				leaf := tlog.RecordHash(entries[2 : 2+size])
				if entries = entries[2+size:]; !bytes.Equal(leaf[:], leaves[32*i:32*i+32]) {
					t.Fatalf("entry %d is not what tile %s says", 256*n+i, name)
				}
			}
			if len(entries) != 0 || len(leaves) != 256*32 {
				t.Errorf("%s has more than 256 entries", name)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "tile/0/002.p/88")); err != nil {
			t.Error(err)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
