package sla

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
)

// Service counts what became of requests, and reports it. It is safe for concurrent use.
type Service struct {
	cfg  Config
	db   *gorm.DB
	zone *time.Location
	log  *slog.Logger
	now  func() time.Time

	mu     sync.Mutex
	pruned time.Time // when old hours were removed last
	since  *int64    // see countedSince; nil before it was read
}

// New returns the service. Months begin in the zone.
func New(cfg Config, db *gorm.DB, zone *time.Location, log *slog.Logger) *Service {
	return &Service{cfg: cfg.withDefaults(), db: db, zone: zone, log: log.With(slog.String("component", "sla")), now: time.Now}
}

type hourRow struct {
	Hour      int64
	Tenant    string
	Model     string
	Class     string
	Counts    []byte
	Latencies []byte
}

func (hourRow) TableName() string { return "sla_hours" }

func (r hourRow) key() key { return key{r.Hour, scope{r.Model, r.Tenant, r.Class}} }

// maxName bounds what names a row.
const maxName = 256

// stored is a name as the table has it.
func stored(s string) string {
	s = database.Text(s)
	if len(s) > maxName {
		s = database.Text(s[:maxName])
	}
	return s
}

const pruneEvery = 24 * time.Hour

// Add counts records in the transaction that stores them. An hour that cannot be read keeps what it has, and the records that belong there are told in the log
// and not counted: they must not keep the audit log from being stored.
//
// Other transactions that count in the same hours wait for this one until it ends. None waits for another in a circle: each first makes the rows that are
// missing, all of them, and only then locks rows, and does either in the order of their names by bytes.
func (s *Service) Add(tx *gorm.DB, events []record.Event) error {
	since, err := s.countedSince(tx)
	if err != nil {
		return fmt.Errorf("read since when requests are counted: %w", err)
	}
	cells := map[key]*cell{}
	for i := range events {
		s.cfg.count(cells, &events[i], since)
	}
	if len(cells) == 0 {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(cells), compareKeys)
	for _, step := range []func(*gorm.DB, []key, map[key]*cell) error{addMissing, s.addTo} {
		for part := range slices.Chunk(keys, 200) {
			if err := step(tx, part, cells); err != nil {
				return fmt.Errorf("count requests by hours: %w", err)
			}
		}
	}
	return s.prune(tx)
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.hour, b.hour), cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.model, b.model), cmp.Compare(a.class, b.class))
}

// order is that of compareKeys.
func order(tx *gorm.DB) string {
	if database.IsSQLite(tx) {
		return "hour, tenant, model, class"
	}
	return `hour, tenant COLLATE "C", model COLLATE "C", class COLLATE "C"`
}

func addMissing(tx *gorm.DB, keys []key, _ map[key]*cell) error {
	empty := newCell()
	fresh := make([]hourRow, len(keys))
	for i, k := range keys {
		fresh[i] = hourRow{k.hour, k.tenant, k.model, k.class, encodeCounts(&empty.counts), empty.latencies.encode()}
	}
	return database.Insert(tx, fresh, "ON CONFLICT (hour, tenant, model, class) DO NOTHING")
}

func (s *Service) addTo(tx *gorm.DB, keys []key, cells map[key]*cell) error {
	where := make([]any, 0, 4*len(keys))
	for _, k := range keys {
		where = append(where, k.hour, k.tenant, k.model, k.class)
	}
	var rows []hourRow
	err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where(database.OneOf(tx, len(keys), "hour", "tenant", "model", "class"), where...).
		Order(order(tx)).Find(&rows).Error
	if err != nil {
		return err
	}
	if len(rows) != len(keys) { // another replica has removed them since as too old: the next try makes them again
		return errors.New("hours went away while they were counted")
	}
	for _, r := range rows {
		have, err := r.cell()
		if err != nil {
			s.log.Error("requests are not counted: the counts of their hour cannot be read", slog.Int64("hour", r.Hour), slog.String("tenant", r.Tenant), slog.String("model", r.Model))
			continue
		}
		have.merge(cells[r.key()])
		err = tx.Model(&hourRow{}).Where("hour = ? AND tenant = ? AND model = ? AND class = ?", r.Hour, r.Tenant, r.Model, r.Class).
			Updates(map[string]any{"counts": encodeCounts(&have.counts), "latencies": have.latencies.encode()}).Error
		if err != nil {
			return err
		}
	}
	return nil
}

func (r hourRow) cell() (c *cell, err error) {
	c = newCell()
	if c.counts, err = decodeCounts(r.Counts); err != nil {
		return nil, err
	}
	c.latencies, err = decodeLatencies(r.Latencies)
	return c, err
}

// prune removes, once a day, the hours that are not kept any longer.
func (s *Service) prune(tx *gorm.DB) error {
	now := s.now()
	s.mu.Lock()
	due := now.Sub(s.pruned) >= pruneEvery
	if due {
		s.pruned = now
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	if err := tx.Where("hour < ?", now.Add(-s.cfg.Keep).UnixMicro()).Delete(&hourRow{}).Error; err != nil {
		return fmt.Errorf("remove old hours: %w", err)
	}
	return nil
}

// countedSince returns when counting began, which the migration has noted, in unix microseconds. Records of before are not counted, as most of them were not.
func (s *Service) countedSince(tx *gorm.DB) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == nil {
		var values []string
		if err := tx.Table("installation_settings").Where("name = ?", "sla_counted_since").Pluck("value", &values).Error; err != nil {
			return 0, err
		}
		since := int64(0)
		if len(values) > 0 {
			since, _ = strconv.ParseInt(values[0], 10, 64)
		}
		s.since = &since
	}
	return *s.since, nil
}

// each calls do with what is counted in the hours from a time until another for the tenants, models and classes that are asked for, in the order of time.
// Without withLatencies there are none. What cannot be read is given to unreadable, and is an error if that is nil.
func (s *Service) each(ctx context.Context, tx *gorm.DB, q Query, from, to time.Time, withLatencies bool, do func(key, *cell), unreadable func(key)) error {
	columns := []string{"hour", "tenant", "model", "class", "counts"}
	if withLatencies {
		columns = append(columns, "latencies")
	}
	find := tx.WithContext(ctx).Model(&hourRow{}).Select(columns).Where("hour >= ? AND hour < ?", hourOf(from.UnixMicro()), to.UnixMicro())
	for column, want := range map[string]string{"tenant": q.Tenant, "model": q.Model, "class": q.Class} {
		if want != "" {
			find = find.Where(column+" = ?", database.Text(want))
		}
	}
	rows, err := find.Order("hour, tenant, model, class").Rows()
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err says it
	for rows.Next() {
		r := hourRow{Latencies: []byte{form, 0, 0, 0}}
		to := []any{&r.Hour, &r.Tenant, &r.Model, &r.Class, &r.Counts}
		if withLatencies {
			to = append(to, &r.Latencies)
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		c, err := r.cell()
		if err != nil && unreadable != nil {
			unreadable(r.key())
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %s of %s", err, time.UnixMicro(r.Hour).UTC().Format(time.RFC3339), cmp.Or(r.Model, "no model"))
		}
		do(r.key(), c)
	}
	return rows.Err()
}
