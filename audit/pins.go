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
)

// errRewritten means that the database no longer contains what a checkpoint outside it attests.
var errRewritten = errors.New("the database does not extend the checkpoint kept outside it: it was restored from an older copy, cut or rewritten; run `sluice audit verify`")

// pins keeps the checkpoints this replica has seen outside the database, so that a cut or rewritten database shows. It takes a
// new checkpoint only with a proof that it extends the one before: a small witness beside the log. The caller serialises calls.
type pins struct {
	dir      string
	verifier checkpoint.Verifier
	latest   checkpoint.Tree
}

func openPins(dir string, v checkpoint.Verifier) (*pins, error) {
	p := &pins{dir: dir, verifier: v}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open checkpoint files: %w", err)
	}
	if err := cutPartialLine(p.logPath()); err != nil {
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
		return nil, fmt.Errorf("open %s: %w; the file was changed or the master key is another one", p.latestPath(), err)
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
	f, err := os.OpenFile(p.logPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // our own directory, named by the operator
	if err != nil {
		return fmt.Errorf("pin checkpoint: %w", err)
	}
	_, werr := f.Write(append(line, '\n'))
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("pin checkpoint: %w", err), cutPartialLine(p.logPath()))
	}
	if err := replaceFile(p.latestPath(), []byte(text)); err != nil {
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

// cutPartialLine removes a last line without its newline, which a crash or a full disk leaves.
func cutPartialLine(path string) error {
	b, err := os.ReadFile(path) //nolint:gosec // our own directory
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	end := bytes.LastIndexByte(b, '\n') + 1
	if end == len(b) {
		return nil
	}
	return os.Truncate(path, int64(end))
}
