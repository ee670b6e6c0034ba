package registry

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const (
	benchRuns   = 60  // traces of each kind
	benchAtOnce = 250 // answers of a shipment: what the audit log ships at once has two records of each
)

// TestTraceTimes measures traces among as many answers as SLUICE_BENCH_ROWS says, of SLUICE_BENCH_DATABASE or both; see make bench-registry. Of ten answers one begins
// with a template of 200 characters, and all have some 55 words. The answers come in two hundred shipments, larger ones than the audit log's, so that
// ten million are there in less than an hour: merges make the same segments of them. It fails if a trace takes 200 ms or more, or does not find its answer.
func TestTraceTimes(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv("SLUICE_BENCH_ROWS"))
	if err != nil || rows < 1000 {
		t.Skip("SLUICE_BENCH_ROWS says how many answers to generate; see make bench-registry")
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		if only := os.Getenv("SLUICE_BENCH_DATABASE"); only != "" && only != kind {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			url := "sqlite:" + filepath.Join(dir, "bench.db")
			if kind == "postgres" {
				url = dbtest.PostgresURL(t)
			}
			db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(url)})
			must(t, err)
			t.Cleanup(func() { _ = database.Close(db) })
			_, err = migrations.Apply(t.Context(), db)
			must(t, err)
			benchTraces(t, db, rows, filepath.Join(dir, "bench.db"))
		})
	}
}

// numbered is the text of an answer, the same for the same number.
func numbered(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	text := words(r, 55)
	if n%10 == 0 {
		text = strings.Repeat("Thank you for asking. Here is what we have found for you in our papers. ", 3) + text
	}
	return text
}

func benchTraces(t *testing.T, db *gorm.DB, rows int, file string) {
	s := open(t, db)
	begin := time.Now()
	var merging time.Duration
	atOnce := max(benchAtOnce, rows/200)
	for n := 0; n < rows; n += atOnce {
		marks := make([]Mark, 0, atOnce)
		for i := n; i < min(n+atOnce, rows); i++ {
			marks = append(marks, mark(t, s, "acme", i, numbered(i)))
		}
		keep(t, s, marks...)
		if n/atOnce%fanIn == 0 {
			at := time.Now()
			must(t, s.Merge(t.Context()))
			merging += time.Since(at)
		}
	}
	took := time.Since(begin)
	size := int64(0)
	if info, err := os.Stat(file); err == nil {
		size = info.Size()
	} else {
		must(t, db.Raw("SELECT pg_database_size(current_database())").Scan(&size).Error)
	}
	var segs, prints int64
	must(t, db.Model(&segmentRow{}).Where("state = ?", live).Count(&segs).Error)
	must(t, db.Model(&segmentRow{}).Where("state = ?", live).Select("SUM(prints)").Scan(&prints).Error)
	fmt.Printf("\n%s: %d answers, %d fingerprints in %d segments, %.0f bytes an answer in the database, written at %.0f answers/s, %.0f %% of it merging\n\n| text | processor, ms | p50, ms | p95, ms | slowest of %d |\n|---|---|---|---|---|\n",
		db.Name(), rows, prints, segs, float64(size)/float64(rows), float64(rows)/took.Seconds(), 100*merging.Seconds()/took.Seconds(), benchRuns)
	r := rand.New(rand.NewPCG(11, 11))
	for _, kind := range []string{"whole answer", "40 characters", "one word in ten changed", "read off a picture", "twenty answers in one text", "template alone", "no answer"} {
		times := make([]time.Duration, 0, benchRuns)
		before := processorTime(t)
		for range benchRuns {
			n := r.IntN(rows)
			text := numbered(n)
			switch kind {
			case "40 characters":
				from := len(text) - 60 - r.IntN(100)
				text = text[from : from+60]
			case "one word in ten changed":
				parts := strings.Split(text, " ")
				for i := 5; i < len(parts); i += 10 {
					parts[i] = "changed"
				}
				text = strings.Join(parts, " ")
			case "read off a picture": // other spaces and line breaks, letters that look alike, and one character in forty wrong
				read := []byte(strings.NewReplacer("o", "0", "l", "1", " t", "\nt", "e ", "e  ").Replace(text))
				for i := 20; i < len(read); i += 40 {
					read[i] = 'x'
				}
				text = string(read)
			case "twenty answers in one text":
				for i := range 19 {
					text += " " + numbered((n+i)%rows)
				}
			case "template alone":
				text = numbered(0)[:200]
			case "no answer":
				text = words(r, 55)
			}
			start := time.Now()
			got := traced(t, s, "acme", text)
			times = append(times, time.Since(start))
			want := fmt.Sprintf("request-%d", n)
			switch kind {
			case "no answer":
				if len(got.Matches) > 0 {
					t.Errorf("%+v", got)
				}
			case "template alone":
				if !got.More {
					t.Errorf("%+v", got)
				}
			case "twenty answers in one text":
			default:
				if len(got.Matches) == 0 || got.Matches[0].Request != want {
					t.Errorf("%s of %s: %+v", kind, want, got)
				}
			}
		}
		slices.Sort(times)
		worst := times[len(times)-1]
		fmt.Printf("| %s | %.1f | %.1f | %.1f | %.1f |\n", kind, float64((processorTime(t)-before).Microseconds())/1000/benchRuns, float64(times[len(times)/2].Microseconds())/1000, float64(times[len(times)*95/100].Microseconds())/1000, float64(worst.Microseconds())/1000)
		if worst >= 200*time.Millisecond {
			t.Errorf("%s: %s", kind, worst)
		}
	}
}

// processorTime is what this process has used: on a busy machine it says more than the clock does.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkKeep measures what a shipment of answers costs in the database.
func BenchmarkKeep(b *testing.B) {
	s := open(b, dbtest.SQLite(b))
	marks := make([]Mark, benchAtOnce)
	for i := range marks {
		marks[i] = mark(b, s, "acme", i, numbered(i))
	}
	for b.Loop() {
		keep(b, s, marks...)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/benchAtOnce, "µs/answer")
}
