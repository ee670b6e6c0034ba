package seal

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/store"
)

// Tree reads the sealed tree of one database: its hashes, checkpoints and cosignatures. What it returns is checked with the keys of the log.
type Tree struct {
	db        *gorm.DB
	keys      checkpoint.Verifier
	witnesses checkpoint.Witnesses // of the configuration
	log       *slog.Logger
}

// NewTree returns the tree of a database, whose checkpoints have these keys.
func NewTree(db *gorm.DB, keys checkpoint.Verifier, witnesses checkpoint.Witnesses, log *slog.Logger) *Tree {
	return &Tree{db: db, keys: keys, witnesses: witnesses, log: log}
}

// Hashes reads stored tree hashes, each once.
func (t *Tree) Hashes(ctx context.Context) tlog.HashReader {
	return NewHashReader(t.db.WithContext(ctx))
}

// Newest returns the newest checkpoint, as text and as what it says; "" and an empty tree if there is none.
func (t *Tree) Newest(ctx context.Context) (string, checkpoint.Tree, error) {
	return Latest(t.db.WithContext(ctx), t.keys)
}

// Checkpoint returns the newest signed checkpoint, "" if nothing was sealed yet.
func (t *Tree) Checkpoint(ctx context.Context) (string, error) {
	text, _, err := t.Newest(ctx)
	return text, err
}

// Least returns the minimum index: records below were pruned, but for those that are kept.
func (t *Tree) Least(ctx context.Context) (int64, error) {
	return store.Least(t.db.WithContext(ctx))
}

// RootAt returns the root of the tree of the first size records, by the stored hashes.
func (t *Tree) RootAt(ctx context.Context, size int64) (tlog.Hash, error) {
	h, err := tlog.TreeHash(size, t.Hashes(ctx))
	if err != nil {
		return h, fmt.Errorf("read tree: %w", err)
	}
	return h, nil
}

// NewestByAll returns the newest checkpoint that every witness of the configuration has cosigned, with their lines, or simply the newest
// without witnesses; "" if there is none.
func (t *Tree) NewestByAll(ctx context.Context) (string, checkpoint.Tree, error) {
	names := t.witnesses.Names()
	if len(names) == 0 {
		return t.Newest(ctx)
	}
	db := t.db.WithContext(ctx)
	var sizes []int64
	err := db.Model(&CosignatureRow{}).Where("witness IN ?", names).Group("size").Having("COUNT(DISTINCT witness) = ?", len(names)).
		Order("size DESC").Limit(1).Pluck("size", &sizes).Error
	if err != nil || len(sizes) == 0 {
		return "", checkpoint.Tree{}, err
	}
	text, err := t.checkpointOf(ctx, sizes[0])
	if err != nil {
		return "", checkpoint.Tree{}, err
	}
	top, err := t.keys.Open(text)
	if err != nil {
		return "", checkpoint.Tree{}, fmt.Errorf("%w: the checkpoint of size %d: %w", ErrRewritten, sizes[0], err)
	}
	var lines []string
	err = db.Model(&CosignatureRow{}).Where("size = ? AND witness IN ?", sizes[0], names).Order("witness").Pluck("line", &lines).Error
	for _, line := range lines {
		text = checkpoint.Add(text, line)
	}
	return text, top, err
}

// SealedUpTo returns, per writer, the last sequence that has a position below size in the tree.
func (t *Tree) SealedUpTo(ctx context.Context, writers []string, size int64) (map[string]uint64, error) {
	out := make(map[string]uint64, len(writers))
	for _, w := range writers {
		var last int64
		err := t.db.WithContext(ctx).Model(&LeafRow{}).Select("COALESCE(MAX(seq), 0)").Where("writer = ? AND idx < ?", w, size).Scan(&last).Error
		if err != nil {
			return nil, fmt.Errorf("read sealed records: %w", err)
		}
		pruned, err := store.PrunedUpTo(t.db.WithContext(ctx), w, size)
		if err != nil {
			return nil, err
		}
		out[w] = uint64(max(last, pruned, 0))
	}
	return out, nil
}
