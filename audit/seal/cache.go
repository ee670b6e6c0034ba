package seal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/durable"
)

// ErrRewritten means that the database no longer contains what a checkpoint outside it attests.
var ErrRewritten = errors.New("the database does not extend the checkpoint kept outside it: it was restored from an older copy, cut or rewritten; run `sluice audit verify`")

// Cache keeps the checkpoints this replica has seen outside the database, so that a cut or rewritten database shows. It takes a
// new checkpoint only with a proof that it extends the one before: a small witness beside the log. The caller serialises calls.
type Cache struct {
	Dir      string
	Files    durable.Files
	verifier checkpoint.Verifier
	Latest   checkpoint.Tree
	size     int64 // of the log of checkpoints, as far as it is known to be whole
	dirty    bool  // a write to it failed, and what that left may still be there
}

// CacheDir is where the checkpoints are in the directory of an audit log.
func CacheDir(dir string) string { return filepath.Join(dir, "checkpoints") }

// OpenCache reads the checkpoints in dir, and checks the newest one.
func OpenCache(dir string, v checkpoint.Verifier) (*Cache, error) {
	p := &Cache{Dir: dir, Files: durable.OS{}, verifier: v}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open checkpoint files: %w", err)
	}
	if err := p.recover(); err != nil {
		return nil, fmt.Errorf("open checkpoint files: %w", err)
	}
	text, err := os.ReadFile(p.LatestPath())
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint files: %w", err)
	}
	if p.Latest, err = v.Open(string(text)); err != nil {
		return nil, fmt.Errorf("open %s: %w; the file was changed, the master key is another one, or checkpoint_keys and sm2_keys leave out the key that signed it", p.LatestPath(), err)
	}
	return p, nil
}

// LatestPath is where the newest checkpoint is.
func (p *Cache) LatestPath() string { return filepath.Join(p.Dir, "latest") }

// LogPath is where all checkpoints are.
func (p *Cache) LogPath() string { return filepath.Join(p.Dir, "checkpoints.log") }

// Take keeps the checkpoint text, which says t, after checking against the stored hashes that it extends the latest one.
func (p *Cache) Take(text string, t checkpoint.Tree, hashes tlog.HashReader) error {
	if err := p.extends(t, hashes); err != nil {
		return err
	}
	if t.Size == p.Latest.Size {
		return nil
	}
	line, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("cache checkpoint: %w", err)
	}
	if err := p.note(append(line, '\n')); err != nil {
		return fmt.Errorf("cache checkpoint: %w", err)
	}
	if err := durable.Replace(p.Files, p.LatestPath(), []byte(text)); err != nil {
		return fmt.Errorf("cache checkpoint: %w", err)
	}
	p.Latest = t
	return nil
}

// extends reports, as errRewritten, that t is not an extension of the latest tree.
func (p *Cache) extends(t checkpoint.Tree, hashes tlog.HashReader) error {
	old := p.Latest
	switch {
	case old.Size == 0:
		return nil
	case t.Size < old.Size:
		return fmt.Errorf("%w (the database has %d sealed records, the file attests %d)", ErrRewritten, t.Size, old.Size)
	case t.Size == old.Size:
		if t.Root != old.Root {
			return fmt.Errorf("%w (two roots for size %d)", ErrRewritten, t.Size)
		}
		return nil
	}
	proof, err := tlog.ProveTree(t.Size, old.Size, hashes)
	if err != nil {
		return fmt.Errorf("prove checkpoint: %w", err)
	}
	if err := tlog.CheckTree(proof, t.Size, t.Root, old.Size, old.Root); err != nil {
		return fmt.Errorf("%w (no consistency between sizes %d and %d)", ErrRewritten, old.Size, t.Size)
	}
	return nil
}

// note appends a line to the log of checkpoints. What a failed write left is removed before the next one: a line that grows onto half of
// another, or behind a page that was lost, would be read as a changed file.
func (p *Cache) note(line []byte) error {
	if p.dirty {
		if err := durable.Truncate(p.Files, p.LogPath(), p.size); err != nil {
			return err
		}
	}
	f, err := p.Files.Open(p.LogPath(), os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	p.dirty = true
	if err := errors.Join(durable.WriteSync(f, line), f.Close()); err != nil {
		return err
	}
	p.dirty, p.size = false, p.size+int64(len(line))
	return nil
}

// recover cuts a last line without its newline, which a crash or a full disk leaves, off the log of checkpoints.
func (p *Cache) recover() error {
	b, err := os.ReadFile(p.LogPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	p.size = int64(bytes.LastIndexByte(b, '\n') + 1)
	if p.size == int64(len(b)) {
		return nil
	}
	return durable.Truncate(p.Files, p.LogPath(), p.size)
}
