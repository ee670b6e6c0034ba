package seal_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/audittest"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

func testWitness(t testing.TB, name string, at int64) checkpoint.Witness {
	t.Helper()
	w, err := checkpoint.NewWitness(name, bytes.Repeat([]byte(name[:1]), 32), func() time.Time { return time.Unix(at, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// witnessed opens a log with witnesses. It returns what reads its checkpoints, too.
func witnessed(t testing.TB, db *gorm.DB, keys ...string) (*audittest.Log, checkpoint.Verifier, checkpoint.Witnesses) {
	t.Helper()
	l := audittest.Open(t, db, func(c *audit.Config) { c.Witnesses = keys })
	reads, err := checkpoint.NewVerifier(l.VerifierKey())
	must(t, err)
	known, err := checkpoint.NewWitnesses(strings.Join(keys, "\n"))
	must(t, err)
	return l, reads, known
}

// cosignedNote returns the newest checkpoint with the line of a witness.
func cosignedNote(t testing.TB, l *audittest.Log, w checkpoint.Witness) string {
	t.Helper()
	note, err := l.Checkpoint(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	line, err := w.Cosign(note)
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint.Add(note, line)
}

func lastLine(note string) string {
	lines := strings.SplitAfter(note, "\n")
	return lines[len(lines)-2]
}

// tiles reads hash tiles of a log for tlog.TileHashReader.
type tiles struct {
	t testing.TB
	l *audittest.Log
}

func (r tiles) Height() int                     { return 8 }
func (r tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (r tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(list))
	for i, tile := range list {
		b, err := r.l.HashTile(r.t.Context(), tile)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}

// TestHashTiles: the tiles give every hash of the tree under the newest checkpoint, and nothing beyond it.
func TestHashTiles(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := audittest.Open(t, db, nil)
		if _, err := l.HashTile(t.Context(), tlog.Tile{H: 8, W: 1}); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("a tile of an empty log: %v", err)
		}
		l.Append(0, 520)
		l.Flush()
		_, top, err := l.Tree.Newest(t.Context())
		must(t, err)
		if top.Size != 520 {
			t.Fatalf("%d records", top.Size)
		}
		reader := tlog.TileHashReader(tlog.Tree{N: top.Size, Hash: top.Root}, tiles{t, l})
		indexes := make([]int64, tlog.StoredHashIndex(0, top.Size))
		for i := range indexes {
			indexes[i] = int64(i)
		}
		got, err := reader.ReadHashes(indexes)
		must(t, err)
		want, err := l.Tree.Hashes(t.Context()).ReadHashes(indexes)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Error("the tiles are not the tree")
		}
		for name, c := range map[string]struct {
			tile tlog.Tile
			code fault.Code
		}{
			"whole":                  {tlog.Tile{H: 8, W: 256}, ""},
			"part of a whole":        {tlog.Tile{H: 8, N: 1, W: 3}, ""},
			"the edge":               {tlog.Tile{H: 8, N: 2, W: 8}, ""},
			"above":                  {tlog.Tile{H: 8, L: 1, W: 2}, ""},
			"one too many":           {tlog.Tile{H: 8, N: 2, W: 9}, fault.CodeNotFound},
			"one too many above":     {tlog.Tile{H: 8, L: 1, W: 3}, fault.CodeNotFound},
			"too far":                {tlog.Tile{H: 8, N: 3, W: 1}, fault.CodeNotFound},
			"too high":               {tlog.Tile{H: 8, L: 2, W: 1}, fault.CodeNotFound},
			"highest":                {tlog.Tile{H: 8, L: 7, W: 1}, fault.CodeNotFound},
			"far away":               {tlog.Tile{H: 8, N: seal.MaxTileNumber, W: 256}, fault.CodeNotFound},
			"farther than numbers":   {tlog.Tile{H: 8, N: 1 << 62, W: 256}, fault.CodeInvalidValue},
			"higher than trees":      {tlog.Tile{H: 8, L: 8, W: 1}, fault.CodeInvalidValue},
			"entries":                {tlog.Tile{H: 8, L: -1, W: 1}, fault.CodeInvalidValue},
			"another height":         {tlog.Tile{H: 9, W: 1}, fault.CodeInvalidValue},
			"no width":               {tlog.Tile{H: 8}, fault.CodeInvalidValue},
			"too wide":               {tlog.Tile{H: 8, W: 257}, fault.CodeInvalidValue},
			"in front of everything": {tlog.Tile{H: 8, N: -1, W: 1}, fault.CodeInvalidValue},
		} {
			b, err := l.HashTile(t.Context(), c.tile)
			if c.code == "" && (err != nil || len(b) != 32*c.tile.W) || c.code != "" && !fault.Is(err, c.code) {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
		// A hash that is gone is not a tile that does not exist.
		dropTriggers(t, db)
		must(t, db.Exec("DELETE FROM audit_hashes WHERE idx = ?", tlog.StoredHashIndex(0, 5)).Error)
		if _, err := l.HashTile(t.Context(), tlog.Tile{H: 8, W: 256}); !errors.Is(err, seal.ErrRewritten) {
			t.Errorf("a tile with a lost hash: %v", err)
		}
	})
}

// TestCosign: cosignatures of known witnesses are taken once, shown with the checkpoint, and change nothing else.
func TestCosign(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b, stranger := testWitness(t, "a.example", 1_800_000_000), testWitness(t, "b.example", 1_800_000_001), testWitness(t, "c.example", 1)
		l, reads, known := witnessed(t, db, a.Key(), b.Key())
		ctx := t.Context()
		if note, err := l.CosignedCheckpoint(ctx); note != "" || err != nil {
			t.Errorf("an empty log: %q %v", note, err)
		}
		l.Append(0, 5)
		l.Flush()
		first := cosignedNote(t, l, a)
		must(t, l.Cosign(ctx, first))
		must(t, l.Cosign(ctx, first)) // again
		// The same witness at another time: the first stays.
		must(t, l.Cosign(ctx, cosignedNote(t, l, testWitness(t, "a.example", 1_900_000_000))))
		check := func(size int64, who ...string) {
			t.Helper()
			note, err := l.CosignedCheckpoint(ctx)
			must(t, err)
			tree, by, err := reads.OpenCosigned(note, known)
			must(t, err)
			var names []string
			for _, c := range by {
				names = append(names, c.Witness)
			}
			slices.Sort(names)
			if tree.Size != size || !slices.Equal(names, who) {
				t.Errorf("size %d cosigned by %q, want %d by %q", tree.Size, names, size, who)
			}
		}
		check(5, "a.example")
		must(t, l.Cosign(ctx, cosignedNote(t, l, b)))
		check(5, "a.example", "b.example")
		old := cosignedNote(t, l, b)

		l.Append(5, 5)
		l.Flush()
		check(10)
		must(t, l.Cosign(ctx, old)) // a witness may be late
		both := checkpoint.Add(cosignedNote(t, l, a), lastLine(cosignedNote(t, l, stranger)))
		must(t, l.Cosign(ctx, both)) // lines of strangers are passed over
		check(10, "a.example")

		got, err := l.Witnessed(ctx)
		must(t, err)
		want := []seal.Witnessed{{Witness: "a.example", Size: 10, Time: time.Unix(1_800_000_000, 0).UTC()}, {Witness: "b.example", Size: 5, Time: time.Unix(1_800_000_001, 0).UTC()}}
		if !slices.Equal(got, want) {
			t.Errorf("witnessed %v, want %v", got, want)
		}
		var rows int64
		must(t, db.Model(&seal.CosignatureRow{}).Count(&rows).Error)
		if rows != 3 {
			t.Errorf("%d rows, want 3", rows)
		}
		l.MustVerify()
	})
}

// TestCosignaturesAreEvidence: plain SQL cannot change them; who switches the guards off is noticed.
func TestCosignaturesAreEvidence(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a := testWitness(t, "a.example", 1_800_000_000)
		l, reads, known := witnessed(t, db, a.Key())
		l.Append(0, 5)
		l.Flush()
		must(t, l.Cosign(t.Context(), cosignedNote(t, l, a)))
		queries := []string{"UPDATE audit_cosignatures SET line = 'x'", "DELETE FROM audit_cosignatures"}
		if !database.IsSQLite(db) {
			queries = append(queries, "TRUNCATE audit_cosignatures")
		}
		for _, q := range queries {
			if err := db.Exec(q).Error; err == nil {
				t.Errorf("allowed: %s", q)
			}
		}
		note, err := l.CosignedCheckpoint(t.Context())
		must(t, err)
		dropTriggers(t, db)
		line := lastLine(note)
		for _, bad := range []string{"", "garbage", "— a.example AAAA\n", line[:len(line)-8] + "AAAA" + line[len(line)-4:], strings.Replace(line, "a.example", "b.example", 1)} {
			must(t, db.Exec("UPDATE audit_cosignatures SET line = ?", bad).Error)
			got, err := l.CosignedCheckpoint(t.Context())
			must(t, err)
			if _, by, err := reads.OpenCosigned(got, known); err != nil || len(by) != 0 {
				t.Errorf("line %q: cosigned by %v, %v", bad, by, err)
			}
			if state, err := l.Witnessed(t.Context()); err == nil && state[0].Size != 0 {
				t.Errorf("line %q: %v", bad, state)
			}
		}
		must(t, db.Exec("UPDATE audit_cosignatures SET line = ?, size = 4", line).Error)
		if state, err := l.Witnessed(t.Context()); err == nil {
			t.Errorf("moved to another size: %v", state)
		}
		must(t, db.Exec("UPDATE audit_checkpoints SET size = 4").Error)
		if state, err := l.Witnessed(t.Context()); err == nil {
			t.Errorf("moved with its checkpoint: %v", state)
		}
	})
}

// FuzzCosign hands a log anything for a cosigned checkpoint: what is taken can be shown, and holds.
func FuzzCosign(f *testing.F) {
	db := dbtest.SQLite(f)
	a := testWitness(f, "a.example", 1_800_000_000)
	l, reads, known := witnessed(f, db, a.Key())
	l.Append(0, 5)
	l.Flush()
	good := cosignedNote(f, l, a)
	f.Add(good)
	f.Add(good + lastLine(good))
	f.Add(good + "— b.example AAAAAAAA\n")
	f.Add(strings.Replace(good, "\n5\n", "\n05\n", 1))
	f.Add(strings.Replace(good, "\n\n", "\n\n\n", 1))
	f.Add(strings.TrimSuffix(good, "\n"))
	f.Add("")
	body, _ := seal.SplitNote(good)
	f.Fuzz(func(t *testing.T, note string) {
		err := l.Cosign(context.Background(), note)
		if err != nil && !fault.Is(err, fault.CodeInvalidValue) && !fault.Is(err, fault.CodeConflict) {
			t.Fatalf("%q: %v", note, err)
		}
		if _, by, oerr := reads.OpenCosigned(note, known); err == nil && (oerr != nil || len(by) == 0 || !strings.HasPrefix(note, body)) {
			t.Fatalf("%q was taken", note)
		}
		shown, err := l.CosignedCheckpoint(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := reads.OpenCosigned(shown, known); err != nil {
			t.Fatalf("after %q the checkpoint does not open: %v", note, err)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dropTriggers(t *testing.T, db *gorm.DB) {
	t.Helper()
	query, drop := "SELECT t.tgname || ' ON ' || c.relname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND t.tgparentid = 0", "DROP TRIGGER "
	if database.IsSQLite(db) {
		query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
	}
	var names []string
	if err := db.Raw(query).Scan(&names).Error; err != nil {
		t.Fatal(err)
	}
	if len(names) < 4 {
		t.Fatalf("only %d triggers guard the evidence", len(names))
	}
	for _, n := range names {
		must(t, db.Exec(drop+n).Error)
	}
}
