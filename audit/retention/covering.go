package retention

import (
	"context"
	"errors"
	"slices"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// turnSlack is how far, in microseconds, the records of a turn may lie from the time in which it is known to have been.
	turnSlack = int64(3_600_000_000)
	// releaserBound is for how long, in microseconds, a hold goes on binding whoever released it: one person alone does not get past a hold.
	releaserBound = int64(24 * 3_600_000_000)
)

// Part is a part of what an erasure destroys, as far as holds go: all that is kept of a person, or what was said by one in a time. Zero times
// are all times; they are those of turns, not of records.
type Part struct {
	Subject string // as audit.Subject returns it
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
func (x *Keeper) Covering(ctx context.Context, tenant string, by record.Actor, reach Reach) (out []Covered, err error) {
	err = database.Snapshot(ctx, x.db, func(tx *gorm.DB) (err error) {
		out, err = x.covering(tx, tenant, by, reach, x.now().UnixMicro())
		return err
	})
	if err != nil {
		return nil, database.Unavailable("look for holds", err)
	}
	return out, nil
}

// WithoutHold does something for somebody in a transaction in which no hold covers what take says it is about, as [Keeper.Covering] says, but for those
// that are let pass. Nobody places or releases one beside it. Error: CodeHeld.
func (x *Keeper) WithoutHold(ctx context.Context, tenant string, by record.Actor, pass []string, take func(tx *gorm.DB) (Reach, error), do func(tx *gorm.DB) error) error {
	err := x.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return x.withoutHold(tx, tenant, by, pass, x.now().UnixMicro(), take, do)
	})
	return database.Unavailable("look for holds", err)
}

func (x *Keeper) withoutHold(tx *gorm.DB, tenant string, by record.Actor, pass []string, now int64, take func(tx *gorm.DB) (Reach, error), do func(tx *gorm.DB) error) error {
	if err := lockPruning(tx); err != nil {
		return err
	}
	reach, err := take(tx)
	if err != nil {
		return err
	}
	held, err := x.covering(tx, tenant, by, reach, now)
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
	var refused *fault.Phrase
	for _, c := range held {
		if slices.Contains(pass, c.Hold.ID) {
			continue
		}
		var why any = c.Hold.Reason
		if c.Hold.Tenant == "" {
			why = fault.Say("audit.hold_of_all_tenants")
		}
		switch {
		case c.Hold.Released == 0:
		case c.Hold.Releaser == "":
			why = fault.Say("audit.hold_released_unsigned", why)
		default:
			why = fault.Say("audit.hold_released_by_self", why)
		}
		cover := fault.Say("audit.hold_covers", c.Hold.ID, why)
		if refused != nil {
			cover = fault.Say("audit.hold_and_hold", *refused, cover)
		}
		refused = &cover
	}
	if refused == nil {
		return nil
	}
	return fault.New(fault.CodeHeld, *refused)
}

func (x *Keeper) covering(tx *gorm.DB, tenant string, by record.Actor, reach Reach, now int64) ([]Covered, error) {
	holds, err := bindingHolds(tx, tenant, ActorID(by), now)
	if err != nil || len(holds) == 0 {
		return nil, err
	}
	var subjects []string
	for _, p := range reach.Parts {
		subjects = append(subjects, p.Subject)
	}
	people, err := search.People(tx, tenant, subjects, x.Subject)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	var out []Covered
	for _, h := range holds {
		c := Covered{Hold: h}
		covers := reach.Unknown
		for _, p := range reach.Parts {
			yes, n, ids, err := x.covers(tx, h, tenant, p, people[p.Subject], now)
			if err != nil {
				return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
			}
			covers = covers || yes
			c.Records += n
			c.Examples = append(c.Examples, ids...)
		}
		if covers {
			c.Records, c.Examples = min(c.Records, search.MaxCount), c.Examples[:min(len(c.Examples), search.MaxExamples)]
			out = append(out, c)
		}
	}
	return out, nil
}

// covers says whether a hold covers a part, whose person has these records, and which of them.
func (x *Keeper) covers(tx *gorm.DB, h Hold, tenant string, p Part, of *search.Person, now int64) (yes bool, n int64, ids []string, err error) {
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
	some := search.Part{From: from, To: to, Request: h.Request, Actor: h.Actor}
	if h.Actor != "" { // he is the actor, or uses a key of his own
		some.OnBehalfOf = x.Subject(database.Text(tenant), h.Actor)
	}
	n, _, ids, err = of.Count(tx, some)
	// A hold on a time covers whoever did something in it, or does so now: the record of it may be on its way.
	whoever := h.Request == "" && h.Actor == ""
	now = min(now, to)
	return n > 0 || whoever && (h.Subject != "" || p.To != 0 || to > now), n, ids, err
}

// Refused reports whether an erasure was refused, and did not fail.
func Refused(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && (f.Kind() == fault.Conflict || f.Kind() == fault.Denied)
}
