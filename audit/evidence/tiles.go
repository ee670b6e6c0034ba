package evidence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
)

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
)

// WriteTiles writes the log into dir as C2SP tlog-tiles, which foreign tools read: hash tiles, bundles of entries, and last the checkpoint
// note, so that a reader who has the checkpoint finds all that it covers. Full tiles that are there stay as they are; every file is written
// whole or not at all. entries gives the payloads from an index to another, or none of them if they were pruned. It refuses a directory that
// holds another log.
func WriteTiles(dir string, tree checkpoint.Tree, note string, hashes tlog.HashReader, entries func(from, to int64) ([][]byte, error)) error {
	e := tileExport{dir, tree, hashes, entries}
	if err := e.sameLog(note); err != nil {
		return fmt.Errorf("write tiles: %w", err)
	}
	for level := 0; tree.Size>>(level*tileHeight) > 0; level++ {
		for n, rest := int64(0), tree.Size>>(level*tileHeight); rest > 0; n, rest = n+1, rest-tileWidth {
			if err := e.tile(level, n, int(min(rest, tileWidth))); err != nil {
				return fmt.Errorf("write tiles: level %d, tile %d: %w", level, n, err)
			}
		}
	}
	if err := writeFile(filepath.Join(dir, "checkpoint"), []byte(note)); err != nil {
		return fmt.Errorf("write tiles: %w", err)
	}
	return nil
}

type tileExport struct {
	dir     string
	tree    checkpoint.Tree
	hashes  tlog.HashReader
	entries func(from, to int64) ([][]byte, error)
}

// sameLog makes sure that note states the tree, that the stored hashes give its root, and that what dir holds is an earlier state of it.
func (e tileExport) sameLog(note string) error {
	origin, now, err := stated(note)
	if err != nil {
		return err
	}
	if now != e.tree {
		return errors.New("the checkpoint does not state the tree")
	}
	if err := e.hasRoot(e.tree); err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(e.dir, "checkpoint"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	was, before, err := stated(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(e.dir, "checkpoint"), err)
	}
	if was != origin || before.Size > e.tree.Size || e.hasRoot(before) != nil {
		return fmt.Errorf("%s holds %d records of %s, which are not the beginning of this log; choose another directory", e.dir, before.Size, was)
	}
	return nil
}

func (e tileExport) hasRoot(t checkpoint.Tree) error {
	root, err := tlog.TreeHash(t.Size, e.hashes)
	if err == nil && root != t.Root {
		err = errors.New("the stored tree hashes do not give the root of the checkpoint; run `sluice audit verify`")
	}
	return err
}

// stated reads what a checkpoint states, without its signatures.
func stated(note string) (origin string, t checkpoint.Tree, err error) {
	lines := strings.SplitN(note, "\n", 4)
	if len(lines) < 4 {
		return "", t, errors.New("it is no checkpoint")
	}
	if t.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || t.Size < 0 {
		return "", t, errors.New("it is no checkpoint: malformed size")
	}
	if t.Root, err = tlog.ParseHash(lines[2]); err != nil {
		return "", t, errors.New("it is no checkpoint: malformed root")
	}
	return lines[0], t, nil
}

// tile writes the hash tile n of a level with width hashes, and on the lowest level the entries under it.
func (e tileExport) tile(level int, n int64, width int) error {
	path := filepath.Join(e.dir, tilePath(strconv.Itoa(level), n, width))
	if level == 0 {
		if err := e.bundle(n, width); err != nil {
			return err
		}
	}
	if exists(path, width) {
		return nil
	}
	b, err := tlog.ReadTileData(tlog.Tile{H: tileHeight, L: level, N: n, W: width}, e.hashes)
	if err != nil {
		return err
	}
	return writeFile(path, b)
}

func (e tileExport) bundle(n int64, width int) error {
	path := filepath.Join(e.dir, tilePath("entries", n, width))
	if exists(path, width) {
		return nil
	}
	from := n * tileWidth
	list, err := e.entries(from, from+int64(width))
	if err != nil || len(list) == 0 {
		return err
	}
	leaves, err := tlog.ReadTileData(tlog.Tile{H: tileHeight, L: 0, N: n, W: width}, e.hashes)
	if err != nil {
		return err
	}
	if len(list) != width {
		return fmt.Errorf("%d entries, want %d", len(list), width)
	}
	var out []byte
	for i, b := range list {
		if len(b) > record.MaxPayload || tlog.RecordHash(b) != tlog.Hash(leaves[i*tlog.HashSize:(i+1)*tlog.HashSize]) {
			return fmt.Errorf("record %d is not what the tree has; run `sluice audit verify`", from+int64(i))
		}
		out = binary.BigEndian.AppendUint16(out, uint16(len(b)))
		out = append(out, b...)
	}
	return writeFile(path, out)
}

// tilePath names tile n: three digits an element, an x before all but the last, and the width of a partial one.
func tilePath(level string, n int64, width int) string {
	path := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		path = fmt.Sprintf("x%03d/%s", n%1000, path)
	}
	if width < tileWidth {
		path += ".p/" + strconv.Itoa(width)
	}
	return "tile/" + level + "/" + path
}

// exists says whether a full tile is there. A partial one is written again: it is small, and a crash may have left another.
func exists(path string, width int) bool {
	if width < tileWidth {
		return false
	}
	_, err := os.Stat(path)
	return err == nil
}

// writeFile writes path so that a reader, or a crash, sees all of it or nothing.
func writeFile(path string, b []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
