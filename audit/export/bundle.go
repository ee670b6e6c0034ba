package export

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/internal/database"
)

// Config says what is exported, and who signs it.
type Config struct {
	DB      *gorm.DB
	Tree    *seal.Tree
	Records *search.Reader
	Keys    checkpoint.Verifier // what any key of the log signed
	Key     string              // these keys as text
	Signer  checkpoint.Signer
	Now     func() time.Time
	Every   time.Duration // between checkpoints
}

// Exporter exports the records of one log. It is safe for concurrent use.
type Exporter struct {
	db      *gorm.DB
	tree    *seal.Tree
	records *search.Reader
	keys    checkpoint.Verifier
	key     string
	signer  checkpoint.Signer
	now     func() time.Time
	every   time.Duration
}

// New returns an exporter.
func New(c Config) *Exporter {
	return &Exporter{db: c.DB, tree: c.Tree, records: c.Records, keys: c.Keys, key: c.Key, signer: c.Signer, now: c.Now, every: c.Every}
}

// Selection says what an evidence bundle holds.
type Selection struct {
	Tenant   string // "" is all
	From, To int64  // unix microseconds; To is exclusive, 0 is open
	By       string // who exports it

	// First and Until are for an archive: the positions that it begins and ends with, which are its least index and its end.
	First, Until int64
}

// Export writes an evidence bundle of the records that are sealed under the newest checkpoint: a zip that proves them offline to someone who
// has nothing but the public key. The caller records the export first. On an error, what was written is no bundle.
func (x *Exporter) Export(ctx context.Context, w io.Writer, of Selection) (evidence.Manifest, error) {
	text, err := x.tree.CosignedCheckpoint(ctx)
	if err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	if text == "" {
		return evidence.Manifest{}, fmt.Errorf("export audit records: nothing is sealed yet; try again in %v", x.every)
	}
	t, err := x.keys.Open(text)
	if err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	if of.First, err = x.tree.Least(ctx); err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	return x.Under(ctx, w, of, text, t)
}

// Under writes the bundle under a checkpoint.
func (x *Exporter) Under(ctx context.Context, w io.Writer, of Selection, text string, t checkpoint.Tree) (evidence.Manifest, error) {
	m, err := evidence.WriteBundle(w, evidence.BundleConfig{
		Tenant: of.Tenant, From: of.From, To: of.To, By: of.By, Created: time.UnixMicro(x.now().UnixMicro()), Signer: x.signer, Checkpoint: text, Tree: t,
		Key: x.key, Least: of.First, Until: of.Until,
	}, x.sealed(ctx, t.Size, of), x.treeHashes(ctx))
	if err != nil {
		return evidence.Manifest{}, fmt.Errorf("export audit records: %w", err)
	}
	return m, nil
}

// ExportChecked does what Export does and verifies the bundle, as its reader will: what it leaves without an error is evidence.
func (x *Exporter) ExportChecked(ctx context.Context, f BundleFile, of Selection) (evidence.Manifest, error) {
	counted := &sizer{w: f}
	m, err := x.Export(ctx, counted, of)
	if err != nil {
		return evidence.Manifest{}, err
	}
	r, err := evidence.VerifyBundle(ctx, f, counted.n, x.keys, checkpoint.Witnesses{}, nil)
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
func (x *Exporter) sealed(ctx context.Context, size int64, of Selection) iter.Seq2[evidence.Sealed, error] {
	return func(yield func(evidence.Sealed, error) bool) {
		rows, err := x.selected(ctx, size, of).Rows()
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

func (x *Exporter) selected(ctx context.Context, size int64, of Selection) *gorm.DB {
	// A selection begins with the records, of which an index has the tenant and the time, and CROSS JOIN has SQLite do so; everything is
	// read in the order of the positions.
	from := "audit_events AS e CROSS JOIN audit_leaves AS l"
	if of.Tenant == "" && of.From == 0 && of.To == 0 {
		from = "audit_leaves AS l CROSS JOIN audit_events AS e"
	}
	db := x.db.WithContext(ctx).Table(from).Select("l.idx", "e.payload").
		Where("e.writer = l.writer AND e.seq = l.seq AND e.time = l.time AND l.idx < ?", size)
	if of.Until != 0 {
		db = db.Where("l.idx < ?", of.Until)
	}
	if of.Tenant == "" && of.From == 0 && of.To == 0 { // a selection also has what is kept below
		db = db.Where("l.idx >= ?", of.First)
	}
	if of.Tenant != "" {
		db = db.Where("e.tenant = ?", database.Text(of.Tenant))
	}
	if of.From != 0 {
		db = db.Where("e.time >= ?", of.From)
	}
	if of.To != 0 {
		db = db.Where("e.time < ?", of.To)
	}
	return db.Order("l.idx")
}
