package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestEveryWriteFailure fails each file operation in each way, at the first and at a later append, with and without a disk that
// lets us clean up. Whatever happens: what was acknowledged is there once, also after a crash, and the log verifies.
func TestEveryWriteFailure(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "syncdir"} {
		for _, m := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter, durabletest.FailsShort, durabletest.FailsHalf} {
			if m >= durabletest.FailsShort && op != "write" {
				continue
			}
			for _, n := range []int{1, 2} {
				for _, dirty := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s mode %d at %d dirty %v", op, m, n, dirty), func(t *testing.T) {
						t.Parallel()
						testWriteFailure(t, op, m, n, dirty)
					})
				}
			}
		}
	}
}

func testWriteFailure(t *testing.T, op string, m durabletest.Mode, n int, dirty bool) {
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes = 3000 // a few records per segment, so that create happens again; below the configurable minimum
	disk := &durabletest.Files{}
	l := openTest(t, cfg, db, nil, disk)
	disk.Set(durabletest.Once(op, n, m, dirty))
	var acked []string
	refused := 0
	for i := range 12 {
		r, err := crashAppend(l, i) // every other one keeps a text
		if err != nil {
			refused++
			if !fault.Is(err, fault.CodeAuditUnavailable) || fault.Public(err).RetryAfter() == 0 {
				t.Fatalf("append: %v", err)
			}
			if l.Ready() == nil {
				t.Error("ready right after a failed commit")
			}
			continue
		}
		if err := l.Ready(); err != nil {
			t.Errorf("not ready after a success: %v", err)
		}
		acked = append(acked, r.ID)
	}
	if refused != 1 {
		t.Errorf("%d appends were refused, want 1", refused)
	}
	// The process dies here: nothing is flushed, the lock alone is given back as the system would.
	if err := l.locks[0].Close(); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, cfg, db, nil, durable.OS{})
	flush(t, l)
	mustVerify(t, l, db)
	ids := searchIDs(t, l, search.Query{Limit: 500})
	if len(ids) > len(acked)+1 {
		t.Errorf("%d records for %d acknowledged appends", len(ids), len(acked))
	}
	seen := map[string]int{}
	for _, id := range ids {
		seen[id]++
	}
	for _, id := range acked {
		if seen[id] != 1 {
			t.Errorf("acknowledged record %s is there %d times", id, seen[id])
		}
	}
}

// TestFailedRecordIsNotShipped keeps the process running after the failure: a batch that was refused must not reach the
// database from the same run, whether or not its bytes are in the file.
func TestFailedRecordIsNotShipped(t *testing.T) {
	for _, c := range []struct {
		op   string
		mode durabletest.Mode
		size int64 // of a segment: small ones make the failing append start a new one
	}{{"sync", durabletest.FailsBefore, 1 << 16}, {"sync", durabletest.FailsAfter, 1 << 16}, {"sync", durabletest.FailsAfter, 10}, {"syncdir", durabletest.FailsBefore, 10}} {
		db := dbtest.SQLite(t)
		disk := &durabletest.Files{}
		cfg := testConfig(t.TempDir())
		cfg.SegmentBytes = c.size
		l := openTest(t, cfg, db, nil, disk)
		first := appendN(t, l, 0, 3)
		disk.Set(durabletest.Once(c.op, 1, c.mode, true))
		if _, err := l.Append(t.Context(), recordtest.Sample(3)); !errors.Is(err, durabletest.ErrInjected) {
			t.Fatalf("append: %v", err)
		}
		second := appendN(t, l, 4, 3)
		disk.Set(nil)
		flush(t, l)
		mustVerify(t, l, db)
		ids := searchIDs(t, l, search.Query{})
		if len(ids) != 6 {
			t.Errorf("%d records, want 6", len(ids))
		}
		for _, r := range slices.Concat(first, second) {
			if !slices.Contains(ids, r.ID) {
				t.Errorf("record %s is missing", r.ID)
			}
		}
		must(t, l.Close())
		l = openTest(t, cfg, db, nil, durable.OS{}) // what the failed write left must not come to life again
		mustVerify(t, l, db)
		flush(t, l)
		if r := mustVerify(t, l, db); r.Records != 6 {
			t.Errorf("%d records after reopening", r.Records)
		}
	}
}

// TestDiskFullThenSpace refuses while the disk is full and recovers, without traffic, by the probe of Run.
func TestDiskFullThenSpace(t *testing.T) {
	disk := &durabletest.Files{}
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, disk)
	appendN(t, l, 0, 1)
	disk.Set(func(op string) durabletest.Mode {
		switch op {
		case "write":
			return durabletest.FailsHalf
		case "create":
			return durabletest.FailsBefore
		}
		return durabletest.Healthy
	})
	for range 3 {
		if _, err := l.Append(t.Context(), recordtest.Sample(1)); !fault.Is(err, fault.CodeAuditUnavailable) {
			t.Fatalf("append on a full disk: %v", err)
		}
	}
	disk.Set(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	waitFor(t, func() bool { return l.Ready() == nil })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	flush(t, l) // the segment that the probe began has a header and no record yet
	appendN(t, l, 2, 1)
	flush(t, l)
	mustVerify(t, l, l.store.DB)
}

// TestHungDevice lets each operation of an append hang in turn: the append returns within the deadline, the next ones are refused at once
// while the device hangs, and go through when it answers.
func TestHungDevice(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "syncdir", "close"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			db := dbtest.SQLite(t)
			disk := &durabletest.Files{}
			cfg := testConfig(t.TempDir())
			cfg.SegmentBytes = 1 // every append starts a segment
			l := openTest(t, cfg, db, nil, disk)
			appendN(t, l, 0, 1)
			stepTimeout := l.wal.Deadline // on a busy machine an honest fsync may take longer than the short deadline below
			l.wal.Deadline = 200 * time.Millisecond
			release, entered := durabletest.Hang(disk, op)
			if _, err := l.Append(t.Context(), recordtest.Sample(1)); !errors.Is(err, wal.ErrSlow) || !fault.Is(err, fault.CodeAuditUnavailable) {
				t.Fatalf("append on a hung device: %v", err)
			}
			<-entered
			waitFor(t, func() bool { return l.Ready() != nil }) // the log's clock for the device began a little after ours
			start := time.Now()
			if _, err := l.Append(t.Context(), recordtest.Sample(2)); !errors.Is(err, wal.ErrSlow) || time.Since(start) > 150*time.Millisecond {
				t.Errorf("second append: %v after %v, want an immediate refusal", err, time.Since(start))
			}
			close(release)
			waitFor(t, func() bool { return l.Ready() == nil })
			l.wal.Deadline = stepTimeout
			r := appendN(t, l, 3, 1)[0]
			flush(t, l)
			mustVerify(t, l, db)
			if _, err := l.Get(t.Context(), r.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHungDeviceSpools goes to the second device within the deadline, and at once while the first one still hangs.
func TestHungDeviceSpools(t *testing.T) {
	db := dbtest.SQLite(t)
	l, first, _ := openDevices(t, db, func(c *Config) { c.Mode = ModeSpool })
	before := appendN(t, l, 0, 1)
	stepTimeout := l.wal.Deadline
	l.wal.Deadline = 200 * time.Millisecond
	release, _ := durabletest.Hang(first, "sync")
	var spooled []Receipt
	for n := range 3 {
		start := time.Now()
		r, err := l.Append(t.Context(), recordtest.Sample(1+n))
		if err != nil || r.Writer != l.spool.Writer {
			t.Fatalf("append %d on a hung device with a spool: %+v, %v", n, r, err)
		}
		if took := time.Since(start); n > 0 && took > 150*time.Millisecond {
			t.Errorf("append %d took %v although the device was known to hang", n, took)
		}
		spooled = append(spooled, r)
	}
	close(release)
	waitFor(t, func() bool { return l.wal.Ready() == nil })
	l.wal.Deadline = stepTimeout
	after := appendN(t, l, 10, 1)
	flush(t, l)
	mustVerify(t, l, db)
	for _, r := range slices.Concat(before, spooled, after) {
		if _, err := l.Get(t.Context(), r.ID); err != nil {
			t.Errorf("record %s: %v", r.ID, err)
		}
	}
}

// TestBudget keeps room for outcomes when admitted records are refused, and refuses those too at the end.
func TestBudget(t *testing.T) {
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes, cfg.MaxBytes = 4096, 100_000
	l := openTest(t, cfg, db, nil, durable.OS{})
	e := recordtest.Sample(0)
	e.Stage = StageAdmitted
	for {
		if _, err := l.Append(t.Context(), e); err != nil {
			if !errors.Is(err, wal.ErrFull) || !fault.Is(err, fault.CodeAuditUnavailable) {
				t.Fatal(err)
			}
			break
		}
	}
	if l.Ready() == nil {
		t.Error("ready with a full write-ahead log")
	}
	outcomes := 0
	for ; outcomes < 1000; outcomes++ {
		if _, err := l.Append(t.Context(), recordtest.Sample(1)); err != nil {
			break
		}
	}
	if outcomes < 5 || outcomes == 1000 {
		t.Errorf("%d outcomes were taken after admissions stopped", outcomes)
	}
	flush(t, l)
	if err := l.Ready(); err != nil {
		t.Errorf("shipped and sealed, yet %v", err)
	}
	appendN(t, l, 2, 1)
	mustVerify(t, l, db)
}

func TestSecondProcessIsRefused(t *testing.T) {
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	openTest(t, cfg, db, nil, durable.OS{})
	_, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), durable.OS{}, durable.OS{})
	if used := (*durable.InUseError)(nil); !errors.As(err, &used) || used.Dir != cfg.Dir || used.PID != strconv.Itoa(os.Getpid()) {
		t.Fatalf("second open: %v", err)
	}
}

func TestAppendAfterCloseAndCancelledContext(t *testing.T) {
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, durable.OS{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // the commit may win the race; then the record is durable and the receipt is right
		if r, err := l.Append(ctx, recordtest.Sample(0)); err == nil && r.Seq == 0 {
			t.Error("a receipt without a sequence")
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), recordtest.Sample(0)); !errors.Is(err, wal.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
}

// TestDiesBeforeTheHeader leaves a first segment that ends in its header, or in a later one: nothing was acknowledged there, so it is no
// problem, and the next start removes it.
func TestDiesBeforeTheHeader(t *testing.T) {
	db := dbtest.SQLite(t)
	header := wal.AppendHeader(nil, "", 1)
	for _, size := range []int{0, 7, len(header) - 1, len(header)} {
		for _, number := range []int{1, 2} {
			cfg := testConfig(t.TempDir())
			cfg.SegmentBytes = 1
			l := openTest(t, cfg, db, nil, durable.OS{})
			for n := range number {
				appendN(t, l, n, 1)
			}
			flush(t, l) // retires all but the last
			segs := l.wal.Segments()
			must(t, l.Close())
			must(t, os.WriteFile(wal.Path(wal.Dir(cfg.Dir), segs[0].Writer, segs[0].Number+1), make([]byte, size), 0o600))
			if number == 1 { // nothing else is there
				must(t, os.Remove(segs[0].Path))
			}
			mustVerify(t, l, db)
			again := openTest(t, cfg, db, nil, durable.OS{})
			flush(t, again)
			if left := again.wal.Segments(); len(left) != 0 {
				t.Errorf("%d bytes in segment %d: %+v stay", size, number, left)
			}
			must(t, again.Close())
		}
	}
}

// TestDamageInTheMiddle flips every byte before the last frame: the start must be refused, not the records dropped.
func TestDamageInTheMiddle(t *testing.T) {
	cfg := testConfig(t.TempDir())
	db := dbtest.SQLite(t)
	l := openTest(t, cfg, db, nil, durable.OS{})
	for i := range 3 {
		appendN(t, l, i, 1)
	}
	seg := l.wal.Segments()[0]
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(seg.Path)
	if err != nil {
		t.Fatal(err)
	}
	img := wal.Parse(filepath.Base(seg.Path), whole)
	end := len(whole) - len(wal.AppendRecord(nil, wal.Record{Payload: img.Records[2].Payload}))
	for at := 0; at < end; at += 67 {
		b := slices.Clone(whole)
		b[at] ^= 0x20
		if err := os.WriteFile(seg.Path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), durable.OS{}, durable.OS{}); err == nil {
			t.Fatalf("a flipped byte at %d of %d went unnoticed", at, len(whole))
		}
		r, err := verify.Run(t.Context(), verify.Source{Dir: cfg.Dir, DB: db, VerifierKey: l.VerifierKey()}, nil)
		if err != nil || r.OK || r.Problems[0].Kind != "wal" {
			t.Fatalf("verify: %+v, %v", r, err)
		}
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("timed out")
		case <-tick.C:
		}
	}
}
