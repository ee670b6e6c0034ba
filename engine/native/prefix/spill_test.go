//go:build unix

package prefix

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/native/exec"
)

// spilling returns a tree with room for some pages in memory and on disk.
func spilling(t *testing.T, cfg Config, slots int) (*Tree, *exec.Pages) {
	t.Helper()
	cfg.SpillDir, cfg.SpillBytes = filepath.Join(t.TempDir(), "made", "on demand"), slots*os.Getpagesize()
	pages := newPages()
	tree := New(cfg, pages)
	if tree.SpillErr() != nil || tree.Stats().SpillRoom != slots {
		t.Fatalf("%d slots: %v", tree.Stats().SpillRoom, tree.SpillErr())
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
		if pages.InUse() != 0 {
			t.Errorf("%d pages were not given back", pages.InUse())
		}
	})
	return tree, pages
}

func TestSpilledPagesComeBack(t *testing.T) {
	tree, pages := spilling(t, Config{SpillMoves: 3}, 20)
	id, tokens := NamespaceID{1}, words(1, 8*full)
	insert(t, tree, id, tokens)
	for tree.Stats().Pages > 0 {
		tree.Evict(2)
		check(t, tree)
	}
	if st := tree.Stats(); st.Spilled != 8 || st.SpillPages != 8 || pages.InUse() != 0 {
		t.Fatalf("%d pages in use, %+v", pages.InUse(), st)
	}
	if other := known(t, tree, NamespaceID{2}, tokens); other != 0 {
		t.Error("another namespace reads what is on disk")
	}
	var found []int
	for more := true; more; {
		var c *exec.Cache
		var n int
		c, n, more = tree.Match(id, tokens)
		verify(t, id, tokens, c)
		check(t, tree)
		c.Release()
		found = append(found, n)
	}
	if !slices.Equal(found, []int{3 * full, 6 * full, 8*full - 1}) {
		t.Errorf("%v tokens found, one call after the other", found)
	}
	if st := tree.Stats(); st.Promoted != 8 || st.SpillPages != 0 || st.Pages != 8 {
		t.Errorf("%+v", st)
	}
}

// When more is evicted than one call may write, the beginnings are kept.
func TestSpillKeepsBeginnings(t *testing.T) {
	tree, _ := spilling(t, Config{SpillMoves: 3}, 20)
	id, tokens := NamespaceID{1}, words(1, 8*full)
	insert(t, tree, id, tokens)
	if got := tree.Evict(8); got != 8 {
		t.Fatalf("%d pages evicted", got)
	}
	if st := tree.Stats(); st.Evicted != 8 || st.Spilled != 3 {
		t.Errorf("%+v", st)
	}
	if got := known(t, tree, id, tokens); got != 3*full {
		t.Errorf("%d tokens found", got)
	}
}

// A page that is computed again need not be read.
func TestInsertReplacesSpilledPages(t *testing.T) {
	tree, pages := spilling(t, Config{SpillMoves: 9}, 20)
	id, tokens := NamespaceID{1}, words(1, 4*full)
	insert(t, tree, id, tokens)
	tree.Evict(3)
	c := pages.NewCache()
	compute(t, id, tokens, c)
	tree.Insert(id, tokens, c)
	c.Release()
	check(t, tree)
	if st := tree.Stats(); st.SpillPages != 0 || st.Pages != 4 || st.Promoted != 0 || st.Present != 1 {
		t.Errorf("%+v", st)
	}
	known(t, tree, id, tokens)
}

func TestFullSpillFile(t *testing.T) {
	tree, _ := spilling(t, Config{Pages: 4, SpillMoves: 9}, 6)
	id := NamespaceID{1}
	for kind := range 10 {
		insert(t, tree, id, words(kind, 2*full+1))
	}
	if st := tree.Stats(); st.SpillPages != 6 || st.SpillDropped != 2*10-4-6 {
		t.Errorf("%+v", st)
	}
	// What is left is what came last.
	for kind := range 10 {
		v := tree.edges[edge{tree.spaces[id].root.id, chunk(words(kind, full))}]
		if (v != nil) != (kind >= 5) {
			t.Errorf("prompt %d is there: %v", kind, v != nil)
		}
	}
}

func TestSpillQuota(t *testing.T) {
	tree, _ := spilling(t, Config{Pages: 8, Quota: 4, SpillMoves: 9}, 8)
	mine, theirs := NamespaceID{1}, NamespaceID{2}
	insert(t, tree, theirs, words(9, 4*full))
	tree.Evict(4)
	for kind := range 20 {
		insert(t, tree, mine, words(kind, 3*full))
	}
	if got := known(t, tree, theirs, words(9, 4*full)); got != 4*full-1 {
		t.Errorf("%d tokens of another tenant are left on disk", got)
	}
}

func TestSpillFileHasNoNameAndNoPlainContent(t *testing.T) {
	tree, _ := spilling(t, Config{SpillMoves: 9}, 20)
	id, tokens := NamespaceID{1}, words(1, 4*full)
	insert(t, tree, id, tokens)
	tree.Evict(4)
	info, err := tree.spill.file.Stat()
	if err != nil || info.Mode() != 0o600 || info.Size() != int64(20*tree.spill.stride) {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	dir := filepath.Dir(tree.spill.file.Name())
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("%d names in the directory, %v", len(names), err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	data, err := io.ReadAll(io.NewSectionReader(tree.spill.file, 0, info.Size()))
	if err != nil || bytes.Count(data, make([]byte, 100)) == 0 {
		t.Fatal(err)
	}
	for _, plain := range contents(id, tokens) {
		if bytes.Contains(data, plain[:8]) {
			t.Fatal("the file tells what was computed")
		}
	}
}

// Whatever happens to a slot, it is either what was written or a miss.
func TestDamagedSlotsAreMisses(t *testing.T) {
	at := func(tree *Tree, i int) int64 { return int64(i) * int64(tree.spill.stride) }
	raw := func(t *testing.T, tree *Tree, i int) []byte {
		data := make([]byte, tree.spill.stride)
		if _, err := tree.spill.file.ReadAt(data, at(tree, i)); err != nil {
			t.Fatal(err)
		}
		return data
	}
	put := func(t *testing.T, tree *Tree, i int, data []byte) {
		if _, err := tree.spill.file.WriteAt(data, at(tree, i)); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(where int) func(*testing.T, *Tree) {
		return func(t *testing.T, tree *Tree) {
			data := raw(t, tree, 0)
			data[where] ^= 0x10
			put(t, tree, 0, data)
		}
	}
	for name, harm := range map[string]func(*testing.T, *Tree){
		"nonce":   flip(3),
		"content": flip(500),
		"tag":     flip(newPages().Bytes() + sealOverhead - 1),
		"zeroes":  func(t *testing.T, tree *Tree) { put(t, tree, 0, make([]byte, tree.spill.stride)) },
		"swapped": func(t *testing.T, tree *Tree) {
			a, b := raw(t, tree, 0), raw(t, tree, 1)
			put(t, tree, 0, b)
			put(t, tree, 1, a)
		},
		"older": func(t *testing.T, tree *Tree) { // what the same slot held before
			old := raw(t, tree, 0)
			id, tokens := NamespaceID{1}, words(1, full)
			known(t, tree, id, tokens)
			tree.Evict(1)
			put(t, tree, 0, old)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := spilling(t, Config{SpillMoves: 9}, 4)
			id, a, b := NamespaceID{1}, words(1, full), words(2, full)
			insert(t, tree, id, a)
			tree.Evict(1)
			insert(t, tree, id, b)
			tree.Evict(1)
			harm(t, tree)
			if got := known(t, tree, id, a); got != 0 {
				t.Errorf("%d tokens of a damaged page", got)
			}
			if st := tree.Stats(); st.SpillDamaged != 1 || tree.SpillErr() != nil {
				t.Errorf("%+v, %v", st, tree.SpillErr())
			}
			insert(t, tree, id, a)
			if got := known(t, tree, id, a); got != full-1 {
				t.Errorf("%d tokens after it was computed again", got)
			}
			if want := full - 1; name != "swapped" && known(t, tree, id, b) != want {
				t.Error("a sound page is gone")
			}
		})
	}
}

func TestNoSpillFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		says string
	}{
		"not a directory": {Config{SpillDir: file, SpillBytes: 1 << 20}, "not a directory"},
		"cannot be made":  {Config{SpillDir: filepath.Join(file, "below"), SpillBytes: 1 << 20}, "not a directory"},
		"no space":        {Config{SpillDir: t.TempDir(), SpillBytes: 1 << 60}, "reserve"},
		"too small":       {Config{SpillDir: t.TempDir(), SpillBytes: 100}, "spill_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Pages = 2
			tree := New(c.cfg, newPages())
			if err := tree.SpillErr(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
			id := NamespaceID{1}
			for kind := range 4 {
				insert(t, tree, id, words(kind, 2*full))
			}
			if known(t, tree, id, words(3, 2*full)) != 2*full-1 || tree.Stats().Spilled != 0 || tree.Close() != nil {
				t.Errorf("%+v", tree.Stats())
			}
		})
	}
}

// A disk that fails later ends the tier, not the program, and nothing is lost but what was there.
func TestSpillFileFails(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*Tree) error
		want error
	}{
		"write": {func(tree *Tree) error { return tree.spill.file.Close() }, os.ErrClosed},
		"read":  {func(tree *Tree) error { return tree.spill.file.Truncate(0) }, errUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := spilling(t, Config{Pages: 4, SpillMoves: 9}, 20)
			id := NamespaceID{1}
			for kind := range 4 {
				insert(t, tree, id, words(kind, 2*full))
			}
			if name == "read" {
				tree.Evict(4) // so that nothing has to be written before
			}
			if err := c.fail(tree); err != nil {
				t.Fatal(err)
			}
			if name == "read" {
				known(t, tree, id, words(0, 2*full))
			} else {
				insert(t, tree, id, words(4, 2*full))
			}
			check(t, tree)
			if err := tree.SpillErr(); !errors.Is(err, c.want) {
				t.Fatal(err)
			}
			if st := tree.Stats(); st.SpillPages != 0 || st.SpillRoom != 0 {
				t.Errorf("%+v", st)
			}
			insert(t, tree, id, words(7, 2*full))
			if got := known(t, tree, id, words(7, 2*full)); got != 2*full-1 {
				t.Errorf("%d tokens found in memory", got)
			}
			if got := known(t, tree, id, words(1, 2*full)); got != 0 {
				t.Errorf("%d tokens found on a disk that failed", got)
			}
		})
	}
}

// Writing and reading a page of SmolLM2-135M in half precision.
func BenchmarkSpill(b *testing.B) {
	page := make([]byte, 30*3*2*64*64*2)
	s, err := openSpill(b.TempDir(), 1<<26, len(page))
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	at, err := s.write(page)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			s.free(at)
			if at, err = s.write(page); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			if err := s.read(at, page); err != nil {
				b.Fatal(err)
			}
		}
	})
}
