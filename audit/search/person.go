package search

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// MaxCount bounds how many records [Person.Count] counts.
	MaxCount = 10_000
	// MaxExamples bounds how many ids [Person.Count] returns.
	MaxExamples = 3
	// maxPeriodCount is how many records of a period are counted.
	maxPeriodCount = 1_000_000
	// longActor is the length from which an actor may be stored cut off, so that nobody can say whose he is.
	longActor = 500
)

// CountRecords returns how many records of a person there are, at most 10000, and the time of the newest.
func (r *Reader) CountRecords(ctx context.Context, tenant, subject string) (n, newest int64, err error) {
	err = database.Snapshot(ctx, r.db, func(tx *gorm.DB) error {
		people, err := People(tx, tenant, []string{subject}, r.subject)
		if err == nil {
			n, newest, _, err = people[subject].Count(tx, Part{})
		}
		return err
	})
	if err != nil {
		return 0, 0, fault.Wrap(fmt.Errorf("count records: %w", err), fault.CodeDatabaseUnavailable)
	}
	return n, newest, nil
}

// CountPeriod returns how many records a tenant has in a period, and whether there are more than were counted: a million. Zero times are open.
func (r *Reader) CountPeriod(ctx context.Context, tenant string, from, to int64) (n int64, more bool, err error) {
	c := all(bounds{from: from, to: to}.on(), []condition{{"e.tenant = ?", []any{database.Text(tenant)}}})
	err = r.db.WithContext(ctx).Raw("SELECT COUNT(*) FROM (SELECT 1 FROM audit_events AS e WHERE "+c.sql+" LIMIT ?) AS part", append(c.args, maxPeriodCount+1)...).Scan(&n).Error
	if err != nil {
		return 0, false, fault.Wrap(fmt.Errorf("count records: %w", err), fault.CodeDatabaseUnavailable)
	}
	return min(n, maxPeriodCount), n > maxPeriodCount, nil
}

// Person finds the records of a person: those on behalf of the person, and of actors who are the person those on nobody's behalf.
type Person struct {
	tenant, subject string
	actors          []string
}

// Part is a part of the records of a person. Empty fields select all.
type Part struct {
	From, To int64 // unix microseconds, To is exclusive; with To 0 they are all times
	Request  string
	// Actor did it, or it was done on behalf of OnBehalfOf.
	Actor, OnBehalfOf string
}

// People returns these persons of a tenant, by what stands for them in records. It reads the actors of the tenant, of which subject makes a
// digest each, one by one and only once.
func People(tx *gorm.DB, tenant string, subjects []string, subject func(tenant, who string) string) (map[string]*Person, error) {
	out := map[string]*Person{}
	for _, x := range subjects {
		out[x] = &Person{tenant: database.Text(tenant), subject: database.Text(x)}
	}
	rows, err := tx.Table("audit_facets").Distinct("actor").Where("tenant = ? AND actor <> ''", value(tenant)).Rows()
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var actor string
		if err := rows.Scan(&actor); err != nil {
			return nil, err
		}
		if len(actor) >= longActor {
			for _, p := range out {
				p.actors = append(p.actors, actor)
			}
		} else if p := out[subject(tenant, actor)]; p != nil {
			p.actors = append(p.actors, actor)
		}
	}
	return out, rows.Err()
}

// Count counts the records of a part, and returns the time of the newest and the ids of the newest few.
func (p *Person) Count(tx *gorm.DB, part Part) (n, last int64, ids []string, err error) {
	var where []condition
	if part.To != 0 {
		where = append(where, condition{"e.time >= ? AND e.time < ?", []any{part.From, part.To}})
	}
	if part.Request != "" {
		where = append(where, condition{"e.request = ?", []any{part.Request}})
	}
	if part.Actor != "" {
		where = append(where, condition{"(e.actor = ? OR e.on_behalf_of = ?)", []any{part.Actor, part.OnBehalfOf}})
	}
	mine := []condition{{"e.on_behalf_of = ? AND e.on_behalf_of <> '' AND e.tenant = ?", []any{p.subject, p.tenant}}}
	if len(p.actors) > 0 {
		mine = append(mine, condition{
			"e.facet IN (SELECT f.id FROM audit_facets AS f WHERE f.tenant = ? AND f.actor IN ?) AND e.on_behalf_of = ''",
			[]any{value(p.tenant), p.actors},
		})
	}
	var found []place
	for _, m := range mine {
		c := all([]condition{m}, where)
		var k int64
		err := tx.Raw("SELECT COUNT(*) FROM (SELECT 1 FROM audit_events AS e WHERE "+c.sql+" LIMIT ?) AS part", append(slices.Clone(c.args), MaxCount)...).Scan(&k).Error
		if err != nil {
			return 0, 0, nil, err
		}
		var some []place
		err = tx.Raw("SELECT e.time, e.id FROM audit_events AS e WHERE "+c.sql+" ORDER BY e.time DESC, e.id DESC LIMIT ?", append(slices.Clone(c.args), MaxExamples)...).Scan(&some).Error
		if err != nil {
			return 0, 0, nil, err
		}
		n, found = n+k, append(found, some...)
	}
	slices.SortFunc(found, newest)
	for _, f := range found[:min(len(found), MaxExamples)] {
		ids = append(ids, f.ID)
	}
	if len(found) > 0 {
		last = found[0].Time
	}
	return min(n, MaxCount), last, ids, nil
}
