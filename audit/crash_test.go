package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// crashChild, when set, makes the test binary the process that gets killed: it holds a crash as JSON.
const crashChild = "SLUICE_AUDIT_CRASH_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(crashChild); spec != "" {
		if err := crashRun(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// crash is one life of the process and its end.
type crash struct {
	Dir, Spool, URL string
	Round           int
	Rotate          bool // segments are so small that a commit or two fills one
	Slow            bool // the database takes its time
	Acks            int  // the parent kills after so many acknowledgements, if the process still lives
	// The process kills itself at the At-th operation whose name contains Op: before it, in the middle of it or after it.
	Op   string
	At   int
	Mode durabletest.Mode
}

func (c crash) String() string {
	return fmt.Sprintf("round %d: op %q at %d mode %d, after %d, rotate %v, slow %v", c.Round, c.Op, c.At, c.Mode, c.Acks, c.Rotate, c.Slow)
}

// crashPoints are operations of appending and rotating, of shipping, of sealing, and of pinning and retiring.
var crashPoints = []string{
	"create", "write", "sync", "syncdir",
	"begin", "commit", "INTO audit_events", "INTO audit_contents", "INTO audit_subject_keys", "INTO installation_settings",
	"INTO audit_leaves", "INTO audit_hashes", "INTO audit_checkpoints", "audit_writers",
	"open", "rename", "remove",
}

// randomCrash is the crash of a round: half of them at any moment under load, half at a point where something is half done.
func randomCrash(r *rand.Rand) crash {
	c := crash{Acks: 1 + r.IntN(80), Rotate: r.IntN(2) == 0, Slow: r.IntN(4) == 0}
	if r.IntN(2) == 0 {
		c.Op, c.At, c.Acks = crashPoints[r.IntN(len(crashPoints))], 1+r.IntN(4), 300
		switch c.Mode = []durabletest.Mode{durabletest.Healthy, durabletest.DiesAfter, durabletest.DiesHalf}[r.IntN(3)]; { // healthy: it dies before
		case c.Op == "begin":
			c.Mode = durabletest.Healthy
		case c.Op != "write" && c.Mode == durabletest.DiesHalf:
			c.Mode = durabletest.DiesAfter
		}
	}
	return c
}

// plan dies at the chosen operation. It serves the files and the database alike.
func (c crash) plan(slow bool) func(string) durabletest.Mode {
	var mu sync.Mutex
	return func(op string) durabletest.Mode {
		if slow {
			time.Sleep(time.Duration(rand.IntN(15)) * time.Millisecond) // the fault itself: a database that is slow
		}
		if c.Op == "" || !strings.Contains(strings.ReplaceAll(op, `"`, ""), c.Op) && !strings.Contains(strings.ReplaceAll(op, "`", ""), c.Op) {
			return durabletest.Healthy
		}
		mu.Lock()
		defer mu.Unlock()
		if c.At--; c.At != 0 {
			return durabletest.Healthy
		}
		if c.Mode == durabletest.Healthy {
			dbtest.Die()
		}
		return c.Mode
	}
}

// crashConfig is the configuration of the process that is killed. With a spool, every third write to the first disk fails.
func (c crash) config() Config {
	cfg := testConfig(c.Dir)
	cfg.ShipEvery, cfg.CheckpointEvery = time.Millisecond, 3*time.Millisecond
	if c.Rotate {
		cfg.SegmentBytes = 3000
	}
	if c.Spool != "" {
		cfg.SpoolDir, cfg.Mode = c.Spool, ModeSpool
	}
	return cfg.withDefaults()
}

// crashRun appends from many goroutines, ships and seals, and prints the id of each record that was acknowledged.
func crashRun(spec string) error {
	var c crash
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		return err
	}
	db, err := database.Open(context.Background(), database.Config{URL: keyring.Inline(c.URL), MaxConnections: 4})
	if err != nil {
		return err
	}
	plan := c.plan(false)
	disk, spool, faulty := &durabletest.Files{Plan: plan}, &durabletest.Files{Plan: plan}, &dbtest.Faults{}
	faulty.Set(c.plan(c.Slow))
	started := atomic.Bool{} // a start on a disk that fails is refused, and tested elsewhere
	if c.Spool != "" {
		disk.Plan = func(op string) durabletest.Mode {
			if (op == "write" || op == "sync") && started.Load() && rand.IntN(3) == 0 {
				return []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter, durabletest.FailsHalf}[rand.IntN(3)]
			}
			return plan(op)
		}
	}
	l, err := open(c.config(), faulty.Over(db), testKeys(), countingSink, discard(), newMetrics(nil), disk, spool)
	if err != nil {
		return err
	}
	started.Store(true)
	l.cache.Files = &durabletest.Files{Plan: plan}
	l.now = c.clock()
	var out sync.Mutex
	for w := range 8 {
		go func() {
			for n := 0; ; n++ {
				r, err := crashAppend(l, w*1_000_000+n)
				if err != nil && c.Spool != "" {
					continue // both disks failed
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Println(r.ID)
				out.Unlock()
			}
		}()
	}
	return l.Run(context.Background())
}

// clock is so much later in each round that the lease of the process that was killed has run out.
func (c crash) clock() func() time.Time {
	return func() time.Time { return time.Now().Add(time.Duration(c.Round) * (store.LeaseFor + time.Second)) }
}

// crashAppend appends a record; every other one keeps a prompt.
func crashAppend(l *Log, n int) (Receipt, error) {
	e := recordtest.Sample(n)
	e.Time = 0
	if n%2 == 0 {
		return l.Append(context.Background(), e)
	}
	subject := l.Subject(e.Tenant, fmt.Sprintf("person-%d", n%5))
	return l.AppendWith(context.Background(), e, subject, Text{Direction: "request", Form: "masked", Text: crashText(e)})
}

func crashText(e Event) string { return "the prompt of " + e.Request }

// countingSink writes a row for each event.
func countingSink(tx *gorm.DB, events []Event) error { return eachEvent(countEvent)(tx, events) }

// eachEvent is a sink that takes the events one after the other.
func eachEvent(do func(*gorm.DB, Event) error) Sink {
	return func(tx *gorm.DB, events []Event) error {
		for _, e := range events {
			if err := do(tx, e); err != nil {
				return err
			}
		}
		return nil
	}
}

// countEvent writes a row of its own in the shipping transaction, as billing does; installation_settings serves as its table.
// The primary key turns a second call for one event into an error.
func countEvent(tx *gorm.DB, e Event) error {
	return tx.Exec("INSERT INTO installation_settings (name, value) VALUES (?, ?)", e.ID, e.Request).Error
}

// countedBooks compares what countEvent wrote. It implements verify.Books.
type countedBooks struct{}

func (countedBooks) Differences(db *gorm.DB, events []Event) (map[string]string, error) {
	out := map[string]string{}
	for part := range slices.Chunk(events, 200) {
		var ids, there []string
		for _, e := range part {
			ids = append(ids, e.ID)
		}
		if err := db.Table("installation_settings").Where("name IN ?", ids).Pluck("name", &there).Error; err != nil {
			return nil, err
		}
		for _, id := range ids {
			if !slices.Contains(there, id) {
				out[id] = "not billed"
			}
		}
	}
	return out, nil
}

func (countedBooks) Surplus(db *gorm.DB, _ int64, limit int) ([]string, error) {
	var out []string
	err := db.Raw("SELECT value FROM installation_settings AS u WHERE u.name <> 'sla_counted_since' AND NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.id = u.name) LIMIT ?", limit).Scan(&out).Error
	return out, err
}

// roundsPerSite is how often one directory and one database are crashed: often enough for what one crash leaves to meet the next, and few
// enough for a full verification, with the books, after every single round.
const roundsPerSite = 25

// TestKillAtRandomMoments is the promise of the package: every acknowledged record is there exactly once, with its usage and the text
// it keeps, and the log verifies, wherever the process dies: under load, during rotation, shipping, sealing, pinning and retiring,
// while the database is slow, and with a spool beside a disk that fails. 100 rounds, or 1,000 with SLUICE_TEST_LONG, half on each
// database; each round is verified in full.
func TestKillAtRandomMoments(t *testing.T) {
	sites, rounds := 4, roundsPerSite
	switch {
	case testing.Short():
		rounds = 2
	case os.Getenv("SLUICE_TEST_LONG") != "":
		sites = 40
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for n := range sites {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		spool := n/2%2 == 1
		name := []string{"sqlite", "postgres"}[n%2]
		t.Run(fmt.Sprintf("%s %d spool %v", name, n, spool), func(t *testing.T) {
			t.Parallel()
			var url string
			if name == "sqlite" {
				url = "sqlite:" + t.TempDir() + "/a.db"
			} else {
				url = dbtest.PostgresURL(t)
			}
			site := crash{Dir: t.TempDir(), URL: url}
			if spool {
				site.Spool = t.TempDir()
			}
			killAndVerify(t, site, rounds, random)
		})
	}
}

// killAndVerify puts one directory and one database through all rounds.
func killAndVerify(t *testing.T, site crash, rounds int, random *rand.Rand) {
	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline(site.URL), MaxConnections: 4})
	must(t, err)
	t.Cleanup(func() { _ = database.Close(db) })
	if _, err := migrations.Apply(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	acked, points := map[string]bool{}, map[string]int{}
	source := verify.Source{Dir: site.Dir, SpoolDir: site.Spool, DB: db, VerifierKey: verifierKey(t), Books: countedBooks{}}
	for round := range rounds {
		c := randomCrash(random)
		c.Dir, c.Spool, c.URL, c.Round = site.Dir, site.Spool, site.URL, round
		ids, itself := killOnce(t, c)
		if itself {
			points[c.Op]++
		}
		for _, id := range ids {
			if acked[id] {
				t.Fatalf("%v: id %s was given twice", c, id)
			}
			acked[id] = true
		}
		if r, err := verify.Run(t.Context(), source, nil); err != nil || !r.OK {
			t.Fatalf("verify after %v: %+v, %v", c, r, err)
		}
	}
	site.Round = rounds
	checkSite(t, site, db, acked)
	if r, err := verify.Run(t.Context(), source, nil); err != nil || !r.OK || r.Unsealed > 0 {
		t.Errorf("verify at the end: %+v, %v", r, err)
	}
	if len(acked) < rounds {
		t.Errorf("only %d records were acknowledged in %d rounds: the test proves nothing", len(acked), rounds)
	}
	t.Logf("%d rounds, %d records acknowledged; dead at chosen points: %v", rounds, len(acked), points)
}

// checkSite starts the log once more and compares what was acknowledged with what is stored, billed and kept.
func checkSite(t *testing.T, site crash, db *gorm.DB, acked map[string]bool) {
	l, err := open(site.config(), db, testKeys(), countingSink, discard(), newMetrics(nil), durable.OS{}, durable.OS{})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	l.now = site.clock()
	flush(t, l)
	stored, texts := map[string]int{}, 0
	for q := (search.Query{Limit: 500}); ; {
		p, err := l.Search(t.Context(), q)
		must(t, err)
		for _, e := range p.Events {
			stored[e.ID]++
			if len(e.Contents) == 0 {
				continue
			}
			kept, err := l.Contents(t.Context(), e.ID)
			if err != nil || len(kept) != 1 || kept[0].Text != crashText(e.Event) {
				t.Errorf("record %s keeps %+v, %v", e.ID, kept, err)
			}
			texts++
		}
		if q.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	if billed := count(t, db, "installation_settings"); billed != int64(len(stored)) || texts == 0 {
		t.Errorf("%d acknowledged, %d stored, %d billed, %d with a text", len(acked), len(stored), billed, texts)
	}
	for id := range acked {
		if stored[id] != 1 {
			t.Errorf("acknowledged record %s is stored %d times", id, stored[id])
		}
	}
}

// killOnce runs the process to its end, and returns the ids that it acknowledged and whether it died where it was told to.
func killOnce(t *testing.T, c crash) (ids []string, itself bool) {
	t.Helper()
	spec, err := json.Marshal(c)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+string(spec))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	killed := false
	for lines := bufio.NewReader(stdout); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // a line without its end was cut, and nobody read it
			break
		}
		ids = append(ids, strings.TrimSuffix(line, "\n"))
		if len(ids) == c.Acks {
			killed = true
			_ = cmd.Process.Kill() // what it printed meanwhile counts too
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v: the process ended by itself: %v: %s", c, err, stderr.String())
	}
	if ctx.Err() != nil {
		t.Fatalf("%v: the process hung: %s", c, stderr.String())
	}
	return ids, !killed
}

func verifierKey(t testing.TB) string {
	t.Helper()
	key, err := VerifierKey(Config{}, testKeys())
	if err != nil {
		t.Fatal(err)
	}
	return key
}
