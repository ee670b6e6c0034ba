package audit

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
)

// crashChild, when set, makes the test binary the process that gets killed: it names directory and database.
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

// crashRun appends from many goroutines, ships and seals, and prints the id of each record that was acknowledged.
func crashRun(spec string) error {
	dir, path, _ := strings.Cut(spec, "|")
	db, err := database.Open(context.Background(), database.Config{URL: keyring.Secret("sqlite:" + path)})
	if err != nil {
		return err
	}
	cfg := testConfig(dir).withDefaults()
	cfg.ShipEvery, cfg.CheckpointEvery = time.Millisecond, 3*time.Millisecond
	cfg.SegmentBytes = 8 << 10
	l, err := open(cfg, db, testKeys(), countingSink, discard(), newMetrics(nil), diskFiles{}, diskFiles{})
	if err != nil {
		return err
	}
	var out sync.Mutex
	for w := range 8 {
		go func() {
			for n := 0; ; n++ {
				r, err := l.Append(context.Background(), recordtest.Sample(w*1_000_000+n))
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

// countingSink writes a row of its own in the shipping transaction, as billing does; installation_settings serves as its table.
// The primary key turns a second call for one event into an error.
func countingSink(tx *gorm.DB, e Event) error {
	return tx.Exec("INSERT INTO installation_settings (name, value) VALUES (?, ?)", e.ID, e.Request).Error
}

// TestKillAtRandomMoments is the promise of the package: every acknowledged record is there exactly once, with its usage, and the
// log verifies, wherever the process dies. The same directory and database go through all rounds.
func TestKillAtRandomMoments(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	dir, path := t.TempDir(), t.TempDir()+"/a.db"
	db := openMigrated(t, path)
	acked := map[string]bool{}
	for range rounds {
		for _, id := range killOnce(t, dir, path) {
			acked[id] = true
		}
		r, err := Verify(t.Context(), VerifySource{Dir: dir, DB: db, VerifierKey: verifierKey(t)}, nil)
		if err != nil || !r.OK {
			t.Fatalf("verify after the kill: %+v, %v", r, err)
		}
	}
	l := openTest(t, testConfig(dir), db, countingSink, diskFiles{})
	flush(t, l)
	mustVerify(t, l, db)
	stored := map[string]int{}
	for _, id := range searchIDs(t, l, Query{Limit: 500}) {
		stored[id]++
	}
	var booked int64
	if err := db.Table("installation_settings").Count(&booked).Error; err != nil {
		t.Fatal(err)
	}
	if len(acked) < rounds || booked != int64(len(stored)) {
		t.Errorf("%d acknowledged, %d stored, %d booked", len(acked), len(stored), booked)
	}
	for id := range acked {
		if stored[id] != 1 {
			t.Errorf("acknowledged record %s is stored %d times", id, stored[id])
		}
	}
	t.Logf("%d rounds, %d acknowledged, %d stored", rounds, len(acked), len(stored))
}

// killOnce runs the child, kills it after a random number of acknowledgements, and returns the acknowledged ids.
func killOnce(t *testing.T, dir, path string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+dir+"|"+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []string
	stop := 1 + rand.IntN(100)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		ids = append(ids, lines.Text())
		if len(ids) == stop {
			_ = cmd.Process.Kill() // what it printed meanwhile counts too
		}
	}
	_ = cmd.Wait()
	if len(ids) < stop {
		t.Fatalf("the child ended by itself: %s", stderr.String())
	}
	if last := ids[len(ids)-1]; len(last) != 36 {
		ids = ids[:len(ids)-1] // cut in the middle of the line
	}
	return ids
}

func verifierKey(t testing.TB) string {
	t.Helper()
	key, err := VerifierKey(Config{}, testKeys())
	if err != nil {
		t.Fatal(err)
	}
	return key
}
