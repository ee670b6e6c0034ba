package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// faultyFiles is the disk with failures: each operation asks plan what to do before and after.
type faultyFiles struct {
	diskFiles
	mu   sync.Mutex
	plan func(op string) mode
}

// mode is how an operation on a disk or on a database goes. A disk knows more ways than a database.
type mode = dbtest.Outcome

const (
	healthy     = dbtest.Healthy
	failsBefore = dbtest.FailsBefore // fails, nothing persisted
	failsAfter  = dbtest.FailsAfter  // fails, but persisted
	diesAfter   = dbtest.DiesAfter   // persisted, and the process is killed
)

const (
	failsShort = diesAfter + 1 + iota // writes half and reports it without an error
	failsHalf                         // writes half, then no space
	diesHalf                          // writes half, and the process is killed
)

func (f *faultyFiles) set(plan func(op string) mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

func (f *faultyFiles) next(op string) mode {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plan == nil {
		return healthy
	}
	return f.plan(op)
}

func (f *faultyFiles) Create(path string) (file, error) {
	m := f.next("create")
	if m == failsBefore {
		return nil, errInjected
	}
	in, err := f.diskFiles.Create(path)
	if err != nil {
		return nil, err
	}
	if m == failsAfter {
		_ = in.Close()
		return nil, errInjected
	}
	if m == diesAfter {
		dbtest.Die()
	}
	return &faultyFile{file: in, owner: f}, nil
}

func (f *faultyFiles) Open(path string, flag int) (file, error) {
	m := f.next("open")
	if m == failsBefore {
		return nil, errInjected
	}
	in, err := f.diskFiles.Open(path, flag)
	if err != nil {
		return nil, err
	}
	if m == failsAfter {
		_ = in.Close()
		return nil, errInjected
	}
	if m == diesAfter {
		dbtest.Die()
	}
	return &faultyFile{file: in, owner: f}, nil
}

func (f *faultyFiles) Rename(from, to string) error {
	return f.around("rename", func() error { return f.diskFiles.Rename(from, to) })
}

// around runs an operation that either happens or does not.
func (f *faultyFiles) around(op string, do func() error) error {
	switch f.next(op) {
	case failsBefore:
		return errInjected
	case failsAfter:
		_ = do()
		return errInjected
	case diesAfter:
		_ = do()
		dbtest.Die()
		return nil
	default:
		return do()
	}
}

func (f *faultyFiles) SyncDir(path string) error {
	return f.around("syncdir", func() error { return f.diskFiles.SyncDir(path) })
}

func (f *faultyFiles) Remove(path string) error {
	return f.around("remove", func() error { return f.diskFiles.Remove(path) })
}

type faultyFile struct {
	file
	owner *faultyFiles
}

func (f *faultyFile) Write(b []byte) (int, error) {
	m := f.owner.next("write")
	switch m {
	case failsBefore:
		return 0, errInjected
	case failsAfter:
		n, _ := f.file.Write(b)
		return n, errInjected
	case failsShort:
		n, _ := f.file.Write(b[:len(b)/2])
		return n, nil
	case failsHalf:
		n, _ := f.file.Write(b[:len(b)/2])
		return n, syscall.ENOSPC
	case diesAfter, diesHalf:
		if m == diesHalf {
			b = b[:len(b)/2]
		}
		_, _ = f.file.Write(b)
		dbtest.Die()
		return 0, nil
	default:
		return f.file.Write(b)
	}
}

func (f *faultyFile) Sync() error { return f.owner.around("sync", f.file.Sync) }

func (f *faultyFile) Truncate(size int64) error {
	return f.owner.around("truncate", func() error { return f.file.Truncate(size) })
}

func (f *faultyFile) Close() error { return f.owner.around("close", f.file.Close) }

// once fails the n-th operation called op in the given way, and the clean-up operations with it if dirty is set.
func once(op string, n int, m mode, dirty bool) func(string) mode {
	failed := false
	return func(got string) mode {
		if got == op {
			n--
			if n == 0 {
				failed = true
				return m
			}
		}
		if failed && dirty && (got == "truncate" || got == "remove") {
			return failsBefore
		}
		return healthy
	}
}

// TestEveryWriteFailure fails each file operation in each way, at the first and at a later append, with and without a disk that
// lets us clean up. Whatever happens: what was acknowledged is there once, also after a crash, and the log verifies.
func TestEveryWriteFailure(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "syncdir"} {
		for _, m := range []mode{failsBefore, failsAfter, failsShort, failsHalf} {
			if m >= failsShort && op != "write" {
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

func testWriteFailure(t *testing.T, op string, m mode, n int, dirty bool) {
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes = 3000 // a few records per segment, so that create happens again; below the configurable minimum
	disk := &faultyFiles{}
	l := openTest(t, cfg, db, nil, disk)
	disk.set(once(op, n, m, dirty))
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
	l = openTest(t, cfg, db, nil, diskFiles{})
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
		mode mode
		size int64 // of a segment: small ones make the failing append start a new one
	}{{"sync", failsBefore, 1 << 16}, {"sync", failsAfter, 1 << 16}, {"sync", failsAfter, 10}, {"syncdir", failsBefore, 10}} {
		db := dbtest.SQLite(t)
		disk := &faultyFiles{}
		cfg := testConfig(t.TempDir())
		cfg.SegmentBytes = c.size
		l := openTest(t, cfg, db, nil, disk)
		first := appendN(t, l, 0, 3)
		disk.set(once(c.op, 1, c.mode, true))
		if _, err := l.Append(t.Context(), recordtest.Sample(3)); !errors.Is(err, errInjected) {
			t.Fatalf("append: %v", err)
		}
		second := appendN(t, l, 4, 3)
		disk.set(nil)
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
		l = openTest(t, cfg, db, nil, diskFiles{}) // what the failed write left must not come to life again
		mustVerify(t, l, db)
		flush(t, l)
		if r := mustVerify(t, l, db); r.Records != 6 {
			t.Errorf("%d records after reopening", r.Records)
		}
	}
}

// TestDiskFullThenSpace refuses while the disk is full and recovers, without traffic, by the probe of Run.
func TestDiskFullThenSpace(t *testing.T) {
	disk := &faultyFiles{}
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, disk)
	appendN(t, l, 0, 1)
	disk.set(func(op string) mode {
		switch op {
		case "write":
			return failsHalf
		case "create":
			return failsBefore
		}
		return healthy
	})
	for range 3 {
		if _, err := l.Append(t.Context(), recordtest.Sample(1)); !fault.Is(err, fault.CodeAuditUnavailable) {
			t.Fatalf("append on a full disk: %v", err)
		}
	}
	disk.set(nil)
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
	mustVerify(t, l, l.store.db)
}

// TestHungDevice lets each operation of an append hang in turn: the append returns within the deadline, the next ones are refused at once
// while the device hangs, and go through when it answers.
func TestHungDevice(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "syncdir", "close"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			db := dbtest.SQLite(t)
			disk := &faultyFiles{}
			cfg := testConfig(t.TempDir())
			cfg.SegmentBytes = 1 // every append starts a segment
			l := openTest(t, cfg, db, nil, disk)
			appendN(t, l, 0, 1)
			patience := l.wal.deadline // on a busy machine an honest fsync may take longer than the short deadline below
			l.wal.deadline = 200 * time.Millisecond
			release, entered := hang(disk, op)
			if _, err := l.Append(t.Context(), recordtest.Sample(1)); !errors.Is(err, errSlow) || !fault.Is(err, fault.CodeAuditUnavailable) {
				t.Fatalf("append on a hung device: %v", err)
			}
			<-entered
			waitFor(t, func() bool { return l.Ready() != nil }) // the log's clock for the device began a little after ours
			start := time.Now()
			if _, err := l.Append(t.Context(), recordtest.Sample(2)); !errors.Is(err, errSlow) || time.Since(start) > 150*time.Millisecond {
				t.Errorf("second append: %v after %v, want an immediate refusal", err, time.Since(start))
			}
			close(release)
			waitFor(t, func() bool { return l.Ready() == nil })
			l.wal.deadline = patience
			r := appendN(t, l, 3, 1)[0]
			flush(t, l)
			mustVerify(t, l, db)
			if _, err := l.Get(t.Context(), r.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// hang lets the next operation called op wait until release is closed; entered is closed when it does.
func hang(disk *faultyFiles, op string) (release, entered chan struct{}) {
	release, entered = make(chan struct{}), make(chan struct{})
	var first sync.Once
	disk.set(func(got string) mode {
		if got == op {
			first.Do(func() { close(entered); <-release })
		}
		return healthy
	})
	return release, entered
}

// TestHungDeviceSpools goes to the second device within the deadline, and at once while the first one still hangs.
func TestHungDeviceSpools(t *testing.T) {
	db := dbtest.SQLite(t)
	l, first, _ := openDevices(t, db, func(c *Config) { c.Mode = ModeSpool })
	before := appendN(t, l, 0, 1)
	patience := l.wal.deadline
	l.wal.deadline = 200 * time.Millisecond
	release, _ := hang(first, "sync")
	var spooled []Receipt
	for n := range 3 {
		start := time.Now()
		r, err := l.Append(t.Context(), recordtest.Sample(1+n))
		if err != nil || r.Writer != l.spool.writer {
			t.Fatalf("append %d on a hung device with a spool: %+v, %v", n, r, err)
		}
		if took := time.Since(start); n > 0 && took > 150*time.Millisecond {
			t.Errorf("append %d took %v although the device was known to hang", n, took)
		}
		spooled = append(spooled, r)
	}
	close(release)
	waitFor(t, func() bool { return l.wal.ready() == nil })
	l.wal.deadline = patience
	after := appendN(t, l, 10, 1)
	flush(t, l)
	mustVerify(t, l, db)
	for _, r := range slices.Concat(before, spooled, after) {
		if _, err := l.Get(t.Context(), r.ID); err != nil {
			t.Errorf("record %s: %v", r.ID, err)
		}
	}
}

// TestSlowDisk makes every fsync wait: one serves all that came meanwhile, nobody is refused, and none is written before its turn.
func TestSlowDisk(t *testing.T) {
	disk := &faultyFiles{}
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, disk)
	gate, syncs := make(chan struct{}), make(chan struct{}, 100)
	disk.set(func(op string) mode {
		if op == "sync" {
			syncs <- struct{}{}
			<-gate
		}
		return healthy
	})
	const callers = 50
	acked := make(chan Receipt, callers)
	appendOne := func(n int) {
		r, err := l.Append(context.Background(), recordtest.Sample(n))
		if err != nil {
			t.Errorf("append on a slow disk: %v", err)
		}
		acked <- r
	}
	go appendOne(0)
	<-syncs // the first commit is at the disk
	for n := range callers - 1 {
		go appendOne(1 + n)
	}
	waitFor(t, func() bool { l.wal.mu.Lock(); defer l.wal.mu.Unlock(); return len(l.wal.queue) == callers-1 })
	if len(acked) > 0 {
		t.Error("a record was acknowledged before it was durable")
	}
	gate <- struct{}{}
	<-syncs // the second one carries all the others
	gate <- struct{}{}
	seen := map[uint64]bool{}
	for range callers {
		seen[(<-acked).Seq] = true
	}
	if len(seen) != callers || len(syncs) != 0 {
		t.Errorf("%d sequences for %d records, %d more syncs", len(seen), callers, len(syncs))
	}
	disk.set(nil)
	flush(t, l)
	mustVerify(t, l, l.store.db)
}

// TestBudget keeps room for outcomes when admitted records are refused, and refuses those too at the end.
func TestBudget(t *testing.T) {
	db := dbtest.SQLite(t)
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes, cfg.MaxBytes = 4096, 100_000
	l := openTest(t, cfg, db, nil, diskFiles{})
	e := recordtest.Sample(0)
	e.Stage = StageAdmitted
	for {
		if _, err := l.Append(t.Context(), e); err != nil {
			if !errors.Is(err, errFull) || !fault.Is(err, fault.CodeAuditUnavailable) {
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
	openTest(t, cfg, db, nil, diskFiles{})
	_, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), diskFiles{}, diskFiles{})
	if used := (*InUseError)(nil); !errors.As(err, &used) || used.Dir != cfg.Dir || used.PID != strconv.Itoa(os.Getpid()) {
		t.Fatalf("second open: %v", err)
	}
}

func TestAppendAfterCloseAndCancelledContext(t *testing.T) {
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, diskFiles{})
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
	if _, err := l.Append(t.Context(), recordtest.Sample(0)); !errors.Is(err, errClosed) {
		t.Errorf("append after close: %v", err)
	}
}

// TestTornTail cuts the last write at every byte: what came before survives, and no cut stops the start.
func TestTornTail(t *testing.T) {
	var b []byte
	name := "0123456789abcdef0123456789abcdef-00000001.log"
	b = segmentHeader(name, 1)
	var ends []int
	for seq := range uint64(4) {
		payload, err := record.Encode(recordtest.Sample(int(seq)))
		if err != nil {
			t.Fatal(err)
		}
		b = appendFrame(b, seq+1, payload)
		ends = append(ends, len(b))
	}
	for cut := range len(b) + 1 {
		want := 0
		for _, e := range ends {
			if cut >= e {
				want++
			}
		}
		for _, tail := range [][]byte{nil, make([]byte, 100)} { // cut short, or filled with zeros by the file system
			if tail != nil && slices.Contains(ends, cut) {
				continue
			}
			img := parseSegment(name, slices.Concat(b[:cut], tail))
			if len(img.frames) != want || img.damage == corrupt || img.damage == spoiled && tail == nil {
				t.Fatalf("cut at %d: %d frames, damage %d; want %d", cut, len(img.frames), img.damage, want)
			}
		}
	}
}

// TestDiesBeforeTheHeader leaves a first segment that ends in its header, or in a later one: nothing was acknowledged there, so it is no
// problem, and the next start removes it.
func TestDiesBeforeTheHeader(t *testing.T) {
	db := dbtest.SQLite(t)
	for _, size := range []int64{0, 7, headerSize - 1, headerSize} {
		for _, number := range []int{1, 2} {
			cfg := testConfig(t.TempDir())
			cfg.SegmentBytes = 1
			l := openTest(t, cfg, db, nil, diskFiles{})
			for n := range number {
				appendN(t, l, n, 1)
			}
			flush(t, l) // retires all but the last
			segs := l.wal.snapshot()
			must(t, l.Close())
			must(t, os.WriteFile(segmentPath(walDir(cfg.Dir), segs[0].writer, segs[0].number+1), make([]byte, size), 0o600))
			if number == 1 { // nothing else is there
				must(t, os.Remove(segs[0].path))
			}
			mustVerify(t, l, db)
			again := openTest(t, cfg, db, nil, diskFiles{})
			flush(t, again)
			if left := again.wal.snapshot(); len(left) != 0 {
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
	l := openTest(t, cfg, db, nil, diskFiles{})
	for i := range 3 {
		appendN(t, l, i, 1)
	}
	seg := l.wal.snapshot()[0]
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(seg.path)
	if err != nil {
		t.Fatal(err)
	}
	img := parseSegment(filepath.Base(seg.path), whole)
	end := len(whole) - frameHead - len(img.frames[2].payload)
	for at := 0; at < end; at += 67 {
		b := slices.Clone(whole)
		b[at] ^= 0x20
		if err := os.WriteFile(seg.path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := open(cfg.withDefaults(), db, testKeys(), nil, discard(), newMetrics(nil), diskFiles{}, diskFiles{}); err == nil {
			t.Fatalf("a flipped byte at %d of %d went unnoticed", at, len(whole))
		}
		r, err := Verify(t.Context(), VerifySource{Dir: cfg.Dir, DB: db, VerifierKey: l.VerifierKey()}, nil)
		if err != nil || r.OK || r.Problems[0].Kind != "wal" {
			t.Fatalf("verify: %+v, %v", r, err)
		}
	}
}

func FuzzParseSegment(f *testing.F) {
	name := "0123456789abcdef0123456789abcdef-00000001.log"
	good := appendFrame(appendFrame(segmentHeader(name, 5), 5, []byte(`{}`)), 6, []byte("x"))
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(headerMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		img := parseSegment(name, b)
		if img.end > int64(len(b)) || img.damage == whole && img.end != int64(len(b)) {
			t.Fatalf("%d of %d bytes, damage %d", img.end, len(b), img.damage)
		}
		for i, fr := range img.frames {
			if fr.seq != img.first+uint64(i) {
				t.Fatal("sequence is not contiguous")
			}
		}
	})
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
