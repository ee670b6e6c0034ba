package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// forge puts a record into the database as somebody does who can write rows and has no key: by a writer that never was, with what it is
// searched by, and with the note that has the server seal it.
func forge(t *testing.T, db *gorm.DB, writer string, e Event) Event {
	t.Helper()
	e.Schema, e.ID, e.Salt, e.Stage = record.Schema, idOf(e.Time), newSalt(), StageAction
	e.Decision, e.Outcome = "allow", "ok"
	payload, err := record.Encode(e)
	must(t, err)
	a, err := store.Arrive(writer, 1, payload)
	must(t, err)
	must(t, db.Transaction(func(tx *gorm.DB) error {
		return firstError(tx.Create(&a.Row).Error, search.Add(tx, []*search.Lists{&a.Lists}), tx.Create(&store.WriterRow{Writer: writer, Shipped: 1}).Error)
	}))
	return *a.Event
}

// TestForgedPruning: who can write rows can put a record of a pruning into the log, and have the server itself seal it; the records that it is
// to explain the loss of are missed all the same.
func TestForgedPruning(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 700)
		dropTriggers(t, db)
		root, err := g.l.Tree.RootAt(t.Context(), 256)
		must(t, err)
		stays, err := retention.LongTermDigest(db, 0, 256)
		must(t, err)
		row := store.PruningRow{UntilIndex: 256, Root: fmt.Sprintf("%x", root[:]), Oldest: 1, Newest: time.Now().UnixMicro(), Size: 700, Archive: "audit-0-256.zip", Digest: "00", Time: time.Now().UnixMicro(), Actor: "x"}
		detail := row.Detail(stays)
		detail[retention.AttestationKey], err = g.l.Checkpoint(t.Context()) // the one thing at hand that the log signed
		must(t, err)
		e := forge(t, db, strings.Repeat("ff", 16), Event{Time: time.Now().UnixMicro(), Action: retention.ActionPrune, Resource: "0-256", Detail: detail})
		row.Record = e.ID
		must(t, db.Create(&row).Error)
		must(t, db.Exec("INSERT INTO audit_pruned (writer, until_index, seq) SELECT writer, 256, MAX(seq) FROM audit_leaves WHERE idx < 256 GROUP BY writer").Error)
		must(t, db.Exec("DELETE FROM audit_events WHERE EXISTS (SELECT 1 FROM audit_leaves AS l WHERE l.writer = audit_events.writer AND l.seq = audit_events.seq AND l.idx < 256)").Error)
		must(t, db.Exec("DELETE FROM audit_leaves WHERE idx < 256").Error)
		for _, when := range []string{"before it is sealed", "when it is sealed"} {
			if r := g.verify(); !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == "pruning" }) {
				t.Errorf("%s the forged pruning explains the loss: %+v", when, r)
			}
			r, err := verify.Run(t.Context(), verify.Source{DB: db, VerifierKey: g.l.VerifierKey(), FirstIndex: 0, UntilIndex: 300}, nil)
			if err != nil || r.OK {
				t.Errorf("%s a range finds nothing missing: %+v, %v", when, r, err)
			}
			flush(t, g.l)
		}
	})
}

// TestForgedErasure: the same with kept texts.
func TestForgedErasure(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		id := say(t, l, 1, alice).ID
		flush(t, l)
		dropTriggers(t, db)
		var k store.KeyRow
		must(t, db.Take(&k).Error)
		at := time.Now().UnixMicro()
		e := forge(t, db, strings.Repeat("ff", 16), Event{Time: at, Tenant: k.Tenant, Action: retention.ActionErase, Resource: k.Subject, Detail: map[string]string{"time": fmt.Sprint(at)}})
		must(t, db.Create(&store.ErasureRow{Record: e.ID, Tenant: k.Tenant, Subject: k.Subject, Time: at}).Error)
		must(t, db.Create(&store.ErasedKeyRow{ID: k.ID, Nonce: k.Nonce, Tenant: k.Tenant, Subject: k.Subject, Created: k.Created}).Error)
		must(t, db.Exec("DELETE FROM audit_contents").Error)
		must(t, db.Exec("DELETE FROM audit_subject_keys").Error)
		flush(t, l)
		r, err := verify.Run(t.Context(), verify.Source{Dir: l.cfg.Dir, DB: db, VerifierKey: l.VerifierKey()}, nil)
		if err != nil || !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == "content" && p.Record == id }) {
			t.Errorf("the forged erasure explains the loss: %+v, %v", r, err)
		}
		if got, err := l.Contents(t.Context(), id); err == nil {
			t.Errorf("what is gone counts as erased: %+v", got)
		}
	})
}

// TestForgedExpiry: a record of the long-term store, under a hold for instance, whose row is made to say that its time was over.
func TestForgedExpiry(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 700)
		g.prune()
		dropTriggers(t, db)
		forge(t, db, strings.Repeat("ff", 16), Event{
			Time: time.Now().UnixMicro(), Action: retention.ActionPrune, Resource: retention.LongTermResource,
			Detail: map[string]string{"records": "1", "indexes": "7", "before": fmt.Sprint(time.Now().UnixMicro())},
		})
		flush(t, g.l)
		must(t, db.Exec("UPDATE audit_vault SET proof = '', until = 0 WHERE idx = 7").Error)
		must(t, db.Exec("DELETE FROM audit_events WHERE id = ?", g.ids[7]).Error)
		must(t, db.Exec("DELETE FROM audit_leaves WHERE idx = 7").Error)
		r := g.verify()
		for _, kind := range []string{"vault", "pruning"} { // that it went, and that what the long-term store says was changed
			if !slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return p.Kind == kind }) {
				t.Errorf("no %s problem: %+v", kind, r)
			}
		}
	})
}

// TestForgedSequences: a row that says a writer's records were pruned keeps none of them out, and shows.
func TestForgedSequences(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		appendN(t, l, 0, 3)
		flush(t, l)
		must(t, db.Create(&store.PrunedRow{Writer: l.wal.Writer, UntilIndex: 1, Seq: 1 << 60}).Error)
		r := appendN(t, l, 3, 1)[0]
		flush(t, l)
		if _, err := l.Get(t.Context(), r.ID); err != nil {
			t.Error(err)
		}
		v, err := verify.Run(t.Context(), verify.Source{DB: db, VerifierKey: l.VerifierKey()}, nil)
		if err != nil || !slices.ContainsFunc(v.Problems, func(p verify.Problem) bool { return p.Kind == "pruning" }) {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// TestTilesAfterPruning: a tile of which some records are kept has hashes and no entries, and the export goes on.
func TestTilesAfterPruning(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 700)
		g.prune()
		dir := t.TempDir()
		for range 2 {
			if _, err := g.l.ExportTiles(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
		}
	})
}
