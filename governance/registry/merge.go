package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

const (
	fanIn       = 8    // segments of a level that become one
	readBuckets = 128  // blocks that are read at once from each segment
	writeBlocks = 256  // blocks in one transaction
	purgeBlocks = 2048 // buckets whose blocks one transaction removes
	mergesATurn = 64   // so that a turn ends, whatever comes
	prolong     = 10 * time.Second
)

var errLostLead = errors.New("another replica merges")

// Merge merges what there is to merge, if this replica has the lead; what has waited longest comes first. What an earlier merge left behind is removed before. It returns when nothing is
// left to do, or after [mergesATurn]. A tenant
// with a block that does not read is left as it is, and does not hold up others; the error says so at the end.
func (s *Service) Merge(ctx context.Context) error {
	if idle, err := s.idle(ctx); idle || err != nil {
		return database.Unavailable("look for what is to merge", err)
	}
	return s.leading(ctx, func(l *lead) error {
		if err := s.clean(l); err != nil {
			return err
		}
		spoiled := []string{""} // tenants; there is none without a name
		var failed error
		for range mergesATurn {
			inputs, err := s.due(ctx, spoiled)
			if err != nil || len(inputs) == 0 {
				return errors.Join(failed, err)
			}
			err = s.merge(l, inputs, inputs[0].Level+1)
			if errors.Is(err, errBlock) {
				spoiled, failed = append(spoiled, inputs[0].Tenant), errors.Join(failed, err)
				continue
			}
			if err != nil {
				return err
			}
		}
		return failed
	})
}

// idle reports, without taking the lead, that there is nothing to do.
func (s *Service) idle(ctx context.Context) (bool, error) {
	var n int64
	if err := s.db.WithContext(ctx).Model(&segmentRow{}).Where("state <> ?", live).Limit(1).Count(&n).Error; err != nil || n > 0 {
		return false, err
	}
	inputs, err := s.due(ctx, []string{""})
	return len(inputs) == 0, err
}

// Sweep writes segments anew that have lost half of their entries or more, or any to an erasure, and removes those without any. Before that it removes entries that
// the release before left when it pruned or erased: it looks at [checkInTurn] of them, and goes on there in its next turn. One Sweep at a time.
func (s *Service) Sweep(ctx context.Context) error {
	return s.leading(ctx, func(l *lead) error {
		failed := s.check(l, checkAtOnce)
		if errors.Is(failed, errLostLead) {
			return failed
		}
		var all []segmentRow
		if err := s.db.WithContext(ctx).Select(segmentColumns()).Where("state = ?", live).Order("erased DESC, id").Find(&all).Error; err != nil {
			return err
		}
		for _, seg := range all {
			left, err := s.entriesOf(ctx, seg)
			if err != nil {
				return err
			}
			if 2*left > seg.Entries && seg.Erased == 0 {
				continue
			}
			err = s.merge(l, []segmentRow{seg}, seg.Level)
			if errors.Is(err, errBlock) { // it does not hold up others
				failed = errors.Join(failed, err)
			} else if err != nil {
				return err
			}
		}
		return errors.Join(failed, s.orphans(l))
	})
}

const (
	checkAtOnce = 1000
	checkInTurn = 500_000
)

// check removes entries that should not be there any more, and looks at so many at once.
func (s *Service) check(l *lead, atOnce int) error {
	for range checkInTurn / atOnce {
		if err := l.hold(); err != nil {
			return err
		}
		var rows []entryRow
		db := s.db.WithContext(l.ctx)
		at := &s.checked
		err := db.Select(entryColumns()).Where("tenant > ? OR tenant = ? AND number > ?", at.tenant, at.tenant, at.number).Order("tenant, number").Limit(atOnce).Find(&rows).Error
		if err != nil {
			return err
		}
		if err := s.dropGone(db, rows); err != nil {
			return err
		}
		if len(rows) < atOnce {
			at.tenant, at.number = "", 0
			return nil
		}
		at.tenant, at.number = rows[len(rows)-1].Tenant, rows[len(rows)-1].Number
	}
	return nil
}

// dropGone removes those of the entries that should not be there any more, as [EraseSubject] does.
func (s *Service) dropGone(db *gorm.DB, rows []entryRow) error {
	marks := make([]Mark, len(rows))
	for i, r := range rows {
		marks[i] = Mark{Tenant: r.Tenant, Record: r.Record, Request: r.Request, Subject: r.Subject, Time: r.Time}
	}
	if len(marks) == 0 {
		return nil
	}
	gone, err := s.cfg.Gone(db, marks)
	if err != nil || len(gone) == 0 {
		return err
	}
	numbers := map[string][]int64{}
	for _, r := range rows {
		if slices.Contains(gone, r.Record) {
			numbers[r.Tenant] = append(numbers[r.Tenant], r.Number)
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(numbers)) {
		err := db.Transaction(func(tx *gorm.DB) error {
			_, err := erase(tx, tenant, "e.number IN ?", numbers[tenant])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lead is the right to change segments, which is prolonged while it is used.
type lead struct {
	ctx   context.Context //nolint:containedctx // of one turn
	take  func(context.Context) (bool, error)
	until time.Time
}

// hold prolongs the lead from time to time. Error: somebody else has it.
func (l *lead) hold() error {
	now := time.Now()
	if now.Before(l.until) {
		return nil
	}
	ok, err := l.take(l.ctx)
	if err == nil && !ok {
		err = errLostLead
	}
	if err == nil {
		l.until = now.Add(prolong)
	}
	return err
}

func (s *Service) leading(ctx context.Context, do func(*lead) error) error {
	l := &lead{ctx: ctx, take: s.cfg.Leads}
	err := l.hold()
	if err == nil {
		err = do(l)
	}
	if errors.Is(err, errLostLead) {
		return nil
	}
	return database.Unavailable("merge the registry", err)
}

// due returns the oldest segments of a tenant and level that are to become one, in order, of those groups that which has waited longest; none if there are too few of all, but for some tenants.
func (s *Service) due(ctx context.Context, without []string) (inputs []segmentRow, err error) {
	db := s.db.WithContext(ctx)
	var full []struct {
		Tenant string
		Level  int64
	}
	err = db.Model(&segmentRow{}).Select("tenant", "level").Where("state = ? AND tenant NOT IN ?", live, without).Group("tenant, level").Having("COUNT(*) >= ?", fanIn).Order("MIN(id)").Limit(1).Scan(&full).Error
	if err != nil || len(full) == 0 {
		return nil, err
	}
	err = db.Select(segmentColumns()).Where("state = ? AND tenant = ? AND level = ?", live, full[0].Tenant, full[0].Level).Order("first").Limit(fanIn).Find(&inputs).Error
	return inputs, err
}

// clean removes what nobody reads: segments that a merge has replaced, or never finished.
func (s *Service) clean(l *lead) error {
	var gone []segmentRow
	if err := s.db.WithContext(l.ctx).Select(segmentColumns()).Where("state <> ?", live).Find(&gone).Error; err != nil {
		return err
	}
	for _, seg := range gone {
		if err := s.purge(l, seg); err != nil {
			return err
		}
	}
	return nil
}

// purge removes a segment that is not live, its blocks first. Whoever builds it notices at the end, or at its next blocks. One that has become live meanwhile stays:
// a lease alone does not tell who builds. What is dead once stays dead. SQLite overwrites the blocks.
func (s *Service) purge(l *lead, seg segmentRow) error {
	db := s.db.WithContext(l.ctx)
	res := db.Model(&segmentRow{}).Where("id = ? AND state <> ?", seg.ID, live).Update("state", dead)
	if res.Error != nil || res.RowsAffected == 0 {
		return res.Error
	}
	for at := int64(0); at < 1<<seg.Bits; at += purgeBlocks {
		if err := l.hold(); err != nil {
			return err
		}
		err := overwriting(db, func(tx *gorm.DB) error {
			return tx.Where("segment = ? AND bucket >= ? AND bucket < ? AND EXISTS (SELECT 1 FROM registry_segments WHERE id = ? AND state = ?)", seg.ID, at, at+purgeBlocks, seg.ID, dead).
				Delete(&blockRow{}).Error
		})
		if err != nil {
			return err
		}
	}
	return db.Where("id = ? AND state = ?", seg.ID, dead).Delete(&segmentRow{}).Error
}

// overwriting does in a transaction what deletes rows, of which SQLite then leaves nothing in free pages.
func overwriting(db *gorm.DB, do func(*gorm.DB) error) error {
	return db.Transaction(func(tx *gorm.DB) error {
		if err := secureDelete(tx); err != nil {
			return err
		}
		return do(tx)
	})
}

// orphans removes blocks without a segment. There are none, unless a tenant was erased by a release that did not know them, or somebody changed the tables.
func (s *Service) orphans(l *lead) error {
	db := s.db.WithContext(l.ctx)
	for after := int64(-1); ; {
		var next []int64
		if err := db.Model(&blockRow{}).Where("segment > ?", after).Order("segment").Limit(1).Pluck("segment", &next).Error; err != nil || len(next) == 0 {
			return err
		}
		after = next[0]
		if err := l.hold(); err != nil {
			return err
		}
		err := overwriting(db, func(tx *gorm.DB) error {
			return tx.Where("segment = ? AND NOT EXISTS (SELECT 1 FROM registry_segments WHERE id = ?)", after, after).Delete(&blockRow{}).Error
		})
		if err != nil {
			return err
		}
	}
}

// merge makes one segment of several in order, puts it in their place and removes them. Cut off at any point, what was read stays what is read.
func (s *Service) merge(l *lead, inputs []segmentRow, level int64) error {
	out := segmentRow{ID: segmentID(s.now()), Tenant: inputs[0].Tenant, State: building, Level: level, First: inputs[0].First, Last: inputs[len(inputs)-1].Last}
	expected := int64(0)
	for _, in := range inputs {
		out.Prints += in.Prints
		expected += in.Entries
	}
	out.Bits = bucketBits(out.Prints)
	if err := s.begin(l.ctx, &out); err != nil {
		return err
	}
	left, err := s.entriesOf(l.ctx, out)
	if err != nil {
		return err
	}
	var alive *aliveSet // nil: all are
	if left != expected {
		if alive, err = s.aliveIn(l.ctx, out); err != nil {
			return err
		}
	}
	out.Entries = left
	if out.Prints, err = s.build(l, inputs, out, alive); err != nil {
		return err
	}
	if err := s.replace(l.ctx, inputs, out); err != nil {
		return err
	}
	return s.clean(l)
}

// begin adds the row of a segment that is built, unless the tenant has left: whoever erases it takes its row first.
func (s *Service) begin(ctx context.Context, out *segmentRow) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		res := tx.Exec("UPDATE registry_tenants SET next = next WHERE tenant = ?", out.Tenant)
		if res.Error == nil && res.RowsAffected != 1 {
			return errLostLead
		}
		if res.Error != nil {
			return res.Error
		}
		return tx.Create(out).Error
	})
}

// build writes the blocks of a segment, and returns how many fingerprints it has.
func (s *Service) build(l *lead, inputs []segmentRow, out segmentRow, alive *aliveSet) (prints int64, err error) {
	readers := make([]*reader, len(inputs))
	for i, in := range inputs {
		readers[i] = &reader{db: s.db.WithContext(l.ctx), seg: in}
	}
	w := writer{db: s.db.WithContext(l.ctx), seg: out, bucket: -1}
	for {
		if err := l.hold(); err != nil {
			return 0, err
		}
		for range 1 << 12 {
			p, err := least(readers)
			if err != nil {
				return 0, err
			}
			if p == nil {
				return w.prints, w.end()
			}
			if alive.keep(p) {
				if err := w.add(p); err != nil {
					return 0, err
				}
			}
		}
	}
}

// replace puts a finished segment in the place of others. Nobody sees both, or neither.
func (s *Service) replace(ctx context.Context, inputs []segmentRow, out segmentRow) error {
	ids := make([]int64, len(inputs))
	for i, in := range inputs {
		ids[i] = in.ID
	}
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		res := tx.Model(&segmentRow{}).Where("id IN ? AND state = ?", ids, live).Update("state", dead)
		if res.Error == nil && res.RowsAffected != int64(len(ids)) {
			return errLostLead
		}
		if res.Error != nil || out.Prints == 0 { // nothing is left of them: out goes with them
			return res.Error
		}
		res = tx.Model(&segmentRow{}).Where("id = ? AND state = ?", out.ID, building).Updates(map[string]any{"state": live, "prints": out.Prints, "entries": out.Entries})
		if res.Error == nil && res.RowsAffected != 1 {
			return errLostLead
		}
		return res.Error
	})
}

// entriesOf counts the entries that there still are of a segment.
func (s *Service) entriesOf(ctx context.Context, seg segmentRow) (n int64, err error) {
	err = s.db.WithContext(ctx).Model(&entryRow{}).Where("tenant = ? AND number BETWEEN ? AND ?", seg.Tenant, seg.First, seg.Last).Count(&n).Error
	return n, err
}

// aliveSet says which of the entries of a segment there still are.
type aliveSet struct {
	first int64
	n     int64 // how many
	bits  []uint64
}

const aliveAtOnce = 20_000

func (s *Service) aliveIn(ctx context.Context, seg segmentRow) (*aliveSet, error) {
	a := &aliveSet{first: seg.First, bits: make([]uint64, (seg.Last-seg.First)/64+1)}
	for after := seg.First - 1; ; {
		var numbers []int64
		err := s.db.WithContext(ctx).Model(&entryRow{}).Where("tenant = ? AND number > ? AND number <= ?", seg.Tenant, after, seg.Last).
			Order("number").Limit(aliveAtOnce).Pluck("number", &numbers).Error
		if err != nil || len(numbers) == 0 {
			return a, err
		}
		for _, n := range numbers {
			a.bits[(n-a.first)/64] |= 1 << ((n - a.first) % 64)
			a.n++
		}
		after = numbers[len(numbers)-1]
	}
}

// keep takes the entries that are gone out of a posting, and reports whether any may be left: of those that it does not name nobody knows.
func (a *aliveSet) keep(p *posting) bool {
	if a != nil && a.n == 0 {
		return false
	}
	if a != nil {
		before := len(p.numbers)
		p.numbers = slices.DeleteFunc(p.numbers, func(n int64) bool {
			i := n - a.first
			return i < 0 || i/64 >= int64(len(a.bits)) || a.bits[i/64]>>(i%64)&1 == 0
		})
		p.total -= int64(before - len(p.numbers))
	}
	return p.total > 0
}

// least takes the least fingerprint off the readers, with its entries in all of them; nil at their end.
func least(readers []*reader) (*posting, error) {
	var out *posting
	for _, r := range readers {
		p, err := r.peek()
		if err != nil {
			return nil, err
		}
		if p != nil && (out == nil || p.print < out.print) {
			out = p
		}
	}
	if out == nil {
		return nil, nil //nolint:nilnil // the end
	}
	found := posting{print: out.print}
	for _, r := range readers { // in the order of their entries
		if p, _ := r.peek(); p != nil && p.print == found.print { // it has what it shows
			found.add(p.total, p.numbers)
			r.at++
		}
	}
	return &found, nil
}

// reader reads the postings of a segment in order.
type reader struct {
	db     *gorm.DB
	seg    segmentRow
	bucket int64 // to be read next
	held   []posting
	at     int
}

// peek returns the next posting; nil at the end.
func (r *reader) peek() (*posting, error) {
	for r.at == len(r.held) {
		if r.bucket >= 1<<r.seg.Bits {
			return nil, nil //nolint:nilnil // the end
		}
		var rows []blockRow
		err := r.db.Select("segment", "bucket", "data").Where("segment = ? AND bucket >= ? AND bucket < ?", r.seg.ID, r.bucket, r.bucket+readBuckets).Order("bucket").Find(&rows).Error
		if err != nil {
			return nil, err
		}
		r.held, r.at = r.held[:0], 0
		for _, b := range rows {
			err := decodeBlock(b.Data, b.Bucket, r.seg.Bits, r.seg.First, nil, func(p posting) {
				p.numbers = slices.Clone(p.numbers)
				r.held = append(r.held, p)
			})
			if err != nil {
				return nil, fmt.Errorf("segment %d: %w", r.seg.ID, err)
			}
		}
		r.bucket += readBuckets
	}
	return &r.held[r.at], nil
}

// writer writes the postings of a segment in order.
type writer struct {
	db     *gorm.DB
	seg    segmentRow
	bucket int64 // of what is held
	held   []posting
	blocks []blockRow
	prints int64
}

func (w *writer) add(p *posting) error {
	if b := bucketOf(p.print, w.seg.Bits); b != w.bucket {
		if err := w.close(writeBlocks); err != nil {
			return err
		}
		w.bucket = b
	}
	w.held = append(w.held, *p)
	w.prints++
	return nil
}

// close closes a block, and writes those that there are if they are so many.
func (w *writer) close(least int) error {
	if len(w.held) > 0 {
		w.blocks = append(w.blocks, blockRow{w.seg.ID, w.bucket, w.seg.Tenant, encodeBlock(nil, w.held, w.bucket, w.seg.Bits, w.seg.First)})
		w.held = w.held[:0]
	}
	if len(w.blocks) < least {
		return nil
	}
	err := w.db.Transaction(func(tx *gorm.DB) error {
		res := tx.Model(&segmentRow{}).Where("id = ? AND state = ?", w.seg.ID, building).Update("state", building) // holds off whoever removes it
		if res.Error == nil && res.RowsAffected != 1 {
			return errLostLead
		}
		if res.Error != nil {
			return res.Error
		}
		return database.Insert(tx, w.blocks, "")
	})
	w.blocks = w.blocks[:0]
	return err
}

func (w *writer) end() error { return w.close(0) }
