package audit

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

// errRewritten means that the database no longer contains what a checkpoint outside it attests.
var errRewritten = errors.New("the database does not extend the checkpoint kept outside it: it was restored from an older copy, cut or rewritten; run `sluice audit verify`")

// pins keeps the checkpoints this replica has seen outside the database, so that a cut or rewritten database shows. It takes a
// new checkpoint only with a proof that it extends the one before: a small witness beside the log. The caller serialises calls.
type pins struct {
	dir      string
	files    durable.Files
	verifier checkpoint.Verifier
	latest   checkpoint.Tree
	size     int64 // of the log of checkpoints, as far as it is known to be whole
	dirty    bool  // a write to it failed, and what that left may still be there
}

func openPins(dir string, v checkpoint.Verifier) (*pins, error) {
	p := &pins{dir: dir, files: durable.OS{}, verifier: v}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open checkpoint files: %w", err)
	}
	if err := p.recover(); err != nil {
		return nil, fmt.Errorf("open checkpoint files: %w", err)
	}
	text, err := os.ReadFile(p.latestPath())
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint files: %w", err)
	}
	if p.latest, err = v.Open(string(text)); err != nil {
		return nil, fmt.Errorf("open %s: %w; the file was changed, the master key is another one, or checkpoint_keys and sm2_keys leave out the key that signed it", p.latestPath(), err)
	}
	return p, nil
}

func (p *pins) latestPath() string { return filepath.Join(p.dir, "latest") }
func (p *pins) logPath() string    { return filepath.Join(p.dir, "checkpoints.log") }

// take pins the checkpoint text, which says t, after checking against the stored hashes that it extends the latest one.
func (p *pins) take(text string, t checkpoint.Tree, hashes tlog.HashReader) error {
	if err := p.extends(t, hashes); err != nil {
		return err
	}
	if t.Size == p.latest.Size {
		return nil
	}
	line, err := json.Marshal(text)
	if err != nil {
		return fmt.Errorf("pin checkpoint: %w", err)
	}
	if err := p.note(append(line, '\n')); err != nil {
		return fmt.Errorf("pin checkpoint: %w", err)
	}
	if err := durable.Replace(p.files, p.latestPath(), []byte(text)); err != nil {
		return fmt.Errorf("pin checkpoint: %w", err)
	}
	p.latest = t
	return nil
}

// extends reports, as errRewritten, that t is not an extension of the latest pinned tree.
func (p *pins) extends(t checkpoint.Tree, hashes tlog.HashReader) error {
	old := p.latest
	switch {
	case old.Size == 0:
		return nil
	case t.Size < old.Size:
		return fmt.Errorf("%w (the database has %d sealed records, the file attests %d)", errRewritten, t.Size, old.Size)
	case t.Size == old.Size:
		if t.Root != old.Root {
			return fmt.Errorf("%w (two roots for size %d)", errRewritten, t.Size)
		}
		return nil
	}
	proof, err := tlog.ProveTree(t.Size, old.Size, hashes)
	if err != nil {
		return fmt.Errorf("prove checkpoint: %w", err)
	}
	if err := tlog.CheckTree(proof, t.Size, t.Root, old.Size, old.Root); err != nil {
		return fmt.Errorf("%w (no consistency between sizes %d and %d)", errRewritten, old.Size, t.Size)
	}
	return nil
}

// note appends a line to the log of checkpoints. What a failed write left is removed before the next one: a line that grows onto half of
// another, or behind a page that was lost, would be read as a changed file.
func (p *pins) note(line []byte) error {
	if p.dirty {
		if err := durable.Truncate(p.files, p.logPath(), p.size); err != nil {
			return err
		}
	}
	f, err := p.files.Open(p.logPath(), os.O_CREATE|os.O_APPEND)
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
func (p *pins) recover() error {
	b, err := os.ReadFile(p.logPath())
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
	return durable.Truncate(p.files, p.logPath(), p.size)
}
