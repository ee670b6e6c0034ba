package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/engine/enginebench"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/governance/registry/fingerprint"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations"
)

// benchAudit measures the audit log: appends that are on the disk when they return, beside what the disk itself does in the same rounds;
// then moving them into SQLite and sealing, verifying all of it again, and writing and verifying an evidence bundle of it.
func benchAudit(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("audit", flag.ContinueOnError)
	rounds := f.Int("rounds", 5, "rounds, alternating")
	length := f.Duration("length", 2*time.Second, "length of one measurement")
	dir := f.String("dir", "", "directory on the disk to measure; empty: the system's for temporary files")
	if err := f.Parse(args); err != nil {
		return err
	}
	m := enginebench.ThisMachine()
	fmt.Printf("machine: %s, %d CPUs, %s\n", m.CPU, m.Processors, m.Go)
	tmp, err := os.MkdirTemp(*dir, "sluice-bench-audit-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	fmt.Printf("directory: %s\n\n", tmp)
	if err := benchAppends(ctx, tmp, *rounds, *length); err != nil {
		return err
	}
	return benchSealing(ctx, tmp, *rounds)
}

// appendTrack is what the rounds gave for one number of callers.
type appendTrack struct{ rate, p50, p99, waits []float64 }

func benchAppends(ctx context.Context, dir string, rounds int, length time.Duration) error {
	l, _, closeLog, err := openBenchLog(ctx, filepath.Join(dir, "append"))
	if err != nil {
		return err
	}
	defer closeLog()
	callers := []int{1, 16, 64, 256}
	tracks := make([]appendTrack, len(callers))
	var syncs, interval []float64
	for range rounds {
		one, err := syncRate(ctx, filepath.Join(dir, "raw"), 1000, length/2)
		if err != nil {
			return err
		}
		syncs, interval = append(syncs, float64(time.Second)/float64(one)), append(interval, ms(one))
		for i, n := range callers {
			waits, took, err := appendFor(ctx, l, n, length)
			if err != nil {
				return err
			}
			t := &tracks[i]
			t.rate = append(t.rate, float64(len(waits))/took.Seconds())
			t.p50, t.p99 = append(t.p50, ms(waits[len(waits)/2])), append(t.p99, ms(waits[len(waits)*99/100]))
			t.waits = append(t.waits, ms(waits[len(waits)/2])/ms(one))
		}
	}
	fmt.Printf("the disk alone, one record written and synced after the other: %v per second, %v ms each\n\n", enginebench.SpreadOf(syncs), enginebench.SpreadOf(interval))
	fmt.Println("| callers | durable records/s | p50, ms | p99, ms | p50 ÷ one write and sync of the disk alone |\n|---|---|---|---|---|")
	for i, n := range callers {
		t := tracks[i]
		fmt.Printf("| %d | %v | %v | %v | %v |\n", n, enginebench.SpreadOf(t.rate), enginebench.SpreadOf(t.p50), enginebench.SpreadOf(t.p99), enginebench.SpreadOf(t.waits))
	}
	return nil
}

// appendFor has so many callers append for a while and returns how long each append took, sorted.
func appendFor(ctx context.Context, l *benchLog, callers int, length time.Duration) ([]time.Duration, time.Duration, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []time.Duration
	var trouble error
	var n atomic.Int64
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			var own []time.Duration
			var err error
			for time.Since(begin) < length && err == nil {
				start := time.Now()
				err = l.add(ctx, int(n.Add(1)))
				own = append(own, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all, trouble = append(all, own...), errors.Join(trouble, err)
		})
	}
	wg.Wait()
	took := time.Since(begin)
	slices.Sort(all)
	return all, took, trouble
}

// syncRate is how long the disk takes to write and sync one record.
func syncRate(ctx context.Context, path string, size int, length time.Duration) (time.Duration, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	b := []byte(strings.Repeat("x", size))
	begin, n := time.Now(), 0
	for time.Since(begin) < length && ctx.Err() == nil {
		if _, err := f.Write(b); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		n++
	}
	return time.Since(begin) / time.Duration(max(n, 1)), ctx.Err()
}

const sealedAtOnce = 10_000

func benchSealing(ctx context.Context, dir string, rounds int) error {
	dir = filepath.Join(dir, "seal")
	l, db, closeLog, err := openBenchLog(ctx, dir)
	if err != nil {
		return err
	}
	defer closeLog()
	var seal, verified, write, check, packed []float64
	records := 0
	for range rounds {
		var wg sync.WaitGroup
		var failed atomic.Pointer[error]
		for i := range 64 {
			wg.Go(func() {
				for n := i; n < sealedAtOnce; n += 64 {
					if err := l.add(ctx, records+n); err != nil {
						failed.Store(&err)
						return
					}
				}
			})
		}
		wg.Wait()
		if err := failed.Load(); err != nil {
			return *err
		}
		records += sealedAtOnce
		begin := time.Now()
		if err := l.Flush(ctx); err != nil {
			return err
		}
		seal = append(seal, sealedAtOnce/time.Since(begin).Seconds())
		begin = time.Now()
		r, err := verify.Run(ctx, verify.Source{Dir: filepath.Join(dir, "audit"), DB: db, VerifierKey: l.VerifierKey()}, nil)
		if err != nil {
			return err
		}
		if !r.OK {
			return fmt.Errorf("the log does not verify: %+v", r.Problems)
		}
		verified = append(verified, float64(r.Records)/time.Since(begin).Seconds())
		b, err := benchBundle(ctx, l.Log, filepath.Join(dir, "bundle.zip"))
		if err != nil {
			return err
		}
		write, check, packed = append(write, b.write), append(check, b.verify), append(packed, b.bytes)
	}
	payload, err := sizeOf(ctx, db)
	if err != nil {
		return err
	}
	var size int64
	for _, name := range []string{"audit.db", "audit.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			size += info.Size()
		}
	}
	fmt.Printf("\nmoved into SQLite and sealed: %v records/s; verified: %v records/s\n", enginebench.SpreadOf(seal), enginebench.SpreadOf(verified))
	fmt.Printf("evidence bundle: written %v records/s, verified with the public key alone %v records/s, %v bytes per record\n",
		enginebench.SpreadOf(write), enginebench.SpreadOf(check), enginebench.SpreadOf(packed))
	fmt.Printf("bytes per record: %.0f as a canonical payload, %.0f in the database with indexes and tree\n", payload, float64(size)/float64(records))
	return nil
}

// bundleFigures are records a second, and bytes of the zip per record.
type bundleFigures struct{ write, verify, bytes float64 }

// benchBundle exports everything and verifies it as its reader will.
func benchBundle(ctx context.Context, l *audit.Log, path string) (bundleFigures, error) {
	f, err := os.Create(path)
	if err != nil {
		return bundleFigures{}, err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(path)) }()
	begin := time.Now()
	m, err := l.Export(ctx, f, export.Selection{By: "bench"})
	if err != nil {
		return bundleFigures{}, err
	}
	wrote := time.Since(begin)
	info, err := f.Stat()
	if err != nil {
		return bundleFigures{}, err
	}
	keys, err := checkpoint.NewVerifier(l.VerifierKey())
	if err != nil {
		return bundleFigures{}, err
	}
	begin = time.Now()
	r, err := evidence.VerifyBundle(ctx, f, info.Size(), keys, checkpoint.Witnesses{}, nil)
	if err != nil {
		return bundleFigures{}, err
	}
	if !r.OK {
		return bundleFigures{}, fmt.Errorf("the bundle does not verify: %+v", r.Problems)
	}
	n := float64(m.Records)
	return bundleFigures{n / wrote.Seconds(), n / time.Since(begin).Seconds(), float64(info.Size()) / n}, nil
}

func sizeOf(ctx context.Context, db *gorm.DB) (float64, error) {
	var mean float64
	err := db.WithContext(ctx).Raw("SELECT AVG(LENGTH(payload)) FROM audit_events").Scan(&mean).Error
	return mean, err
}

func openBenchLog(ctx context.Context, dir string) (*benchLog, *gorm.DB, func(), error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, nil, err
	}
	db, err := database.Open(ctx, database.Config{URL: keyring.Inline("sqlite:" + filepath.Join(dir, "audit.db"))})
	if err != nil {
		return nil, nil, nil, err
	}
	if _, err := migrations.Apply(ctx, db); err != nil {
		return nil, nil, nil, errors.Join(err, database.Close(db))
	}
	l, err := newBenchLog(ctx, audit.Config{Dir: filepath.Join(dir, "audit"), MaxBytes: 8 << 30}, db)
	if err != nil {
		return nil, nil, nil, errors.Join(err, database.Close(db))
	}
	return l, db, func() { _ = errors.Join(l.Close(), database.Close(db)) }, nil //nolint:contextcheck // closing goes on when the context has ended
}

// benchLog is a log that keeps the fingerprints of answers with every second record, as the outcomes of requests do.
type benchLog struct {
	*audit.Log
	key *fingerprint.Key
}

func newBenchLog(ctx context.Context, cfg audit.Config, db *gorm.DB) (*benchLog, error) {
	keys, log := keyring.FromBytes(make([]byte, 32)), slog.New(slog.DiscardHandler)
	answers, err := registry.New(registry.Config{DB: db, Keys: keys, Suite: seal.Intl, Log: log})
	if err != nil {
		return nil, err
	}
	key, err := answers.Key(ctx, recordtest.Sample(1).Tenant)
	if err != nil {
		return nil, err
	}
	cfg.Beside = benchAnswers{answers}
	l, err := audit.Open(cfg, db, keys, nil, log, nil)
	return &benchLog{l, key}, err
}

// add appends a record; with every second one the fingerprints of an answer of some 1,200 characters.
func (l *benchLog) add(ctx context.Context, n int) error {
	var kept []audit.Text
	if n%2 == 1 {
		r := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // no secret
		a := registry.NewAnswers(l.key, "")
		for range 200 {
			a.Text(0, strconv.FormatUint(r.Uint64N(1<<25), 36)+" ")
		}
		kept = []audit.Text{{Direction: audit.DirectionMark, Text: string(a.Data())}}
	}
	_, err := l.AppendWith(ctx, recordtest.Sample(n), "", kept...)
	return err
}

// benchAnswers keeps the fingerprints.
type benchAnswers struct{ *registry.Service }

// Keep implements store.Beside.
func (b benchAnswers) Keep(tx *gorm.DB, marks []store.Mark) error {
	all := make([]registry.Mark, len(marks))
	for i, m := range marks {
		all[i] = registry.Mark{Tenant: m.Tenant, Record: m.Record, Request: m.Request, Subject: m.Subject, Time: m.Time, Data: m.Data}
	}
	return b.Service.Keep(tx, all)
}

// Drop implements store.Beside.
func (benchAnswers) Drop(tx *gorm.DB, records []string) error { return registry.Drop(tx, records) }
