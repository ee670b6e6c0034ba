package accessreview

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type campaignRow struct {
	ID, Tenant, Name       string
	Owner, OwnerName       string
	StartedBy, StartedName string
	Started, Due, Ended    int64
	CancelledBy            string
	Cancellation           string
}

func (campaignRow) TableName() string { return "access_reviews" }

type itemRow struct {
	Review            string
	Kind              Kind
	Item, Name, Holds string
	Decision          Decision
	DecidedBy         string
	DecidedName       string
	Decided           int64
	Reason            string
	Claimed, Recorded int64
	Done              int64
	Failure           string
}

func (itemRow) TableName() string { return "access_review_items" }

func (r campaignRow) public() Campaign {
	return Campaign{
		ID: r.ID, Tenant: r.Tenant, Name: r.Name, Owner: r.Owner, OwnerName: r.OwnerName, StartedBy: r.StartedBy, StartedName: r.StartedName,
		Started: at(r.Started), Due: at(r.Due), Ended: at(r.Ended), CancelledBy: r.CancelledBy, Cancellation: r.Cancellation,
	}
}

func (r itemRow) public() Item {
	i := Item{
		Kind: r.Kind, ID: r.Item, Name: r.Name, Decision: r.Decision, By: r.DecidedBy, ByName: r.DecidedName, Reason: r.Reason, Decided: at(r.Decided),
		Done: at(r.Done), Failure: fault.Code(r.Failure), recorded: r.Recorded != 0,
	}
	_ = json.Unmarshal([]byte(r.Holds), &i.Holds) // what pack wrote
	return i
}

func at(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

func pack(list []string) string {
	if list == nil {
		list = []string{}
	}
	b, _ := json.Marshal(list) // strings always have a form
	return string(b)
}

// create stores a campaign with its entries.
func (s *Service) create(ctx context.Context, c Campaign, items []itemRow) error {
	return s.change(ctx, "start an access review", func(tx *gorm.DB) error {
		// One campaign of a tenant begins at a time.
		if err := tx.Exec("UPDATE identity_tenants SET name = name WHERE id = ?", c.Tenant).Error; err != nil {
			return err
		}
		var n int64
		if err := tx.Model(&campaignRow{}).Where("tenant = ? AND ended = 0", c.Tenant).Count(&n).Error; err != nil {
			return err
		}
		if n > 0 {
			return fault.New(fault.CodeConflict, fault.Say("accessreview.open"))
		}
		if err := tx.Create(&campaignRow{
			ID: c.ID, Tenant: c.Tenant, Name: c.Name, Owner: c.Owner, OwnerName: c.OwnerName, StartedBy: c.StartedBy, StartedName: c.StartedName,
			Started: c.Started.UnixMicro(), Due: c.Due.UnixMicro(),
		}).Error; err != nil {
			return err
		}
		for n := range items {
			items[n].Review = c.ID
		}
		return database.Insert(tx, items, "")
	})
}

// Campaigns returns the campaigns of a tenant, newest first.
func (s *Service) Campaigns(ctx context.Context, tenant string) ([]Campaign, error) {
	var rows []campaignRow
	if err := s.db.WithContext(ctx).Where("tenant = ?", tenant).Order("started DESC, id DESC").Find(&rows).Error; err != nil {
		return nil, database.Unavailable("list access reviews", err)
	}
	var counts []struct {
		Review        string
		Entries, Open int
	}
	err := s.db.WithContext(ctx).Model(&itemRow{}).
		Select("review, COUNT(*) AS entries, SUM(CASE WHEN decision = '' THEN 1 ELSE 0 END) AS open").
		Where("review IN (SELECT id FROM access_reviews WHERE tenant = ?)", tenant).Group("review").Scan(&counts).Error
	if err != nil {
		return nil, database.Unavailable("list access reviews", err)
	}
	out := make([]Campaign, len(rows))
	for n, r := range rows {
		out[n] = r.public()
		for _, c := range counts {
			if c.Review == r.ID {
				out[n].All, out[n].Waiting = c.Entries, c.Open
			}
		}
	}
	return out, nil
}

func (c *Campaign) count(items []Item) {
	c.All = len(items)
	for _, i := range items {
		if i.Decision == "" {
			c.Waiting++
		}
	}
}

// Campaign returns a campaign of a tenant with its entries, accounts first, by name. Error: CodeNotFound.
func (s *Service) Campaign(ctx context.Context, tenant, id string) (Campaign, []Item, error) {
	var rows []campaignRow
	if err := s.db.WithContext(ctx).Where("id = ? AND tenant = ?", id, tenant).Find(&rows).Error; err != nil {
		return Campaign{}, nil, database.Unavailable("read an access review", err)
	}
	if len(rows) == 0 {
		return Campaign{}, nil, fault.New(fault.CodeNotFound, fault.Say("thing.access_review"), id)
	}
	c := rows[0].public()
	items, err := s.items(ctx, id)
	c.count(items)
	return c, items, err
}

func (s *Service) items(ctx context.Context, id string) ([]Item, error) {
	var rows []itemRow
	err := s.db.WithContext(ctx).Where("review = ?", id).Order("kind DESC, name, item").Find(&rows).Error
	return public(rows), database.Unavailable("read an access review", err)
}

func public(rows []itemRow) []Item {
	out := make([]Item, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out
}

// apart returns CodeSecondPerson if who may not decide about an entry, because it is his own or his work.
func (s *Service) apart(ctx context.Context, c Campaign, i Item, who string) error {
	if i.Kind == KindKey {
		k, err := s.cfg.Identity.Key(ctx, c.Tenant, i.ID)
		if err == nil && (k.Owner == who || k.CreatedBy == who) {
			err = fault.New(fault.CodeSecondPerson)
		}
		return err
	}
	if i.Kind == KindService {
		a, err := s.cfg.Identity.ServiceAccount(ctx, c.Tenant, i.ID)
		if err == nil && (a.Owner == who || a.CreatedBy == who) {
			err = fault.New(fault.CodeSecondPerson)
		}
		return err
	}
	if i.ID == who {
		return fault.New(fault.CodeSecondPerson)
	}
	return database.Unavailable("decide in an access review", approval.Independent(s.db.WithContext(ctx), who, i.ID, s.now()))
}

// decide stores the decision about an entry. Error: CodeConflict where it was decided otherwise; a campaign ends when nothing waits, so what
// waits is never of one that has ended.
func (s *Service) decide(ctx context.Context, c Campaign, i Item) error {
	return s.change(ctx, "decide in an access review", func(tx *gorm.DB) error {
		res := entry(tx, c, i).Where("decision = '' AND holds = ?", pack(i.Holds)).Updates(map[string]any{
			"decision": i.Decision, "decided_by": i.By, "decided_name": i.ByName, "decided": i.Decided.UnixMicro(), "reason": i.Reason,
		})
		if res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		var same int64
		if err := entry(tx, c, i).Where("decision = ? AND decided_by = ?", i.Decision, i.By).Count(&same).Error; err != nil || same > 0 {
			return err
		}
		return fault.New(fault.CodeConflict, fault.Say("accessreview.decided"))
	})
}

// cancel decides that what waits stays as it is.
func (s *Service) cancel(ctx context.Context, c Campaign, by, reason string) error {
	return s.change(ctx, "cancel an access review", func(tx *gorm.DB) error {
		res := tx.Model(&campaignRow{}).Where("id = ? AND ended = 0 AND cancelled_by = '' AND due > ?", c.ID, s.now().UnixMicro()).
			Updates(map[string]any{"cancelled_by": by, "cancellation": reason})
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 0 {
			return fault.New(fault.CodeConflict, fault.Say("accessreview.ended"))
		}
		return tx.Model(&itemRow{}).Where("review = ? AND decision = ''", c.ID).Updates(map[string]any{"decision": Cancelled, "decided": s.now().UnixMicro()}).Error
	})
}

// recorded notes that the log has been told that an entry ends.
func (s *Service) recorded(ctx context.Context, c Campaign, i Item) error {
	err := entry(s.db.WithContext(ctx), c, i).Update("recorded", s.now().UnixMicro()).Error
	return database.Unavailable("note a record in an access review", err)
}

// showAnew replaces what an entry without a decision is said to hold.
func (s *Service) showAnew(ctx context.Context, c Campaign, r itemRow) error {
	return s.change(ctx, "show anew in an access review", func(tx *gorm.DB) error {
		return entry(tx, c, r.public()).Where("decision = ''").Updates(map[string]any{"holds": r.Holds, "name": r.Name}).Error
	})
}

// lapse decides about what nobody has decided about.
func (s *Service) lapse(ctx context.Context, c Campaign) error {
	return s.change(ctx, "lapse", func(tx *gorm.DB) error {
		return tx.Model(&itemRow{}).Where("review = ? AND decision = ''", c.ID).
			Updates(map[string]any{"decision": Lapsed, "decided": s.now().UnixMicro()}).Error
	})
}

// open returns the campaigns that have not ended.
func (s *Service) open(ctx context.Context) ([]Campaign, error) {
	var rows []campaignRow
	err := s.db.WithContext(ctx).Where("ended = 0").Order("due").Find(&rows).Error
	out := make([]Campaign, len(rows))
	for n, r := range rows {
		out[n] = r.public()
	}
	return out, database.Unavailable("look for open access reviews", err)
}

// unfinished returns what is to be ended and is not.
func (s *Service) unfinished(ctx context.Context, c Campaign) ([]Item, error) {
	var rows []itemRow
	err := s.db.WithContext(ctx).Where("review = ? AND decision IN ? AND done = 0", c.ID, []Decision{Ended, Lapsed}).Find(&rows).Error
	return public(rows), database.Unavailable("look for what an access review ends", err)
}

// claim takes an entry to end it, and reports whether nobody else is at it or has done it.
func (s *Service) claim(ctx context.Context, c Campaign, i Item) (bool, error) {
	now := s.now()
	res := entry(s.db.WithContext(ctx), c, i).Where("done = 0 AND claimed <= ?", now.Add(-claimTime).UnixMicro()).Update("claimed", now.UnixMicro())
	return res.RowsAffected > 0, database.Unavailable("claim in an access review", res.Error)
}

// unclaim lets others, or the next sweep, end an entry.
func (s *Service) unclaim(ctx context.Context, c Campaign, i Item) error {
	err := entry(s.db.WithContext(context.WithoutCancel(ctx)), c, i).Where("done = 0").Update("claimed", 0).Error
	return database.Unavailable("give back in an access review", err)
}

func (s *Service) finished(ctx context.Context, c Campaign, i Item) error {
	err := entry(s.db.WithContext(ctx), c, i).Updates(map[string]any{"done": i.Done.UnixMicro(), "failure": string(i.Failure)}).Error
	return database.Unavailable("end in an access review", err)
}

// close ends a campaign in which nothing waits and nothing is to be ended.
func (s *Service) close(ctx context.Context, c Campaign) error {
	return s.change(ctx, "close an access review", func(tx *gorm.DB) error {
		var left int64
		err := tx.Model(&itemRow{}).Where("review = ? AND (decision = '' OR decision IN ? AND done = 0)", c.ID, []Decision{Ended, Lapsed}).Count(&left).Error
		if err != nil || left > 0 {
			return err
		}
		return tx.Model(&campaignRow{}).Where("id = ? AND ended = 0", c.ID).Update("ended", s.now().UnixMicro()).Error
	})
}

func entry(db *gorm.DB, c Campaign, i Item) *gorm.DB {
	return db.Model(&itemRow{}).Where("review = ? AND kind = ? AND item = ?", c.ID, i.Kind, i.ID)
}

func (s *Service) change(ctx context.Context, step string, fn func(tx *gorm.DB) error) error {
	return database.Unavailable(step, s.db.WithContext(ctx).Transaction(fn))
}
