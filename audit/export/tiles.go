package export

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
)

// ExportTiles writes the whole log under the newest checkpoint into a directory as C2SP tlog-tiles, for foreign tools, or goes on with what it
// wrote there before; see [evidence.WriteTiles]. Records that were pruned have hashes there and no entries. The caller records the export
// first.
func (x *Exporter) ExportTiles(ctx context.Context, dir string) (checkpoint.Tree, error) {
	text, err := x.tree.CosignedCheckpoint(ctx)
	if err != nil {
		return checkpoint.Tree{}, fmt.Errorf("export tiles: %w", err)
	}
	if text == "" {
		return checkpoint.Tree{}, fmt.Errorf("export tiles: nothing is sealed yet; try again in %v", x.every)
	}
	t, err := x.keys.Open(text)
	if err != nil {
		return checkpoint.Tree{}, fmt.Errorf("export tiles: %w", err)
	}
	least, err := x.tree.Least(ctx)
	if err != nil {
		return checkpoint.Tree{}, fmt.Errorf("export tiles: %w", err)
	}
	err = evidence.WriteTiles(dir, t, text, x.treeHashes(ctx), func(from, to int64) ([][]byte, error) {
		if from < least { // the format has no tiles with gaps; what is kept of them is in bundles
			return nil, nil
		}
		var out [][]byte
		for r, err := range x.sealed(ctx, t.Size, Selection{First: from, Until: to}) {
			if err != nil {
				return nil, err
			}
			out = append(out, r.Payload)
		}
		return out, nil
	})
	if err != nil {
		return checkpoint.Tree{}, fmt.Errorf("export tiles: %w", err)
	}
	return t, nil
}

// treeHashes reads stored tree hashes and remembers none: an export of a large log reads all of them.
func (x *Exporter) treeHashes(ctx context.Context) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) { return x.tree.Hashes(ctx).ReadHashes(indexes) })
}
