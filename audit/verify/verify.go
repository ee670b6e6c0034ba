package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
)

// Report is the result of [Run]. OK means that no problem was found; findings do not count against it.
type Report struct {
	OK             bool   `json:"ok"`
	Records        int64  `json:"records"`     // read from the database
	Sealed         int64  `json:"sealed"`      // with a position under a signed checkpoint
	Unsealed       int64  `json:"unsealed"`    // in the database, waiting for a position
	WALRecords     int64  `json:"wal_records"` // read from the write-ahead log
	CheckpointSize int64  `json:"checkpoint_size"`
	Root           string `json:"root"` // hex
	// Least is the minimum index: records below were pruned, but for those that are kept.
	Least int64 `json:"least_index"`
	// FirstIndex and UntilIndex are the range that was checked, if it was not all; UntilIndex is 0 otherwise.
	FirstIndex int64 `json:"first_index"`
	UntilIndex int64 `json:"until_index"`
	// Witnessed says how far each known witness has cosigned what was verified.
	Witnessed []seal.Witnessed `json:"witnessed"`
	Problems  []Problem        `json:"problems"`
	Findings  []Problem        `json:"findings"`
	// More is set if the lists were cut.
	More bool `json:"more"`
}

// Problem names one thing that is wrong. Record is the id of the record, or writer/sequence if the id is lost; Index is its
// position in the tree or a tree size, -1 if it has none.
//
// Problems: payload, column, leaf, tree, root, fork, truncated, checkpoint, cosignature, gap, missing, extra, sequence, wal, storage, usage (the
// books and the record disagree), content (what is kept beside the record), pruning (what is said about removed records), `vault` (a record
// that had to stay), archive (the file of removed records was changed).
// Findings: unfinished (admitted without outcome), unbooked, torn (an unfinished write at the end of a segment), unpinned (no
// checkpoint outside the database), archive (the file of removed records is not where it was).
type Problem struct {
	Kind   string `json:"kind"`
	Record string `json:"record"`
	Index  int64  `json:"index"`
	Cause  string `json:"cause"`
}

// Run checks a log from its payload bytes up, trusting nothing but the verifier key: every leaf, the whole tree, every
// checkpoint, the copies of the checkpoints outside the database, gaps, search columns, and the write-ahead log. An error means
// that it could not finish; what it found is in the report. progress may be nil.
func Run(ctx context.Context, src Source, progress func(done, total int64)) (Report, error) {
	v, err := checkpoint.NewVerifier(src.VerifierKey)
	if err != nil {
		return Report{}, err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	report := Report{Witnessed: []seal.Witnessed{}, Problems: []Problem{}, Findings: []Problem{}}
	w := &walk{
		db: src.DB, v: v, witnesses: src.Witnesses, report: &report, progress: progress, books: src.Books,
		archive: src.ArchiveDir, pruned: map[string]int64{}, since: math.MinInt64, rooted: map[int64]tlog.Hash{}, now: time.Now,
		sealed: map[string]int64{}, counted: map[string]int64{}, expected: map[int64]tlog.Hash{}, logSeqs: map[string]map[uint64]logRecord{},
	}
	w.search.Problem = func(record string, index int64, cause string) { w.problem("column", record, index, cause) }
	if src.UntilIndex != 0 {
		return w.onlyRange(ctx, src)
	}
	// On a running log the order matters: what was read first can only have grown by the time the rest is read.
	var latest checkpoint.Tree
	if src.Dir != "" {
		if latest, err = w.cached(seal.CacheDir(src.Dir)); err != nil {
			return Report{}, err
		}
		if err := w.writeAheadLog(ctx, wal.Dir(src.Dir)); err != nil {
			return Report{}, err
		}
	}
	if src.SpoolDir != "" {
		if err := w.writeAheadLog(ctx, wal.Dir(src.SpoolDir)); err != nil {
			return Report{}, err
		}
	}
	if err := w.database(ctx, latest); err != nil {
		return Report{}, fmt.Errorf("verify audit log: %w", err)
	}
	w.leftovers()
	if src.Dir != "" && latest.Size == 0 && report.Sealed > 0 {
		w.finding("unpinned", "", report.Sealed, "no checkpoint is kept outside the database, so a cut end would not show")
	}
	report.OK = len(report.Problems) == 0
	return report, nil
}

func (w *walk) problem(kind, record string, index int64, cause string) {
	if len(w.report.Problems) == maxProblems {
		w.report.More = true
		return
	}
	w.report.Problems = append(w.report.Problems, Problem{kind, record, index, cause})
}

func (w *walk) finding(kind, record string, index int64, cause string) {
	if len(w.report.Findings) == maxProblems {
		w.report.More = true
		return
	}
	w.report.Findings = append(w.report.Findings, Problem{kind, record, index, cause})
}

// cached reads the checkpoints kept outside the database and returns the newest.
func (w *walk) cached(dir string) (latest checkpoint.Tree, err error) {
	take := func(text, where string) {
		t, err := w.v.Open(text)
		if err != nil {
			w.problem("checkpoint", "", -1, where+": "+err.Error())
			return
		}
		if old, ok := w.expected[t.Size]; ok && old != t.Root {
			w.problem("fork", "", t.Size, where+" and another checkpoint file attest different roots for one size")
		}
		w.expected[t.Size] = t.Root
		if t.Size > latest.Size {
			latest = t
		}
	}
	path := filepath.Join(dir, "latest")
	text, err := os.ReadFile(path)
	if err == nil {
		take(string(text), path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return checkpoint.Tree{}, fmt.Errorf("read checkpoint files: %w", err)
	}
	path = filepath.Join(dir, "checkpoints.log")
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return latest, nil
	}
	if err != nil {
		return checkpoint.Tree{}, fmt.Errorf("read checkpoint files: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil { // a line without its newline is one being written
			return latest, nil
		}
		where := fmt.Sprintf("%s line %d", path, n)
		var text string
		if err := json.Unmarshal(line, &text); err != nil {
			w.problem("checkpoint", "", -1, where+" is unreadable")
			continue
		}
		take(text, where)
	}
}

// writeAheadLog reads every segment and remembers the records, to be compared with those in the database.
func (w *walk) writeAheadLog(ctx context.Context, dir string) error {
	writers, err := wal.Writers(dir)
	if err != nil {
		return err
	}
	shipped, err := w.shipped(ctx, writers) // before the segments are read, see Verify
	if err != nil {
		return err
	}
	segments, err := wal.Segments(dir)
	if err != nil {
		return err
	}
	for i, s := range segments {
		last := i+1 == len(segments) || segments[i+1].Writer != s.Writer
		known := s.First != 0 || s.Last != 0
		if err := w.segment(ctx, s, last && known && shipped[s.Writer] > int64(s.Last)); err != nil {
			return err
		}
	}
	return nil
}

// segment checks one segment. lost says that the database holds records behind its last readable one.
func (w *walk) segment(ctx context.Context, s wal.Stored, lost bool) error {
	name := filepath.Base(s.Path)
	switch {
	case s.Damage == wal.Corrupt || s.Damage == wal.Spoiled || s.Damage == wal.Torn && lost:
		w.problem("wal", w.idOf(ctx, s.Writer, s.Last+1), -1, "write-ahead log segment "+name+" is damaged: "+s.Cause)
	case s.Damage == wal.Torn:
		w.finding("torn", "", -1, fmt.Sprintf("write-ahead log segment %s ends in an unfinished write (%d bytes), which was not acknowledged", name, s.Length-s.Size))
	}
	if w.logSeqs[s.Writer] == nil {
		w.logSeqs[s.Writer] = map[uint64]logRecord{}
	}
	return w.logRecords(s)
}

// logRecords reads the records of a segment again and keeps what is needed to compare them.
func (w *walk) logRecords(s wal.Stored) error {
	frames, err := s.Records()
	if err != nil {
		return err
	}
	for _, f := range frames {
		w.report.WALRecords++
		e, err := record.Decode(f.Payload)
		if err != nil {
			w.problem("wal", fmt.Sprintf("%s/%d", s.Writer, f.Seq), -1, err.Error())
		}
		if _, err := store.Unpack(store.Arrival{Event: &e, Attached: f.Attached}, nil, map[string]content.Key{}); err != nil {
			w.problem("wal", e.ID, -1, err.Error())
		}
		r := logRecord{leaf: tlog.RecordHash(f.Payload), id: e.ID}
		if e.Stage == record.StageOutcome {
			r.outcome = e.Request
		}
		w.logSeqs[s.Writer][f.Seq] = r
	}
	return nil
}

// logRecord is what a record of the write-ahead log is compared by; outcome is the request it ends, if it does.
type logRecord struct {
	leaf        tlog.Hash
	id, outcome string
}

// leftovers looks at the records of the write-ahead log that the database does not have. Those behind the last shipped one are
// on their way; the others were removed.
func (w *walk) leftovers() {
	for writer, seqs := range w.logSeqs {
		for seq, r := range seqs {
			if int64(seq) <= w.sealed[writer] && int64(seq) > w.pruned[writer] {
				w.problem("missing", r.id, -1, fmt.Sprintf("the record is in the write-ahead log (%s/%d) but was removed from the database", writer, seq))
			}
		}
	}
}

// edge is the right edge of a growing RFC 6962 tree: the roots of its complete subtrees, largest first.
type edge struct {
	size  int64
	roots []tlog.Hash
}

// add appends a leaf and returns the hashes it completes, the leaf first: those that sumdb/tlog stores for it, in order.
func (e *edge) add(leaf tlog.Hash) []tlog.Hash {
	out := []tlog.Hash{leaf}
	h := leaf
	for range bits.TrailingZeros64(uint64(e.size) + 1) {
		h = tlog.NodeHash(e.roots[len(e.roots)-1], h)
		e.roots = e.roots[:len(e.roots)-1]
		out = append(out, h)
	}
	e.roots = append(e.roots, h)
	e.size++
	return out
}

// root returns the root of the tree so far; the tree must not be empty.
func (e *edge) root() tlog.Hash {
	h := e.roots[len(e.roots)-1]
	for i := len(e.roots) - 2; i >= 0; i-- {
		h = tlog.NodeHash(e.roots[i], h)
	}
	return h
}
