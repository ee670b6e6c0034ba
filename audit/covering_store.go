package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/facet"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// countMost bounds how many records are counted: behind it only their number is unknown.
	countMost = 10_000
	// examples is how many records stand for all that a hold covers.
	examples = 3
	// turnSlack is how far, in microseconds, the records of a turn may lie from the time in which it is known to have been.
	turnSlack = int64(3_600_000_000)
	// releaserBound is for how long, in microseconds, a hold goes on binding whoever released it: one person alone does not get past a hold.
	releaserBound = int64(24 * 3_600_000_000)
	// longActor is the length from which an actor may be stored cut off, so that nobody can say whose he is.
	longActor = 500
)

// Part is a part of what an erasure destroys, as far as holds go: all that is kept of a person, or what was said by one in a time. Zero times
// are all times; they are those of turns, not of records.
type Part struct {
	Subject string // as [Subject] returns it
	From    int64  // unix microseconds
	To      int64
}

// Reach is what an erasure destroys. Unknown says that nobody can tell whose some of it is.
type Reach struct {
	Parts   []Part
	Unknown bool
}

// Covered is a hold that covers some of what an erasure would destroy: an active one, or one that binds whoever would erase though it was released.
type Covered struct {
	Hold     Hold
	Records  int64    // that it covers, at most 10000 counted
	Examples []string // ids, newest first
}

// Covering returns the holds that cover any of what an erasure by somebody would destroy, by id: the active ones, and those that he, or no
// account, has released within the last 24 hours. What cannot be told counts as covered: the records of now may be on their way, and where nobody knows who took
// part it may be anybody.
func (l *Log) Covering(ctx context.Context, tenant string, by Actor, reach Reach) (out []Covered, err error) {
	err = database.Snapshot(ctx, l.store.db, func(tx *gorm.DB) (err error) {
		out, err = l.store.covering(tx, tenant, by, reach, l.now().UnixMicro())
		return err
	})
	if err != nil {
		return nil, database.Unavailable("look for holds", err)
	}
	return out, nil
}

// CountRecords returns how many records of a person there are, at most 10000, and the time of the newest.
func (l *Log) CountRecords(ctx context.Context, tenant, subject string) (n, newest int64, err error) {
	err = database.Snapshot(ctx, l.store.db, func(tx *gorm.DB) error {
		of, err := l.store.recordsOf(tx, tenant, []string{subject})
		if err == nil {
			n, newest, _, err = of[subject].count(tx, nil)
		}
		return err
	})
	if err != nil {
		return 0, 0, fault.Wrap(fmt.Errorf("count records: %w", err), fault.CodeDatabaseUnavailable)
	}
	return n, newest, nil
}

// countPeriodMost is how many records of a period are counted.
const countPeriodMost = 1_000_000

// CountPeriod returns how many records a tenant has in a period, and whether there are more than were counted: a million. Zero times are open.
func (l *Log) CountPeriod(ctx context.Context, tenant string, from, to int64) (n int64, more bool, err error) {
	c := all(bounds{from: from, to: to}.on(), []condition{{"e.tenant = ?", []any{column(tenant)}}})
	err = l.store.db.WithContext(ctx).Raw("SELECT COUNT(*) FROM (SELECT 1 FROM audit_events AS e WHERE "+c.sql+" LIMIT ?) AS part", append(c.args, countPeriodMost+1)...).Scan(&n).Error
	if err != nil {
		return 0, false, fault.Wrap(fmt.Errorf("count records: %w", err), fault.CodeDatabaseUnavailable)
	}
	return min(n, countPeriodMost), n > countPeriodMost, nil
}

// WithoutHold does something for somebody in a transaction in which no hold covers what take says it is about, as [Log.Covering] says, but for those
// that are let pass. Nobody places or releases one beside it. Error: CodeHeld.
func (l *Log) WithoutHold(ctx context.Context, tenant string, by Actor, pass []string, take func(tx *gorm.DB) (Reach, error), do func(tx *gorm.DB) error) error {
	err := l.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return l.store.withoutHold(tx, tenant, by, pass, l.now().UnixMicro(), take, do)
	})
	return database.Unavailable("look for holds", err)
}

func (s *store) withoutHold(tx *gorm.DB, tenant string, by Actor, pass []string, now int64, take func(tx *gorm.DB) (Reach, error), do func(tx *gorm.DB) error) error {
	if err := lockPruning(tx); err != nil {
		return err
	}
	reach, err := take(tx)
	if err != nil {
		return err
	}
	held, err := s.covering(tx, tenant, by, reach, now)
	if err != nil {
		return err
	}
	if err := Held(held, pass); err != nil {
		return err
	}
	return do(tx)
}

// Held is the refusal that holds are the reason of, nil if all are let pass. It keeps to itself why the operator holds what is of all tenants. Error:
// CodeHeld.
func Held(held []Covered, pass []string) error {
	var english, chinese []string
	for _, c := range held {
		if slices.Contains(pass, c.Hold.ID) {
			continue
		}
		en, zh := c.Hold.Reason, c.Hold.Reason
		if c.Hold.Tenant == "" {
			en, zh = "of all tenants", "涵盖所有租户"
		}
		switch {
		case c.Hold.Released == 0:
		case c.Hold.Releaser == "":
			en, zh = en+"; released less than 24 hours ago by somebody who was not signed in", zh+"；24 小时内由未登录者解除"
		default:
			en, zh = en+"; released by yourself less than 24 hours ago", zh+"；24 小时内由您本人解除"
		}
		english, chinese = append(english, c.Hold.ID+" ("+en+")"), append(chinese, c.Hold.ID+"（"+zh+"）")
	}
	if len(english) == 0 {
		return nil
	}
	return fault.New(fault.CodeHeld, fault.Say(strings.Join(english, "; "), strings.Join(chinese, "；")))
}

func (s *store) covering(tx *gorm.DB, tenant string, by Actor, reach Reach, now int64) ([]Covered, error) {
	holds, err := bindingHolds(tx, tenant, ActorID(by), now)
	if err != nil || len(holds) == 0 {
		return nil, err
	}
	var subjects []string
	for _, p := range reach.Parts {
		subjects = append(subjects, p.Subject)
	}
	people, err := s.recordsOf(tx, tenant, subjects)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	var out []Covered
	for _, h := range holds {
		c := Covered{Hold: h}
		covers := reach.Unknown
		for _, p := range reach.Parts {
			yes, n, ids, err := s.covers(tx, h, p, people[p.Subject], now)
			if err != nil {
				return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
			}
			covers = covers || yes
			c.Records += n
			c.Examples = append(c.Examples, ids...)
		}
		if covers {
			c.Records, c.Examples = min(c.Records, countMost), c.Examples[:min(len(c.Examples), examples)]
			out = append(out, c)
		}
	}
	return out, nil
}

// covers says whether a hold covers a part, whose person has these records, and which of them.
func (s *store) covers(tx *gorm.DB, h Hold, p Part, of *recordsOf, now int64) (yes bool, n int64, ids []string, err error) {
	from, to := p.From, p.To
	if from != 0 {
		from -= turnSlack
	}
	if to == 0 || to > now {
		to = now // what comes later goes on
	}
	to += turnSlack // what is on its way
	from = max(from, h.From)
	if h.To != 0 {
		to = min(to, h.To)
	}
	if h.Subject != "" && h.Subject != p.Subject || from >= to {
		return false, 0, nil, nil
	}
	where := []condition{{"e.time >= ? AND e.time < ?", []any{from, to}}}
	if h.Request != "" {
		where = append(where, condition{"e.request = ?", []any{h.Request}})
	}
	if h.Actor != "" {
		// He is the actor, or uses a key of his own.
		where = append(where, condition{"(e.actor = ? OR e.on_behalf_of = ?)", []any{h.Actor, s.subject(of.tenant, h.Actor)}})
	}
	n, _, ids, err = of.count(tx, where)
	// A hold on a time covers whoever did something in it, or does so now: the record of it may be on its way.
	whoever := h.Request == "" && h.Actor == ""
	now = min(now, to)
	return n > 0 || whoever && (h.Subject != "" || p.To != 0 || to > now), n, ids, err
}

// recordsOf finds the records of a person: those on behalf of the person, and of actors who are the person those on nobody's behalf.
type recordsOf struct {
	tenant, subject string
	actors          []string
}

// recordsOf is about several persons at once: the actors of the tenant, of which a digest is made each, are read one by one and only once.
func (s *store) recordsOf(tx *gorm.DB, tenant string, subjects []string) (map[string]*recordsOf, error) {
	out := map[string]*recordsOf{}
	for _, x := range subjects {
		out[x] = &recordsOf{tenant: column(tenant), subject: column(x)}
	}
	rows, err := tx.Table("audit_facets").Distinct("actor").Where("tenant = ? AND actor <> ''", facet.Value(tenant)).Rows()
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
			for _, of := range out {
				of.actors = append(of.actors, actor)
			}
		} else if of := out[s.subject(tenant, actor)]; of != nil {
			of.actors = append(of.actors, actor)
		}
	}
	return out, rows.Err()
}

// count counts the records that meet the conditions, on a table called e, and returns the newest ones.
func (of *recordsOf) count(tx *gorm.DB, where []condition) (n, last int64, ids []string, err error) {
	mine := []condition{{"e.on_behalf_of = ? AND e.on_behalf_of <> '' AND e.tenant = ?", []any{of.subject, of.tenant}}}
	if len(of.actors) > 0 {
		mine = append(mine, condition{
			"e.facet IN (SELECT f.id FROM audit_facets AS f WHERE f.tenant = ? AND f.actor IN ?) AND e.on_behalf_of = ''",
			[]any{facet.Value(of.tenant), of.actors},
		})
	}
	var found []place
	for _, m := range mine {
		c := all([]condition{m}, where)
		var k int64
		err := tx.Raw("SELECT COUNT(*) FROM (SELECT 1 FROM audit_events AS e WHERE "+c.sql+" LIMIT ?) AS part", append(slices.Clone(c.args), countMost)...).Scan(&k).Error
		if err != nil {
			return 0, 0, nil, err
		}
		var some []place
		err = tx.Raw("SELECT e.time, e.id FROM audit_events AS e WHERE "+c.sql+" ORDER BY e.time DESC, e.id DESC LIMIT ?", append(slices.Clone(c.args), examples)...).Scan(&some).Error
		if err != nil {
			return 0, 0, nil, err
		}
		n, found = n+k, append(found, some...)
	}
	slices.SortFunc(found, newest)
	for _, p := range found[:min(len(found), examples)] {
		ids = append(ids, p.ID)
	}
	if len(found) > 0 {
		last = found[0].Time
	}
	return min(n, countMost), last, ids, nil
}

// refusedAfter reports whether an erasure was refused, and did not fail.
func refusedAfter(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && (f.Kind() == fault.Conflict || f.Kind() == fault.Denied)
}
