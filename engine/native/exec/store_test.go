package exec

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

var testKey = Key{Version: storeVersion, Model: "sha256:00", Plan: "native", ISA: "generic", Graph: "sha256:11"}

func testConstants(sizes ...int) (constants []constant, want map[string][]byte) {
	want = map[string][]byte{}
	for i, n := range sizes {
		name := string(rune('a' + i))
		data := make([]byte, n)
		for j := range data {
			data[j] = byte(i*31 + j*7)
		}
		want[name] = data
		constants = append(constants, constant{name: name, bytes: n, fill: func(mem []byte) error { copy(mem, data); return nil }})
	}
	return constants, want
}

func testWanted() []constant {
	constants, _ := testConstants(1, 64, 100, 4096, 0, 63)
	return constants
}

func writtenStore(t *testing.T) (dir, path string, want map[string][]byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "plans")
	constants, want := testConstants(1, 64, 100, 4096, 0, 63)
	if err := writeStore(dir, testKey, constants); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, testKey.name()), want
}

func TestStoreGivesBackWhatWasPacked(t *testing.T) {
	dir, _, want := writtenStore(t)
	s, err := openStore(dir, testKey, testWanted(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.free()
	if len(s.data) != len(want) {
		t.Fatalf("%d constants, want %d", len(s.data), len(want))
	}
	for name, data := range want {
		if !bytes.Equal(s.data[name], data) {
			t.Errorf("constant %s differs", name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %d files, %v", len(entries), err)
	}
}

// Whatever happens to a file, it is never used: every single byte that is flipped and every length it is cut to is noticed.
func TestStoreNoticesEveryAlteration(t *testing.T) {
	dir, path, _ := writtenStore(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := func(content []byte) bool {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openStore(dir, testKey, testWanted(), 1)
		if err != nil {
			return false
		}
		_, constants := testConstants(1, 64, 100, 4096, 0, 63)
		for name, data := range constants {
			if !bytes.Equal(s.data[name], data) {
				t.Errorf("the altered constant %s was used", name)
			}
		}
		return s.free() == nil
	}
	for at := range whole {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		_ = used(bad) // padding may change, content may not
	}
	for _, cut := range []int{0, 1, len(storeMagic), 40, 60, len(whole) / 2, len(whole) - 65} {
		if used(whole[:cut]) {
			t.Errorf("a file cut to %d of %d bytes was used", cut, len(whole))
		}
	}
	if !used(whole) {
		t.Error("the whole file was refused")
	}
}

func TestStoreOfAnotherKeyIsNotUsed(t *testing.T) {
	dir, path, _ := writtenStore(t)
	other := testKey
	other.Model = "sha256:22"
	if _, err := openStore(dir, other, testWanted(), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another model: %v", err)
	}
	if err := os.Rename(path, filepath.Join(dir, other.name())); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir, other, testWanted(), 1); !errors.Is(err, errStale) {
		t.Errorf("a file under the wrong name: %v", err)
	}
}

// A file that is whole in itself but holds something else than what is wanted is not used, nor one that others may write.
func TestStoreOfOtherConstantsIsNotUsed(t *testing.T) {
	dir, path, _ := writtenStore(t)
	for _, sizes := range [][]int{{}, {1, 64, 100, 4096, 0}, {1, 64, 100, 4096, 0, 64}, {1, 64, 100, 4096, 0, 63, 1}} {
		wanted, _ := testConstants(sizes...)
		if s, err := openStore(dir, testKey, wanted, 1); err == nil {
			_ = s.free()
			t.Errorf("used for %v", sizes)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if s, err := openStore(dir, testKey, testWanted(), 1); err == nil {
		_ = s.free()
		t.Error("a file that everybody may write was used")
	}
}

// A packing that fails leaves nothing behind.
func TestStoreThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	fault := errors.New("disk on fire")
	err := writeStore(dir, testKey, []constant{{name: "a", bytes: 10, fill: func([]byte) error { return fault }}})
	entries, readErr := os.ReadDir(dir)
	if !errors.Is(err, fault) || readErr != nil || len(entries) != 0 {
		t.Errorf("%v; %d files, %v", err, len(entries), readErr)
	}
}

func FuzzSplitStore(f *testing.F) {
	f.Add([]byte(storeMagic))
	f.Add([]byte(storeMagic + "\xff\xff\xff\xff\xff\xff\xff\xff"))
	if frame, err := frameOf(storeHeader{Key: testKey}); err == nil {
		f.Add(frame)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		s := &store{mem: data, data: map[string][]byte{}}
		_ = s.read(testKey, testWanted(), 1)
	})
}
