package audit

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/store"
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
