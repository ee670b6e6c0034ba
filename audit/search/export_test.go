package search

import "gorm.io/gorm"

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
