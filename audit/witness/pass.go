package witness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// Pass looks at the log once. A new checkpoint that is proven to extend the remembered one is remembered, cosigned and handed back.
// Errors: [ErrAlarm], which Pass also logs, if the log contradicts what is remembered or alarms are not cleared; any other error if the
// log could not be read or did not take the cosignature.
func (w *Witness) Pass(ctx context.Context) error {
	err := w.look(ctx)
	if err != nil && ctx.Err() != nil {
		return err // it was called off and says nothing about the log
	}
	err = errors.Join(err, w.uncleared())
	if errors.Is(err, ErrAlarm) {
		w.log.Error("ALARM", slog.String("error", err.Error()))
	}
	w.passed(err)
	return err
}

func (w *Witness) look(ctx context.Context) error {
	text, err := w.client.checkpoint(ctx)
	if err != nil {
		return err
	}
	t, err := w.cfg.Verifier.Open(text)
	if err != nil {
		if strings.HasPrefix(text, w.cfg.Verifier.Origin()+"\n") {
			return w.object(kindKey, text, "a checkpoint in the name of the log does not open with its known keys: "+err.Error())
		}
		return fmt.Errorf("%w; is the address of the log right?", err)
	}
	if strings.Count(text, "\n\n") != 1 {
		return w.object(kindHistory, text, "the log signed a checkpoint that no log can have")
	}
	switch {
	case t.Size < w.tree.Size:
		return w.object(kindRollback, text, fmt.Sprintf("it shows %d records after %d: an older copy of the database was restored, or its end was cut off", t.Size, w.tree.Size))
	case t.Size == w.tree.Size && t.Size > 0 && t.Root != w.tree.Root:
		return w.object(kindFork, text, fmt.Sprintf("it shows another root for the same %d records: there are two histories", t.Size))
	case t.Size == 0:
		return nil // nothing to witness yet
	case t.Size == w.tree.Size && w.note != "":
		return w.handBack(ctx, text, t)
	}
	if err := w.prove(ctx, text, t); err != nil {
		return err
	}
	return w.cosign(ctx, text, t)
}

// prove demands that the hashes of the log give the root it signed, and that they extend the remembered tree.
func (w *Witness) prove(ctx context.Context, text string, t checkpoint.Tree) error {
	var lost error
	hashes := tlog.TileHashReader(tlog.Tree{N: t.Size, Hash: t.Root}, tileReader(func(tile tlog.Tile) ([]byte, error) {
		b, err := w.client.tile(ctx, tile)
		lost = errors.Join(lost, err)
		return b, err
	}))
	var proof tlog.TreeProof
	var err error
	known := w.tree.Size > 0 && w.tree.Size < t.Size
	if known {
		proof, err = tlog.ProveTree(t.Size, w.tree.Size, hashes)
	} else { // the first contact: there is nothing to extend, but the tree must be there
		_, err = hashes.ReadHashes([]int64{0})
	}
	switch {
	case lost != nil:
		return lost // not read, so nothing is proven either way
	case err != nil:
		return w.object(kindHashes, text, fmt.Sprintf("its hashes do not give the root it signed for %d records: %v", t.Size, err))
	case !known:
		return nil
	}
	if err := tlog.CheckTree(proof, t.Size, t.Root, w.tree.Size, w.tree.Root); err != nil {
		return w.object(kindHistory, text, fmt.Sprintf("its %d records do not begin with the %d remembered ones: history was rewritten", t.Size, w.tree.Size))
	}
	return nil
}

// cosign remembers a proven checkpoint, and only then lets the cosignature out.
func (w *Witness) cosign(ctx context.Context, text string, t checkpoint.Tree) error {
	line, err := w.signer.Cosign(text)
	if err != nil {
		return err
	}
	note := checkpoint.Add(text, line)
	if err := replaceFile(filepath.Join(w.cfg.Dir, checkpointFile), []byte(note)); err != nil {
		return fmt.Errorf("remember checkpoint: %w", err)
	}
	attrs := []any{slog.Int64("size", t.Size), slog.String("root", t.Root.String())}
	if w.tree.Size == 0 {
		w.log.Warn("first contact: this checkpoint is trusted because it is the first; compare its size and root with what the owner of the log publishes", attrs...)
	} else {
		w.log.Info("cosigned", attrs...)
	}
	w.tree, w.note = t, note
	w.remembered()
	return w.client.cosignatures(ctx, note)
}

// handBack sends the cosignature of the remembered checkpoint, which is t, again unless the log shows it.
func (w *Witness) handBack(ctx context.Context, text string, t checkpoint.Tree) error {
	_, shown, err := w.cfg.Verifier.OpenCosigned(text, w.own)
	if err != nil {
		return fmt.Errorf("the log shows a cosignature of this witness that does not hold: %w", err)
	}
	if len(shown) > 0 {
		return nil
	}
	if _, own, err := w.cfg.Verifier.OpenCosigned(w.note, w.own); err == nil && len(own) == 0 { // it was cosigned with the key of before
		return w.cosign(ctx, text, t)
	}
	return w.client.cosignatures(ctx, w.note)
}
