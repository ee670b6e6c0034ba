package verify

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
)

// Source says what to verify and with which public key. Everything is only read, so a running log can be verified. An empty
// Dir leaves out the write-ahead log and the checkpoint files; the end of the log can then be cut without showing.
type Source struct {
	Dir         string
	SpoolDir    string // of the second write-ahead log, "" without one
	DB          *gorm.DB
	VerifierKey string
	Witnesses   checkpoint.Witnesses // whose cosignatures are checked
	ArchiveDir  string               // of what was pruned; "" leaves the archives out
	// FirstIndex and UntilIndex, if UntilIndex is set, restrict the check to the records of these positions: that they, and all before
	// them, are what the newest checkpoint covers.
	FirstIndex, UntilIndex int64
	// Books, if set, compares what the sink of package store wrote with the records.
	Books Books
}

// Books reads what a sink of package store wrote. Both methods are called after the records they are compared with were read, so what was written in
// one transaction with a record is there.
type Books interface {
	// Differences returns, by record id, what is missing or differs from what these outcome records say.
	Differences(db *gorm.DB, events []record.Event) (map[string]string, error)
	// Surplus returns the requests of at most limit entries made since a time, in unix microseconds, that no outcome record stands for.
	// Records of older ones were pruned.
	Surplus(db *gorm.DB, since int64, limit int) ([]string, error)
}

const (
	verifyBatch = 500
	maxProblems = 100
)

// walk is one verification of a database.
type walk struct {
	db *gorm.DB
	v  checkpoint.Verifier

	witnesses checkpoint.Witnesses
	report    *Report
	progress  func(done, total int64)
	total     int64
	edge      edge                // the tree as recomputed so far
	sealed    map[string]int64    // last sequence with a position, per writer
	counted   map[string]int64    // positions per writer
	expected  map[int64]tlog.Hash // roots by size, from the checkpoints outside the database
	badTree   bool
	logSeqs   map[string]map[uint64]logRecord // records of the write-ahead log not yet met in the database
	books     Books
	refused   map[string]bool // writer/sequence of the records whose usage the ledger refused
	due       []billed        // records to be compared with the books
	keepers   []keeper        // records to be compared with what is kept of them
	search    search.Check

	least   int64               // records below were pruned, but for those that are kept
	stated  int64               // what the database says it is
	base    int64               // position at which the walk begins
	pruned  map[string]int64    // last pruned sequence, per writer
	since   int64               // time up to which records were pruned
	archive string              // directory of the archives, "" unknown
	partial bool                // only some positions are walked
	rooted  map[int64]tlog.Hash // roots by size, from the prunings
	now     func() time.Time
}

type billed struct {
	event record.Event
	index int64
}

// database verifies everything in the database. latest is the newest checkpoint found outside it, files are all of those.
func (w *walk) database(ctx context.Context, latest checkpoint.Tree) error {
	db := w.db.WithContext(ctx)
	_, top, err := seal.Latest(db, w.v)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.problem("checkpoint", "", -1, err.Error())
		if err := db.Model(&seal.LeafRow{}).Select("COALESCE(MAX(idx), -1) + 1").Scan(&top.Size).Error; err != nil {
			return err
		}
	}
	w.report.CheckpointSize, w.report.Root = top.Size, hex.EncodeToString(top.Root[:])
	if latest.Size > top.Size {
		w.problem("truncated", "", top.Size, fmt.Sprintf(
			"the checkpoint file attests %d records, the database has %d: the newest were cut off or an older copy was restored", latest.Size, top.Size))
	}
	if err := w.readPruned(db, top.Size); err != nil {
		return err
	}
	if err := w.countRecords(db, top.Size); err != nil {
		return err
	}
	if err := w.readRefused(db); err != nil {
		return err
	}
	for at := int64(0); at < top.Size; at += verifyBatch {
		if err := w.batch(db, at, min(at+verifyBatch, top.Size)); err != nil {
			return err
		}
	}
	if err := w.outside(db, top.Size); err != nil {
		return err
	}
	if err := w.unsealed(db); err != nil {
		return err
	}
	if err := w.indexes(db); err != nil {
		return err
	}
	if err := w.surplus(db); err != nil {
		return err
	}
	if err := w.strayContents(db); err != nil {
		return err
	}
	if err := w.prunings(db); err != nil {
		return err
	}
	if err := w.longTerm(db); err != nil {
		return err
	}
	if err := w.cosignatures(db); err != nil {
		return err
	}
	return w.unfinished(db)
}

// readRefused reads which records are known to be unbooked; they are findings, not problems.
func (w *walk) readRefused(db *gorm.DB) error {
	if w.books == nil {
		return nil
	}
	var rows []store.UnbookedRow
	if err := db.Select("writer", "seq").Find(&rows).Error; err != nil {
		return fmt.Errorf("read unbooked records: %w", err)
	}
	w.refused = make(map[string]bool, len(rows))
	for _, r := range rows {
		w.refused[fmt.Sprintf("%s/%d", r.Writer, r.Seq)] = true
	}
	return nil
}

// compare compares the records read since the last call with everything that is stored because of them.
func (w *walk) compare(db *gorm.DB) error {
	return errors.Join(w.search.Compare(db), w.compareBooks(db), w.compareContents(db))
}

// compareBooks compares the records read since the last call with the books.
func (w *walk) compareBooks(db *gorm.DB) error {
	if len(w.due) == 0 {
		return nil
	}
	events := make([]record.Event, len(w.due))
	for i, b := range w.due {
		events[i] = b.event
	}
	differences, err := w.books.Differences(db, events)
	if err != nil {
		return fmt.Errorf("compare the books: %w", err)
	}
	for _, b := range w.due {
		if cause := differences[b.event.ID]; cause != "" {
			w.problem("usage", b.event.ID, b.index, cause)
		}
	}
	w.due = w.due[:0]
	return nil
}

// surplus looks for entries of the books without a record.
func (w *walk) surplus(db *gorm.DB) error {
	if w.books == nil {
		return nil
	}
	requests, err := w.books.Surplus(db, w.since, maxProblems)
	if err != nil {
		return fmt.Errorf("compare the books: %w", err)
	}
	for _, r := range requests {
		w.problem("usage", "", -1, "usage of request "+r+" is billed and no outcome record says so")
	}
	return nil
}

var rowMissing = regexp.MustCompile(`^row ([0-9]+) missing from index`)

// indexes compares the tables with the indexes through which they were just read: SQLite takes a value from an index where it can,
// so a changed copy in the table would not show. PostgreSQL reads the table.
func (w *walk) indexes(db *gorm.DB) error {
	if !database.IsSQLite(db) {
		return nil
	}
	for _, table := range []string{"audit_events", "audit_leaves", "audit_hashes", "audit_checkpoints"} {
		var lines []string
		if err := db.Raw("PRAGMA integrity_check(" + table + ")").Scan(&lines).Error; err != nil {
			return fmt.Errorf("check the indexes of %s: %w", table, err)
		}
		for _, line := range lines {
			if line == "ok" {
				continue
			}
			var ids []string
			if m := rowMissing.FindStringSubmatch(line); m != nil && table == "audit_events" {
				if err := db.Raw("SELECT id FROM audit_events NOT INDEXED WHERE rowid = ?", m[1]).Scan(&ids).Error; err != nil {
					return fmt.Errorf("read record: %w", err)
				}
			}
			w.problem("storage", strings.Join(ids, " "), -1, "the database file is damaged or was changed, table "+table+": "+line)
		}
	}
	return nil
}

// batch checks the positions [lo, hi): records, leaf hashes, stored tree hashes, checkpoints.
func (w *walk) batch(db *gorm.DB, lo, hi int64) error {
	rows, err := positions(db, lo, hi)
	if err != nil {
		return fmt.Errorf("read sealed records: %w", err)
	}
	stored, err := storedHashes(db, tlog.StoredHashIndex(0, lo), tlog.StoredHashIndex(0, hi))
	if err != nil {
		return err
	}
	notes, err := checkpointsIn(db, lo, hi)
	if err != nil {
		return err
	}
	for at := lo; at < hi; at++ {
		switch {
		case len(rows) > 0 && rows[0].Idx == at:
			w.position(rows[0], stored)
			rows = rows[1:]
		case at < w.least:
			w.hash(leafOf(stored, at), at, "", stored)
		default:
			if now, err := store.Least(db); err != nil || at < now && now != w.stated {
				return errors.Join(err, errors.New("records were pruned while the log was verified: verify it again"))
			}
			w.gap(at, stored)
		}
		w.checkpoints(at+1, notes[at+1])
		delete(notes, at+1)
	}
	for size := range notes {
		w.problem("checkpoint", "", size, "a checkpoint is stored under a size it does not belong to")
	}
	w.progress(min(hi-w.base, w.total), w.total)
	return w.compare(db)
}

// gap handles a position without a row. The stored hash stands in, so that what follows is still checked.
func (w *walk) gap(at int64, stored map[int64][]byte) {
	w.problem("gap", "", at, "no record has this position")
	w.badTree = true
	w.edge.add(leafOf(stored, at))
}

// leafOf is the stored leaf hash of a position, which stands in for a record that is not there.
func leafOf(stored map[int64][]byte, at int64) (h tlog.Hash) {
	copy(h[:], stored[tlog.StoredHashIndex(0, at)])
	return h
}

func (w *walk) position(r store.RecordRow, stored map[int64][]byte) {
	var leaf tlog.Hash
	copy(leaf[:], r.PositionHash)
	name := fmt.Sprintf("%s/%d", r.LeafWriter, r.LeafSeq)
	w.sequence(r, name)
	if r.Found == nil {
		w.badTree = true
		w.problem("missing", w.nameOf(r.LeafWriter, r.LeafSeq, name), r.Idx, "the record was removed from the database or its writer or sequence was changed")
		delete(w.logSeqs[r.LeafWriter], uint64(r.LeafSeq))
	} else {
		leaf = w.record(r.Event, r.Idx)
		if !bytes.Equal(leaf[:], r.PositionHash) {
			w.badTree = true
			w.problem("leaf", r.Event.ID, r.Idx, "the payload does not have the leaf hash of its position")
		}
		if r.PositionTime != r.Event.Time {
			w.problem("column", r.Event.ID, r.Idx, "the position does not have the time of its record")
		}
	}
	w.hash(leaf, r.Idx, r.Event.ID, stored)
}

// hash extends the tree by the leaf of a position and compares the stored hashes that it completes.
func (w *walk) hash(leaf tlog.Hash, idx int64, id string, stored map[int64][]byte) {
	at := tlog.StoredHashIndex(0, idx)
	for k, h := range w.edge.add(leaf) {
		if bytes.Equal(stored[at+int64(k)], h[:]) {
			continue
		}
		if k == 0 {
			w.problem("tree", id, idx, "the stored tree hash of this record is wrong")
		} else if !w.badTree {
			w.problem("tree", id, idx, fmt.Sprintf("the stored tree hash over records %d to %d is wrong", idx+1-1<<k, idx))
		}
		w.badTree = true
	}
}

// sequence checks that the records of one writer have positions in their order and without gaps.
func (w *walk) sequence(r store.RecordRow, name string) {
	if r.Idx < w.least { // its neighbours were pruned
		w.counted[r.LeafWriter]++
		return
	}
	if _, met := w.sealed[r.LeafWriter]; w.partial && !met {
		w.sealed[r.LeafWriter] = r.LeafSeq - 1 // what comes before it is not looked at
	}
	if r.LeafSeq != w.sealed[r.LeafWriter]+1 {
		w.problem("sequence", w.nameOf(r.LeafWriter, r.LeafSeq, name), r.Idx, fmt.Sprintf("sequence %d of writer %s follows %d: records are missing or reordered",
			r.LeafSeq, r.LeafWriter, w.sealed[r.LeafWriter]))
	}
	w.sealed[r.LeafWriter] = max(w.sealed[r.LeafWriter], r.LeafSeq)
	w.counted[r.LeafWriter]++
}

// record checks one record against itself and the write-ahead log and returns the leaf hash of its payload.
func (w *walk) record(r store.EventRow, idx int64) tlog.Hash {
	w.report.Records++
	leaf := tlog.RecordHash(r.Payload)
	if f, ok := w.logSeqs[r.Writer][uint64(r.Seq)]; ok {
		delete(w.logSeqs[r.Writer], uint64(r.Seq))
		if f.leaf != leaf {
			w.problem("wal", r.ID, idx, "the write-ahead log holds another payload for this record")
		}
	}
	a, err := store.Arrive(r.Writer, uint64(r.Seq), r.Payload)
	if err != nil {
		w.problem("payload", r.ID, idx, err.Error())
		return leaf
	}
	e, want := a.Event, a.Row
	if len(e.Contents) > 0 {
		w.keepers = append(w.keepers, keeper{*e, idx})
	}
	if w.books != nil && e.Stage == record.StageOutcome && !w.refused[fmt.Sprintf("%s/%d", r.Writer, r.Seq)] {
		w.due = append(w.due, billed{*e, idx})
	}
	w.search.Note(a.Lists, a.Event.ID, idx)
	if bad := differing(r, want); len(bad) > 0 {
		w.problem("column", want.ID, idx, "these columns differ from the payload: "+strings.Join(bad, ", "))
	}
	return leaf
}

// nameOf returns the id of a record that is gone from the database, if the write-ahead log still knows it.
func (w *walk) nameOf(writer string, seq int64, fallback string) string {
	if f, ok := w.logSeqs[writer][uint64(seq)]; ok {
		return f.id
	}
	return fallback
}

// checkpoints compares what was signed for size, in the database and outside it, with the recomputed root.
func (w *walk) checkpoints(size int64, text string) {
	root := w.edge.root()
	if text != "" {
		t, err := w.v.Open(text)
		switch {
		case err != nil:
			w.problem("checkpoint", "", size, err.Error())
		case t.Size != size:
			w.problem("checkpoint", "", size, "a checkpoint is stored under a size it does not belong to")
		case t.Root != root:
			w.problem("root", "", size, fmt.Sprintf("the records 0 to %d do not give the root that was signed for them", size-1))
		}
	}
	if want, ok := w.rooted[size]; ok && want != root {
		w.problem("pruning", "", size, fmt.Sprintf("the records 0 to %d do not give the root that their pruning states", size-1))
	}
	if want, ok := w.expected[size]; ok && want != root {
		w.problem("fork", "", size, fmt.Sprintf("the records 0 to %d do not give the root that the checkpoint file attests", size-1))
	}
}

// outside looks for evidence rows beyond the newest checkpoint and for records slipped in among the sealed ones.
func (w *walk) outside(db *gorm.DB, size int64) error {
	w.report.Sealed = size
	var leaves []seal.LeafRow
	err := db.Select("idx", "writer", "seq").Where("idx < 0 OR idx >= ?", size).Order("idx").Limit(maxProblems).Find(&leaves).Error
	if err != nil {
		return fmt.Errorf("read positions: %w", err)
	}
	_, now, err := seal.Latest(db, w.v) // a running log may have grown meanwhile
	if err != nil {
		now.Size = size
	}
	for _, l := range leaves {
		if l.Idx < 0 || l.Idx >= max(now.Size, size) {
			w.problem("leaf", fmt.Sprintf("%s/%d", l.Writer, l.Seq), l.Idx, "the position is not covered by any signed checkpoint")
		}
	}
	for writer, last := range w.sealed {
		var n int64
		if err := db.Model(&store.EventRow{}).Where("writer = ? AND seq <= ?", writer, last).Count(&n).Error; err != nil {
			return fmt.Errorf("count records: %w", err)
		}
		if n <= w.counted[writer] {
			continue
		}
		var extra []store.EventRow
		err := db.Table("audit_events AS e").Select("e.id", "e.writer", "e.seq").
			Where("e.writer = ? AND e.seq <= ? AND NOT EXISTS (SELECT 1 FROM audit_leaves AS l WHERE l.writer = e.writer AND l.seq = e.seq)", writer, last).
			Limit(maxProblems).Find(&extra).Error
		if err != nil {
			return fmt.Errorf("read records: %w", err)
		}
		for _, e := range extra {
			w.problem("extra", e.ID, -1, "the record was put among sealed ones and has no position")
		}
	}
	return nil
}

// unsealed checks the records that wait for their position.
func (w *walk) unsealed(db *gorm.DB) error {
	var writers []string
	if err := db.Model(&store.EventRow{}).Distinct("writer").Order("writer").Pluck("writer", &writers).Error; err != nil {
		return fmt.Errorf("read writers: %w", err)
	}
	for _, writer := range writers {
		last := w.sealed[writer]
		from := last
		if w.counted[writer] == 0 && w.pruned[writer] == 0 {
			from = math.MinInt64 // a first record in front of 1 must show too
		}
		for {
			var rows []store.EventRow
			err := db.Select(store.SelectColumns("audit_events")).Where("writer = ? AND seq > ?", writer, from).Order("seq").Limit(verifyBatch).Find(&rows).Error
			if err != nil {
				return fmt.Errorf("read records: %w", err)
			}
			for _, r := range rows {
				if r.Seq != last+1 {
					w.problem("sequence", r.ID, -1, fmt.Sprintf("sequence %d of writer %s follows %d: records are missing", r.Seq, writer, last))
				}
				last, from = r.Seq, r.Seq
				leaf := w.record(r, -1)
				if !bytes.Equal(leaf[:], r.LeafHash) { // rowOf compared it too; kept apart for the wording
					w.problem("leaf", r.ID, -1, "the payload does not have the leaf hash beside it")
				}
				w.report.Unsealed++
			}
			if err := w.compare(db); err != nil {
				return err
			}
			w.progress(min(w.report.Records, w.total), w.total)
			if len(rows) < verifyBatch {
				break
			}
		}
		w.sealed[writer] = last
	}
	return nil
}

// unfinished lists admitted requests without an outcome. On a running log these are the requests in progress.
func (w *walk) unfinished(db *gorm.DB) error {
	done := map[string]bool{}
	for _, seqs := range w.logSeqs {
		for _, f := range seqs {
			done[f.outcome] = f.outcome != ""
		}
	}
	var rows []store.EventRow
	err := db.Table("audit_events AS a").Select("a.id", "a.request", "a.prompt_tokens").
		Where("a.stage = ? AND NOT EXISTS (SELECT 1 FROM audit_events AS o WHERE o.request = a.request AND o.stage = ?)", string(record.StageAdmitted), string(record.StageOutcome)).
		Order("a.time").Limit(maxProblems).Find(&rows).Error
	if err != nil {
		return fmt.Errorf("read unfinished requests: %w", err)
	}
	for _, r := range rows {
		if !done[r.Request] {
			text := "request " + r.Request + " was admitted and has no outcome"
			if r.PromptTokens > 0 {
				text += "; it may have been answered, and what this record says is billed"
			}
			w.finding("unfinished", r.ID, -1, text)
		}
	}
	var unbooked []store.UnbookedRow
	if err := db.Select("writer", "seq", "cause").Order("writer, seq").Limit(maxProblems).Find(&unbooked).Error; err != nil {
		return fmt.Errorf("read unbooked records: %w", err)
	}
	for _, u := range unbooked {
		w.finding("unbooked", fmt.Sprintf("%s/%d", u.Writer, u.Seq), -1, "the ledger refused the usage of this record: "+u.Cause)
	}
	return nil
}

// shipped returns, per writer, the last sequence in the database.
func (w *walk) shipped(ctx context.Context, writers []string) (map[string]int64, error) {
	out := make(map[string]int64, len(writers))
	for _, writer := range writers {
		var last int64
		err := w.db.WithContext(ctx).Model(&store.EventRow{}).Select("COALESCE(MAX(seq), 0)").Where("writer = ?", writer).Scan(&last).Error
		if err != nil {
			return nil, fmt.Errorf("read writers: %w", err)
		}
		out[writer] = last
	}
	return out, nil
}

// idOf names a record by its place: by its id if the database has it.
func (w *walk) idOf(ctx context.Context, writer string, seq uint64) string {
	var ids []string
	err := w.db.WithContext(ctx).Model(&store.EventRow{}).Where("writer = ? AND seq = ?", writer, int64(seq)).Pluck("id", &ids).Error
	if err != nil || len(ids) == 0 {
		return fmt.Sprintf("%s/%d", writer, seq)
	}
	return ids[0]
}

func storedHashes(db *gorm.DB, from, to int64) (map[int64][]byte, error) {
	var rows []seal.HashRow
	if err := db.Select("idx", "hash").Where("idx >= ? AND idx < ?", from, to).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read tree hashes: %w", err)
	}
	out := make(map[int64][]byte, len(rows))
	for _, r := range rows {
		out[r.Idx] = r.Hash
	}
	return out, nil
}

func checkpointsIn(db *gorm.DB, lo, hi int64) (map[int64]string, error) {
	var rows []seal.CheckpointRow
	if err := db.Select("size", "note").Where("size > ? AND size <= ?", lo, hi).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	out := make(map[int64]string, len(rows))
	for _, r := range rows {
		out[r.Size] = r.Note
	}
	return out, nil
}

// differing names the columns in which two rows differ. Going by the fields keeps a column added later from being forgotten.
func differing(a, b store.EventRow) []string {
	var out []string
	names := store.Columns()
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		x, y := va.Field(i).Interface(), vb.Field(i).Interface()
		if !reflect.DeepEqual(x, y) {
			out = append(out, names[i])
		}
	}
	return out
}
