package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// marked is a concern that keeps marks.
type marked struct {
	kept    []store.Mark
	dropped []string
	fail    error
}

func (m *marked) Keep(_ *gorm.DB, marks []store.Mark) error {
	if m.fail != nil {
		return m.fail
	}
	m.kept = append(m.kept, marks...)
	return nil
}

func (m *marked) Drop(_ *gorm.DB, records []string) error {
	m.dropped = append(m.dropped, records...)
	return m.fail
}

// TestMarks: a mark is durable with its record, is kept once, in the transaction that stores it, and not at all if its person was erased before it came.
func TestMarks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		beside := &marked{}
		cfg := testConfig(t.TempDir())
		cfg.Beside = beside
		l := openTest(t, cfg, db, nil, durable.OS{})
		add := func(n int, subject, data string, texts ...Text) Receipt {
			t.Helper()
			r, err := l.AppendWith(t.Context(), recordtest.Sample(n), subject, append(texts, Text{Direction: DirectionMark, Text: data})...)
			must(t, err)
			return r
		}
		one := add(1, "", "first")
		two := add(2, "alice", "second\x00", Text{Direction: "answer", Form: "clear", Text: "kept"})
		add(3, "alice", "") // none
		must(t, l.Close())  // as after a crash: nothing is shipped yet

		l = openTest(t, cfg, db, nil, durable.OS{})
		beside.fail = errors.New("no")
		if err := l.Flush(t.Context()); err == nil || count(t, db, "audit_events") != 0 {
			t.Errorf("records without their marks: %v", err)
		}
		beside.fail = nil
		flush(t, l)
		e := recordtest.Sample(1)
		if len(beside.kept) != 2 || beside.kept[0].Record != one.ID || beside.kept[0].Subject != "" || string(beside.kept[0].Data) != "first" || beside.kept[0].Tenant != e.Tenant ||
			beside.kept[0].Request != e.Request || beside.kept[1].Record != two.ID || beside.kept[1].Subject != "alice" || string(beside.kept[1].Data) != "second\x00" {
			t.Errorf("%+v", beside.kept)
		}
		mustVerify(t, l, db)
		must(t, l.Close())
		l = openTest(t, cfg, db, nil, durable.OS{})
		flush(t, l)
		if len(beside.kept) != 2 {
			t.Errorf("kept again: %+v", beside.kept)
		}

		late := add(4, "alice", "late")
		add(5, "bob", "not late")
		var at int64
		for _, n := range []int{4, 5} {
			at = max(at, recordtest.Sample(n).Time)
		}
		must(t, db.Create(&store.ErasureRow{Record: "x", Tenant: e.Tenant, Subject: "alice", Time: at}).Error)
		flush(t, l)
		if len(beside.kept) != 3 || beside.kept[2].Subject != "bob" {
			t.Errorf("%+v, with %s of somebody who was erased", beside.kept, late.ID)
		}
		if _, err := l.AppendWith(t.Context(), e, "", Text{Direction: DirectionMark, Text: "a"}, Text{Direction: DirectionMark, Text: "b"}); err == nil {
			t.Error("a record has two marks")
		}
	})
}

// TestMarksNeedAKeeper: a log that does not know where marks go stores no record with one, and loses none.
func TestMarksNeedAKeeper(t *testing.T) {
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	_, err := l.AppendWith(t.Context(), recordtest.Sample(1), "", Text{Direction: DirectionMark, Text: "a"})
	must(t, err)
	if err := l.Flush(t.Context()); err == nil || count(t, db, "audit_events") != 0 {
		t.Errorf("%v", err)
	}
}

// TestMarksGoWithRecords: what is kept with records that are pruned is dropped in the same transaction.
func TestMarksGoWithRecords(t *testing.T) {
	db := dbtest.SQLite(t)
	beside := &marked{}
	cfg := testConfig(t.TempDir())
	cfg.SegmentBytes, cfg.Beside = 1<<20, beside
	cfg.Retention.ArchiveDir = filepath.Join(t.TempDir(), "archive")
	g := growOn(t, openTest(t, cfg, db, nil, durable.OS{}), db, 600)
	beside.fail = errors.New("no")
	if _, err := g.l.Prune(t.Context(), "test"); err == nil {
		t.Error("records went, and what is kept with them stayed")
	}
	before := count(t, db, "audit_events")
	beside.fail, beside.dropped = nil, nil
	done, err := g.l.Prune(t.Context(), "test")
	must(t, err)
	if len(done) == 0 || len(beside.dropped) == 0 || slices.Contains(beside.dropped, g.ids[7]) || !slices.Contains(beside.dropped, g.ids[0]) {
		t.Errorf("%+v, %d of %d dropped", done, len(beside.dropped), before)
	}
	var left int64
	must(t, db.Table("audit_events").Where("id IN ?", beside.dropped).Count(&left).Error)
	if left != 0 {
		t.Errorf("%d records stay without what is kept with them", left)
	}
}

// TestMarksOfErasedPeople: an erasure covers what was made up to its time, of its tenant and person, and nothing else.
func TestMarksOfErasedPeople(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		beside := &marked{}
		cfg := testConfig(t.TempDir())
		cfg.Beside = beside
		l := openTest(t, cfg, db, nil, durable.OS{})
		const at = int64(1_800_000_000_000_000)
		for n, c := range []struct {
			tenant, subject string
			time            int64
		}{{"demo", "alice", at - 1}, {"demo", "alice", at}, {"demo", "alice", at + 1}, {"other", "alice", at - 1}, {"demo", "bob", at - 1}, {"demo", "", at - 1}} {
			e := recordtest.Sample(n)
			e.Tenant, e.Time = c.tenant, c.time
			_, err := l.AppendWith(t.Context(), e, c.subject, Text{Direction: DirectionMark, Text: strconv.Itoa(n)})
			must(t, err)
		}
		must(t, db.Create(&store.ErasureRow{Record: "x", Tenant: "demo", Subject: "alice", Time: at}).Error) // between append and shipment
		flush(t, l)
		var kept []string
		for _, m := range beside.kept {
			kept = append(kept, string(m.Data))
		}
		if !slices.Equal(kept, []string{"2", "3", "4", "5"}) {
			t.Errorf("kept are %v", kept)
		}
	})
}

// TestLargestMark: one that no reader takes is refused before anything is written.
func TestLargestMark(t *testing.T) {
	db := dbtest.SQLite(t)
	beside := &marked{}
	cfg := testConfig(t.TempDir())
	cfg.Beside = beside
	l := openTest(t, cfg, db, nil, durable.OS{})
	add := func(n int) error {
		_, err := l.AppendWith(t.Context(), recordtest.Sample(1), "", Text{Direction: DirectionMark, Text: strings.Repeat("m", n)})
		return err
	}
	if err := add(wal.MaxMark); err == nil { // with the length of its person it is longer
		t.Error("one that is too large was taken")
	}
	must(t, add(wal.MaxMark-1))
	flush(t, l)
	if len(beside.kept) != 1 || len(beside.kept[0].Data) != wal.MaxMark-1 || count(t, db, "audit_events") != 1 {
		t.Errorf("%d marks, %d records", len(beside.kept), count(t, db, "audit_events"))
	}
}

// TestTornMarks: wherever the process died within a record and its mark, both are gone, and what was durable before is there.
func TestTornMarks(t *testing.T) {
	db := dbtest.SQLite(t)
	beside := &marked{}
	cfg := testConfig(t.TempDir())
	cfg.Beside = beside
	l := openTest(t, cfg, db, nil, durable.OS{})
	_, err := l.AppendWith(t.Context(), recordtest.Sample(1), "", Text{Direction: DirectionMark, Text: "whole"})
	must(t, err)
	path := l.wal.Segments()[0].Path
	before, err := os.ReadFile(path)
	must(t, err)
	_, err = l.AppendWith(t.Context(), recordtest.Sample(2), "", Text{Direction: DirectionMark, Text: "torn"})
	must(t, err)
	after, err := os.ReadFile(path)
	must(t, err)
	must(t, l.Close())
	for n := len(before) + 1; n < len(after); n += 7 {
		img := wal.Parse(filepath.Base(path), after[:n])
		if len(img.Records) != 1 || len(img.Records[0].Attached) != 1 {
			t.Fatalf("of %d bytes: %d records", n, len(img.Records))
		}
	}
	must(t, os.WriteFile(path, after[:len(before)+30], 0o600)) // in the mark of the second
	l = openTest(t, cfg, db, nil, durable.OS{})
	flush(t, l)
	if len(beside.kept) != 1 || string(beside.kept[0].Data) != "whole" || count(t, db, "audit_events") != 1 {
		t.Errorf("%+v, %d records", beside.kept, count(t, db, "audit_events"))
	}
	mustVerify(t, l, db)
}

// TestMarksAreRecovered: what a replica has not shipped before it died is kept with its records, once.
func TestMarksAreRecovered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		beside := &marked{}
		cfg := testConfig(t.TempDir())
		lost := openTest(t, cfg, db, nil, durable.OS{})
		_, err := lost.AppendWith(t.Context(), recordtest.Sample(1), "alice", Text{Direction: DirectionMark, Text: "lost"})
		must(t, err)
		must(t, lost.Close())
		if _, err := Recover(t.Context(), testConfig(""), cfg.Dir, db, testKeys(), nil, discard()); err == nil {
			t.Error("recovered without a keeper of marks")
		}
		for range 2 {
			with := testConfig("")
			with.Beside = beside
			_, err := Recover(t.Context(), with, cfg.Dir, db, testKeys(), nil, discard())
			must(t, err)
		}
		if len(beside.kept) != 1 || string(beside.kept[0].Data) != "lost" || beside.kept[0].Subject != "alice" {
			t.Errorf("%+v", beside.kept)
		}
	})
}

// TestSegmentsWithMarksGo: an erasure that empties the write-ahead log leaves no mark in any of its files.
func TestSegmentsWithMarksGo(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		cfg := testConfig(t.TempDir())
		cfg.Beside = &marked{}
		for run := range 2 {
			l := openTest(t, cfg, db, nil, durable.OS{})
			for n := range 3 {
				_, err := l.AppendWith(t.Context(), recordtest.Sample(10*run+n), "", Text{Direction: DirectionMark, Text: "mark"})
				must(t, err)
			}
			if len(markFiles(t, cfg.Dir)) == 0 {
				t.Fatal("no file holds a mark")
			}
			flush(t, l)
			must(t, l.emptySegments(t.Context()))
			must(t, l.Close())
			if left := markFiles(t, cfg.Dir); len(left) > 0 {
				t.Errorf("run %d leaves marks in %v", run, left)
			}
		}
		l := openTest(t, cfg, db, nil, durable.OS{})
		flush(t, l)
		mustVerify(t, l, db)
	})
}

// markFiles names the files of a directory that hold a mark.
func markFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(wal.KindMark)) {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// TestMarksOfTheLongTermStore: what is kept with a record that a hold has kept stays with it, and goes with it when the longer time is over.
func TestMarksOfTheLongTermStore(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		beside := &marked{}
		cfg := testConfig(t.TempDir())
		cfg.SegmentBytes, cfg.Beside = 1<<20, beside
		cfg.Retention.ArchiveDir = filepath.Join(t.TempDir(), "archive")
		g := growOn(t, openTest(t, cfg, db, nil, durable.OS{}), db, 600)
		_, err := g.l.Prune(t.Context(), "test")
		must(t, err)
		var kept []string
		must(t, db.Table("audit_vault").Pluck("id", &kept).Error)
		if len(kept) == 0 || slices.ContainsFunc(kept, func(id string) bool { return slices.Contains(beside.dropped, id) }) {
			t.Fatalf("%d records in the long-term store", len(kept))
		}
		var due []store.RecordRow
		must(t, db.Table("audit_vault AS v").Select("v.idx AS idx", "e.writer AS writer", "e.seq AS seq", "e.id AS id", "e.time AS time", "e.payload AS payload").
			Joins("JOIN audit_events AS e ON e.id = v.id").Find(&due).Error)
		must(t, db.Exec("UPDATE audit_lease SET holder = 'me' WHERE name = 'prune'").Error)
		dropTriggers(t, db) // they wait for years
		beside.fail = errors.New("no")
		if err := retention.Expire(t.Context(), db, "me", due, nil, beside); !errors.Is(err, beside.fail) || count(t, db, "audit_vault WHERE proof = ''") != 0 {
			t.Errorf("records went, and what is kept with them stayed: %v", err)
		}
		beside.fail, beside.dropped = nil, nil
		must(t, retention.Expire(t.Context(), db, "me", due, nil, beside))
		for _, id := range kept {
			if !slices.Contains(beside.dropped, id) {
				t.Errorf("what is kept with %s stayed", id)
			}
		}
	})
}

// TestGoneMarks: marks of records that are gone, and of people who were erased later, are named, and no others.
func TestGoneMarks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		var marks []store.Mark
		for n := range 4 {
			e := recordtest.Sample(n)
			r, err := l.AppendWith(t.Context(), e, "")
			must(t, err)
			marks = append(marks, store.Mark{Record: r.ID, Tenant: e.Tenant, Subject: "alice", Time: e.Time})
		}
		flush(t, l)
		marks[3].Subject = ""
		if gone, err := store.Gone(db, marks); err != nil || len(gone) > 0 {
			t.Errorf("%+v, %v", gone, err)
		}
		must(t, db.Create(&store.ErasureRow{Record: "x", Tenant: marks[1].Tenant, Subject: "alice", Time: marks[1].Time}).Error)
		must(t, db.Create(&store.ErasureRow{Record: "y", Tenant: "another", Subject: "alice", Time: marks[2].Time}).Error)
		pruned := marks[0]
		pruned.Record, pruned.Subject = "of a record that is gone", "bob"
		want := []store.Mark{marks[0], marks[1], pruned}
		if gone, err := store.Gone(db, append(marks, pruned)); err != nil || !slices.EqualFunc(gone, want, func(a, b store.Mark) bool { return a.Record == b.Record }) {
			t.Errorf("%+v, %v", gone, err)
		}
	})
}
