package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// smallLog has n entries of a few bytes: the tree does not care.
func smallLog(t testing.TB, n int) *testLog {
	t.Helper()
	l := &testLog{signer: newSigner(t, 1)}
	for i := range n {
		l.seal(t, fmt.Appendf(nil, "entry %d", i))
	}
	return l
}

func (l *testLog) entries(from, to int64) ([][]byte, error) {
	var out [][]byte
	for _, r := range l.records[from:to] {
		out = append(out, r.Payload)
	}
	return out, nil
}

func (l *testLog) export(t testing.TB, dir string, size int) {
	t.Helper()
	tree, text := l.tree(t, size)
	must(t, WriteTiles(dir, tree, text, l.hashes, l.entries))
}

// tileFiles reads exported tiles as a foreign client does, from the names in the specification.
type tileFiles struct{ dir string }

func (f tileFiles) Height() int                     { return 8 }
func (f tileFiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (f tileFiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, t := range tiles {
		// Package tlog names tiles as the checksum database does, with the height.
		b, err := os.ReadFile(filepath.Join(f.dir, strings.Replace(t.Path(), "tile/8/", "tile/", 1)))
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// read returns the entries of an export and its checkpoint, by the format alone.
func (f tileFiles) read(t *testing.T, keys note.Verifier) (size int64, root []byte, entries [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "checkpoint"))
	must(t, err)
	n, err := note.Open(text, note.VerifierList(keys))
	must(t, err)
	var hash tlog.Hash
	lines := strings.Split(n.Text, "\n")
	_, err = fmt.Sscan(lines[1], &size)
	must(t, err)
	hash, err = tlog.ParseHash(lines[2])
	must(t, err)
	for at := int64(0); at < size; at += 256 {
		path := tlog.Tile{H: 8, L: 9, N: at / 256, W: int(min(256, size-at))}.Path()
		b, err := os.ReadFile(filepath.Join(f.dir, strings.Replace(path, "tile/8/9/", "tile/entries/", 1)))
		must(t, err)
		for len(b) > 0 {
			n := int(binary.BigEndian.Uint16(b))
			entries = append(entries, b[2:2+n])
			b = b[2+n:]
		}
	}
	return size, hash[:], entries
}

// TestTilesAgainstMerkle checks exports with an independent implementation of RFC 6962: the root from the exported entries alone, and proofs
// from the exported hashes alone.
func TestTilesAgainstMerkle(t *testing.T) {
	sizes := []int{0, 1, 2, 255, 256, 257, 700, 66_000}
	if testing.Short() {
		sizes = sizes[:7]
	}
	l := smallLog(t, slices.Max(sizes))
	keys, err := note.NewVerifier(l.signer.Key())
	must(t, err)
	for _, want := range sizes {
		f := tileFiles{t.TempDir()}
		l.export(t, f.dir, want)
		size, root, entries := f.read(t, keys)
		if size != int64(want) || len(entries) != want {
			t.Fatalf("%d entries, checkpoint of %d, want %d", len(entries), size, want)
		}
		hasher := rfc6962.DefaultHasher
		whole := (&compact.RangeFactory{Hash: hasher.HashChildren}).NewEmptyRange(0)
		for i, e := range entries {
			if string(e) != fmt.Sprint("entry ", i) {
				t.Fatalf("entry %d is %q", i, e)
			}
			must(t, whole.Append(hasher.HashLeaf(e), nil))
		}
		again, err := whole.GetRootHash(nil)
		must(t, err)
		if again = slices.Concat(again); len(again) == 0 {
			again = hasher.EmptyRoot()
		}
		if !bytes.Equal(again, root) {
			t.Fatalf("size %d: root %x, the other implementation says %x", size, root, again)
		}
		reader := tlog.TileHashReader(tlog.Tree{N: size, Hash: tlog.Hash(root)}, f)
		for i := int64(0); i < size; i += max(1, size/37) {
			path, err := tlog.ProveRecord(size, i, reader)
			must(t, err)
			must(t, proof.VerifyInclusion(hasher, uint64(i), uint64(size), hasher.HashLeaf(entries[i]), slices2(path), root))
			if i == 0 {
				continue
			}
			before, err := tlog.TreeHash(i, reader)
			must(t, err)
			steps, err := tlog.ProveTree(size, i, reader)
			must(t, err)
			must(t, proof.VerifyConsistency(hasher, uint64(i), uint64(size), slices2(steps), before[:], root))
		}
	}
}

func slices2[P ~[]tlog.Hash](p P) [][]byte {
	var out [][]byte
	for i := range p {
		out = append(out, p[i][:])
	}
	return out
}

// TestBundleAgainstMerkle checks each proof of a bundle with the other implementation.
func TestBundleAgainstMerkle(t *testing.T) {
	l := newLog(t, 300)
	cfg := l.config(t)
	cfg.Tenant = "other"
	p := unzip(t, l.bundle(t, cfg))
	tree := p.get(treeName)
	hashes, err := openHashes(bytes.NewReader(tree), bytes.NewReader(tree), int64(len(tree)), 300)
	must(t, err)
	for line := range bytes.Lines(p.get(recordsName)) {
		r, err := parseLine(line)
		must(t, err)
		path, err := tlog.ProveRecord(300, r.Index, hashes)
		must(t, err)
		must(t, proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(r.Index), 300, rfc6962.DefaultHasher.HashLeaf(r.Payload), slices2(path), cfg.Tree.Root[:]))
	}
}

func TestTilePaths(t *testing.T) {
	for want, c := range map[string]struct {
		level string
		n     int64
		width int
	}{
		"tile/0/000":                     {"0", 0, 256},
		"tile/0/999.p/1":                 {"0", 999, 1},
		"tile/1/x001/000":                {"1", 1000, 256},
		"tile/3/x001/x234/067":           {"3", 1_234_067, 256},
		"tile/entries/x001/x234/067.p/8": {"entries", 1_234_067, 8},
	} {
		if got := tilePath(c.level, c.n, c.width); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for n := int64(0); n < 1e9; n = n*7/3 + 1 {
		if got, want := tilePath("2", n, 256), strings.Replace(tlog.Tile{H: 8, L: 2, N: n, W: 256}.Path(), "tile/8/", "tile/", 1); got != want {
			t.Errorf("%s, package tlog says %s", got, want)
		}
	}
}

// TestTilesGrow: a later export leaves full tiles alone, and what a crash left behind heals.
func TestTilesGrow(t *testing.T) {
	l := smallLog(t, 800)
	dir := t.TempDir()
	l.export(t, dir, 600)
	full, long := []string{"tile/0/000", "tile/0/001", "tile/entries/000", "tile/entries/001"}, time.Unix(1_000_000_000, 0)
	for _, path := range full {
		must(t, os.Chtimes(filepath.Join(dir, path), long, long))
	}
	// An export that fails leaves the old checkpoint, under which everything is there.
	tree, text := l.tree(t, 800)
	failed := errors.New("database is gone")
	err := WriteTiles(dir, tree, text, l.hashes, func(from, to int64) ([][]byte, error) {
		if from == 768 {
			return nil, failed
		}
		return l.entries(from, to)
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	keys, err := note.NewVerifier(l.signer.Key())
	must(t, err)
	if size, _, _ := (tileFiles{dir}).read(t, keys); size != 600 {
		t.Errorf("the checkpoint is of %d records", size)
	}
	must(t, os.Remove(filepath.Join(dir, "tile/0/001")))
	l.export(t, dir, 800)
	for _, path := range full {
		info, err := os.Stat(filepath.Join(dir, path))
		must(t, err)
		if info.ModTime().Equal(long) == (path == "tile/0/001") {
			t.Errorf("%s was written at %v", path, info.ModTime())
		}
	}
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, ".new") {
			t.Errorf("%s was left behind", path)
		}
		return err
	}))
}

// TestTilesRefuse: what is not one log never becomes one directory.
func TestTilesRefuse(t *testing.T) {
	l := smallLog(t, 600)
	fork := smallLog(t, 100)
	fork.seal(t, []byte("something else"))
	for i := len(fork.records); i < 600; i++ {
		fork.seal(t, l.records[i].Payload)
	}
	dir := t.TempDir()
	l.export(t, dir, 500)
	tree, text := fork.tree(t, 600)
	if err := WriteTiles(dir, tree, text, fork.hashes, fork.entries); err == nil || !strings.Contains(err.Error(), "not the beginning") {
		t.Errorf("fork: %v", err)
	}
	tree, text = l.tree(t, 400)
	if err := WriteTiles(dir, tree, text, l.hashes, l.entries); err == nil || !strings.Contains(err.Error(), "not the beginning") {
		t.Errorf("rolled back: %v", err)
	}
	named, err := checkpoint.NewSigner("other.example/log", seed(1))
	must(t, err)
	tree, _ = l.tree(t, 600)
	text, err = named.Sign(tree)
	must(t, err)
	if err := WriteTiles(dir, tree, text, l.hashes, l.entries); err == nil || !strings.Contains(err.Error(), "not the beginning") {
		t.Errorf("another name: %v", err)
	}
	_, text = l.tree(t, 599)
	if err := WriteTiles(dir, tree, text, l.hashes, l.entries); err == nil || !strings.Contains(err.Error(), "does not state") {
		t.Errorf("another checkpoint: %v", err)
	}
	_, text = l.tree(t, 600)
	if err := WriteTiles(t.TempDir(), tree, text, fork.hashes, l.entries); err == nil || !strings.Contains(err.Error(), "do not give the root") {
		t.Errorf("other hashes: %v", err)
	}
	if err := WriteTiles(t.TempDir(), tree, text, l.hashes, fork.entries); err == nil || !strings.Contains(err.Error(), "record 100 is not") {
		t.Errorf("other entries: %v", err)
	}
	short := func(from, to int64) ([][]byte, error) { return l.entries(from, to-1) }
	if err := WriteTiles(t.TempDir(), tree, text, l.hashes, short); err == nil || !strings.Contains(err.Error(), "255 entries, want 256") {
		t.Errorf("too few entries: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "checkpoint"), []byte("nothing"), 0o600))
	if err := WriteTiles(dir, tree, text, l.hashes, l.entries); err == nil || !strings.Contains(err.Error(), "it is no checkpoint") {
		t.Errorf("spoiled checkpoint: %v", err)
	}
}

// TestTilesPruned: entries that the log does not have any more are not there, the hashes are.
func TestTilesPruned(t *testing.T) {
	l := smallLog(t, 600)
	dir := t.TempDir()
	tree, text := l.tree(t, 600)
	must(t, WriteTiles(dir, tree, text, l.hashes, func(from, to int64) ([][]byte, error) {
		if from < 256 {
			return nil, nil
		}
		return l.entries(from, to)
	}))
	for path, want := range map[string]bool{"tile/entries/000": false, "tile/entries/001": true, "tile/0/000": true} {
		if _, err := os.Stat(filepath.Join(dir, path)); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
