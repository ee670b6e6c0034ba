package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// grown is a log with records that are past their time, 400 days old and a second apart, and what some of them are.
type grown struct {
	t         *testing.T
	db        *gorm.DB
	l         *Log
	ids       []string // by position
	sensitive []int64  // positions
	others    []int64  // of the tenant "other"
}

func newGrown(t *testing.T, db *gorm.DB, n int) *grown {
	t.Helper()
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes = 1 << 20
	cfg.Retention.ArchiveDir = filepath.Join(t.TempDir(), "archive")
	return growOn(t, openTest(t, cfg, db, nil, durable.OS{}), db, n)
}

func growOn(t *testing.T, l *Log, db *gorm.DB, n int) *grown {
	g := &grown{t: t, db: db, l: l}
	g.old(n)
	return g
}

// old appends n records and seals them. Every fiftieth is sensitive, every fortieth of another tenant.
func (g *grown) old(n int) {
	g.t.Helper()
	from := len(g.ids)
	for i := from; i < from+n; i++ {
		e := recordtest.Sample(i)
		e.Time = time.Now().Add(-400*retention.Day + time.Duration(i)*time.Second).UnixMicro()
		e.Source = fmt.Sprintf("10.1.%d.%d", i/250, i%250)
		if i%50 == 7 {
			e.Model.Engine, e.Findings[0].Action = "cloud", "passed"
			g.sensitive = append(g.sensitive, int64(i))
		}
		if i%40 == 9 {
			e.Tenant = "other"
			g.others = append(g.others, int64(i))
		}
		r, err := g.l.Append(context.Background(), e)
		if err != nil {
			g.t.Fatal(err)
		}
		g.ids = append(g.ids, r.ID)
	}
	flush(g.t, g.l)
}

func (g *grown) verify() verify.Report {
	g.t.Helper()
	r, err := verify.Run(context.Background(), verify.Source{Dir: g.l.cfg.Dir, DB: g.db, VerifierKey: g.l.VerifierKey(), ArchiveDir: g.l.cfg.Retention.ArchiveDir}, nil)
	must(g.t, err)
	return r
}

func (g *grown) mustVerify() verify.Report {
	g.t.Helper()
	r := g.verify()
	if !r.OK {
		g.t.Fatalf("verify: %+v", r.Problems)
	}
	return r
}

func (g *grown) prune() []Pruning {
	g.t.Helper()
	g.summed()
	done, err := g.l.Prune(context.Background(), "tester")
	must(g.t, err)
	g.summed()
	return done
}

// summed compares the sums that are kept of a rollout with the records that are there, before and after if some come meanwhile.
func (g *grown) summed() {
	g.t.Helper()
	there := func() int64 {
		return count(g.t, g.db, "(SELECT DISTINCT request FROM audit_events WHERE rollout = 'ro-1' AND arm = 'stable' AND stage = 'outcome') AS r")
	}
	least := there()
	sums, err := g.l.ArmSums(context.Background(), "ro-1", "stable", 1)
	must(g.t, err)
	if got, most := int64(sums.Failures.N), there(); got < least || got > most {
		g.t.Errorf("the sums are of %d requests, %d to %d are there", got, least, most)
	}
}

// TestPrune prunes a prefix around records of a longer class and a hold: what goes is in an archive that proves itself, what stays is found
// as before, old proofs hold against new checkpoints, and everything verifies at each step.
func TestPrune(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 600)
		l, ctx := g.l, t.Context()
		appendN(t, l, 2000, 3)
		fresh := recordtest.Sample(3000)
		fresh.Time = 0
		if _, err := l.Append(ctx, fresh); err != nil {
			t.Fatal(err)
		}
		flush(t, l)
		proof, err := l.Prove(ctx, g.ids[3])
		must(t, err)
		hold, err := l.Hold(ctx, retention.Hold{Tenant: "other", Reason: "court order 17", CreatedBy: "officer"})
		must(t, err)
		copied := filepath.Join(t.TempDir(), "copy")
		must(t, os.CopyFS(copied, os.DirFS(l.cfg.Dir)))

		keep := len(g.sensitive) + len(g.others) // below 512
		for _, list := range [][]int64{g.sensitive, g.others} {
			for _, i := range list {
				if i >= 512 {
					keep--
				}
			}
		}
		due, err := l.Due(ctx)
		if err != nil || due.First != 0 || due.Until != 512 || due.Kept != int64(keep) {
			t.Fatalf("due %+v, %v, want %d kept", due, err, keep)
		}
		done := g.prune()
		if len(done) != 1 || done[0].Until != 512 || done[0].Kept != int64(keep) {
			t.Fatalf("%+v", done)
		}
		if n := count(t, db, "audit_events"); n != 600+4+1-512+int64(keep) {
			t.Errorf("%d records are left", n)
		}
		if n := count(t, db, "audit_leaves"); n != count(t, db, "audit_events") {
			t.Errorf("%d positions are left", n)
		}
		r := g.mustVerify()
		if r.Least != 512 || r.Sealed != 605 || len(r.Findings) != 0 {
			t.Errorf("%+v", r)
		}
		g.archiveProves(done[0], 512)

		if _, err = l.Prove(ctx, g.ids[3]); fault.Public(err).Code() != fault.CodeNotFound {
			t.Errorf("a pruned record: %v", err)
		}
		if _, err = l.Prove(ctx, idOf(done[0].Oldest)); !strings.Contains(fault.Public(err).Message(fault.English), done[0].Archive) {
			t.Errorf("an id of that time: %v", err)
		}
		if _, err = l.Get(ctx, idOf(done[0].Oldest-time.Hour.Microseconds())); strings.Contains(fault.Public(err).Message(fault.English), done[0].Archive) {
			t.Errorf("an id of another time: %v", err)
		}
		g.joins(proof)
		for _, i := range []int64{g.sensitive[0], g.others[0], 515} {
			p, err := l.Prove(ctx, g.ids[i])
			if err != nil || p.Index != i {
				t.Errorf("record %d: %v", i, err)
				continue
			}
			if _, err := evidence.VerifyProof(l.VerifierKey(), p); err != nil {
				t.Error(err)
			}
		}
		page, err := l.Search(ctx, search.Query{Tenant: "other", Limit: 500})
		if err != nil || len(page.Events) != len(g.others) {
			t.Errorf("%d held records are found, want %d, %v", len(page.Events), len(g.others), err)
		}
		g.exports(export.Selection{}, 605-512, true)
		g.exports(export.Selection{Tenant: "other"}, int64(len(g.others)), false)

		if n, err := Recover(ctx, l.cfg, copied, db, testKeys(), nil, discard()); err != nil || n == 0 {
			t.Errorf("recover an old copy: %d, %v", n, err)
		}
		g.mustVerify()
		if n := count(t, db, "audit_events"); n != 605-512+int64(keep) {
			t.Errorf("an old copy of the write-ahead log brought %d records back", n-605+512-int64(keep))
		}

		if done := g.prune(); len(done) != 0 {
			t.Errorf("pruned again: %+v", done)
		}
		released, err := l.ReleaseHold(ctx, "", hold.ID, Actor{Kind: "user", ID: "u9", Name: "officer"})
		if err != nil || released.Released == 0 {
			t.Fatalf("%+v, %v", released, err)
		}
		g.prune()
		g.mustVerify()
		for i, id := range g.ids[:512] {
			_, err := l.Get(ctx, id)
			if want := slices.Contains(g.sensitive, int64(i)); (err == nil) != want {
				t.Errorf("record %d after the release of the hold: %v", i, err)
			}
		}
		g.old(300)
		if done := g.prune(); len(done) != 0 { // fresh records come first, at the end of the first 600
			t.Errorf("records behind fresh ones were pruned: %+v", done)
		}
		g.mustVerify()
	})
}

// idOf is an id that was made at a time.
func idOf(us int64) string {
	u := uuid.Must(uuid.NewV7())
	binary.BigEndian.PutUint64(u[:], uint64(us/1000)<<16|uint64(binary.BigEndian.Uint16(u[6:])))
	return u.String()
}

func (g *grown) archiveProves(p Pruning, records int64) {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.l.cfg.Retention.ArchiveDir, p.Archive))
	must(g.t, err)
	r, err := evidence.VerifyBundle(context.Background(), bytes.NewReader(b), int64(len(b)), g.l.reads, checkpoint.Witnesses{}, nil)
	if err != nil || !r.OK || r.Proven != records || r.Complete || r.Filtered {
		g.t.Errorf("archive: %+v, %v", r, err)
	}
}

func (g *grown) exports(x export.Selection, records int64, complete bool) {
	g.t.Helper()
	f, err := os.Create(filepath.Join(g.t.TempDir(), "export.zip"))
	must(g.t, err)
	defer func() { _ = f.Close() }()
	m, err := g.l.ExportChecked(context.Background(), f, x)
	if err != nil || m.Records != records {
		g.t.Errorf("export %+v: %+v, %v", x, m, err)
	}
	if complete && m.Least != 512 {
		g.t.Errorf("export %+v: least %d", x, m.Least)
	}
}

// joins checks an old proof, and that its checkpoint leads to the newest one by the hashes that are left.
func (g *grown) joins(p evidence.Proof) {
	g.t.Helper()
	if _, err := evidence.VerifyProof(g.l.VerifierKey(), p); err != nil {
		g.t.Error(err)
	}
	old, err := g.l.reads.Open(p.Checkpoint)
	must(g.t, err)
	text, err := g.l.Checkpoint(context.Background())
	must(g.t, err)
	now, err := g.l.reads.Open(text)
	must(g.t, err)
	path, err := tlog.ProveTree(now.Size, old.Size, g.l.Tree.Hashes(context.Background()))
	must(g.t, err)
	must(g.t, tlog.CheckTree(path, now.Size, now.Root, old.Size, old.Root))
}

// TestPruneInSteps prunes more than fits one step, with witnesses' demands unmet first.
func TestPruneInSteps(t *testing.T) {
	g := newGrown(t, dbtest.SQLite(t), 1100)
	g.l.portion = 300
	done := g.prune()
	if len(done) != 4 || done[0].Until != 256 || done[3].Until != 1024 {
		t.Fatalf("%+v", done)
	}
	if r := g.mustVerify(); r.Least != 1024 {
		t.Errorf("%+v", r)
	}
	for _, p := range done {
		g.archiveProves(p, 256)
	}
}

// TestPruneRange verifies ranges before, across and behind the minimum index, and notices what was changed in them.
func TestPruneRange(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 700)
		g.prune()
		check := func(from, until int64) verify.Report {
			t.Helper()
			var done, total int64
			r, err := verify.Run(t.Context(), verify.Source{Dir: g.l.cfg.Dir, DB: db, VerifierKey: g.l.VerifierKey(), FirstIndex: from, UntilIndex: until},
				func(d, n int64) { done, total = d, n })
			must(t, err)
			if done != total || total == 0 {
				t.Errorf("progress ends at %d of %d", done, total)
			}
			return r
		}
		for _, c := range [][2]int64{{0, 701}, {0, 10}, {500, 600}, {511, 512}, {512, 513}, {513, 700}, {600, 1 << 40}} {
			if r := check(c[0], c[1]); !r.OK || r.FirstIndex != c[0] || r.Sealed != min(c[1], 701)-c[0] {
				t.Errorf("range %v: %+v", c, r)
			}
		}
		if _, err := verify.Run(t.Context(), verify.Source{DB: db, VerifierKey: g.l.VerifierKey(), FirstIndex: 800, UntilIndex: 900}, nil); err == nil {
			t.Error("a range beyond the log was verified")
		}
		dropTriggers(t, db)
		s := &scene{t: t, l: g.l, db: db}
		s.swap("audit_events", "id = ?", []any{g.ids[600]}, "payload", flipped(s.row(g.ids[600]).Payload, 30), func() {
			if r := check(590, 610); r.OK {
				t.Error("a changed payload in the range")
			}
			if r := check(610, 620); !r.OK {
				t.Errorf("a change outside of the range: %+v", r.Problems)
			}
		})
		// What is below the range shows through the hashes that it leads to.
		at := tlog.StoredHashIndex(9, 0)
		s.swap("audit_hashes", "idx = ?", []any{at}, "hash", make([]byte, 32), func() {
			if r := check(600, 610); r.OK {
				t.Error("a changed hash below the range")
			}
		})
	})
}

// TestPruneTampered: nobody removes a record under cover of a pruning, or changes what is said about one.
func TestPruneTampered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 700)
		done := g.prune()
		s := &scene{t: t, l: g.l, db: db}
		for name, statement := range map[string]string{
			"a record":            "DELETE FROM audit_events WHERE id = '" + g.ids[600] + "'",
			"a kept record":       "DELETE FROM audit_events WHERE id = '" + g.ids[g.sensitive[0]] + "'",
			"a position":          "DELETE FROM audit_leaves WHERE idx = 600",
			"a kept position":     "DELETE FROM audit_leaves WHERE idx = " + database.Text("7"),
			"the long-term store": "DELETE FROM audit_vault",
			"a proof too early":   "UPDATE audit_vault SET proof = ''",
			"the time to stay":    "UPDATE audit_vault SET until = 0",
			"what was pruned":     "UPDATE audit_prunings SET until_index = 600",
			"that it was pruned":  "DELETE FROM audit_prunings",
			"pruned sequences":    "UPDATE audit_pruned SET seq = 900",
		} {
			if err := db.Exec(statement).Error; err == nil {
				t.Fatalf("%s: the database took it", name)
			}
		}
		dropTriggers(t, db)
		wants := func(what string, kinds ...string) {
			t.Helper()
			r := g.verify()
			if !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return slices.Contains(kinds, p.Kind) }) {
				t.Errorf("%s: no %v problem: %+v", what, kinds, r.Problems)
			}
		}
		for _, c := range []struct {
			column string
			value  any
		}{
			{"until_index", 600},
			{"kept", 0},
			{"root", strings.Repeat("0", 64)},
			{"oldest", 1},
			{"newest", 1},
			{"size", 512},
			{"archive", "other.zip"},
			{"digest", "00"},
			{"record", g.ids[600]},
			{"first_index", 256},
		} {
			s.swap("audit_prunings", c.column+" <> ?", []any{c.value}, c.column, c.value, func() { wants(c.column, "pruning", "vault", "gap", "archive") })
		}
		s.swap("audit_vault", "idx = ?", []any{7}, "proof", "", func() { wants("an emptied proof", "vault") })
		s.swap("audit_vault", "idx = ?", []any{7}, "until", 1, func() { wants("less time", "vault") })
		s.swap("audit_vault", "idx = ?", []any{7}, "tenant", "x", func() { wants("another tenant", "vault") })
		s.swap("audit_events", "id = ?", []any{g.ids[7]}, "tenant", "x", func() { wants("a kept record", "column") })
		s.swap("audit_hashes", "idx = ?", []any{tlog.StoredHashIndex(0, 5)}, "hash", make([]byte, 32), func() { wants("a hash of a pruned record", "tree") })
		s.swap("audit_hashes", "idx = ?", []any{tlog.StoredHashIndex(4, 3)}, "hash", make([]byte, 32), func() { wants("a hash over pruned records", "tree") })
		g.mustVerify()

		archive := filepath.Join(g.l.cfg.Retention.ArchiveDir, done[0].Archive)
		b, err := os.ReadFile(archive)
		must(t, err)
		must(t, os.WriteFile(archive, flipped(b, len(b)/2), 0o600))
		wants("a changed archive", "archive")
		must(t, os.Remove(archive))
		if r := g.verify(); !r.OK || len(r.Findings) != 1 || r.Findings[0].Kind != "archive" {
			t.Errorf("a missing archive: %+v", r)
		}
		for _, c := range []struct{ what, statement, kind string }{
			{"a kept record and its position", "DELETE FROM audit_events WHERE id = '" + g.ids[7] + "'", "vault"},
			{"a record of the long-term store", "DELETE FROM audit_vault WHERE idx = 57", "vault"},
			{"a position above", "DELETE FROM audit_leaves WHERE idx = 600", "gap"},
			{"the record of the pruning", "DELETE FROM audit_events WHERE id = '" + done[0].Record + "'", "pruning"},
			{"a pruning that never was", "INSERT INTO audit_prunings SELECT 512, 600, 0, root, oldest, newest, size, archive, digest, record, time, actor FROM audit_prunings", "pruning"},
		} {
			must(t, db.Exec(c.statement).Error)
			wants(c.what, c.kind)
		}
	})
}

// A whole month goes with its table, the records that are kept of it stay, and the month that is cut in the middle keeps its own.
func TestPruneMonths(t *testing.T) {
	db := dbtest.Postgres(t)
	cfg := testConfig(t.TempDir())
	cfg.Retention.ArchiveDir = t.TempDir()
	l := openTest(t, cfg, db, nil, durable.OS{})
	g := &grown{t: t, db: db, l: l}
	soon := time.Now().Add(24 * time.Hour).UnixMicro()
	months := []int64{at("2025-01-31 23:00:00"), at("2025-02-10 00:00:00"), at("2025-03-03 03:00:00")}
	for i := range 3 * 256 {
		e := recordtest.Sample(i)
		e.Time = months[min(i/256, 2)] + int64(i)
		if i >= 640 { // the last unit begins in March and is not due as a whole
			e.Time = 0
		}
		if i == 300 {
			e.Tenant = "other"
		}
		if i == 301 { // of a clock that was wrong, alone in its month, which is pruned around it
			e.Time, e.Rollout, e.Arm, e.Stage, e.Outcome = soon+60*24*time.Hour.Microseconds(), "ro-soon", "stable", StageOutcome, "ok"
		}
		r, err := l.Append(t.Context(), e)
		must(t, err)
		g.ids = append(g.ids, r.ID)
	}
	flush(t, l)
	summed := func() {
		t.Helper()
		sums, err := l.ArmSums(t.Context(), "ro-soon", "stable", soon)
		must(t, err)
		if sums.Slow.N != 1 {
			t.Errorf("the sums are of %v answers, one is there", sums.Slow.N)
		}
	}
	summed()
	_, err := l.Hold(t.Context(), retention.Hold{Tenant: "other", Reason: "r"})
	must(t, err)
	g.prune()
	summed()
	var tables []string
	must(t, db.Raw("SELECT relname FROM pg_class WHERE relname LIKE 'audit_events_2025%' AND relkind = 'r' ORDER BY relname").Scan(&tables).Error)
	if want := []string{"audit_events_202502", "audit_events_202503"}; !slices.Equal(tables, want) {
		t.Errorf("%v are left, want %v", tables, want)
	}
	if feb, mar := count(t, db, "audit_events_202502"), count(t, db, "audit_events_202503"); feb != 1 || mar != 128 {
		t.Errorf("%d and %d records are left", feb, mar)
	}
	if r := g.mustVerify(); r.Least != 512 {
		t.Errorf("%+v", r)
	}
	if _, err := l.Get(t.Context(), g.ids[300]); err != nil {
		t.Error(err)
	}
	must(t, db.Exec("SELECT audit_partition(?)", months[0]).Error)
	if db.Exec("TRUNCATE audit_events_202502").Error == nil || db.Exec("DELETE FROM audit_events_202502").Error == nil {
		t.Error("what is kept of a month can be removed")
	}
}

// With witnesses nothing goes before all of them have cosigned a checkpoint over it, and the archive carries their lines.
func TestPruneWaitsForWitnesses(t *testing.T) {
	db := dbtest.SQLite(t)
	one, two := testWitness(t, "one.example", 1_800_000_000), testWitness(t, "two.example", 1_800_000_001)
	cfg := witnessed(t.TempDir(), one.Key(), two.Key())
	cfg.Retention.ArchiveDir = t.TempDir()
	g := growOn(t, openTest(t, cfg, db, nil, durable.OS{}), db, 300)
	for _, w := range []checkpoint.Witness{one, two} {
		if done := g.prune(); len(done) != 0 {
			t.Fatalf("pruned without a witness: %+v", done)
		}
		must(t, g.l.Cosign(t.Context(), cosignedNote(t, g.l, w)))
	}
	g.old(10) // a newer checkpoint that nobody has cosigned yet
	done := g.prune()
	if len(done) != 1 || done[0].Until != 256 {
		t.Fatalf("%+v", done)
	}
	f, err := os.Open(filepath.Join(cfg.Retention.ArchiveDir, done[0].Archive))
	must(t, err)
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	must(t, err)
	r, err := evidence.VerifyBundle(t.Context(), f, info.Size(), g.l.reads, g.l.witnesses, nil)
	if err != nil || !r.OK || len(r.Cosignatures) != 2 || r.Size != 300 {
		t.Errorf("%+v, %v", r, err)
	}
}
