package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

type usageRow struct {
	Request      string `gorm:"column:request"`
	Digest       string `gorm:"column:digest"`
	Organisation string `gorm:"column:organisation"`
	Tenant       string `gorm:"column:tenant"`
	Project      string `gorm:"column:project"`
	Key          string `gorm:"column:api_key"`
	Actor        string `gorm:"column:actor"`
	Action       string `gorm:"column:action"`
	Model        string `gorm:"column:model"`
	Version      string `gorm:"column:model_version"`
	At           int64  `gorm:"column:at"`
	Prompt       int64  `gorm:"column:prompt_tokens"`
	Cached       int64  `gorm:"column:cached_tokens"`
	Completion   int64  `gorm:"column:completion_tokens"`
	Estimated    int64  `gorm:"column:estimated"`
	Cost         int64  `gorm:"column:cost"`
	Currency     string `gorm:"column:currency"`
	PriceBook    string `gorm:"column:price_book"`
	Energy       int64  `gorm:"column:energy"`
	EnergyMethod string `gorm:"column:energy_method"`
	Outcome      string `gorm:"column:outcome"`
	FirstToken   int64  `gorm:"column:first_token"`
	Total        int64  `gorm:"column:total"`
	RecordedAt   int64  `gorm:"column:recorded_at"`

	once bool
}

func (usageRow) TableName() string { return "billing_usage" }

// dailyRow is what one group used: stored by day, and the result of a report.
type dailyRow struct {
	Tenant     string `gorm:"column:tenant"`
	Key        string `gorm:"column:api_key"`
	Model      string `gorm:"column:model"`
	Day        string `gorm:"column:day"`
	Requests   int64  `gorm:"column:requests"`
	Estimated  int64  `gorm:"column:estimated"`
	Prompt     int64  `gorm:"column:prompt_tokens"`
	Cached     int64  `gorm:"column:cached_tokens"`
	Completion int64  `gorm:"column:completion_tokens"`
	Cost       int64  `gorm:"column:cost"`
	Energy     int64  `gorm:"column:energy"`
	Method     string `gorm:"column:energy_method"`
}

func (dailyRow) TableName() string { return "billing_usage_daily" }

// RecordUsage writes usages, their daily sums and what they spend of the budgets inside tx, which must be a transaction. The same usage again
// changes nothing. Another payload for a request that has one is CodeConflict, unless it is billed once, a usage that means nothing Invalid: if there was only that
// usage, nothing is changed; else tx must be rolled back to where it was. Token counts that no engine can mean are recorded as they were
// rated: bounded. If tx is rolled back, all of it is, and RecordUsage must be called again. It takes at most 10,000 usages at once.
func (l *Ledger) RecordUsage(tx *gorm.DB, usages ...Usage) error {
	fresh, err := l.record(tx, usages)
	kind := fault.KindOf(err)
	switch {
	case err != nil && len(usages) > 1 && (kind == fault.Conflict || kind == fault.Invalid): // they come again one by one and are counted then
	case fault.Is(err, fault.CodeConflict):
		l.metrics.usage.WithLabelValues("conflict").Inc()
	case err != nil:
		l.metrics.usage.WithLabelValues("failed").Inc()
	default:
		l.metrics.usage.WithLabelValues("new").Add(float64(fresh))
		l.metrics.usage.WithLabelValues("replay").Add(float64(len(usages) - fresh))
	}
	return err
}

// record returns how many of the usages are new.
func (l *Ledger) record(tx *gorm.DB, usages []Usage) (int, error) {
	if _, ok := tx.Statement.ConnPool.(gorm.TxCommitter); !ok {
		return 0, errors.New("record usage: not inside a transaction")
	}
	rows, err := usageRows(usages, l.now())
	if err != nil {
		return 0, fmt.Errorf("record usage: %w", err)
	}
	for i := range rows {
		rows[i].Organisation = l.organisationOf(rows[i])
	}
	added, err := insertUsage(tx, rows)
	if err != nil {
		return 0, fmt.Errorf("record usage: %w", err)
	}
	held := map[string][]*budgetLease{} // by request
	for _, r := range rows {
		if open := l.reservation(r.Request); open != nil {
			held[r.Request] = open.markRecorded()
		}
	}
	fresh := slices.DeleteFunc(rows, func(r usageRow) bool { return !added[r.Request] })
	if err := addDaily(tx, fresh); err != nil {
		return 0, fmt.Errorf("record daily usage: %w", err)
	}
	if err := l.spend(tx, fresh, held); err != nil {
		return 0, fmt.Errorf("record spending: %w", err)
	}
	return len(fresh), nil
}

// organisationOf returns whose budgets a usage counts against: the organisation at its admission, where this process still knows it, else that which
// its tenant has now.
func (l *Ledger) organisationOf(u usageRow) string {
	if r := l.reservation(u.Request); r != nil {
		return r.organisation
	}
	if l.cfg.Organisation == nil {
		return ""
	}
	return l.cfg.Organisation(u.Tenant)
}

func (u usageRow) scope() Scope {
	return Scope{Organisation: u.Organisation, Tenant: u.Tenant, Project: u.Project, Key: u.Key}
}

// usageRows returns the rows of the usages, one for each request, in the order of the requests: two replicas that book the same batch wait
// for each other and do not lock each other out.
func usageRows(usages []Usage, now time.Time) ([]usageRow, error) {
	rows := make([]usageRow, 0, len(usages))
	for _, u := range usages {
		if err := u.check(); err != nil {
			return nil, err
		}
		r, err := u.row(now)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b usageRow) int { return strings.Compare(a.Request, b.Request) })
	for i := 1; i < len(rows); i++ {
		if rows[i].Request == rows[i-1].Request && rows[i].Digest != rows[i-1].Digest && !rows[i].once {
			return nil, otherUsage(rows[i].Request)
		}
	}
	return slices.CompactFunc(rows, func(a, b usageRow) bool { return a.Request == b.Request }), nil
}

func (u Usage) row(now time.Time) (usageRow, error) {
	d, err := u.digest()
	estimated := int64(0)
	if u.Estimated {
		estimated = 1
	}
	u.Tokens = u.Tokens.Bounded()
	return usageRow{
		Request: u.Request, Digest: d, Tenant: u.Tenant, Project: u.Project, Key: u.Key, Actor: u.Actor, Action: u.Action,
		Model: u.Model, Version: u.Version, At: u.At, Prompt: u.Tokens.Prompt, Cached: u.Tokens.Cached,
		Completion: u.Tokens.Completion, Estimated: estimated, Cost: int64(u.Cost), Currency: u.Currency, PriceBook: u.PriceBook,
		Energy: u.Energy, EnergyMethod: u.EnergyMethod, Outcome: u.Outcome, FirstToken: max(0, u.FirstToken), Total: max(0, u.Total), RecordedAt: now.UnixMicro(), once: u.Once,
	}, err
}

// insertUsage returns the requests whose rows are new. The unique key decides, also between two transactions that race.
func insertUsage(tx *gorm.DB, rows []usageRow) (added map[string]bool, err error) {
	if added, err = database.InsertMissing(tx, rows, "request"); err != nil || len(added) == len(rows) {
		return added, err
	}
	digests := map[string]string{} // of those that are there
	var ids []string
	for _, r := range rows {
		if !added[r.Request] && !r.once {
			ids, digests[r.Request] = append(ids, r.Request), r.Digest
		}
	}
	var there []usageRow
	if err := tx.Select("request", "digest").Where("request IN ?", ids).Find(&there).Error; err != nil {
		return nil, err
	}
	if len(there) != len(ids) {
		return nil, errors.New("a usage neither exists nor can be inserted")
	}
	for _, r := range there {
		if r.Digest != digests[r.Request] {
			return nil, otherUsage(r.Request)
		}
	}
	return added, nil
}

func otherUsage(request string) error {
	return fault.New(fault.CodeConflict, fault.Say("billing.usage_differs", request))
}

// addDaily adds up in memory first: many usages are of few groups. Groups come in order, as rows of usage do.
func addDaily(tx *gorm.DB, fresh []usageRow) error {
	type group struct{ tenant, key, model, day string }
	sums := map[group]*Row{}
	for _, u := range fresh {
		g := group{u.Tenant, u.Key, u.Model, dayOf(u.At)}
		if sums[g] == nil {
			sums[g] = &Row{}
		}
		tokens := Tokens{Prompt: u.Prompt, Cached: u.Cached, Completion: u.Completion}
		if err := sums[g].add(Row{Requests: 1, Estimated: u.Estimated, Tokens: tokens, Cost: Money(u.Cost), Energy: u.Energy, EnergyMethod: u.EnergyMethod}); err != nil {
			return err
		}
	}
	rows := make([]dailyRow, 0, len(sums))
	for g, s := range sums {
		rows = append(rows, dailyRow{
			g.tenant, g.key, g.model, g.day, s.Requests, s.Estimated, s.Tokens.Prompt, s.Tokens.Cached, s.Tokens.Completion, int64(s.Cost), s.Energy, s.EnergyMethod,
		})
	}
	slices.SortFunc(rows, func(a, b dailyRow) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Key, b.Key), strings.Compare(a.Model, b.Model), strings.Compare(a.Day, b.Day))
	})
	return database.Insert(tx, rows, "ON CONFLICT (tenant, api_key, model, day) DO UPDATE SET "+added("billing_usage_daily",
		"requests", "estimated", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "energy")+", energy_method = "+mergedMethod)
}

// mergedMethod is how the energy is known of the row that is there and the one that is inserted, as [cost.MergeMethods] says.
const mergedMethod = "CASE WHEN excluded.energy_method = '' OR excluded.energy_method = billing_usage_daily.energy_method THEN billing_usage_daily.energy_method " +
	"WHEN billing_usage_daily.energy_method = '' THEN excluded.energy_method ELSE 'mixed' END"

// added is the assignments that add a row that is inserted to the one that is there.
func added(table string, columns ...string) string {
	sums := make([]string, len(columns))
	for i, c := range columns {
		sums[i] = c + " = " + table + "." + c + " + excluded." + c
	}
	return strings.Join(sums, ", ")
}

// spend adds the costs to every budget that covers the requests and takes them out of the leases that held them: those of this process's
// reservations, else those an earlier process on this node left behind.
func (l *Ledger) spend(tx *gorm.DB, fresh []usageRow, held map[string][]*budgetLease) error {
	budgets, err := budgetsOf(tx, fresh)
	if err != nil {
		return err
	}
	spent, leased, former := map[leaseKey]Money{}, map[string]Money{}, map[leaseKey]Money{}
	for _, u := range fresh {
		for _, b := range budgets.budgetsFor(u.scope(), nil) {
			if u.Cost == 0 {
				continue
			}
			key := leaseKey{b.id, b.period.id(time.UnixMicro(u.At), b.loc)}
			lease := ""
			for _, s := range held[u.Request] {
				if s.key.budget == b.id {
					lease, key = s.rowID, s.key
				}
			}
			if spent[key] > math.MaxInt64-Money(u.Cost) {
				return fmt.Errorf("what is spent of budget %s exceeds 63 bits", b.id)
			}
			spent[key] += Money(u.Cost)
			if lease != "" {
				leased[lease] += Money(u.Cost)
			} else {
				former[key] += Money(u.Cost)
			}
		}
	}
	if err := addSpent(tx, spent); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(leased)) {
		if err := spendFromLease(tx, id, leased[id]); err != nil {
			return err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(former), leaseKey.compare) {
		if err := spendFromPreviousProcess(tx, key, l.cfg.Node, l.owner, former[key]); err != nil {
			return err
		}
	}
	return nil
}

// budgetsOf returns the budgets that cover what costs, and maybe others.
func budgetsOf(tx *gorm.DB, fresh []usageRow) (*terms, error) {
	tenants, keys := map[string]bool{}, map[string]bool{"": true}
	for _, u := range fresh {
		if u.Cost == 0 {
			continue
		}
		for _, of := range []Scope{{Organisation: u.Organisation}, {Tenant: u.Tenant, Key: u.Key}, {Tenant: u.Tenant, Project: u.Project}} {
			tenant, key := of.columns()
			tenants[tenant], keys[key] = true, true
		}
	}
	out := &terms{organisations: map[string][]*budget{}, tenants: map[string][]*budget{}, budgets: map[string]*budget{}}
	if len(tenants) == 0 {
		return out, nil
	}
	var rows []budgetRow
	err := tx.Select(budgetRow{}.columns()).
		Where("tenant IN ? AND api_key IN ?", slices.Collect(maps.Keys(tenants)), slices.Collect(maps.Keys(keys))).Find(&rows).Error
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		b, err := r.budget()
		if err != nil {
			return nil, err
		}
		out.add(b)
	}
	return out, nil
}

func addSpent(tx *gorm.DB, spent map[leaseKey]Money) error {
	rows := make([]spendRow, 0, len(spent))
	for _, key := range slices.SortedFunc(maps.Keys(spent), leaseKey.compare) {
		rows = append(rows, spendRow{key.budget, key.period, int64(spent[key])})
	}
	return database.Insert(tx, rows, "ON CONFLICT (budget, period) DO UPDATE SET "+added("billing_spend", "spent"))
}

// recorded returns which of the requests have a committed usage row.
func (s store) recorded(ctx context.Context, requests []string) (map[string]bool, error) {
	var found []string
	err := s.db.WithContext(ctx).Model(&usageRow{}).Where("request IN ?", requests).Pluck("request", &found).Error
	out := make(map[string]bool, len(found))
	for _, id := range found {
		out[id] = true
	}
	return out, err
}

func (s store) costOf(ctx context.Context, tenant, prefix string) (Money, string, error) {
	var sum struct {
		Cost     int64
		Currency string
	}
	err := s.db.WithContext(ctx).Model(&usageRow{}).Select("COALESCE(SUM(cost), 0) AS cost, COALESCE(MAX(currency), '') AS currency").
		Where("request BETWEEN ? AND ? AND tenant = ?", prefix+"0", prefix+strings.Repeat("9", 19), tenant).Scan(&sum).Error // digits follow each other in every collation
	return Money(sum.Cost), sum.Currency, err
}
