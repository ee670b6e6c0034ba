package audit

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/database"
)

// Export selects what an evidence bundle holds.
type Export struct {
	Tenant   string // "" is all
	From, To int64  // unix microseconds; To is exclusive, 0 is open
	By       string // who exports it

	first, until int64 // of an archive: positions, which are the least index and the end of the bundle
}

// Export writes an evidence bundle of the records that are sealed under the newest checkpoint: a zip that proves them offline to someone who
// has nothing but the public key. The caller records the export first. On an error, what was written is no bundle.
func (l *Log) Export(ctx context.Context, w io.Writer, x Export) (evidence.Manifest, error) {
	text, err := l.CosignedCheckpoint(ctx)
	if err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	if text == "" {
		return evidence.Manifest{}, fmt.Errorf("export audit records: nothing is sealed yet; try again in %v", l.cfg.CheckpointEvery)
	}
	t, err := l.reads.Open(text)
	if err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	if x.first, err = l.Least(ctx); err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	return l.exportUnder(ctx, w, x, text, t)
}

// exportUnder writes the bundle under a checkpoint.
func (l *Log) exportUnder(ctx context.Context, w io.Writer, x Export, text string, t checkpoint.Tree) (evidence.Manifest, error) {
	m, err := evidence.WriteBundle(w, evidence.BundleConfig{
		Tenant: x.Tenant, From: x.From, To: x.To, By: x.By, Created: time.UnixMicro(l.now().UnixMicro()), Signer: l.signer, Checkpoint: text, Tree: t,
		Key: l.key, Least: x.first, Until: x.until,
	}, l.store.sealed(ctx, t.Size, x), l.treeHashes(ctx))
	if err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	return m, nil
}

// ExportChecked does what Export does and verifies the bundle, as its reader will: what it leaves without an error is evidence.
func (l *Log) ExportChecked(ctx context.Context, f BundleFile, x Export) (evidence.Manifest, error) {
	counted := &sizer{w: f}
	m, err := l.Export(ctx, counted, x)
	if err != nil {
		return evidence.Manifest{}, err
	}
	r, err := evidence.VerifyBundle(ctx, f, counted.n, l.reads, checkpoint.Witnesses{}, nil)
	if err != nil {
		return evidence.Manifest{}, fmt.Errorf("check the export: %w", err)
	}
	if !r.OK {
		return evidence.Manifest{}, fmt.Errorf("check the export: %s of record %s: %s; run `sluice audit verify`", r.Problems[0].Kind, r.Problems[0].Record, r.Problems[0].Cause)
	}
	return m, nil
}

// BundleFile is where a bundle is written and read again.
type BundleFile interface {
	io.Writer
	io.ReaderAt
}

// sizer counts what is written.
type sizer struct {
	w io.Writer
	n int64
}

func (s *sizer) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.n += int64(n)
	return n, err
}

// sealed yields the records below size that x selects, in the order of the tree.
func (s *store) sealed(ctx context.Context, size int64, x Export) iter.Seq2[evidence.Sealed, error] {
	return func(yield func(evidence.Sealed, error) bool) {
		rows, err := s.selected(ctx, size, x).Rows()
		if err != nil {
			yield(evidence.Sealed{}, fmt.Errorf("read records: %w", err))
			return
		}
		defer func() { _ = rows.Close() }() // read only
		for rows.Next() {
			var r evidence.Sealed
			if err := rows.Scan(&r.Index, &r.Payload); err != nil {
				yield(evidence.Sealed{}, fmt.Errorf("read records: %w", err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(evidence.Sealed{}, fmt.Errorf("read records: %w", err))
		}
	}
}

func (s *store) selected(ctx context.Context, size int64, x Export) *gorm.DB {
	// A selection begins with the records, of which an index has the tenant and the time, and CROSS JOIN has SQLite do so; everything is
	// read in the order of the positions.
	from := "audit_events AS e CROSS JOIN audit_leaves AS l"
	if x.Tenant == "" && x.From == 0 && x.To == 0 {
		from = "audit_leaves AS l CROSS JOIN audit_events AS e"
	}
	db := s.db.WithContext(ctx).Table(from).Select("l.idx", "e.payload").
		Where("e.writer = l.writer AND e.seq = l.seq AND e.time = l.time AND l.idx < ?", size)
	if x.until != 0 {
		db = db.Where("l.idx < ?", x.until)
	}
	if x.Tenant == "" && x.From == 0 && x.To == 0 { // a selection also has what is kept below
		db = db.Where("l.idx >= ?", x.first)
	}
	if x.Tenant != "" {
		db = db.Where("e.tenant = ?", database.Text(x.Tenant))
	}
	if x.From != 0 {
		db = db.Where("e.time >= ?", x.From)
	}
	if x.To != 0 {
		db = db.Where("e.time < ?", x.To)
	}
	return db.Order("l.idx")
}
