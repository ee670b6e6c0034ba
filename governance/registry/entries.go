package registry

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
)

// Mark is what [Answers.Data] made of an answer, and the audit record that it is kept with.
type Mark struct {
	Tenant  string
	Record  string // its id
	Request string
	Subject string // digest of the person it was made for; "": nobody known
	Time    int64  // UTC unix microseconds
	Data    []byte
}

// entryRow is an alternative of an answer.
type entryRow struct {
	Tenant     string
	Number     int64
	Record     string
	Request    string
	Choice     int64
	Time       int64
	Subject    string
	Digest     []byte
	Characters int64
}

func (entryRow) TableName() string { return "registry_entries" }

func entryColumns() []string {
	return []string{"tenant", "number", "record", "request", "choice", "time", "subject", "digest", "characters"}
}

// segmentRow is a part of the index.
type segmentRow struct {
	ID      int64 `gorm:"autoIncrement:false"`
	Tenant  string
	State   string
	Level   int64
	First   int64
	Last    int64
	Entries int64
	Prints  int64
	Bits    int64
	Erased  int64
}

// The states of a segment.
const (
	live     = "live"
	building = "building"
	dead     = "dead"
)

func (segmentRow) TableName() string { return "registry_segments" }

func segmentColumns() []string {
	return []string{"id", "tenant", "state", "level", "first", "last", "entries", "prints", "bits", "erased"}
}

// blockRow is a block of a segment.
type blockRow struct {
	Segment int64
	Bucket  int64
	Tenant  string
	Data    []byte
}

func (blockRow) TableName() string { return "registry_blocks" }

// Keep adds answers in the transaction that stores their records. Those of a tenant that has left are passed over: their key is gone. Error: data that
// Answers has not made, and those of tx.
func (s *Service) Keep(tx *gorm.DB, marks []Mark) error {
	byTenant := map[string][]Mark{}
	var tenants []string
	for _, m := range marks {
		tenant := database.Text(m.Tenant)
		if byTenant[tenant] == nil {
			tenants = append(tenants, tenant)
		}
		byTenant[tenant] = append(byTenant[tenant], m)
	}
	slices.Sort(tenants) // two replicas must not lock each other out
	var fresh kept
	for _, tenant := range tenants {
		if err := s.keepOf(tx, tenant, byTenant[tenant], &fresh); err != nil {
			return fmt.Errorf("keep fingerprints: %w", err)
		}
	}
	if err := errors.Join(database.Insert(tx, fresh.entries, ""), database.Insert(tx, fresh.segments, ""), database.Insert(tx, fresh.blocks, "")); err != nil {
		return fmt.Errorf("keep fingerprints: %w", err)
	}
	return nil
}

// kept are the rows of new answers.
type kept struct {
	entries  []entryRow
	segments []segmentRow
	blocks   []blockRow
}

func (s *Service) keepOf(tx *gorm.DB, tenant string, marks []Mark, fresh *kept) error {
	var rows []entryRow
	var found []pair
	for _, m := range marks {
		all, err := decodePrints(m.Data)
		if err != nil {
			return err
		}
		for _, c := range all {
			for _, x := range c.Selected {
				found = append(found, pair{x, int64(len(rows))})
			}
			rows = append(rows, entryRow{
				Tenant: tenant, Record: database.Text(m.Record), Request: database.Text(m.Request), Choice: int64(c.choice), Time: m.Time,
				Subject: database.Text(m.Subject), Digest: c.Digest[:], Characters: int64(c.Characters),
			})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	first, err := s.take(tx, tenant, int64(len(rows)))
	if first == 0 || err != nil {
		return err
	}
	for i := range rows {
		rows[i].Number = first + int64(i)
	}
	seg := segmentRow{ID: segmentID(s.now()), Tenant: tenant, State: live, First: first, Last: first + int64(len(rows)) - 1, Entries: int64(len(rows))}
	s.metrics.entries.Add(float64(len(rows)))
	seg, blocks := smallSegment(seg, postingsOf(found, first))
	fresh.entries, fresh.segments, fresh.blocks = append(fresh.entries, rows...), append(fresh.segments, seg), append(fresh.blocks, blocks...)
	return nil
}

// take reserves n numbers of a tenant for its entries, and returns the first; 0 for a tenant without a key. Whoever else adds entries waits for tx, so
// that numbers become visible in their order.
func (s *Service) take(tx *gorm.DB, tenant string, n int64) (int64, error) {
	var next []int64
	if err := tx.Raw("UPDATE registry_tenants SET next = next + ? WHERE tenant = ? RETURNING next", n, tenant).Scan(&next).Error; err != nil {
		return 0, err
	}
	if len(next) == 0 {
		s.metrics.gone.Add(float64(n))
		return 0, nil
	}
	return next[0] - n, nil
}

// segmentID is a new id, later ones higher. Two that are equal, of two replicas in one microsecond, are refused by the key of the table, and the transaction comes again.
func segmentID(now time.Time) int64 { return now.UnixMicro()<<10 | rand.Int64N(1<<10) } //nolint:gosec // no secret

// pair is a fingerprint of an entry.
type pair struct {
	print uint64
	entry int64 // counted from the first
}

// postingsOf puts fingerprints in order.
func postingsOf(found []pair, first int64) []posting {
	slices.SortFunc(found, func(a, b pair) int { return cmp.Or(cmp.Compare(a.print, b.print), cmp.Compare(a.entry, b.entry)) })
	var out []posting
	for _, f := range found {
		if last := len(out) - 1; last < 0 || out[last].print != f.print {
			out = append(out, posting{print: f.print})
		}
		out[len(out)-1].add(1, []int64{first + f.entry})
	}
	return out
}

// smallSegment makes a segment at once.
func smallSegment(seg segmentRow, postings []posting) (segmentRow, []blockRow) {
	seg.Prints, seg.Bits = int64(len(postings)), bucketBits(int64(len(postings)))
	var blocks []blockRow
	for len(postings) > 0 {
		bucket := bucketOf(postings[0].print, seg.Bits)
		n := slices.IndexFunc(postings, func(p posting) bool { return bucketOf(p.print, seg.Bits) != bucket })
		if n < 0 {
			n = len(postings)
		}
		blocks = append(blocks, blockRow{seg.ID, bucket, seg.Tenant, encodeBlock(nil, postings[:n], bucket, seg.Bits, seg.First)})
		postings = postings[n:]
	}
	return seg, blocks
}

// deleteAtOnce is how many records one statement names.
const deleteAtOnce = 500

// Drop removes, in the transaction that removes records, what is kept with them.
func Drop(tx *gorm.DB, records []string) error {
	for part := range slices.Chunk(records, deleteAtOnce) {
		if err := tx.Where("record IN ?", part).Delete(&entryRow{}).Error; err != nil {
			return fmt.Errorf("remove entries of the registry: %w", err)
		}
	}
	return nil
}

// EraseSubject removes, in the transaction, all entries of answers that were made for a person of a tenant, and returns how many there were. SQLite overwrites them. Their
// fingerprints, which no longer say whose they are, go with the next [Service.Sweep] of the segments that have them.
func EraseSubject(tx *gorm.DB, tenant, subject string) (int64, error) {
	return erase(tx, database.Text(tenant), "e.subject = ?", database.Text(subject))
}

// secureDelete has SQLite overwrite what tx deletes.
func secureDelete(tx *gorm.DB) error {
	if !database.IsSQLite(tx) {
		return nil
	}
	return tx.Exec("PRAGMA secure_delete = ON").Error
}

// erase removes the entries e of a tenant for which a condition holds.
func erase(tx *gorm.DB, tenant, condition string, value any) (int64, error) {
	if err := secureDelete(tx); err != nil {
		return 0, err
	}
	// A merge that begins now waits, and sees what is gone; one that has begun is marked.
	if err := tx.Exec("UPDATE registry_tenants SET next = next WHERE tenant = ?", tenant).Error; err != nil {
		return 0, err
	}
	err := tx.Exec(`UPDATE registry_segments SET erased = 1 WHERE tenant = ? AND state <> ? AND EXISTS
		(SELECT 1 FROM registry_entries AS e WHERE e.tenant = ? AND `+condition+` AND e.number BETWEEN registry_segments.first AND registry_segments.last)`, tenant, dead, tenant, value).Error
	if err != nil {
		return 0, err
	}
	res := tx.Exec("DELETE FROM registry_entries AS e WHERE e.tenant = ? AND "+condition, tenant, value)
	return res.RowsAffected, res.Error
}
