package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
)

// readPruned reads up to where records were pruned. A range that is beyond the tree, or not in order, is none.
func (w *walk) readPruned(db *gorm.DB, size int64) error {
	rows, err := store.Prunings(db)
	if err != nil {
		return err
	}
	for _, r := range rows {
		w.stated = max(w.stated, r.UntilIndex)
	}
	for _, r := range rows {
		if r.FirstIndex != w.least || r.UntilIndex <= r.FirstIndex || r.UntilIndex > size {
			w.problem("pruning", r.Record, r.FirstIndex, fmt.Sprintf("the pruning of %d to %d does not go on where the one before it ended, %d", r.FirstIndex, r.UntilIndex, w.least))
			break
		}
		w.least, w.since = r.UntilIndex, max(w.since, r.Newest+1)
		if want, err := hex.DecodeString(r.Root); err == nil && len(want) == tlog.HashSize {
			w.rooted[r.UntilIndex] = tlog.Hash(want)
		} else {
			w.problem("pruning", r.Record, r.FirstIndex, "the root of the pruning is unreadable")
		}
	}
	w.report.Least = w.least
	var writers []store.PrunedRow
	err = db.Model(&store.PrunedRow{}).Select("writer", "MAX(seq) AS seq").Where("until_index <= ?", w.least).Group("writer").Find(&writers).Error
	if err != nil {
		return fmt.Errorf("read pruned records: %w", err)
	}
	var stray int64
	err = db.Model(&store.PrunedRow{}).Where("NOT EXISTS (SELECT 1 FROM audit_prunings AS p WHERE p.until_index = audit_pruned.until_index)").Count(&stray).Error
	if err != nil {
		return fmt.Errorf("read pruned records: %w", err)
	}
	if stray > 0 {
		w.problem("pruning", "", -1, fmt.Sprintf("%d rows of audit_pruned belong to no pruning", stray))
	}
	for _, p := range writers {
		w.pruned[p.Writer], w.sealed[p.Writer] = p.Seq, p.Seq
	}
	return nil
}

// countRecords sets the length of the progress: the positions, and the records without one.
func (w *walk) countRecords(db *gorm.DB, size int64) error {
	var leaves int64
	if err := db.Model(&store.EventRow{}).Count(&w.total).Error; err != nil {
		return err
	}
	if err := db.Model(&seal.LeafRow{}).Count(&leaves).Error; err != nil {
		return err
	}
	w.total = size + max(0, w.total-leaves)
	return nil
}

// prunings compares what is said about removed records with the records of the prunings, which never go, and with the archives.
func (w *walk) prunings(db *gorm.DB) error {
	rows, err := store.Prunings(db)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.UntilIndex > w.least {
			break // readPruned has said so, or it came meanwhile
		}
		if err := w.confirmed(db, r); err != nil {
			return err
		}
		kept, err := retention.InLongTerm(db, r.FirstIndex, r.UntilIndex)
		if err != nil {
			return err
		}
		if kept != r.Kept {
			w.problem("vault", "", r.FirstIndex, fmt.Sprintf("%d of the records from %d to %d had to stay, the long-term store knows %d", r.Kept, r.FirstIndex, r.UntilIndex, kept))
		}
		if err := w.archived(r); err != nil {
			return err
		}
	}
	return nil
}

// sealedEvent selects records that have a position.
func sealedEvent(db *gorm.DB) *gorm.DB {
	return db.Table("audit_events AS e").Select("e.id", "e.time", "e.payload").Joins("JOIN audit_leaves AS l ON l.writer = e.writer AND l.seq = e.seq")
}

// confirmed compares what is said about a pruning with its record, and with the time that records stay at least.
func (w *walk) confirmed(db *gorm.DB, r store.PruningRow) error {
	var said []store.EventRow
	err := sealedEvent(db).Where("e.id = ?", r.Record).Limit(1).Find(&said).Error
	if err != nil {
		return fmt.Errorf("read prunings: %w", err)
	}
	stays, err := retention.LongTermDigest(db, r.FirstIndex, r.UntilIndex)
	if err != nil {
		return err
	}
	e, ok := record.Event{}, false
	if len(said) > 0 {
		e, ok = w.confirms(said[0].Payload, r, stays)
	}
	if !ok {
		w.problem("pruning", r.Record, r.FirstIndex, fmt.Sprintf("no record confirms that the records from %d to %d were pruned, and how", r.FirstIndex, r.UntilIndex))
		return nil
	}
	if r.Newest > w.atLatest(e.Time)-retention.MinRecordsDays*retention.Day.Microseconds() {
		w.problem("early", r.Record, r.FirstIndex, fmt.Sprintf("the records from %d to %d, the newest of %s, were pruned at %s, before the %d days that they stay at least: "+
			"the clock was ahead, or what keeps them was evaded; the archive %s has them", r.FirstIndex, r.UntilIndex, instant(r.Newest), instant(e.Time), retention.MinRecordsDays, r.Archive))
	}
	return nil
}

func instant(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339) }

// atLatest is the latest that something can have happened whose record states a time: that time, or now if it is still to come, since then a
// clock that ran ahead stated it. Clocks may differ by maxSkew.
func (w *walk) atLatest(stated int64) int64 {
	return min(stated, w.now().UnixMicro()) + store.MaxSkew.Microseconds()
}

// confirms returns the record of a pruning, and whether it says what its row and the long-term store say, with an attestation.
func (w *walk) confirms(payload []byte, r store.PruningRow, stays string) (record.Event, bool) {
	e, err := record.Decode(payload)
	if err != nil || e.Action != retention.ActionPrune || e.Resource != fmt.Sprintf("%d-%d", r.FirstIndex, r.UntilIndex) || !retention.Attested(w.v, e) {
		return e, false
	}
	said := maps.Clone(e.Detail)
	delete(said, retention.AttestationKey)
	return e, maps.Equal(said, r.Detail(stays))
}

// expired returns when each position left the long-term store, as the records with an attestation say.
func (w *walk) expired(db *gorm.DB) (map[int64]int64, error) {
	var said []store.EventRow
	err := sealedEvent(db).Joins("JOIN audit_facets AS f ON f.id = e.facet").Where("f.action = ? AND e.resource = ?", retention.ActionPrune, retention.LongTermResource).Find(&said).Error
	if err != nil {
		return nil, fmt.Errorf("read the long-term store: %w", err)
	}
	out := map[int64]int64{}
	for _, r := range said {
		e, err := record.Decode(r.Payload)
		if err != nil || e.Action != retention.ActionPrune || e.Resource != retention.LongTermResource || !retention.Attested(w.v, e) {
			continue
		}
		before, err := strconv.ParseInt(e.Detail["before"], 10, 64)
		if err != nil {
			continue
		}
		for _, s := range strings.Fields(e.Detail["indexes"]) {
			if idx, err := strconv.ParseInt(s, 10, 64); err == nil {
				out[idx] = min(before, w.atLatest(e.Time))
			}
		}
	}
	return out, nil
}

// archived compares the file of an archive with its digest.
func (w *walk) archived(r store.PruningRow) error {
	if w.archive == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(w.archive, filepath.Base(r.Archive)))
	if errors.Is(err, os.ErrNotExist) {
		w.finding("archive", r.Record, r.FirstIndex, "the archive "+r.Archive+" is not in the directory of archives: if it was not moved on purpose, bring it back from a copy")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("read archive: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != r.Digest {
		w.problem("archive", r.Record, r.FirstIndex, "the archive "+r.Archive+" is not the file that was written: bring it back from a copy")
	}
	return nil
}

// longTerm checks every proof in the long-term store, and that its record is still where it can be found.
func (w *walk) longTerm(db *gorm.DB) error {
	expired, err := w.expired(db)
	if err != nil {
		return err
	}
	for at := int64(-1); ; {
		var rows []store.LongTermRow
		err := db.Select("idx", "id", "tenant", "reason", "until", "proof").Where("idx > ?", at).Order("idx").Limit(verifyBatch).Find(&rows).Error
		if err != nil {
			return fmt.Errorf("read the long-term store: %w", err)
		}
		var ids []string
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		var there []string
		if err := db.Model(&store.EventRow{}).Where("id IN ?", ids).Pluck("id", &there).Error; err != nil {
			return fmt.Errorf("read the long-term store: %w", err)
		}
		known := make(map[string]bool, len(there))
		for _, id := range there {
			known[id] = true
		}
		for _, r := range rows {
			before, gone := expired[r.Idx]
			w.inLongTerm(r, known[r.ID], gone && r.Until <= before)
			at = r.Idx
		}
		if len(rows) < verifyBatch {
			return nil
		}
	}
}

// inLongTerm checks a row of the long-term store. there says that its record is; expired, that a record with an attestation says that its time was over.
func (w *walk) inLongTerm(r store.LongTermRow, there, expired bool) {
	bad := func(cause string) { w.problem("vault", r.ID, r.Idx, cause) }
	if r.Proof == "" {
		if !expired {
			bad("the record was removed from the long-term store, and no record says that its time was over")
		}
		return
	}
	var p evidence.Proof
	if err := json.Unmarshal([]byte(r.Proof), &p); err != nil {
		bad("the proof in the long-term store is unreadable")
		return
	}
	t, err := w.v.Open(p.Checkpoint)
	if err != nil {
		bad("the proof in the long-term store: " + err.Error())
		return
	}
	e, err := record.Decode([]byte(p.Record))
	switch {
	case p.Index != r.Idx || p.Index >= t.Size || tlog.CheckRecord(p.Hashes, t.Size, t.Root, p.Index, tlog.RecordHash([]byte(p.Record))) != nil:
		bad("the proof in the long-term store does not hold")
	case err != nil || database.Text(e.ID) != r.ID || database.Text(e.Tenant) != r.Tenant:
		bad("the long-term store says something else about the record than the record itself")
	case r.Until < retention.LeastUntil(e):
		bad("the long-term store gives the record less time than its class has")
	case !there:
		bad("the record had to stay and was removed; its proof in the long-term store still has it")
	}
}

// onlyRange checks the records of some positions, and that these, with all that comes before them, are the beginning of what the newest
// checkpoint covers. What comes before is taken from the stored hashes, which is enough: they have to lead to the same root.
func (w *walk) onlyRange(ctx context.Context, src Source) (Report, error) {
	if src.Dir != "" {
		if _, err := w.cached(seal.CacheDir(src.Dir)); err != nil {
			return Report{}, err
		}
	}
	db := w.db.WithContext(ctx)
	_, top, err := seal.Latest(db, w.v)
	if err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	first, until := max(src.FirstIndex, 0), min(src.UntilIndex, top.Size)
	if first >= until {
		return Report{}, fmt.Errorf("verify audit log: there are no sealed records from %d to %d; the log has %d", src.FirstIndex, src.UntilIndex, top.Size)
	}
	w.report.CheckpointSize, w.report.Root, w.report.Sealed = top.Size, hex.EncodeToString(top.Root[:]), until-first
	w.report.FirstIndex, w.report.UntilIndex = first, until
	if err := w.readPruned(db, top.Size); err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	clear(w.sealed) // the walk begins in the middle
	if err := w.readRefused(db); err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	if w.edge, err = edgeAt(first, seal.NewHashReader(db)); err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	w.base, w.total, w.partial = first, until-first, true
	for at := first; at < until; at += verifyBatch {
		if err := w.batch(db, at, min(at+verifyBatch, until)); err != nil {
			return Report{}, fmt.Errorf("verify audit log: %w", err)
		}
	}
	if err := w.leadsTo(db, top); err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	if first < w.least { // records that are not there were pruned, or so the tables say
		if err := errors.Join(w.prunings(db), w.longTerm(db)); err != nil {
			return Report{}, fmt.Errorf("verify audit log: %w", err)
		}
	}
	w.report.OK = len(w.report.Problems) == 0
	return *w.report, nil
}

// leadsTo proves that the tree of the walk is the beginning of t, and that the checkpoints outside the database are on the same line.
func (w *walk) leadsTo(db *gorm.DB, t checkpoint.Tree) error {
	hashes := seal.NewHashReader(db)
	if w.edge.size < t.Size {
		proof, err := tlog.ProveTree(t.Size, w.edge.size, hashes)
		if err != nil {
			return err
		}
		if tlog.CheckTree(proof, t.Size, t.Root, w.edge.size, w.edge.root()) != nil {
			w.problem("root", "", w.edge.size, "the records checked, and those before them, are not the beginning of what the newest checkpoint covers")
		}
	} else if w.edge.root() != t.Root {
		w.problem("root", "", t.Size, fmt.Sprintf("the records 0 to %d do not give the root that was signed for them", t.Size-1))
	}
	for size, root := range w.expected {
		if size > t.Size {
			w.problem("truncated", "", t.Size, fmt.Sprintf("the checkpoint file attests %d records, the database has %d", size, t.Size))
			continue
		}
		have, err := tlog.TreeHash(size, hashes)
		if err != nil {
			return err
		}
		if have != root {
			w.problem("fork", "", size, fmt.Sprintf("the tree over %d records is not the one that the checkpoint file attests", size))
		}
	}
	return nil
}

// edgeAt is the right edge of the tree of the first size records, from the stored hashes.
func edgeAt(size int64, hashes tlog.HashReader) (edge, error) {
	var indexes []int64
	for at, level := int64(0), 62; level >= 0; level-- {
		if size-at >= int64(1)<<level {
			indexes = append(indexes, tlog.StoredHashIndex(level, at>>level))
			at += int64(1) << level
		}
	}
	if len(indexes) == 0 {
		return edge{}, nil
	}
	roots, err := hashes.ReadHashes(indexes)
	return edge{size: size, roots: roots}, err
}

// positions reads the positions from lo to hi with their records, each where its time says; one that is not there is looked for elsewhere.
func positions(db *gorm.DB, lo, hi int64) ([]store.RecordRow, error) {
	join := "LEFT JOIN audit_events AS e ON e.writer = l.writer AND e.seq = l.seq"
	read := func(join, where string, args ...any) (rows []store.RecordRow, err error) {
		err = db.Table("audit_leaves AS l").
			Select("l.idx AS idx, l.writer AS leaf_writer, l.seq AS leaf_seq, l.leaf_hash AS position_hash, l.time AS position_time, e.seq AS found, "+store.SelectColumns("e")).
			Joins(join).Where(where, args...).Order("l.idx").Find(&rows).Error
		return rows, err
	}
	rows, err := read(join+" AND e.time = l.time", "l.idx >= ? AND l.idx < ?", lo, hi)
	if err != nil {
		return nil, err
	}
	var lost []int64
	for _, r := range rows {
		if r.Found == nil {
			lost = append(lost, r.Idx)
		}
	}
	if len(lost) == 0 {
		return rows, nil
	}
	found, err := read(join, "l.idx IN ?", lost)
	for _, f := range found {
		at := slices.IndexFunc(rows, func(r store.RecordRow) bool { return r.Idx == f.Idx })
		if at >= 0 {
			rows[at] = f
		}
	}
	return rows, err
}
