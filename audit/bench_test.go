package audit

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// BenchmarkAppend measures durable appends, fsync included, by the number of callers that wait at once, while nothing ships.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			cfg := testConfig(b.TempDir())
			cfg.SegmentBytes, cfg.MaxBytes = 16<<20, 8<<30
			l := openTest(b, cfg, dbtest.SQLite(b), nil, durable.OS{})
			waits := make([]time.Duration, b.N)
			var next atomic.Int64
			var all sync.WaitGroup
			b.ResetTimer()
			for range callers {
				all.Go(func() {
					for {
						n := int(next.Add(1)) - 1
						if n >= b.N {
							return
						}
						start := time.Now()
						if _, err := l.Append(b.Context(), recordtest.Sample(n)); err != nil {
							b.Error(err)
							return
						}
						waits[n] = time.Since(start)
					}
				})
			}
			all.Wait()
			b.StopTimer()
			slices.Sort(waits)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(waits[b.N/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(waits[b.N*99/100].Microseconds()), "p99-µs")
			size := int64(0)
			for _, s := range l.wal.Segments() {
				size += s.Size
			}
			b.ReportMetric(float64(size)/float64(b.N), "bytes/record")
		})
	}
}

// BenchmarkShipAndSeal measures moving records into the database and the tree; BenchmarkVerify walks them again.
func BenchmarkShipAndSeal(b *testing.B) {
	l := openTest(b, testConfig(b.TempDir()), dbtest.SQLite(b), nil, durable.OS{})
	for b.Loop() {
		b.StopTimer()
		appendN(b, l, 0, 1000)
		b.StartTimer()
		flush(b, l)
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkVerify(b *testing.B) {
	db := dbtest.SQLite(b)
	l := openTest(b, testConfig(b.TempDir()), db, nil, durable.OS{})
	appendN(b, l, 0, 5000)
	flush(b, l)
	for b.Loop() {
		mustVerify(b, l, db)
	}
	b.ReportMetric(5000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
