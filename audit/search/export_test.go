package search

import (
	"context"

	"gorm.io/gorm"
)

// ListUnit is listUnit.
const ListUnit = listUnit

// FindWithin finds a page of records with other limits than fewSets and scanWindow. It returns their ids and the time of the last.
func FindWithin(tx *gorm.DB, q Query, few, window int) (ids []string, last int64, err error) {
	f, err := newFinder(q, q.Limit)
	if err != nil {
		return nil, 0, err
	}
	f.few, f.window = few, window
	places, err := f.find(tx)
	for _, p := range places {
		ids, last = append(ids, p.ID), p.Time
	}
	return ids, last, err
}

// InChunks returns a reader that counts so many records of arms in one transaction, without a pause.
func (r *Reader) InChunks(n int) *Reader { return &Reader{db: r.db, subject: r.subject, chunk: n} }

// CountOnce does the first of what ArmSums does: one transaction, as if the call was cut off then.
func (r *Reader) CountOnce(ctx context.Context, rollout string, since int64) error {
	err := openWindow(r.db.WithContext(ctx), rollout, since)
	if err == nil {
		_, _, err = r.count(r.db.WithContext(ctx), rollout)
	}
	return err
}
